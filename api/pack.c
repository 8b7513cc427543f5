/* pack.c - Writing and verifying packs (sluice/sluice.h). */
#include "engine/formats/pack.h"
#include "api/needs.h"
#include "api/options.h"
#include "engine/convert/convert.h"

sl_status sl_pack_write(const char *source, const char *destination, const sl_pack_options *given,
                        sl_error *err) {
    SL_NEED(source && destination);
    sl_pack_options options = {0};
    sl_options_copy(&options, sizeof options, given);
    return sl_convert(source, destination, &options, err);
}

sl_status sl_synth_write(const char *shape, const char *destination, const sl_synth_options *given,
                         sl_error *err) {
    SL_NEED(shape && destination);
    sl_synth_options options = {0};
    sl_options_copy(&options, sizeof options, given);
    return sl_synthesise(shape, destination, &options, err);
}

sl_status sl_synth_describe(const char *shape, const sl_synth_options *given, sl_model_info *out,
                            sl_error *err) {
    sl_synth_options options = {0};
    sl_options_copy(&options, sizeof options, given);
    return sl_synth_plan(shape, &options, out, err);
}

sl_status sl_pack_verify(const char *path, sl_progress_fn *progress, void *progress_ctx,
                         sl_error *err) {
    SL_NEED(path);
    return sl_pack_check(path, progress, progress_ctx, err);
}
