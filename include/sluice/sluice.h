/* sluice.h - Run Mixture-of-Experts language models larger than memory.
 *
 * A model may be shared by several threads.  A session is one conversation and may be used by one
 * thread at a time.  In structs that begin with struct_size, set it to the sizeof of the struct; a
 * field of options that is zero means "default" (status.h has the whole rule).  Functions that can
 * fail return sl_status and write a message to err unless err is NULL.  A pointer may be NULL where
 * it is said here; options and err always may, and so may what is to be closed, destroyed or freed.
 * Any other NULL gives SL_INVALID, or from a function without a status the result "nothing": zero,
 * an empty text.  No function prints, exits, or reads the environment. */
#ifndef SLUICE_H
#define SLUICE_H
#include "sluice/status.h"
#ifdef __cplusplus
extern "C" {
#endif

#define SL_VERSION        "0.2.0"
#define SL_VERSION_MAJOR  0
#define SL_VERSION_MINOR  2
#define SL_VERSION_PATCH  0
#define SL_VERSION_NUMBER (SL_VERSION_MAJOR * 10000 + SL_VERSION_MINOR * 100 + SL_VERSION_PATCH)
/* SL_VERSION of the library that runs, which may be newer than this header. */
SL_API const char *sl_version(void);

typedef int32_t sl_token;
typedef struct sl_model sl_model;     /* weights, compiled programs, expert cache */
typedef struct sl_session sl_session; /* the state of one conversation (sequence) */

/* Progress callback of long operations: done of total units (bytes or tokens).  Return nonzero to
 * cancel. */
typedef int sl_progress_fn(void *ctx, const char *what, uint64_t done, uint64_t total);

/* A device that models and graphs run on. */
typedef struct {
    size_t struct_size;         /* set by the caller */
    const char *name, *summary; /* constant */
    int runs_models;            /* 0: for graphs only */
} sl_device_item;
/* The devices that this build knows, in order; index is less than the count. */
SL_API uint32_t sl_device_count(void);
SL_API SL_CHECKED sl_status sl_device_at(uint32_t index, sl_device_item *out, sl_error *err);

typedef struct {
    size_t struct_size;
    const char *device;           /* a name of sl_device_at; default or "auto": a GPU that works,
                                   * else "cpu" */
    uint64_t expert_budget_bytes; /* memory for experts; 0: all of them if they fit, otherwise half
                                   * of what everything else leaves free (nearly all of it within
                                   * the limit of a control group) */
    double
        expert_budget_share;  /* the same as a share of the bytes of all experts, 0 < share <= 1 */
    uint32_t threads;         /* default: one per core */
    const char *isa;          /* "baseline", "avx2", "avx512", "neon"; default: the best */
    const char *reader;       /* "io_uring" or "threads"; default: the best available */
    uint32_t max_sessions;    /* maximum number of sessions at the same time; default 1 */
    uint32_t context_tokens;  /* per session; default: the model's, at most 4096, and less (with a
                               * note) if memory does not suffice */
    sl_allocator allocator;   /* default: the C library's */
    const char *compile;      /* compile options of inspect.h; default: "", all optimisations */
    int pin_threads;          /* nonzero: pin each thread except the caller's to a core */
    const char *kv;           /* element type of the KV cache: "i16", "f16", "f32" or "auto" */
    sl_progress_fn *progress; /* called while resident weights are loaded, in bytes */
    void *progress_ctx;
    uint64_t device_budget_bytes; /* GPU memory for experts; 0: all of them, or the free memory */
    double
        device_budget_share; /* the same as a share of the bytes of all experts, 0 < share <= 1 */
    uint64_t prefix_cache_bytes; /* memory for prefixes of conversations, which sl_session_sync of
                                  * sessions.h uses; default: none */
    uint32_t draft_tokens;       /* most tokens of sl_session_draft of sessions.h, at most 64;
                                  * default: there are no drafts */
    int deterministic;           /* nonzero: logits are the same bits whatever else is in a pass:
                                  * other sequences, other parts of the prompt.  A GPU is slower so
                                  * (docs/cuda.md); on the CPU it is always so */
    uint64_t kv_bytes; /* memory for keys and values, which all sessions share; default: as much as
                        * max_sessions take at full context.  With less, a session for which none is
                        * left fails with SL_NO_MEMORY.  It holds one full context at least: a
                        * default one is lowered to what it holds */
} sl_model_options;

/* path: a Hugging Face or MLX folder, a sluice pack or a GGUF file.  Options and their texts are
 * copied; the allocator must outlive the model. */
SL_API SL_CHECKED sl_status sl_model_open(const char *path, const sl_model_options *options,
                                          sl_model **out, sl_error *err);
SL_API void sl_model_close(sl_model *model); /* destroy its sessions first; NULL is allowed */

typedef struct {
    size_t struct_size; /* set by the caller */
    /* Texts are borrowed from the model. */
    const char *architecture, *format, *device, *isa, *reader;
    uint32_t vocab, hidden, layers, full_attention_layers, experts, experts_used;
    uint32_t context_tokens, max_context_tokens, threads;
    uint64_t parameters, resident_bytes, expert_bytes, expert_count, file_bytes;
    uint64_t state_bytes, workspace_bytes, budget_bytes, slot_count, slot_bytes;
    uint64_t minimum_budget_bytes; /* the smallest possible budget for experts */
    const char *resident_dtype, *expert_dtype;
    const char *note; /* one line about what is ignored: parts of the model files, a GPU that is
                       * present but failed to open, options without effect; NULL: nothing */
    const char *device_name; /* name of the GPU, else "" */
    uint64_t device_bytes;   /* GPU memory in use: weights, states, workspace and experts */
    uint64_t device_slot_count, device_expert_bytes;
    uint32_t
        chunk_tokens; /* tokens per forward pass in prefill, unless a session sets another number */
    /* Time that opening took: headers and config; device, compilation of the first programs and
     * expert slots; resident weights; tokenizer and chat template. */
    double files_seconds, memory_seconds, weights_seconds, text_seconds;
    uint64_t active_parameters; /* those that one token uses */
} sl_model_info;
SL_API SL_CHECKED sl_status sl_model_describe(const sl_model *model, sl_model_info *out,
                                              sl_error *err);

/* Host memory of an open model in bytes.  Every part is counted at its largest, also what is
 * allocated later: the process stays below promised_bytes, page cache included. */
typedef struct {
    size_t struct_size;        /* set by the caller */
    uint64_t weight_bytes;     /* resident weights */
    uint64_t expert_bytes;     /* the expert budget in use */
    uint64_t state_bytes;      /* KV cache and recurrent state of all sessions at full context */
    uint64_t checkpoint_bytes; /* copies of recurrent state that rewinding starts from */
    uint64_t session_bytes;    /* tokens, logits and sampling of all sessions */
    uint64_t workspace_bytes;  /* activations of the largest forward pass, scratch of kernels */
    uint64_t program_bytes;    /* compiled programs, and compiling them */
    uint64_t text_bytes;       /* tokenizer and chat template */
    uint64_t file_bytes;       /* headers and texts of the model files */
    uint64_t loading_bytes;    /* conversion of weights, beyond what the other parts leave unused */
    uint64_t process_bytes;    /* code, libraries, threads, page tables */
    uint64_t promised_bytes;   /* the sum of the above */
    uint64_t machine_left_bytes, group_left_bytes; /* free on this machine, and within the limits of
                                                    * control groups; UINT64_MAX: no limit */
    uint64_t prefix_bytes; /* a part as those above: prefix_cache_bytes of the options */
} sl_memory_use;
SL_API SL_CHECKED sl_status sl_model_memory(const sl_model *model, sl_memory_use *out,
                                            sl_error *err);

/* Tokenizes a text, in which special tokens (<|im_end|>) are recognised.  *out_count is the number
 * of tokens of the whole text, even if it exceeds capacity. */
SL_API SL_CHECKED sl_status sl_model_tokenize(const sl_model *model, const char *text, size_t bytes,
                                              sl_token *tokens, size_t capacity, size_t *out_count,
                                              sl_error *err);
/* The bytes of a token, borrowed from the model, not NUL-terminated. */
SL_API const char *sl_model_token_text(const sl_model *model, sl_token token, size_t *out_bytes);
/* Number of leading spaces to remove from a decoded text, because the tokenizer adds them when it
 * encodes.
 */
SL_API size_t sl_model_strip_start(const sl_model *model);
/* The tokens to put before a text that is used without a chat template (BOS); borrowed. */
SL_API size_t sl_model_begin_tokens(const sl_model *model, const sl_token **out);
SL_API int sl_model_token_ends(const sl_model *model, sl_token token); /* end of generation */
SL_API int sl_model_token_special(const sl_model *model, sl_token token);

/* A tokenizer without a model, from a folder with tokenizer.json or from any model path. */
typedef struct sl_vocabulary sl_vocabulary;
SL_API SL_CHECKED sl_status sl_vocabulary_open(const char *path, sl_vocabulary **out,
                                               sl_error *err);
SL_API void sl_vocabulary_close(sl_vocabulary *vocabulary); /* NULL is fine */
/* As sl_model_tokenize. */
SL_API SL_CHECKED sl_status sl_vocabulary_encode(const sl_vocabulary *vocabulary, const char *text,
                                                 size_t bytes, sl_token *tokens, size_t capacity,
                                                 size_t *out_count, sl_error *err);
/* The same, but special tokens in the text are encoded as ordinary text. */
SL_API SL_CHECKED sl_status sl_vocabulary_encode_plain(const sl_vocabulary *vocabulary,
                                                       const char *text, size_t bytes,
                                                       sl_token *tokens, size_t capacity,
                                                       size_t *out_count, sl_error *err);
/* The tokens to put before a text (BOS); borrowed. */
SL_API size_t sl_vocabulary_begin_tokens(const sl_vocabulary *vocabulary, const sl_token **out);
SL_API uint32_t sl_vocabulary_size(const sl_vocabulary *vocabulary); /* highest id + 1 */
/* The bytes of a token, borrowed, not NUL-terminated; out_bytes: how many. */
SL_API const char *sl_vocabulary_text(const sl_vocabulary *vocabulary, sl_token token,
                                      size_t *out_bytes);

typedef struct {
    size_t struct_size;
    sl_progress_fn *progress; /* called while the template runs, in steps of its evaluation */
    void *progress_ctx;
} sl_render_options;
/* Renders the model's chat template with the variables of a JSON object {"messages":
 * [{"role","content"}...], "add_generation_prompt": true, ...}.  *out_text is released with
 * sl_free.  SL_UNSUPPORTED: the model has no chat template; SL_FORMAT: it does not parse. */
SL_API SL_CHECKED sl_status sl_model_render_chat(const sl_model *model, const char *variables_json,
                                                 const sl_render_options *options, char **out_text,
                                                 sl_error *err);
/* Renders the chat template with the same variables and tokenizes the result.  Special tokens of
 * the template are recognised, but not those that stand in a message: they are ordinary text, so
 * that a message cannot pretend to end and to be followed by another. */
SL_API SL_CHECKED sl_status sl_model_tokenize_chat(const sl_model *model,
                                                   const char *variables_json, sl_token *tokens,
                                                   size_t capacity, size_t *out_count,
                                                   sl_error *err);
/* 1 or 0; 1 also for a chat template that does not parse, with which rendering fails. */
SL_API int sl_model_has_tokenizer(const sl_model *model);
SL_API int sl_model_has_chat_template(const sl_model *model);

/* Streaming text output that never emits half of a UTF-8 character.  out needs room for
 * 3 * (count + 4) bytes; a stream begins as zeros, and both functions return the number of bytes
 * written. */
typedef struct {
    char pending[4];
    uint32_t count;
} sl_text_stream; /* closed */
SL_API size_t sl_text_stream_push(sl_text_stream *stream, const char *bytes, size_t count,
                                  char *out);
SL_API size_t sl_text_stream_finish(sl_text_stream *stream, char *out);

typedef struct {
    size_t struct_size;
    uint32_t chunk_tokens;   /* maximum number of tokens per forward pass in prefill; default
                              * 256, on a GPU 2048 */
    uint32_t checkpoints;    /* copies of the recurrent state that rewinding can start from, at most
                              * 64; default 4; models without recurrent state need and have none */
    uint32_t context_tokens; /* at most so many tokens; default: the context of the model */
} sl_session_options;
/* The model is borrowed, options are copied. */
SL_API SL_CHECKED sl_status sl_session_create(sl_model *model, const sl_session_options *options,
                                              sl_session **out, sl_error *err);
SL_API void sl_session_destroy(sl_session *session); /* NULL is fine */

/* Appends tokens to the sequence and computes the logits after the last one. */
SL_API SL_CHECKED sl_status sl_session_extend(sl_session *session, const sl_token *tokens,
                                              size_t count, sl_error *err);
/* The same, with the logits after every token: out_logits[count * vocab].  out_hidden may be NULL;
 * otherwise it receives the residual stream after the final norm, [count * hidden]. */
SL_API SL_CHECKED sl_status sl_session_extend_all(sl_session *session, const sl_token *tokens,
                                                  size_t count, float *out_logits,
                                                  float *out_hidden, sl_error *err);
/* The logits after the last token, valid until the next call on this session; NULL before the first
 * extend and after sl_session_next. */
SL_API const float *sl_session_logits(const sl_session *session, size_t *out_count);
/* Tokens in the sequence. */
SL_API size_t sl_session_length(const sl_session *session);
/* Truncates the sequence to its first `length` tokens.  Recurrent state returns to the last
 * checkpoint before that; the next call computes the tokens in between again. */
SL_API SL_CHECKED sl_status sl_session_rewind(sl_session *session, size_t length, sl_error *err);
/* Makes the running call return SL_CANCELLED after the current forward pass; the session keeps the
 * tokens that it had before the call and those of the call that are finished.  If no call is
 * running, the next one is cancelled.  This is the only function that may be called from another
 * thread or a signal handler. */
SL_API void sl_session_cancel(sl_session *session);

typedef struct {
    size_t struct_size; /* set by the caller */
    float temperature;  /* 0: greedy */
    float top_p, min_p; /* 0: off */
    uint32_t top_k;     /* 0: off */
    uint64_t seed;      /* of the random generator, which later tokens continue */
} sl_sampling;
/* The default sampling of the model: of generation_config.json (greedy if "do_sample" is false) or
 * of the "general.sampling" keys of a GGUF file; what neither gives is temperature 0.8, top-k 40,
 * top-p 0.95, min-p 0.05. */
SL_API SL_CHECKED sl_status sl_model_sampling(const sl_model *model, sl_sampling *out,
                                              sl_error *err);
/* Samples a token from the logits; the session is not changed.  Fails with SL_FORMAT if no logit is
 * a number. */
SL_API SL_CHECKED sl_status sl_session_sample(sl_session *session, const sl_sampling *sampling,
                                              sl_token *out, sl_error *err);
/* Samples a token and appends it to the sequence.  Its forward pass runs in the background or when
 * the next token is requested; until then there are no logits. */
SL_API SL_CHECKED sl_status sl_session_next(sl_session *session, const sl_sampling *sampling,
                                            sl_token *out, sl_error *err);

/* Two scopes: what the calls of this session did since it was created, and totals of the model
 * since it was opened, of all its sessions. */
typedef struct {
    size_t struct_size; /* set by the caller */
    /* Of the session.  Experts that its forward passes found in memory or not, bytes read for the
     * latter, time that reads took (they overlap), time that threads only waited for them. */
    uint64_t expert_hits, expert_misses, bytes_read;
    double read_seconds, stall_seconds;
    /* Of the session.  Calls that computed one token are decode, others prefill; tokens that had to
     * be computed again are included.  Time includes waiting for other sessions. */
    uint64_t prefill_tokens, decode_tokens;
    double prefill_seconds, decode_seconds;
    double first_seconds; /* of the session: of its first such call, including compilation */
    /* Of the model: programs, which all sessions share. */
    uint64_t programs_compiled;
    double compile_seconds; /* of all programs: the times below, and binding */
    /* fuse: all passes over the graph, of which inspect.h has the single times */
    double build_seconds, fuse_seconds, lower_seconds, schedule_seconds, plan_seconds, load_seconds;
    /* Of the model: its GPU; 0 without one. */
    uint64_t device_hits, device_misses; /* experts found or not found in GPU memory */
    uint64_t device_bytes_copied;        /* expert bytes copied to the GPU */
    uint64_t device_runs;                /* forward passes run by the GPU */
    double launch_seconds;               /* host time spent on submitting them */
    /* Of the session: tokens computed again after rewinding or a failed forward pass. */
    uint64_t recomputed_tokens;
    uint64_t expert_first_reads; /* those of expert_misses that were never in memory before */
} sl_stats;
SL_API SL_CHECKED sl_status sl_session_stats(const sl_session *session, sl_stats *out,
                                             sl_error *err);

typedef struct {
    size_t struct_size;
    const char *quant; /* "q4", "q6", "q8", or "none": keep the types of the source; default: "q4",
                        * or "none" if the source is quantised already */
    uint32_t threads;
    sl_progress_fn *progress;
    void *progress_ctx;
    int force; /* nonzero: a file that exists is replaced; otherwise it is an error */
} sl_pack_options;
/* Converts source, a model in any other format, to a pack; leaves no file behind on failure.  The
 * destination must not be a file of the source. */
SL_API SL_CHECKED sl_status sl_pack_write(const char *source, const char *destination,
                                          const sl_pack_options *options, sl_error *err);
/* Reads the whole pack and fails at the first part that does not match its checksum. */
SL_API SL_CHECKED sl_status sl_pack_verify(const char *path, sl_progress_fn *progress,
                                           void *progress_ctx, sl_error *err);

typedef struct {
    size_t struct_size;
    uint32_t layers, experts, vocab; /* default: the shape's */
    const char *quant;               /* "q4" (default), "q8", or "none" (bf16) */
    uint64_t seed;                   /* the same seed gives the same bytes */
    sl_progress_fn *progress;
    void *progress_ctx;
    int force; /* nonzero: a file that exists is replaced; otherwise it is an error */
} sl_synth_options;
/* Writes a pack with random weights, for benchmarks and tests.  If the vocabulary has room for it,
 * the pack has a tokenizer with a token for each byte, and a chat template; answers are made-up
 * words.  shape: a
 * name such as "qwen3.5-35b-a3b" (the error message for an unknown name lists them all), or the
 * path of a config.json.  Leaves no file behind on failure. */
SL_API SL_CHECKED sl_status sl_synth_write(const char *shape, const char *destination,
                                           const sl_synth_options *options, sl_error *err);
/* What is known of such a pack without writing it: architecture, dimensions, counts, types and
 * bytes of its weights.  All other fields are zero. */
SL_API SL_CHECKED sl_status sl_synth_describe(const char *shape, const sl_synth_options *options,
                                              sl_model_info *out, sl_error *err);

#ifdef __cplusplus
}
#endif
#endif
