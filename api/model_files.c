/* model_files.c - What the files of a model say of it (sluice/model_files.h). */
#include "api/needs.h"
#include "base/structs.h"
#include "engine/models/summary.h"

sl_status sl_model_files_summary(const char *path, sl_model_summary *out, sl_error *err) {
    SL_NEED(path && out);
    SL_TRY(SL_STRUCT_CHECK(sl_model_summary, out, err));
    sl_model_summary summary;
    SL_TRY(sl_model_summarise(path, NULL, &summary, err));
    SL_STRUCT_GIVE(sl_model_summary, out, &summary);
    return SL_OK;
}
