/* pack.h - The sluice pack: one file that holds a model ready to run.
 *
 *   header   4096 bytes: magic "SLUICEPK", u32 version, u32 zero, u64 manifest offset,
 *            u64 manifest bytes, u64 manifest XXH3-64; little-endian
 *   texts, resident tensors (64-byte aligned each, the region page-aligned and contiguous so that
 *            it can be mapped), expert blocks (4096-byte aligned, one per expert)
 *   manifest JSON: texts, tensors, experts, with offsets, types and checksums
 *
 * docs/pack.md is the full description. */
#ifndef SL_ENGINE_FORMATS_PACK_H
#define SL_ENGINE_FORMATS_PACK_H
#include "engine/formats/source.h"
#include "sluice/sluice.h"

#define SL_PACK_MAGIC "SLUICEPK"
enum {
    SL_PACK_VERSION = 2,
    SL_PACK_HEADER_BYTES = 4096,
    SL_PACK_ALIGN = 64,         /* texts, tensors, and matrices within a block */
    SL_PACK_BLOCK_ALIGN = 4096, /* expert blocks and their size */
    SL_PACK_MAX_LAYERS = 4096,
};

/* The start of the file as stored: little-endian, zeros up to SL_PACK_HEADER_BYTES. */
typedef struct {
    char magic[8];
    uint32_t version, zero;
    uint64_t manifest_offset, manifest_bytes, manifest_checksum;
} sl_pack_header;

typedef struct sl_pack_writer sl_pack_writer;

/* Creates path under a temporary name in the same folder. */
SL_CHECKED sl_status sl_pack_writer_create(const char *path, const sl_allocator *allocator,
                                           sl_pack_writer **out, sl_error *err);
/* Texts, under any name, must be written before the first experts. */
SL_CHECKED sl_status sl_pack_writer_text(sl_pack_writer *writer, const char *name, const char *text,
                                         uint64_t bytes, sl_error *err);
/* Resident tensors must be written before the first experts: begin, any number of pieces that add
 * up to the type's bytes, end. */
SL_CHECKED sl_status sl_pack_writer_begin(sl_pack_writer *writer, const char *name, sl_type type,
                                          sl_error *err);
SL_CHECKED sl_status sl_pack_writer_piece(sl_pack_writer *writer, const void *data, uint64_t bytes,
                                          sl_error *err);
SL_CHECKED sl_status sl_pack_writer_end(sl_pack_writer *writer, sl_error *err);
/* Starts a layer's experts (types of one expert's gate, up and down); then one call per expert, in
 * order. */
SL_CHECKED sl_status sl_pack_writer_layer(sl_pack_writer *writer, uint32_t layer, uint32_t count,
                                          const sl_type matrices[3], sl_error *err);
SL_CHECKED sl_status sl_pack_writer_expert(sl_pack_writer *writer, const void *const matrices[3],
                                           sl_error *err);
/* Writes manifest and header, syncs and renames. */
SL_CHECKED sl_status sl_pack_writer_finish(sl_pack_writer *writer, sl_error *err);
/* Releases the writer; removes the temporary file unless finished.  NULL is allowed. */
void sl_pack_writer_destroy(sl_pack_writer *writer);

/* Implements sl_pack_verify. */
SL_CHECKED sl_status sl_pack_check(const char *path, sl_progress_fn *progress, void *progress_ctx,
                                   sl_error *err);
#endif
