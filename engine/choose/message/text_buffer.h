/* text_buffer.h - Bytes that grow. */
#ifndef SL_ENGINE_CHOOSE_MESSAGE_TEXT_BUFFER_H
#define SL_ENGINE_CHOOSE_MESSAGE_TEXT_BUFFER_H
#include "base/memory.h"
#include <stdbool.h>

typedef struct {
    char *text; /* NULL while nothing was appended */
    size_t bytes, room;
} sl_text_buffer;

/* False: no memory, and nothing is appended.  A NUL follows the bytes. */
bool sl_text_buffer_append(sl_text_buffer *buffer, const sl_allocator *allocator, const char *text,
                           size_t bytes);
void sl_text_buffer_deinit(sl_text_buffer *buffer, const sl_allocator *allocator);
#endif
