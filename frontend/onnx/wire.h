/* wire.h - The wire format of protocol buffers: messages as a sequence of numbered fields.
 *
 *   sl_wire w = {bytes, bytes + count};
 *   sl_wire_field field;
 *   while (sl_wire_next(&w, &field)) ...
 *   if (w.broken) ...
 *
 * Total: any bytes give fields or a broken message, and nothing outside them is read. */
#ifndef SL_FRONTEND_ONNX_WIRE_H
#define SL_FRONTEND_ONNX_WIRE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    const uint8_t *at, *end;
    const char *broken; /* what is wrong with the message; NULL if nothing is */
} sl_wire;

typedef enum { SL_WIRE_VARINT = 0, SL_WIRE_64 = 1, SL_WIRE_BYTES = 2, SL_WIRE_32 = 5 } sl_wire_kind;
typedef struct {
    uint32_t number;
    sl_wire_kind kind;
    uint64_t value; /* for all kinds except bytes */
    sl_wire bytes;  /* for kind bytes */
} sl_wire_field;

/* False at the end or if the message is broken. */
bool sl_wire_next(sl_wire *wire, sl_wire_field *out);
/* The number of fields with that number; does not move the cursor. */
uint32_t sl_wire_count(sl_wire wire, uint32_t number);
static inline size_t sl_wire_bytes(const sl_wire *wire) {
    return (size_t)(wire->end - wire->at);
}

/* Repeated numbers, packed or not: sl_wire_number returns one after another from the fields with
 * the given number.  kind is that of a single number. */
typedef struct {
    sl_wire message, packed;
    uint32_t number;
    sl_wire_kind kind;
} sl_wire_numbers;
bool sl_wire_number(sl_wire_numbers *numbers, uint64_t *out);
#endif
