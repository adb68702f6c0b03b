/* From a trace to a model of TFLite: the state of an export, and what emitters share.
 *
 * TFLite's images have their channels last. A value of the trace stands in the file in one of three
 * layouts; an emitter asks for the one that it reads, and conversions are written only where no
 * emitter could do without. */
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
    int plain, last;  /* its conversions; -1: none yet */
} dt__lite_value;

typedef struct dt__lite_model {
    dt__lite p;
    const dt_export_call *call;
    const dt_trace *trace;
    dt__lite_value *value; /* of each value of the trace */
    int *weight;           /* likewise: a linear layer's weight as a tensor; -1: none yet */
    int64_t *uses;         /* likewise: how many operands of calls, and outputs, it is */
    bool *spatial;         /* likewise: an image's op reads it */
    bool *folded;          /* of each call: an earlier one has written it */
    dt_status status;      /* of what is not a failure of the builder */
    int64_t integer_products, float_products;
    int64_t pointwise;    /* convolutions of 1 x 1, int8, with dynamic ranges */
    int64_t weights_only; /* products of floats whose weights are codes in the model */
    int64_t widened;      /* weights of at most 4 bits that are written with 8 */
    bool blocks;          /* a weight has blocks */
    /* Inputs, then outputs: "last" where an end has its channels last, else "plain", with commas
     * between them. */
    char ends[8 * (DT_MAX_IN + DT_MAX_OUT)];
} dt__lite_model;

/* How an op of a trace is written. */
typedef struct dt__lite_emitter {
    const char *op;
    const char *to; /* the operators that it becomes */
    bool spatial;   /* its first operand is an image, channels last */
    /* Whether it can write a call; if not, says why. NULL: every call. */
    bool (*takes)(const dt_trace *t, const dt_trace_call *c, char *why, size_t size);
    void (*emit)(dt__lite_model *m, const dt_trace_call *c);
} dt__lite_emitter;

/* The i-th emitter; NULL past the last. */
const dt__lite_emitter *dt__lite_emitter_at(int i);
/* The emitter of an op; NULL: there is none. */
const dt__lite_emitter *dt__lite_emitter_of(const char *op);
/* Lists, ended by an empty row (tflite_put_<topic>.c). */
extern const dt__lite_emitter dt__lite_maps[], dt__lite_moves[], dt__lite_sums[], dt__lite_linear[],
    dt__lite_convs[], dt__lite_pools[], dt__lite_norms[], dt__lite_cells[], dt__lite_device[];

/* ---- values (tflite_put_model.c) ------------------------------------------------------------- */

const dt_trace_value *dt__lite_operand(const dt__lite_model *m, const dt_trace_call *c, int i);
const dt_trace_value *dt__lite_result_of(const dt__lite_model *m, const dt_trace_call *c);
/* The float data of a parameter or constant; NULL: the operand is not given, or is quantized. */
const float *dt__lite_data(const dt__lite_model *m, const dt_trace_call *c, int i);
/* Extents of a value of one example, as in the trace; and with the channels last. */
dt__lite_shape dt__lite_plain_shape(const dt_trace_value *v);
dt__lite_shape dt__lite_last_shape(const dt_trace_value *v);
/* The dimension of the file that dimension d of a value of that rank becomes with channels last. */
int dt__lite_last_axis(int rank, int d);

/* Operand i in the layout of its name; of a quantized weight the dequantized values. */
int dt__lite_plain(dt__lite_model *m, const dt_trace_call *c, int i);
int dt__lite_last(dt__lite_model *m, const dt_trace_call *c, int i);
/* A coded constant as int8, with leading extents of 1 up to a rank; `last`: its channels last. */
int dt__lite_constant_codes(dt__lite_model *m, const dt_trace_value *v, int rank, bool last);
/* dt__lite_plain for an emitter whose operators broadcast a constant row to the batch. */
int dt__lite_rows(dt__lite_model *m, const dt_trace_call *c, int i);
/* Operand i as it is in the file. */
dt__lite_value dt__lite_as_is(dt__lite_model *m, const dt_trace_call *c, int i);
/* Whether operand i is in the file with the channels last. */
bool dt__lite_is_last(const dt__lite_model *m, const dt_trace_call *c, int i);
void dt__lite_out(dt__lite_model *m, const dt_trace_call *c, int i, int tensor,
                  dt__lite_layout layout);
/* The same of a value in any layout. */
void dt__lite_out_as(dt__lite_model *m, const dt_trace_call *c, dt__lite_value v);

/* ---- operators that several emitters write (tflite_put_model.c) ------------------------------ */

/* An operator of one operand whose result has its shape. */
int dt__lite_map(dt__lite_model *m, dt__lite_operator op, int x);
/* x after an activation of a batch norm (DT_ACT_NONE, DT_ACT_RELU or DT_ACT_RELU6), which is part
 * of the operator that made x where it can be. */
int dt__lite_activated(dt__lite_model *m, int x, int64_t activation);
/* ADD, MUL, SUB, DIV, MINIMUM, MAXIMUM: b is broadcast to a. */
int dt__lite_with(dt__lite_model *m, dt__lite_operator op, int a, int b);
int dt__lite_transposed(dt__lite_model *m, int x, int n, const int64_t *order);
/* x with another shape. `batch` is the dimension of the examples, -1: none. */
int dt__lite_reshaped(dt__lite_model *m, int x, const dt__lite_shape *shape, int batch);
/* Elements start ... stop - 1 of each dimension, `step` apart; NULL: 1. A dimension that is taken
 * whole may be resized. */
typedef struct dt__lite_slice {
    int64_t start[DT__LITE_RANK], stop[DT__LITE_RANK], step[DT__LITE_RANK];
} dt__lite_slice;
int dt__lite_sliced(dt__lite_model *m, int x, const dt__lite_slice *s);
dt__lite_slice dt__lite_whole(const dt__lite_model *m, int x);
/* x with before[d] and after[d] elements of `value` around it. */
int dt__lite_padded(dt__lite_model *m, int x, const int64_t *before, const int64_t *after,
                    float value);
int dt__lite_joined(dt__lite_model *m, const int *x, int n, int axis);
/* SUM, MEAN, REDUCE_MAX over axes. */
int dt__lite_reduced(dt__lite_model *m, dt__lite_operator op, int x, const dt_ints *axes,
                     bool keep);
/* n floats as a constant [n]. */
int dt__lite_floats(dt__lite_model *m, const char *name, int64_t n, const float *data);

/* ---- weights (tflite_put_weight.c) ----------------------------------------------------------- */

/* The weight of a product: floats, or codes with a scale a row or a block. Rows are outputs,
 * columns the other dimensions in the order of the trace. */
typedef struct dt__lite_weight {
    const char *name;
    int64_t rows, columns;
    const float *floats; /* NULL: codes */
    dt__weight_rows r;
    bool one_scale;     /* all rows have the scale of the first */
    float *dequantized; /* owned; what `floats` is where only weights are quantized */
} dt__lite_weight;

/* `dynamic` tells whether the product multiplies codes. The caller frees *out in any case. */
dt_status dt__lite_weight_of(dt__lite_model *m, const dt_trace_call *c, int i, bool dynamic,
                             dt__lite_weight *out);
void dt__lite_weight_free(dt__lite_model *m, dt__lite_weight *w);
/* Where the elements of a weight go: `to` of n elements takes element from(user, i). */
typedef struct dt__lite_order {
    dt__lite_shape shape;
    int axis;                                     /* the dimension of the rows */
    int64_t (*from)(const void *user, int64_t i); /* an element [rows][columns]; -1: zero */
    const void *user;
    bool wide; /* codes of 4 bits are written with 8 */
} dt__lite_order;
int dt__lite_put_weight(dt__lite_model *m, const dt__lite_weight *w, const dt__lite_order *o);

/* Whether the product of operand 0 and weight i can be written: ranges, scales, codes. */
bool dt__lite_takes_product(const dt_trace *t, const dt_trace_call *c, int weight, char *why,
                            size_t size);
/* Whether it multiplies codes. */
bool dt__lite_is_dynamic(const dt_trace_call *c, int weight);

/* ---- networks of integers (tflite_put_device.c) ---------------------------------------------- */

/* An op of device.h with a weight: its integers, and its codes as a weight. */
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
/* A tensor becomes int8 with scale and zero point of a coded value. */
void dt__lite_coded(dt__lite_model *m, int tensor, const dt_trace_value *v);
/* The fused activation of a DT_ACT_... */
int dt__lite_activation(int activation);
/* The emitters of its products, beside those of floats. */
void dt__lite_put_linear_codes(dt__lite_model *m, const dt_trace_call *c);
void dt__lite_put_conv_codes(dt__lite_model *m, const dt_trace_call *c);

/* The dimension that the batch is part of; -1: none. */
int dt__lite_batch_of(const dt_trace_value *v);

#endif
