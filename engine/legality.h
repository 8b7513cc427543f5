/* legality.h - Devices by name, as the compiler sees them. */
#ifndef SL_ENGINE_LEGALITY_H
#define SL_ENGINE_LEGALITY_H
#include "compiler/compile.h"

/* NULL for the devices that run every op, or none. */
SL_CHECKED sl_status sl_find_target(const char *device, const sl_target **out, sl_error *err);
/* How bare graphs are compiled for it. */
sl_compile_how sl_how_for(const sl_target *target);
#endif
