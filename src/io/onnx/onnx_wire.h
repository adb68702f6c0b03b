/* Protobuf messages field by field (onnx_wire.c). */
#ifndef DT__IO_ONNX_WIRE_H
#define DT__IO_ONNX_WIRE_H

#include <stdbool.h>
#include <stdint.h>

/* The rest of a message. */
typedef struct dt__wire {
    const uint8_t *at, *end;
} dt__wire;

/* The next field: its number and, if it has a length, its contents, else NULL. False: at the end,
 * or if the bytes are not a field. */
bool dt__wire_take(dt__wire *b, uint64_t *number, dt__wire *contents);

#endif
