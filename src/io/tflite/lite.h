/* An interpreter of TFLite models, with which detent checks its own exports. It shares no code with
 * the writer, and reads nothing but the file. Operators that ONNX has as well are run as nodes of
 * ONNX.
 *
 * One example is run at a time. Floats are computed in double and rounded once for each operator;
 * products of floats with integer weights quantize their inputs dynamically as LiteRT does: int8,
 * asymmetric, per row (FULLY_CONNECTED) or per example (convolutions). Operators of int8 compute
 * the same bits as TFLite Micro's reference kernels. Every result must have the extents that the
 * file declares.
 *
 * An operator's version must be one that LiteRT supports. If the file's signature declares the
 * batch as -1, any batch size can be run (dt__vlite_resize), as in LiteRT.
 *
 * Files are not trusted: sizes are checked, memory and work are limited. */
#ifndef DT__IO_LITE_H
#define DT__IO_LITE_H

#include "core/system/atomic_file.h"
#include "core/core.h"

#include <detent/experimental/ops.h>

typedef enum dt__vlite_type {
    DT__VLITE_F32 = 0,
    DT__VLITE_F16 = 1,
    DT__VLITE_I32 = 2,
    DT__VLITE_U8 = 3, /* U8 and I64 are only read if limits.unknown */
    DT__VLITE_I64 = 4,
    DT__VLITE_BOOL = 6,
    DT__VLITE_I8 = 9,
    DT__VLITE_I4 = 17
} dt__vlite_type;

#define DT__VLITE_RANK 6

/* The name of a type of the schema: "float", "int16"; "unknown". */
const char *dt__vlite_type_text(int64_t type);

typedef struct dt__vlite_tensor {
    int type, rank;
    int64_t dims[DT__VLITE_RANK], count;
    float *f;              /* of F32 and F16 tensors; NULL: no value yet */
    int32_t *q;            /* of integer tensors */
    bool constant;         /* its value is in the file */
    bool open;             /* its signature has -1 for dimension 0 */
    bool vague;            /* its signature has -1 for another dimension */
    int64_t scales, block; /* number of scales; columns per block, 0: none */
    float *scale;
    int32_t *zero; /* [scales] */
    int axis;
    int block_scales; /* tensor index of the blocks' scales */
    const char *name; /* NULL: none, or not read */
} dt__vlite_tensor;

typedef struct dt__vlite dt__vlite;

/* Limits of a run. Zero means the default: 8 GiB, 1e13. */
typedef struct dt__vlite_limits {
    size_t bytes; /* of all values */
    double work;  /* elements written, and multiply-adds */
    bool unknown; /* accept operators and types that cannot run */
} dt__vlite_limits;

/* Reads and checks the bytes of a file, which are lent; limits NULL: the defaults. Errors: FORMAT,
 * UNSUPPORTED (an operator, a type, more than one graph), NOMEM. The caller closes *out. */
dt_status dt__vlite_open(dt_ctx *ctx, const char *path, const dt__span *file,
                         const dt__vlite_limits *limits, dt__vlite **out);
void dt__vlite_close(dt__vlite *v);

int dt__vlite_inputs(const dt__vlite *v);
int dt__vlite_outputs(const dt__vlite *v);
const dt__vlite_tensor *dt__vlite_input(const dt__vlite *v, int i);
/* Output i of the last run, lent until the next one; before a run only type and extents are set. */
const dt__vlite_tensor *dt__vlite_output(const dt__vlite *v, int i);
/* A string in the metadata, which the caller frees with dt__release; NULL: none. NOMEM. */
dt_status dt__vlite_property(const dt__vlite *v, const char *name, char **out);
/* Copies the values of input i: all its floats, or integers. Errors: NOMEM. */
dt_status dt__vlite_give(dt__vlite *v, int i, const void *data);
/* Copies floats to an input of floats, or quantizes them for one of int8 with one scale. */
dt_status dt__vlite_give_floats(dt__vlite *v, int i, const float *x);
/* Element k of such a tensor as a float. */
float dt__vlite_float(const dt__vlite_tensor *t, int64_t k);
/* Whether all inputs allow any batch size; and sets the batch size, before the first value is
 * given. */
bool dt__vlite_is_open(const dt__vlite *v);
void dt__vlite_resize(dt__vlite *v, int64_t batch);
/* Runs the graph once. Errors: FORMAT, with the operator's place; NOMEM. */
dt_status dt__vlite_run(dt__vlite *v);

/* ---- for operators --------------------------------------------------------------------------- */

#define DT__VLITE_IN 1024
#define DT__VLITE_OPTIONS 8

/* Operator codes (BuiltinOperator). */
enum {
#define DT__VLITE(name, code, ...) DT__VLITE_##name = (code),
#include "io/tflite/lite_operators.inc"
#undef DT__VLITE
};

/* An operator of the file. */
typedef struct dt__vlite_op {
    int64_t place;
    int code;
    int n_in, n_out;
    int *in, *out;                     /* tensor indices; -1: left out */
    int64_t option[DT__VLITE_OPTIONS]; /* integer options, with the schema's defaults */
    float real;                        /* option 0 as a float */
} dt__vlite_op;

typedef struct dt__vlite_call {
    dt__vlite *v;
    const dt__vlite_op *op;
    const dt__vlite_tensor *in[DT__VLITE_IN]; /* NULL: left out */
    int n_in;
    dt__vlite_tensor *y; /* the first result, with allocated memory */
} dt__vlite_call;

typedef dt_status dt__vlite_runner(dt__vlite_call *c);

typedef struct dt__vlite_operator {
    int code;
    const char *name;
    int newest; /* newest version that LiteRT supports; 0: cannot run */
    int least_in, most_in;
    dt__vlite_runner *run, *coded;
    int bytes[DT__VLITE_OPTIONS]; /* of each option: 1, 4, or 0 for none */
} dt__vlite_operator;

/* FORMAT with a message about the operator; returns the status. */
dt_status dt__vlite_refuse(const dt__vlite_call *c, const char *format, ...) DT_PRINTF(2, 3);
/* An error unless y has these extents. */
dt_status dt__vlite_wants(const dt__vlite_call *c, int rank, const int64_t *dims);
/* Adds to the work; an error above the limit. */
dt_status dt__vlite_work(const dt__vlite_call *c, double steps);
/* Reports this much work as done to the context's listeners while an operator runs. */
void dt__vlite_did(const dt__vlite_call *c, double steps);
/* Zeroed memory until the file is closed. */
void *dt__vlite_memory(dt__vlite *v, int64_t count, size_t size);
/* The tensor with an index that was checked when the file was read. */
const dt__vlite_tensor *dt__vlite_tensor_at(const dt__vlite_call *c, int i);
/* Integers of a constant input, at most DT__VLITE_RANK * 2 of them. */
dt_status dt__vlite_list(const dt__vlite_call *c, int i, int *n, int64_t *to);
/* An axis counted from the front; an error if it is out of range. */
dt_status dt__vlite_axis(const dt__vlite_call *c, int64_t axis, int rank, int *out);
/* x after an operator's fused activation. */
double dt__vlite_activated(int activation, double x);
/* Result i of an operator with several. */
dt__vlite_tensor *dt__vlite_result(const dt__vlite_call *c, int i);

/* Runs an operator as the ONNX nodes to which import translates it (lite_forms.c), by
 * io/onnx/interpret; `form` does not support quantized integers. */
dt__vlite_runner dt__vlite_nodes, dt__vlite_form;
/* Products with weights, quantized or float (lite_products.c). */
dt__vlite_runner dt__vlite_conv, dt__vlite_linear, dt__vlite_transposed;
/* Operators that move elements, whose integers keep their scale and zero point (lite_moves.c). */
dt__vlite_runner dt__vlite_move, dt__vlite_reshape, dt__vlite_gather, dt__vlite_resize_nearest;

/* ---- integers (lite_int8.c) ------------------------------------------------------------------ */

/* requantize(v, multiplier, shift) of TFLite with its two roundings; dt__vlite_factor_of makes
 * multiplier and shift of a real number. */
typedef struct dt__vlite_factor {
    int32_t multiplier;
    int shift;
} dt__vlite_factor;
dt__vlite_factor dt__vlite_factor_of(double real);
int32_t dt__vlite_requantize(int64_t v, dt__vlite_factor f);
/* Quantizes floats, as QUANTIZE does. */
void dt__vlite_codes_of(dt__vlite_tensor *t, const float *x);
/* The codes to which an activation clamps a result. */
void dt__vlite_clamps(int activation, const dt__vlite_tensor *y, int32_t *least, int32_t *most);
/* SUB is add_int8; MAXIMUM and MINIMUM share limit_int8, and functions of one code share theirs. */
dt__vlite_runner dt__vlite_add_int8, dt__vlite_mul_int8, dt__vlite_prelu_int8, dt__vlite_limit_int8,
    dt__vlite_map_int8, dt__vlite_mean_int8, dt__vlite_softmax_int8,
    dt__vlite_pool_int8; /* lite_pools.c */
dt__vlite_runner dt__vlite_quantize, dt__vlite_dequantize;
/* Whether x is int8 with one scale. */
bool dt__vlite_is_coded(const dt__vlite_tensor *x);
/* An error unless x and y are int8 with the same scale and zero point. */
dt_status dt__vlite_same_codes(const dt__vlite_call *c);

#endif
