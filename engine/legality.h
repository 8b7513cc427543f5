/* legality.h - Compile options for bare graphs. */
#ifndef SL_ENGINE_LEGALITY_H
#define SL_ENGINE_LEGALITY_H
#include "compiler/compile.h"

/* The compile options for a target; models have further ones (session/how.h).  NULL: a device that
 * supports every op. */
sl_compile_how sl_how_for(const sl_target *target);
#endif
