/* history.h - Messages of a client as a chat template wants them. */
#ifndef SL_ENGINE_CHOOSE_MESSAGE_HISTORY_H
#define SL_ENGINE_CHOOSE_MESSAGE_HISTORY_H
#include "engine/text/template.h"
#include <jansson.h>
#include <stdbool.h>

/* What a template wants; all false: the usual. */
typedef struct {
    bool string_arguments; /* arguments are a string */
    bool null_content;     /* beside calls, an empty content is null */
    bool apart;            /* content and calls are messages of their own */
    bool one_call;         /* a message has one call, followed by its result */
    bool short_ids;        /* nine letters or digits */
    bool thinking;         /* reasoning is called "thinking", and there is none beside content */
} sl_history_style;

/* Found by rendering small examples; variables: an object with what every rendering has, such as
 * bos_token.  A template that renders none of them gets the usual. */
SL_CHECKED sl_status sl_history_probe(const sl_template *chat, const json_t *variables,
                                      sl_history_style *out, sl_error *err);
/* A new list.  Fails if a message is not what the API says. */
SL_CHECKED sl_status sl_history_normalise(const json_t *messages, const sl_history_style *style,
                                          json_t **out, sl_error *err);
#endif
