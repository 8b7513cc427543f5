/* steps.c - The list of a program's steps, as text and as JSON. */
#include "compiler/graph.h"
#include "engine/inspect/draw.h"

static const char *const kinds[] = {
    [SL_BUFFER_INPUT] = "input", [SL_BUFFER_WEIGHT] = "weight",   [SL_BUFFER_CONSTANT] = "constant",
    [SL_BUFFER_STATE] = "state", [SL_BUFFER_EXPERTS] = "experts", [SL_BUFFER_OUTPUT] = "output",
    [SL_BUFFER_TEMP] = "temp",
};

/* An operand as it is listed: bytes of its buffer, or of the arena if the buffer is there. */
typedef struct {
    const char *use, *name, *kind, *buffer;
    char type[96];
    uint64_t begin, end;
} row;

/* Results after the inputs; a NEXT is the state among the inputs and no operand. */
static const char *result_name(const sl_op_info *info, uint32_t result) {
    uint32_t output = 0;
    while (true) {
        if (sl_output_state(info, output) < 0 && result-- == 0) return sl_output_name(info, output);
        output++;
    }
}

static row row_of(const sl_program *program, const sl_step *step, uint32_t i) {
    const sl_op_info *info = sl_op_info_of(step->op);
    const sl_operand *operand = &step->operands[i];
    const sl_buffer *buffer = &program->buffers[operand->buffer.v];
    const bool is_input = i < step->input_count;
    const bool is_state = is_input && sl_input_kind(info, i) == SL_OPERAND_STATE;
    row r = {.use = !is_input  ? "out"
                    : is_state ? "state"
                               : "in",
             .name = is_input ? sl_input_name(info, i) : result_name(info, i - step->input_count),
             .kind = kinds[buffer->kind],
             .buffer = buffer->name ? buffer->name : "",
             .begin = operand->offset_bytes};
    if (sl_buffer_in_arena(buffer)) r.begin += buffer->arena_offset;
    r.end = r.begin + (buffer->kind == SL_BUFFER_EXPERTS ? 0 : sl_type_bytes(&operand->type));
    (void)sl_type_format(&operand->type, r.type, sizeof r.type);
    return r;
}

/* ---- text ---- */

static void print_text(const sl_program *program, uint32_t s, const char *attrs, FILE *to) {
    const sl_step *step = &program->steps[s];
    (void)fprintf(to, "%u level %u %s: %s\n", s, step->level, sl_op_info_of(step->op)->name,
                  step->label);
    for (uint32_t i = 0; i < step->operand_count; i++) {
        const row r = row_of(program, step, i);
        const bool temp = program->buffers[step->operands[i].buffer.v].kind == SL_BUFFER_TEMP;
        (void)fprintf(to, "    %-5s %s: %s, %s%s%s", r.use, r.name, r.type, r.kind, temp ? "" : " ",
                      temp ? "" : r.buffer);
        if (r.end > r.begin)
            (void)fprintf(to, ", bytes %llu to %llu", (unsigned long long)r.begin,
                          (unsigned long long)r.end);
        (void)fputc('\n', to);
    }
    if (attrs[0]) (void)fprintf(to, "    %s\n", attrs);
}

/* ---- JSON ---- */

static void print_quoted(const char *text, FILE *to) {
    (void)fputc('"', to);
    for (; *text; text++) {
        if ((unsigned char)*text < ' ')
            (void)fprintf(to, "\\u%04x", (unsigned)*text);
        else
            (void)fprintf(to, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    }
    (void)fputc('"', to);
}

static void print_member(const char *name, const char *text, FILE *to) {
    (void)fprintf(to, ", \"%s\": ", name);
    print_quoted(text, to);
}

static void print_json(const sl_program *program, uint32_t s, const char *attrs, FILE *to) {
    const sl_step *step = &program->steps[s];
    (void)fprintf(to, "%s{\"index\": %u, \"level\": %u", s ? ",\n " : "[", s, step->level);
    print_member("op", sl_op_info_of(step->op)->name, to);
    print_member("label", step->label, to);
    print_member("attrs", attrs, to);
    (void)fprintf(to, ", \"operands\": [");
    for (uint32_t i = 0; i < step->operand_count; i++) {
        const row r = row_of(program, step, i);
        (void)fprintf(to, "%s{\"begin\": %llu, \"end\": %llu", i ? ", " : "",
                      (unsigned long long)r.begin, (unsigned long long)r.end);
        print_member("use", r.use, to);
        print_member("name", r.name, to);
        print_member("type", r.type, to);
        print_member("kind", r.kind, to);
        print_member("buffer", r.buffer, to);
        (void)fputc('}', to);
    }
    (void)fprintf(to, "]}%s", s + 1 == program->step_count ? "]\n" : "");
}

sl_status sl_print_steps(const sl_program *program, const sl_step_list *list,
                         const sl_allocator *allocator, sl_error *err) {
    sl_arena arena;
    sl_status status = SL_OK;
    sl_arena_init(&arena, allocator);
    for (uint32_t s = 0; status == SL_OK && s < program->step_count; s++) {
        char *attrs;
        status = sl_attrs_print(program->steps[s].op, program->steps[s].attrs, &arena, &attrs, err);
        if (status == SL_OK) (list->json ? print_json : print_text)(program, s, attrs, list->to);
    }
    sl_arena_deinit(&arena);
    return status;
}
