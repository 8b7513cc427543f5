/* source_internal.h - The part of a source that format readers fill in.  Everything except mappings
 * lives in the source's arena; sl_source_close releases all of it, also after a failed open. */
#ifndef SL_ENGINE_FORMATS_SOURCE_INTERNAL_H
#define SL_ENGINE_FORMATS_SOURCE_INTERNAL_H
#include "engine/formats/file.h"
#include "engine/formats/safetensors.h"
#include "engine/formats/source.h"

enum { SL_MAX_TEXT_BYTES = 64 << 20 };

typedef struct {
    const char *path;
    sl_file_map map;
} sl_source_file;

typedef struct sl_source_text_entry {
    const struct sl_source_text_entry *next;
    const char *name, *text;
    size_t bytes;
} sl_source_text_entry;

/* A converter that belongs to this source. */
typedef struct sl_source_form {
    const struct sl_source_form *next;
    const sl_tensor_form *form;
} sl_source_form;

struct sl_source {
    sl_allocator allocator;
    sl_arena arena;
    const char *format;
    sl_source_file *files;
    uint32_t file_count;

    sl_tensor_entry *tensors;
    const void **mapped; /* [tensor_count]; NULL until checked and aligned */
    bool *asked;         /* [tensor_count]: sl_source_mark_used */
    uint32_t tensor_count;
    sl_safetensors_skipped *skipped;
    uint32_t skipped_count;
    /* Open-addressed hash of names.  A slot holds 1 + id, or 0; ids below tensor_count are
     * tensors, the rest are skipped ones. */
    uint32_t *slots;
    uint64_t slot_mask;

    const sl_expert_blocks **layers; /* [layer_count]; NULL for a layer without experts */
    uint32_t layer_count;
    const sl_source_text_entry *texts;
    const sl_source_form *forms;
};

/* Reserves memory for count files; maps one file. */
SL_CHECKED sl_status sl_source_set_files(sl_source *source, uint32_t count, sl_error *err);
SL_CHECKED sl_status sl_source_map_file(sl_source *source, uint32_t file, const char *path,
                                        sl_error *err);
/* Reserves memory for tensors and skipped tensors. */
SL_CHECKED sl_status sl_source_set_tensors(sl_source *source, uint32_t count,
                                           uint32_t skipped_count, sl_error *err);
/* Builds the hash table; fails if a name occurs twice. */
SL_CHECKED sl_status sl_source_index_names(sl_source *source, sl_error *err);
/* name and text are borrowed and live in the arena. */
SL_CHECKED sl_status sl_source_add_text(sl_source *source, const char *name, const char *text,
                                        size_t bytes, sl_error *err);

SL_CHECKED sl_status sl_source_open_huggingface(sl_source *source, const char *folder,
                                                sl_error *err);
SL_CHECKED sl_status sl_source_open_pack(sl_source *source, const char *path, sl_error *err);
SL_CHECKED sl_status sl_source_open_gguf(sl_source *source, const char *path, sl_error *err);
#endif
