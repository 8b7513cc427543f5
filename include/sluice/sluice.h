/* sluice.h - Run Mixture-of-Experts language models larger than memory.
 *
 * A model may be shared by threads; a session is one conversation and belongs to one thread at a
 * time.  In options, zero means "default" and fields are only ever appended; struct_size is
 * sizeof the struct.  What can fail returns sl_status and explains itself in err unless NULL.
 * Nothing here prints, exits, or reads the environment. */
#ifndef SLUICE_H
#define SLUICE_H
#include "sluice/status.h"
#ifdef __cplusplus
extern "C" {
#endif

#define SL_VERSION "0.1.0"
SL_API const char *sl_version(void);

typedef int32_t sl_token;
typedef struct sl_model sl_model;     /* weights, compiled programs, expert cache */
typedef struct sl_session sl_session; /* the state of one conversation */

/* Progress of long work: done of total units (bytes or tokens).  Return nonzero to stop. */
typedef int sl_progress_fn(void *ctx, const char *what, uint64_t done, uint64_t total);

typedef struct {
    size_t struct_size;
    const char *device;           /* "cpu", "cuda", or "ref": double precision, slow; default: cuda
                                   * where the machine has it, else cpu */
    uint64_t expert_budget_bytes; /* memory for streamed experts; 0: all of them, or half of the
                                   * free memory when they would take more */
    double expert_budget_share;   /* the same as a share of all experts' bytes, 0 < share <= 1 */
    uint32_t threads;             /* default: one per core */
    const char *isa;              /* "baseline", "avx2", "avx512", "neon"; default: the best */
    const char *reader;           /* "io_uring" or "threads"; default: the best present */
    uint32_t max_sessions;        /* sequences with state at the same time; default 1 */
    uint32_t context_tokens;      /* per session; default: the model's, at most 4096 */
    sl_allocator allocator;       /* default: the C library's */
    const char *compile;          /* words of inspect.h; default: "", levels and all that gains */
    int pin_threads;              /* nonzero: each thread but the caller's stays on one core */
    const char *kv;               /* cached keys and values: "i16", "f16", "f32" or "auto" */
    sl_progress_fn *progress;     /* of loading resident weights, in bytes */
    void *progress_ctx;
    uint64_t
        device_budget_bytes; /* of a GPU's memory, for experts; 0: all of them, or what is free */
    double device_budget_share; /* the same as a share of all experts' bytes, 0 < share <= 1 */
} sl_model_options;

/* path: a Hugging Face or MLX folder, a sluice pack or a GGUF file. */
SL_CHECKED sl_status sl_model_open(const char *path, const sl_model_options *options,
                                   sl_model **out, sl_error *err);
SL_API void sl_model_close(sl_model *model); /* after its sessions; NULL is fine */

typedef struct {
    const char *architecture, *format, *device, *isa, *reader;
    uint32_t vocab, hidden, layers, full_attention_layers, experts, experts_used;
    uint32_t context_tokens, max_context_tokens, threads;
    uint64_t parameters, resident_bytes, expert_bytes, expert_count, file_bytes;
    uint64_t state_bytes, workspace_bytes, budget_bytes, slot_count, slot_bytes;
    uint64_t minimum_budget_bytes; /* the smallest budget for experts */
    const char *resident_dtype, *expert_dtype;
    const char *note; /* one line on what of the model's files is not used; NULL: all of it is */
    const char *device_name; /* of a GPU, else "" */
    uint64_t device_bytes;   /* of its memory, taken: weights, states, workspace and experts */
    uint64_t device_slot_count, device_expert_bytes;
    uint32_t chunk_tokens; /* of a prefill step, unless a session says otherwise */
    /* What opening took: headers and config; device and expert slots; resident weights, with
     * compiling the first program; tokenizer and template. */
    double files_seconds, memory_seconds, weights_seconds, text_seconds;
} sl_model_info;
SL_API sl_model_info sl_model_describe(const sl_model *model);

/* Text.  Count is what the text needs even if it exceeds capacity. */
SL_CHECKED sl_status sl_model_tokenize(const sl_model *model, const char *text, size_t bytes,
                                       sl_token *tokens, size_t capacity, size_t *out_count,
                                       sl_error *err);
/* Bytes of a token, borrowed from the model, not NUL-terminated. */
SL_API const char *sl_model_token_text(const sl_model *model, sl_token token, size_t *out_bytes);
/* How many spaces at the front of a decoded text are not part of it: encoding had put them there.
 */
SL_API size_t sl_model_strip_start(const sl_model *model);
/* The tokens that belong before a text which no chat template has framed; borrowed. */
SL_API size_t sl_model_begin_tokens(const sl_model *model, const sl_token **out);
SL_API int sl_model_token_ends(const sl_model *model, sl_token token); /* ends an answer */
SL_API int sl_model_token_special(const sl_model *model, sl_token token);

/* A tokenizer alone, from a folder that holds tokenizer.json or from any model path. */
typedef struct sl_vocabulary sl_vocabulary;
SL_CHECKED sl_status sl_vocabulary_open(const char *path, sl_vocabulary **out, sl_error *err);
SL_API void sl_vocabulary_close(sl_vocabulary *vocabulary);
SL_CHECKED sl_status sl_vocabulary_encode(const sl_vocabulary *vocabulary, const char *text,
                                          size_t bytes, sl_token *tokens, size_t capacity,
                                          size_t *out_count, sl_error *err);
SL_API const char *sl_vocabulary_text(const sl_vocabulary *vocabulary, sl_token token,
                                      size_t *out_bytes);

/* The model's chat template over a JSON object {"messages": [{"role","content"}...],
 * "add_generation_prompt": true, ...}.  *out_text is released with sl_text_free. */
SL_CHECKED sl_status sl_model_render_chat(const sl_model *model, const char *variables_json,
                                          char **out_text, sl_error *err);
SL_API void sl_text_free(char *text);

/* Streaming output that never shows half a character.  out needs 3 * (count + 4) bytes; both
 * return the bytes written. */
typedef struct {
    char pending[4];
    uint32_t count;
} sl_text_stream;
SL_API size_t sl_text_stream_push(sl_text_stream *stream, const char *bytes, size_t count,
                                  char *out);
SL_API size_t sl_text_stream_finish(sl_text_stream *stream, char *out);

typedef struct {
    size_t struct_size;
    uint32_t chunk_tokens; /* most tokens per prefill step; default 256, on a GPU 2048 */
} sl_session_options;
SL_CHECKED sl_status sl_session_create(sl_model *model, const sl_session_options *options,
                                       sl_session **out, sl_error *err);
SL_API void sl_session_destroy(sl_session *session);

/* Appends tokens and computes the logits after the last one. */
SL_CHECKED sl_status sl_session_extend(sl_session *session, const sl_token *tokens, size_t count,
                                       sl_error *err);
/* The same, with the logits after every token: out_logits[count * vocab].  Optional hidden: the
 * residual stream after the final norm, out_hidden[count * hidden]. */
SL_CHECKED sl_status sl_session_extend_all(sl_session *session, const sl_token *tokens,
                                           size_t count, float *out_logits, float *out_hidden,
                                           sl_error *err);
/* Borrowed until the next call on this session; NULL before the first extend and after
 * sl_session_next. */
SL_API const float *sl_session_logits(const sl_session *session, size_t *out_count);
SL_API size_t sl_session_length(const sl_session *session);
/* Forgets everything after the first length tokens. */
SL_CHECKED sl_status sl_session_rewind(sl_session *session, size_t length, sl_error *err);
/* Makes the running call return SL_CANCELLED between steps; the session keeps the tokens it has
 * finished.  When no call is running it stops the next one.  The one call allowed from another
 * thread or a signal handler. */
SL_API void sl_session_cancel(sl_session *session);

typedef struct {
    float temperature;  /* 0: greedy */
    float top_p, min_p; /* 0: off */
    uint32_t top_k;     /* 0: off */
    uint64_t seed;      /* of the first token; later ones continue its stream */
} sl_sampling;
/* generation defaults of the model, greedy when it has none */
SL_API sl_sampling sl_model_sampling(const sl_model *model);
/* A token that may follow; the session stays as it is. */
SL_CHECKED sl_status sl_session_sample(sl_session *session, const sl_sampling *how, sl_token *out,
                                       sl_error *err);
/* The same token, which the session is extended with.  It is computed while the caller looks at it,
 * or when the next one is asked for: until then there are no logits. */
SL_CHECKED sl_status sl_session_next(sl_session *session, const sl_sampling *how, sl_token *out,
                                     sl_error *err);

typedef struct {
    uint64_t expert_hits, expert_misses, bytes_read;
    double read_seconds, stall_seconds;
    uint64_t prefill_tokens, decode_tokens;
    double prefill_seconds, decode_seconds;
    double first_seconds; /* of the first tokens given, programs compiled for them included */
    uint64_t programs_compiled;
    double compile_seconds; /* of all programs: what follows, and binding */
    double build_seconds, fuse_seconds, lower_seconds, schedule_seconds, plan_seconds, load_seconds;
    uint64_t device_hits, device_misses; /* experts found, or not, in a GPU's memory */
    uint64_t device_bytes_copied;        /* of experts, to it */
    uint64_t device_runs;                /* of a GPU: steps so far, */
    double launch_seconds;               /* and the host's time for giving it their work */
} sl_stats;
SL_API sl_stats sl_session_stats(const sl_session *session);

typedef struct {
    size_t struct_size;
    const char *quant; /* "q4" (default), "q6", "q8", or "none": types as they are */
    uint32_t threads;
    sl_progress_fn *progress;
    void *progress_ctx;
} sl_pack_options;
/* Writes source, a model in any other format, as a pack; nothing is left behind on failure. */
SL_CHECKED sl_status sl_pack_write(const char *source, const char *destination,
                                   const sl_pack_options *options, sl_error *err);
/* Reads all of a pack; fails with the first part whose bytes do not match their checksum. */
SL_CHECKED sl_status sl_pack_verify(const char *path, sl_progress_fn *progress, void *progress_ctx,
                                    sl_error *err);

typedef struct {
    size_t struct_size;
    uint32_t layers, experts, vocab; /* default: the shape's */
    const char *quant;               /* "q4" (default), "q8", "none": bf16 */
    uint64_t seed;                   /* the same bytes for the same seed */
    sl_progress_fn *progress;
    void *progress_ctx;
} sl_synth_options;
/* Writes a pack of random weights, without a tokenizer, for measuring and testing.  shape: a name
 * like "qwen3.5-35b-a3b" (the message for an unknown one lists them all), or the path of a
 * config.json.  Nothing is left behind on failure. */
SL_CHECKED sl_status sl_synth_write(const char *shape, const char *destination,
                                    const sl_synth_options *options, sl_error *err);

#ifdef __cplusplus
}
#endif
#endif
