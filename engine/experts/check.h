/* check.h - Whether a table of experts is one that a store can rely on. */
#ifndef SL_ENGINE_EXPERTS_CHECK_H
#define SL_ENGINE_EXPERTS_CHECK_H
#include "engine/experts/table.h"

/* Numbers of layers and experts, the parts of each expert, and its matrices within them. */
SL_CHECKED sl_status sl_expert_table_check(const sl_expert_table *table, sl_error *err);
#endif
