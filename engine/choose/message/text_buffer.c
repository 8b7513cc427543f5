#include "engine/choose/message/text_buffer.h"
#include "base/sizes.h"
#include <string.h>

enum { FEWEST = 32 };

bool sl_text_buffer_append(sl_text_buffer *buffer, const sl_allocator *allocator, const char *text,
                           size_t bytes) {
    uint64_t needed, room;
    if (!sl_add(buffer->bytes, bytes, &needed) || !sl_add(needed, 1, &needed)) return false;
    if (needed > buffer->room) {
        if (!sl_multiply(needed, 2, &room) || room > PTRDIFF_MAX) return false;
        if (room < FEWEST) room = FEWEST;
        char *larger = sl_resize(allocator, buffer->text, buffer->room, room, 1);
        if (!larger) return false;
        buffer->text = larger;
        buffer->room = room;
    }
    if (bytes) memcpy(buffer->text + buffer->bytes, text, bytes);
    buffer->bytes += bytes;
    buffer->text[buffer->bytes] = '\0';
    return true;
}

void sl_text_buffer_deinit(sl_text_buffer *buffer, const sl_allocator *allocator) {
    sl_release(allocator, buffer->text, buffer->room, 1);
    *buffer = (sl_text_buffer){0};
}
