#include "engine/inspect/draw.h"
#include "engine/inspect/page.h"
#include <string.h>

/* In pixels.  Levels are narrower when there are many, within bounds for the whole plot. */
enum {
    LEFT = 84,
    RIGHT = 28,
    TOP = 86,
    PLOT_HEIGHT = 540,
    GAP = 44, /* holds the numbers of levels */
    LIVE_HEIGHT = 96,
    BOTTOM = 30,
    NARROWEST = 960,
    WIDEST = 2400,
    LEVEL_WIDTH = 12,
    LABEL_HEIGHT = 11
};
static const double LETTER_WIDTH = 5.6; /* of labels inside buffers, on average */

typedef struct {
    sl_page page;
    const sl_program *program;
    const uint64_t *live; /* [level] bytes */
    uint64_t most_live;
    double width; /* of the plot */
} drawing;

/* Fill and edge by how long a buffer lives: the eye finds what holds memory. */
static const struct {
    uint32_t levels; /* at most */
    const char *fill, *edge, *text, *meaning;
} ages[] = {
    {2, "#c6dbef", "#8fb4d3", "#1d3f5c", "lives 1 or 2 levels"},
    {8, "#6baed6", "#4189b5", "#0b2a40", "3 to 8"},
    {32, "#2b7bba", "#1d5f94", "#ffffff", "9 to 32"},
    {UINT32_MAX, "#0b4a86", "#06325c", "#ffffff", "more"},
    {0, "#f4a259", "#c97a30", "#4a2500", "output"},
};
enum { OUTPUT_AGE = 4, AGE_COUNT = 5 };

static int age_of(const sl_buffer *buffer) {
    int age = 0;
    if (buffer->kind == SL_BUFFER_OUTPUT) return OUTPUT_AGE;
    while (buffer->last_level - buffer->first_level >= ages[age].levels) age++;
    return age;
}

static bool is_drawn(const sl_buffer *buffer) {
    return (buffer->kind == SL_BUFFER_OUTPUT || buffer->kind == SL_BUFFER_TEMP) &&
           buffer->bytes > 0;
}

static double x_of(const drawing *d, uint32_t level) {
    return LEFT + d->width * level / d->program->level_count;
}

static double y_of(const drawing *d, uint64_t offset) {
    return TOP + PLOT_HEIGHT * (1 - (double)offset / (double)d->program->arena_bytes);
}

/* The smallest of 1, 2, 5, 10, 20, ... that cuts range into at most parts. */
static uint64_t nice_step(uint64_t range, uint64_t parts) {
    uint64_t step = 1;
    for (int i = 0; range / step > parts; i++) step = i % 3 == 1 ? step / 2 * 5 : step * 2;
    return step;
}

static void draw_title(drawing *d) {
    const sl_program *p = d->program;
    char arena[SL_BYTES_TEXT], live[SL_BYTES_TEXT], unshared[SL_BYTES_TEXT];
    uint32_t count = 0;
    for (uint32_t b = 0; b < p->buffer_count; b++) count += is_drawn(&p->buffers[b]);
    sl_page_print(&d->page, "<text x='%d' y='32' font-size='19' font-weight='600'>", LEFT);
    sl_page_xml(&d->page, p->name, 80);
    sl_page_print(&d->page, ": the arena over %u levels</text>\n", p->level_count);
    sl_page_print(&d->page,
                  "<text x='%d' y='54' fill='#555'>arena %s, most live at once %s, without sharing "
                  "%s; %u buffers</text>\n",
                  LEFT, sl_bytes_text(p->arena_bytes, arena),
                  sl_bytes_text(p->report.live_bytes, live),
                  sl_bytes_text(p->report.unshared_bytes, unshared), count);
}

static void draw_legend(drawing *d) {
    static const int widths[AGE_COUNT] = {146, 72, 78, 68, 70};
    double x = LEFT + d->width;
    for (int i = 0; i < AGE_COUNT; i++) x -= widths[i];
    for (int i = 0; i < AGE_COUNT; i++, x += widths[i - 1]) {
        sl_page_print(&d->page,
                      "<rect x='%.0f' y='44' width='12' height='12' rx='2' fill='%s' "
                      "stroke='%s'/>",
                      x, ages[i].fill, ages[i].edge);
        sl_page_print(&d->page, "<text x='%.0f' y='54' fill='#555'>%s</text>\n", x + 17,
                      ages[i].meaning);
    }
}

static void draw_offsets(drawing *d) {
    const uint64_t total = d->program->arena_bytes, step = nice_step(total, 8);
    for (uint64_t at = 0; at <= total; at += step) {
        char text[SL_BYTES_TEXT];
        sl_page_print(&d->page, "<line x1='%d' x2='%.1f' y1='%.1f' y2='%.1f' stroke='#e8e8e8'/>",
                      LEFT, LEFT + d->width, y_of(d, at), y_of(d, at));
        sl_page_print(&d->page, "<text x='%d' y='%.1f' text-anchor='end' fill='#777'>%s</text>\n",
                      LEFT - 8, y_of(d, at) + 4, sl_bytes_text(at, text));
    }
}

static void draw_level_numbers(drawing *d) {
    const uint32_t levels = d->program->level_count;
    const uint32_t step = (uint32_t)nice_step(levels, (uint64_t)(d->width / 60));
    const int y = TOP + PLOT_HEIGHT + 18;
    for (uint32_t at = 0; at < levels; at += step)
        sl_page_print(&d->page,
                      "<text x='%.1f' y='%d' text-anchor='middle' fill='#777'>%u</text>\n",
                      (x_of(d, at) + x_of(d, at + 1)) / 2, y, at);
    sl_page_print(&d->page, "<text x='%d' y='%d' text-anchor='end' fill='#777'>level</text>\n",
                  LEFT - 8, y);
}

typedef struct {
    double x, y, width, height;
} box;

/* As much of a label as fits: all of it, else its last word, which says most, else the beginning of
 * that.  An ellipsis stands for what is missing. */
static void draw_text(drawing *d, const char *label, size_t letters) {
    const char *space = strrchr(label, ' '), *word = space ? space + 1 : label;
    const size_t bytes = strlen(word);
    if (strlen(label) <= letters) {
        sl_page_xml(&d->page, label, letters);
    } else if (bytes + 2 <= letters) {
        sl_page_print(&d->page, "… ");
        sl_page_xml(&d->page, word, bytes);
    } else if (bytes <= letters) {
        sl_page_xml(&d->page, word, bytes);
    } else {
        sl_page_xml(&d->page, word, letters - 1);
        sl_page_print(&d->page, "…");
    }
}

/* Along the longer side. */
static void draw_label(drawing *d, const box *at, const char *colour, const char *name) {
    const bool upright = at->height > 1.5 * at->width;
    const double along = upright ? at->height : at->width;
    const double across = upright ? at->width : at->height;
    const size_t letters = along > 2 * LETTER_WIDTH ? (size_t)(along / LETTER_WIDTH) - 1 : 0;
    if (letters < 4 || across < LABEL_HEIGHT) return;
    sl_page_print(&d->page,
                  "<text font-size='9.5' text-anchor='middle' fill='%s' "
                  "transform='translate(%.2f %.2f)%s'>",
                  colour, at->x + at->width / 2 + (upright ? 3.5 : 0),
                  at->y + at->height / 2 + (upright ? 0 : 3.5), upright ? " rotate(-90)" : "");
    draw_text(d, name, letters);
    sl_page_print(&d->page, "</text>\n");
}

static void draw_buffer(drawing *d, const sl_buffer *buffer) {
    const double x = x_of(d, buffer->first_level);
    const double width = x_of(d, buffer->last_level + 1) - x;
    const double y = y_of(d, buffer->arena_offset + buffer->bytes);
    const double height = y_of(d, buffer->arena_offset) - y;
    const int age = age_of(buffer);
    const char *name = buffer->name ? buffer->name : "unnamed";
    char size[SL_BYTES_TEXT];
    sl_page_print(&d->page,
                  "<rect x='%.2f' y='%.2f' width='%.2f' height='%.2f' fill='%s' stroke='%s' "
                  "stroke-width='0.5'><title>",
                  x, y, width, height, ages[age].fill, ages[age].edge);
    sl_page_xml(&d->page, name, 200);
    sl_page_print(&d->page, ", %s at %llu, levels %u to %u</title></rect>\n",
                  sl_bytes_text(buffer->bytes, size), (unsigned long long)buffer->arena_offset,
                  buffer->first_level, buffer->last_level);
    draw_label(d, &(box){x, y, width, height}, ages[age].text, name);
}

/* An area: every level a step as high as its live bytes. */
static void draw_live(drawing *d) {
    const int base = TOP + PLOT_HEIGHT + GAP + LIVE_HEIGHT;
    const double scale = d->most_live ? (double)LIVE_HEIGHT / (double)d->most_live : 0;
    char most[SL_BYTES_TEXT];
    sl_page_print(&d->page, "<path fill='#d9ead3' stroke='#6aa84f' d='M%d %d", LEFT, base);
    for (uint32_t l = 0; l < d->program->level_count; l++)
        sl_page_print(&d->page, "V%.1fH%.1f", base - (double)d->live[l] * scale, x_of(d, l + 1));
    sl_page_print(&d->page, "V%dZ'/>\n", base);
    sl_page_print(&d->page,
                  "<text x='%d' y='%d' text-anchor='end' fill='#777'>%s</text>"
                  "<text x='%d' y='%d' text-anchor='end' fill='#777'>live</text>\n",
                  LEFT - 8, base - LIVE_HEIGHT + 8, sl_bytes_text(d->most_live, most), LEFT - 8,
                  base);
}

static const uint64_t *live_bytes(const sl_program *program, sl_arena *arena, uint64_t *most) {
    uint64_t *live = SL_ARENA_NEW_ARRAY(arena, uint64_t, program->level_count + 1);
    *most = 0;
    for (uint32_t b = 0; live && b < program->buffer_count; b++) {
        const sl_buffer *buffer = &program->buffers[b];
        if (!is_drawn(buffer)) continue;
        for (uint32_t l = buffer->first_level; l <= buffer->last_level; l++) {
            live[l] += buffer->bytes;
            if (live[l] > *most) *most = live[l];
        }
    }
    return live;
}

static double width_of(const sl_program *program) {
    const double wanted = (double)program->level_count * LEVEL_WIDTH;
    return wanted < NARROWEST ? NARROWEST : wanted > WIDEST ? WIDEST : wanted;
}

static sl_status draw(const sl_program *program, const char *path, sl_arena *arena, sl_error *err) {
    drawing d = {.program = program, .width = width_of(program)};
    if (program->level_count == 0 || program->arena_bytes == 0)
        return sl_fail(err, SL_INVALID, "%s: the arena is empty", program->name);
    d.live = live_bytes(program, arena, &d.most_live);
    if (!d.live) return sl_no_memory(err, "live bytes", program->level_count * sizeof *d.live);
    const int width = (int)(LEFT + d.width + RIGHT);
    const int height = TOP + PLOT_HEIGHT + GAP + LIVE_HEIGHT + BOTTOM;
    sl_page_open(&d.page, path, arena->allocator, err);
    sl_page_print(&d.page,
                  "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' "
                  "viewBox='0 0 %d %d' font-family='system-ui, sans-serif' font-size='12' "
                  "fill='#222'>\n<rect width='%d' height='%d' fill='#fff'/>\n",
                  width, height, width, height, width, height);
    draw_title(&d);
    draw_legend(&d);
    draw_offsets(&d);
    draw_level_numbers(&d);
    for (uint32_t b = 0; b < program->buffer_count; b++)
        if (is_drawn(&program->buffers[b])) draw_buffer(&d, &program->buffers[b]);
    draw_live(&d);
    sl_page_print(&d.page, "</svg>\n");
    return sl_page_close(&d.page);
}

sl_status sl_write_memory(const sl_program *program, const char *path,
                          const sl_allocator *allocator, sl_error *err) {
    sl_arena arena;
    sl_arena_init(&arena, allocator);
    const sl_status status = draw(program, path, &arena, err);
    sl_arena_deinit(&arena);
    return status;
}
