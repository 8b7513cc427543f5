/* ir.h - What the verbs of `sluice ir` share. */
#ifndef SL_APPS_IR_H
#define SL_APPS_IR_H
#include "apps/cli/cli.h"
#include "sluice/experimental.h"
#include "sluice/tensors.h"

/* A program that is being run; begins with graph and options. */
typedef struct {
    const sl_graph *graph;
    const cli_options *options;
    sl_tensors *data; /* NULL: none was given */
    sl_compiled *compiled;
    char invented[512]; /* names of what has random values */
} cli_runner;

/* ir.c; false and CLI_FAILED after a message.  device NULL: that of the options. */
bool cli_ir_start(cli_runner *runner, const char *device);
void cli_ir_stop(cli_runner *runner);
/* A program in its text form, or an ONNX model by its name's end; NULL after a message. */
sl_graph *cli_ir_read(const char *path, const cli_options *options);

/* ir_legality.c: what is not native; CLI_FAILED after naming what is not supported. */
int cli_ir_legality(const sl_legality *legality, const cli_options *options);
/* ir_inspect.c */
int cli_ir_inspect(const sl_graph *graph, const cli_options *options);
/* ir_ops.c */
int cli_ir_ops(const cli_options *options);
/* ir_measure.c */
int cli_ir_bench(const sl_graph *graph, const cli_options *options);
int cli_ir_diff(const sl_graph *graph, const cli_options *options);

/* Examples of programs in text form, each with its page; written by cmake/op_examples.cmake, text
 * NULL at the end. */
typedef struct {
    const char *page, *text;
} cli_op_example;
extern const cli_op_example cli_op_examples[];
#endif
