/* stops.h - Stop texts in a stream of bytes; see sluice/sampling.h. */
#ifndef SL_ENGINE_CHOOSE_STOPS_H
#define SL_ENGINE_CHOOSE_STOPS_H
#include "engine/choose/text_matcher.h"
#include "sluice/sampling.h"

SL_CHECKED sl_status sl_stop_texts_create(const char *const *texts, uint32_t count,
                                          const sl_allocator *allocator, sl_text_matcher **out,
                                          sl_error *err);
size_t sl_stop_texts_push(const sl_text_matcher *matcher, sl_stop_stream *stream, const char *bytes,
                          size_t count, char *out);
size_t sl_stop_texts_finish(const sl_text_matcher *matcher, sl_stop_stream *stream, char *out);
#endif
