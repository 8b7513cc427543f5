/* thinking_test.c - Thought and speech told apart in streams of tokens. */
/* The program is no library to link with. */
#include "apps/cli/thinking.c" /* NOLINT(bugprone-suspicious-include) */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Feeds tokens; shown is one letter each: t thought, s said, h heading, < a tag. */
static void check(const char *prompt, const char *const *tokens, const char *wanted) {
    cli_thinking state = cli_thinking_begin(prompt);
    for (size_t i = 0; tokens[i]; i++) {
        cli_thinking_feed(&state, tokens[i], strlen(tokens[i]));
        const char found = state.heading ? 'h' : state.tag ? '<' : state.thinking ? 't' : 's';
        if (found != wanted[i])
            fail_msg("token %zu '%s': %c, wanted %c", i, tokens[i], found, wanted[i]);
    }
}

static void test_tags(void **state) {
    (void)state;
    check("user: hi", (const char *const[]){"<think>", "hm", "</think>", "Hello", NULL}, "<t<s");
    check("<think>\n", (const char *const[]){"hm", "</think>", "Hello", NULL}, "t<s");
    check("<think>\n\n</think>\n\n", (const char *const[]){"Hello", NULL}, "s");
    check("say <think> in your answer, please", (const char *const[]){"Hello", NULL}, "s");
}

static void test_channels(void **state) {
    (void)state;
    check("<|start|>assistant",
          (const char *const[]){"<|channel|>", "analysis", "<|message|>", "hm", "<|end|>",
                                "<|start|>", "assistant", "<|channel|>", "final", "<|message|>",
                                "Hello", NULL},
          "hhttshhhhss");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tags),
                                       cmocka_unit_test(test_channels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
