/* rope_apply_row.h - RoPE of one row; included once per REAL (reals.h). */

/* Rotates the first 2 * pairs elements of x; the rest is copied. */
static void NAMED(turn_row)(const REAL *restrict x, const REAL *restrict cosines,
                            const REAL *restrict sines, const turning *t, REAL *restrict out) {
    const int64_t pairs = t->pairs;
    const REAL sign = t->back ? -1 : 1;
    if (t->interleaved)
        for (int64_t j = 0; j < pairs; j++) {
            const REAL sine = sign * sines[j];
            out[2 * j] = x[2 * j] * cosines[j] - x[2 * j + 1] * sine;
            out[2 * j + 1] = x[2 * j + 1] * cosines[j] + x[2 * j] * sine;
        }
    else
        for (int64_t j = 0; j < pairs; j++) {
            const REAL sine = sign * sines[j];
            out[j] = x[j] * cosines[j] - x[j + pairs] * sine;
            out[j + pairs] = x[j + pairs] * cosines[j] + x[j] * sine;
        }
    memcpy(out + 2 * pairs, x + 2 * pairs, (size_t)(t->width - 2 * pairs) * sizeof *out);
}

/* Rotates row `row` of x with the table row at element `at`; with mrope each pair takes its angle
 * from one of several tables. */
static void NAMED(turn_one)(const turning *t, int64_t row, int64_t at, REAL *scratch) {
    const int64_t pairs = t->pairs, width = t->width;
    REAL *x_room = scratch, *out = x_room + width, *cos_room = out + width,
         *sin_room = cos_room + pairs;
    const REAL *x = NAMED(load)(t->dtype, t->x, row * width, width, x_room);
    const REAL *cosines = cos_room, *sines = sin_room;
    if (!t->sections) {
        cosines = NAMED(load)(t->dtype, t->cos, at, pairs, cos_room);
        sines = NAMED(load)(t->dtype, t->sin, at, pairs, sin_room);
    }
    for (int64_t j = 0; j < pairs && t->sections; j++) {
        const int64_t kind = sl_mrope_kind(t->sections, t->striped, t->kinds, j);
        cos_room[j] = NAMED(element)(t->dtype, t->cos, kind * t->plane + at + j);
        sin_room[j] = NAMED(element)(t->dtype, t->sin, kind * t->plane + at + j);
    }
    NAMED(turn_row)(x, cosines, sines, t, out);
    NAMED(store)(t->dtype, t->out, row * width, width, out);
}
