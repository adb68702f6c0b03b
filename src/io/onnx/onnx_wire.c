/* Iterates over the fields of a protobuf message in its bytes (protobuf.dev, Encoding). */
#include "io/onnx/onnx_wire.h"

#include <stddef.h>

static bool take_varint(dt__wire *b, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && b->at < b->end; shift += 7) {
        const uint8_t byte = *b->at++;
        *out |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return true;
    }
    return false;
}

bool dt__wire_take(dt__wire *b, uint64_t *number, dt__wire *contents)
{
    uint64_t tag, n;
    *contents = (dt__wire){ NULL, NULL };
    if (!take_varint(b, &tag)) return false;
    *number = tag >> 3;
    switch (tag & 7) {
    case 0: return take_varint(b, &n);
    case 1: n = 8; break;
    case 2:
        if (!take_varint(b, &n)) return false;
        break;
    case 5: n = 4; break;
    default: return false;
    }
    if (n > (uint64_t)(b->end - b->at)) return false;
    if ((tag & 7) == 2) *contents = (dt__wire){ b->at, b->at + n };
    b->at += n;
    return true;
}
