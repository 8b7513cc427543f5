/* fingerprint.h - What the state of a sequence depends on, besides its tokens.
 *
 * The state of one model is nothing to another one, and the bits of a state depend on how they were
 * computed.  Weights are not read in full: the fingerprint has the name, type and place of every
 * tensor, the checksums that a pack has of them, and of other files a few bytes of up to 256
 * tensors; training changes all tensors, and a conversion their types. */
#ifndef SL_ENGINE_SESSION_FINGERPRINT_H
#define SL_ENGINE_SESSION_FINGERPRINT_H
#include "engine/formats/source.h"
#include <stdbool.h>

enum {
    SL_NUMERICS = 1, /* is raised by a change of kernels that changes bits */
    SL_NUMERICS_TEXT = 96
};

typedef struct {
    uint64_t weights, config, tokenizer, chat;
    char numerics[SL_NUMERICS_TEXT]; /* "cpu avx512, i16 keys and values, ..." zeros to the end */
} sl_fingerprint;

/* Of the texts that come with a model: config, tokenizer, chat. */
void sl_fingerprint_texts(const sl_source *source, sl_fingerprint *out);
/* Reads up to 1 MiB. */
SL_CHECKED sl_status sl_fingerprint_weights(const sl_source *source, sl_fingerprint *out,
                                            sl_error *err);
/* Fails and says which part differs; what: the file that `found` is of. */
SL_CHECKED sl_status sl_fingerprint_check(const char *what, const sl_fingerprint *found,
                                          const sl_fingerprint *wanted, sl_error *err);
/* One number for all of it. */
uint64_t sl_fingerprint_number(const sl_fingerprint *fingerprint);
#endif
