/* convert.h - Makes packs: of a model in another format, or of random weights. */
#ifndef SL_ENGINE_CONVERT_CONVERT_H
#define SL_ENGINE_CONVERT_CONVERT_H
#include "sluice/sluice.h"

/* The options of both are complete (api/pack.c). */

/* As sl_pack_write. */
SL_CHECKED sl_status sl_convert(const char *source, const char *destination,
                                const sl_pack_options *options, sl_error *err);
/* As sl_synth_write. */
SL_CHECKED sl_status sl_synthesise(const char *shape, const char *destination,
                                   const sl_synth_options *options, sl_error *err);
/* As sl_synth_describe. */
SL_CHECKED sl_status sl_synth_plan(const char *shape, const sl_synth_options *options,
                                   sl_model_info *out, sl_error *err);
#endif
