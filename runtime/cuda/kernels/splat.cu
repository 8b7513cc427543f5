/* splat.cu - Gaussian splatting by tiles of the image (core/splat.h), in double.
 *
 * Gradients are sums over pixels.  To keep their order fixed, each block sums over its own tiles,
 * and the sums of all blocks are added in order. */
#include "core/splat.c"
#include "runtime/cuda/kernels/splat.h"
#include "runtime/cuda/kernels/strides.cuh"

enum { THREADS = SL_SPLAT_THREADS, WARPS = THREADS / WARP };

/* ---- projecting and sorting the splats ---- */

DEVICE sl_splat_source source_of(const sl_splat_scene &s, int64_t i) {
    return {s.positions + 3 * i, s.scales + 3 * i, s.rotations + 4 * i,
            s.opacities + i,     s.colors + 3 * i, s.harmonics + 3 * s.harmonic_count * i,
            s.harmonic_count};
}

SL_CUDA_KERNEL(sl_prepare_splats, sl_splat_preparation, SL_SPLAT_THREADS) {
    const int64_t i = thread_number();
    if (i >= a.scene.count) return;
    const sl_splat_camera camera =
        sl_splat_camera_make(a.scene.camera, a.scene.width, a.scene.height);
    const sl_splat_source source = source_of(a.scene, i);
    int32_t *box = a.boxes + 4 * i;
    for (int k = 0; k < 4; k++) box[k] = 0;
    a.distances[i] = sl_splat_make(&source, &camera, a.scene.radius, &a.splats[i]);
    if (a.distances[i] < HUGE_VAL)
        sl_splat_box(&source, &camera, a.scene.radius, a.scene.cutoff, box);
}

/* Rank sort by distance: a splat's position is the number of splats before it. */
SL_CUDA_KERNEL(sl_order_splats, sl_splat_preparation, SL_SPLAT_THREADS) {
    const int64_t i = thread_number();
    if (i >= a.scene.count) return;
    const double own = a.distances[i];
    int64_t place = 0;
    for (int64_t j = 0; j < a.scene.count; j++)
        place += a.distances[j] < own || (a.distances[j] == own && j < i);
    a.order[place] = (int32_t)i;
}

/* ---- tiles ---- */

struct pixel {
    int32_t x, y, left, top; /* left, top: of the pixel's tile */
    double ray[3];
    bool inside;
};
DEVICE int64_t tiles_of(int64_t extent) {
    return (extent + SL_SPLAT_TILE - 1) / SL_SPLAT_TILE;
}
DEVICE pixel pixel_of(const sl_splat_camera &camera, int64_t tile) {
    const int64_t down = quotient(tile, tiles_of(camera.width));
    pixel p;
    p.left = (int32_t)(tile - down * tiles_of(camera.width)) * SL_SPLAT_TILE;
    p.top = (int32_t)down * SL_SPLAT_TILE;
    p.x = p.left + (int32_t)threadIdx.x % SL_SPLAT_TILE;
    p.y = p.top + (int32_t)threadIdx.x / SL_SPLAT_TILE;
    p.inside = p.x < camera.width && p.y < camera.height;
    sl_splat_ray(&camera, p.x, p.y, p.ray);
    return p;
}

/* Compaction: the thread's index among the threads of the block with `wants`, and their number. */
DEVICE int place_in_block(bool wants, int &total) {
    __shared__ int counts[WARPS];
    const unsigned warp = __ballot_sync(ALL_LANES, wants);
    if (lane_id() == 0) counts[warp_id()] = __popc(warp);
    __syncthreads();
    int place = __popc(warp & ((1u << lane_id()) - 1));
    total = 0;
    for (int w = 0; w < WARPS; w++) {
        if (w < warp_id()) place += counts[w];
        total += counts[w];
    }
    return place;
}

/* Lists, in depth order, the splats of batch `part` whose bounding boxes overlap the tile; returns
 * their number. */
DEVICE int list_splats(const sl_splat_image &a, const pixel &p, int64_t part,
                       int32_t (&list)[THREADS]) {
    const int64_t i = part * THREADS + threadIdx.x;
    int32_t at = 0, total;
    bool seen = false;
    if (i < a.count) {
        at = checked(a.fault, SL_FAULT_PLACE, (int)i, a.order[i], (int)a.count);
        const int32_t *box = a.boxes + 4 * (int64_t)at;
        seen = box[0] < p.left + SL_SPLAT_TILE && box[1] > p.left &&
               box[2] < p.top + SL_SPLAT_TILE && box[3] > p.top;
    }
    __syncthreads();
    const int place = place_in_block(seen, total);
    if (seen) list[place] = at;
    __syncthreads();
    return total;
}

/* A pixel's sample of a splat; alpha is 0 outside its box and below the cutoff. */
DEVICE sl_splat_hit look(const sl_splat_image &a, const pixel &p, int32_t at) {
    const int32_t *box = a.boxes + 4 * (int64_t)at;
    sl_splat_hit hit = {};
    if (p.x < box[0] || p.x >= box[1] || p.y < box[2] || p.y >= box[3]) return hit;
    hit = sl_splat_look(&a.splats[at], p.ray);
    if (!(hit.alpha >= a.cutoff)) hit.alpha = 0;
    return hit;
}

SL_CUDA_KERNEL(sl_draw_splats, sl_splat_image, SL_SPLAT_THREADS) {
    __shared__ int32_t list[THREADS];
    const sl_splat_camera camera = sl_splat_camera_make(a.camera, a.width, a.height);
    const pixel p = pixel_of(camera, blockIdx.x);
    double color[3] = {0, 0, 0}, through = p.inside ? 1 : -1;
    for (int64_t part = 0; part * THREADS < a.count; part++) {
        if (!__syncthreads_or(through >= a.enough)) break;
        const int listed = list_splats(a, p, part, list);
        for (int i = 0; i < listed && through >= a.enough; i++) {
            const double alpha = look(a, p, list[i]).alpha;
            for (int k = 0; k < 3; k++) color[k] += through * alpha * a.splats[list[i]].color[k];
            through *= 1 - alpha;
        }
    }
    if (!p.inside) return;
    float *out = a.out + 4 * (p.y * a.width + p.x);
    for (int k = 0; k < 3; k++) out[k] = (float)(color[k] + through * camera.background[k]);
    out[3] = (float)(1 - through);
}

/* ---- gradients ---- */

/* Adds the gradients of all threads to the block's sums for one splat. */
DEVICE void add_parts(const sl_splat &own, sl_splat &sums) {
    __shared__ double parts[WARPS][SL_SPLAT_NUMBERS];
    const double *numbers = (const double *)&own;
    for (int n = 0; n < SL_SPLAT_NUMBERS; n++) {
        const double x = warp_sum(numbers[n]);
        if (lane_id() == 0) parts[warp_id()][n] = x;
    }
    __syncthreads();
    if (threadIdx.x < SL_SPLAT_NUMBERS)
        for (int w = 0; w < WARPS; w++) ((double *)&sums)[threadIdx.x] += parts[w][threadIdx.x];
    __syncthreads();
}

/* The backward pass of one pixel of the tile, with its scratch memory. */
struct strip {
    pixel p;
    const float *grad;
    double behind; /* dot product of the gradient with the colour behind the current splat */
    double *starts, *throughs;
    sl_splat *sums;
};

/* Recomputes the forward pass over a batch from its initial transmittance: stores the transmittance
 * in front of each splat, -1 where the splat is not visible.  Returns the transmittance behind the
 * batch. */
DEVICE double pass_part(const sl_splat_image &a, const strip &s, const int32_t *list, int listed,
                        double through) {
    for (int i = 0; i < listed; i++) {
        const double alpha = through >= a.enough ? look(a, s.p, list[i]).alpha : 0;
        s.throughs[i * THREADS] = alpha > 0 ? through : -1;
        through *= 1 - alpha;
    }
    return through;
}
/* Backward pass over a batch, back to front. */
DEVICE void add_part(const sl_splat_image &a, strip &s, const int32_t *list, int listed) {
    for (int i = listed - 1; i >= 0; i--) {
        const double through = s.throughs[i * THREADS];
        const sl_splat &splat = a.splats[list[i]];
        sl_splat own = {};
        if (through >= 0) {
            const sl_splat_hit hit = look(a, s.p, list[i]);
            double light = 0;
            for (int k = 0; k < 3; k++) {
                light += (double)s.grad[k] * splat.color[k];
                own.color[k] = through * hit.alpha * s.grad[k];
            }
            sl_splat_add(&splat, &hit, s.p.ray, through * (light - s.behind), &own);
            s.behind = (1 - hit.alpha) * s.behind + hit.alpha * light;
        }
        if (__syncthreads_or(through >= 0)) add_parts(own, s.sums[list[i]]);
    }
}

DEVICE void add_tile(const sl_splat_sums &a, const sl_splat_camera &camera, strip &s) {
    __shared__ int32_t list[THREADS];
    const int64_t parts = (a.image.count + THREADS - 1) / THREADS;
    double through = s.p.inside ? 1 : -1;
    for (int64_t part = 0; part < parts; part++) {
        s.starts[part * THREADS] = through;
        const int listed = list_splats(a.image, s.p, part, list);
        through = pass_part(a.image, s, list, listed, through);
    }
    if (s.p.inside) {
        s.grad = a.grad + 4 * (s.p.y * camera.width + s.p.x);
        s.behind = -(double)s.grad[3];
        for (int k = 0; k < 3; k++) s.behind += (double)s.grad[k] * camera.background[k];
    }
    for (int64_t part = parts - 1; part >= 0; part--) {
        const int listed = list_splats(a.image, s.p, part, list);
        (void)pass_part(a.image, s, list, listed, s.starts[part * THREADS]);
        add_part(a.image, s, list, listed);
    }
}

SL_CUDA_KERNEL(sl_add_splats, sl_splat_sums, SL_SPLAT_THREADS) {
    const sl_splat_image &image = a.image;
    const sl_splat_camera camera = sl_splat_camera_make(image.camera, image.width, image.height);
    const int64_t parts = (image.count + THREADS - 1) / THREADS;
    strip s = {};
    s.sums = a.sums + blockIdx.x * image.count;
    s.starts = a.starts + blockIdx.x * parts * THREADS + threadIdx.x;
    s.throughs = a.throughs + (int64_t)blockIdx.x * THREADS * THREADS + threadIdx.x;
    for (int64_t i = threadIdx.x; i < image.count; i += THREADS) s.sums[i] = {};
    for (int64_t tile = blockIdx.x; tile < tiles_of(image.width) * tiles_of(image.height);
         tile += gridDim.x) {
        s.p = pixel_of(camera, tile);
        add_tile(a, camera, s);
    }
}

DEVICE void store_floats(float *to, int64_t i, int64_t each, const double *from) {
    for (int64_t k = 0; k < each; k++) to[i * each + k] = (float)from[k];
}
SL_CUDA_KERNEL(sl_chain_splats, sl_splat_gradients, SL_SPLAT_THREADS) {
    const int64_t i = thread_number(), harmonics = 3 * a.scene.harmonic_count;
    if (i >= a.scene.count) return;
    const sl_splat_camera camera =
        sl_splat_camera_make(a.scene.camera, a.scene.width, a.scene.height);
    const sl_splat_source source = source_of(a.scene, i);
    double sums[SL_SPLAT_NUMBERS] = {};
    for (int64_t block = 0; block < a.blocks; block++)
        for (int n = 0; n < SL_SPLAT_NUMBERS; n++)
            sums[n] += ((const double *)&a.sums[block * a.scene.count + i])[n];
    sl_splat_gradient g;
    sl_splat_chain(&source, &camera, a.scene.radius, (const sl_splat *)sums, &g);
    store_floats(a.positions, i, 3, g.position);
    store_floats(a.scales, i, 3, g.scale);
    store_floats(a.rotations, i, 4, g.rotation);
    store_floats(a.opacities, i, 1, &g.opacity);
    store_floats(a.colors, i, 3, g.color);
    for (int64_t h = 0; h < harmonics; h++)
        a.harmonics[i * harmonics + h] = h < 12 ? (float)g.harmonics[h] : 0;
}
