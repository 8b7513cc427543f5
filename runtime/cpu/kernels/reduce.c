/* reduce.c - Sums, means and maxima over axes; softmax and argmax over the last. */
#include "core/ops.h"
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/vmath.h"

/* ---- reductions over any axes: an item is one element of the output ---- */

/* The dims of x in two lists with their strides: those that stay and those that go. */
typedef struct {
    uint32_t rank;
    int64_t dims[SL_MAX_RANK], strides[SL_MAX_RANK];
} axes;

static void push_axis(axes *a, int64_t extent, int64_t stride) {
    a->dims[a->rank] = extent;
    a->strides[a->rank++] = stride;
}

static int64_t axes_elements(const axes *a) {
    int64_t product = 1;
    for (uint32_t i = 0; i < a->rank; i++) product *= a->dims[i];
    return product;
}

static int64_t axes_offset(const axes *a, int64_t index) {
    int64_t offset = 0;
    for (uint32_t i = a->rank; i-- > 0;) {
        offset += index % a->dims[i] * a->strides[i];
        index /= a->dims[i];
    }
    return offset;
}

/* Adjacent dims that go become one, so that sums over trailing axes have one long run. */
static void split_axes(const sl_dims *x, const sl_dims *reduced, axes *stay, axes *go) {
    bool gone[SL_MAX_RANK] = {false};
    for (uint32_t i = 0; i < reduced->rank; i++) gone[reduced->dims[i]] = true;
    *stay = *go = (axes){0};
    for (uint32_t i = 0; i < x->rank; i++) {
        const int64_t stride = sl_dims_tail(x, i + 1);
        if (!gone[i]) {
            push_axis(stay, x->dims[i], stride);
        } else if (i && gone[i - 1]) {
            go->dims[go->rank - 1] *= x->dims[i];
            go->strides[go->rank - 1] = stride;
        } else {
            push_axis(go, x->dims[i], stride);
        }
    }
}

static double sum_run(const float *x, int64_t n, int64_t stride) {
    if (stride == 1) return (double)vtotal(x, n);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i * stride];
    return sum;
}
static double plus(double a, double b) {
    return a + b;
}

static float larger(float a, float b) {
    return isnan(b) || b > a ? b : a;
}
static double max_run(const float *x, int64_t n, int64_t stride) {
    float most = x[0];
    for (int64_t i = 1; i < n; i++) most = larger(most, x[i * stride]);
    return (double)most;
}
static double larger_of(double a, double b) {
    return isnan(b) || b > a ? b : a;
}

/* A reduction: of one run of elements, and of the results of several. */
typedef struct {
    double (*run)(const float *x, int64_t n, int64_t stride);
    double (*join)(double a, double b);
} fold;

static void reduce(const sl_reduce_sum_args *a, int64_t begin, int64_t end, const fold *f,
                   bool mean) {
    axes stay, go;
    split_axes(&a->x.type.shape, &a->attrs.axes, &stay, &go);
    const int64_t all = axes_elements(&go), n = go.dims[go.rank - 1];
    const int64_t stride = go.strides[go.rank - 1];
    for (int64_t item = begin; item < end; item++) {
        const float *x = (const float *)a->x.data + axes_offset(&stay, item);
        double result = f->run(x, n, stride);
        for (int64_t i = n; i < all; i += n)
            result = f->join(result, f->run(x + axes_offset(&go, i), n, stride));
        ((float *)a->out.data)[item] = (float)(mean ? result / (double)all : result);
    }
}

/* The three have one layout. */
_Static_assert(sizeof(sl_reduce_sum_args) == sizeof(sl_reduce_mean_args) &&
                   sizeof(sl_reduce_sum_args) == sizeof(sl_reduce_max_args),
               "reductions share their arguments");
#define REDUCTION(OP, RUN_FN, JOIN, MEAN)                                                          \
    SPLIT(OP) {                                                                                    \
        const sl_reduce_sum_args *a = args;                                                        \
        const int64_t items = sl_type_elements(&a->out.type);                                      \
        return (sl_split){items, grain_of(sl_type_elements(&a->x.type) / items), 0};               \
    }                                                                                              \
    RUN(OP) {                                                                                      \
        reduce(args, begin, end, &(const fold){RUN_FN, JOIN}, MEAN);                               \
        return SL_OK;                                                                              \
    }
REDUCTION(reduce_sum, sum_run, plus, false)
REDUCTION(reduce_mean, sum_run, plus, true)
REDUCTION(reduce_max, max_run, larger_of, false)

/* ---- the last axis: an item is a row ---- */

SPLIT(softmax) {
    const sl_softmax_args *a = args;
    return (sl_split){rows_of(&a->x.type), grain_of(last_dim(&a->x.type) * 4), 0};
}
RUN(softmax) {
    const sl_softmax_args *a = args;
    const int64_t n = last_dim(&a->x.type);
    for (int64_t row = begin; row < end; row++) {
        float *out = (float *)a->out.data + row * n;
        memcpy(out, (const float *)a->x.data + row * n, (size_t)n * sizeof *out);
        const float sum = vsoftmax_terms(out, n);
        FOR_VECTORS(i, count, n, vstore_n(out + i, vload_n(out + i, count) / vsplat(sum), count););
    }
    return SL_OK;
}

SPLIT(argmax) {
    const sl_argmax_args *a = args;
    return (sl_split){rows_of(&a->x.type), grain_of(last_dim(&a->x.type)), 0};
}
RUN(argmax) {
    const sl_argmax_args *a = args;
    const int64_t n = last_dim(&a->x.type);
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)a->x.data + row * n;
        int64_t best = 0;
        for (int64_t i = 1; i < n; i++)
            if (x[i] > x[best]) best = i;
        ((int32_t *)a->out.data)[row] = (int32_t)best;
    }
    return SL_OK;
}
