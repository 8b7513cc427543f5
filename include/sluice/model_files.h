/* model_files.h - What the files of a model say of it, without opening the model.  Experimental:
 * see experimental.h. */
#ifndef SLUICE_MODEL_FILES_H
#define SLUICE_MODEL_FILES_H
#include "sluice/sluice.h"
#ifdef __cplusplus
extern "C" {
#endif

enum { SL_MODEL_TYPE_BYTES = 64, SL_MODEL_PROBLEM_BYTES = 512 };

/* What is not known is zero or "". */
typedef struct {
    size_t struct_size;                     /* set by the caller */
    const char *format;                     /* constant: "safetensors", "pack", "gguf" */
    char architecture[SL_MODEL_TYPE_BYTES]; /* model_type */
    char problem[SL_MODEL_PROBLEM_BYTES];   /* why the model cannot be opened; "": it can */
    uint32_t layers, experts, experts_used, max_context_tokens;
    uint64_t parameters;         /* all of them */
    uint64_t file_bytes;         /* of all files with tensors */
    uint64_t resident_bytes;     /* weights that stay in memory */
    uint64_t expert_bytes;       /* of all experts, in memory */
    uint64_t least_expert_bytes; /* of the experts that one token uses in one layer: without room
                                  * for them the model cannot run */
} sl_model_summary;

/* Reads the headers of a model's files: names and types of tensors, and texts; no weights.  path:
 * as in sl_model_open.  Files that are missing, damaged or of an unknown architecture are no
 * failure of the call but a problem in *out. */
SL_API SL_CHECKED sl_status sl_model_files_summary(const char *path, sl_model_summary *out,
                                                   sl_error *err);

#ifdef __cplusplus
}
#endif
#endif
