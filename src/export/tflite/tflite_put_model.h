/* Translation of a trace to a TFLite model: the state of an export, and functions for emitters.
 *
 * TFLite's images have channels last. A value of the trace has one of three layouts in the file; an
 * emitter requests the layout that it reads, and a conversion is written only if it needs one. */
#ifndef DT__EXPORT_TFLITE_PUT_MODEL_H
#define DT__EXPORT_TFLITE_PUT_MODEL_H

#include "export/tflite/tflite_put.h"
#include "export/trace/trace.h"
#include "export/trace/weight_rows.h"
#include "ops/device/device_layer.h"

#include <detent/experimental/export.h>

typedef enum dt__lite_layout {
    DT__LITE_PLAIN, /* as in the trace */
    DT__LITE_LAST,  /* [N, C, H, W] as [N, H, W, C], [N, C, L] as [N, 1, L, C] */
    DT__LITE_FLAT   /* [N, C * pixels], in the order [N, pixels, C] */
} dt__lite_layout;

typedef struct dt__lite_value {
    int tensor; /* -1: not in the graph yet */
    dt__lite_layout layout;
    int64_t channels; /* of FLAT */
    int plain, last;  /* tensors with its conversions; -1: not made yet */
} dt__lite_value;

typedef struct dt__lite_model {
    dt__lite p;
    const dt_export_call *call;
    const dt_trace *trace;
    dt__lite_value *value; /* for each value of the trace */
    /* for each value: its tensor as weight of a linear layer; -1: not made yet */
    int *weight;
    int64_t *uses;    /* for each value: number of operands and outputs that it is */
    bool *spatial;    /* for each value: an op on images reads it */
    bool *folded;     /* for each call: folded into an earlier one */
    dt_status status; /* of errors outside of the builder */
    int64_t integer_products, float_products;
    int64_t pointwise;    /* number of 1 x 1 convolutions in int8 with dynamic ranges */
    int64_t weights_only; /* number of float products whose weights are quantized in the model */
    int64_t widened;      /* number of weights of at most 4 bits that are stored in 8 */
    bool blocks;          /* a weight has block scales */
    /* Inputs, then outputs: "last" where an end has its channels last, else "plain", with commas
     * between them. */
    char ends[8 * (DT_MAX_IN + DT_MAX_OUT)];
} dt__lite_model;

/* How an op of a trace is translated. */
typedef struct dt__lite_emitter {
    const char *op;
    const char *to; /* names of the operators it becomes, for the docs */
    bool spatial;   /* the first operand is an image with channels last */
    /* Whether the emitter supports a call; if not, `why` receives the reason. NULL: every call. */
    bool (*takes)(const dt_trace *t, const dt_trace_call *c, char *why, size_t size);
    void (*emit)(dt__lite_model *m, const dt_trace_call *c);
} dt__lite_emitter;

/* The i-th emitter; NULL: after the last. */
const dt__lite_emitter *dt__lite_emitter_at(int i);
/* The emitter of an op; NULL: none. */
const dt__lite_emitter *dt__lite_emitter_of(const char *op);
/* Lists that end with an empty row (tflite_put_<topic>.c). */
extern const dt__lite_emitter dt__lite_maps[], dt__lite_moves[], dt__lite_sums[], dt__lite_linear[],
    dt__lite_convs[], dt__lite_pools[], dt__lite_norms[], dt__lite_cells[], dt__lite_device[];

/* ---- values (tflite_put_model.c) ------------------------------------------------------------- */

const dt_trace_value *dt__lite_operand(const dt__lite_model *m, const dt_trace_call *c, int i);
const dt_trace_value *dt__lite_result_of(const dt__lite_model *m, const dt_trace_call *c);
/* The float data of a parameter or constant; NULL: the operand is absent or quantized. */
const float *dt__lite_data(const dt__lite_model *m, const dt_trace_call *c, int i);
/* Extents of a value for one example: in the trace's order, and with channels last. */
dt__lite_shape dt__lite_plain_shape(const dt_trace_value *v);
dt__lite_shape dt__lite_last_shape(const dt_trace_value *v);
/* The dimension with channels last that dimension d becomes, for values of this rank. */
int dt__lite_last_axis(int rank, int d);

/* Operand i in a layout; a quantized weight is dequantized. */
int dt__lite_plain(dt__lite_model *m, const dt_trace_call *c, int i);
int dt__lite_last(dt__lite_model *m, const dt_trace_call *c, int i);
/* A quantized constant as int8, with leading extents of 1 up to a rank; `last`: with channels
 * last. */
int dt__lite_constant_codes(dt__lite_model *m, const dt_trace_value *v, int rank, bool last);
/* dt__lite_plain for operators that broadcast a constant row to the batch. */
int dt__lite_rows(dt__lite_model *m, const dt_trace_call *c, int i);
/* Operand i in the layout that it has in the file. */
dt__lite_value dt__lite_as_is(dt__lite_model *m, const dt_trace_call *c, int i);
/* Whether operand i has channels last in the file. */
bool dt__lite_is_last(const dt__lite_model *m, const dt_trace_call *c, int i);
void dt__lite_out(dt__lite_model *m, const dt_trace_call *c, int i, int tensor,
                  dt__lite_layout layout);
/* Sets a call's result to a value in any layout. */
void dt__lite_out_as(dt__lite_model *m, const dt_trace_call *c, dt__lite_value v);

/* ---- operators that several emitters write (tflite_put_model.c) ------------------------------ */

/* Adds an operator of one operand whose result has the same shape. */
int dt__lite_map(dt__lite_model *m, dt__lite_operator op, int x);
/* Applies an activation (DT_ACT_NONE, DT_ACT_RELU or DT_ACT_RELU6) to x; fuses it into the operator
 * that made x if possible. */
int dt__lite_activated(dt__lite_model *m, int x, int64_t activation);
/* ADD, MUL, SUB, DIV, MINIMUM, MAXIMUM: b is broadcast to a. */
int dt__lite_with(dt__lite_model *m, dt__lite_operator op, int a, int b);
int dt__lite_transposed(dt__lite_model *m, int x, int n, const int64_t *order);
/* Reshapes x. `batch` is the dimension of the examples, -1: none. */
int dt__lite_reshaped(dt__lite_model *m, int x, const dt__lite_shape *shape, int batch);
/* Elements start ... stop - 1 of each dimension, `step` apart; step NULL: 1. A dimension that is
 * selected whole may be resized. */
typedef struct dt__lite_slice {
    int64_t start[DT__LITE_RANK], stop[DT__LITE_RANK], step[DT__LITE_RANK];
} dt__lite_slice;
int dt__lite_sliced(dt__lite_model *m, int x, const dt__lite_slice *s);
dt__lite_slice dt__lite_whole(const dt__lite_model *m, int x);
/* x padded with before[d] and after[d] elements of `value` in dimension d. */
int dt__lite_padded(dt__lite_model *m, int x, const int64_t *before, const int64_t *after,
                    float value);
int dt__lite_joined(dt__lite_model *m, const int *x, int n, int axis);
/* SUM, MEAN, REDUCE_MAX over axes. */
int dt__lite_reduced(dt__lite_model *m, dt__lite_operator op, int x, const dt_ints *axes,
                     bool keep);
/* n floats as a constant [n]. */
int dt__lite_floats(dt__lite_model *m, const char *name, int64_t n, const float *data);

/* ---- weights (tflite_put_weight.c) ----------------------------------------------------------- */

/* The weight of a product: floats, or codes with one scale per row or block. Rows are outputs,
 * columns the other dimensions in the order of the trace. */
typedef struct dt__lite_weight {
    const char *name;
    int64_t rows, columns;
    const float *floats; /* NULL: codes */
    dt__weight_rows r;
    bool one_scale; /* all rows have the same scale */
    /* owned; data of `floats` if the product is of floats and only the weight is quantized */
    float *dequantized;
} dt__lite_weight;

/* Reads a weight. `dynamic`: the product multiplies codes. The caller frees *out in any case. */
dt_status dt__lite_weight_of(dt__lite_model *m, const dt_trace_call *c, int i, bool dynamic,
                             dt__lite_weight *out);
void dt__lite_weight_free(dt__lite_model *m, dt__lite_weight *w);
/* The order of a weight in the file: element i of `to`, of n elements, is element from(user, i) of
 * the weight. */
typedef struct dt__lite_order {
    dt__lite_shape shape;
    int axis;                                     /* the dimension of `to` that is the rows */
    int64_t (*from)(const void *user, int64_t i); /* index in [rows][columns]; -1: zero */
    const void *user;
    bool wide; /* codes of 4 bits are stored in 8 */
} dt__lite_order;
int dt__lite_put_weight(dt__lite_model *m, const dt__lite_weight *w, const dt__lite_order *o);

/* Whether the product of operand 0 and weight i can be written; checks ranges, scales, codes. */
bool dt__lite_takes_product(const dt_trace *t, const dt_trace_call *c, int weight, char *why,
                            size_t size);
/* Whether the product multiplies codes, with dynamically quantized inputs. */
bool dt__lite_is_dynamic(const dt_trace_call *c, int weight);

/* ---- networks of integers (tflite_put_device.c) ---------------------------------------------- */

/* A layer of device.h with a weight: its integer parameters, and its codes as a weight. */
typedef struct dt__lite_layer {
    dt__device_layer layer;
    dt__lite_weight w; /* lent by `layer` */
    bool one_scale;
    int activation; /* DT_ACT_... */
} dt__lite_layer;

bool dt__lite_is_device(const dt_trace_call *c);
/* The caller frees *out, also after an error. */
dt_status dt__lite_layer_of(dt__lite_model *m, const dt_trace_call *c, dt__lite_layer *out);
void dt__lite_layer_free(dt__lite_model *m, dt__lite_layer *l);
int dt__lite_layer_bias(dt__lite_model *m, const dt_trace_call *c, const dt__lite_layer *l);
/* Makes a tensor int8 with scale and zero point of a coded value. */
void dt__lite_coded(dt__lite_model *m, int tensor, const dt_trace_value *v);
/* The fused activation for a DT_ACT_... */
int dt__lite_activation(int activation);
/* Emitters of its products. */
void dt__lite_put_linear_codes(dt__lite_model *m, const dt_trace_call *c);
void dt__lite_put_conv_codes(dt__lite_model *m, const dt_trace_call *c);

/* The dimension that contains the batch; -1: none. */
int dt__lite_batch_of(const dt_trace_value *v);

#endif
