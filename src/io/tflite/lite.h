/* An interpreter of TFLite models, by which detent reads its own exports back. It shares nothing
 * with the writer: it knows the tables of schema.fbs and the operators' definitions, and neither
 * modules nor traces. Operators that ONNX has as well are run as nodes of ONNX.
 *
 * One example is run at a time. Floats are computed in double and rounded once for each operator;
 * products of floats with integer weights quantize their inputs as LiteRT does, int8, asymmetric, a
 * range for each row (FULLY_CONNECTED) or example (convolutions). Operators of int8 follow TFLite
 * Micro's reference kernels to the bit. Every result must have the extents that the file declares.
 *
 * An operator's version must be one that LiteRT has. Where a file's signature leaves the batch
 * open, it can be run with any (dt__vlite_resize), as LiteRT resizes it.
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
    DT__VLITE_U8 = 3, /* this and I64 are read where operators that cannot run are */
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
    float *f;              /* of F32 and F16; NULL: no value yet */
    int32_t *q;            /* of integers */
    bool constant;         /* its value is in the file */
    bool open;             /* its signature says that dimension 0 may have any extent */
    bool vague;            /* or another one */
    int64_t scales, block; /* how many; columns of a block, 0: none */
    float *scale;
    int32_t *zero; /* [scales] */
    int axis;
    int block_scales; /* a tensor */
    const char *name; /* NULL: none, or it was not asked for */
} dt__vlite_tensor;

typedef struct dt__vlite dt__vlite;

/* Limits of a run. Zero stands for the default: 8 GiB, 1e13. */
typedef struct dt__vlite_limits {
    size_t bytes; /* of all values */
    double work;  /* elements written, and products of sums */
    bool unknown; /* operators and types that cannot run are read, too */
} dt__vlite_limits;

/* Reads and checks the bytes of a file, which are lent; limits NULL: the defaults. Errors: FORMAT,
 * UNSUPPORTED (an operator, a type, more than one graph), NOMEM. The caller closes *out. */
dt_status dt__vlite_open(dt_ctx *ctx, const char *path, const dt__span *file,
                         const dt__vlite_limits *limits, dt__vlite **out);
void dt__vlite_close(dt__vlite *v);

int dt__vlite_inputs(const dt__vlite *v);
int dt__vlite_outputs(const dt__vlite *v);
const dt__vlite_tensor *dt__vlite_input(const dt__vlite *v, int i);
/* Output i of the last run, lent until the next one; before a run its declared type and extents. */
const dt__vlite_tensor *dt__vlite_output(const dt__vlite *v, int i);
/* A text in the metadata, which the caller frees with dt__release; NULL: there is none. NOMEM. */
dt_status dt__vlite_property(const dt__vlite *v, const char *name, char **out);
/* The values of input i, count of them: floats, or integers. They are copied. Errors: NOMEM. */
dt_status dt__vlite_give(dt__vlite *v, int i, const void *data);
/* The same of floats, for an input of floats or of int8 with one scale. */
dt_status dt__vlite_give_floats(dt__vlite *v, int i, const float *x);
/* Element k of a tensor of either as a float. */
float dt__vlite_float(const dt__vlite_tensor *t, int64_t k);
/* Whether all inputs may have another batch; and gives them that one, after which results have the
 * extents that follow. Before the first value is given. */
bool dt__vlite_is_open(const dt__vlite *v);
void dt__vlite_resize(dt__vlite *v, int64_t batch);
/* Runs the graph once. Errors: FORMAT, with the operator's place; NOMEM. */
dt_status dt__vlite_run(dt__vlite *v);

/* ---- for operators --------------------------------------------------------------------------- */

#define DT__VLITE_IN 1024
#define DT__VLITE_OPTIONS 8

/* Numbers of operators (BuiltinOperator). */
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
    int *in, *out;                     /* -1: left out */
    int64_t option[DT__VLITE_OPTIONS]; /* of integers, with the defaults of the schema */
    float real;                        /* option 0 as a float */
} dt__vlite_op;

typedef struct dt__vlite_call {
    dt__vlite *v;
    const dt__vlite_op *op;
    const dt__vlite_tensor *in[DT__VLITE_IN]; /* NULL: left out */
    int n_in;
    dt__vlite_tensor *y; /* the first result, whose memory is there */
} dt__vlite_call;

typedef dt_status dt__vlite_runner(dt__vlite_call *c);

typedef struct dt__vlite_operator {
    int code;
    const char *name;
    int newest; /* version that LiteRT has; 0: it is not run */
    int least_in, most_in;
    dt__vlite_runner *run, *coded;
    int bytes[DT__VLITE_OPTIONS]; /* of each option: 1, 4, or 0 where there is none */
} dt__vlite_operator;

/* FORMAT with a message about the operator; returns the status. */
dt_status dt__vlite_refuse(const dt__vlite_call *c, const char *format, ...) DT_PRINTF(2, 3);
/* Whether y has these extents; refused if not. */
dt_status dt__vlite_wants(const dt__vlite_call *c, int rank, const int64_t *dims);
/* Counts steps of work; refused above the limit. */
dt_status dt__vlite_work(const dt__vlite_call *c, double steps);
/* So much of that is done: what listeners of the context are told while an operator runs. */
void dt__vlite_did(const dt__vlite_call *c, double steps);
/* Memory until the file is closed; zeroed. */
void *dt__vlite_memory(dt__vlite *v, int64_t count, size_t size);
/* The tensor of an index that was checked when the file was read. */
const dt__vlite_tensor *dt__vlite_tensor_at(const dt__vlite_call *c, int i);
/* Integers of a constant input, at most DT__VLITE_RANK * 2 of them. */
dt_status dt__vlite_list(const dt__vlite_call *c, int i, int *n, int64_t *to);
/* An axis counted from the front; refused if there is none such. */
dt_status dt__vlite_axis(const dt__vlite_call *c, int64_t axis, int rank, int *out);
/* A float after the fused activation of a number. */
double dt__vlite_activated(int activation, double x);
/* Result i of an operator with several. */
dt__vlite_tensor *dt__vlite_result(const dt__vlite_call *c, int i);

/* Runs an operator that is the same function as operators of ONNX: as the nodes that import makes
 * of it (lite_forms.c), by io/onnx/interpret; `form` takes no integers with scales. */
dt__vlite_runner dt__vlite_nodes, dt__vlite_form;
/* Products with weights, of floats too: they share the loops (lite_products.c). */
dt__vlite_runner dt__vlite_conv, dt__vlite_linear, dt__vlite_transposed;
/* Operators that move elements, whose integers keep their scale and zero point (lite_moves.c). */
dt__vlite_runner dt__vlite_move, dt__vlite_reshape, dt__vlite_gather, dt__vlite_resize_nearest;

/* ---- integers (lite_int8.c) ------------------------------------------------------------------ */

/* requantize(v, multiplier, shift) of TFLite with its two roundings; *made = the pair for a real
 * number. */
typedef struct dt__vlite_factor {
    int32_t multiplier;
    int shift;
} dt__vlite_factor;
dt__vlite_factor dt__vlite_factor_of(double real);
int32_t dt__vlite_requantize(int64_t v, dt__vlite_factor f);
/* Codes of floats, as QUANTIZE makes them. */
void dt__vlite_codes_of(dt__vlite_tensor *t, const float *x);
/* The codes between which an activation keeps a result. */
void dt__vlite_clamps(int activation, const dt__vlite_tensor *y, int32_t *least, int32_t *most);
/* SUB is an addition; MAXIMUM and MINIMUM share one, and functions of one code. */
dt__vlite_runner dt__vlite_add_int8, dt__vlite_mul_int8, dt__vlite_prelu_int8, dt__vlite_limit_int8,
    dt__vlite_map_int8, dt__vlite_mean_int8, dt__vlite_softmax_int8,
    dt__vlite_pool_int8; /* lite_pools.c */
dt__vlite_runner dt__vlite_quantize, dt__vlite_dequantize;
/* Whether x is int8 with one scale. */
bool dt__vlite_is_coded(const dt__vlite_tensor *x);
/* Whether x and y are, with the same scale and zero point; refused if not. */
dt_status dt__vlite_same_codes(const dt__vlite_call *c);

#endif
