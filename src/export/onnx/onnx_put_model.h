/* Translation of a trace to an ONNX graph: the state of an export, and functions for emitters. */
#ifndef DT__EXPORT_ONNX_PUT_MODEL_H
#define DT__EXPORT_ONNX_PUT_MODEL_H

#include "export/onnx/onnx_put_quant.h"
#include "export/trace/trace.h"
#include "export/trace/weight_rows.h"
#include "qat/quantized.h"

#include <detent/experimental/export.h>

/* A note about several layers. */
typedef struct dt__put_total {
    int64_t layers, n;
    char names[96]; /* names of the first layers */
} dt__put_total;

typedef struct dt__put_model {
    dt__put p;
    const dt_export_call *call;
    const dt_trace *trace;
    dt__value *value; /* for each value of the trace; NULL: not in the graph yet */
    dt__value batch, length,
        past;         /* int64 [1], or NULL: not needed yet; past: number of earlier tokens */
    dt_status status; /* of errors outside of the builder */
    int64_t layers;   /* number of attention calls so far */
    int64_t integer_products, float_products;
    dt__value powers[2], wide_powers; /* tables of 2^n; NULL: not needed yet */
    bool native;                      /* use the runtime's exp, tanh and sigmoid */
    bool near;                        /* results may differ from detent's in the last bits */
    bool blocks;                      /* the graph has MatMulNBits with activations in blocks */
    bool changed; /* --ops: activations have other codes than in the model, or none */
    /* products that stay in float; codes of -128 that were changed to -127 */
    dt__put_total floats, clipped;
    dt__put_total widened; /* outputs whose scale was enlarged for their bias */
} dt__put_model;

/* Counts n for a layer. */
void dt__put_count(dt__put_total *t, const char *module, int64_t n);

/* How an op of a trace is translated. */
typedef struct dt__put_emitter {
    const char *op;
    const char *to; /* names of the ONNX operators it becomes, for the docs */
    /* Whether the emitter supports a call; if not, `why` receives the reason. NULL: every call. */
    bool (*takes)(const dt_trace *t, const dt_trace_call *c, char *why, size_t size);
    void (*emit)(dt__put_model *m, const dt_trace_call *c);
} dt__put_emitter;

/* Lists that end with an empty row (onnx_put_<topic>.c). */
extern const dt__put_emitter dt__put_maps[], dt__put_shapes[], dt__put_sums[], dt__put_products[],
    dt__put_pools[], dt__put_norms[], dt__put_language[], dt__put_experts[], dt__put_cells[];

/* Writes a call by its emitter (export_onnx.c). */
void dt__put_call(dt__put_model *m, const dt_trace_call *c);

/* ---- operands (onnx_put_model.c) ------------------------------------------------------------- */

/* Operand i as floats (or indices), dequantized if it is quantized. "" if it is absent. */
dt__value dt__put_in(dt__put_model *m, const dt_trace_call *c, int i);
/* The trace's value that is operand i; its rank and extents. */
const dt_trace_value *dt__put_operand(const dt__put_model *m, const dt_trace_call *c, int i);
/* The float data of a parameter or constant; NULL: the operand is absent or quantized. */
const float *dt__put_data(const dt__put_model *m, const dt_trace_call *c, int i);
void dt__put_out(dt__put_model *m, const dt_trace_call *c, int i, dt__value y);
/* min(max(x, 0), 6) (onnx_put_maps.c) */
dt__value dt__put_relu6(dt__put_model *m, dt__value x);
/* An activation quantized in blocks. */
dt__put_blocks dt__put_activation_blocks(dt__put_model *m, const dt_trace_call *c, int i);
dt__put_quantized dt__put_activation(dt__put_model *m, const dt_trace_call *c, int i);

/* The codes of a weight as rows, in memory of the context. */
typedef struct dt__put_rows {
    dt__put_weight w;
    dt__weight_rows rows; /* owned */
    bool integer;         /* usable in an integer product */
    int64_t experts;      /* of a grouped weight; 0: none */
} dt__put_rows;

dt_status dt__put_rows_of(dt__put_model *m, const dt_trace_call *c, int i, dt__put_rows *out);
void dt__put_rows_free(dt__put_model *m, dt__put_rows *r);
/* Whether the product of operands x and w is an integer product. */
bool dt__put_is_integer(const dt__put_model *m, const dt_trace_call *c, int x, int w);

/* An input or output with the type and extents of a value of the trace. */
dt__put_port dt__put_port_of(dt__put_model *m, const dt_trace_value *v, const char *name);

/* ---- repetitions (onnx_put_scan.c) ----------------------------------------------------------- */

/* Writes repeated calls as a Scan, whose body is one repetition. */
void dt__put_repeat(dt__put_model *m, const dt__repeat *r);

/* ---- functions (onnx_put_exp.c) -------------------------------------------------------------- */

dt__value dt__put_exp(dt__put_model *m, dt__value x);
dt__value dt__put_sigmoid(dt__put_model *m, dt__value x);
dt__value dt__put_tanh(dt__put_model *m, dt__value x);
dt__value dt__put_expm1(dt__put_model *m, dt__value x); /* for x <= 0 */

/* ---- other operators (onnx_put_qdq.c) -------------------------------------------------------- */

/* Whether operands x and w are both static int8, with one scale per row of the weight. */
bool dt__put_takes_qdq(const dt_trace_call *c, int x, int w);
/* Their product; `x` is the float input before quantization; v NULL: a linear layer. */
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
/* Reshapes x to the extents of a value of the trace. */
dt__value dt__put_reshaped(dt__put_model *m, dt__value x, int rank, const dt_extent *extent);
/* The value of input past_key_values.N.key or .value. */
dt__value dt__put_past_input(const dt__put_model *m, const char *name);
dt__value dt__put_transposed(dt__put *p, dt__value x, int n, const int64_t *order);
#define DT__PUT_TRANSPOSE(p, x, ...)                                                               \
    dt__put_transposed(p, x, (int)(sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)),    \
                       (const int64_t[]){ __VA_ARGS__ })

#endif
