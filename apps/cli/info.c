/* info.c - Shows the dimensions and memory needs of a model. */
#include "apps/cli/sampling.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static double bits_per_weight(const sl_model_info *i) {
    return 8.0 * (double)(i->resident_bytes + i->expert_bytes) / (double)i->parameters;
}

/* Memory of this machine that can be taken without swapping; 0: unknown. */
static uint64_t free_memory(void) {
    char line[128];
    unsigned long long kibibytes = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "MemAvailable:", 13) == 0) kibibytes = strtoull(line + 13, NULL, 10);
    if (file) (void)fclose(file);
    return kibibytes * 1024;
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
    char all[32], active[32];
    (void)snprintf(text, sizeof text, "%s, %s active per token, %.2f bits each",
                   cli_count(i->parameters, all, sizeof all),
                   cli_count(i->active_parameters, active, sizeof active), bits_per_weight(i));
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
    if (i->context_tokens)
        (void)snprintf(text, sizeof text, "%u tokens of at most %u", i->context_tokens,
                       i->max_context_tokens);
    else
        (void)snprintf(text, sizeof text, "at most %u tokens", i->max_context_tokens);
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
    PART(state, "KV cache and recurrent state at full context (-c, --kv-memory)"),
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

static void print_text(const sl_model *model) {
    const sl_sampling sampling = cli_model_sampling(model);
    const sl_sampler_options samplers = cli_model_samplers(model);
    char plain[CLI_SAMPLING_TEXT], others[CLI_SAMPLERS_TEXT];
    char text[CLI_SAMPLING_TEXT + CLI_SAMPLERS_TEXT];
    (void)snprintf(text, sizeof text, "%s%s", cli_sampling_text(&sampling, plain),
                   cli_samplers_text(&samplers, others));
    print_row("sampling", text);
    (void)snprintf(text, sizeof text, "tokenizer: %s, chat template: %s",
                   sl_model_has_tokenizer(model) ? "yes" : "no",
                   sl_model_has_chat_template(model) ? "yes" : "no");
    print_row("text", text);
}

static void print_free_memory(uint64_t bytes, const char *where) {
    if (bytes) print_bytes("free memory", bytes, where);
}

/* On this machine, or in the control group if its limit leaves less. */
static void print_memory_left(const sl_memory_use *use) {
    if (use->group_left_bytes < use->machine_left_bytes)
        print_free_memory(use->group_left_bytes, "within the limit of the control group, now");
    else if (use->machine_left_bytes != UINT64_MAX)
        print_free_memory(use->machine_left_bytes, "on this machine, now");
}

static void print_machine(const sl_model_info *i) {
    char text[96];
    (void)snprintf(text, sizeof text, "%s (%s), %u threads, %s reader", i->device, i->isa,
                   i->threads, i->reader);
    print_row("device", text);
}

static json_t *shape_json(const sl_model_info *i) {
    return json_pack("{s:s, s:I, s:I, s:i, s:i, s:i, s:I, s:I, s:I}", "architecture",
                     i->architecture, "parameters", (json_int_t)i->parameters, "active_parameters",
                     (json_int_t)i->active_parameters, "layers", (int)i->layers, "experts",
                     (int)i->experts, "experts_used", (int)i->experts_used, "resident_bytes",
                     (json_int_t)i->resident_bytes, "expert_bytes", (json_int_t)i->expert_bytes,
                     "minimum_budget_bytes", (json_int_t)i->minimum_budget_bytes);
}

static json_t *to_json(const sl_model_info *i, const sl_memory_use *use) {
    json_t *object = json_object();
#define TEXT(NAME)   cli_json_set(object, #NAME, json_string(i->NAME))
#define NUMBER(NAME) cli_json_set(object, #NAME, json_integer((json_int_t)i->NAME))
    TEXT(architecture);
    TEXT(format);
    NUMBER(parameters);
    NUMBER(active_parameters);
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

/* A model that is not here: what its weights would take. */
static int describe_shape(const cli_options *options) {
    const sl_synth_options given = {.struct_size = sizeof given, .quant = options->quant};
    sl_model_info info = {.struct_size = sizeof info};
    sl_error err;
    if (options->model_given)
        return cli_misuse(CLI_info, "--shape and a model: give only one of them");
    if (sl_synth_describe(options->shape, &given, &info, &err) != SL_OK) return cli_fail(&err);
    if (options->json) return cli_print_json(shape_json(&info));
    print_shape(&info);
    print_bytes("resident", info.resident_bytes, "stays in memory");
    print_bytes("experts", info.expert_bytes, "as many as the budget holds stay in memory");
    print_bytes("smallest budget", info.minimum_budget_bytes, "the experts of one token and layer");
    print_free_memory(free_memory(), "on this machine, now");
    return CLI_OK;
}

static int describe_model(const cli_options *options) {
    sl_model *model = NULL;
    if (options->quant) return cli_misuse(CLI_info, "--quant needs --shape");
    if (!cli_open_model(options, 0, &model)) return CLI_FAILED;
    const sl_model_info info = cli_model_info(model);
    sl_memory_use use = {.struct_size = sizeof use};
    sl_error err;
    if (sl_model_memory(model, &use, &err) != SL_OK) {
        sl_model_close(model);
        return cli_fail(&err);
    }
    if (options->json) {
        const sl_sampling sampling = cli_model_sampling(model);
        json_t *json = to_json(&info, &use);
        const sl_sampler_options samplers = cli_model_samplers(model);
        json_t *of_sampling = cli_sampling_json(&sampling);
        cli_samplers_json(&samplers, of_sampling);
        cli_json_set(json, "sampling", of_sampling);
        cli_json_set(json, "tokenizer", json_boolean(sl_model_has_tokenizer(model)));
        cli_json_set(json, "chat_template", json_boolean(sl_model_has_chat_template(model)));
        (void)cli_print_json(json);
    } else {
        print_shape(&info);
        print_text(model);
        print_sizes(&info);
        print_memory(&use);
        print_memory_left(&use);
        print_machine(&info);
    }
    sl_model_close(model);
    return CLI_OK;
}

int cli_run_info(const cli_options *options) {
    return options->shape ? describe_shape(options) : describe_model(options);
}
