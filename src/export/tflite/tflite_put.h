/* Building a model of TFLite (tensorflow/compiler/mlir/lite/schema/schema.fbs): tensors, operators,
 * the file.
 *
 * A tensor is represented by its index; -1 means a tensor that was not made, or an absent input.
 * Calls can only fail with NOMEM: the first failing call and all later ones return -1, and
 * dt__lite_status returns the error. So emitters can nest calls like arithmetic expressions. */
#ifndef DT__EXPORT_TFLITE_PUT_H
#define DT__EXPORT_TFLITE_PUT_H

#include "core/core.h"
#include "export/trace/flat.h"

#include <detent/experimental/ops.h>

/* TensorType */
enum {
    DT__LITE_FLOAT32 = 0,
    DT__LITE_FLOAT16 = 1,
    DT__LITE_INT32 = 2,
    DT__LITE_BOOL = 6,
    DT__LITE_INT8 = 9,
    DT__LITE_INT4 = 17 /* two in a byte, the first in the low half, over the whole tensor */
};

/* Operators that are written (BuiltinOperator), with the table of their options (BuiltinOptions; 0:
 * none), the field of the options that is a fused activation (-1: none), and the version. */
#define DT__LITE_OPERATORS(X)                                                                      \
    X(ADD, 0, 11, 0, 1)                                                                            \
    X(AVERAGE_POOL_2D, 1, 5, 5, 1)                                                                 \
    X(CONCATENATION, 2, 10, -1, 1)                                                                 \
    X(CONV_2D, 3, 1, 3, 1)                                                                         \
    X(DEPTHWISE_CONV_2D, 4, 2, 4, 1)                                                               \
    X(DEQUANTIZE, 6, 38, -1, 1)                                                                    \
    X(FULLY_CONNECTED, 9, 8, 0, 1)                                                                 \
    X(LOGISTIC, 14, 0, -1, 1)                                                                      \
    X(MAX_POOL_2D, 17, 5, 5, 1)                                                                    \
    X(MUL, 18, 21, 0, 1)                                                                           \
    X(RELU, 19, 0, -1, 1)                                                                          \
    X(RELU6, 21, 0, -1, 1)                                                                         \
    X(RESHAPE, 22, 17, -1, 1)                                                                      \
    X(SOFTMAX, 25, 9, -1, 1)                                                                       \
    X(TANH, 28, 0, -1, 1)                                                                          \
    X(PAD, 34, 22, -1, 1)                                                                          \
    X(GATHER, 36, 23, -1, 1)                                                                       \
    X(TRANSPOSE, 39, 26, -1, 1)                                                                    \
    X(MEAN, 40, 27, -1, 1)                                                                         \
    X(SUB, 41, 28, 0, 1)                                                                           \
    X(DIV, 42, 29, 0, 1)                                                                           \
    X(STRIDED_SLICE, 45, 32, -1, 1)                                                                \
    X(EXP, 47, 33, -1, 1)                                                                          \
    X(SPLIT, 49, 35, -1, 1)                                                                        \
    X(LOG_SOFTMAX, 50, 36, -1, 1)                                                                  \
    X(CAST, 53, 37, -1, 1)                                                                         \
    X(PRELU, 54, 0, -1, 1)                                                                         \
    X(MAXIMUM, 55, 39, -1, 1)                                                                      \
    X(MINIMUM, 57, 39, -1, 1)                                                                      \
    X(NEG, 59, 42, -1, 1)                                                                          \
    X(GREATER, 61, 44, -1, 1)                                                                      \
    X(GREATER_EQUAL, 62, 45, -1, 1)                                                                \
    X(PADV2, 60, 43, -1, 1)                                                                        \
    X(TRANSPOSE_CONV, 67, 49, -1, 3)                                                               \
    X(LOG, 73, 0, -1, 1)                                                                           \
    X(SUM, 74, 27, -1, 1)                                                                          \
    X(SQRT, 75, 0, -1, 1)                                                                          \
    X(RSQRT, 76, 0, -1, 1)                                                                         \
    X(REDUCE_MAX, 82, 27, -1, 1)                                                                   \
    X(SQUARE, 92, 66, -1, 1)                                                                       \
    X(RESIZE_NEAREST_NEIGHBOR, 97, 74, -1, 1)                                                      \
    X(LEAKY_RELU, 98, 75, -1, 1)                                                                   \
    X(MIRROR_PAD, 100, 77, -1, 1)                                                                  \
    X(ABS, 101, 78, -1, 1)                                                                         \
    X(ELU, 111, 0, -1, 1)                                                                          \
    X(QUANTIZE, 114, 89, -1, 1)                                                                    \
    X(HARD_SWISH, 117, 91, -1, 1)                                                                  \
    X(SELECT_V2, 123, 98, -1, 1)                                                                   \
    X(BATCH_MATMUL, 126, 101, -1, 1)                                                               \
    X(GELU, 150, 116, -1, 1)

typedef enum dt__lite_operator {
#define DT__LITE_OPERATOR(name, code, options, activation, version) DT__LITE_##name,
    DT__LITE_OPERATORS(DT__LITE_OPERATOR)
#undef DT__LITE_OPERATOR
} dt__lite_operator;

/* ActivationFunctionType */
enum { DT__LITE_NONE = 0, DT__LITE_FUSED_RELU = 1, DT__LITE_FUSED_RELU6 = 3 };
/* Padding */
enum { DT__LITE_SAME = 0, DT__LITE_VALID = 1 };

#define DT__LITE_RANK DT_MAX_RANK
#define DT__LITE_OPTIONS 8

typedef struct dt__lite_shape {
    int rank;
    int64_t dims[DT__LITE_RANK];
} dt__lite_shape;

/* Scales and zero points; none: not quantized. */
typedef struct dt__lite_scales {
    int64_t n;
    const float *scale;  /* [n] */
    const int32_t *zero; /* [n]; NULL: 0 */
    int axis;            /* if n > 1: the dimension of the scales */
    int64_t block;       /* of blocks along the last dimension; 0: no blocks */
    int block_scales;    /* the tensor with the scales of the blocks */
} dt__lite_scales;

typedef struct dt__lite_tensor {
    const char *name;
    int type;
    dt__lite_shape shape;
    int64_t buffer; /* 0: no data */
    dt__lite_scales scales;
    int64_t op; /* the operator that computes it; -1: none */
} dt__lite_tensor;

/* The bytes of constants; equal ones share a buffer. */
typedef struct dt__lite_buffer {
    const void *data;
    size_t bytes;
    int64_t next; /* in the same hash bucket; 0: none */
} dt__lite_buffer;

typedef struct dt__lite_op {
    dt__lite_operator op;
    int version;
    int *in, *out;
    int n_in, n_out;
    dt__flat_field option[DT__LITE_OPTIONS];
    int options;
} dt__lite_op;

typedef struct dt__lite_text {
    const char *name, *text;
} dt__lite_text;

#define DT__LITE_BUCKETS 256
#define DT__LITE_TEXTS 8

typedef struct dt__lite {
    dt_ctx *ctx;
    const char *hint; /* beginning of names of new tensors, lent; NULL: the operator */
    bool failed;
    bool batched; /* the first dimension of inputs and outputs may be resized */
    void *blocks; /* memory of the builder */
    dt__lite_tensor *tensor;
    dt__lite_buffer *buffer;
    dt__lite_op *op;
    int64_t tensors, room_tensors, buffers, room_buffers, ops, room_ops;
    int64_t bucket[DT__LITE_BUCKETS];
    int in[DT_MAX_IN], out[DT_MAX_OUT]; /* tensors */
    const char *in_name[DT_MAX_IN], *out_name[DT_MAX_OUT];
    int ins, outs;
    dt__lite_text text[DT__LITE_TEXTS];
    int texts;
} dt__lite;

/* ---- the graph (tflite_put_graph.c) ---------------------------------------------------------- */

void dt__lite_begin(dt_ctx *ctx, dt__lite *p);
void dt__lite_free(dt__lite *p);
dt_status dt__lite_status(const dt__lite *p);
/* Memory that lives as long as the builder, zeroed; NULL: NOMEM. */
void *dt__lite_memory(dt__lite *p, int64_t count, size_t size);

/* A constant in memory; equal ones without scales share a tensor. The data are copied unless
 * `lent`: then they outlive the builder. */
typedef struct dt__lite_array {
    const char *name; /* NULL: "constant" */
    int type;
    dt__lite_shape shape;
    const void *data;
    size_t bytes;
    bool lent;
    dt__lite_scales scales; /* their arrays outlive the builder */
} dt__lite_array;

int dt__lite_constant(dt__lite *p, const dt__lite_array *a);
int dt__lite_float(dt__lite *p, float value);                          /* a scalar */
int dt__lite_ints(dt__lite *p, int rows, int n, const int64_t *value); /* [n], or [rows, n] */
#define DT__LITE_INTS(p, ...)                                                                      \
    dt__lite_ints(p, 0, (int)(sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)),         \
                  (const int64_t[]){ __VA_ARGS__ })

/* Adds a float tensor without data: an input of the graph, or a result. */
int dt__lite_result(dt__lite *p, const char *name, const dt__lite_shape *shape);
/* Shape of a tensor; for -1 a scalar. */
dt__lite_shape dt__lite_shape_of(const dt__lite *p, int tensor);

/* Adds an operator with one result of that shape; inputs -1 are absent. */
int dt__lite_node(dt__lite *p, dt__lite_operator op, const int *in, int n,
                  const dt__lite_shape *shape);
#define DT__LITE(p, op, shape, ...)                                                                \
    dt__lite_node(p, DT__LITE_##op, (const int[]){ __VA_ARGS__ },                                  \
                  (int)(sizeof((const int[]){ __VA_ARGS__ }) / sizeof(int)), shape)
/* Sets an option of the newest operator, by its field number. */
void dt__lite_option(dt__lite *p, int id, dt__flat_kind kind, int64_t value);
void dt__lite_option_float(dt__lite *p, int id, float value);
void dt__lite_version(dt__lite *p, int version);
/* Adds results of one shape to the newest operator, n in all; out[0] is its first. */
void dt__lite_results(dt__lite *p, int n, int *out);
/* Fuses an activation into the operator that computes `tensor`. False: it has no such option, or
 * one is fused already. */
bool dt__lite_fuse(dt__lite *p, int tensor, int activation);
/* Makes a tensor INT8 with this scale and zero point. */
void dt__lite_quantize(dt__lite *p, int tensor, float scale, int zero);

void dt__lite_input(dt__lite *p, const char *name, int tensor);
void dt__lite_output(dt__lite *p, const char *name, int tensor);
/* Adds a text to the metadata; both are lent until the file is written. */
void dt__lite_property(dt__lite *p, const char *name, const char *text);

/* ---- the file (tflite_put_file.c) ------------------------------------------------------------ */

/* Writes the model, whole or not at all. *bytes: its size. Errors: IO, NOMEM, UNSUPPORTED (above 2
 * GiB). */
dt_status dt__lite_write(dt__lite *p, const char *path, size_t *bytes);

#endif
