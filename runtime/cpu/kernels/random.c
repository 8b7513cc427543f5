/* random.c - Counter-based random numbers: sixteen Philox blocks in parallel. */
#include "core/ops.h"
#include "core/philox.h"
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/reals.h"

enum { SIDE = 16, WORDS = 4 * SIDE, CHUNK = 16 * WORDS /* words of an item */ };

static void read_words(const sl_cview *view, uint32_t *words) {
    memcpy(words, view->data, sl_type_bytes(&view->type));
}

static sl_philox_stream stream_of(const sl_cview *key, const sl_cview *counter) {
    sl_philox_stream s = {{0}, {0}};
    read_words(key, s.key);
    read_words(counter, s.counter);
    return s;
}

/* Words [4 * block, 4 * block + WORDS) of the stream, as sl_philox_words gives them, SIDE counters
 * at a time. */
static void next_words(const sl_philox_stream *s, int64_t block, uint32_t out[WORDS]) {
    uint32_t c[4][SIDE], key0 = s->key[0], key1 = s->key[1];
    const uint64_t low = (uint64_t)s->counter[1] << 32 | s->counter[0];
    const uint64_t high = (uint64_t)s->counter[3] << 32 | s->counter[2];
    for (int i = 0; i < SIDE; i++) {
        const uint64_t at = low + (uint64_t)block + (uint64_t)i, carried = high + (at < low);
        c[0][i] = (uint32_t)at, c[1][i] = (uint32_t)(at >> 32);
        c[2][i] = (uint32_t)carried, c[3][i] = (uint32_t)(carried >> 32);
    }
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < SIDE; i++) {
            const uint64_t a = (uint64_t)0xd2511f53u * c[0][i], b = (uint64_t)0xcd9e8d57u * c[2][i];
            c[0][i] = (uint32_t)(b >> 32) ^ c[1][i] ^ key0;
            c[1][i] = (uint32_t)b;
            c[2][i] = (uint32_t)(a >> 32) ^ c[3][i] ^ key1;
            c[3][i] = (uint32_t)a;
        }
        key0 += 0x9e3779b9u, key1 += 0xbb67ae85u;
    }
    for (int i = 0; i < SIDE; i++)
        for (int w = 0; w < 4; w++) out[4 * i + w] = c[w][i];
}

/* Whether an element takes two words. */
static bool is_wide(sl_dtype dtype) {
    return dtype == SL_DTYPE_f64 || dtype == SL_DTYPE_u64;
}

static sl_split split_words(const sl_type *out) {
    const int64_t words = sl_type_elements(out) * (is_wide(out->dtype) ? 2 : 1);
    return (sl_split){parts_of(words, CHUNK), grain_of(CHUNK * 4), 0};
}

/* ---- rng_uniform ---- */

static uint16_t half_of(sl_dtype dtype, uint32_t word) {
    return dtype == SL_DTYPE_f16 ? sl_f16_from_f32((float)(word >> 21) * 0x1p-11f)
                                 : sl_bf16_from_f32((float)(word >> 24) * 0x1p-8f);
}

/* Converts words to n elements. */
static void uniform_elements(sl_dtype dtype, const uint32_t *words, int64_t n, void *out) {
    float singles[WORDS];
    double doubles[WORDS / 2];
    uint16_t halves[WORDS];
    switch (dtype) {
    case SL_DTYPE_u32:
    case SL_DTYPE_u64:
        memcpy(out, words, (size_t)n * sl_dtype_infos[dtype].bytes);
        return;
    case SL_DTYPE_f32:
        for (int i = 0; i < WORDS; i++) singles[i] = sl_philox_f32(words[i]);
        memcpy(out, singles, (size_t)n * sizeof *singles);
        return;
    case SL_DTYPE_f64:
        for (int i = 0; i < WORDS / 2; i++)
            doubles[i] = sl_philox_f64(words[2 * i], words[2 * i + 1]);
        memcpy(out, doubles, (size_t)n * sizeof *doubles);
        return;
    default:
        for (int i = 0; i < WORDS; i++) halves[i] = half_of(dtype, words[i]);
        memcpy(out, halves, (size_t)n * sizeof *halves);
    }
}

/* ---- rng_normal ---- */

/* cos and sin of 2 pi v, v in [0, 1).  The argument is reduced to at most 1/8 of a turn. */
INLINE void vturn(vf v, vf *cosine, vf *sine) {
    const vf magic = vsplat(0x1.8p23f), quarters = v * vsplat(4.0f);
    const vf rounded = quarters + magic;
    const vf x = (quarters - (rounded - magic)) * vsplat(1.57079632679f), z = x * x;
    const vi quarter = (vi)rounded & 3;
    vf s = vsplat(-1.9515295891e-4f), c = vsplat(2.443315711809948e-5f);
    s = vfma(s, z, vsplat(8.3321608736e-3f));
    s = vfma(s, z, vsplat(-1.6666654611e-1f));
    s = vfma(s * z, x, x);
    c = vfma(c, z, vsplat(-1.388731625493765e-3f));
    c = vfma(c, z, vsplat(4.166664568298827e-2f));
    c = vfma(c * z, z, vfma(z, vsplat(-0.5f), vsplat(1.0f)));
    const vi odd = (quarter & 1) != 0;
    const vf first = choose(odd, (vi)s, (vi)c), second = choose(odd, (vi)c, (vi)s);
    const vi cosine_sign = (((quarter + 1) & 2) != 0) & INT32_MIN;
    const vi sine_sign = ((quarter & 2) != 0) & INT32_MIN;
    *cosine = (vf)((vi)first ^ cosine_sign);
    *sine = (vf)((vi)second ^ sine_sign);
}

static void normal_singles(const uint32_t *words, float *out) {
    float u[WORDS / 2], v[WORDS / 2];
    for (int i = 0; i < WORDS / 2; i++) {
        u[i] = 1.0f - sl_philox_f32(words[2 * i]);
        v[i] = sl_philox_f32(words[2 * i + 1]);
    }
    for (int i = 0; i < WORDS / 2; i += LANES) {
        const vf radius = vsqrt(vsplat(-2.0f) * vlog(vload(u + i)));
        vf cosine, sine;
        vturn(vload(v + i), &cosine, &sine);
        vstore(u + i, radius * cosine);
        vstore(v + i, radius * sine);
    }
    for (int i = 0; i < WORDS / 2; i++) out[2 * i] = u[i], out[2 * i + 1] = v[i];
}

static void normal_doubles(const uint32_t *words, double *out) {
    for (int i = 0; i < WORDS / 2; i += 2) {
        const double u = sl_philox_f64(words[2 * i], words[2 * i + 1]);
        const double angle = 2 * M_PI * sl_philox_f64(words[2 * i + 2], words[2 * i + 3]);
        const double radius = sqrt(-2 * log1p(-u));
        out[i] = radius * cos(angle), out[i + 1] = radius * sin(angle);
    }
}

static void normal_elements(sl_dtype dtype, const uint32_t *words, int64_t n, void *out) {
    float singles[WORDS];
    double doubles[WORDS / 2];
    if (dtype == SL_DTYPE_f64) {
        normal_doubles(words, doubles);
        store_f64(dtype, out, 0, n, doubles);
        return;
    }
    normal_singles(words, singles);
    store_f32(dtype, out, 0, n, singles);
}

/* ---- rng_uniform, rng_normal: an item is CHUNK words ---- */

typedef void elements_fn(sl_dtype dtype, const uint32_t *words, int64_t n, void *out);

static void fill_items(const sl_philox_stream *s, const sl_view *out, int64_t begin, int64_t end,
                       elements_fn *make) {
    const int64_t per = is_wide(out->type.dtype) ? 2 : 1, count = sl_type_elements(&out->type);
    const int64_t bytes = sl_dtype_infos[out->type.dtype].bytes;
    for (int64_t at = begin * CHUNK; at < end * CHUNK && at / per < count; at += WORDS) {
        uint32_t words[WORDS];
        next_words(s, at / 4, words);
        make(out->type.dtype, words, least(WORDS / per, count - at / per),
             (char *)out->data + at / per * bytes);
    }
}

SPLIT(rng_uniform) {
    return split_words(&((const sl_rng_uniform_args *)args)->out.type);
}
RUN(rng_uniform) {
    const sl_rng_uniform_args *a = args;
    const sl_philox_stream s = stream_of(&a->key, &a->counter);
    fill_items(&s, &a->out, begin, end, uniform_elements);
    return SL_OK;
}

SPLIT(rng_normal) {
    return split_words(&((const sl_rng_normal_args *)args)->out.type);
}
RUN(rng_normal) {
    const sl_rng_normal_args *a = args;
    const sl_philox_stream s = stream_of(&a->key, &a->counter);
    fill_items(&s, &a->out, begin, end, normal_elements);
    return SL_OK;
}

/* ---- sample: an item is a row, computed in doubles ---- */

/* A max-heap of indices by weight; ties go to the lower index. */
typedef struct {
    const double *weights;
    int32_t *items;
    int64_t count;
} heap;

static bool comes_first(const heap *h, int64_t a, int64_t b) {
    const double x = h->weights[h->items[a]], y = h->weights[h->items[b]];
    return x > y || (x == y && h->items[a] < h->items[b]);
}

static void sink(heap *h, int64_t at) {
    for (int64_t child = 2 * at + 1; child < h->count; child = 2 * at + 1) {
        if (child + 1 < h->count && comes_first(h, child + 1, child)) child++;
        if (!comes_first(h, child, at)) return;
        const int32_t item = h->items[at];
        h->items[at] = h->items[child];
        h->items[child] = item;
        at = child;
    }
}

static void heap_fill(heap *h, int64_t count) {
    h->count = count;
    for (int64_t i = 0; i < count; i++) h->items[i] = (int32_t)i;
    for (int64_t i = count / 2; i-- > 0;) sink(h, i);
}

static int32_t heap_pop(heap *h) {
    const int32_t top = h->items[0];
    h->items[0] = h->items[--h->count];
    sink(h, 0);
    return top;
}

static void keep_top_k(double *weights, int64_t width, int64_t k, heap *h) {
    double smallest = 0;
    heap_fill(h, width);
    for (int64_t i = 0; i < k; i++) smallest = weights[heap_pop(h)];
    for (int64_t i = 0; i < width; i++)
        if (weights[i] < smallest) weights[i] = 0;
}

static void keep_top_p(double *weights, int64_t width, double share, heap *h) {
    double total = 0, sum = 0;
    for (int64_t i = 0; i < width; i++) total += weights[i];
    heap_fill(h, width);
    do sum += weights[heap_pop(h)];
    while (h->count && sum < share * total);
    for (int64_t i = 0; i < h->count; i++) weights[h->items[i]] = 0;
}

static int64_t pick(const double *weights, int64_t width, double u) {
    double total = 0, sum = 0;
    int64_t last = 0;
    for (int64_t i = 0; i < width; i++) total += weights[i];
    for (int64_t i = 0; i < width; i++) {
        sum += weights[i];
        if (weights[i] > 0) last = i;
        if (u * total < sum) return i;
    }
    return last;
}

static double logit(const sl_cview *x, int64_t at) {
    const sl_dtype dtype = x->type.dtype;
    return dtype == SL_DTYPE_f64 ? element_f64(dtype, x->data, at)
                                 : (double)element_f32(dtype, x->data, at);
}

SPLIT(sample) {
    const sl_sample_args *a = args;
    const int64_t width = last_dim(&a->logits.type);
    carver c = {NULL, 0};
    (void)carve(&c, width, sizeof(double));
    (void)carve(&c, width, sizeof(int32_t));
    return (sl_split){rows_of(&a->logits.type), grain_of(width * 16), c.bytes};
}

/* Reads the logits of a row as doubles and returns the index of the first maximum; -1 if none is
 * finite. */
static int64_t read_logits(const sl_cview *x, int64_t row, int64_t width, double *out) {
    int64_t best = 0;
    bool wrong = false;
    for (int64_t i = 0; i < width; i++) {
        out[i] = logit(x, row * width + i);
        wrong |= isnan(out[i]) || out[i] == INFINITY;
        if (out[i] > out[best]) best = i;
    }
    return wrong || out[best] == -INFINITY ? -1 : best;
}

RUN(sample) {
    const sl_sample_args *a = args;
    const sl_philox_stream s = stream_of(&a->key, &a->counter);
    const int64_t width = last_dim(&a->logits.type);
    carver c = {worker->scratch, 0};
    double *weights = carve(&c, width, sizeof *weights);
    heap h = {.weights = weights, .items = carve(&c, width, sizeof(int32_t))};
    for (int64_t row = begin; row < end; row++) {
        int32_t *out = (int32_t *)a->out.data + row;
        const int64_t best = read_logits(&a->logits, row, width, weights);
        if (best < 0)
            return sl_fail(worker->err, SL_INVALID,
                           "sample: the largest logit of row %lld is not finite", (long long)row);
        *out = (int32_t)best;
        if (a->attrs.temperature == 0) continue;
        const double most = weights[best], temperature = (double)a->attrs.temperature;
        for (int64_t i = 0; i < width; i++) weights[i] = exp((weights[i] - most) / temperature);
        const int64_t k = a->attrs.top_k;
        if (k && k < width) keep_top_k(weights, width, k, &h);
        if (a->attrs.top_p > 0 && a->attrs.top_p < 1)
            keep_top_p(weights, width, (double)a->attrs.top_p, &h);
        const uint32_t word = sl_philox_block(&s, row / 4).word[row % 4];
        *out = (int32_t)pick(weights, width, (double)sl_philox_f32(word));
    }
    return SL_OK;
}
