/* absent.c - `sluice serve` of a program that was built without libmicrohttpd. */
#include "apps/cli/cli.h"

int cli_run_serve(const cli_options *options) {
    (void)options;
    return cli_fail_text("this program was built without a server: install libmicrohttpd-dev and "
                         "build again");
}
