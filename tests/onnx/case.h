/* case.h - One case of an ONNX test suite: a model, and inputs with the outputs they should give.
 */
#ifndef SL_TESTS_ONNX_CASE_H
#define SL_TESTS_ONNX_CASE_H
#include "frontend/onnx/import.h"

typedef enum {
    SL_ONNX_PASSED,
    SL_ONNX_NOT_APPLICABLE, /* the importer refused it */
    SL_ONNX_FAILED
} sl_onnx_outcome;

enum { SL_ONNX_MOST_BOUND = 8 };
typedef struct {
    sl_onnx_outcome outcome;
    char op[64];   /* that was refused; "-" when it was none */
    char why[512]; /* what went wrong; empty when nothing did */
    uint32_t bound_count;
    char bound[SL_ONNX_MOST_BOUND][64]; /* inputs that had to be constants */
    bool folded;                        /* nothing was left to compute */
} sl_onnx_result;

/* Imports folder/model.onnx, runs it on the CPU and in double precision with each
 * test_data_set_N, and compares as ONNX's own runner does: floats within 1e-3 of their magnitude
 * and 1e-7, all else exactly. */
void sl_onnx_case_run(const char *folder, sl_onnx_result *out);
#endif
