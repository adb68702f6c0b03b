/* From a trace to a graph of ONNX: the state of an export, and what emitters share. */
#ifndef DT__EXPORT_ONNX_PUT_MODEL_H
#define DT__EXPORT_ONNX_PUT_MODEL_H

#include "export/onnx/onnx_put_quant.h"
#include "export/trace/trace.h"
#include "export/trace/weight_rows.h"
#include "qat/quantized.h"

#include <detent/experimental/export.h>

/* What is told of all layers in one line. */
typedef struct dt__put_total {
    int64_t layers, n;
    char names[96]; /* of the first of them */
} dt__put_total;

typedef struct dt__put_model {
    dt__put p;
    const dt_export_call *call;
    const dt_trace *trace;
    dt__value *value; /* of each value of the trace; NULL: not in the graph yet */
    dt__value batch, length,
        past;         /* i64 [1], or NULL: not asked for yet; past: of earlier tokens */
    dt_status status; /* of what is not a failure of the builder */
    int64_t layers;   /* attention calls so far */
    int64_t integer_products, float_products;
    dt__value powers[2], wide_powers; /* tables of 2^n, or NULL */
    bool native;                      /* exp, tanh and sigmoid are the runtime's */
    bool near;                        /* an op whose last bits differ from detent's is in it */
    bool blocks;                      /* MatMulNBits of activations in blocks is */
    bool changed; /* --ops: activations have other codes than the model's, or none */
    dt__put_total floats, clipped; /* products that stay in float; codes of -128 that do not */
    dt__put_total widened;         /* outputs whose scale was enlarged for their bias */
} dt__put_model;

/* Adds a layer. */
void dt__put_count(dt__put_total *t, const char *module, int64_t n);

/* How an op of a trace is written. */
typedef struct dt__put_emitter {
    const char *op;
    const char *to; /* the operators that it becomes */
    /* Whether it can write a call; if not, says why. NULL: every call. */
    bool (*takes)(const dt_trace *t, const dt_trace_call *c, char *why, size_t size);
    void (*emit)(dt__put_model *m, const dt_trace_call *c);
} dt__put_emitter;

/* Lists, ended by an empty row (onnx_put_<topic>.c). */
extern const dt__put_emitter dt__put_maps[], dt__put_shapes[], dt__put_sums[], dt__put_products[],
    dt__put_pools[], dt__put_norms[], dt__put_language[], dt__put_experts[], dt__put_cells[];

/* Writes a call by its emitter (export_onnx.c). */
void dt__put_call(dt__put_model *m, const dt_trace_call *c);

/* ---- operands (onnx_put_model.c) ------------------------------------------------------------- */

/* Operand i as floats (or indices): of a quantized one its dequantized values. "" if it is not
 * given. */
dt__value dt__put_in(dt__put_model *m, const dt_trace_call *c, int i);
/* The value of the trace that operand i is; its rank and extents. */
const dt_trace_value *dt__put_operand(const dt__put_model *m, const dt_trace_call *c, int i);
/* The float data of a parameter or constant; NULL: the operand is not given, or is quantized. */
const float *dt__put_data(const dt__put_model *m, const dt_trace_call *c, int i);
void dt__put_out(dt__put_model *m, const dt_trace_call *c, int i, dt__value y);
/* min(max(x, 0), 6) (onnx_put_maps.c) */
dt__value dt__put_relu6(dt__put_model *m, dt__value x);
/* An activation as codes. */
dt__put_blocks dt__put_activation_blocks(dt__put_model *m, const dt_trace_call *c, int i);
dt__put_quantized dt__put_activation(dt__put_model *m, const dt_trace_call *c, int i);

/* The codes of a weight as rows, in memory of the context. */
typedef struct dt__put_rows {
    dt__put_weight w;
    dt__weight_rows rows; /* owned */
    bool integer;         /* an integer product can multiply them */
    int64_t experts;      /* of a grouped weight; 0: none */
} dt__put_rows;

dt_status dt__put_rows_of(dt__put_model *m, const dt_trace_call *c, int i, dt__put_rows *out);
void dt__put_rows_free(dt__put_model *m, dt__put_rows *r);
/* Whether the product of operands x and w multiplies integers. */
bool dt__put_is_integer(const dt__put_model *m, const dt_trace_call *c, int x, int w);

/* An input or output with the type and extents of a value of the trace. */
dt__put_port dt__put_port_of(dt__put_model *m, const dt_trace_value *v, const char *name);

/* ---- repetitions (onnx_put_scan.c) ----------------------------------------------------------- */

/* Writes calls that repeat as a Scan, whose body they are once. */
void dt__put_repeat(dt__put_model *m, const dt__repeat *r);

/* ---- functions (onnx_put_exp.c) -------------------------------------------------------------- */

dt__value dt__put_exp(dt__put_model *m, dt__value x);
dt__value dt__put_sigmoid(dt__put_model *m, dt__value x);
dt__value dt__put_tanh(dt__put_model *m, dt__value x);
dt__value dt__put_expm1(dt__put_model *m, dt__value x); /* of x <= 0 */

/* ---- other operators (onnx_put_qdq.c) -------------------------------------------------------- */

/* Whether operands x and w make a pair of static int8 codes, a scale a row of the weight. */
bool dt__put_takes_qdq(const dt_trace_call *c, int x, int w);
/* Their product, `x` being the floats in front of its quantization; v NULL: a linear layer. */
dt__value dt__put_qdq(dt__put_model *m, const dt_trace_call *c, const dt__put_weight *w,
                      const dt__put_conv *v, dt__value x);
/* Operand i without its quantization. */
dt__value dt__put_plain(dt__put_model *m, const dt_trace_call *c, int i);

/* ---- options --------------------------------------------------------------------------------- */

/* A dimension counted from the front. */
int dt__put_dim(const dt_trace_value *v, int64_t dim);

/* ---- shapes ---------------------------------------------------------------------------------- */

/* Extents as a value, i64 [rank]. */
dt__value dt__put_extents(dt__put_model *m, int rank, const dt_extent *extent);
/* One extent, i64 [1]. */
dt__value dt__put_extent_of(dt__put_model *m, dt_extent e);
/* x with the extents of a value of the trace; its elements stay in order. */
dt__value dt__put_reshaped(dt__put_model *m, dt__value x, int rank, const dt_extent *extent);
/* The value of an input past_key_values.N.key or .value, which exists from the beginning. */
dt__value dt__put_past_input(const dt__put_model *m, const char *name);
dt__value dt__put_transposed(dt__put *p, dt__value x, int n, const int64_t *order);
#define DT__PUT_TRANSPOSE(p, x, ...)                                                               \
    dt__put_transposed(p, x, (int)(sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)),    \
                       (const int64_t[]){ __VA_ARGS__ })

#endif
