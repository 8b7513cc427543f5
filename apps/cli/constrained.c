/* constrained.c - Answers that follow a grammar. */
#include "apps/cli/constrained.h"
#include <stdlib.h>
#include <string.h>

int cli_constraint_check(const cli_options *options) {
    const int given = (options->json_schema != NULL) + (options->grammar != NULL) +
                      (options->regex != NULL) + (options->choice != NULL);
    if (given > 1)
        return cli_misuse(CLI_run, "--json-schema, --grammar, --regex and --choice: give only one "
                                   "of them");
    if (options->json_ordered && !options->json_schema)
        return cli_misuse(CLI_run, "--json-ordered: only with --json-schema");
    return CLI_OK;
}

/* "A,B" as a JSON array; NULL without memory. */
static char *split_choices(const char *text) {
    json_t *list = json_array();
    for (const char *start = text; start;) {
        const char *end = strchr(start, ',');
        const size_t bytes = end ? (size_t)(end - start) : strlen(start);
        cli_json_append(list, json_stringn(start, bytes));
        start = end ? end + 1 : NULL;
    }
    char *made = json_dumps(list, JSON_COMPACT);
    json_decref(list);
    return made;
}

/* The text of the grammar, released with free; NULL after a message. */
static char *read_grammar(const cli_options *options, sl_grammar_kind *kind) {
    const char *schema = options->json_schema;
    char *text = NULL;
    if (schema) {
        *kind = SL_GRAMMAR_JSON_SCHEMA;
        const char first = schema[strspn(schema, " \t\r\n")];
        return first == '{' ? cli_copy(schema) : cli_read_text(schema);
    }
    if (options->grammar) {
        *kind = SL_GRAMMAR_GBNF;
        return cli_read_text(options->grammar);
    }
    *kind = options->regex ? SL_GRAMMAR_REGEX : SL_GRAMMAR_CHOICES;
    text = options->regex ? cli_copy(options->regex) : split_choices(options->choice);
    if (!text) (void)cli_fail_text("no memory for the grammar");
    return text;
}

bool cli_constraint_open(const cli_options *options, const sl_model *model, cli_constraint *out) {
    sl_grammar_kind kind = SL_GRAMMAR_REGEX;
    sl_error err;
    *out = (cli_constraint){0};
    if (!options->json_schema && !options->grammar && !options->regex && !options->choice)
        return true;
    char *text = read_grammar(options, &kind);
    if (!text) return false;
    const sl_grammar_options how = {.struct_size = sizeof how, .ordered = options->json_ordered};
    sl_status status = sl_grammar_compile(kind, text, strlen(text), &how, &out->grammar, &err);
    free(text);
    if (status == SL_OK) status = sl_grammar_vocabulary_of_model(model, &out->vocabulary, &err);
    if (status != SL_OK) {
        (void)cli_fail(&err);
        return false;
    }
    const uint32_t vocab = cli_model_info(model).vocab;
    const uint32_t own = sl_grammar_vocabulary_size(out->vocabulary);
    out->words = ((size_t)(own > vocab ? own : vocab) + 31) / 32;
    out->allowed = calloc(out->words, sizeof *out->allowed);
    if (!out->allowed) (void)cli_fail_text("no memory for the mask of the grammar");
    return out->allowed != NULL;
}

void cli_constraint_close(cli_constraint *constraint) {
    sl_grammar_state_destroy(constraint->state);
    sl_grammar_vocabulary_close(constraint->vocabulary);
    sl_grammar_close(constraint->grammar);
    free(constraint->allowed);
}

sl_status cli_constraint_begin(cli_constraint *constraint, sl_error *err) {
    sl_grammar_state_destroy(constraint->state);
    constraint->state = NULL;
    return sl_grammar_state_create(constraint->grammar, constraint->vocabulary, &constraint->state,
                                   err);
}

sl_status cli_constraint_mask(cli_constraint *constraint, const uint32_t **out, sl_error *err) {
    *out = constraint->allowed;
    return sl_grammar_state_mask(constraint->state, constraint->allowed, constraint->words, err);
}

sl_status cli_constraint_take(cli_constraint *constraint, sl_token token, cli_tokens *forced,
                              size_t capacity, sl_error *err) {
    sl_grammar_state *state = constraint->state;
    forced->count = 0;
    sl_status status = sl_grammar_state_accept(state, token, err);
    if (status == SL_OK && capacity && !sl_grammar_state_ended(state))
        status = sl_grammar_state_forced(state, forced->ids, capacity, &forced->count, err);
    for (size_t i = 0; i < forced->count && status == SL_OK; i++)
        status = sl_grammar_state_accept(state, forced->ids[i], err);
    return status;
}
