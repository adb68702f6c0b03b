/* Bytes of a message of protobuf, field by field (onnx_wire.c). */
#ifndef DT__IO_ONNX_WIRE_H
#define DT__IO_ONNX_WIRE_H

#include <stdbool.h>
#include <stdint.h>

/* What is left of a message. */
typedef struct dt__wire {
    const uint8_t *at, *end;
} dt__wire;

/* The next field: its number, and of a field with a length its contents, else NULL. False: at the
 * end, or where the bytes are no field. */
bool dt__wire_take(dt__wire *b, uint64_t *number, dt__wire *contents);

#endif
