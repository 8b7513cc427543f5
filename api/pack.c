/* pack.c - Writing and verifying packs (sluice/sluice.h). */
#include "engine/formats/pack.h"
#include "api/needs.h"
#include "base/structs.h"
#include "engine/convert/convert.h"

sl_status sl_pack_write(const char *source, const char *destination, const sl_pack_options *given,
                        sl_error *err) {
    SL_NEED(source && destination);
    sl_pack_options options = {0};
    SL_TRY(SL_STRUCT_TAKE(sl_pack_options, &options, given, err));
    return sl_convert(source, destination, &options, err);
}

sl_status sl_synth_write(const char *shape, const char *destination, const sl_synth_options *given,
                         sl_error *err) {
    SL_NEED(shape && destination);
    sl_synth_options options = {0};
    SL_TRY(SL_STRUCT_TAKE(sl_synth_options, &options, given, err));
    return sl_synthesise(shape, destination, &options, err);
}

sl_status sl_synth_describe(const char *shape, const sl_synth_options *given, sl_model_info *out,
                            sl_error *err) {
    SL_NEED(shape && out);
    sl_synth_options options = {0};
    sl_model_info info;
    SL_TRY(SL_STRUCT_TAKE(sl_synth_options, &options, given, err));
    SL_TRY(SL_STRUCT_CHECK(sl_model_info, out, err));
    SL_TRY(sl_synth_plan(shape, &options, &info, err));
    SL_STRUCT_GIVE(sl_model_info, out, &info);
    return SL_OK;
}

sl_status sl_pack_verify(const char *path, sl_progress_fn *progress, void *progress_ctx,
                         sl_error *err) {
    SL_NEED(path);
    return sl_pack_check(path, progress, progress_ctx, err);
}
