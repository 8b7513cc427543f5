/* page.h - A text file written piece by piece.  After the first failure every call does nothing;
 * closing reports it, and no file is left. */
#ifndef SL_ENGINE_INSPECT_PAGE_H
#define SL_ENGINE_INSPECT_PAGE_H
#include "engine/formats/file.h"

typedef struct {
    sl_file_writer file;
    sl_status status;
    sl_error *err;
} sl_page;

void sl_page_open(sl_page *page, const char *path, const sl_allocator *allocator, sl_error *err);
/* Gives the file its name if all went well. */
SL_CHECKED sl_status sl_page_close(sl_page *page);
/* Writes no file. */
void sl_page_abandon(sl_page *page);
/* At most 1023 bytes at a time. */
void sl_page_print(sl_page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* In quotes, as JSON and Graphviz want it. */
void sl_page_quote(sl_page *page, const char *text);
/* At most max_bytes of it, whole characters, as the text of an XML element. */
void sl_page_xml(sl_page *page, const char *text, size_t max_bytes);

/* "1.77 MB"; returns text. */
enum { SL_BYTES_TEXT = 32 };
const char *sl_bytes_text(uint64_t bytes, char text[SL_BYTES_TEXT]);
#endif
