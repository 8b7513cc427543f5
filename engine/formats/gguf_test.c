#include "tests/support/folder.h"

#include "core/codec.h"
#include "engine/formats/gguf.h"
#include <math.h>

enum { FILE_BYTES = 1 << 16, MARKS = 256 };

/* A file being built, with names for the offsets that tests change. */
typedef struct {
    uint8_t bytes[FILE_BYTES];
    size_t size;
    struct {
        char name[64];
        size_t at;
    } marks[MARKS];
    int mark_count;
} maker;

static void put(maker *m, const void *data, size_t bytes) {
    assert_true(m->size + bytes <= FILE_BYTES);
    memcpy(m->bytes + m->size, data, bytes);
    m->size += bytes;
}

static void mark(maker *m, const char *what, const char *part) {
    assert_true(m->mark_count < MARKS);
    (void)snprintf(m->marks[m->mark_count].name, sizeof m->marks[0].name, "%s%s", what, part);
    m->marks[m->mark_count++].at = m->size;
}

static size_t marked(const maker *m, const char *name) {
    for (int i = 0; i < m->mark_count; i++)
        if (strcmp(m->marks[i].name, name) == 0) return m->marks[i].at;
    fail_msg("no mark '%s'", name);
    return 0;
}

static void put_u32(maker *m, uint32_t value) {
    put(m, &value, sizeof value);
}
static void put_u64(maker *m, uint64_t value) {
    put(m, &value, sizeof value);
}
static void put_text(maker *m, const char *text) {
    put_u64(m, strlen(text));
    put(m, text, strlen(text));
}

static void begin(maker *m) {
    *m = (maker){.size = 0};
    put(m, "GGUF", 4);
    mark(m, "version", "");
    put_u32(m, 3);
    mark(m, "tensors", "");
    put_u64(m, 0);
    mark(m, "values", "");
    put_u64(m, 0);
}

static void count_one(maker *m, const char *name) {
    uint64_t count;
    memcpy(&count, m->bytes + marked(m, name), sizeof count);
    count++;
    memcpy(m->bytes + marked(m, name), &count, sizeof count);
}

static void key(maker *m, const char *name, sl_gguf_kind kind) {
    count_one(m, "values");
    mark(m, name, " length");
    put_text(m, name);
    mark(m, name, " kind");
    put_u32(m, kind);
    mark(m, name, "");
}
static void key_u32(maker *m, const char *name, uint32_t value) {
    key(m, name, SL_GGUF_U32);
    put_u32(m, value);
}
static void key_f32(maker *m, const char *name, float value) {
    key(m, name, SL_GGUF_F32);
    put(m, &value, sizeof value);
}
static void key_text(maker *m, const char *name, const char *value) {
    key(m, name, SL_GGUF_TEXT);
    put_text(m, value);
}
static void key_array(maker *m, const char *name, sl_gguf_kind kind, uint64_t count) {
    key(m, name, SL_GGUF_ARRAY);
    mark(m, name, " elements");
    put_u32(m, kind);
    mark(m, name, " count");
    put_u64(m, count);
    mark(m, name, " data");
}

/* dims: innermost first, terminated by 0. */
static void tensor(maker *m, const char *name, const uint64_t *dims, uint32_t type,
                   uint64_t offset) {
    count_one(m, "tensors");
    mark(m, name, " length");
    put_text(m, name);
    mark(m, name, " rank");
    uint32_t rank = 0;
    while (dims[rank]) rank++;
    put_u32(m, rank);
    mark(m, name, " dims");
    for (uint32_t i = 0; i < rank; i++) put_u64(m, dims[i]);
    mark(m, name, " type");
    put_u32(m, type);
    mark(m, name, " offset");
    put_u64(m, offset);
}

static void align(maker *m, size_t multiple) {
    while (m->size % multiple) put(m, "", 1);
}

#define DIMS(...) ((const uint64_t[]){__VA_ARGS__, 0})

/* ---- the container ---- */

static void small_file(maker *m) {
    begin(m);
    key_u32(m, "general.alignment", 64);
    key_f32(m, "real", 1.5f);
    key_text(m, "text", "seven");
    key_array(m, "words", SL_GGUF_TEXT, 2);
    put_text(m, "a");
    put_text(m, "bc");
    key_array(m, "numbers", SL_GGUF_I32, 3);
    put_u32(m, 5);
    put_u32(m, (uint32_t)-6);
    put_u32(m, 7);
    tensor(m, "first", DIMS(32, 3), 8, 0);
    tensor(m, "second", DIMS(5), 0, 128);
    align(m, 64);
    mark(m, "data", "");
    for (int i = 0; i < 128 + 20; i++) put(m, "\1", 1);
}

typedef struct {
    sl_arena arena;
    sl_gguf gguf;
    sl_error err;
} parsed;

static sl_status parse(const maker *m, size_t bytes, parsed *p) {
    sl_arena_init(&p->arena, NULL);
    /* A copy of the exact size, so that reads past the end are detected. */
    uint8_t *copy = malloc(bytes ? bytes : 1);
    assert_non_null(copy);
    memcpy(copy, m->bytes, bytes);
    p->err = (sl_error){0};
    uint64_t wanted;
    const sl_gguf_start start = {copy, bytes, bytes};
    const sl_status status = sl_gguf_parse("x.gguf", &start, &p->arena, &p->gguf, &wanted, &p->err);
    assert_int_equal(wanted, 0);
    if (status != SL_OK) {
        sl_arena_deinit(&p->arena);
        free(copy);
        return status;
    }
    p->gguf.what = (const char *)copy; /* freed by done() */
    return SL_OK;
}

static void done(parsed *p) {
    free((void *)(uintptr_t)p->gguf.what);
    sl_arena_deinit(&p->arena);
}

/* Expects that the file does not parse; returns the error. */
static sl_error refused(const maker *m, size_t bytes) {
    parsed p;
    if (parse(m, bytes, &p) == SL_OK) {
        done(&p);
        fail_msg("%zu of %zu bytes: accepted", bytes, m->size);
    }
    return p.err;
}

static void reads_what_was_written(void **state) {
    (void)state;
    static maker m;
    parsed p;
    small_file(&m);
    assert_int_equal(parse(&m, m.size, &p), SL_OK);
    uint64_t count = 9;
    double real = 0;
    sl_gguf_text text = {0};
    const sl_gguf_value *words = NULL, *numbers = NULL;
    assert_int_equal(sl_gguf_get_count(&p.gguf, "general.alignment", &count, &p.err), SL_OK);
    assert_int_equal(count, 64);
    assert_int_equal(sl_gguf_get_count(&p.gguf, "absent", &count, &p.err), SL_OK);
    assert_int_equal(count, 64);
    assert_int_equal(sl_gguf_get_real(&p.gguf, "real", &real, &p.err), SL_OK);
    assert_true(real == 1.5);
    assert_int_equal(sl_gguf_get_text(&p.gguf, "text", &text, &p.err), SL_OK);
    assert_true(sl_gguf_text_is(text, "seven"));
    assert_int_equal(sl_gguf_get_array(&p.gguf, "words", SL_GGUF_TEXT, &words, &p.err), SL_OK);
    const uint8_t *at = words->data;
    assert_true(sl_gguf_text_is(sl_gguf_next_text(&at), "a"));
    assert_true(sl_gguf_text_is(sl_gguf_next_text(&at), "bc"));
    assert_int_equal(sl_gguf_get_array(&p.gguf, "numbers", SL_GGUF_I32, &numbers, &p.err), SL_OK);
    assert_int_equal(sl_gguf_integer_at(numbers, 1), -6);
    assert_int_equal(p.gguf.tensor_count, 2);
    const sl_gguf_tensor *first = &p.gguf.tensors[0], *second = &p.gguf.tensors[1];
    assert_string_equal(first->type->name, "Q8_0");
    assert_int_equal(first->shape.dims[0], 3);
    assert_int_equal(first->shape.dims[1], 32);
    assert_int_equal(first->bytes, 3 * 34);
    assert_int_equal(first->offset, marked(&m, "data"));
    assert_int_equal(second->offset, marked(&m, "data") + 128);
    done(&p);
}

/* Values of another kind than requested. */
static void refuses_other_kinds(void **state) {
    (void)state;
    static maker m;
    parsed p;
    small_file(&m);
    assert_int_equal(parse(&m, m.size, &p), SL_OK);
    uint64_t count = 0;
    double real = 0;
    sl_gguf_text text = {0};
    const sl_gguf_value *array = NULL;
    assert_int_equal(sl_gguf_get_count(&p.gguf, "text", &count, &p.err), SL_FORMAT);
    expect_message(&p.err, "key 'text' is text, an integer wanted");
    assert_int_equal(sl_gguf_get_count(&p.gguf, "numbers", &count, &p.err), SL_FORMAT);
    expect_message(&p.err, "key 'numbers' is an array of i32, an integer wanted");
    assert_int_equal(sl_gguf_get_real(&p.gguf, "general.alignment", &real, &p.err), SL_FORMAT);
    expect_message(&p.err, "is u32, a real number wanted");
    assert_int_equal(sl_gguf_get_text(&p.gguf, "words", &text, &p.err), SL_FORMAT);
    expect_message(&p.err, "is an array of text, a text wanted");
    assert_int_equal(sl_gguf_get_array(&p.gguf, "words", SL_GGUF_I32, &array, &p.err), SL_FORMAT);
    expect_message(&p.err, "is an array of text, an array of integers wanted");
    assert_int_equal(sl_gguf_get_array(&p.gguf, "text", SL_GGUF_TEXT, &array, &p.err), SL_FORMAT);
    expect_message(&p.err, "is text, an array of texts wanted");
    done(&p);
}

static void every_prefix_is_truncated(void **state) {
    (void)state;
    static maker m;
    small_file(&m);
    for (size_t bytes = 0; bytes < m.size; bytes++) {
        const sl_error err = refused(&m, bytes);
        if (!strstr(err.message, "truncated") && !strstr(err.message, "do not fit") &&
            !strstr(err.message, "not a GGUF file"))
            fail_msg("%zu of %zu bytes: %s", bytes, m.size, err.message);
    }
}

/* One place of the small file is changed. */
static void malformed_files(void **state) {
    (void)state;
    static const struct {
        const char *place;
        uint32_t bytes;
        uint64_t value;
        const char *message;
    } cases[] = {
        {"version", 4, 1, "x.gguf: GGUF version 1, only 2 and 3 are supported"},
        {"version", 4, 4, "GGUF version 4, only 2 and 3 are supported"},
        {"version", 4, 3 << 24, "a big-endian file"},
        {"tensors", 8, 3, "a tensor's name has 0 bytes, 1 to 63 wanted"},
        {"tensors", 8, UINT64_MAX, "18446744073709551615 tensors do not fit"},
        {"values", 8, 1000, "1000 metadata entries do not fit"},
        {"values", 8, UINT64_C(1) << 63, "metadata entries do not fit"},
        {"text length", 8, 0, "a key has 0 bytes, 1 to 65535 wanted"},
        {"text length", 8, UINT64_MAX, "a key has 18446744073709551615 bytes"},
        {"text kind", 4, 13, "key 'text' has the unknown kind 13"},
        {"text", 8, UINT64_MAX - 7, "truncated: text at byte"},
        {"words elements", 4, 9, "key 'words' is an array of arrays"},
        {"words elements", 4, 77, "key 'words' has the unknown kind 77"},
        {"words count", 8, UINT64_MAX, "truncated: words at byte"},
        {"numbers count", 8, UINT64_C(1) << 62, "truncated: numbers at byte"},
        {"general.alignment", 4, 0, "'general.alignment' is 0, a power of two from 8"},
        {"general.alignment", 4, 48, "'general.alignment' is 48, a power of two"},
        {"general.alignment", 4, 1 << 30, "'general.alignment' is 1073741824"},
        {"general.alignment", 4, 8, "tensor 'second' starts at byte 128 of the data, 104 wanted"},
        {"general.alignment kind", 4, SL_GGUF_F32, "'general.alignment' is f32, an integer wanted"},
        {"first length", 8, 64, "a tensor's name has 64 bytes, 1 to 63 wanted"},
        {"first rank", 4, 0, "tensor 'first' has 0 dims, 1 to 4 wanted"},
        {"first rank", 4, 5, "tensor 'first' has 5 dims, 1 to 4 wanted"},
        {"first dims", 8, 0, "first: dim 1 is 0, must be at least 1"},
        {"first dims", 8, UINT64_MAX, "first: dim 1 is -1, must be at least 1"},
        {"first dims", 8, UINT64_C(1) << 47, "first: more than 2^48 elements"},
        {"first dims", 8, 33, "tensor 'first' has rows of 33, Q8_0 wants a multiple of 32"},
        {"first dims", 8, 64, "truncated: tensor 'first' of 204 bytes starts at byte"},
        {"first type", 4, 4, "tensor 'first' has the unknown type 4"},
        {"first type", 4, 999, "tensor 'first' has the unknown type 999"},
        {"first offset", 8, 64, "tensor 'first' starts at byte 64 of the data, 0 wanted"},
        {"second offset", 8, 64, "tensor 'second' starts at byte 64 of the data, 128 wanted"},
        {"second offset", 8, UINT64_MAX, "tensor 'second' starts at byte 18446744073709551615"},
        {"second dims", 8, 6, "truncated: tensor 'second' of 24 bytes starts at byte"},
        {"second dims", 8, UINT64_C(1) << 46, "truncated: tensor 'second' of"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static maker m;
        small_file(&m);
        memcpy(m.bytes + marked(&m, cases[i].place), &cases[i].value, cases[i].bytes);
        const sl_error err = refused(&m, m.size);
        expect_message(&err, cases[i].message);
        expect_message(&err, "x.gguf: ");
    }
}

static void malformed_names(void **state) {
    (void)state;
    static maker m;
    small_file(&m);
    m.bytes[marked(&m, "text length") + 8] = '\n';
    sl_error err = refused(&m, m.size);
    expect_message(&err, "a key has control characters");
    small_file(&m);
    m.bytes[marked(&m, "second length") + 8] = 0;
    err = refused(&m, m.size);
    expect_message(&err, "a tensor's name has control characters");
    begin(&m);
    key_u32(&m, "twice", 1);
    key_u32(&m, "other", 1);
    key_u32(&m, "twice", 1);
    err = refused(&m, m.size);
    expect_message(&err, "key 'twice' is defined twice");
}

/* ---- the source ---- */

static const struct {
    const char *key;
    uint32_t value;
} counts[] = {
    {"block_count", 5},
    {"context_length", 100},
    {"embedding_length", 64},
    {"attention.head_count", 4},
    {"attention.head_count_kv", 2},
    {"attention.key_length", 80},
    {"rope.dimension_count", 24},
    {"expert_count", 8},
    {"expert_used_count", 2},
    {"expert_feed_forward_length", 32},
    {"expert_shared_feed_forward_length", 32},
    {"ssm.conv_kernel", 4},
    {"ssm.state_size", 16},
    {"ssm.group_count", 2},
    {"ssm.time_step_rank", 4},
    {"ssm.inner_size", 96},
};
enum { COUNTS = sizeof counts / sizeof counts[0] };

/* The metadata of a model without the given count; the caller adds more. */
static void begin_model(maker *m, int without) {
    char name[64];
    begin(m);
    key_text(m, "general.architecture", "qwen35moe");
    for (int i = 0; i < COUNTS; i++) {
        (void)snprintf(name, sizeof name, "qwen35moe.%s", counts[i].key);
        if (i != without) key_u32(m, name, counts[i].value);
    }
    key_f32(m, "qwen35moe.rope.freq_base", 10000);
    key_f32(m, "qwen35moe.attention.layer_norm_rms_epsilon", 1e-6f);
}

static void end_model(maker *m) {
    tensor(m, "token_embd.weight", DIMS(32, 2), 8, 0);
    tensor(m, "output_norm.weight", DIMS(8), 0, 96);
    tensor(m, "blk.3.ssm_a", DIMS(2), 0, 128);
    tensor(m, "blk.3.ffn_up_shexp.weight", DIMS(768, 1), 29, 160);
    tensor(m, "blk.3.ffn_gate_inp_shexp.weight", DIMS(8), 0, 352);
    tensor(m, "blk.3.attn_norm.weight", DIMS(8), 1, 384);
    tensor(m, "blk.3.ssm_dt.bias", DIMS(32), 8, 416);
    tensor(m, "blk.x.other", DIMS(8), 0, 480);
    align(m, 32);
    mark(m, "data", "");
    const size_t start = m->size;
    for (int i = 0; i < 512; i++) put(m, "", 1);
    const float gains[8] = {1, 1.5f, 0.25f, 2, 3, -1, 0, 1}, decays[2] = {-1, -0.5f};
    memcpy(m->bytes + start + 96, gains, sizeof gains);
    memcpy(m->bytes + start + 128, decays, sizeof decays);
}

static sl_status open_made(const maker *m, sl_source **out, sl_error *err) {
    write_test_file("made.gguf", m->bytes, m->size);
    *err = (sl_error){0};
    return sl_source_open(test_path("made.gguf"), NULL, out, err);
}

static void config_from_metadata(void **state) {
    (void)state;
    static maker m;
    sl_source *source = NULL;
    sl_error err;
    begin_model(&m, -1);
    key_u32(&m, "qwen35moe.nextn_predict_layers", 1);
    end_model(&m);
    if (open_made(&m, &source, &err) != SL_OK) fail_msg("%s", err.message);
    assert_string_equal(sl_source_format(source), "gguf");
    size_t bytes = 0;
    json_t *config = json_loads(sl_source_text(source, "config.json", &bytes), 0, NULL);
    assert_non_null(config);
#define NUMBER(key) json_number_value(json_object_get(config, key))
    assert_true(NUMBER("num_hidden_layers") == 4);
    assert_true(NUMBER("vocab_size") == 2);
    assert_true(NUMBER("linear_value_head_dim") == 24);
    assert_true((uint32_t)(80 * NUMBER("partial_rotary_factor")) == 24);
    assert_true((float)NUMBER("rms_norm_eps") == 1e-6f);
#undef NUMBER
    assert_true(json_is_true(json_object_get(config, "tie_word_embeddings")));
    assert_true(json_is_true(json_object_get(config, "linear_value_heads_tiled")));
    assert_null(sl_source_text(source, "tokenizer.json", &bytes));
    json_decref(config);
    sl_source_close(source);
}

static const float *mapped(sl_source *source, const char *name) {
    const void *data = NULL;
    sl_error err = {0};
    const sl_tensor_entry *entry = sl_source_find(source, name);
    assert_non_null(entry);
    if (sl_source_load(source, entry, &data, &err) != SL_OK) fail_msg("%s", err.message);
    return data;
}

static void tensors_under_their_names(void **state) {
    (void)state;
    static maker m;
    sl_source *source = NULL;
    sl_error err;
    begin_model(&m, -1);
    end_model(&m);
    if (open_made(&m, &source, &err) != SL_OK) fail_msg("%s", err.message);
    const float *gains = mapped(source, "model.norm.weight");
    assert_true(gains[0] == 0 && gains[1] == 0.5f && gains[2] == -0.75f && gains[5] == -2);
    const float *decays = mapped(source, "model.layers.3.linear_attn.A_log");
    assert_true(decays[0] == 0 && decays[1] == logf(0.5f));
    const sl_type *row =
        &sl_source_find(source, "model.layers.3.mlp.shared_expert_gate.weight")->type;
    assert_true(row->shape.rank == 2 && row->shape.dims[0] == 1 && row->shape.dims[1] == 8);
    assert_non_null(sl_source_find(source, "blk.x.other"));
    assert_int_equal(sl_source_find(source, "model.embed_tokens.weight")->type.dtype, SL_DTYPE_q8);
    static const char *const skipped[][2] = {
        {"model.layers.3.mlp.shared_expert.up_proj.weight",
         "'blk.3.ffn_up_shexp.weight' has type IQ1_M, wanted one of F32, F16, Q4_0, Q4_1, Q5_0, "
         "Q5_1, Q8_0, Q8_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, Q8_K, IQ4_NL, IQ4_XS, BF16, TQ1_0, "
         "TQ2_0, MXFP4, NVFP4"},
        {"model.layers.3.input_layernorm.weight",
         "'blk.3.attn_norm.weight' has type F16, wanted F32"},
        {"model.layers.3.linear_attn.dt_bias",
         "'blk.3.ssm_dt.bias' is a vector of type Q8_0, wanted F32, F16 or BF16"},
    };
    for (int i = 0; i < 3; i++) {
        const char *why = sl_source_skipped(source, skipped[i][0]);
        assert_non_null(why);
        if (!strstr(why, skipped[i][1])) fail_msg("%s", why);
    }
    sl_source_close(source);
}

static void refuse_made(const maker *m, const char *message) {
    sl_source *source = NULL;
    sl_error err;
    if (open_made(m, &source, &err) == SL_OK) fail_msg("accepted, wanted \"%s\"", message);
    expect_message(&err, message);
    expect_message(&err, "made.gguf: ");
}

static void missing_metadata(void **state) {
    (void)state;
    static maker m;
    char message[96];
    for (int i = 0; i < COUNTS; i++) {
        if (strcmp(counts[i].key, "context_length") == 0 ||
            strcmp(counts[i].key, "attention.head_count_kv") == 0 ||
            strcmp(counts[i].key, "attention.key_length") == 0 ||
            strcmp(counts[i].key, "rope.dimension_count") == 0)
            continue; /* these have defaults */
        begin_model(&m, i);
        end_model(&m);
        (void)snprintf(message, sizeof message, "key 'qwen35moe.%s' is missing", counts[i].key);
        refuse_made(&m, message);
    }
    begin(&m);
    refuse_made(&m, "key 'general.architecture' is missing");
    begin_model(&m, -1);
    refuse_made(&m, "tensor 'token_embd.weight' is missing or not a matrix");
}

static void senseless_metadata(void **state) {
    (void)state;
    static const struct {
        const char *key;
        uint32_t value;
        const char *message;
    } cases[] = {
        {"qwen35moe.ssm.inner_size", 97, "'qwen35moe.ssm.inner_size' is 97, a multiple of"},
        {"qwen35moe.ssm.time_step_rank", 0, "a multiple of 'qwen35moe.ssm.time_step_rank' (0)"},
        {"qwen35moe.rope.dimension_count", 81, "'qwen35moe.rope.dimension_count' is 81 of a head"},
        {"qwen35moe.rope.dimension_count", 0, "'qwen35moe.rope.dimension_count' is 0 of a head"},
        {"qwen35moe.rope.freq_base", 0, "key 'qwen35moe.rope.freq_base' is 0, more than 0"},
        {"qwen35moe.rope.freq_base", 0x7f800000, "key 'qwen35moe.rope.freq_base' is not a finite"},
    };
    static maker m;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin_model(&m, -1);
        end_model(&m);
        memcpy(m.bytes + marked(&m, cases[i].key), &cases[i].value, 4);
        refuse_made(&m, cases[i].message);
    }
    begin_model(&m, -1);
    key_u32(&m, "qwen35moe.attention.value_length", 64);
    end_model(&m);
    refuse_made(&m, "'qwen35moe.attention.value_length' is 64, the key_length (80) wanted");
    begin_model(&m, -1);
    key_u32(&m, "qwen35moe.nextn_predict_layers", 5);
    end_model(&m);
    refuse_made(&m, "5 of 5 layers are for multi-token prediction");
    begin_model(&m, -1);
    key_u32(&m, "split.count", 3);
    end_model(&m);
    refuse_made(&m, "one of 3 parts, which are looked for under names that end in");
    begin(&m);
    key_text(&m, "general.architecture", "mamba");
    refuse_made(&m, "architecture 'mamba' is not supported; supported: qwen35moe");
    refuse_made(&m, "llama (Mixtral only)");
}

static void two_of_a_name(void **state) {
    (void)state;
    static maker m;
    begin_model(&m, -1);
    tensor(&m, "token_embd.weight", DIMS(8, 2), 0, 0);
    tensor(&m, "token_embd.weight", DIMS(8, 2), 0, 64);
    align(&m, 32);
    for (int i = 0; i < 128; i++) put(&m, "", 1);
    refuse_made(&m, "tensor 'model.embed_tokens.weight' is defined twice");
}

/* ---- tokenizers ---- */

static void tokenizer(maker *m, const char *model, const char *pre, int types) {
    begin_model(m, -1);
    key_text(m, "tokenizer.ggml.model", model);
    if (pre) key_text(m, "tokenizer.ggml.pre", pre);
    key_array(m, "tokenizer.ggml.tokens", SL_GGUF_TEXT, 6);
    static const char *const tokens[] = {"a", "b", "ab", "<end>", "<tool>", "[PAD5]"};
    for (int i = 0; i < 6; i++) put_text(m, tokens[i]);
    key_array(m, "tokenizer.ggml.token_type", SL_GGUF_I32, (uint64_t)types);
    static const uint32_t kinds[] = {1, 1, 1, 3, 4, 5};
    put(m, kinds, (size_t)types * sizeof kinds[0]);
    key_array(m, "tokenizer.ggml.merges", SL_GGUF_TEXT, 1);
    put_text(m, "a b");
    key_u32(m, "tokenizer.ggml.eos_token_id", 3);
    key_text(m, "tokenizer.chat_template", "{{ messages }}");
    end_model(m);
}

static void tokenizer_from_metadata(void **state) {
    (void)state;
    static maker m;
    sl_source *source = NULL;
    sl_error err;
    tokenizer(&m, "gpt2", "qwen35", 6);
    if (open_made(&m, &source, &err) != SL_OK) fail_msg("%s", err.message);
    size_t bytes = 0;
    const char *text = sl_source_text(source, "tokenizer.json", &bytes);
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    const json_t *vocab = json_object_get(json_object_get(json, "model"), "vocab");
    assert_int_equal(json_object_size(vocab), 3);
    assert_int_equal(json_integer_value(json_object_get(vocab, "ab")), 2);
    const json_t *added = json_object_get(json, "added_tokens");
    assert_int_equal(json_array_size(added), 2);
    assert_true(json_is_true(json_object_get(json_array_get(added, 0), "special")));
    assert_true(json_is_false(json_object_get(json_array_get(added, 1), "special")));
    json_decref(json);
    assert_string_equal(sl_source_text(source, "chat_template.jinja", &bytes), "{{ messages }}");
    assert_string_equal(sl_source_text(source, "generation_config.json", &bytes),
                        "{\"eos_token_id\":[3]}");
    assert_string_equal(sl_source_text(source, "tokenizer_config.json", &bytes),
                        "{\"eos_token\":\"<end>\"}");
    sl_source_close(source);
    tokenizer(&m, "no_vocab", NULL, 6);
    if (open_made(&m, &source, &err) != SL_OK) fail_msg("%s", err.message);
    assert_null(sl_source_text(source, "tokenizer.json", &bytes));
    sl_source_close(source);
}

static void malformed_tokenizers(void **state) {
    (void)state;
    static maker m;
    tokenizer(&m, "bert", "qwen35", 6);
    refuse_made(&m, "key 'tokenizer.ggml.model' is neither 'gpt2'");
    tokenizer(&m, "gpt2", "martian", 6);
    refuse_made(
        &m, "key 'tokenizer.ggml.pre' is 'martian', supported: qwen2, deepseek-r1-qwen, qwen35");
    tokenizer(&m, "gpt2", NULL, 6);
    refuse_made(&m, "key 'tokenizer.ggml.pre' is missing");
    tokenizer(&m, "gpt2", "qwen2", 5);
    refuse_made(&m, "5 'tokenizer.ggml.token_type' for 6 tokens");
    tokenizer(&m, "gpt2", "qwen2", 6);
    m.bytes[marked(&m, "tokenizer.ggml.tokens data") + 8] = 0xff;
    refuse_made(&m, "'tokenizer.ggml.tokens' 0 is not UTF-8");
    tokenizer(&m, "gpt2", "qwen2", 6);
    m.bytes[marked(&m, "tokenizer.ggml.merges data") + 8] = 0xc0;
    refuse_made(&m, "'tokenizer.ggml.merges' 0 is not UTF-8");
}

/* ---- converters ---- */

/* Q5_0 has no panel type of its own; the other types are tested with repacking. */
static void q5_0_becomes_q8(void **state) {
    (void)state;
    enum { ROWS = 19, COLS = 96, BLOCKS = ROWS * COLS / 32 };
    static uint8_t raw[BLOCKS][22];
    uint32_t seed = 1;
    for (int b = 0; b < BLOCKS; b++) {
        const uint16_t scale = sl_f16_from_f32(0.01f * (float)(b + 1));
        memcpy(raw[b], &scale, 2);
        for (int i = 2; i < 22; i++)
            raw[b][i] = (uint8_t)((seed = seed * 1103515245 + 12345) >> 16);
    }
    const sl_gguf_type *type = sl_gguf_type_find(6);
    assert_string_equal(type->name, "Q5_0");
    const uint64_t bytes = sl_panel_layout_of(type->dtype, ROWS, COLS).matrix_bytes;
    void *panels = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(panels);
    type->form->convert(&(sl_raw_matrix){type->form, {raw[0]}, ROWS, COLS}, panels);
    for (int r = 0; r < ROWS; r++) {
        float row[COLS];
        sl_decode_row(type->dtype, panels, ROWS, COLS, r, row);
        for (int c = 0; c < COLS; c++) {
            const uint8_t *block = raw[r * COLS / 32 + c / 32];
            const int e = c % 32, low = e < 16 ? block[6 + e] & 15 : block[6 + e - 16] >> 4;
            const int q = low | ((block[2 + e / 8] >> (e % 8)) & 1) << 4;
            uint16_t scale;
            memcpy(&scale, block, 2);
            assert_true(row[c] == sl_f32_from_f16(scale) * (float)(q - 16));
        }
    }
    free(panels);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_was_written),
        cmocka_unit_test(refuses_other_kinds),
        cmocka_unit_test(every_prefix_is_truncated),
        cmocka_unit_test(malformed_files),
        cmocka_unit_test(malformed_names),
        cmocka_unit_test_teardown(config_from_metadata, empty_test_folder),
        cmocka_unit_test_teardown(tensors_under_their_names, empty_test_folder),
        cmocka_unit_test_teardown(missing_metadata, empty_test_folder),
        cmocka_unit_test_teardown(senseless_metadata, empty_test_folder),
        cmocka_unit_test_teardown(two_of_a_name, empty_test_folder),
        cmocka_unit_test_teardown(tokenizer_from_metadata, empty_test_folder),
        cmocka_unit_test_teardown(malformed_tokenizers, empty_test_folder),
        cmocka_unit_test(q5_0_becomes_q8),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
