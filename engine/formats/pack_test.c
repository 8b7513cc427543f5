#include "tests/support/folder.h"

#include "engine/formats/pack.h"
#include <signal.h>
#include <sys/resource.h>
#include <xxhash.h>

enum { EXPERTS = 3, WIDTH = 5, HIDDEN = 7 };
static const char config[] = "{\"model_type\": \"test\"}";
static const float weights[6] = {1, 2, 3, 4, 5, 6};
static uint8_t panel[64 + 1024];
static float matrices[EXPERTS][3][WIDTH * HIDDEN];
static sl_error err;

static sl_type matrix_type(int which) {
    const int64_t rows = which == 2 ? HIDDEN : WIDTH, cols = which == 2 ? WIDTH : HIDDEN;
    return sl_type_make(SL_DTYPE_f32, 2, rows, cols);
}

static sl_status write_layer(sl_pack_writer *writer, uint32_t layer) {
    const sl_type types[3] = {matrix_type(0), matrix_type(1), matrix_type(2)};
    SL_TRY(sl_pack_writer_layer(writer, layer, EXPERTS, types, &err));
    for (int e = 0; e < EXPERTS; e++)
        SL_TRY(sl_pack_writer_expert(
            writer, (const void *const[3]){matrices[e][0], matrices[e][1], matrices[e][2]}, &err));
    return SL_OK;
}

static sl_status write_tensor(sl_pack_writer *writer, const char *name, sl_type type,
                              const void *data) {
    SL_TRY(sl_pack_writer_begin(writer, name, type, &err));
    SL_TRY(sl_pack_writer_piece(writer, data, sl_type_bytes(&type), &err));
    return sl_pack_writer_end(writer, &err);
}

static sl_status write_content(sl_pack_writer *writer) {
    SL_TRY(sl_pack_writer_text(writer, "config.json", config, sizeof config - 1, &err));
    SL_TRY(sl_pack_writer_text(writer, "empty", "", 0, &err));
    SL_TRY(write_tensor(writer, "norm", sl_type_make(SL_DTYPE_f32, 2, (int64_t)2, (int64_t)3),
                        weights));
    SL_TRY(
        write_tensor(writer, "head", sl_type_make(SL_DTYPE_q8, 2, (int64_t)3, (int64_t)4), panel));
    SL_TRY(write_layer(writer, 0));
    SL_TRY(write_layer(writer, 5));
    return sl_pack_writer_finish(writer, &err);
}

static sl_status write_pack(const char *name, const sl_allocator *allocator) {
    sl_pack_writer *writer;
    SL_TRY(sl_pack_writer_create(test_path(name), allocator, &writer, &err));
    const sl_status status = write_content(writer);
    sl_pack_writer_destroy(writer);
    return status;
}

static int setup(void **state) {
    for (size_t i = 0; i < sizeof panel; i++) panel[i] = (uint8_t)i;
    for (size_t i = 0; i < sizeof matrices / sizeof(float); i++) ((float *)matrices)[i] = (float)i;
    (void)empty_test_folder(state);
    return write_pack("m.sluice", NULL) == SL_OK ? 0 : -1;
}

static sl_source *open_pack(void) {
    sl_source *source = NULL;
    if (sl_source_open(test_path("m.sluice"), NULL, &source, &err) != SL_OK)
        fail_msg("%s", err.message);
    return source;
}

static void test_reads_back_what_was_written(void **state) {
    (void)state;
    assert_int_equal(count_test_files(), 1);
    sl_source *source = open_pack();
    const void *data;
    size_t bytes;
    assert_string_equal(sl_source_format(source), "pack");
    assert_int_equal(sl_source_file_count(source), 1);
    assert_string_equal(sl_source_text(source, "config.json", &bytes), config);
    assert_int_equal(bytes, sizeof config - 1);
    assert_string_equal(sl_source_text(source, "empty", &bytes), "");
    assert_null(sl_source_text(source, "tokenizer.json", &bytes));
    assert_int_equal(sl_source_tensor_count(source), 2);
    assert_null(sl_source_find(source, "absent"));
    const sl_tensor_entry *norm = sl_source_find(source, "norm");
    assert_int_equal(sl_source_map(source, norm, &data, &err), SL_OK);
    assert_int_equal((uintptr_t)data % 64, 0);
    assert_memory_equal(data, weights, sizeof weights);
    assert_int_equal(sl_source_map(source, sl_source_find(source, "head"), &data, &err), SL_OK);
    assert_memory_equal(data, panel, sizeof panel);
    sl_source_close(source);
}

static void test_experts_lie_where_the_source_says(void **state) {
    (void)state;
    sl_source *source = open_pack();
    size_t size;
    uint8_t *file = read_test_file("m.sluice", &size);
    assert_null(sl_source_expert_blocks(source, 1));
    assert_null(sl_source_expert_blocks(source, UINT32_MAX));
    const sl_expert_blocks *blocks = sl_source_expert_blocks(source, 5);
    assert_non_null(blocks);
    assert_int_equal(blocks->layer, 5);
    assert_int_equal(blocks->count, EXPERTS);
    assert_int_equal(blocks->offset % 4096, 0);
    assert_int_equal(blocks->block_bytes, 4096);
    const sl_type down = matrix_type(2);
    assert_true(sl_type_equal(&blocks->down, &down));
    for (uint32_t e = 0; e < EXPERTS; e++) {
        const uint8_t *block = file + blocks->offset + e * blocks->block_bytes;
        assert_memory_equal(block, matrices[e][0], sizeof matrices[e][0]);
        assert_memory_equal(block + blocks->up_offset, matrices[e][1], sizeof matrices[e][1]);
        assert_memory_equal(block + blocks->down_offset, matrices[e][2], sizeof matrices[e][2]);
        assert_true(XXH3_64bits(block, blocks->block_bytes) == blocks->checksums[e]);
    }
    free(file);
    sl_source_close(source);
}

static void flip_byte(uint64_t at) {
    size_t size;
    uint8_t *file = read_test_file("m.sluice", &size);
    assert_true(at < size);
    file[at] ^= 1;
    write_test_file("m.sluice", file, size);
    free(file);
}

static void expect_open_failure(sl_status status, const char *message) {
    sl_source *source = NULL;
    assert_int_equal(sl_source_open(test_path("m.sluice"), NULL, &source, &err), status);
    expect_message(&err, "m.sluice: ");
    expect_message(&err, message);
}

static uint64_t header_word(size_t at) {
    size_t size;
    uint8_t *file = read_test_file("m.sluice", &size);
    uint64_t word;
    memcpy(&word, file + at, sizeof word);
    free(file);
    return word;
}

static void test_damage_is_found_and_named(void **state) {
    static const struct {
        uint64_t at;
        sl_status status;
        const char *message;
    } cases[] = {
        {0, SL_FORMAT, "not a sluice pack"},
        {8, SL_UNSUPPORTED, "pack version 3, only 2"},
        {12, SL_FORMAT, "padding is not zero"},
        {17, SL_FORMAT, "the manifest"},
        {23, SL_FORMAT, "truncated: the manifest"},
        {24, SL_FORMAT, "the manifest"},
        {31, SL_FORMAT, "the header is damaged"},
        {32, SL_FORMAT, "the manifest is damaged"},
        {4095, SL_FORMAT, "padding is not zero"},
        {4096, SL_FORMAT, "text 'config.json' is damaged"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(setup(state), 0);
        flip_byte(cases[i].at);
        expect_open_failure(cases[i].status, cases[i].message);
    }
    assert_int_equal(setup(state), 0);
    flip_byte(header_word(16) + 20);
    expect_open_failure(SL_FORMAT, "the manifest is damaged");
}

static void test_damaged_tensor_fails_to_map(void **state) {
    (void)state;
    sl_source *source = open_pack();
    const uint64_t at = sl_source_find(source, "head")->at.offset;
    sl_source_close(source);
    flip_byte(at + 100);
    source = open_pack();
    const void *data;
    assert_int_equal(sl_source_map(source, sl_source_find(source, "norm"), &data, &err), SL_OK);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(sl_source_map(source, sl_source_find(source, "head"), &data, &err),
                         SL_FORMAT);
        expect_message(&err, "m.sluice: tensor 'head' is damaged: checksum ");
    }
    const sl_tensor_entry foreign = {.name = "foreign"};
    assert_int_equal(sl_source_map(source, &foreign, &data, &err), SL_INVALID);
    sl_source_close(source);
}

static void test_truncated_anywhere_fails(void **state) {
    size_t size;
    uint8_t *file = read_test_file("m.sluice", &size);
    (void)state;
    for (size_t keep = 0; keep < size; keep += keep < 5000 ? 97 : 997) {
        write_test_file("m.sluice", file, keep);
        expect_open_failure(SL_FORMAT, keep < 8 ? "not a sluice pack" : "truncated: ");
    }
    free(file);
}

/* Replaces the manifest and updates its checksum. */
static void write_manifest(const char *manifest) {
    const uint64_t bytes = strlen(manifest);
    uint8_t *file = calloc(1, 16384 + bytes);
    assert_non_null(file);
    const sl_pack_header header = {.magic = {'S', 'L', 'U', 'I', 'C', 'E', 'P', 'K'},
                                   .version = SL_PACK_VERSION,
                                   .manifest_offset = 16384,
                                   .manifest_bytes = bytes,
                                   .manifest_checksum = XXH3_64bits(manifest, bytes)};
    memcpy(file, &header, sizeof header);
    memcpy(file + 16384, manifest, bytes);
    write_test_file("m.sluice", file, 16384 + bytes);
    free(file);
}

#define TENSOR(name, offset, bytes, dtype, shape)                                                  \
    "\"" name "\":{\"offset\":" offset ",\"bytes\":" bytes ",\"dtype\":\"" dtype                   \
    "\",\"shape\":" shape ",\"checksum\":\"0123456789abcdef\"}"
#define TENSORS(list) "{\"texts\":{},\"tensors\":{" list "},\"experts\":[]}"
#define TYPE          "{\"dtype\":\"f32\",\"shape\":[16,16]}"
#define EXPERT(layer, count, up, down, block, offset)                                              \
    "{\"layer\":" layer ",\"count\":" count ",\"up_offset\":" up ",\"down_offset\":" down          \
    ",\"block_bytes\":" block ",\"offset\":" offset ",\"gate\":" TYPE ",\"up\":" TYPE              \
    ",\"down\":" TYPE ",\"checksums\":[\"0123456789abcdef\"]}"
#define LAYERS(list) "{\"texts\":{},\"tensors\":{},\"experts\":[" list "]}"

static void test_malformed_manifests_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *manifest, *message;
    } cases[] = {
        {"", "not valid JSON"},
        {"{}", "the manifest must have"},
        {"{\"texts\":{},\"tensors\":[],\"experts\":[]}", "the manifest must have"},
        {TENSORS("\"x\":{}"), "tensor 'x'"},
        {TENSORS(TENSOR("x", "4096", "7", "u8", "[8]")), "has 7 bytes, u8[8] needs 8"},
        {TENSORS(TENSOR("x", "4096", "8", "u8", "[0]")), "dim 0 is 0"},
        {TENSORS(TENSOR("x", "4096", "8", "u8", "[1,1,1,1,1,1,1,1,8]")), "rank 9"},
        {TENSORS(TENSOR("x", "4096", "8", "q4", "[8]")), "at least two dims"},
        {TENSORS(TENSOR("x", "4097", "8", "u8", "[8]")), "a multiple of 64 wanted"},
        {TENSORS(TENSOR("x", "-64", "8", "u8", "[8]")), "starts at byte -64"},
        {TENSORS(TENSOR("x", "0", "8", "u8", "[8]")), "starts at byte 0"},
        {TENSORS(TENSOR("x", "1048576", "8", "u8", "[8]")), "truncated: tensor 'x'"},
        {TENSORS(TENSOR("x", "16384", "8", "u8", "[8]")), "overlap"},
        {TENSORS(TENSOR("x", "4096", "65", "u8", "[65]") "," TENSOR("y", "4160", "1", "u8", "[1]")),
         "tensor 'x' and tensor 'y' overlap"},
        {TENSORS(TENSOR("x\\n", "4096", "8", "u8", "[8]")), "control characters"},
        {"{\"texts\":{\"t\":{\"offset\":4096,\"bytes\":1,\"checksum\":\"12\"}},"
         "\"tensors\":{},\"experts\":[]}",
         "text 't': the checksum is not 16"},
        {"{\"texts\":{\"t\":{\"offset\":4096,\"bytes\":-1,\"checksum\":\"0123456789abcdef\"}},"
         "\"tensors\":{},\"experts\":[]}",
         "text 't' has -1 bytes"},
        {LAYERS("{}"), "no layer from 0"},
        {LAYERS("7"), "no layer from 0"},
        {LAYERS("{\"layer\":4096}"), "no layer from 0"},
        {LAYERS("{\"layer\":1}"), "experts of layer 1: "},
        {LAYERS(EXPERT("1", "1", "1024", "2048", "4096", "4097")), "a multiple of 4096 wanted"},
        {LAYERS(EXPERT("1", "1", "960", "2048", "4096", "4096")), "do not fit"},
        {LAYERS(EXPERT("1", "1", "1024", "1984", "4096", "4096")), "do not fit"},
        {LAYERS(EXPERT("1", "1", "1024", "4032", "4096", "4096")), "do not fit"},
        {LAYERS(EXPERT("1", "0", "1024", "2048", "4096", "4096")), "do not fit"},
        {LAYERS(EXPERT("1", "1", "1024", "2048", "4160", "4096")), "do not fit"},
        {LAYERS(EXPERT("1", "4000000000", "1024", "2048", "9223372036854771712", "4096")),
         "do not fit"},
        {LAYERS(EXPERT("1", "2", "1024", "2048", "4096", "4096")), "1 checksums for 2 blocks"},
        {LAYERS(EXPERT("1", "9", "1024", "2048", "4096", "4096")), "truncated: experts"},
        {LAYERS(EXPERT("1", "1", "1024", "2048", "4096",
                       "4096") "," EXPERT("1", "1", "1024", "2048", "4096", "8192")),
         "layer 1 has experts twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_manifest(cases[i].manifest);
        expect_open_failure(SL_FORMAT, cases[i].message);
    }
    write_manifest(TENSORS(TENSOR("x", "4096", "8", "f7", "[8]")));
    expect_open_failure(SL_UNSUPPORTED, "unknown dtype 'f7'");
    write_manifest(LAYERS(EXPERT("1", "1", "1024", "2048", "4096", "4096")));
    sl_source_close(open_pack());
}

static void test_unfinished_writer_leaves_nothing(void **state) {
    (void)empty_test_folder(state);
    sl_pack_writer *writer;
    const sl_type types[3] = {matrix_type(0), matrix_type(1), matrix_type(2)};
    const char *path = test_path("n.sluice");
    assert_int_equal(sl_pack_writer_create(path, NULL, &writer, &err), SL_OK);
    assert_int_equal(sl_pack_writer_text(writer, "config.json", config, 3, &err), SL_OK);
    assert_int_equal(sl_pack_writer_text(writer, "config.json", config, 3, &err), SL_INVALID);
    assert_int_equal(sl_pack_writer_layer(writer, 2, 2, types, &err), SL_OK);
    assert_int_equal(sl_pack_writer_text(writer, "late", config, 3, &err), SL_INVALID);
    assert_int_equal(sl_pack_writer_layer(writer, 3, 2, types, &err), SL_INVALID);
    expect_message(&err, "layer 2 has 0 of 2 experts");
    assert_int_equal(sl_pack_writer_finish(writer, &err), SL_INVALID);
    assert_int_equal(count_test_files(), 1);
    sl_pack_writer_destroy(writer);
    assert_int_equal(count_test_files(), 0);
    sl_pack_writer_destroy(NULL);
}

/* Pieces must add up to the tensor, and nothing may be written in between. */
static void test_pieces_must_add_up(void **state) {
    (void)state;
    sl_pack_writer *writer;
    const sl_type type = sl_type_make(SL_DTYPE_u8, 1, (int64_t)8);
    assert_int_equal(sl_pack_writer_create(test_path("p.sluice"), NULL, &writer, &err), SL_OK);
    assert_int_equal(sl_pack_writer_piece(writer, "1", 1, &err), SL_INVALID);
    assert_int_equal(sl_pack_writer_end(writer, &err), SL_INVALID);
    assert_int_equal(sl_pack_writer_begin(writer, "x", type, &err), SL_OK);
    assert_int_equal(sl_pack_writer_piece(writer, "12345", 5, &err), SL_OK);
    assert_int_equal(sl_pack_writer_piece(writer, "6789", 4, &err), SL_INVALID);
    expect_message(&err, "4 bytes where 3 are left");
    assert_int_equal(sl_pack_writer_end(writer, &err), SL_INVALID);
    assert_int_equal(sl_pack_writer_text(writer, "t", "t", 1, &err), SL_INVALID);
    assert_int_equal(sl_pack_writer_finish(writer, &err), SL_INVALID);
    assert_int_equal(sl_pack_writer_piece(writer, "678", 3, &err), SL_OK);
    assert_int_equal(sl_pack_writer_end(writer, &err), SL_OK);
    assert_int_equal(sl_pack_writer_finish(writer, &err), SL_OK);
    sl_pack_writer_destroy(writer);

    sl_source *source;
    const void *data;
    assert_int_equal(sl_source_open(test_path("p.sluice"), NULL, &source, &err), SL_OK);
    assert_int_equal(sl_source_map(source, sl_source_find(source, "x"), &data, &err), SL_OK);
    assert_memory_equal(data, "12345678", 8);
    sl_source_close(source);
}

static void test_writer_without_a_folder_says_so(void **state) {
    (void)state;
    sl_pack_writer *writer;
    assert_int_equal(sl_pack_writer_create("/nonexistent/m.sluice", NULL, &writer, &err), SL_IO);
    expect_message(&err, "/nonexistent/m.sluice: cannot create: its folder does not exist");
}

/* A limit on file sizes simulates a full disk: write() fails at the same place. */
static void test_failed_writes_leave_nothing(void **state) {
    (void)empty_test_folder(state);
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    for (rlim_t limit = 0; limit < 32000; limit += 4000) {
        const struct rlimit low = {limit, old.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
        const sl_status status = write_pack("full.sluice", NULL);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        assert_int_equal(status, SL_IO);
        expect_message(&err, "full.sluice: write failed: File too large");
        assert_int_equal(count_test_files(), 0);
    }
    (void)signal(SIGXFSZ, handler);
}

static void test_lack_of_memory_is_an_error(void **state) {
    (void)state;
    long limit = -1;
    for (sl_status status = SL_NO_MEMORY; status != SL_OK;) {
        failing_memory memory = {++limit};
        const sl_allocator allocator = {failing_resize, &memory};
        status = write_pack("again.sluice", &allocator);
        assert_true(status == SL_OK || status == SL_NO_MEMORY);
        assert_int_equal(count_test_files(), status == SL_OK ? 2 : 1);
    }
    assert_true(limit > 2);
    limit = -1;
    for (sl_status status = SL_NO_MEMORY; status != SL_OK;) {
        failing_memory memory = {++limit};
        const sl_allocator allocator = {failing_resize, &memory};
        sl_source *source = NULL;
        status = sl_source_open(test_path("m.sluice"), &allocator, &source, &err);
        assert_true(status == SL_OK || status == SL_NO_MEMORY);
        sl_source_close(source);
    }
    assert_true(limit > 2);
}

static void test_lack_of_json_memory_is_an_error(void **state) {
    (void)state;
    long limit = -1;
    for (sl_status status = SL_NO_MEMORY; status != SL_OK;) {
        fail_json_after(++limit);
        status = write_pack("again.sluice", NULL);
        assert_int_equal(count_test_files(), status == SL_OK ? 2 : 1);
    }
    assert_true(limit > 20);
    limit = -1;
    for (sl_status status = SL_NO_MEMORY; status != SL_OK;) {
        fail_json_after(++limit);
        sl_source *source = NULL;
        status = sl_source_open(test_path("again.sluice"), NULL, &source, &err);
        sl_source_close(source);
    }
    assert_true(limit > 20);
    fail_json_after(-1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_reads_back_what_was_written, setup),
        cmocka_unit_test_setup(test_experts_lie_where_the_source_says, setup),
        cmocka_unit_test_setup(test_damage_is_found_and_named, setup),
        cmocka_unit_test_setup(test_damaged_tensor_fails_to_map, setup),
        cmocka_unit_test_setup(test_truncated_anywhere_fails, setup),
        cmocka_unit_test_setup(test_malformed_manifests_are_refused, setup),
        cmocka_unit_test(test_unfinished_writer_leaves_nothing),
        cmocka_unit_test_teardown(test_pieces_must_add_up, empty_test_folder),
        cmocka_unit_test(test_writer_without_a_folder_says_so),
        cmocka_unit_test(test_failed_writes_leave_nothing),
        cmocka_unit_test_setup(test_lack_of_memory_is_an_error, setup),
        cmocka_unit_test_setup(test_lack_of_json_memory_is_an_error, setup),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
