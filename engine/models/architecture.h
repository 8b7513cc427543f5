/* architecture.h - What a model family provides: the keys of its config and the graph of a layer.
 *
 * The graph of a forward pass takes `rows` tokens of any sequences and updates the states of their
 * slots.  It returns the logits and hidden states of the wanted rows.  If it samples, every row
 * must be wanted: the sampled token is kept in the state SL_FORWARD_CHOSEN, i32[slots], and
 * replaces an input token of -1.  A family is one file and one row of architecture.def. */
#ifndef SL_ENGINE_MODELS_ARCHITECTURE_H
#define SL_ENGINE_MODELS_ARCHITECTURE_H
#include "compiler/graph.h"
#include "core/kv.h"
#include "engine/config/config.h"
#include "engine/experts/table.h"
#include "engine/models/roles.h"
#include "engine/models/weights.h"

/* The inputs of a step's graph: INPUT(symbol, name).  Each is tagged with its number
 * (sl_value_info.tag). */
#define SL_FORWARD_INPUTS(INPUT)                                                                   \
    INPUT(TOKENS, "tokens")       /* i32[rows] */                                                  \
    INPUT(SLOTS, "slots")         /* i32[rows] */                                                  \
    INPUT(POSITIONS, "positions") /* i32[rows] */                                                  \
    INPUT(PAGES, "pages")         /* i32[rows, pages of a sequence] (core/kv.h) */                 \
    INPUT(WANTED, "wanted")       /* i32[wanted]; there unless every row is wanted, or none */     \
    INPUT(SAMPLING, "how")        /* f64[rows, SL_CHOOSE_COLUMNS] (core/choose.h), if it chooses */
#define SL_FORWARD_INPUT_SYMBOL(SYMBOL, NAME) SL_FORWARD_INPUT_##SYMBOL,
typedef enum { SL_FORWARD_INPUTS(SL_FORWARD_INPUT_SYMBOL) SL_FORWARD_INPUT_COUNT } sl_forward_input;

/* Its outputs, by index; none where no row is wanted. */
typedef enum {
    SL_FORWARD_LOGITS, /* f32[wanted, vocab] */
    SL_FORWARD_HIDDEN, /* f32[wanted, hidden]: the residual after the last norm */
    SL_FORWARD_TOKEN,  /* i32[rows], if it chooses */
    SL_FORWARD_OUTPUT_COUNT
} sl_forward_output;

/* What a step that reveals its layers returns besides: VALUE(symbol, name).  The output is called
 * "layers.N.name".  The router's choice is there in layers with experts.  A step that keeps returns
 * the last three, of delta nets, from which a step that replays computes their states again. */
#define SL_LAYER_VALUES(VALUE)                                                                     \
    VALUE(INPUT, "input")                   /* f32[rows, hidden]: before the mixer */              \
    VALUE(MIXED, "after_attention")         /* f32[rows, hidden]: after it; a delta net's too */   \
    VALUE(OUTPUT, "output")                 /* f32[rows, hidden]: after the experts */             \
    VALUE(EXPERTS, "experts")               /* i32[rows, k] */                                     \
    VALUE(EXPERT_WEIGHTS, "expert_weights") /* f32[rows, k] */                                     \
    VALUE(DELTA_QKV, "delta_qkv")           /* f32[rows, channels]: before the convolution */      \
    VALUE(DELTA_A, "delta_a")               /* f32[rows, heads]: input of the decay */             \
    VALUE(DELTA_B, "delta_b")               /* f32[rows, heads]: input of beta */
#define SL_LAYER_VALUE_SYMBOL(SYMBOL, NAME) SL_LAYER_##SYMBOL,
typedef enum {
    SL_LAYER_VALUES(SL_LAYER_VALUE_SYMBOL) SL_LAYER_VALUE_COUNT,
    SL_LAYER_FIRST_KEPT = SL_LAYER_DELTA_QKV
} sl_layer_value;
#define SL_LAYER_PREFIX "layers."

/* What a state holds, which is its tag. */
typedef enum {
    SL_STATE_RECURRENT, /* fixed size: rewinding needs a checkpoint */
    SL_STATE_KV,        /* an entry per position: rewinding drops the last ones */
    SL_STATE_SAMPLED    /* the token sampled last, which is not used after rewinding */
} sl_state_kind;
#define SL_FORWARD_CHOSEN "chosen"

/* Recurrent layers compute the rows of a sequence in chunks of so many, from its first row in the
 * pass; where chunks end decides the last bits. */
enum { SL_DELTA_CHUNK = 64 };

typedef struct {
    const sl_model_config *config;
    sl_weights *weights; /* found and checked as the graph asks for them */
    const sl_expert_table *experts;
    uint32_t rows, wanted; /* wanted: 0 to rows */
    bool gathers;          /* the wanted rows are an input even if they are all rows */
    bool chooses;
    bool reveals; /* more outputs after these: SL_LAYER_VALUES of each layer, of every row */
    /* Delta nets compute row by row, so that rows are the same bits as in steps of one row. */
    bool keeps;     /* more outputs: those of SL_LAYER_VALUES that are kept */
    bool replays;   /* these are inputs, and only the states of delta nets are computed */
    bool undivided; /* attention never divides positions among steps, however few rows there are */
    uint32_t slots, capacity; /* sequences, and tokens of context each */
    uint32_t pages;           /* of the KV cache; 0: for all sequences at their full length */
    sl_dtype kv_dtype;        /* of cached keys (core/kv.h): f32, f16 or k16 */
} sl_forward_shape;

static inline int64_t sl_forward_pages(const sl_forward_shape *s) {
    return s->pages ? s->pages : s->slots * sl_kv_page_count(s->capacity);
}

typedef struct sl_builder sl_builder;

typedef struct {
    sl_config_family config;
    /* The residual stream after layer b->layer; blocks.h, params.h and wire.h have what a layer is
     * made of. */
    sl_hidden_value (*layer)(sl_builder *b, sl_hidden_value hidden);
} sl_architecture;

/* NULL when the type is unknown. */
const sl_architecture *sl_architecture_find(const char *model_type);
/* "qwen3, mixtral, ...": all of them. */
const char *sl_architecture_names(char *text, size_t capacity);

/* sl_config_parse with all of them. */
SL_CHECKED sl_status sl_model_config_parse(const char *json, size_t bytes, sl_arena *arena,
                                           sl_model_config *out, sl_error *err);
/* The config of a source and where its experts are; both live in arena. */
SL_CHECKED sl_status sl_model_config_load(sl_source *source, sl_arena *arena, sl_model_config *out,
                                          sl_expert_table *out_experts, sl_error *err);

SL_CHECKED sl_status sl_architecture_build(const sl_architecture *architecture,
                                           const sl_forward_shape *shape, sl_graph *graph,
                                           sl_error *err);

/* Builds the graph of one row and discards it, so that `weights` lists every tensor that the model
 * needs. */
SL_CHECKED sl_status sl_architecture_list_weights(const sl_model_config *config,
                                                  sl_weights *weights,
                                                  const sl_expert_table *experts, sl_error *err);
#endif
