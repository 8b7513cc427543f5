/* family.h - How families of models write reasoning and tool calls, as data.
 *
 * A call is parsed by steps: each expects, reads or skips something, and goes on to another step at
 * a marker.  families.c has the steps, families.def one row for each family. */
#ifndef SL_ENGINE_CHOOSE_MESSAGE_FAMILY_H
#define SL_ENGINE_CHOOSE_MESSAGE_FAMILY_H
#include "base/utf8.h"

typedef enum {
    SL_STEP_EXPECT,   /* white space, then one of the markers */
    SL_STEP_FORK,     /* white space, then the first step if the byte is that of its marker, else
                       * the second; the byte is read again there */
    SL_STEP_KIND,     /* text up to a marker, ignored */
    SL_STEP_NAME,     /* of the function: the call begins */
    SL_STEP_ID,       /* of the call */
    SL_STEP_KEY,      /* name of a parameter */
    SL_STEP_VALUE,    /* of it, typed by the schema */
    SL_STEP_TEXT,     /* of it, a string */
    SL_STEP_JSON,     /* of it, JSON or else a string */
    SL_STEP_ARGS,     /* a JSON object with the arguments; then the first step */
    SL_STEP_ENVELOPE, /* {"name": ..., "arguments": {...}}; then the first step */
} sl_call_step_kind;

enum { SL_STEP_MARKERS = 3, SL_STEP_LEAVE = 255 };

typedef struct {
    const char *text; /* NULL: there are no more */
    uint8_t next;     /* step; SL_STEP_LEAVE: back to content */
    bool ends;        /* the call is complete */
} sl_marker;

typedef struct {
    sl_call_step_kind kind;
    sl_marker on[SL_STEP_MARKERS];
    bool complete; /* only closing tags are missing: the call counts, whatever comes */
} sl_call_step;

typedef struct {
    const char *name;
    const sl_marker *starts; /* of calls, up to a NULL text */
    const sl_call_step *steps;
    uint32_t step_count;
    const char *const *signs;      /* that its templates contain, all of them, up to NULL */
    const char *think, *think_end; /* "" if it has none */
    unsigned traits;
} sl_message_family;

enum {
    SL_FAMILY_CONTROL = 1,  /* its markers are special tokens */
    SL_FAMILY_STRIPS = 2,   /* values stand on lines of their own */
    SL_FAMILY_CHANNELS = 4, /* messages have headings (harmony) */
    SL_FAMILY_SHORT_ID = 8, /* ids are nine letters or digits */
    SL_FAMILY_WHOLE = 16,   /* a call is the whole message */
    SL_FAMILY_BARE = 32,    /* its second start must be followed by the name of a known tool */
};

#define SL_HARMONY_START   "<|start|>"
#define SL_HARMONY_CHANNEL "<|channel|>"
#define SL_HARMONY_MESSAGE "<|message|>"

extern const sl_message_family sl_message_families[];
extern const uint32_t sl_message_family_count;
/* After the heading of a harmony call: what ends messages. */
extern const sl_marker sl_harmony_ends[];

const sl_message_family *sl_message_family_find(const char *name); /* or NULL */
/* By the text of a chat template; never NULL. */
const sl_message_family *sl_message_family_detect(sl_slice chat_template);
/* The text is a marker of the family. */
bool sl_message_family_marks(const sl_message_family *family, sl_slice text);
#endif
