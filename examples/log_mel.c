/* log_mel.c - The log-mel spectrogram of a chirp and its overtone: log_mel [FILE.png]. */
#include "examples/picture.h"
#include "sluice/graph.h"
#include <math.h>
#include <stdlib.h>

enum { RATE = 16000, LENGTH = 400, HOP = 160, FRAMES = 300, MELS = 80, BINS = LENGTH / 2 + 1 };
enum { ACROSS = 2, DOWN = 3 }; /* pixels per value */

static double mel_of(double hertz) {
    return 2595 * log10(1 + hertz / 700);
}

/* Triangular filters, evenly spaced on the mel scale. */
static void make_filters(float filters[MELS][BINS]) {
    const double top = mel_of(RATE / 2.0);
    for (int m = 0; m < MELS; m++)
        for (int k = 0; k < BINS; k++) {
            const double place = mel_of((double)k * RATE / LENGTH) / top * (MELS + 1) - m;
            filters[m][k] = (float)fmax(0, 1 - fabs(place - 1));
        }
}

/* Frames of the signal with a Hann window, as blocks: real parts, then imaginary parts. */
static void make_frames(float frames[FRAMES][2 * LENGTH]) {
    for (int f = 0; f < FRAMES; f++)
        for (int i = 0; i < LENGTH; i++) {
            const double t = (double)(f * HOP + i) / RATE;
            const double phase = 2 * M_PI * (200 * t + 600 * t * t);
            const double window = 0.5 - 0.5 * cos(2 * M_PI * i / LENGTH);
            frames[f][i] = (float)(window * (sin(phase) + 0.1 * sin(3 * phase)));
        }
}

static sl_graph *build(sl_error *err) {
    sl_graph *g = NULL;
    if (sl_graph_create("log_mel", NULL, &g, err) != SL_OK) return NULL;
    const sl_value x =
        sl_graph_add_input(g, "frames", "f32", 2, (int64_t[]){FRAMES, INT64_C(2) * LENGTH});
    const sl_value in[2] = {sl_graph_apply(g, "fft", &x, 1, NULL),
                            sl_graph_add_weight(g, "filters", "f32", 2, (int64_t[]){MELS, BINS})};
    sl_graph_add_output(g, "mels", sl_graph_apply(g, "log_mel", in, 2, NULL));
    return g;
}

/* Low frequencies at the bottom, loud ones bright. */
static int save(const char *path, const float *mels) {
    const int width = FRAMES * ACROSS, height = MELS * DOWN;
    uint8_t *bytes = malloc((size_t)3 * (size_t)width * (size_t)height);
    float low = mels[0], high = mels[0];
    if (!bytes) return 1;
    for (int i = 0; i < FRAMES * MELS; i++) low = fminf(low, mels[i]), high = fmaxf(high, mels[i]);
    for (size_t i = 0; i < (size_t)(width * height); i++) {
        const int frame = (int)i % width / ACROSS, mel = MELS - 1 - (int)i / width / DOWN;
        const float v = (mels[frame * MELS + mel] - low) / (high - low);
        bytes[3 * i] = (uint8_t)lrintf(255 * fminf(1, 2 * v));
        bytes[3 * i + 1] = (uint8_t)lrintf(255 * v * v);
        bytes[3 * i + 2] = (uint8_t)lrintf(255 * (0.25f + 0.5f * v * (1 - v)));
    }
    const int failed = write_picture(path, (uint32_t)width, (uint32_t)height, bytes);
    free(bytes);
    return failed;
}

int main(int count, char **words) {
    static float frames[FRAMES][2 * LENGTH], filters[MELS][BINS];
    sl_error err = {0};
    sl_compiled *c = NULL;
    sl_graph *g = build(&err);
    sl_status status = g ? sl_compile(g, NULL, &c, &err) : SL_INVALID;
    make_frames(frames);
    make_filters(filters);
    if (status == SL_OK) status = sl_compiled_set(c, "frames", frames, sizeof frames, &err);
    if (status == SL_OK) status = sl_compiled_set(c, "filters", filters, sizeof filters, &err);
    if (status == SL_OK) status = sl_compiled_run(c, &err);
    if (status != SL_OK) (void)fprintf(stderr, "%s\n", err.message);
    const int failed = status != SL_OK ||
                       save(count > 1 ? words[1] : "log_mel.png", sl_compiled_get(c, "mels", NULL));
    sl_compiled_destroy(c);
    sl_graph_destroy(g);
    return failed;
}
