/* floors.c - Measures the limits of the CUDA device: copies in its memory, matrix tiles, copies
 * from the host. */
#include "runtime/cuda/device.h"
#include "runtime/cuda/kernels/loops.h"

enum { PASSES = 7, MOST_BYTES = 1 << 30, HOST_BYTES = 64 << 20, FEW_ROUNDS = 8, WARPS = 8 };
static const double pass_seconds = 2e-3;

typedef struct {
    sl_cuda_device *device;
    sl_cu_event begin, end;
    sl_gpu_block from, to;
    void *host;
    uint64_t bytes;
    int rounds;
} measuring;

typedef sl_status pass_fn(const measuring *m, sl_error *err);

static sl_status copy_once(const measuring *m, sl_error *err) {
    SL_TRY_CUDA(&m->device->driver,
                copy_within(m->to.address, m->from.address, m->bytes, m->device->stream),
                "measuring copies", err);
    return SL_OK;
}

static sl_status take_once(const measuring *m, sl_error *err) {
    SL_TRY_CUDA(&m->device->driver, copy_in(m->to.address, m->host, HOST_BYTES, m->device->stream),
                "measuring copies from the host", err);
    return SL_OK;
}

static sl_status multiply_once(const measuring *m, sl_error *err) {
    sl_mma_loop args = {(float *)(uintptr_t)m->to.address, m->rounds};
    const sl_gpu_launch launch = {.function = SL_FN_sl_loop_mma};
    void *arguments[] = {&args};
    sl_cu_function function;
    SL_TRY(sl_cuda_function_of(m->device, &launch, &function, err));
    SL_TRY_CUDA(&m->device->driver,
                launch(function, 2 * m->device->gpu.multiprocessors, 1, 1, WARPS * SL_CUDA_WARP, 1,
                       1, 0, m->device->stream, arguments, NULL),
                "measuring products", err);
    return SL_OK;
}

/* The best rate of several passes; the first is a warm-up. */
static sl_status best_of(const measuring *m, pass_fn *pass, double amount, double *out,
                         sl_error *err) {
    const sl_cuda_driver *driver = &m->device->driver;
    for (int i = 0; i <= PASSES; i++) {
        float milliseconds = 0;
        SL_TRY_CUDA(driver, event_record(m->begin, m->device->stream), "measuring", err);
        SL_TRY(pass(m, err));
        SL_TRY_CUDA(driver, event_record(m->end, m->device->stream), "measuring", err);
        SL_TRY_CUDA(driver, event_synchronise(m->end), "measuring", err);
        SL_TRY_CUDA(driver, event_elapsed(&milliseconds, m->begin, m->end), "measuring", err);
        const double rate = milliseconds > 0 ? amount / (1e-3 * (double)milliseconds) : 0;
        if (i > 0 && rate > *out) *out = rate;
    }
    return SL_OK;
}

static sl_status measure(measuring *m, sl_device_floors *out, sl_error *err) {
    sl_cuda_device *device = m->device;
    size_t left = 0, total = 0;
    SL_TRY_CUDA(&device->driver, memory_info(&left, &total), "asking for free memory", err);
    m->bytes = left / 4 < MOST_BYTES ? left / 4 : MOST_BYTES;
    if (m->bytes < HOST_BYTES) m->bytes = HOST_BYTES;
    SL_TRY_CUDA(&device->driver, event_create(&m->begin, SL_CU_EVENT_DEFAULT), "measuring", err);
    SL_TRY_CUDA(&device->driver, event_create(&m->end, SL_CU_EVENT_DEFAULT), "measuring", err);
    SL_TRY(sl_cuda_calls.allocate(&device->gpu, m->bytes, "measuring copies", &m->from, err));
    SL_TRY(sl_cuda_calls.allocate(&device->gpu, m->bytes, "measuring copies", &m->to, err));
    m->host = sl_resize(&device->gpu.pinned, NULL, 0, HOST_BYTES, 64);
    if (!m->host) return sl_no_memory(err, "measuring copies from the host", HOST_BYTES);
    /* Enough rounds for a measurable time. */
    const double round =
        2.0 * 16 * 8 * 16 * SL_CUDA_LOOP_TILES * WARPS * 2 * (double)device->gpu.multiprocessors;
    double rough = 0;
    m->rounds = FEW_ROUNDS;
    SL_TRY(best_of(m, multiply_once, round * FEW_ROUNDS, &rough, err));
    const double wanted = rough * pass_seconds / round;
    if (wanted > FEW_ROUNDS) m->rounds = wanted < 1e6 ? (int)wanted : 1000000;
    SL_TRY(best_of(m, copy_once, 2.0 * (double)m->bytes, &out->copy_bytes_per_second, err));
    SL_TRY(best_of(m, take_once, HOST_BYTES, &out->host_bytes_per_second, err));
    return best_of(m, multiply_once, round * m->rounds, &out->bf16_operations_per_second, err);
}

sl_status sl_cuda_measure(sl_device *base, sl_device_floors *out, sl_error *err) {
    measuring m = {.device = (sl_cuda_device *)base};
    const sl_cuda_driver *driver = &m.device->driver;
    *out = (sl_device_floors){0};
    SL_TRY(sl_cuda_calls.enter(&m.device->gpu, err));
    const sl_status status = measure(&m, out, err);
    (void)driver->stream_synchronise(m.device->stream);
    sl_gpu_release(&m.device->gpu, &m.from);
    sl_gpu_release(&m.device->gpu, &m.to);
    if (m.host) (void)sl_resize(&m.device->gpu.pinned, m.host, HOST_BYTES, 0, 64);
    if (m.begin) (void)driver->event_destroy(m.begin);
    if (m.end) (void)driver->event_destroy(m.end);
    sl_cuda_calls.leave(&m.device->gpu);
    return status;
}
