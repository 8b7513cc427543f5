#include "apps/cli/thinking.h"
#include <string.h>

static bool is(const char *text, size_t bytes, const char *wanted) {
    return strlen(wanted) == bytes && memcmp(text, wanted, bytes) == 0;
}

cli_thinking cli_thinking_begin(const char *prompt) {
    cli_thinking state = {0};
    const char *open = NULL;
    for (const char *at = prompt; (at = strstr(at, "<think>")) != NULL; at++) open = at;
    state.thinking = open && !strstr(open, "</think>");
    /* A prompt that speaks of thoughts long past has said something since. */
    const size_t after = open ? strlen(open) : 0;
    if (after > sizeof "<think>" + 2) state.thinking = false;
    return state;
}

static void end_heading(cli_thinking *state) {
    state->heading = false;
    state->thinking = state->name_bytes >= 8 && memcmp(state->name, "analysis", 8) == 0;
}

void cli_thinking_feed(cli_thinking *state, const char *text, size_t bytes) {
    const bool opens = is(text, bytes, "<think>"), closes = is(text, bytes, "</think>");
    state->tag = opens || closes;
    if (state->tag) {
        state->thinking = opens;
    } else if (is(text, bytes, "<|channel|>") || is(text, bytes, "<|start|>")) {
        state->heading = true;
        state->thinking = false;
        state->name_bytes = 0;
    } else if (is(text, bytes, "<|message|>")) {
        end_heading(state);
    } else if (is(text, bytes, "<|end|>")) {
        state->thinking = state->heading = false;
    } else if (state->heading) {
        const size_t room = sizeof state->name - state->name_bytes;
        const size_t taken = bytes < room ? bytes : room;
        memcpy(state->name + state->name_bytes, text, taken);
        state->name_bytes += taken;
    }
}
