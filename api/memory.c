/* memory.c - Memory that the library hands over (sluice/status.h). */
#include "sluice/status.h"
#include <stdlib.h>

void sl_free(void *memory) {
    free(memory);
}
