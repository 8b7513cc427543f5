/* info.c - Shows the dimensions and memory needs of a model. */
#include "apps/cli/cli.h"
#include <stddef.h>
#include <string.h>

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
    (void)snprintf(text, sizeof text, "%s, %llu experts", i->expert_dtype,
                   (unsigned long long)i->expert_count);
    print_bytes("experts", i->expert_bytes, text);
    (void)snprintf(text, sizeof text, "%llu of %s", (unsigned long long)i->slot_count,
                   cli_bytes(i->slot_bytes, slot, sizeof slot));
    print_row("expert slots", text);
}

/* The parts of the memory that the options take. */
static const struct {
    const char *name, *remark;
    size_t offset;
} parts[] = {
#define PART(NAME, REMARK)                                                                         \
    { #NAME, REMARK, offsetof(sl_memory_use, NAME##_bytes) }
    PART(weight, "resident weights"),
    PART(expert, "expert slots (--budget)"),
    PART(state, "KV cache and recurrent state at full context (-c)"),
    PART(checkpoint, "recurrent state to rewind to"),
    PART(session, "tokens, logits, sampling"),
    PART(workspace, "activations of the largest forward pass"),
    PART(program, "compiled programs"),
    PART(text, "tokenizer and chat template"),
    PART(file, "headers and texts of the model files"),
    PART(loading, "conversion of weights while loading"),
    PART(process, "the program itself: code, threads, page tables"),
#undef PART
};
enum { PARTS = sizeof parts / sizeof parts[0] };

static uint64_t part_bytes(const sl_memory_use *use, int part) {
    uint64_t bytes;
    memcpy(&bytes, (const char *)use + parts[part].offset, sizeof bytes);
    return bytes;
}

static void print_memory(const sl_memory_use *use) {
    char size[32];
    (void)printf("memory\n");
    for (int p = 0; p < PARTS; p++)
        if (part_bytes(use, p))
            (void)printf("  %9s  %s\n", cli_bytes(part_bytes(use, p), size, sizeof size),
                         parts[p].remark);
    (void)printf("  %9s  in all: the process stays below this\n",
                 cli_bytes(use->promised_bytes, size, sizeof size));
}

static void print_machine(const sl_model_info *i) {
    char text[96];
    (void)snprintf(text, sizeof text, "%s (%s), %u threads, %s reader", i->device, i->isa,
                   i->threads, i->reader);
    print_row("device", text);
}

static json_t *to_json(const sl_model_info *i, const sl_memory_use *use) {
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
    json_t *memory = json_object();
    for (int p = 0; p < PARTS; p++)
        cli_json_set(memory, parts[p].name, json_integer((json_int_t)part_bytes(use, p)));
    cli_json_set(object, "memory", memory);
    cli_json_set(object, "promised_bytes", json_integer((json_int_t)use->promised_bytes));
    const uint64_t minimum = use->promised_bytes - use->expert_bytes + i->minimum_budget_bytes;
    cli_json_set(object, "minimum_bytes", json_integer((json_int_t)minimum));
    return object;
}

int cli_run_info(const cli_options *given) {
    cli_options options = *given;
    sl_model *model = NULL;
    if (options.argument_count) options.model = options.arguments[0];
    if (!cli_open_model(&options, 0, &model)) return CLI_FAILED;
    const sl_model_info info = sl_model_describe(model);
    sl_memory_use use = {.struct_size = sizeof use};
    sl_model_memory(model, &use);
    if (options.json) {
        (void)cli_print_json(to_json(&info, &use));
    } else {
        print_shape(&info);
        print_sizes(&info);
        print_memory(&use);
        print_machine(&info);
    }
    sl_model_close(model);
    return CLI_OK;
}
