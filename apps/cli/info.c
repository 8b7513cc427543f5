/* info.c - Shows the dimensions and memory needs of a model. */
#include "apps/cli/cli.h"

/* The smallest memory in which the model runs: with the smallest budget for experts. */
static uint64_t minimum_bytes(const sl_model_info *i) {
    return i->resident_bytes + i->state_bytes + i->workspace_bytes + i->minimum_budget_bytes;
}

static void print_row(const char *name, const char *value) {
    (void)printf("%-16s %s\n", name, value);
}

static void print_bytes(const char *name, uint64_t bytes, const char *remark) {
    char size[32];
    (void)printf("%-16s %-9s %s\n", name, cli_bytes(bytes, size, sizeof size), remark);
}

static void print_shape(const sl_model_info *i) {
    char text[128];
    print_row("architecture", i->architecture);
    print_row("format", i->format);
    (void)snprintf(text, sizeof text, "%.1f M", (double)i->parameters / 1e6);
    print_row("parameters", text);
    (void)snprintf(text, sizeof text, "%u (%u attention, %u delta net)", i->layers,
                   i->full_attention_layers, i->layers - i->full_attention_layers);
    print_row("layers", text);
    if (i->experts)
        (void)snprintf(text, sizeof text, "%u in each of %llu layers, %u used per token",
                       i->experts, (unsigned long long)(i->expert_count / i->experts),
                       i->experts_used);
    print_row("experts", i->experts ? text : "none");
    (void)snprintf(text, sizeof text, "hidden %u, vocabulary %u", i->hidden, i->vocab);
    print_row("dimensions", text);
    (void)snprintf(text, sizeof text, "%u tokens of at most %u", i->context_tokens,
                   i->max_context_tokens);
    print_row("context", text);
}

static void print_sizes(const sl_model_info *i) {
    char text[96], slot[32];
    print_bytes("files", i->file_bytes, "");
    print_bytes("resident", i->resident_bytes, i->resident_dtype);
    (void)snprintf(text, sizeof text, "%s, %llu experts", i->expert_dtype,
                   (unsigned long long)i->expert_count);
    print_bytes("experts", i->expert_bytes, text);
    (void)snprintf(text, sizeof text, "%llu slots of %s", (unsigned long long)i->slot_count,
                   cli_bytes(i->slot_bytes, slot, sizeof slot));
    print_bytes("expert slots", i->budget_bytes, text);
    print_bytes("state", i->state_bytes, "per session");
    print_bytes("workspace", i->workspace_bytes, "");
    print_bytes("minimum memory", minimum_bytes(i),
                "resident, state, workspace, one token's experts");
}

static void print_machine(const sl_model_info *i) {
    char text[96];
    (void)snprintf(text, sizeof text, "%s (%s), %u threads, %s reader", i->device, i->isa,
                   i->threads, i->reader);
    print_row("device", text);
}

static json_t *to_json(const sl_model_info *i) {
    json_t *object = json_object();
#define TEXT(NAME)   cli_json_set(object, #NAME, json_string(i->NAME))
#define NUMBER(NAME) cli_json_set(object, #NAME, json_integer((json_int_t)i->NAME))
    TEXT(architecture);
    TEXT(format);
    NUMBER(parameters);
    NUMBER(layers);
    NUMBER(full_attention_layers);
    NUMBER(experts);
    NUMBER(experts_used);
    NUMBER(hidden);
    NUMBER(vocab);
    NUMBER(context_tokens);
    NUMBER(max_context_tokens);
    NUMBER(file_bytes);
    NUMBER(resident_bytes);
    TEXT(resident_dtype);
    NUMBER(expert_bytes);
    TEXT(expert_dtype);
    NUMBER(expert_count);
    NUMBER(slot_count);
    NUMBER(slot_bytes);
    NUMBER(budget_bytes);
    NUMBER(state_bytes);
    NUMBER(workspace_bytes);
    TEXT(device);
    TEXT(isa);
    NUMBER(threads);
    TEXT(reader);
#undef TEXT
#undef NUMBER
    cli_json_set(object, "minimum_bytes", json_integer((json_int_t)minimum_bytes(i)));
    return object;
}

int cli_run_info(const cli_options *given) {
    cli_options options = *given;
    sl_model *model = NULL;
    if (options.argument_count) options.model = options.arguments[0];
    if (!cli_open_model(&options, 0, &model)) return CLI_FAILED;
    const sl_model_info info = sl_model_describe(model);
    if (options.json) {
        (void)cli_print_json(to_json(&info));
    } else {
        print_shape(&info);
        print_sizes(&info);
        print_machine(&info);
    }
    sl_model_close(model);
    return CLI_OK;
}
