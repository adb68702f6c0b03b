/* Texts of a message with a NUL inside: C would end them there, so that two names become one, or a
 * path another one. No message of onnx.proto contains itself, so the depth is bounded. */
#include "io/onnx/onnx.h"

#include <string.h>

/* What is left of a message. */
typedef struct bytes {
    const uint8_t *at, *end;
} bytes;

static bool take_varint(bytes *b, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && b->at < b->end; shift += 7) {
        const uint8_t byte = *b->at++;
        *out |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return true;
    }
    return false;
}

/* The next field: its number, and of a field with a length its contents. */
static bool take_field(bytes *b, uint64_t *number, bytes *contents)
{
    uint64_t tag, n;
    *contents = (bytes){ NULL, NULL };
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
    if ((tag & 7) == 2) *contents = (bytes){ b->at, b->at + n };
    b->at += n;
    return true;
}

bool dt__onnx_has_nul(const ProtobufCMessageDescriptor *type, const uint8_t *from, size_t n)
{
    bytes b = { from, from + n }, contents;
    uint64_t number;
    while (b.at < b.end && take_field(&b, &number, &contents)) {
        if (contents.at == NULL || number > UINT32_MAX) continue;
        const size_t length = (size_t)(contents.end - contents.at);
        const ProtobufCFieldDescriptor *f =
            protobuf_c_message_descriptor_get_field(type, (unsigned)number);
        if (f == NULL) continue;
        if (f->type == PROTOBUF_C_TYPE_STRING && memchr(contents.at, 0, length) != NULL)
            return true;
        if (f->type == PROTOBUF_C_TYPE_MESSAGE &&
            dt__onnx_has_nul(f->descriptor, contents.at, length)) {
            return true;
        }
    }
    return false;
}
