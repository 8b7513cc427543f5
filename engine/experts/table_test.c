#include "engine/experts/table.h"
#include "engine/formats/pack.h"
#include "engine/formats/safetensors.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* cmocka needs the headers above first */
#include <cmocka.h>

enum { LAYERS = 2, EXPERTS = 3, HIDDEN = 64, WIDTH = 32, MAX_ITEMS = 64 };
static const sl_layer_config layers[LAYERS] = {{.sparse = true}, {.sparse = true}};
static const sl_model_config config = {.layers = LAYERS,
                                       .layer = layers,
                                       .experts = EXPERTS,
                                       .experts_used = 2,
                                       .hidden = HIDDEN,
                                       .expert_width = WIDTH};

/* A checkpoint in memory, before it is written. */
typedef struct {
    sl_safetensors_item items[MAX_ITEMS];
    uint32_t count;
    sl_arena arena;
    char folder[64], file[96], config_file[96], pack[96];
} checkpoint;

/* Every byte pair of a matrix tells which one it is. */
static uint16_t mark(uint32_t layer, uint32_t expert, int matrix) {
    return (uint16_t)(layer * 256 + expert * 16 + (uint32_t)matrix);
}

static void add(checkpoint *c, const char *name, sl_type type, const uint16_t *marks,
                uint32_t mark_count) {
    const int64_t elements = sl_type_elements(&type);
    uint16_t *data = SL_ARENA_NEW_ARRAY(&c->arena, uint16_t, sl_type_bytes(&type) / 2);
    assert_non_null(data);
    if (type.dtype == SL_DTYPE_bf16)
        for (int64_t i = 0; i < elements; i++) data[i] = marks[i / (elements / mark_count)];
    c->items[c->count++] = (sl_safetensors_item){name, type, data};
}

static void add_single(checkpoint *c, const char *prefix) {
    static const char *const names[] = {"gate_proj", "up_proj", "down_proj"};
    for (uint32_t l = 0; l < LAYERS; l++)
        for (uint32_t e = 0; e < EXPERTS; e++)
            for (int m = 0; m < 3; m++) {
                const char *name = sl_arena_format(
                    &c->arena, "%slayers.%u.mlp.experts.%u.%s.weight", prefix, l, e, names[m]);
                const int64_t rows = m == SL_DOWN ? HIDDEN : WIDTH,
                              cols = m == SL_DOWN ? WIDTH : HIDDEN;
                add(c, name, sl_type_make(SL_DTYPE_bf16, 2, rows, cols),
                    (const uint16_t[]){mark(l, e, m)}, 1);
            }
}

static void add_stacked(checkpoint *c) {
    for (uint32_t l = 0; l < LAYERS; l++) {
        uint16_t gate_up[2 * EXPERTS], down[EXPERTS];
        for (size_t e = 0; e < EXPERTS; e++) {
            gate_up[2 * e] = mark(l, (uint32_t)e, SL_GATE);
            gate_up[2 * e + 1] = mark(l, (uint32_t)e, SL_UP);
            down[e] = mark(l, (uint32_t)e, SL_DOWN);
        }
        add(c, sl_arena_format(&c->arena, "model.layers.%u.mlp.experts.gate_up_proj", l),
            sl_type_make(SL_DTYPE_bf16, 3, (int64_t)EXPERTS, (int64_t)2 * WIDTH, (int64_t)HIDDEN),
            gate_up, 2 * EXPERTS);
        add(c, sl_arena_format(&c->arena, "model.layers.%u.mlp.experts.down_proj", l),
            sl_type_make(SL_DTYPE_bf16, 3, (int64_t)EXPERTS, (int64_t)HIDDEN, (int64_t)WIDTH), down,
            EXPERTS);
    }
}

static void begin(checkpoint *c) {
    memset(c, 0, sizeof *c);
    sl_arena_init(&c->arena, NULL);
    (void)snprintf(c->folder, sizeof c->folder, "/tmp/sluice-table-XXXXXX");
    assert_non_null(mkdtemp(c->folder));
    (void)snprintf(c->file, sizeof c->file, "%s/model.safetensors", c->folder);
    (void)snprintf(c->config_file, sizeof c->config_file, "%s/config.json", c->folder);
    (void)snprintf(c->pack, sizeof c->pack, "%s/model.sluice", c->folder);
}

static void end(checkpoint *c) {
    (void)unlink(c->file);
    (void)unlink(c->config_file);
    (void)unlink(c->pack);
    assert_int_equal(rmdir(c->folder), 0);
    sl_arena_deinit(&c->arena);
}

static sl_source *open_written(checkpoint *c) {
    sl_error error = {0};
    FILE *file = fopen(c->config_file, "w");
    assert_non_null(file);
    assert_true(fputs("{}", file) >= 0 && fclose(file) == 0);
    sl_source *source = NULL;
    if (sl_safetensors_write(c->file, c->items, c->count, &error) != SL_OK ||
        sl_source_open(c->folder, NULL, &source, &error) != SL_OK)
        fail_msg("%s", error.message);
    return source;
}

/* Reads every matrix where the table says it is, and compares the marks. */
static void check_marks(const sl_source *source, const sl_expert_table *table) {
    assert_int_equal(table->layers, LAYERS);
    for (uint32_t l = 0; l < LAYERS; l++)
        for (uint32_t i = 0; i < EXPERTS * 3; i++) {
            const sl_expert_layer *layer = &table->layer[l];
            const uint32_t e = i / 3, m = i % 3;
            const sl_expert_matrix *matrix = &layer->matrices[m];
            const sl_expert_piece *piece = &matrix->pieces[0];
            const sl_extent *part = &layer->parts[e * layer->part_count + piece->part];
            const uint64_t bytes = sl_type_bytes(&matrix->type);
            assert_true(piece->offset + bytes <= part->bytes);
            FILE *file = fopen(sl_source_file_path(source, part->file), "rb");
            assert_non_null(file);
            uint16_t found[HIDDEN * WIDTH];
            assert_int_equal(fseek(file, (long)(part->offset + piece->offset), SEEK_SET), 0);
            assert_int_equal(fread(found, 1, bytes, file), bytes);
            assert_int_equal(fclose(file), 0);
            assert_int_equal(found[0], mark(l, e, (int)m));
            assert_int_equal(found[HIDDEN * WIDTH - 1], mark(l, e, (int)m));
        }
}

static void check_form(checkpoint *c, uint32_t part_count) {
    sl_source *source = open_written(c);
    sl_expert_table table;
    sl_error error = {0};
    if (sl_expert_table_build(source, &config, &c->arena, &table, &error) != SL_OK)
        fail_msg("%s", error.message);
    assert_int_equal(table.layer[0].part_count, part_count);
    assert_int_equal(table.expert_bytes, (uint64_t)3 * HIDDEN * WIDTH * sizeof(uint16_t));
    assert_int_equal(table.total_bytes, table.expert_bytes * LAYERS * EXPERTS);
    assert_null(table.layer[0].checksums);
    check_marks(source, &table);
    sl_source_close(source);
}

static void finds_single_tensors(void **state) {
    (void)state;
    static const char *const prefixes[] = {"model.", "model.language_model.",
                                           "language_model.model."};
    for (int i = 0; i < 3; i++) {
        checkpoint c;
        begin(&c);
        add_single(&c, prefixes[i]);
        check_form(&c, 3);
        end(&c);
    }
}

static void finds_stacked_tensors(void **state) {
    (void)state;
    checkpoint c;
    begin(&c);
    add_stacked(&c);
    check_form(&c, 2);
    end(&c);
}

static void write_blocks(const checkpoint *c, uint32_t count, const sl_type types[3]) {
    sl_error error = {0};
    sl_pack_writer *writer = NULL;
    assert_int_equal(sl_pack_writer_create(c->pack, NULL, &writer, &error), SL_OK);
    assert_int_equal(sl_pack_writer_text(writer, "config.json", "{}", 2, &error), SL_OK);
    for (uint32_t l = 0; l < LAYERS; l++) {
        assert_int_equal(sl_pack_writer_layer(writer, l, count, types, &error), SL_OK);
        for (uint32_t e = 0; e < count; e++) {
            uint16_t data[3][HIDDEN * WIDTH];
            for (int m = 0; m < 3; m++)
                for (int i = 0; i < HIDDEN * WIDTH; i++) data[m][i] = mark(l, e, m);
            const void *matrices[] = {data[0], data[1], data[2]};
            assert_int_equal(sl_pack_writer_expert(writer, matrices, &error), SL_OK);
        }
    }
    assert_int_equal(sl_pack_writer_finish(writer, &error), SL_OK);
    sl_pack_writer_destroy(writer);
}

static void finds_pack_blocks(void **state) {
    (void)state;
    checkpoint c;
    begin(&c);
    const sl_type gate = sl_type_make(SL_DTYPE_bf16, 2, (int64_t)WIDTH, (int64_t)HIDDEN);
    const sl_type down = sl_type_make(SL_DTYPE_bf16, 2, (int64_t)HIDDEN, (int64_t)WIDTH);
    for (int wrong = 0; wrong < 3; wrong++) {
        const sl_type types[] = {gate, wrong == 1 ? down : gate, down};
        write_blocks(&c, wrong == 2 ? EXPERTS - 1 : EXPERTS, types);
        sl_source *source = NULL;
        sl_error error = {0};
        assert_int_equal(sl_source_open(c.pack, NULL, &source, &error), SL_OK);
        sl_expert_table table;
        const sl_status status = sl_expert_table_build(source, &config, &c.arena, &table, &error);
        if (wrong == 0) {
            assert_int_equal(status, SL_OK);
            assert_int_equal(table.layer[1].part_count, 1);
            assert_non_null(table.layer[1].checksums);
            check_marks(source, &table);
        } else {
            assert_int_equal(status, SL_FORMAT);
            assert_non_null(strstr(error.message, wrong == 1 ? "bf16[64,32]" : "2 experts"));
            assert_non_null(strstr(error.message, wrong == 1 ? "[32,64]" : "wanted 3"));
        }
        sl_source_close(source);
    }
    end(&c);
}

typedef struct {
    bool stacked, drop;
    uint32_t item;
    sl_type type; /* instead of the right one, unless dropped */
    const char *message;
} mistake;

static void check_mistake(const mistake *wrong) {
    checkpoint c;
    begin(&c);
    if (wrong->stacked)
        add_stacked(&c);
    else
        add_single(&c, "model.");
    if (wrong->drop)
        c.items[wrong->item].name = "model.something.else";
    else
        c.items[wrong->item].type = wrong->type;
    sl_source *source = open_written(&c);
    sl_expert_table table;
    sl_error error = {0};
    assert_int_equal(sl_expert_table_build(source, &config, &c.arena, &table, &error), SL_FORMAT);
    assert_string_equal(error.message, wrong->message);
    sl_source_close(source);
    end(&c);
}

static void mistakes_are_named(void **state) {
    (void)state;
    const int64_t e = EXPERTS, h = HIDDEN, w = WIDTH;
    const mistake mistakes[] = {
        {false, true, 4, {0}, "tensor 'model.layers.0.mlp.experts.1.up_proj.weight' is missing"},
        {false, false, 9, sl_type_make(SL_DTYPE_bf16, 2, w, h / 2),
         "tensor 'model.layers.1.mlp.experts.0.gate_proj.weight' is bf16[32,32], wanted f32, f16 "
         "or "
         "bf16 [32,64]"},
        {false, false, 5, sl_type_make(SL_DTYPE_i32, 2, h, w / 2),
         "tensor 'model.layers.0.mlp.experts.1.down_proj.weight' is i32[64,16], wanted f32, f16 or "
         "bf16 [64,32]"},
        {false, false, 5, sl_type_make(SL_DTYPE_f16, 2, h, w),
         "tensor 'model.layers.0.mlp.experts.1.down_proj.weight' is f16, wanted bf16 like expert 0 "
         "of its layer"},
        {true, true, 3, {0}, "tensor 'model.layers.1.mlp.experts.down_proj' is missing"},
        {true, false, 0, sl_type_make(SL_DTYPE_bf16, 3, e, w, h),
         "tensor 'model.layers.0.mlp.experts.gate_up_proj' is bf16[3,32,64], wanted f32, f16 or "
         "bf16 [3,64,64]"},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) check_mistake(&mistakes[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_single_tensors),
        cmocka_unit_test(finds_stacked_tensors),
        cmocka_unit_test(finds_pack_blocks),
        cmocka_unit_test(mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
