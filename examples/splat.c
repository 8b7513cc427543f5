/* splat.c - Renders a knot of Gaussian splats to a picture: splat [FILE.png]. */
#include "examples/picture.h"
#include "sluice/graph.h"
#include <math.h>
#include <stdlib.h>

enum { COUNT = 1200, WIDTH = 480, HEIGHT = 360 };
static const char *const names[] = {"positions", "scales", "rotations", "opacities", "colors"};
static const int numbers[] = {3, 3, 4, 1, 3};

typedef struct {
    float positions[COUNT][3], scales[COUNT][3], rotations[COUNT][4], opacities[COUNT];
    float colors[COUNT][3];
} scene;

/* Flat splats along a trefoil knot, each rotated a little further. */
static void tie_knot(scene *s) {
    for (int i = 0; i < COUNT; i++) {
        const double t = 2 * M_PI * i / COUNT, r = 1 + 0.45 * cos(3 * t);
        const double place[3] = {r * cos(2 * t), r * sin(2 * t), 0.6 * sin(3 * t)};
        const double scale[3] = {0.09, 0.035, 0.012};
        for (int k = 0; k < 3; k++) {
            s->positions[i][k] = (float)place[k];
            s->scales[i][k] = (float)log(scale[k]);
            s->colors[i][k] = (float)(0.5 + 0.45 * cos(t + 2 * M_PI * k / 3));
        }
        s->rotations[i][0] = (float)cos(20 * t);
        for (int k = 1; k < 4; k++) s->rotations[i][k] = (float)(sin(20 * t) / sqrt(3));
        s->opacities[i] = 0.8f;
    }
}

static sl_graph *build(sl_error *err) {
    sl_graph *g = NULL;
    sl_value in[7];
    if (sl_graph_create("splat", NULL, &g, err) != SL_OK) return NULL;
    for (int i = 0; i < 5; i++)
        in[i] =
            sl_graph_add_input(g, names[i], "f32", i == 3 ? 1 : 2, (int64_t[]){COUNT, numbers[i]});
    in[5] = sl_graph_add_input(g, "harmonics", "f32", 3, (int64_t[]){COUNT, 0, 3});
    in[6] = sl_graph_add_input(g, "camera", "f32", 1, (int64_t[]){15});
    sl_graph_add_output(
        g, "image",
        sl_graph_apply(g, "gaussian_splat_render", in, 7,
                       "width=480, height=360, radius=1, cutoff=0.004, enough=0.001"));
    return g;
}

static sl_status render(const sl_graph *g, const scene *s, sl_compiled **c, sl_error *err) {
    /* eye, target, up (rows of the picture go down), field of view, near, far, background */
    const float camera[15] = {0, 1.6f, -4.2f, 0,   0,     0,     0,    -1,
                              0, 42,   0.1f,  100, 0.02f, 0.02f, 0.05f};
    const void *data[] = {s->positions, s->scales, s->rotations, s->opacities, s->colors};
    sl_status status = sl_compile(g, NULL, c, err);
    for (int i = 0; i < 5 && status == SL_OK; i++)
        status =
            sl_compiled_set(*c, names[i], data[i], (size_t)numbers[i] * COUNT * sizeof(float), err);
    if (status == SL_OK) status = sl_compiled_set(*c, "harmonics", data[0], 0, err);
    if (status == SL_OK) status = sl_compiled_set(*c, "camera", camera, sizeof camera, err);
    return status == SL_OK ? sl_compiled_run(*c, err) : status;
}

/* Converts linear light to sRGB-like bytes. */
static int save(const char *path, const float *rgba) {
    uint8_t *bytes = malloc((size_t)3 * WIDTH * HEIGHT);
    if (!bytes) return 1;
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        for (int k = 0; k < 3; k++) {
            const float light = fminf(fmaxf(rgba[4 * i + k], 0), 1);
            bytes[3 * i + k] = (uint8_t)lrintf(255 * powf(light, 1 / 2.2f));
        }
    const int failed = write_picture(path, WIDTH, HEIGHT, bytes);
    free(bytes);
    return failed;
}

int main(int count, char **words) {
    static scene s;
    sl_error err = {0};
    sl_compiled *c = NULL;
    sl_graph *g = build(&err);
    tie_knot(&s);
    int failed = !g || render(g, &s, &c, &err) != SL_OK;
    if (failed) (void)fprintf(stderr, "%s\n", err.message);
    if (!failed)
        failed = save(count > 1 ? words[1] : "splat.png", sl_compiled_get(c, "image", NULL));
    sl_compiled_destroy(c);
    sl_graph_destroy(g);
    return failed;
}
