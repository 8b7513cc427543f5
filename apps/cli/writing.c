#include "apps/cli/writing.h"
#include <signal.h>

static volatile sig_atomic_t stop_requested;

static void on_signal(int number) {
    (void)number;
    stop_requested = 1;
}

/* The library removes its temporary file when it is cancelled. */
void cli_writing_start(void) {
    /* A second signal of the same kind has its usual effect. */
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART | SA_RESETHAND};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGHUP, &action, NULL);
}

int cli_writing_progress(void *ctx, const char *what, uint64_t done, uint64_t total) {
    (void)cli_progress(ctx, what, done, total);
    return stop_requested;
}
