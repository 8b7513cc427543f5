/* splat.h - How a Gaussian splat looks through a pixel.
 *
 * A splat is an ellipsoid of deviations s = radius * e^scale along axes turned by a unit quaternion
 * q (wxyz): M = diag(1/s) R(q)^T takes the world into its unit space, where the eye is at
 * u = M (eye - position) and a ray at direction d = M ray.  The ray passes the centre at distance
 * m, m^2 = |u + t d|^2 with t = -(u.d)/(d.d) > 0, and sees alpha = opacity * e^(-m^2/2).
 *
 * Its colour is its own, or 0.5 + C0 h0 + C1 (-y h1 + z h2 - x h3) where it has harmonics, with
 * (x, y, z) the direction from the splat to the eye.  Splats are seen in the order of their
 * distance from the eye; those nearer than `near` or farther than `far` along the view are not
 * seen.
 *
 * Everything is double precision: seen from far away, u is large and m is what is left of it. */
#ifndef SL_CORE_SPLAT_H
#define SL_CORE_SPLAT_H
#include "core/everywhere.h"
#include <assert.h>
#include <stdint.h>

/* core/splat.c is compiled once for the CPU; kernels of CUDA, which are C++, include it. */
#ifdef __cplusplus
#define SL_SPLAT SL_EVERYWHERE
#else
#define SL_SPLAT
#endif

enum { SL_SPLAT_NUMBERS = 16, SL_SPLAT_CAMERA = 15 };

typedef struct {
    double eye[3], right[3], up[3], forward[3], focal, near, far, background[3];
    int64_t width, height;
} sl_splat_camera;
SL_SPLAT sl_splat_camera sl_splat_camera_make(const float *numbers, int64_t width, int64_t height);
/* Through the middle of a pixel; not of unit length. */
SL_SPLAT void sl_splat_ray(const sl_splat_camera *camera, int64_t x, int64_t y, double ray[3]);

/* As prepared: SL_SPLAT_NUMBERS doubles. */
typedef struct {
    double u[3], m[9], color[3], opacity;
} sl_splat;
static_assert(sizeof(sl_splat) == SL_SPLAT_NUMBERS * sizeof(double), "splats are rows of doubles");

/* The parameters of one splat. */
typedef struct {
    const float *position, *scale, *rotation, *opacity, *color, *harmonics;
    int64_t harmonic_count;
} sl_splat_source;
/* Returns the distance from the eye; infinite where it is out of the range of depths. */
SL_SPLAT double sl_splat_make(const sl_splat_source *source, const sl_splat_camera *camera,
                              double radius, sl_splat *out);
/* The pixels that may see alpha >= cutoff: columns [box[0], box[1]), rows [box[2], box[3]). */
SL_SPLAT void sl_splat_box(const sl_splat_source *source, const sl_splat_camera *camera,
                           double radius, double cutoff, int32_t box[4]);

/* What a ray sees; t and v = u + t d are for the gradient. */
typedef struct {
    double alpha, t, d[3], v[3];
} sl_splat_hit;
SL_SPLAT sl_splat_hit sl_splat_look(const sl_splat *splat, const double ray[3]);

/* Gradients by what sl_splat_make gives, to be summed over pixels, and what becomes of them. */
SL_SPLAT void sl_splat_add(const sl_splat *splat, const sl_splat_hit *hit, const double ray[3],
                           double d_alpha, sl_splat *sums);
typedef struct {
    double position[3], scale[3], rotation[4], opacity, color[3], harmonics[12];
} sl_splat_gradient;
SL_SPLAT void sl_splat_chain(const sl_splat_source *source, const sl_splat_camera *camera,
                             double radius, const sl_splat *sums, sl_splat_gradient *out);
#endif
