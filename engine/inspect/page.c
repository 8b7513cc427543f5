#include "engine/inspect/page.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void sl_page_open(sl_page *page, const char *path, const sl_allocator *allocator, sl_error *err) {
    page->err = err;
    page->status = sl_file_writer_open(&page->file, path, allocator, err);
}

sl_status sl_page_close(sl_page *page) {
    if (page->status == SL_OK) page->status = sl_file_writer_commit(&page->file, page->err);
    sl_file_writer_close(&page->file);
    return page->status;
}

void sl_page_abandon(sl_page *page) {
    sl_file_writer_close(&page->file);
}

static void append(sl_page *page, const char *text, size_t bytes) {
    if (page->status == SL_OK)
        page->status = sl_file_writer_append(&page->file, text, bytes, page->err);
}

void sl_page_print(sl_page *page, const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    const int bytes = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (bytes < 0) return;
    append(page, text, (size_t)bytes < sizeof text ? (size_t)bytes : sizeof text - 1);
}

void sl_page_quote(sl_page *page, const char *text) {
    append(page, "\"", 1);
    for (; *text; text++) {
        if ((unsigned char)*text < ' ')
            sl_page_print(page, "\\u%04x", (unsigned)*text);
        else if (*text == '"' || *text == '\\')
            sl_page_print(page, "\\%c", *text);
        else
            append(page, text, 1);
    }
    append(page, "\"", 1);
}

static bool continues_character(char c) {
    return ((unsigned char)c & 0xc0) == 0x80;
}

void sl_page_xml(sl_page *page, const char *text, size_t max_bytes) {
    size_t bytes = strlen(text);
    if (bytes > max_bytes)
        for (bytes = max_bytes; bytes > 0 && continues_character(text[bytes]);) bytes--;
    for (size_t i = 0; i < bytes; i++) {
        const char c = text[i];
        if (c == '<' || c == '>' || c == '&')
            sl_page_print(page, "&#%d;", c);
        else
            append(page, (unsigned char)c < ' ' ? " " : &text[i], 1);
    }
}

const char *sl_bytes_text(uint64_t bytes, char text[SL_BYTES_TEXT]) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1000 && unit < 4; unit++) value /= 1000;
    const int digits = unit == 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
    (void)snprintf(text, SL_BYTES_TEXT, "%.*f %s", digits, value, units[unit]);
    return text;
}
