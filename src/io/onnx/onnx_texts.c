/* Finds strings in a message that contain a NUL: C would end them there, so that two names became
 * equal, or a path another one. No message of onnx.proto contains itself, so the depth is
 * bounded. */
#include "io/onnx/onnx.h"
#include "io/onnx/onnx_wire.h"

#include <string.h>

bool dt__onnx_has_nul(const ProtobufCMessageDescriptor *type, const uint8_t *from, size_t n)
{
    dt__wire b = { from, from + n }, contents;
    uint64_t number;
    while (b.at < b.end && dt__wire_take(&b, &number, &contents)) {
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
