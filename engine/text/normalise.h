/* normalise.h - Unicode normal form C (NFC). */
#ifndef SL_ENGINE_TEXT_NORMALISE_H
#define SL_ENGINE_TEXT_NORMALISE_H
#include "base/memory.h"
#include "base/utf8.h"

/* text is well-formed UTF-8; *out is text itself or lives in arena. */
SL_CHECKED sl_status sl_normalise_nfc(sl_slice text, sl_arena *arena, sl_slice *out, sl_error *err);
#endif
