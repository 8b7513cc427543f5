/* splat.c - Gaussian splatting, one image tile at a time (core/splat.h). */
#include "core/splat.h"
#include "core/ops.h"
#include "runtime/cpu/kernels/kernels.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TILE = 16 };

/* ---- preparation ---- */

typedef struct {
    const sl_cview *positions, *scales, *rotations, *opacities, *colors, *harmonics;
} scene;

static sl_splat_source source_of(const scene *s, int64_t i) {
    const int64_t harmonics = dim(&s->harmonics->type, 1);
    return (sl_splat_source){.position = (const float *)s->positions->data + 3 * i,
                             .scale = (const float *)s->scales->data + 3 * i,
                             .rotation = (const float *)s->rotations->data + 4 * i,
                             .opacity = (const float *)s->opacities->data + i,
                             .color = (const float *)s->colors->data + 3 * i,
                             .harmonics = (const float *)s->harmonics->data + 3 * harmonics * i,
                             .harmonic_count = harmonics};
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

/* Outputs of the preparation. */
typedef struct {
    sl_splat *splats;
    int32_t *order, *boxes;
} prepared;

static void prepare(const scene *s, const sl_splat_camera *camera, double radius, double cutoff,
                    place *places, prepared out) {
    const int64_t count = dim(&s->positions->type, 0);
    for (int64_t i = 0; i < count; i++) {
        const sl_splat_source source = source_of(s, i);
        places[i].index = (int32_t)i;
        places[i].distance = sl_splat_make(&source, camera, radius, &out.splats[i]);
        memset(out.boxes + 4 * i, 0, 4 * sizeof *out.boxes);
        if (isfinite(places[i].distance))
            sl_splat_box(&source, camera, radius, cutoff, out.boxes + 4 * i);
    }
    qsort(places, (size_t)count, sizeof *places, by_distance);
    for (int64_t i = 0; i < count; i++) out.order[i] = places[i].index;
}

/* One item: it is short, and everything after it depends on all of it. */
SPLIT(gaussian_splat_prepare) {
    const sl_gaussian_splat_prepare_args *a = args;
    return (sl_split){1, 1, (size_t)dim(&a->positions.type, 0) * sizeof(place)};
}
RUN(gaussian_splat_prepare) {
    const sl_gaussian_splat_prepare_args *a = args;
    const scene s = {&a->positions, &a->scales, &a->rotations,
                     &a->opacities, &a->colors, &a->harmonics};
    const sl_splat_camera camera =
        sl_splat_camera_make(a->camera.data, a->attrs.width, a->attrs.height);
    (void)begin, (void)end;
    prepare(&s, &camera, (double)a->attrs.radius, (double)a->attrs.cutoff, worker->scratch,
            (prepared){a->splats.data, a->order.data, a->boxes.data});
    return SL_OK;
}

/* ---- tiles ---- */

typedef struct {
    int32_t left, right, top, bottom; /* pixels [left, right) x [top, bottom) */
} tile;

static int64_t tile_columns(const sl_splat_camera *c) {
    return parts_of(c->width, TILE);
}

static tile tile_at(const sl_splat_camera *c, int64_t index) {
    const int64_t x = index % tile_columns(c) * TILE, y = index / tile_columns(c) * TILE;
    return (tile){(int32_t)x, (int32_t)least(x + TILE, c->width), (int32_t)y,
                  (int32_t)least(y + TILE, c->height)};
}

/* Lists the splats whose boxes overlap a tile, front to back; returns how many. */
static int64_t list_splats(const tile *t, const int32_t *order, const int32_t *boxes, int64_t count,
                           int32_t *out) {
    int64_t listed = 0;
    for (int64_t i = 0; i < count; i++) {
        const int32_t *box = boxes + 4 * (int64_t)order[i];
        if (box[0] < t->right && box[1] > t->left && box[2] < t->bottom && box[3] > t->top)
            out[listed++] = order[i];
    }
    return listed;
}

static bool sees(const int32_t *box, int32_t x, int32_t y) {
    return x >= box[0] && x < box[1] && y >= box[2] && y < box[3];
}

/* ---- rasterize: an item is a tile ---- */

typedef struct {
    const sl_splat *splats;
    const int32_t *boxes, *list;
    int64_t listed;
    double cutoff, enough;
} view;

static void draw_pixel(const sl_splat_camera *c, const view *v, int32_t x, int32_t y, float *out) {
    double ray[3], color[3] = {0}, through = 1;
    sl_splat_ray(c, x, y, ray);
    for (int64_t i = 0; i < v->listed && through >= v->enough; i++) {
        const sl_splat *splat = &v->splats[v->list[i]];
        if (!sees(v->boxes + 4 * (int64_t)v->list[i], x, y)) continue;
        const double alpha = sl_splat_look(splat, ray).alpha;
        if (!(alpha >= v->cutoff)) continue;
        for (int k = 0; k < 3; k++) color[k] += through * alpha * splat->color[k];
        through *= 1 - alpha;
    }
    for (int k = 0; k < 3; k++) out[k] = (float)(color[k] + through * c->background[k]);
    out[3] = (float)(1 - through);
}

SPLIT(gaussian_splat_rasterize) {
    const sl_gaussian_splat_rasterize_args *a = args;
    const int64_t across = parts_of(a->attrs.width, TILE), down = parts_of(a->attrs.height, TILE);
    return (sl_split){across * down, 1, (size_t)dim(&a->order.type, 0) * sizeof(int32_t)};
}
RUN(gaussian_splat_rasterize) {
    const sl_gaussian_splat_rasterize_args *a = args;
    const int64_t count = dim(&a->order.type, 0);
    const int32_t *order = a->order.data;
    const sl_splat_camera camera =
        sl_splat_camera_make(a->camera.data, a->attrs.width, a->attrs.height);
    view v = {.splats = a->splats.data,
              .boxes = a->boxes.data,
              .list = worker->scratch,
              .cutoff = (double)a->attrs.cutoff,
              .enough = (double)a->attrs.enough};
    for (int64_t i = 0; i < count; i++)
        SL_TRY(check_index(order[i], count, "gaussian_splat_rasterize: order", i, worker->err));
    for (int64_t item = begin; item < end; item++) {
        const tile t = tile_at(&camera, item);
        v.listed = list_splats(&t, order, v.boxes, count, worker->scratch);
        for (int32_t y = t.top; y < t.bottom; y++)
            for (int32_t x = t.left; x < t.right; x++)
                draw_pixel(&camera, &v, x, y, (float *)a->out.data + 4 * (y * camera.width + x));
    }
    return SL_OK;
}

/* ---- backward ---- */

typedef struct {
    int32_t index;
    double through; /* transmittance before this splat */
    sl_splat_hit hit;
} seen_splat;

/* Scratch of the backward pass, for count splats. */
typedef struct {
    prepared p;
    sl_splat *sums;
    place *places;
    seen_splat *seen;
    int32_t *list;
} backward;

static size_t backward_bytes(int64_t count) {
    return (size_t)count *
           (2 * sizeof(sl_splat) + sizeof(place) + sizeof(seen_splat) + 6 * sizeof(int32_t));
}

static backward backward_at(void *scratch, int64_t count) {
    const size_t n = (size_t)count;
    char *at = scratch;
    backward b = {0};
    b.p.splats = (sl_splat *)(void *)at;
    b.sums = b.p.splats + n;
    b.places = (place *)(void *)(b.sums + n);
    b.seen = (seen_splat *)(void *)(b.places + n);
    b.p.order = (int32_t *)(void *)(b.seen + n);
    b.p.boxes = b.p.order + n;
    b.list = b.p.boxes + 4 * n;
    return b;
}

static void add_pixel(const sl_splat_camera *c, const view *v, int32_t x, int32_t y,
                      const float *grad, const backward *b) {
    double ray[3], through = 1, behind = -(double)grad[3];
    int64_t count = 0;
    sl_splat_ray(c, x, y, ray);
    for (int64_t i = 0; i < v->listed && through >= v->enough; i++) {
        if (!sees(v->boxes + 4 * (int64_t)v->list[i], x, y)) continue;
        const sl_splat_hit hit = sl_splat_look(&v->splats[v->list[i]], ray);
        if (!(hit.alpha >= v->cutoff) || hit.alpha == 0) continue;
        b->seen[count++] = (seen_splat){v->list[i], through, hit};
        through *= 1 - hit.alpha;
    }
    for (int k = 0; k < 3; k++) behind += (double)grad[k] * c->background[k];
    for (int64_t i = count; i-- > 0;) {
        const seen_splat *s = &b->seen[i];
        const sl_splat *splat = &v->splats[s->index];
        double light = 0;
        for (int k = 0; k < 3; k++) {
            light += (double)grad[k] * splat->color[k];
            b->sums[s->index].color[k] += s->through * s->hit.alpha * (double)grad[k];
        }
        sl_splat_add(splat, &s->hit, ray, s->through * (light - behind), &b->sums[s->index]);
        behind = (1 - s->hit.alpha) * behind + s->hit.alpha * light;
    }
}

static void put_gradient(const sl_gaussian_splat_backward_args *a, int64_t i,
                         const sl_splat_gradient *g) {
    const int64_t harmonics = 3 * dim(&a->harmonics.type, 1);
    float *of_harmonics = (float *)a->d_harmonics.data + harmonics * i;
    for (int k = 0; k < 3; k++) {
        ((float *)a->d_positions.data)[3 * i + k] = (float)g->position[k];
        ((float *)a->d_scales.data)[3 * i + k] = (float)g->scale[k];
        ((float *)a->d_colors.data)[3 * i + k] = (float)g->color[k];
    }
    for (int k = 0; k < 4; k++) ((float *)a->d_rotations.data)[4 * i + k] = (float)g->rotation[k];
    ((float *)a->d_opacities.data)[i] = (float)g->opacity;
    for (int64_t h = 0; h < harmonics; h++) of_harmonics[h] = h < 12 ? (float)g->harmonics[h] : 0;
}

/* One item: pixels add to the sums of their splats in a fixed order. */
SPLIT(gaussian_splat_backward) {
    const sl_gaussian_splat_backward_args *a = args;
    return (sl_split){1, 1, backward_bytes(dim(&a->positions.type, 0))};
}
RUN(gaussian_splat_backward) {
    const sl_gaussian_splat_backward_args *a = args;
    const int64_t count = dim(&a->positions.type, 0);
    const double radius = (double)a->attrs.radius, cutoff = (double)a->attrs.cutoff;
    const scene s = {&a->positions, &a->scales, &a->rotations,
                     &a->opacities, &a->colors, &a->harmonics};
    const sl_splat_camera camera =
        sl_splat_camera_make(a->camera.data, a->attrs.width, a->attrs.height);
    const backward b = backward_at(worker->scratch, count);
    (void)begin, (void)end;
    prepare(&s, &camera, radius, cutoff, b.places, b.p);
    memset(b.sums, 0, (size_t)count * sizeof *b.sums);
    view v = {b.p.splats, b.p.boxes, b.list, 0, cutoff, (double)a->attrs.enough};
    for (int64_t i = 0; i < tile_columns(&camera) * parts_of(camera.height, TILE); i++) {
        const tile t = tile_at(&camera, i);
        v.listed = list_splats(&t, b.p.order, b.p.boxes, count, b.list);
        for (int32_t y = t.top; y < t.bottom; y++)
            for (int32_t x = t.left; x < t.right; x++)
                add_pixel(&camera, &v, x, y,
                          (const float *)a->grad.data + 4 * (y * camera.width + x), &b);
    }
    for (int64_t i = 0; i < count; i++) {
        const sl_splat_source source = source_of(&s, i);
        sl_splat_gradient gradient;
        sl_splat_chain(&source, &camera, radius, &b.sums[i], &gradient);
        put_gradient(a, i, &gradient);
    }
    return SL_OK;
}
