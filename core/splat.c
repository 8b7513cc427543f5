#include "core/splat.h"
#include <math.h>
#include <string.h>

static const double C0 = 0.28209479177387814, C1 = 0.4886025119029199;

SL_EVERYWHERE double dot(const double *a, const double *b) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

SL_EVERYWHERE void cross(const double *a, const double *b, double *out) {
    for (int i = 0; i < 3; i++)
        out[i] = a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3];
}

SL_EVERYWHERE void normalise(double *v) {
    const double length = sqrt(dot(v, v));
    for (int i = 0; i < 3; i++) v[i] /= length;
}

SL_SPLAT sl_splat_camera sl_splat_camera_make(const float *n, int64_t width, int64_t height) {
    sl_splat_camera c;
    double up[3];
    c.width = width, c.height = height;
    c.near = (double)n[10], c.far = (double)n[11];
    for (int i = 0; i < 3; i++) {
        c.eye[i] = (double)n[i];
        c.forward[i] = (double)n[3 + i] - (double)n[i];
        up[i] = (double)n[6 + i];
        c.background[i] = (double)n[12 + i];
    }
    normalise(c.forward);
    cross(up, c.forward, c.right);
    normalise(c.right);
    cross(c.forward, c.right, c.up);
    c.focal = 0.5 * (double)height / tan((double)n[9] * M_PI / 360);
    return c;
}

SL_SPLAT void sl_splat_ray(const sl_splat_camera *c, int64_t x, int64_t y, double ray[3]) {
    const double a = ((double)x + 0.5 - 0.5 * (double)c->width) / c->focal;
    const double b = ((double)y + 0.5 - 0.5 * (double)c->height) / c->focal;
    for (int i = 0; i < 3; i++) ray[i] = a * c->right[i] + b * c->up[i] + c->forward[i];
}

/* ---- a splat ---- */

SL_EVERYWHERE void unit_quaternion(const float *rotation, double q[4], double *length) {
    *length = 0;
    for (int i = 0; i < 4; i++) *length += (double)rotation[i] * (double)rotation[i];
    *length = sqrt(*length);
    for (int i = 0; i < 4; i++) q[i] = (double)rotation[i] / *length;
}

/* Row-major R. */
SL_EVERYWHERE void rotation_of(const double q[4], double r[9]) {
    const double w = q[0], x = q[1], y = q[2], z = q[3];
    const double matrix[9] = {
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z),     2 * (x * z + w * y),
        2 * (x * y + w * z),     1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y),     2 * (y * z + w * x),     1 - 2 * (x * x + y * y)};
    memcpy(r, matrix, sizeof matrix);
}

SL_EVERYWHERE void deviations(const sl_splat_source *s, double radius, double sigma[3]) {
    for (int i = 0; i < 3; i++) sigma[i] = radius * exp((double)s->scale[i]);
}

SL_EVERYWHERE void to_eye(const sl_splat_source *s, const sl_splat_camera *c, double out[3]) {
    for (int i = 0; i < 3; i++) out[i] = c->eye[i] - (double)s->position[i];
}

/* The coefficients of the harmonics for direction `away`; returns how many there are. */
SL_EVERYWHERE int harmonic_weights(const sl_splat_source *s, const double away[3],
                                   double weights[4]) {
    double d[3] = {away[0], away[1], away[2]};
    if (s->harmonic_count == 0) return 0;
    normalise(d);
    weights[0] = C0, weights[1] = -C1 * d[1], weights[2] = C1 * d[2], weights[3] = -C1 * d[0];
    return s->harmonic_count < 4 ? 1 : 4;
}

SL_SPLAT double sl_splat_make(const sl_splat_source *s, const sl_splat_camera *c, double radius,
                              sl_splat *out) {
    double q[4], length, r[9], sigma[3], away[3], weights[4];
    unit_quaternion(s->rotation, q, &length);
    rotation_of(q, r);
    deviations(s, radius, sigma);
    to_eye(s, c, away);
    for (int64_t i = 0; i < 3; i++) {
        for (int64_t j = 0; j < 3; j++) out->m[3 * i + j] = r[3 * j + i] / sigma[i];
        out->u[i] = dot(&out->m[3 * i], away);
    }
    const int harmonics = harmonic_weights(s, away, weights);
    for (int i = 0; i < 3; i++) {
        out->color[i] = harmonics ? 0.5 : (double)s->color[i];
        for (int h = 0; h < harmonics; h++)
            out->color[i] += weights[h] * (double)s->harmonics[3 * h + i];
    }
    out->opacity = (double)*s->opacity;
    const double depth = -dot(away, c->forward);
    return depth >= c->near && depth <= c->far ? sqrt(dot(away, away)) : HUGE_VAL;
}

/* The range of pixels along one axis that a sphere at (side, depth) may cover. */
SL_EVERYWHERE void span(double side, double depth, double radius, double focal, int64_t size,
                        int32_t out[2]) {
    double low = -HUGE_VAL, high = HUGE_VAL;
    if (depth > radius) {
        const double root = radius * sqrt(side * side + depth * depth - radius * radius);
        const double below = depth * depth - radius * radius;
        low = (side * depth - root) / below * focal + 0.5 * (double)size - 1;
        high = (side * depth + root) / below * focal + 0.5 * (double)size + 1;
    }
    out[0] = (int32_t)fmin(fmax(floor(low), 0), (double)size);
    out[1] = (int32_t)fmin(fmax(ceil(high), 0), (double)size);
}

SL_SPLAT void sl_splat_box(const sl_splat_source *s, const sl_splat_camera *c, double radius,
                           double cutoff, int32_t box[4]) {
    double sigma[3], away[3];
    const double opacity = (double)*s->opacity;
    memset(box, 0, 4 * sizeof *box);
    if (!(opacity >= cutoff)) return;
    deviations(s, radius, sigma);
    to_eye(s, c, away);
    const double reach = cutoff > 0 ? sqrt(2 * log(opacity / cutoff)) : HUGE_VAL;
    const double size = reach * fmax(sigma[0], fmax(sigma[1], sigma[2]));
    const double depth = -dot(away, c->forward);
    span(-dot(away, c->right), depth, size, c->focal, c->width, box);
    span(-dot(away, c->up), depth, size, c->focal, c->height, box + 2);
}

SL_SPLAT sl_splat_hit sl_splat_look(const sl_splat *s, const double ray[3]) {
    sl_splat_hit hit;
    memset(&hit, 0, sizeof hit);
    for (int64_t i = 0; i < 3; i++) hit.d[i] = dot(&s->m[3 * i], ray);
    hit.t = -dot(s->u, hit.d) / dot(hit.d, hit.d);
    if (!(hit.t > 0)) return hit;
    for (int i = 0; i < 3; i++) hit.v[i] = s->u[i] + hit.t * hit.d[i];
    hit.alpha = s->opacity * exp(-0.5 * dot(hit.v, hit.v));
    return hit;
}

/* ---- gradients ---- */

/* m^2 is minimal at t, so its derivative with respect to d is 2 t v, with t held constant. */
SL_SPLAT void sl_splat_add(const sl_splat *s, const sl_splat_hit *hit, const double ray[3],
                           double d_alpha, sl_splat *sums) {
    const double d_square = -0.5 * hit->alpha * d_alpha;
    sums->opacity += d_alpha * hit->alpha / s->opacity;
    for (int i = 0; i < 3; i++) {
        const double by_u = 2 * d_square * hit->v[i];
        sums->u[i] += by_u;
        for (int j = 0; j < 3; j++) sums->m[3 * i + j] += by_u * hit->t * ray[j];
    }
}

/* Gradient of the unit quaternion, then of the quaternion itself. */
SL_EVERYWHERE void chain_rotation(const double q[4], double length, const double g[9],
                                  double out[4]) {
    const double w = q[0], x = q[1], y = q[2], z = q[3];
    const double by[4] = {
        2 * (x * (g[7] - g[5]) + y * (g[2] - g[6]) + z * (g[3] - g[1])),
        2 * (-2 * x * (g[4] + g[8]) + y * (g[1] + g[3]) + z * (g[2] + g[6]) + w * (g[7] - g[5])),
        2 * (-2 * y * (g[0] + g[8]) + x * (g[1] + g[3]) + z * (g[5] + g[7]) + w * (g[2] - g[6])),
        2 * (-2 * z * (g[0] + g[4]) + x * (g[2] + g[6]) + y * (g[5] + g[7]) + w * (g[3] - g[1]))};
    const double along = by[0] * w + by[1] * x + by[2] * y + by[3] * z;
    for (int i = 0; i < 4; i++) out[i] = (by[i] - along * q[i]) / length;
}

/* Gradients of the colour: of the harmonics, and of the position through the viewing direction. */
SL_EVERYWHERE void chain_color(const sl_splat_source *s, const double away[3], const sl_splat *sums,
                               sl_splat_gradient *out) {
    static const int axis[4] = {0, 1, 2, 0};
    static const double sign[4] = {0, -1, 1, -1};
    double weights[4], d[3] = {away[0], away[1], away[2]}, by_direction[3] = {0};
    const int harmonics = harmonic_weights(s, away, weights);
    if (!harmonics) memcpy(out->color, sums->color, sizeof out->color);
    for (int h = 0; h < harmonics; h++)
        for (int i = 0; i < 3; i++) {
            out->harmonics[3 * h + i] = weights[h] * sums->color[i];
            by_direction[axis[h]] +=
                C1 * sign[h] * (double)s->harmonics[3 * h + i] * sums->color[i];
        }
    const double distance = sqrt(dot(away, away));
    normalise(d);
    const double along = dot(by_direction, d);
    for (int i = 0; i < 3; i++) out->position[i] -= (by_direction[i] - along * d[i]) / distance;
}

SL_SPLAT void sl_splat_chain(const sl_splat_source *s, const sl_splat_camera *c, double radius,
                             const sl_splat *sums, sl_splat_gradient *out) {
    double q[4], length, r[9], sigma[3], away[3], by_rotation[9], by_m[9];
    memset(out, 0, sizeof *out);
    unit_quaternion(s->rotation, q, &length);
    rotation_of(q, r);
    deviations(s, radius, sigma);
    to_eye(s, c, away);
    out->opacity = sums->opacity;
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            const double m = r[3 * j + i] / sigma[i];
            by_m[3 * i + j] = sums->m[3 * i + j] + sums->u[i] * away[j];
            by_rotation[3 * j + i] = by_m[3 * i + j] / sigma[i];
            out->scale[i] -= by_m[3 * i + j] * m;
            out->position[j] -= sums->u[i] * m;
        }
    }
    chain_rotation(q, length, by_rotation, out->rotation);
    chain_color(s, away, sums, out);
}
