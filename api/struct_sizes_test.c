/* struct_sizes_test.c - Every public struct that begins with struct_size, as a caller has it that
 * was compiled with another version of the headers.  tools/check_headers.py sees that none is
 * missing. */
#include "api/values.h"
#include "sluice/batch.h"
#include "sluice/executor.h"
#include "sluice/experts.h"
#include "sluice/grammar.h"
#include "sluice/inspect.h"
#include "sluice/messages.h"
#include "sluice/model_files.h"
#include "sluice/sampling.h"
#include "sluice/sessions.h"
#include "sluice/weights.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* What the functions are called on. */
static struct {
    sl_model *model, *other;
    sl_session *session;
    sl_graph *graph;
    sl_compiled *compiled;
    sl_legality *legality;
    sl_custom_ops *customs;
    sl_experts *experts;
    sl_sampler *sampler;
    sl_batch *batch;
    sl_scheduler *scheduler;
    sl_session *idle;
    sl_ticket *ticket;
} at;

/* ---- structs that are filled in ---- */

#define CALL(NAME, EXPRESSION)                                                                     \
    static sl_status NAME(void *out, sl_error *err) {                                              \
        return EXPRESSION;                                                                         \
    }
CALL(device_item, sl_device_at(0, out, err))
CALL(model_info, sl_model_describe(at.model, out, err))
CALL(synth_info, sl_synth_describe("qwen3-30b-a3b", NULL, out, err))
CALL(model_summary, sl_model_files_summary("models/fable", out, err))
CALL(memory_use, sl_model_memory(at.model, out, err))
CALL(expert_totals, sl_model_expert_uses(at.model, NULL, 0, out, err))
CALL(sampling, sl_model_sampling(at.model, out, err))
CALL(sampler_options, sl_sampler_defaults(at.model, out, err))
CALL(sampler_option, sl_sampler_option_at(0, out, err))
CALL(sampler_info, sl_sampler_describe(at.sampler, out, err))
CALL(stats, sl_session_stats(at.session, out, err))
CALL(graph_item, sl_graph_item_at(at.graph, 0, out, err))
CALL(node_info, sl_graph_node_at(at.graph, 0, out, err))
CALL(op_row, sl_op_at(3, out, err))
CALL(op_support, sl_op_support_of("add", out, err))
CALL(legality_item, sl_legality_at(at.legality, 0, out, err))
CALL(token_cost, sl_model_token_cost(at.model, out, err))
CALL(gpu_floors, sl_measure_gpu(at.model, out, err))
CALL(disk_floor, sl_measure_disk(at.model, out, err))
CALL(floors, sl_measure_floors(1, out, err))
CALL(timing, sl_compiled_timing_of(at.compiled, out, err))
CALL(expert_shape, sl_experts_shape(at.experts, out, err))
CALL(expert_counts, sl_experts_counts(at.experts, out, err))
CALL(batch_stats, sl_batch_describe(at.batch, out, err))
CALL(scheduler_stats, sl_scheduler_describe(at.scheduler, out, err))
CALL(ticket_state, sl_ticket_look(at.ticket, out, err))

static sl_status sync_report(void *out, sl_error *err) {
    const sl_token tokens[] = {1, 2, 3};
    return sl_session_sync(at.session, tokens, 3, NULL, out, err);
}

CALL(compare_report, sl_compare(at.other, at.model, NULL, out, err))

static sl_status message_event(void *out, sl_error *err) {
    sl_message_parser *parser = NULL;
    sl_status status = sl_message_parser_create(NULL, &parser, err);
    if (status == SL_OK) status = sl_message_parser_feed(parser, "x", 1, err);
    if (status == SL_OK && !sl_message_parser_next(parser, out)) status = SL_INVALID;
    sl_message_parser_destroy(parser);
    return status;
}

static const struct {
    const char *name;
    size_t bytes;
    sl_status (*call)(void *out, sl_error *err);
    bool slow; /* measures for a second: one short size is enough */
} results[] = {
    {"sl_device_item", sizeof(sl_device_item), device_item, false},
    {"sl_model_info", sizeof(sl_model_info), model_info, false},
    {"sl_model_info of a shape", sizeof(sl_model_info), synth_info, false},
    {"sl_model_summary", sizeof(sl_model_summary), model_summary, true},
    {"sl_memory_use", sizeof(sl_memory_use), memory_use, false},
    {"sl_expert_totals", sizeof(sl_expert_totals), expert_totals, false},
    {"sl_sampling", sizeof(sl_sampling), sampling, false},
    {"sl_sampler_options", sizeof(sl_sampler_options), sampler_options, false},
    {"sl_sampler_option", sizeof(sl_sampler_option), sampler_option, false},
    {"sl_sampler_info", sizeof(sl_sampler_info), sampler_info, false},
    {"sl_stats", sizeof(sl_stats), stats, false},
    {"sl_graph_item", sizeof(sl_graph_item), graph_item, false},
    {"sl_node_info", sizeof(sl_node_info), node_info, false},
    {"sl_op_row", sizeof(sl_op_row), op_row, false},
    {"sl_op_support", sizeof(sl_op_support), op_support, true},
    {"sl_legality_item", sizeof(sl_legality_item), legality_item, false},
    {"sl_token_cost", sizeof(sl_token_cost), token_cost, false},
    {"sl_gpu_floors", sizeof(sl_gpu_floors), gpu_floors, false},
    {"sl_disk_floor", sizeof(sl_disk_floor), disk_floor, true},
    {"sl_floors", sizeof(sl_floors), floors, true},
    {"sl_compiled_timing", sizeof(sl_compiled_timing), timing, false},
    {"sl_expert_shape", sizeof(sl_expert_shape), expert_shape, false},
    {"sl_expert_counts", sizeof(sl_expert_counts), expert_counts, false},
    {"sl_batch_stats", sizeof(sl_batch_stats), batch_stats, false},
    {"sl_scheduler_stats", sizeof(sl_scheduler_stats), scheduler_stats, false},
    {"sl_ticket_state", sizeof(sl_ticket_state), ticket_state, false},
    {"sl_sync_report", sizeof(sl_sync_report), sync_report, false},
    {"sl_compare_report", sizeof(sl_compare_report), compare_report, true},
    {"sl_message_event", sizeof(sl_message_event), message_event, false},
};
enum { RESULTS = sizeof results / sizeof results[0], ROOM = 16384, NEWER = 64, MARK = 0xa5 };

static void set_size(void *data, size_t size) {
    memcpy(data, &size, sizeof size);
}

static bool is_all(const unsigned char *bytes, size_t count, unsigned char value) {
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != value) return false;
    return true;
}

static void fill(int i, unsigned char *room, size_t size, sl_status wanted) {
    sl_error err = {0};
    memset(room, MARK, ROOM);
    set_size(room, size);
    if (results[i].call(room, &err) != wanted)
        fail_msg("%s of %zu bytes: %s", results[i].name, size, err.message);
}

static void nothing_is_written_past_the_size(void **state) {
    (void)state;
    static _Alignas(16) unsigned char room[ROOM];
    for (int i = 0; i < RESULTS; i++) {
        const size_t bytes = results[i].bytes;
        assert_true(bytes + NEWER < ROOM);
        fill(i, room, 0, SL_INVALID);
        if (!is_all(room + sizeof(size_t), ROOM - sizeof(size_t), MARK))
            fail_msg("%s: written without a size", results[i].name);
        const size_t step = results[i].slow ? bytes : sizeof(uint32_t);
        for (size_t size = sizeof(size_t); size < bytes; size += step) {
            fill(i, room, size, SL_OK);
            if (!is_all(room + size, ROOM - size, MARK))
                fail_msg("%s: written past its %zu bytes", results[i].name, size);
        }
        fill(i, room, bytes + NEWER, SL_OK);
        if (is_all(room + bytes - 1, 1, MARK) || !is_all(room + bytes, NEWER, 0) ||
            !is_all(room + bytes + NEWER, ROOM - bytes - NEWER, MARK))
            fail_msg("%s: not as a newer caller needs it", results[i].name);
    }
}

/* Its memory is released by a field. */
static void reports(void **state) {
    (void)state;
    sl_error err;
    for (size_t size = 0; size <= sizeof(sl_inspect_report); size += sizeof(void *)) {
        static _Alignas(16) unsigned char room[sizeof(sl_inspect_report)];
        memset(room, MARK, sizeof room);
        set_size(room, size);
        sl_inspect_report *report = (sl_inspect_report *)room;
        const sl_status wanted = size < 2 * sizeof(void *) ? SL_INVALID : SL_OK;
        assert_int_equal(sl_inspect_graph(at.graph, NULL, NULL, report, &err), wanted);
        assert_true(is_all(room + (size ? size : sizeof size),
                           sizeof room - (size ? size : sizeof size), MARK));
        if (wanted == SL_OK) sl_inspect_report_deinit(report);
    }
}

static void profiles(void **state) {
    (void)state;
    sl_error err;
    for (size_t size = 0; size <= sizeof(sl_profile_report); size += sizeof(void *)) {
        static _Alignas(16) unsigned char room[sizeof(sl_profile_report)];
        memset(room, MARK, sizeof room);
        set_size(room, size);
        sl_profile_report *report = (sl_profile_report *)room;
        const sl_status wanted = size < 2 * sizeof(void *) ? SL_INVALID : SL_OK;
        assert_int_equal(sl_compiled_profile(at.compiled, NULL, report, &err), wanted);
        assert_true(is_all(room + (size ? size : sizeof size),
                           sizeof room - (size ? size : sizeof size), MARK));
        if (wanted == SL_OK) sl_profile_report_deinit(report);
    }
}

static void session_profiles(void **state) {
    (void)state;
    sl_error err;
    for (size_t size = 0; size <= sizeof(sl_session_profile); size += sizeof(void *)) {
        static _Alignas(16) unsigned char room[sizeof(sl_session_profile)];
        memset(room, MARK, sizeof room);
        set_size(room, size);
        sl_session_profile *profile = (sl_session_profile *)room;
        const sl_status wanted = size < 2 * sizeof(void *) ? SL_INVALID : SL_OK;
        assert_int_equal(sl_session_profile_begin(at.session, NULL, &err), SL_OK);
        assert_int_equal(sl_session_profile_end(at.session, profile, &err), wanted);
        assert_true(is_all(room + (size ? size : sizeof size),
                           sizeof room - (size ? size : sizeof size), MARK));
        if (wanted == SL_OK)
            sl_session_profile_deinit(profile);
        else
            assert_int_equal(sl_session_profile_end(at.session, NULL, &err), SL_OK);
    }
}

/* ---- structs that are passed in ---- */

static sl_status open_model(const void *given, sl_error *err) {
    sl_model *model = NULL;
    const sl_status status = sl_model_open("/no/such/model", given, &model, err);
    sl_model_close(model);
    return status;
}

static sl_status create_session(const void *given, sl_error *err) {
    sl_session *session = NULL;
    const sl_status status = sl_session_create(at.other, given, &session, err);
    sl_session_destroy(session);
    return status;
}

static sl_status render(const void *given, sl_error *err) {
    char *text = NULL;
    const sl_status status =
        sl_model_render_chat(at.model, "{\"messages\": []}", given, &text, err);
    sl_free(text);
    return status;
}

static sl_status grammar(const void *given, sl_error *err) {
    sl_grammar *made = NULL;
    const sl_status status = sl_grammar_compile(SL_GRAMMAR_REGEX, "a", 1, given, &made, err);
    sl_grammar_close(made);
    return status;
}

static sl_status sample(const void *given, sl_error *err) {
    static const sl_sampling greedy = {.struct_size = sizeof greedy};
    sl_token token;
    return sl_session_sample(at.session, given ? given : &greedy, &token, err);
}

static sl_status make_sampler(const void *given, sl_error *err) {
    sl_sampler *sampler = NULL;
    const sl_status status = sl_sampler_create(at.model, given, &sampler, err);
    sl_sampler_destroy(sampler);
    return status;
}

static sl_status pack(const void *given, sl_error *err) {
    return sl_pack_write("/no/such/model", "/no/such/folder/x", given, err);
}

static sl_status synth(const void *given, sl_error *err) {
    return sl_synth_write("no-such-shape", "/no/such/folder/x", given, err);
}

static sl_status compile(const void *given, sl_error *err) {
    sl_compiled *compiled = NULL;
    const sl_status status = sl_compile(at.graph, given, &compiled, err);
    sl_compiled_destroy(compiled);
    return status;
}

static sl_status execute(const void *given, sl_error *err) {
    sl_executor *executor = NULL;
    const sl_status status = sl_executor_create(given, &executor, err);
    sl_executor_destroy(executor);
    return status;
}

static sl_status profile(const void *given, sl_error *err) {
    sl_profile_report report = {.struct_size = sizeof report};
    const sl_status status = sl_compiled_profile(at.compiled, given, &report, err);
    if (status == SL_OK) sl_profile_report_deinit(&report);
    return status;
}

static sl_status bucket(const void *given, sl_error *err) {
    sl_bucketed *bucketed = NULL;
    const sl_status status = sl_bucketed_create(at.graph, given, &bucketed, err);
    sl_bucketed_destroy(bucketed);
    return status;
}

static sl_status inspect(const void *given, sl_error *err) {
    sl_inspect_report report = {.struct_size = sizeof report};
    const sl_status status = sl_compiled_report(at.compiled, given, &report, err);
    if (status == SL_OK) sl_inspect_report_deinit(&report);
    return status;
}

static sl_status record(const void *given, sl_error *err) {
    const sl_status status = sl_session_profile_begin(at.session, given, err);
    return status == SL_OK ? sl_session_profile_end(at.session, NULL, err) : status;
}

static sl_status extend_layers(const void *given, sl_error *err) {
    static const sl_layer_options none = {.struct_size = sizeof none};
    const sl_token token = 1;
    return sl_session_extend_layers(at.session, &token, 1, given ? given : &none, err);
}

static sl_status compare(const void *given, sl_error *err) {
    sl_compare_report report = {.struct_size = sizeof report};
    return sl_compare(at.model, at.other, given, &report, err);
}

static sl_status parse_message(const void *given, sl_error *err) {
    sl_message_parser *parser = NULL;
    const sl_status status = sl_message_parser_create(given, &parser, err);
    sl_message_parser_destroy(parser);
    return status;
}

static sl_status create_batch(const void *given, sl_error *err) {
    sl_batch *batch = NULL;
    const sl_status status = sl_batch_create(at.model, given, &batch, err);
    sl_batch_destroy(batch);
    return status;
}

static sl_status create_scheduler(const void *given, sl_error *err) {
    sl_scheduler *scheduler = NULL;
    const sl_status status = sl_scheduler_create(at.model, given, &scheduler, err);
    sl_scheduler_destroy(scheduler);
    return status;
}

static sl_status submit(const void *given, sl_error *err) {
    static const sl_request none = {.struct_size = sizeof none};
    sl_ticket *ticket = NULL;
    return sl_scheduler_submit(at.scheduler, given ? given : &none, &ticket, err);
}

static sl_status node(const void *given, sl_error *err) {
    static const sl_node_spec empty = {.struct_size = sizeof empty};
    sl_graph *graph = NULL;
    sl_status status = sl_graph_create("one", NULL, &graph, err);
    if (status != SL_OK) return status;
    sl_graph_add_node(graph, given ? given : &empty);
    status = sl_graph_check(graph, err);
    sl_graph_destroy(graph);
    return status;
}

static sl_status custom(const void *given, sl_error *err) {
    static const sl_custom_op empty = {.struct_size = sizeof empty};
    return sl_custom_ops_add(at.customs, given ? given : &empty, err);
}

/* Without one, an empty one. */
static sl_status experts(const void *shape, const void *reader, const void *callbacks,
                         sl_error *err) {
    static const sl_expert_shape no_shape = {.struct_size = sizeof no_shape};
    static const sl_expert_reader no_reader = {.struct_size = sizeof no_reader};
    static const sl_expert_callbacks none = {.struct_size = sizeof none};
    sl_experts *made = NULL;
    if (!shape) shape = &no_shape;
    if (callbacks) return sl_experts_create_from(shape, callbacks, &made, err);
    return reader ? sl_experts_create(shape, reader, &made, err)
                  : sl_experts_create_from(shape, &none, &made, err);
}

static sl_status weight_source(const void *given, sl_error *err) {
    static const sl_weight_source none = {.struct_size = sizeof none};
    const char *dtype;
    size_t bytes;
    return sl_weight_describe(given ? given : &none, &dtype, &bytes, err);
}

static sl_status sync_session(const void *given, sl_error *err) {
    const sl_token tokens[] = {1, 2, 3};
    return sl_session_sync(at.session, tokens, 3, given, NULL, err);
}
static sl_status cache_on_disk(const void *given, sl_error *err) {
    return sl_model_cache_on_disk(at.model, given, err);
}

static sl_status expert_shape_given(const void *given, sl_error *err) {
    return experts(given, NULL, NULL, err);
}
static sl_status expert_reader(const void *given, sl_error *err) {
    static const sl_expert_reader none = {.struct_size = sizeof none};
    return experts(NULL, given ? given : &none, NULL, err);
}
static sl_status expert_callbacks(const void *given, sl_error *err) {
    static const sl_expert_callbacks none = {.struct_size = sizeof none};
    static const sl_expert_shape shape = {sizeof shape, 1, 1, 1, 1, "f32", NULL};
    return experts(&shape, NULL, given ? given : &none, err);
}

static const struct {
    const char *name;
    size_t bytes;
    sl_status (*call)(const void *given, sl_error *err);
} options[] = {
    {"sl_model_options", sizeof(sl_model_options), open_model},
    {"sl_session_options", sizeof(sl_session_options), create_session},
    {"sl_render_options", sizeof(sl_render_options), render},
    {"sl_grammar_options", sizeof(sl_grammar_options), grammar},
    {"sl_sampling", sizeof(sl_sampling), sample},
    {"sl_sampler_options", sizeof(sl_sampler_options), make_sampler},
    {"sl_pack_options", sizeof(sl_pack_options), pack},
    {"sl_synth_options", sizeof(sl_synth_options), synth},
    {"sl_sync_options", sizeof(sl_sync_options), sync_session},
    {"sl_disk_cache_options", sizeof(sl_disk_cache_options), cache_on_disk},
    {"sl_compile_options", sizeof(sl_compile_options), compile},
    {"sl_executor_options", sizeof(sl_executor_options), execute},
    {"sl_profile_options", sizeof(sl_profile_options), profile},
    {"sl_bucket_options", sizeof(sl_bucket_options), bucket},
    {"sl_inspect_options", sizeof(sl_inspect_options), inspect},
    {"sl_session_profile_options", sizeof(sl_session_profile_options), record},
    {"sl_layer_options", sizeof(sl_layer_options), extend_layers},
    {"sl_compare_options", sizeof(sl_compare_options), compare},
    {"sl_message_parser_options", sizeof(sl_message_parser_options), parse_message},
    {"sl_batch_options", sizeof(sl_batch_options), create_batch},
    {"sl_scheduler_options", sizeof(sl_scheduler_options), create_scheduler},
    {"sl_request", sizeof(sl_request), submit},
    {"sl_node_spec", sizeof(sl_node_spec), node},
    {"sl_custom_op", sizeof(sl_custom_op), custom},
    {"sl_weight_source", sizeof(sl_weight_source), weight_source},
    {"sl_expert_shape", sizeof(sl_expert_shape), expert_shape_given},
    {"sl_expert_reader", sizeof(sl_expert_reader), expert_reader},
    {"sl_expert_callbacks", sizeof(sl_expert_callbacks), expert_callbacks},
};
enum { OPTIONS = sizeof options / sizeof options[0] };

static void expect(int i, const void *given, sl_status wanted, const char *words) {
    sl_error err = {0};
    if (options[i].call(given, &err) != wanted || !strstr(err.message, words))
        fail_msg("%s: '%s', must be '%s'", options[i].name, err.message, words);
}

/* As without options: no field after the size is read, however wrong it is. */
static void nothing_is_read_past_the_size(void **state) {
    (void)state;
    static _Alignas(16) unsigned char room[ROOM];
    for (int i = 0; i < OPTIONS; i++) {
        sl_error usual = {0};
        const sl_status status = options[i].call(NULL, &usual);
        memset(room, MARK, ROOM);
        set_size(room, sizeof(size_t));
        expect(i, room, status, usual.message);
        set_size(room, 0);
        expect(i, room, SL_INVALID, "struct_size is 0");
        memset(room, 0, ROOM);
        set_size(room, options[i].bytes + NEWER);
        expect(i, room, status, usual.message);
        room[options[i].bytes + NEWER - 1] = 1;
        expect(i, room, SL_UNSUPPORTED, "which this version of sluice does not know");
    }
}

/* ---- what they are called on ---- */

static void must(sl_status status, const sl_error *err) {
    if (status != SL_OK) fail_msg("%s", err->message);
}

static int set_up(void **state) {
    (void)state;
    sl_error err = {0};
    const sl_model_options how = {.struct_size = sizeof how, .max_sessions = 2, .threads = 1};
    const sl_token token = 1;
    static const char text[] = "graph \"g\" { input %x : f32[4] %y = neg(%x) output \"y\" = %y }";
    must(sl_model_open("models/fable", &how, &at.model, &err), &err);
    must(sl_model_open("models/fable", &how, &at.other, &err), &err);
    must(sl_session_create(at.model, NULL, &at.session, &err), &err);
    must(sl_session_extend(at.session, &token, 1, &err), &err);
    must(sl_graph_read(text, sizeof text - 1, &at.graph, &err), &err);
    must(sl_compile(at.graph, NULL, &at.compiled, &err), &err);
    must(sl_compiled_set(at.compiled, "x", (float[4]){0}, 16, &err), &err);
    must(sl_graph_legality(at.graph, "cpu", &at.legality, &err), &err);
    must(sl_custom_ops_create(&at.customs, &err), &err);
    must(sl_experts_open("models/fable", 0, &at.experts, &err), &err);
    must(sl_sampler_create(at.model, NULL, &at.sampler, &err), &err);
    must(sl_batch_create(at.model, NULL, &at.batch, &err), &err);
    must(sl_scheduler_create(at.model, NULL, &at.scheduler, &err), &err);
    must(sl_session_create(at.model, NULL, &at.idle, &err), &err);
    const sl_request request = {.struct_size = sizeof request, .session = at.idle};
    must(sl_scheduler_submit(at.scheduler, &request, &at.ticket, &err), &err);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    sl_sampler_destroy(at.sampler);
    sl_ticket_release(at.ticket);
    sl_scheduler_destroy(at.scheduler);
    sl_batch_destroy(at.batch);
    sl_session_destroy(at.idle);
    sl_experts_destroy(at.experts);
    sl_custom_ops_destroy(at.customs);
    sl_legality_destroy(at.legality);
    sl_compiled_destroy(at.compiled);
    sl_graph_destroy(at.graph);
    sl_session_destroy(at.session);
    sl_model_close(at.model);
    sl_model_close(at.other);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_written_past_the_size),
        cmocka_unit_test(reports),
        cmocka_unit_test(profiles),
        cmocka_unit_test(session_profiles),
        cmocka_unit_test(nothing_is_read_past_the_size),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
