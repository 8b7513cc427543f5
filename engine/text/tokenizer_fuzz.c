/* Any bytes as a tokenizer.json: rejected with a message, or usable. */
#include "engine/text/tokenizer.h"
#include "tests/support/mutate_json.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void encode(const sl_tokenizer *tokenizer, const char *text, size_t bytes) {
    int32_t ids[128];
    size_t count, length;
    sl_error err;
    if (sl_tokenizer_encode(tokenizer, text, bytes, ids, 128, &count, &err) != SL_OK) return;
    for (size_t i = 0; i < count && i < 128; i++) {
        if (ids[i] < 0 || (uint32_t)ids[i] >= sl_tokenizer_vocab(tokenizer)) abort();
        (void)sl_tokenizer_text(tokenizer, ids[i], &length);
        (void)sl_tokenizer_is_special(tokenizer, ids[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static const char text[] =
        "The word <mask> it's 12 \xE2\x82\xAC e\xCC\x81 \xFF\xC3(  \n\n<|end|>";
    sl_tokenizer *tokenizer = NULL;
    sl_error err = {0};
    const sl_status status = sl_tokenizer_create((const char *)data, bytes, NULL, &tokenizer, &err);
    if (status != SL_OK) {
        if (tokenizer || err.status != status || !err.message[0]) abort();
        return 0;
    }
    encode(tokenizer, text, sizeof text - 1);
    encode(tokenizer, (const char *)data, bytes < 256 ? bytes : 256);
    (void)sl_tokenizer_find(tokenizer, text, 3);
    sl_tokenizer_destroy(tokenizer);
    return 0;
}
