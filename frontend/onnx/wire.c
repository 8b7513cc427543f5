#include "frontend/onnx/wire.h"
#include <string.h>

static bool break_off(sl_wire *wire, const char *why) {
    wire->broken = why;
    wire->at = wire->end;
    return false;
}

static bool read_varint(sl_wire *wire, uint64_t *out) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (wire->at == wire->end) return break_off(wire, "a number ends early");
        const uint8_t byte = *wire->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *out = value;
            return true;
        }
    }
    return break_off(wire, "a number of more than 64 bits");
}

static bool read_fixed(sl_wire *wire, size_t bytes, uint64_t *out) {
    if (sl_wire_bytes(wire) < bytes) return break_off(wire, "a number ends early");
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) value |= (uint64_t)wire->at[i] << (8 * i);
    wire->at += bytes;
    *out = value;
    return true;
}

static bool read_value(sl_wire *wire, sl_wire_kind kind, uint64_t *out) {
    if (kind == SL_WIRE_VARINT) return read_varint(wire, out);
    return read_fixed(wire, kind == SL_WIRE_64 ? 8 : 4, out);
}

bool sl_wire_next(sl_wire *wire, sl_wire_field *out) {
    uint64_t key, bytes;
    if (wire->broken || wire->at == wire->end) return false;
    if (!read_varint(wire, &key)) return false;
    if (key >> 3 == 0 || key >> 32) return break_off(wire, "a field without a number");
    *out = (sl_wire_field){.number = (uint32_t)(key >> 3), .kind = (sl_wire_kind)(key & 7)};
    switch (out->kind) {
    case SL_WIRE_VARINT:
    case SL_WIRE_64:
    case SL_WIRE_32:
        return read_value(wire, out->kind, &out->value);
    case SL_WIRE_BYTES:
        if (!read_varint(wire, &bytes)) return false;
        if (bytes > sl_wire_bytes(wire)) return break_off(wire, "a field ends early");
        out->bytes = (sl_wire){wire->at, wire->at + bytes, NULL};
        wire->at += bytes;
        return true;
    default:
        return break_off(wire, "a field of an unknown kind");
    }
}

uint32_t sl_wire_count(sl_wire wire, uint32_t number) {
    sl_wire_field field;
    uint32_t count = 0;
    while (sl_wire_next(&wire, &field)) count += field.number == number;
    return count;
}

bool sl_wire_number(sl_wire_numbers *numbers, uint64_t *out) {
    for (;;) {
        if (numbers->packed.at != numbers->packed.end)
            return read_value(&numbers->packed, numbers->kind, out);
        sl_wire_field field;
        do {
            if (!sl_wire_next(&numbers->message, &field)) return false;
        } while (field.number != numbers->number);
        if (field.kind == numbers->kind) {
            *out = field.value;
            return true;
        }
        if (field.kind != SL_WIRE_BYTES)
            return break_off(&numbers->message, "a field of an unexpected kind");
        numbers->packed = field.bytes;
    }
}
