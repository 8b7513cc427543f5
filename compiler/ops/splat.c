/* splat.c - Gaussian splatting by brute force: all splats for every pixel (core/splat.h). */
#include "core/splat.h"
#include "compiler/ops/check.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { POSITIONS, SCALES, ROTATIONS, OPACITIES, COLORS, HARMONICS, CAMERA, GRAD, INPUTS };
enum { MOST_PIXELS = 1 << 14 }; /* along one axis */

/* ---- type inference ---- */

static sl_status check_view(const sl_infer_args *a, uint32_t width, uint32_t height,
                            sl_error *err) {
    SL_TRY(sl_check_attr(a->label, "width", width, 1, MOST_PIXELS, err));
    return sl_check_attr(a->label, "height", height, 1, MOST_PIXELS, err);
}

static sl_status check_share(const sl_infer_args *a, const char *name, float value, sl_error *err) {
    if (value >= 0 && value < 1) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s: %s is %g, must be at least 0 and below 1", a->label, name,
                   (double)value);
}

/* Checks the splats; they may have no harmonics. */
static sl_status check_splats(const sl_infer_args *a, float radius, sl_error *err) {
    const sl_type *h = &a->in[HARMONICS];
    const sl_infer_args camera = {a->label, &a->in[CAMERA], a->attrs, a->out, 1, a->out_count};
    SL_TRY(sl_match(a,
                    "positions f32[N,3], scales f32[N,3], rotations f32[N,4], opacities f32[N], "
                    "colors f32[N,3]",
                    err));
    SL_TRY(sl_match(&camera, "camera f32[15]", err));
    const bool fits = h->dtype == SL_DTYPE_f32 && h->shape.rank == 3 &&
                      h->shape.dims[0] == a->in[0].shape.dims[0] && h->shape.dims[2] == 3;
    if (!fits || h->shape.dims[1] < 0 || h->shape.dims[1] == 2 || h->shape.dims[1] == 3) {
        char text[SL_TYPE_TEXT];
        return sl_fail(err, SL_INVALID,
                       "%s: harmonics is %s, must be f32[%lld,K,3], K 0, 1 or 4 and more", a->label,
                       sl_type_format(h, text, sizeof text), (long long)a->in[0].shape.dims[0]);
    }
    if (radius > 0 && isfinite(radius)) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s: radius is %g, must be above 0", a->label, (double)radius);
}

static sl_type image_type(uint32_t width, uint32_t height) {
    return sl_type_make(SL_DTYPE_f32, 3, (int64_t)height, (int64_t)width, (int64_t)4);
}

sl_status sl_infer_gaussian_splat_render(const sl_infer_args *a, sl_error *err) {
    const sl_gaussian_splat_render_attrs *attrs = a->attrs;
    SL_TRY(check_splats(a, attrs->radius, err));
    SL_TRY(check_view(a, attrs->width, attrs->height, err));
    SL_TRY(check_share(a, "cutoff", attrs->cutoff, err));
    SL_TRY(check_share(a, "enough", attrs->enough, err));
    a->out[0] = image_type(attrs->width, attrs->height);
    return SL_OK;
}

sl_status sl_infer_gaussian_splat_prepare(const sl_infer_args *a, sl_error *err) {
    const sl_gaussian_splat_prepare_attrs *attrs = a->attrs;
    SL_TRY(check_splats(a, attrs->radius, err));
    SL_TRY(check_view(a, attrs->width, attrs->height, err));
    SL_TRY(check_share(a, "cutoff", attrs->cutoff, err));
    const int64_t count = a->in[0].shape.dims[0];
    a->out[0] = sl_type_make(SL_DTYPE_f64, 2, count, (int64_t)SL_SPLAT_NUMBERS);
    a->out[1] = sl_type_make(SL_DTYPE_i32, 1, count);
    a->out[2] = sl_type_make(SL_DTYPE_i32, 2, count, (int64_t)4);
    return SL_OK;
}

sl_status sl_infer_gaussian_splat_rasterize(const sl_infer_args *a, sl_error *err) {
    const sl_gaussian_splat_rasterize_attrs *attrs = a->attrs;
    SL_TRY(sl_match(a, "splats f64[N,16], order i32[N], boxes i32[N,4], camera f32[15]", err));
    SL_TRY(check_view(a, attrs->width, attrs->height, err));
    SL_TRY(check_share(a, "cutoff", attrs->cutoff, err));
    SL_TRY(check_share(a, "enough", attrs->enough, err));
    a->out[0] = image_type(attrs->width, attrs->height);
    return SL_OK;
}

sl_status sl_infer_gaussian_splat_backward(const sl_infer_args *a, sl_error *err) {
    const sl_gaussian_splat_backward_attrs *attrs = a->attrs;
    SL_TRY(check_splats(a, attrs->radius, err));
    SL_TRY(check_view(a, attrs->width, attrs->height, err));
    SL_TRY(check_share(a, "cutoff", attrs->cutoff, err));
    SL_TRY(check_share(a, "enough", attrs->enough, err));
    const sl_type wanted = image_type(attrs->width, attrs->height);
    if (!sl_type_equal(&a->in[GRAD], &wanted)) {
        char found[SL_TYPE_TEXT], right[SL_TYPE_TEXT];
        return sl_fail(err, SL_INVALID, "%s: grad is %s, must be %s", a->label,
                       sl_type_format(&a->in[GRAD], found, sizeof found),
                       sl_type_format(&wanted, right, sizeof right));
    }
    for (int i = 0; i <= HARMONICS; i++) a->out[i] = a->in[i];
    return SL_OK;
}

/* ---- rendering ---- */

/* The operands as floats, which is what core/splat.h takes. */
typedef struct {
    float *in[INPUTS];
    int64_t count, harmonics;
} scene;

static sl_status scene_of(const sl_eval_args *a, scene *out, sl_error *err) {
    *out =
        (scene){.count = sl_eval_dim(a, POSITIONS, 0), .harmonics = sl_eval_dim(a, HARMONICS, 1)};
    const double *in[INPUTS];
    SL_TRY(sl_eval_inputs(a, a->in_count, in, err));
    for (uint32_t i = 0; i < a->in_count; i++) {
        const int64_t elements = sl_type_elements(&a->in[i].type);
        out->in[i] = SL_ARENA_NEW_ARRAY(a->scratch, float, elements + 1);
        if (!out->in[i]) return sl_no_memory(err, a->label, (uint64_t)elements * sizeof(float));
        for (int64_t e = 0; e < elements; e++) out->in[i][e] = (float)in[i][e];
    }
    return SL_OK;
}

static sl_splat_source source_of(const scene *s, int64_t i) {
    return (sl_splat_source){.position = s->in[POSITIONS] + 3 * i,
                             .scale = s->in[SCALES] + 3 * i,
                             .rotation = s->in[ROTATIONS] + 4 * i,
                             .opacity = s->in[OPACITIES] + i,
                             .color = s->in[COLORS] + 3 * i,
                             .harmonics = s->in[HARMONICS] + 3 * s->harmonics * i,
                             .harmonic_count = s->harmonics};
}

typedef struct {
    double distance;
    int32_t index;
} place;

static int by_distance(const void *a, const void *b) {
    const place *x = a, *y = b;
    if (x->distance != y->distance) return x->distance < y->distance ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

/* The splats, and their indices in order of distance; *seen of them are visible. */
typedef struct {
    sl_splat_camera camera;
    sl_splat *splats;
    place *places;
    int64_t seen;
} prepared;

static sl_status prepare(const sl_eval_args *a, const scene *s, sl_splat_camera camera,
                         double radius, prepared *out, sl_error *err) {
    *out = (prepared){.camera = camera,
                      .splats = SL_ARENA_NEW_ARRAY(a->scratch, sl_splat, s->count + 1),
                      .places = SL_ARENA_NEW_ARRAY(a->scratch, place, s->count + 1)};
    if (!out->splats || !out->places) return sl_no_memory(err, a->label, (uint64_t)s->count);
    for (int64_t i = 0; i < s->count; i++) {
        const sl_splat_source source = source_of(s, i);
        out->places[i].index = (int32_t)i;
        out->places[i].distance = sl_splat_make(&source, &camera, radius, &out->splats[i]);
        out->seen += isfinite(out->places[i].distance);
    }
    qsort(out->places, (size_t)s->count, sizeof *out->places, by_distance);
    return SL_OK;
}

sl_status sl_eval_gaussian_splat_prepare(const sl_eval_args *a, sl_error *err) {
    const sl_gaussian_splat_prepare_attrs *attrs = a->attrs;
    scene s;
    prepared p;
    SL_TRY(scene_of(a, &s, err));
    const sl_splat_camera camera = sl_splat_camera_make(s.in[CAMERA], attrs->width, attrs->height);
    SL_TRY(prepare(a, &s, camera, (double)attrs->radius, &p, err));
    memcpy(a->out[0].data, p.splats, (size_t)s.count * sizeof *p.splats);
    for (int64_t i = 0; i < s.count; i++) {
        const sl_splat_source source = source_of(&s, p.places[i].index);
        int32_t box[4] = {0};
        if (i < p.seen)
            sl_splat_box(&source, &camera, (double)attrs->radius, (double)attrs->cutoff, box);
        a->out[1].data[i] = p.places[i].index;
        for (int b = 0; b < 4; b++) a->out[2].data[4 * p.places[i].index + b] = box[b];
    }
    return SL_OK;
}

/* The accumulated colour and transmittance of a pixel. */
typedef struct {
    double color[3], through;
} gathered;

static void finish_pixel(const gathered *g, const sl_splat_camera *c, double *out) {
    for (int i = 0; i < 3; i++) out[i] = g->color[i] + g->through * c->background[i];
    out[3] = 1 - g->through;
}

static void gather(const sl_splat *splat, double alpha, gathered *g) {
    for (int i = 0; i < 3; i++) g->color[i] += g->through * alpha * splat->color[i];
    g->through *= 1 - alpha;
}

sl_status sl_eval_gaussian_splat_render(const sl_eval_args *a, sl_error *err) {
    const sl_gaussian_splat_render_attrs *attrs = a->attrs;
    scene s;
    prepared p;
    SL_TRY(scene_of(a, &s, err));
    SL_TRY(prepare(a, &s, sl_splat_camera_make(s.in[CAMERA], attrs->width, attrs->height),
                   (double)attrs->radius, &p, err));
    for (int64_t pixel = 0; pixel < (int64_t)attrs->width * attrs->height; pixel++) {
        gathered g = {.through = 1};
        double ray[3];
        sl_splat_ray(&p.camera, pixel % attrs->width, pixel / attrs->width, ray);
        for (int64_t i = 0; i < p.seen && g.through >= (double)attrs->enough; i++) {
            const sl_splat *splat = &p.splats[p.places[i].index];
            const double alpha = sl_splat_look(splat, ray).alpha;
            if (alpha >= (double)attrs->cutoff) gather(splat, alpha, &g);
        }
        finish_pixel(&g, &p.camera, a->out[0].data + 4 * pixel);
    }
    return SL_OK;
}

sl_status sl_eval_gaussian_splat_rasterize(const sl_eval_args *a, sl_error *err) {
    const sl_gaussian_splat_rasterize_attrs *attrs = a->attrs;
    const double *in[4];
    SL_TRY(sl_eval_inputs(a, 4, in, err));
    const int64_t count = sl_eval_dim(a, 0, 0);
    SL_TRY(sl_eval_bounds(a, "order", in[1], count, count, err));
    float numbers[SL_SPLAT_CAMERA];
    for (int i = 0; i < SL_SPLAT_CAMERA; i++) numbers[i] = (float)in[3][i];
    const sl_splat_camera camera = sl_splat_camera_make(numbers, attrs->width, attrs->height);
    for (int64_t pixel = 0; pixel < camera.width * camera.height; pixel++) {
        const double x = (double)(pixel % camera.width), y = (double)(pixel / camera.width);
        gathered g = {.through = 1};
        double ray[3];
        sl_splat_ray(&camera, pixel % camera.width, pixel / camera.width, ray);
        for (int64_t i = 0; i < count && g.through >= (double)attrs->enough; i++) {
            const int64_t at = (int64_t)in[1][i];
            const double *box = in[2] + 4 * at;
            sl_splat splat;
            if (!(x >= box[0] && x < box[1] && y >= box[2] && y < box[3])) continue;
            memcpy(&splat, in[0] + SL_SPLAT_NUMBERS * at, sizeof splat);
            const double alpha = sl_splat_look(&splat, ray).alpha;
            if (alpha >= (double)attrs->cutoff) gather(&splat, alpha, &g);
        }
        finish_pixel(&g, &camera, a->out[0].data + 4 * pixel);
    }
    return SL_OK;
}

/* ---- gradient ---- */

/* One splat that contributes to a pixel. */
typedef struct {
    int32_t index;
    double through; /* transmittance before this splat */
    sl_splat_hit hit;
} seen_splat;

/* From the last splat to the first, accumulating the gradient of the light behind each one. */
static void add_pixel(const prepared *p, const seen_splat *seen, int64_t count, const double ray[3],
                      const float grad[4], sl_splat *sums) {
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
    double behind = -(double)grad[3];
    for (int c = 0; c < 3; c++) behind += (double)grad[c] * p->camera.background[c];
    for (int64_t i = count; i-- > 0;) {
        const sl_splat *splat = &p->splats[seen[i].index];
        sl_splat *sum = &sums[seen[i].index];
        const double alpha = seen[i].hit.alpha, through = seen[i].through;
        double light = 0;
        for (int c = 0; c < 3; c++) {
            light += (double)grad[c] * splat->color[c];
            sum->color[c] += through * alpha * (double)grad[c];
        }
        sl_splat_add(splat, &seen[i].hit, ray, through * (light - behind), sum);
        behind = (1 - alpha) * behind + alpha * light;
    }
}

static void put_gradient(const scene *s, int64_t i, const sl_splat_gradient *g,
                         const sl_eval_tensor *out) {
    for (int c = 0; c < 3; c++) {
        out[POSITIONS].data[3 * i + c] = g->position[c];
        out[SCALES].data[3 * i + c] = g->scale[c];
        out[COLORS].data[3 * i + c] = g->color[c];
    }
    for (int c = 0; c < 4; c++) out[ROTATIONS].data[4 * i + c] = g->rotation[c];
    out[OPACITIES].data[i] = g->opacity;
    for (int64_t h = 0; h < 3 * s->harmonics; h++)
        out[HARMONICS].data[3 * s->harmonics * i + h] = h < 12 ? g->harmonics[h] : 0;
}

sl_status sl_eval_gaussian_splat_backward(const sl_eval_args *a, sl_error *err) {
    const sl_gaussian_splat_backward_attrs *attrs = a->attrs;
    scene s;
    prepared p;
    SL_TRY(scene_of(a, &s, err));
    SL_TRY(prepare(a, &s, sl_splat_camera_make(s.in[CAMERA], attrs->width, attrs->height),
                   (double)attrs->radius, &p, err));
    sl_splat *sums = SL_ARENA_NEW_ARRAY(a->scratch, sl_splat, s.count + 1);
    seen_splat *seen = SL_ARENA_NEW_ARRAY(a->scratch, seen_splat, s.count + 1);
    if (!sums || !seen) return sl_no_memory(err, a->label, (uint64_t)s.count);
    for (int64_t pixel = 0; pixel < (int64_t)attrs->width * attrs->height; pixel++) {
        double through = 1, ray[3];
        int64_t count = 0;
        sl_splat_ray(&p.camera, pixel % attrs->width, pixel / attrs->width, ray);
        for (int64_t i = 0; i < p.seen && through >= (double)attrs->enough; i++) {
            const int32_t at = p.places[i].index;
            const sl_splat_hit hit = sl_splat_look(&p.splats[at], ray);
            if (!(hit.alpha >= (double)attrs->cutoff) || hit.alpha == 0) continue;
            seen[count++] = (seen_splat){at, through, hit};
            through *= 1 - hit.alpha;
        }
        add_pixel(&p, seen, count, ray, s.in[GRAD] + 4 * pixel, sums);
    }
    for (int64_t i = 0; i < s.count; i++) {
        const sl_splat_source source = source_of(&s, i);
        sl_splat_gradient gradient;
        sl_splat_chain(&source, &p.camera, (double)attrs->radius, &sums[i], &gradient);
        put_gradient(&s, i, &gradient, a->out);
    }
    return SL_OK;
}
