/* splat.h - Projection of a Gaussian splat onto a pixel.
 *
 * A splat is an ellipsoid with standard deviations s = radius * e^scale along axes rotated by a
 * unit quaternion q (wxyz): M = diag(1/s) R(q)^T maps the world into its unit space, where the eye
 * is at u = M (eye - position) and a ray at direction d = M ray.  The ray passes the centre at
 * distance m, m^2 = |u + t d|^2 with t = -(u.d)/(d.d) > 0, and alpha = opacity * e^(-m^2/2).
 *
 * Its colour is given, or 0.5 + C0 h0 + C1 (-y h1 + z h2 - x h3) where it has harmonics, with
 * (x, y, z) the direction from the splat to the eye.  Splats are blended in the order of their
 * distance from the eye; those nearer than `near` or farther than `far` along the view are
 * skipped.
 *
 * Everything is in double precision: for a distant eye, u is large and m suffers from cancellation.
 */
#ifndef SL_CORE_SPLAT_H
#define SL_CORE_SPLAT_H
#include "core/everywhere.h"
#include <assert.h>
#include <stdint.h>

/* core/splat.c is compiled once for the CPU; the CUDA kernels, which are C++, include it. */
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
/* The ray through the centre of a pixel; not of unit length. */
SL_SPLAT void sl_splat_ray(const sl_splat_camera *camera, int64_t x, int64_t y, double ray[3]);

/* A prepared splat: SL_SPLAT_NUMBERS doubles. */
typedef struct {
    double u[3], m[9], color[3], opacity;
} sl_splat;
static_assert(sizeof(sl_splat) == SL_SPLAT_NUMBERS * sizeof(double), "splats are rows of doubles");

/* The parameters of one splat. */
typedef struct {
    const float *position, *scale, *rotation, *opacity, *color, *harmonics;
    int64_t harmonic_count;
} sl_splat_source;
/* Returns the distance from the eye; infinity if it is outside of the depth range. */
SL_SPLAT double sl_splat_make(const sl_splat_source *source, const sl_splat_camera *camera,
                              double radius, sl_splat *out);
/* The pixels whose alpha may reach cutoff: columns [box[0], box[1]), rows [box[2], box[3]). */
SL_SPLAT void sl_splat_box(const sl_splat_source *source, const sl_splat_camera *camera,
                           double radius, double cutoff, int32_t box[4]);

/* The intersection of a ray and a splat; t and v = u + t d are for the gradient. */
typedef struct {
    double alpha, t, d[3], v[3];
} sl_splat_hit;
SL_SPLAT sl_splat_hit sl_splat_look(const sl_splat *splat, const double ray[3]);

/* Gradients with respect to the result of sl_splat_make, to be summed over pixels; then the chain
 * rule to the parameters of the splat. */
SL_SPLAT void sl_splat_add(const sl_splat *splat, const sl_splat_hit *hit, const double ray[3],
                           double d_alpha, sl_splat *sums);
typedef struct {
    double position[3], scale[3], rotation[4], opacity, color[3], harmonics[12];
} sl_splat_gradient;
SL_SPLAT void sl_splat_chain(const sl_splat_source *source, const sl_splat_camera *camera,
                             double radius, const sl_splat *sums, sl_splat_gradient *out);
#endif
