/* sizes.c - Printing of byte counts. */
#include "base/sizes.h"
#include <stdio.h>

char *sl_size_format(uint64_t bytes, char *text, size_t capacity) {
    static const char *const names[] = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
    double value = (double)bytes;
    size_t name = 0;
    /* 999.5 would be printed as 1000. */
    for (; value >= 999.5; name++) value /= 1000;
    const int decimals = name == 0 ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    (void)snprintf(text, capacity, "%.*f %s", decimals, value, names[name]);
    return text;
}
