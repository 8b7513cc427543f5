#include "core/codec.h"
#include "engine/formats/safetensors.h"
#include "engine/formats/source.h"
#include "engine/quant/recipe.h"
#include "sluice/sluice.h"
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* cmocka needs the headers above first */
#include <cmocka.h>

enum {
    RESIDENTS = 32,
    LAYERS = 2,
    EXPERTS = 3,
    HIDDEN = 96,
    WIDTH = 64,
    VOCAB = 150,
    MAX_ITEMS = 80
};

static const char config_text[] =
    "{\"model_type\": \"qwen3_5_moe_text\", \"hidden_size\": 96, \"num_hidden_layers\": 2,"
    " \"vocab_size\": 150, \"max_position_embeddings\": 512, \"rms_norm_eps\": 1e-6,"
    " \"hidden_act\": \"silu\", \"layer_types\": [\"linear_attention\", \"full_attention\"],"
    " \"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"head_dim\": 64,"
    " \"partial_rotary_factor\": 0.25, \"rope_parameters\": {\"rope_type\": \"default\","
    " \"rope_theta\": 10000.0, \"partial_rotary_factor\": 0.25},"
    " \"linear_num_key_heads\": 1, \"linear_num_value_heads\": 2, \"linear_key_head_dim\": 32,"
    " \"linear_value_head_dim\": 32, \"linear_conv_kernel_dim\": 4, \"num_experts\": 3,"
    " \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 64,"
    " \"shared_expert_intermediate_size\": 64, \"norm_topk_prob\": true,"
    " \"tie_word_embeddings\": false}";

typedef enum { SINGLE, STACKED } expert_form;

typedef struct {
    sl_safetensors_item items[MAX_ITEMS];
    uint32_t count, random;
    sl_arena arena;
    char folder[64];
} checkpoint;

static const char *path_in(checkpoint *c, const char *name) {
    return sl_arena_format(&c->arena, "%s/%s", c->folder, name);
}

static void write_text(checkpoint *c, const char *name, const char *text) {
    FILE *file = fopen(path_in(c, name), "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static uint16_t *noise(checkpoint *c, int64_t count) {
    uint16_t *data = SL_ARENA_NEW_ARRAY(&c->arena, uint16_t, count);
    assert_non_null(data);
    for (int64_t i = 0; i < count; i++) {
        c->random = c->random * 1664525u + 1013904223u;
        data[i] = sl_bf16_from_f32((float)(int32_t)c->random * 0x1p-34f);
    }
    return data;
}

static void add(checkpoint *c, const char *name, sl_dims shape) {
    const sl_type type = {SL_DTYPE_bf16, shape};
    c->items[c->count++] = (sl_safetensors_item){name, type, noise(c, sl_type_elements(&type))};
}

static void add_residents(checkpoint *c, const char *prefix) {
    static const struct {
        const char *name;
        sl_dims shape;
    } tensors[] = {
        {"embed_tokens.weight", {2, {VOCAB, HIDDEN}}},
        {"norm.weight", {1, {HIDDEN}}},
        {"layers.0.linear_attn.A_log", {1, {2}}},
        {"layers.0.linear_attn.conv1d.weight", {3, {128, 1, 4}}},
        {"layers.0.linear_attn.in_proj_qkv.weight", {2, {128, HIDDEN}}},
        {"layers.0.mlp.gate.weight", {2, {EXPERTS, HIDDEN}}},
        {"layers.0.mlp.shared_expert_gate.weight", {2, {1, HIDDEN}}},
        {"layers.0.mlp.shared_expert.down_proj.weight", {2, {HIDDEN, WIDTH}}},
        {"layers.1.self_attn.q_proj.weight", {2, {256, HIDDEN}}},
        {"layers.0.input_layernorm.weight", {1, {HIDDEN}}},
        {"layers.0.post_attention_layernorm.weight", {1, {HIDDEN}}},
        {"layers.0.linear_attn.dt_bias", {1, {2}}},
        {"layers.0.linear_attn.norm.weight", {1, {32}}},
        {"layers.0.linear_attn.in_proj_z.weight", {2, {64, HIDDEN}}},
        {"layers.0.linear_attn.in_proj_a.weight", {2, {2, HIDDEN}}},
        {"layers.0.linear_attn.in_proj_b.weight", {2, {2, HIDDEN}}},
        {"layers.0.linear_attn.out_proj.weight", {2, {HIDDEN, 64}}},
        {"layers.0.mlp.shared_expert.gate_proj.weight", {2, {WIDTH, HIDDEN}}},
        {"layers.0.mlp.shared_expert.up_proj.weight", {2, {WIDTH, HIDDEN}}},
        {"layers.1.input_layernorm.weight", {1, {HIDDEN}}},
        {"layers.1.post_attention_layernorm.weight", {1, {HIDDEN}}},
        {"layers.1.self_attn.q_norm.weight", {1, {64}}},
        {"layers.1.self_attn.k_norm.weight", {1, {64}}},
        {"layers.1.self_attn.k_proj.weight", {2, {64, HIDDEN}}},
        {"layers.1.self_attn.v_proj.weight", {2, {64, HIDDEN}}},
        {"layers.1.self_attn.o_proj.weight", {2, {HIDDEN, 128}}},
        {"layers.1.mlp.gate.weight", {2, {EXPERTS, HIDDEN}}},
        {"layers.1.mlp.shared_expert_gate.weight", {2, {1, HIDDEN}}},
        {"layers.1.mlp.shared_expert.gate_proj.weight", {2, {WIDTH, HIDDEN}}},
        {"layers.1.mlp.shared_expert.up_proj.weight", {2, {WIDTH, HIDDEN}}},
        {"layers.1.mlp.shared_expert.down_proj.weight", {2, {HIDDEN, WIDTH}}},
    };
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++)
        add(c, sl_arena_format(&c->arena, "%s%s", prefix, tensors[i].name), tensors[i].shape);
    add(c, "lm_head.weight", (sl_dims){2, {VOCAB, HIDDEN}});
    add(c, "model.visual.patch.weight", (sl_dims){2, {32, 32}});
    add(c, "mtp.layers.0.mlp.experts.0.gate_proj.weight", (sl_dims){2, {WIDTH, HIDDEN}});
}

/* The same numbers in either form. */
static void add_experts(checkpoint *c, const char *prefix, expert_form form) {
    static const char *const names[] = {"gate_proj", "up_proj", "down_proj"};
    const int64_t each = (int64_t)WIDTH * HIDDEN;
    for (uint32_t l = 0; l < LAYERS; l++) {
        uint16_t *gate_up = noise(c, 2 * each * EXPERTS), *down = noise(c, each * EXPERTS);
        if (form == STACKED) {
            c->items[c->count++] = (sl_safetensors_item){
                sl_arena_format(&c->arena, "%slayers.%u.mlp.experts.gate_up_proj", prefix, l),
                {SL_DTYPE_bf16, {3, {EXPERTS, (int64_t)2 * WIDTH, HIDDEN}}},
                gate_up};
            c->items[c->count++] = (sl_safetensors_item){
                sl_arena_format(&c->arena, "%slayers.%u.mlp.experts.down_proj", prefix, l),
                {SL_DTYPE_bf16, {3, {EXPERTS, HIDDEN, WIDTH}}},
                down};
            continue;
        }
        for (uint32_t i = 0; i < EXPERTS * 3; i++) {
            const uint32_t e = i / 3, m = i % 3;
            const sl_dims shape =
                m == 2 ? (sl_dims){2, {HIDDEN, WIDTH}} : (sl_dims){2, {WIDTH, HIDDEN}};
            c->items[c->count++] = (sl_safetensors_item){
                sl_arena_format(&c->arena, "%slayers.%u.mlp.experts.%u.%s.weight", prefix, l, e,
                                names[m]),
                {SL_DTYPE_bf16, shape},
                m == 2 ? down + e * each : gate_up + (2 * e + m) * each};
        }
    }
}

static void begin(checkpoint *c, const char *prefix, expert_form form) {
    memset(c, 0, sizeof *c);
    c->random = 1;
    sl_arena_init(&c->arena, NULL);
    (void)snprintf(c->folder, sizeof c->folder, "/tmp/sluice-convert-XXXXXX");
    assert_non_null(mkdtemp(c->folder));
    assert_int_equal(mkdir(path_in(c, "out"), 0700), 0);
    add_residents(c, prefix);
    add_experts(c, prefix, form);
}

static void write_checkpoint(checkpoint *c) {
    write_text(c, "config.json", config_text);
    write_text(c, "chat_template.jinja", "{{ x }}");
    sl_error error = {0};
    if (sl_safetensors_write(path_in(c, "model.safetensors"), c->items, c->count, &error) != SL_OK)
        fail_msg("%s", error.message);
}

static int files_in(const char *folder) {
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    int count = 0;
    const struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) count += entry->d_name[0] != '.';
    assert_int_equal(closedir(directory), 0);
    return count;
}

static void end(checkpoint *c) {
    static const char *const names[] = {"model.safetensors", "config.json", "chat_template.jinja",
                                        "out/a.sluice", "out/b.sluice"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) (void)unlink(path_in(c, names[i]));
    assert_int_equal(rmdir(path_in(c, "out")), 0);
    assert_int_equal(rmdir(c->folder), 0);
    sl_arena_deinit(&c->arena);
}

static void pack(checkpoint *c, const char *to, const char *quant, uint32_t threads) {
    const sl_pack_options options = {
        .struct_size = sizeof options, .quant = quant, .threads = threads, .force = 1};
    sl_error error = {0};
    if (sl_pack_write(c->folder, path_in(c, to), &options, &error) != SL_OK)
        fail_msg("%s", error.message);
}

static void assert_same_files(checkpoint *a, const char *a_name, checkpoint *b,
                              const char *b_name) {
    FILE *one = fopen(path_in(a, a_name), "rb"), *two = fopen(path_in(b, b_name), "rb");
    assert_non_null(one);
    assert_non_null(two);
    uint64_t bytes = 0;
    int x, y;
    do {
        x = getc(one);
        y = getc(two);
        bytes++;
        if (x != y) fail_msg("files differ at byte %llu", (unsigned long long)bytes);
    } while (x != EOF);
    assert_true(bytes > 4096);
    (void)fclose(one);
    (void)fclose(two);
}

/* ||decoded - original|| / ||original|| of a matrix. */
static double error_of(const sl_type *type, const void *data, const uint16_t *original) {
    const int64_t rows = type->shape.dims[0], cols = type->shape.dims[1];
    float row[HIDDEN > WIDTH ? HIDDEN : WIDTH];
    double miss = 0, size = 0;
    for (int64_t r = 0; r < rows; r++) {
        sl_decode_row(type->dtype, data, rows, cols, r, row);
        for (int64_t i = 0; i < cols; i++) {
            const double w = sl_f32_from_bf16(original[r * cols + i]);
            miss += (row[i] - w) * (row[i] - w);
            size += w * w;
        }
    }
    return sqrt(miss / size);
}

static double allowed(sl_dtype dtype) {
    return dtype == SL_DTYPE_q4 ? 0.08 : dtype == SL_DTYPE_q8 ? 0.006 : 0;
}

static const uint16_t *original_of(const checkpoint *c, const char *name) {
    for (uint32_t i = 0; i < c->count; i++)
        if (strcmp(c->items[i].name, name) == 0) return c->items[i].data;
    fail_msg("no tensor %s", name);
    return NULL;
}

/* expected: 'q' the pack's quantisation, '8' always q8 when quantising, 'k' kept, 'f' f32. */
static sl_dtype expected_dtype(char expected, const char *quant) {
    if (expected == 'f') return SL_DTYPE_f32;
    if (strcmp(quant, "none") == 0) return SL_DTYPE_bf16;
    return expected == '8' || strcmp(quant, "q8") == 0 ? SL_DTYPE_q8 : SL_DTYPE_q4;
}

static void check_residents(const checkpoint *c, sl_source *source, const char *quant) {
    static const struct {
        const char *name;
        char expected;
    } wanted[] = {{"lm_head.weight", '8'},
                  {"model.embed_tokens.weight", '8'},
                  {"model.norm.weight", 'f'},
                  {"model.layers.0.linear_attn.A_log", 'f'},
                  {"model.layers.0.linear_attn.conv1d.weight", 'f'},
                  {"model.layers.0.linear_attn.in_proj_qkv.weight", 'q'},
                  {"model.layers.0.mlp.gate.weight", '8'},
                  {"model.layers.0.mlp.shared_expert_gate.weight", '8'},
                  {"model.layers.0.mlp.shared_expert.down_proj.weight", 'q'},
                  {"model.layers.1.self_attn.q_proj.weight", 'q'}};
    const uint32_t count = sizeof wanted / sizeof wanted[0];
    assert_int_equal(sl_source_tensor_count(source), RESIDENTS);
    for (uint32_t i = 0; i < count; i++) {
        const sl_tensor_entry *entry = sl_source_find(source, wanted[i].name);
        assert_non_null(entry);
        const uint16_t *original = original_of(c, wanted[i].name);
        const void *data;
        sl_error error = {0};
        assert_int_equal(sl_source_load(source, entry, &data, &error), SL_OK);
        assert_int_equal(entry->type.dtype, expected_dtype(wanted[i].expected, quant));
        if (wanted[i].expected != 'f') {
            assert_true(error_of(&entry->type, data, original) <= allowed(entry->type.dtype));
            continue;
        }
        for (int64_t e = 0; e < sl_type_elements(&entry->type); e++)
            assert_true(((const float *)data)[e] == sl_f32_from_bf16(original[e]));
    }
}

static void check_experts(checkpoint *c, const sl_source *source, const char *pack_name,
                          const char *quant) {
    static const char *const names[] = {"gate_proj", "up_proj", "down_proj"};
    FILE *file = fopen(path_in(c, pack_name), "rb");
    assert_non_null(file);
    for (uint32_t i = 0; i < LAYERS * EXPERTS * 3; i++) {
        const uint32_t l = i / (EXPERTS * 3), e = i / 3 % EXPERTS, m = i % 3;
        const sl_expert_blocks *blocks = sl_source_expert_blocks(source, l);
        assert_non_null(blocks);
        const sl_type *type = (const sl_type *[]){&blocks->gate, &blocks->up, &blocks->down}[m];
        const uint64_t at = (const uint64_t[]){0, blocks->up_offset, blocks->down_offset}[m];
        assert_int_equal(type->dtype, expected_dtype('q', quant));
        const uint64_t bytes = sl_type_bytes(type);
        void *data = malloc(bytes);
        const long offset = (long)(blocks->offset + e * blocks->block_bytes + at);
        assert_int_equal(fseek(file, offset, SEEK_SET), 0);
        assert_int_equal(fread(data, 1, bytes, file), bytes);
        const uint16_t *original =
            original_of(c, sl_arena_format(&c->arena, "model.layers.%u.mlp.experts.%u.%s.weight", l,
                                           e, names[m]));
        assert_true(error_of(type, data, original) <= allowed(type->dtype));
        free(data);
    }
    assert_int_equal(fclose(file), 0);
}

static void types_of_residents(void **state) {
    (void)state;
    const sl_type narrow = sl_type_make(SL_DTYPE_bf16, 2, (int64_t)40, (int64_t)16);
    assert_int_equal(sl_quant_resident(SL_QUANT_Q4, "layers.1.narrow.weight", &narrow),
                     SL_DTYPE_bf16);
    const sl_type wide = sl_type_make(SL_DTYPE_bf16, 2, (int64_t)40, (int64_t)64);
    const sl_type heads = sl_type_make(SL_DTYPE_bf16, 3, (int64_t)4, (int64_t)40, (int64_t)64);
    assert_int_equal(sl_quant_resident(SL_QUANT_Q4, "layers.1.up_proj_bias", &wide), SL_DTYPE_f32);
    assert_int_equal(sl_quant_resident(SL_QUANT_Q4, "layers.1.embed_q.weight", &heads),
                     SL_DTYPE_q4);
    assert_int_equal(sl_quant_resident(SL_QUANT_NONE, "layers.1.embed_q.weight", &heads),
                     SL_DTYPE_bf16);
}

static void packs_read_back(void **state) {
    (void)state;
    static const char *const quants[] = {"q4", "q8", "none"};
    checkpoint c;
    begin(&c, "model.", SINGLE);
    write_checkpoint(&c);
    for (int i = 0; i < 3; i++) {
        pack(&c, "out/a.sluice", quants[i], 2);
        sl_source *source = NULL;
        sl_error error = {0};
        if (sl_source_open(path_in(&c, "out/a.sluice"), NULL, &source, &error) != SL_OK)
            fail_msg("%s", error.message);
        size_t bytes = 0;
        assert_string_equal(sl_source_text(source, "config.json", &bytes), config_text);
        assert_string_equal(sl_source_text(source, "chat_template.jinja", &bytes), "{{ x }}");
        assert_null(sl_source_text(source, "tokenizer.json", &bytes));
        check_residents(&c, source, quants[i]);
        check_experts(&c, source, "out/a.sluice", quants[i]);
        sl_source_close(source);
    }
    assert_int_equal(files_in(path_in(&c, "out")), 1);
    end(&c);
}

static void thread_count_does_not_matter(void **state) {
    (void)state;
    checkpoint c;
    begin(&c, "model.", SINGLE);
    write_checkpoint(&c);
    pack(&c, "out/a.sluice", NULL, 1);
    for (uint32_t threads = 2; threads <= 5; threads += 3) {
        pack(&c, "out/b.sluice", "q4", threads);
        assert_same_files(&c, "out/a.sluice", &c, "out/b.sluice");
    }
    end(&c);
}

static void both_forms_give_one_pack(void **state) {
    (void)state;
    checkpoint single, stacked;
    begin(&single, "model.", SINGLE);
    begin(&stacked, "model.language_model.", STACKED);
    write_checkpoint(&single);
    write_checkpoint(&stacked);
    pack(&single, "out/a.sluice", "q4", 2);
    pack(&stacked, "out/a.sluice", "q4", 2);
    assert_same_files(&single, "out/a.sluice", &stacked, "out/a.sluice");
    end(&single);
    end(&stacked);
}

typedef struct {
    uint64_t stop_at, done, total;
    int calls;
} progress;

static int note_progress(void *ctx, const char *what, uint64_t done, uint64_t total) {
    progress *p = ctx;
    assert_non_null(what);
    assert_true(done > p->done && done <= total);
    p->done = done;
    p->total = total;
    p->calls++;
    return done >= p->stop_at;
}

static void stopping_leaves_nothing(void **state) {
    (void)state;
    checkpoint c;
    begin(&c, "model.", STACKED);
    write_checkpoint(&c);
    progress p = {.stop_at = UINT64_MAX};
    sl_pack_options options = {
        .struct_size = sizeof options, .progress = note_progress, .progress_ctx = &p};
    sl_error error = {0};
    assert_int_equal(sl_pack_write(c.folder, path_in(&c, "out/a.sluice"), &options, &error), SL_OK);
    assert_int_equal(p.done, p.total);
    assert_int_equal(p.calls, RESIDENTS + LAYERS * EXPERTS);
    const uint64_t total = p.total;
    for (uint64_t stop = 1; stop < total; stop += total / 5) {
        p = (progress){.stop_at = stop};
        const sl_status status =
            sl_pack_write(c.folder, path_in(&c, "out/b.sluice"), &options, &error);
        assert_int_equal(status, SL_CANCELLED);
        assert_int_equal(files_in(path_in(&c, "out")), 1);
    }
    end(&c);
}

/* Packs the checkpoint, which must fail with this message and leave an old pack as it was. */
static void check_failure(checkpoint *c, const char *message) {
    write_checkpoint(c);
    write_text(c, "out/a.sluice", "old");
    const sl_pack_options options = {.struct_size = sizeof options, .threads = 2, .force = 1};
    sl_error error = {0};
    assert_int_equal(sl_pack_write(c->folder, path_in(c, "out/a.sluice"), &options, &error),
                     SL_FORMAT);
    if (!strstr(error.message, message)) fail_msg("message was: %s", error.message);
    assert_int_equal(files_in(path_in(c, "out")), 1);
    struct stat info;
    assert_int_equal(stat(path_in(c, "out/a.sluice"), &info), 0);
    assert_int_equal(info.st_size, 3);
    end(c);
}

static void bad_sources_are_named(void **state) {
    (void)state;
    checkpoint c;
    begin(&c, "model.", SINGLE);
    c.items[c.count - 1].name = "model.renamed";
    check_failure(&c, "tensor 'model.layers.1.mlp.experts.2.down_proj.weight' is missing");

    begin(&c, "model.", SINGLE);
    c.items[4].type = sl_type_make(SL_DTYPE_i32, 2, (int64_t)32, (int64_t)HIDDEN);
    check_failure(&c, "tensor 'model.layers.0.linear_attn.in_proj_qkv.weight' is i32");

    begin(&c, "model.", SINGLE);
    uint16_t *weights = noise(&c, (int64_t)256 * HIDDEN);
    weights[70 * HIDDEN + 9] = 0x7fc0; /* not a number */
    c.items[8].data = weights;
    check_failure(&c,
                  "tensor 'model.layers.1.self_attn.q_proj.weight' from row 64: weight at row 6 "
                  "column 9 is nan");

    begin(&c, "model.", SINGLE);
    add(&c, "model.language_model.norm.weight", (sl_dims){1, {HIDDEN}});
    check_failure(&c,
                  "1 tensors are not part of a qwen3_5_moe with this config: model.norm.weight");

    begin(&c, "model.", SINGLE);
    c.items[8].name = "model.layers.1.self_attn.renamed.weight";
    check_failure(&c, "tensor 'model.layers.1.self_attn.q_proj.weight' is missing");
}

static void refuse_destination(checkpoint *c, const char *to, sl_status status,
                               const char *message) {
    const sl_pack_options options = {.struct_size = sizeof options, .force = 1};
    sl_error error = {0};
    struct stat before, after;
    assert_int_equal(stat(path_in(c, to), &before), 0);
    assert_int_equal(sl_pack_write(c->folder, path_in(c, to), &options, &error), status);
    if (!strstr(error.message, message)) fail_msg("message was: %s", error.message);
    assert_int_equal(stat(path_in(c, to), &after), 0);
    assert_int_equal(after.st_ino, before.st_ino);
}

static void destinations_that_must_stay(void **state) {
    (void)state;
    checkpoint c;
    begin(&c, "model.", SINGLE);
    write_checkpoint(&c);
    sl_error error = {0};
    refuse_destination(&c, "model.safetensors", SL_INVALID, "a file of the source");
    refuse_destination(&c, "config.json", SL_INVALID, "a file of the source");
    refuse_destination(&c, "out", SL_IO, "is a folder");
    assert_int_equal(link(path_in(&c, "model.safetensors"), path_in(&c, "out/a.sluice")), 0);
    refuse_destination(&c, "out/a.sluice", SL_INVALID, "a file of the source");
    assert_int_equal(unlink(path_in(&c, "out/a.sluice")), 0);
    write_text(&c, "out/a.sluice", "old");
    assert_int_equal(sl_pack_write(c.folder, path_in(&c, "out/a.sluice"), NULL, &error), SL_IO);
    assert_non_null(strstr(error.message, "exists"));
    pack(&c, "out/a.sluice", "none", 1);
    end(&c);
}

static void bad_calls_are_refused(void **state) {
    (void)state;
    checkpoint c;
    begin(&c, "model.", SINGLE);
    write_checkpoint(&c);
    sl_pack_options options = {.struct_size = sizeof options, .quant = "q5"};
    sl_error error = {0};
    assert_int_equal(sl_pack_write(c.folder, path_in(&c, "out/a.sluice"), &options, &error),
                     SL_INVALID);
    assert_non_null(strstr(error.message, "q5"));
    assert_int_equal(sl_pack_write(c.folder, path_in(&c, "none/a.sluice"), NULL, &error), SL_IO);
    pack(&c, "out/a.sluice", "none", 1);
    assert_int_equal(
        sl_pack_write(path_in(&c, "out/a.sluice"), path_in(&c, "out/b.sluice"), NULL, &error),
        SL_UNSUPPORTED);
    assert_int_equal(files_in(path_in(&c, "out")), 1);
    end(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_of_residents),           cmocka_unit_test(packs_read_back),
        cmocka_unit_test(thread_count_does_not_matter), cmocka_unit_test(both_forms_give_one_pack),
        cmocka_unit_test(stopping_leaves_nothing),      cmocka_unit_test(bad_sources_are_named),
        cmocka_unit_test(destinations_that_must_stay),  cmocka_unit_test(bad_calls_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
