/* convert.c - From a model in any other format to a pack.
 *
 * Tensors are taken one at a time, routed experts one expert at a time.  A matrix is quantised in
 * blocks of rows by a team of threads; panels do not depend on each other, so the bytes are the
 * same however the blocks fall to the members.  Floats exist only for the blocks in work, and a
 * large matrix is written slab by slab, so that memory does not grow with the model. */
#include "engine/convert/convert.h"
#include "base/sizes.h"
#include "base/team.h"
#include "core/codec.h"
#include "engine/experts/places.h"
#include "engine/formats/file.h"
#include "engine/formats/names.h"
#include "engine/formats/pack.h"
#include "engine/models/architecture.h"
#include "engine/models/gather.h"
#include "engine/models/unused.h"
#include "engine/quant/quantise.h"
#include "engine/quant/recipe.h"
#include "sluice/sluice.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_ROWS = 64, SLAB_BYTES = 64 << 20, MATRIX_ALIGN = 64 };

typedef struct {
    const char *suffix; /* canonical name without "model." */
    const sl_tensor_entry *entry;
    const sl_weight *gathered; /* where it is only a part of the entry; else NULL */
    sl_type from;
    sl_dtype dtype; /* in the pack */
    uint64_t bytes; /* of the source */
} resident;

typedef struct {
    const sl_pack_options *options;
    const sl_allocator *allocator;
    sl_quant quant;
    sl_arena arena;
    sl_source *source;
    sl_model_config config;
    sl_expert_table experts;
    sl_weights weights; /* unread: every tensor that the model needs */
    resident *residents;
    uint32_t resident_count;
    sl_pack_writer *writer;
    sl_team *team;
    uint64_t done_bytes, total_bytes;
} packing;

/* Rows of a matrix to convert; out has the bytes of as many rows of the target type. */
typedef struct {
    const char *name;
    const uint8_t *data; /* all of the matrix */
    sl_type from;
    int64_t first, rows; /* which rows */
    sl_dtype to;
    uint8_t *out;
} matrix_task;

/* What the team works on: the blocks of all tasks, in order. */
typedef struct {
    const matrix_task *tasks;
    uint32_t task_count;
    const sl_allocator *allocator;
    _Atomic int64_t next_block;
    _Atomic bool failed;
    sl_error error; /* of the first member that failed */
} shared_work;

static int64_t rows_of(const matrix_task *task) {
    return task->rows;
}
static int64_t cols_of(const matrix_task *task) {
    return task->from.shape.dims[1];
}
static int64_t blocks_of(const matrix_task *task) {
    return (rows_of(task) + BLOCK_ROWS - 1) / BLOCK_ROWS;
}

static void floats_from(sl_dtype dtype, const uint8_t *data, int64_t count, float *out) {
    const uint16_t *halves = (const uint16_t *)(const void *)data;
    if (dtype == SL_DTYPE_f32) memcpy(out, data, (size_t)count * sizeof *out);
    if (dtype == SL_DTYPE_bf16)
        for (int64_t i = 0; i < count; i++) out[i] = sl_f32_from_bf16(halves[i]);
    if (dtype == SL_DTYPE_f16)
        for (int64_t i = 0; i < count; i++) out[i] = sl_f32_from_f16(halves[i]);
}

/* Rows of a matrix of any type, counted from its first. */
static void rows_from(const matrix_task *task, int64_t first, int64_t rows, float *out) {
    const int64_t cols = cols_of(task), all = task->from.shape.dims[0];
    const sl_dtype dtype = task->from.dtype;
    if (sl_dtype_infos[dtype].kind == SL_KIND_FLOAT)
        floats_from(dtype, task->data + (uint64_t)(first * cols) * sl_dtype_infos[dtype].bytes,
                    rows * cols, out);
    else
        for (int64_t r = 0; r < rows; r++)
            sl_decode_row(dtype, task->data, all, cols, first + r, out + r * cols);
}

/* Copies the panels of a coded block of rows to their places in the whole matrix. */
static void place_panels(const matrix_task *task, int64_t first_row, int64_t rows,
                         const uint8_t *block) {
    const sl_panel_layout whole = sl_panel_layout_of(task->to, rows_of(task), cols_of(task));
    const sl_panel_layout part = sl_panel_layout_of(task->to, rows, cols_of(task));
    const uint64_t first = (uint64_t)first_row / SL_PANEL_ROWS, panels = (uint64_t)part.panels;
    const uint64_t headers = whole.header_bytes ? (uint64_t)whole.supers * 2 * sizeof(float) : 0;
    memcpy(task->out + first * headers, block, panels * headers);
    memcpy(task->out + whole.header_bytes + first * whole.panel_bytes, block + part.header_bytes,
           panels * part.panel_bytes);
}

/* Room for one member's block: the floats, then the codes. */
typedef struct {
    uint64_t float_bytes, bytes;
    uint8_t *room;
} scratch;

static sl_status convert_block(const matrix_task *task, int64_t block, const scratch *own,
                               sl_error *err) {
    const int64_t first = block * BLOCK_ROWS, cols = cols_of(task);
    const int64_t rows = rows_of(task) - first < BLOCK_ROWS ? rows_of(task) - first : BLOCK_ROWS;
    float *floats = (float *)(void *)own->room;
    uint8_t *codes = own->room + own->float_bytes;
    rows_from(task, task->first + first, rows, floats);
    const sl_status status = sl_quantise(task->to, floats, rows, cols, codes, err);
    if (status != SL_OK)
        return sl_fail_in(err, status, "tensor '%s' from row %lld", task->name,
                          (long long)(task->first + first));
    place_panels(task, first, rows, codes);
    return SL_OK;
}

/* The task that holds the running number *block, which becomes the block's number within it. */
static const matrix_task *task_of_block(const shared_work *work, int64_t *block) {
    for (uint32_t t = 0; t < work->task_count; t++) {
        if (*block < blocks_of(&work->tasks[t])) return &work->tasks[t];
        *block -= blocks_of(&work->tasks[t]);
    }
    return NULL;
}

static scratch scratch_of(const shared_work *work) {
    scratch need = {0};
    uint64_t code_bytes = 0;
    for (uint32_t t = 0; t < work->task_count; t++) {
        const matrix_task *task = &work->tasks[t];
        const uint64_t floats = (uint64_t)cols_of(task) * BLOCK_ROWS * sizeof(float);
        const uint64_t codes = sl_panel_layout_of(task->to, BLOCK_ROWS, cols_of(task)).matrix_bytes;
        if (floats > need.float_bytes) need.float_bytes = floats;
        if (codes > code_bytes) code_bytes = codes;
    }
    need.bytes = need.float_bytes + code_bytes;
    return need;
}

static sl_status convert_blocks(shared_work *work, sl_error *err) {
    scratch own = scratch_of(work);
    own.room = sl_allocate(work->allocator, own.bytes, MATRIX_ALIGN);
    if (!own.room) return sl_no_memory(err, "rows to quantise", own.bytes);
    sl_status status = SL_OK;
    while (status == SL_OK && !atomic_load(&work->failed)) {
        int64_t block = atomic_fetch_add(&work->next_block, 1);
        const matrix_task *task = task_of_block(work, &block);
        if (!task) break;
        status = convert_block(task, block, &own, err);
    }
    sl_release(work->allocator, own.room, own.bytes, MATRIX_ALIGN);
    return status;
}

/* As many blocks as are left, whichever share of the work it is called. */
static void convert_share(void *ctx, uint32_t member, uint32_t share) {
    (void)member, (void)share;
    shared_work *work = ctx;
    sl_error error = {0};
    if (convert_blocks(work, &error) != SL_OK && !atomic_exchange(&work->failed, true))
        work->error = error;
}

static sl_status convert_matrices(packing *p, const matrix_task *tasks, uint32_t count,
                                  sl_error *err) {
    shared_work work = {.tasks = tasks, .task_count = count, .allocator = p->allocator};
    sl_team_share(p->team, sl_team_size(p->team), convert_share, &work);
    return work.failed ? sl_fail(err, work.error.status, "%s", work.error.message) : SL_OK;
}

static sl_status advance(packing *p, uint64_t bytes, sl_error *err) {
    p->done_bytes += bytes;
    const sl_pack_options *o = p->options;
    if (o->progress && o->progress(o->progress_ctx, "packing", p->done_bytes, p->total_bytes) != 0)
        return sl_fail(err, SL_CANCELLED, "packing was stopped after %llu of %llu bytes",
                       (unsigned long long)p->done_bytes, (unsigned long long)p->total_bytes);
    return SL_OK;
}

static int compare_residents(const void *a, const void *b) {
    return strcmp(((const resident *)a)->suffix, ((const resident *)b)->suffix);
}

static void add_resident(packing *p, resident r) {
    r.dtype = sl_quant_resident(p->quant, r.suffix, &r.from);
    p->residents[p->resident_count++] = r;
    p->total_bytes += r.bytes;
}

/* A tensor of which the model needs parts, as matrices of their own (the heads of latent
 * attention).  Coding the whole would only have them decoded and coded again. */
static bool is_divided(const packing *p, const sl_weight *weight) {
    return weight->gather && weight->type.shape.rank == 3 && p->quant != SL_QUANT_NONE;
}

static bool is_written_in_parts(const packing *p, const sl_tensor_entry *entry) {
    for (uint32_t i = 0; i < p->weights.count; i++)
        if (p->weights.items[i].entry == entry && is_divided(p, &p->weights.items[i])) return true;
    return false;
}

static void add_part(packing *p, const sl_weight *weight) {
    const sl_type from = {SL_DTYPE_f32, weight->type.shape};
    const double share =
        (double)sl_type_elements(&from) / (double)sl_type_elements(&weight->entry->type);
    add_resident(p, (resident){.suffix = weight->name,
                               .entry = weight->entry,
                               .gathered = weight,
                               .from = from,
                               .bytes = (uint64_t)((double)weight->entry->at.bytes * share)});
}

/* Residents in order of name, whatever order and number of files they come from. */
static sl_status list_residents(packing *p, sl_error *err) {
    const uint32_t count = sl_source_tensor_count(p->source), most = count + p->weights.count;
    p->residents = SL_ARENA_NEW_ARRAY(&p->arena, resident, most ? most : 1);
    if (!p->residents) return sl_no_memory(err, "tensor list", most * sizeof *p->residents);
    for (uint32_t i = 0; i < count; i++) {
        const sl_tensor_entry *entry = sl_source_tensor(p->source, i);
        const char *suffix = sl_tensor_suffix(entry->name);
        if (!sl_source_is_used(p->source, i) || sl_suffix_is_expert(suffix)) continue;
        if (!is_written_in_parts(p, entry))
            add_resident(p, (resident){.suffix = suffix,
                                       .entry = entry,
                                       .from = entry->type,
                                       .bytes = entry->at.bytes});
    }
    for (uint32_t i = 0; i < p->weights.count; i++)
        if (is_divided(p, &p->weights.items[i])) add_part(p, &p->weights.items[i]);
    qsort(p->residents, p->resident_count, sizeof *p->residents, compare_residents);
    return SL_OK;
}

/* Rows that are converted at a time: all where headers come before the panels. */
static int64_t slab_rows(const sl_type *type) {
    const int64_t rows = type->shape.dims[0];
    const sl_panel_layout l = sl_panel_layout_of(type->dtype, rows, type->shape.dims[1]);
    if (l.header_bytes || l.matrix_bytes <= SLAB_BYTES) return rows;
    const int64_t panels = (int64_t)(SLAB_BYTES / l.panel_bytes);
    return (panels ? panels : 1) * SL_PANEL_ROWS;
}

/* Both types are of one matrix. */
static sl_status write_matrix(packing *p, const matrix_task *whole, sl_type type, sl_error *err) {
    const int64_t rows = type.shape.dims[0], cols = type.shape.dims[1], slab = slab_rows(&type);
    const uint64_t bytes = sl_panel_layout_of(type.dtype, slab, cols).matrix_bytes;
    uint8_t *out = sl_allocate(p->allocator, bytes, MATRIX_ALIGN);
    if (!out) return sl_no_memory(err, whole->name, bytes);
    sl_status status = SL_OK;
    for (int64_t first = 0; first < rows && status == SL_OK; first += slab) {
        const int64_t count = rows - first < slab ? rows - first : slab;
        matrix_task task = *whole;
        task.first = first;
        task.rows = count;
        task.to = type.dtype;
        task.out = out;
        status = convert_matrices(p, &task, 1, err);
        if (status == SL_OK)
            status = sl_pack_writer_piece(
                p->writer, out, sl_panel_layout_of(type.dtype, count, cols).matrix_bytes, err);
    }
    sl_release(p->allocator, out, bytes, MATRIX_ALIGN);
    return status;
}

/* One matrix after another, of a stack. */
static sl_status write_panels(packing *p, const resident *r, const void *data, sl_type type,
                              sl_error *err) {
    const sl_dims *shape = &type.shape;
    const int64_t rows = shape->dims[shape->rank - 2], cols = shape->dims[shape->rank - 1];
    const sl_type each = sl_type_make(type.dtype, 2, rows, cols);
    matrix_task task = {
        .name = r->entry->name, .data = data, .from = sl_type_make(r->from.dtype, 2, rows, cols)};
    for (int64_t m = 0; m < sl_type_elements(&type) / (rows * cols); m++) {
        SL_TRY(write_matrix(p, &task, each, err));
        task.data += sl_type_bytes(&task.from);
    }
    return SL_OK;
}

static sl_status write_floats(packing *p, const resident *r, const void *data, sl_type type,
                              sl_error *err) {
    const uint64_t bytes = sl_type_bytes(&type);
    float *out = sl_allocate(p->allocator, bytes, MATRIX_ALIGN);
    if (!out) return sl_no_memory(err, r->entry->name, bytes);
    floats_from(r->from.dtype, data, sl_type_elements(&type), out);
    const sl_status status = sl_pack_writer_piece(p->writer, out, bytes, err);
    sl_release(p->allocator, out, bytes, MATRIX_ALIGN);
    return status;
}

static sl_status write_as(packing *p, const resident *r, const char *name, const void *data,
                          sl_error *err) {
    const sl_type type = {r->dtype, r->from.shape};
    SL_TRY(sl_pack_writer_begin(p->writer, name, type, err));
    if (r->dtype == r->from.dtype)
        SL_TRY(sl_pack_writer_piece(p->writer, data, sl_type_bytes(&type), err));
    else if (sl_dtype_infos[r->dtype].kind == SL_KIND_PANEL)
        SL_TRY(write_panels(p, r, data, type, err));
    else
        SL_TRY(write_floats(p, r, data, type, err));
    return sl_pack_writer_end(p->writer, err);
}

static sl_status write_part(packing *p, const resident *r, const char *name, sl_error *err) {
    const uint64_t bytes = sl_type_bytes(&r->from);
    float *floats = sl_allocate(p->allocator, bytes, MATRIX_ALIGN);
    if (!floats) return sl_no_memory(err, r->suffix, bytes);
    sl_status status = sl_weight_gather_floats(&p->weights, r->gathered, floats, err);
    if (status == SL_OK) status = write_as(p, r, name, floats, err);
    sl_release(p->allocator, floats, bytes, MATRIX_ALIGN);
    return status;
}

static sl_status write_resident(packing *p, const resident *r, sl_error *err) {
    const bool whole = strcmp(r->suffix, "lm_head.weight") == 0;
    const char *name = sl_arena_format(&p->arena, "%s%s", whole ? "" : "model.", r->suffix);
    if (!name) return sl_no_memory(err, "tensor name", strlen(r->suffix) + 7);
    const void *data;
    SL_TRY(sl_source_load(p->source, r->entry, &data, err));
    const sl_status status =
        r->gathered ? write_part(p, r, name, err) : write_as(p, r, name, data, err);
    sl_source_unload(p->source, r->entry);
    SL_TRY(status);
    return advance(p, r->bytes, err);
}

/* The types of one expert's matrices in the pack. */
static void expert_types(const packing *p, uint32_t layer, sl_type out[SL_EXPERT_MATRICES]) {
    for (int m = 0; m < SL_EXPERT_MATRICES; m++) {
        out[m] = p->experts.layer[layer].matrices[m].type;
        out[m].dtype = sl_quant_expert(p->quant, &out[m]);
    }
}

/* Bytes that an expert's matrices take before and after they are converted. */
static uint64_t room_bytes(const sl_expert_place *places, const sl_type types[SL_EXPERT_MATRICES]) {
    uint64_t bytes = 0;
    for (int m = 0; m < SL_EXPERT_MATRICES; m++)
        bytes += sl_round_up(sl_type_bytes(&types[m]), MATRIX_ALIGN) +
                 sl_round_up(sl_type_bytes(&places[m].type), MATRIX_ALIGN);
    return bytes;
}

static sl_status write_expert(packing *p, const sl_expert_place *places,
                              const sl_type types[SL_EXPERT_MATRICES], uint8_t *room,
                              sl_error *err) {
    matrix_task tasks[SL_EXPERT_MATRICES];
    const void *matrices[SL_EXPERT_MATRICES];
    uint32_t task_count = 0;
    uint64_t bytes = 0;
    for (int m = 0; m < SL_EXPERT_MATRICES; m++) {
        const sl_dims *shape = &places[m].type.shape;
        const sl_tensor_share share = {places[m].index, places[m].count, shape->dims[0],
                                       shape->dims[1]};
        uint8_t *from = room;
        SL_TRY(sl_source_matrix(p->source, places[m].entry, &share, from, err));
        room += sl_round_up(sl_type_bytes(&places[m].type), MATRIX_ALIGN);
        bytes += sl_type_bytes(&places[m].type);
        matrices[m] = from;
        if (types[m].dtype == places[m].type.dtype) continue;
        matrices[m] = room;
        tasks[task_count++] = (matrix_task){
            places[m].entry->name, from, places[m].type, 0, shape->dims[0], types[m].dtype, room};
        room += sl_round_up(sl_type_bytes(&types[m]), MATRIX_ALIGN);
    }
    if (task_count) SL_TRY(convert_matrices(p, tasks, task_count, err));
    SL_TRY(sl_pack_writer_expert(p->writer, matrices, err));
    return advance(p, bytes, err);
}

static sl_status write_layer(packing *p, uint32_t layer, sl_error *err) {
    sl_type types[SL_EXPERT_MATRICES];
    expert_types(p, layer, types);
    SL_TRY(sl_pack_writer_layer(p->writer, layer, p->config.experts, types, err));
    sl_arena arena;
    sl_arena_init(&arena, p->allocator);
    sl_status status = SL_OK;
    sl_expert_place(*places)[SL_EXPERT_MATRICES] =
        sl_arena_array(&arena, p->config.experts, sizeof *places, _Alignof(sl_expert_place));
    uint8_t *room = NULL;
    if (places) {
        SL_TRY_ELSE(done, sl_experts_find(p->source, &p->config, layer, places, err));
        room = sl_arena_alloc(&arena, room_bytes(places[0], types), MATRIX_ALIGN);
    }
    if (!room) status = sl_no_memory(err, "an expert", p->config.experts * sizeof *places);
    for (uint32_t e = 0; e < p->config.experts && status == SL_OK; e++)
        status = write_expert(p, places[e], types, room, err);
done:
    sl_arena_deinit(&arena);
    return status;
}

static const char *const text_names[] = {"config.json", "generation_config.json", "tokenizer.json",
                                         "tokenizer_config.json", "chat_template.jinja"};
enum { TEXT_COUNT = sizeof text_names / sizeof text_names[0] };

static sl_status write_texts(packing *p, sl_error *err) {
    for (size_t i = 0; i < TEXT_COUNT; i++) {
        size_t bytes;
        const char *text = sl_source_text(p->source, text_names[i], &bytes);
        if (text) SL_TRY(sl_pack_writer_text(p->writer, text_names[i], text, bytes, err));
    }
    sl_source_release_tokenizer(p->source);
    return SL_OK;
}

/* Asks for every tensor that the model needs, in the shape it needs. */
static sl_status check_complete(packing *p, sl_error *err) {
    p->weights.source = p->source;
    return sl_architecture_list_weights(&p->config, &p->weights, &p->experts, err);
}

static bool is_quantised(const packing *p) {
    for (uint32_t l = 0; l < p->config.layers; l++)
        for (int m = 0; m < SL_EXPERT_MATRICES && p->config.layer[l].sparse; m++)
            if (sl_dtype_infos[p->experts.layer[l].matrices[m].type.dtype].kind != SL_KIND_FLOAT)
                return true;
    for (uint32_t i = 0; i < sl_source_tensor_count(p->source); i++)
        if (sl_source_is_used(p->source, i) &&
            sl_dtype_infos[sl_source_tensor(p->source, i)->type.dtype].kind == SL_KIND_PANEL)
            return true;
    return false;
}

/* Only floats are quantised.  Unless something else is asked for, a model that is quantised already
 * keeps its types. */
static sl_status choose_quant(packing *p, sl_error *err) {
    if (!p->options->quant && is_quantised(p)) p->quant = SL_QUANT_NONE;
    for (uint32_t l = 0; l < p->config.layers; l++) {
        if (!p->config.layer[l].sparse) continue;
        sl_type types[SL_EXPERT_MATRICES];
        expert_types(p, l, types);
        for (int m = 0; m < SL_EXPERT_MATRICES; m++) {
            const sl_dtype from = p->experts.layer[l].matrices[m].type.dtype;
            if (from != types[m].dtype && sl_dtype_infos[from].kind != SL_KIND_FLOAT)
                return sl_fail(err, SL_UNSUPPORTED,
                               "experts of layer %u are %s: quantised weights cannot be quantised "
                               "again to %s; quant 'none' keeps their types",
                               l, sl_dtype_infos[from].name, sl_dtype_infos[types[m].dtype].name);
        }
    }
    return SL_OK;
}

/* Everything that can be wrong with the source is found before the destination is touched. */
static sl_status read_source(packing *p, const char *path, sl_error *err) {
    SL_TRY(sl_source_open(path, p->allocator, &p->source, err));
    if (strcmp(sl_source_format(p->source), "pack") == 0)
        return sl_fail(err, SL_UNSUPPORTED,
                       "'%s' is already a pack; to quantise differently, pack the original model",
                       path);
    const char *note;
    SL_TRY(sl_model_config_load(p->source, &p->arena, &p->config, &p->experts, err));
    SL_TRY(check_complete(p, err));
    SL_TRY(sl_model_check_unused(p->source, &p->config, &p->arena, &note, err));
    SL_TRY(choose_quant(p, err));
    p->total_bytes = p->experts.total_bytes;
    return list_residents(p, err);
}

/* The destination may be new or a file that is replaced, but none that is read. */
static sl_status check_destination(packing *p, const char *source, const char *destination,
                                   sl_error *err) {
    bool same = sl_file_is_same(source, destination);
    for (uint32_t i = 0; i < sl_source_file_count(p->source); i++)
        same |= sl_file_is_same(sl_source_file_path(p->source, i), destination);
    for (size_t i = 0; i < TEXT_COUNT; i++) {
        const char *path = sl_arena_format(&p->arena, "%s/%s", source, text_names[i]);
        if (!path) return sl_no_memory(err, source, strlen(source));
        same |= sl_file_is_same(path, destination);
    }
    if (same)
        return sl_fail(err, SL_INVALID, "%s: a file of the source, which a pack cannot replace",
                       destination);
    return sl_file_check_new(destination, p->options->force, err);
}

/* What the pack takes, but for alignment and the manifest. */
static uint64_t packed_bytes(const packing *p) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p->resident_count; i++) {
        const sl_type type = {p->residents[i].dtype, p->residents[i].entry->type.shape};
        bytes += sl_type_bytes(&type);
    }
    for (uint32_t i = 0; i < p->config.layers; i++) {
        sl_type types[SL_EXPERT_MATRICES];
        if (!p->config.layer[i].sparse) continue;
        expert_types(p, i, types);
        for (int m = 0; m < SL_EXPERT_MATRICES; m++)
            bytes += sl_type_bytes(&types[m]) * p->config.experts;
    }
    return bytes;
}

static sl_status write_pack(packing *p, const char *destination, sl_error *err) {
    SL_TRY(sl_file_check_space(destination, packed_bytes(p), err));
    SL_TRY(sl_team_create(p->options->threads, p->allocator, &p->team, err));
    SL_TRY(sl_pack_writer_create(destination, p->allocator, &p->writer, err));
    SL_TRY(write_texts(p, err));
    for (uint32_t i = 0; i < p->resident_count; i++)
        SL_TRY(write_resident(p, &p->residents[i], err));
    for (uint32_t i = 0; i < p->config.layers; i++)
        if (p->config.layer[i].sparse) SL_TRY(write_layer(p, i, err));
    return sl_pack_writer_finish(p->writer, err);
}

sl_status sl_convert(const char *source, const char *destination, const sl_pack_options *options,
                     sl_error *err) {
    packing p = {.options = options, .allocator = sl_allocator_or_default(NULL)};
    SL_TRY(sl_quant_parse(options->quant, &p.quant, err));
    sl_arena_init(&p.arena, p.allocator);
    sl_weights_init(&p.weights, NULL, p.allocator);
    sl_status status = read_source(&p, source, err);
    if (status == SL_OK) status = check_destination(&p, source, destination, err);
    if (status == SL_OK) status = write_pack(&p, destination, err);
    sl_team_destroy(p.team);
    sl_pack_writer_destroy(p.writer);
    sl_weights_deinit(&p.weights);
    sl_source_close(p.source);
    sl_arena_deinit(&p.arena);
    return status;
}
