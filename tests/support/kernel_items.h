/* kernel_items.h - Running a kernel as a device does, its items divided in any way. */
#ifndef SL_TESTS_SUPPORT_KERNEL_ITEMS_H
#define SL_TESTS_SUPPORT_KERNEL_ITEMS_H
#include "runtime/cpu/kernel_set.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Items in ranges of `step`, from the front or from the back. */
static sl_status run_items(const sl_kernel *kernel, const void *args, int64_t step, bool backwards,
                           sl_error *err) {
    const sl_split split = kernel->split(args);
    void *scratch = NULL;
    assert_true(split.items >= 1 && split.grain >= 1);
    assert_int_equal(posix_memalign(&scratch, 64, split.scratch_bytes + !split.scratch_bytes), 0);
    sl_worker worker = {.scratch = scratch, .err = err};
    const int64_t ranges = (split.items + step - 1) / step;
    sl_status status = SL_OK;
    for (int64_t i = 0; i < ranges && status == SL_OK; i++) {
        const int64_t begin = (backwards ? ranges - 1 - i : i) * step;
        const int64_t end = begin + step < split.items ? begin + step : split.items;
        memset(scratch, 0xff, split.scratch_bytes); /* NaNs: nothing may be left from before */
        status = kernel->run(args, begin, end, &worker);
    }
    free(scratch);
    return status;
}
#endif
