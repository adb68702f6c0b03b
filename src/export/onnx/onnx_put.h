/* Building a model of ONNX (https://github.com/onnx/onnx, docs/IR.md): nodes, constants, the file.
 *
 * A value is represented by its name, which ends with a colon and a unique number; names of graph
 * inputs and outputs have no colon. Calls can only fail with NOMEM: the first failing call and all
 * later ones return NULL, and dt__put_status returns the error. So emitters can nest calls like
 * arithmetic expressions. */
#ifndef DT__EXPORT_ONNX_PUT_H
#define DT__EXPORT_ONNX_PUT_H

#include "core/core.h"

#include "io/onnx.pb-c.h"

#define DT__PUT_INT2_OPSET 25 /* the first with INT2 */

/* TensorProto.DataType */
enum {
    DT__PUT_FLOAT = 1,
    DT__PUT_UINT8 = 2,
    DT__PUT_INT8 = 3,
    DT__PUT_INT32 = 6,
    DT__PUT_INT64 = 7,
    DT__PUT_BOOL = 9,
    DT__PUT_FLOAT16 = 10,
    DT__PUT_DOUBLE = 11,
    DT__PUT_BFLOAT16 = 16,
    DT__PUT_INT4 = 22,
    DT__PUT_INT2 = 26
};

/* protobuf-c's strings are not const, though packing only reads them. */
static inline char *dt__put_text_of(const char *constant) { return (char *)(uintptr_t)constant; }

typedef const char *dt__value;

/* A small constant of the graph, which is reused. */
typedef struct dt__put_constant {
    const DtOnnx__Tensor *tensor;
    struct dt__put_constant *next;
} dt__put_constant;

#define DT__PUT_BUCKETS 256

typedef struct dt__put {
    dt_ctx *ctx;
    const char *hint; /* beginning of names of new values, lent; NULL: the operator */
    int64_t names;    /* number of values so far */
    bool failed;
    bool microsoft; /* an operator of com.microsoft is used */
    int opset;      /* dt_onnx_opsets */
    void *blocks;   /* memory of all messages */
    DtOnnx__Node **node;
    DtOnnx__Tensor **tensor;
    DtOnnx__ValueInfo **input, **output;
    DtOnnx__Property **property;
    int64_t nodes, room_nodes, tensors, room_tensors, inputs, room_inputs, outputs, room_outputs;
    int64_t properties, room_properties;
    dt__put_constant *constant[DT__PUT_BUCKETS];
} dt__put;

/* ---- the graph (onnx_put_graph.c) ------------------------------------------------------------ */

void dt__put_begin(dt_ctx *ctx, dt__put *p);
void dt__put_free(dt__put *p);
dt_status dt__put_status(const dt__put *p);

/* Memory that lives as long as the builder, zeroed; NULL: NOMEM. */
void *dt__put_memory(dt__put *p, int64_t count, size_t size);
/* Zeroed memory that the caller frees with dt__release; NULL: NOMEM. */
void *dt__put_scratch(dt__put *p, int64_t count, size_t size);
/* A name made from untrusted text: letters, digits and _ - . / are kept, other bytes become
 * underscores, and an empty text becomes one. */
const char *dt__put_clean(dt__put *p, const char *text);

/* Adds a node with one result. `in` may contain "" for an absent input. */
dt__value dt__put_node(dt__put *p, const char *op, const char *const *in, int n);
#define DT__PUT(p, op, ...)                                                                        \
    dt__put_node(p, op, (const char *const[]){ __VA_ARGS__ },                                      \
                 (int)(sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(const char *)))
/* Adds attributes to the newest node. */
void dt__put_attr_int(dt__put *p, const char *name, int64_t value);
void dt__put_attr_ints(dt__put *p, const char *name, int64_t n, const int64_t *value);
void dt__put_attr_real(dt__put *p, const char *name, float value);
void dt__put_attr_text(dt__put *p, const char *name, const char *value);
/* Adds more results to the newest node; out[0] is its first. */
void dt__put_results(dt__put *p, int64_t n, dt__value *out);
/* Makes the newest node one of domain com.microsoft. */
void dt__put_microsoft(dt__put *p);

/* An extent of an input or output: a symbol, or (NULL) a number. */
typedef struct dt__put_extent {
    const char *symbol;
    int64_t value;
} dt__put_extent;

typedef struct dt__put_port {
    const char *name; /* name in the file; copied */
    int type;         /* DT__PUT_FLOAT, ... */
    int rank;
    dt__put_extent dim[DT_MAX_RANK];
} dt__put_port;

/* Adds an input of the graph; returns its value. */
dt__value dt__put_input(dt__put *p, const dt__put_port *port);
/* Adds an output with the value `from`. */
void dt__put_output(dt__put *p, const dt__put_port *port, dt__value from);
/* Adds a text to metadata_props; both are copied. */
void dt__put_property(dt__put *p, const char *key, const char *value);

/* A new unique name that begins with the hint. */
dt__value dt__put_name(dt__put *p, const char *what);

/* The body of a Scan (onnx_put_body.c): until its end, new nodes, inputs and outputs belong to a
 * graph of its own, whose nodes may read values of the outer graph. Constants are stored in the
 * outer graph, whose lists are kept in `around`. Bodies cannot be nested. */
typedef struct dt__put_body {
    DtOnnx__Node **node;
    DtOnnx__ValueInfo **input, **output;
    int64_t nodes, room_nodes, inputs, room_inputs, outputs, room_outputs;
} dt__put_body;

void dt__put_body_begin(dt__put *p, dt__put_body *around);
/* Returns the body as an attribute's value, {0, NULL} after an error. */
ProtobufCBinaryData dt__put_body_end(dt__put *p, const dt__put_body *around);
/* Sets attribute `body` of the newest node. */
void dt__put_attr_body(dt__put *p, ProtobufCBinaryData body);

/* ---- constants (onnx_put_tensor.c) ----------------------------------------------------------- */

/* A constant in memory, in native byte order. */
typedef struct dt__put_array {
    const char *name; /* beginning of its name; NULL: "constant" */
    int type, rank;
    const int64_t *dims;
    const void *data;
    size_t bytes;
    bool lent; /* the data outlive the builder, and are not copied */
} dt__put_array;

dt__value dt__put_tensor(dt__put *p, const dt__put_array *a);
/* Scalars; equal ones share one constant. */
dt__value dt__put_f32(dt__put *p, float value);
dt__value dt__put_f64(dt__put *p, double value);
dt__value dt__put_u8(dt__put *p, int value);
/* Vectors [n]; equal ones share one constant. */
dt__value dt__put_i64s(dt__put *p, int64_t n, const int64_t *value);
#define DT__PUT_I64(p, ...)                                                                        \
    dt__put_i64s(p, (int64_t)(sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)),         \
                 (const int64_t[]){ __VA_ARGS__ })

/* Codes of `bits` bits as INT4 or INT2 (low bits first), or INT8. Odd codes of 3 bits, as in scheme
 * half_levels, are INT2 times 2 plus 1. */
typedef struct dt__put_codes {
    const char *name;
    int bits, rank;
    const int64_t *dims;
    const int8_t *codes;
} dt__put_codes;

/* The codes cast to another type. Runtimes fold the cast when they load the file. */
dt__value dt__put_codes_as(dt__put *p, const dt__put_codes *c, int type);
/* The codes plus 128, as UINT8. */
dt__value dt__put_codes_u8(dt__put *p, const dt__put_codes *c);
dt__value dt__put_cast(dt__put *p, dt__value x, int type);

/* ---- the file (onnx_put_file.c) -------------------------------------------------------------- */

/* Writes the model, whole or not at all. *bytes: its size. Errors: IO, NOMEM, UNSUPPORTED (above 2
 * GiB, the limit of protobuf messages). */
dt_status dt__put_write(dt__put *p, const char *path, size_t *bytes);

#endif
