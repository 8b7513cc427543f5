/* state_file.h - The state of a sequence in a file: tokens, keys and values, recurrent states.
 *
 * A file has the keys and values of positions [from, to) and the tokens [from, tokens); `from` is a
 * multiple of 16 and not 0 where other files have what comes before.  Recurrent states are those
 * after given numbers of tokens.  All numbers are little-endian.
 *
 *   header   sl_state_header
 *   states   sl_state_row, one for each state of the model that is kept
 *   lengths  u64, the tokens that each recurrent state includes, ascending
 *   parts    sl_state_part, in the order in which they follow, without gaps:
 *            tokens (i32), note (bytes of the caller), logits (f32 [vocab], or none), each
 * recurrent state, keys and values by pieces of piece_blocks blocks (slot.h)
 *
 * The header follows from the parts, so that a reader can tell every size before it reads.  The
 * checksum of the header covers everything before the parts' bytes, those of the parts the rest. */
#ifndef SL_ENGINE_SESSION_STATE_FILE_H
#define SL_ENGINE_SESSION_STATE_FILE_H
#include "engine/formats/file.h"
#include "engine/session/fingerprint.h"
#include "engine/session/forward.h"
#include "sluice/sluice.h"

#define SL_STATE_MAGIC "SLUICEKV"
enum {
    SL_STATE_VERSION = 1,
    SL_STATE_NAME_BYTES = 64,
    SL_STATE_MOST_ROWS = 16384,
    SL_STATE_MOST_LENGTHS = 4096,
    SL_STATE_MOST_NOTE = 256 << 20,
    SL_STATE_MOST_POSITIONS = 1 << 30,
    SL_STATE_LOGITS = 1, /* flags */
};

/* Of the tokens [0, n). */
typedef struct {
    uint64_t low, high;
} sl_tokens_hash;
sl_tokens_hash sl_tokens_hash_of(const sl_token *tokens, size_t count);

typedef struct {
    char magic[8];
    uint32_t version;
    uint32_t header_bytes; /* with rows, lengths and parts */
    uint64_t checksum;     /* XXH3-64 of what follows it, up to header_bytes */
    uint64_t file_bytes;
    sl_fingerprint fingerprint;
    uint64_t from, to, tokens;
    sl_tokens_hash before; /* of the tokens [0, from) */
    uint64_t note_bytes, block_bytes, recurrent_bytes;
    uint32_t vocab, flags, row_count, length_count, part_count, piece_blocks;
} sl_state_header;

typedef struct {
    char name[SL_STATE_NAME_BYTES];
    uint32_t kind, dtype;  /* sl_state_kind, sl_dtype */
    uint64_t heads, bytes; /* KV: of a head and block; recurrent: 1, of the whole */
} sl_state_row;

typedef struct {
    uint64_t bytes, checksum; /* XXH3-64 */
} sl_state_part;

/* ---- Writing ---- */

/* What is written, and where it comes from. */
typedef struct {
    const sl_forward *forward;
    const sl_fingerprint *fingerprint;
    uint32_t vocab;
    uint64_t from, to, token_count;
    const sl_token *tokens; /* all of them, from 0 */
    const void *note;
    uint64_t note_bytes;
    const float *logits; /* NULL: none */
    const uint64_t *lengths;
    uint32_t length_count;
    const int32_t *pages; /* of the KV cache that have the positions; NULL: they are elsewhere */
    /* Give the recurrent state of an index, and blocks by their numbers in the sequence; what a
     * last block has beyond `to` is cleared by the writer. */
    sl_status (*recurrent)(void *ctx, uint32_t index, void *out, sl_error *err);
    sl_status (*blocks)(void *ctx, uint64_t first, uint64_t count, void *out, sl_error *err);
    void *ctx;
} sl_state_content;
/* Bytes that the file will have. */
uint64_t sl_state_file_bytes(const sl_state_content *content);
/* Writes the file under a temporary name, syncs it and renames it. */
SL_CHECKED sl_status sl_state_file_write(const char *path, const sl_state_content *content,
                                         const sl_allocator *allocator, sl_error *err);

/* ---- Reading ---- */

typedef struct {
    const char *path; /* borrowed */
    sl_arena arena;
    sl_file file;
    sl_state_header header;
    const sl_state_row *rows;
    const uint64_t *lengths;
    const sl_state_part *parts;
    uint64_t *offsets; /* of the parts */
} sl_state_file;
/* Checks everything but the bytes of the parts.  Close the file even if this fails. */
SL_CHECKED sl_status sl_state_file_open(sl_state_file *file, const char *path,
                                        const sl_allocator *allocator, sl_error *err);
void sl_state_file_close(sl_state_file *file);
/* Whether it is of this model. */
SL_CHECKED sl_status sl_state_file_check(const sl_state_file *file, const sl_forward *forward,
                                         const sl_fingerprint *fingerprint, sl_error *err);

/* Read a part and compare its checksum.  Blocks: piece `index`, which begins with block
 * from / 16 + index * piece_blocks; returns how many blocks it has. */
SL_CHECKED sl_status sl_state_file_tokens(const sl_state_file *file, sl_token *out, sl_error *err);
SL_CHECKED sl_status sl_state_file_note(const sl_state_file *file, void *out, sl_error *err);
SL_CHECKED sl_status sl_state_file_logits(const sl_state_file *file, float *out, sl_error *err);
SL_CHECKED sl_status sl_state_file_recurrent(const sl_state_file *file, uint32_t index, void *out,
                                             sl_error *err);
uint32_t sl_state_file_pieces(const sl_state_file *file);
uint64_t sl_state_file_piece_blocks(const sl_state_file *file, uint32_t index);
SL_CHECKED sl_status sl_state_file_piece(const sl_state_file *file, uint32_t index, void *out,
                                         sl_error *err);
#endif
