/* sampling.h - Options for sampling, as a caller gives them. */
#ifndef SL_API_SAMPLING_H
#define SL_API_SAMPLING_H
#include "sluice/sluice.h"

/* Copies and checks them. */
SL_CHECKED sl_status sl_sampling_take(const sl_sampling *given, sl_sampling *out, sl_error *err);
#endif
