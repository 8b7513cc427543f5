/* splat_test.c - Splats drawn by tiles and by brute force over all pixels and splats; gradients
 * against finite differences. */
#include "tests/support/graph_case.h"

#define SPLATS(N, K)                                                                               \
    "input %p : f32[" #N ",3] input %s : f32[" #N ",3] input %q : f32[" #N                         \
    ",4] input %o : f32[" #N "] input %c : f32[" #N ",3] input %h : f32[" #N "," #K                \
    ",3] input %v : f32[15] "
#define HOW "radius = 1.2, cutoff = 0.004, enough = 0.0001"

enum { POSITIONS, SCALES, ROTATIONS, OPACITIES, COLORS, HARMONICS, CAMERA, GRAD };

/* Splats around the origin, and a camera that looks at it. */
static void arrange(const graph_case *c, float distance) {
    const float camera[15] = {0.3f, 0.4f, -distance, 0,   0, 0,    0.1f, -1,
                              0,    50,   0.05f,     100, 1, 0.5f, 0.25f};
    const int64_t count = c->graph->values[c->inputs[POSITIONS].v].type.shape.dims[0];
    for (int64_t i = 0; i < count; i++) {
        float *opacity = (float *)c->data[OPACITIES] + i;
        *opacity = 0.1f + 0.85f * fabsf(*opacity);
        for (int k = 0; k < 3; k++) ((float *)c->data[SCALES])[3 * i + k] -= 1.5f;
    }
    memcpy(c->data[CAMERA], camera, sizeof camera);
}

static void tiles_make_the_image(void **state) {
    (void)state;
    static const char *const scenes[] = {
        SPLATS(40, 1) "%1 = gaussian_splat_render(%p, %s, %q, %o, %c, %h, %v) "
                      "{width = 37, height = 21, " HOW "} output \"y\" = %1",
        SPLATS(25, 4) "%1 = gaussian_splat_render(%p, %s, %q, %o, %c, %h, %v) "
                      "{width = 16, height = 50, " HOW "} output \"y\" = %1",
        SPLATS(1, 0) "%1 = gaussian_splat_render(%p, %s, %q, %o, %c, %h, %v) "
                     "{width = 5, height = 3, " HOW "} output \"y\" = %1",
    };
    static const float distances[] = {3, 0.2f, 40};
    for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++)
        for (int d = 0; d < 3; d++) {
            graph_case c = graph_open(scenes[i]);
            arrange(&c, distances[d]);
            check_case(&c, 2e-6);
            graph_close(&c);
        }
}

#define BACKWARD(N, K)                                                                             \
    SPLATS(N, K)                                                                                   \
    "input %g : f32[9,12,4] %1 = gaussian_splat_render(%p, %s, %q, %o, %c, %h, %v) "               \
    "{width = 12, height = 9, " HOW "} "                                                           \
    "%2, %3, %4, %5, %6, %7 = gaussian_splat_backward(%p, %s, %q, %o, %c, %h, %v, %g) "            \
    "{width = 12, height = 9, " HOW "} output \"y\" = %1 output \"dp\" = %2 output \"ds\" = %3 "   \
    "output \"dq\" = %4 output \"do\" = %5 output \"dc\" = %6 output \"dh\" = %7"

static double weighed(const graph_case *c) {
    double *image = graph_evaluate(c, 0), sum = 0;
    const float *grad = c->data[GRAD];
    for (int i = 0; i < 9 * 12 * 4; i++) sum += image[i] * (double)grad[i];
    free(image);
    return sum;
}

static void check_slopes(const graph_case *c, uint32_t input) {
    const int64_t count = sl_type_elements(&c->graph->values[c->inputs[input].v].type);
    double *grad = graph_evaluate(c, input + 1), largest = 0;
    float *at = c->data[input];
    for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs(grad[i]));
    for (int64_t i = 0; i < count; i++) {
        const float was = at[i], high = was + 0x1p-16f, low = was - 0x1p-16f;
        at[i] = high;
        double slope = weighed(c);
        at[i] = low;
        slope = (slope - weighed(c)) / ((double)high - (double)low);
        at[i] = was;
        if (!(fabs(slope - grad[i]) <= 1e-5 * largest))
            fail_msg("input %u, element %lld: %g, slope %g", input, (long long)i, grad[i], slope);
    }
    free(grad);
}

/* Few splats and no cutoff: no splat appears or vanishes within a finite difference. */
static void gradients_are_slopes(void **state) {
    (void)state;
    graph_case c = graph_open(BACKWARD(4, 4));
    arrange(&c, 4);
    for (uint32_t input = POSITIONS; input <= HARMONICS; input++)
        if (input != COLORS) check_slopes(&c, input);
    check_case(&c, 2e-6);
    graph_close(&c);
    c = graph_open(BACKWARD(3, 0));
    arrange(&c, 4);
    check_slopes(&c, COLORS);
    check_slopes(&c, POSITIONS);
    check_case(&c, 2e-6);
    graph_close(&c);
}

static void bad_operands_are_refused(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {SPLATS(2, 2) "%1 = gaussian_splat_render(%p, %s, %q, %o, %c, %h, %v) "
                      "{width = 5, height = 3, " HOW "}",
         "harmonics is f32[2,2,3], must be f32[2,K,3], K 0, 1 or 4 and more"},
        {SPLATS(2, 1) "%1 = gaussian_splat_render(%p, %s, %q, %o, %c, %h, %o) "
                      "{width = 5, height = 3, " HOW "}",
         "camera is f32[2], its first dim must be 15"},
        {SPLATS(2, 1) "%1 = gaussian_splat_render(%p, %s, %q, %o, %c, %h, %v) "
                      "{width = 0, height = 3, " HOW "}",
         "width is 0, must be 1 to 16384"},
        {SPLATS(2, 1) "%1 = gaussian_splat_render(%p, %s, %q, %o, %c, %h, %v) "
                      "{width = 5, height = 3, radius = 1, cutoff = 1}",
         "cutoff is 1, must be at least 0 and below 1"},
        {SPLATS(2, 1) "%1 = gaussian_splat_render(%p, %s, %q, %o, %c, %h, %v) "
                      "{width = 5, height = 3, radius = 0}",
         "radius is 0, must be above 0"},
        {SPLATS(2,
                1) "%1, %2, %3, %4, %5, %6 = gaussian_splat_backward(%p, %s, %q, %o, %c, %h, %v, "
                   "%p) {width = 5, height = 3, " HOW "}",
         "grad is f32[2,3], must be f32[3,5,4]"},
    };
    check_refused(cases, sizeof cases / sizeof cases[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_make_the_image),
        cmocka_unit_test(gradients_are_slopes),
        cmocka_unit_test(bad_operands_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
