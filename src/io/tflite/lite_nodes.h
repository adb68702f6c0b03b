/* A TFLite model as a graph of ONNX, which io/onnx reads: each operator becomes nodes, a tensor of
 * codes what is between QuantizeLinear and DequantizeLinear. Images are [N, height, width,
 * channels] in both; nodes of ONNX that compute images are between two transpositions, of which the
 * reader makes no layers. */
#ifndef DT__IO_LITE_NODES_H
#define DT__IO_LITE_NODES_H

#include "core/refusals.h"
#include "io/onnx/onnx.h"
#include "io/tflite/lite_graph.h"

typedef struct dt__lite_nodes {
    dt_ctx *ctx;
    const dt__vlite *v;
    dt__onnx_file *file; /* owns the graph */
    DtOnnx__Graph *graph;
    size_t room_nodes, room_constants;
    const char **value;     /* of each tensor: its floats or codes; NULL: not computed yet */
    const char **real;      /* and the values of codes */
    const int64_t **block;  /* of each, [height, width]: such parts of an image are in its batch
                            * (SPACE_TO_BATCH_ND); NULL: none. The value here is the image */
    bool *wanted;           /* of each: it is arithmetic of shapes that is computed */
    const dt__vlite_op *op; /* the operator that is read */
    bool codes;             /* its results are codes of an input, arranged */
    dt_status status;       /* the first error of this operator; the rest does nothing */
    dt__refusals refusals;  /* of all operators */
} dt__lite_nodes;

typedef dt_status dt__lite_reader(dt__lite_nodes *b);

/* Notes the shapes that nodes read: elsewhere they have the extents that the file declares.
 * (lite_shapes.c) */
void dt__lite_want_shapes(dt__lite_nodes *b);
/* Whether an operator computes a shape that is not needed, or lets indices count from the end. */
bool dt__lite_is_idle(const dt__lite_nodes *b);

/* What an operator becomes. */
typedef struct dt__lite_form {
    int code;
    const char *name; /* of a node of ONNX that computes it, for those that share a reader */
    dt__lite_reader *read;
} dt__lite_form;

/* The form of an operator; NULL: it is not read. (lite_forms.c) */
const dt__lite_form *dt__lite_form_of(int code);

/* The graph of an open file, in memory of `file`, which dt__onnx_close frees; refusals, if that is
 * not NULL, receives all operators that are not read. Errors: UNSUPPORTED, naming all; NOMEM. */
dt_status dt__lite_translate(dt__vlite *v, dt__onnx_file *file, dt__refusals *refusals);

/* The type of a tensor's elements in ONNX. */
int dt__lite_onnx_type(const dt__vlite_tensor *t);
/* The graph of one operator; of its inputs, tensor i that is not a constant is the graph's input of
 * this name. Its outputs are the operator's. Errors: UNSUPPORTED, NOMEM. */
#define DT__LITE_INPUT "t%d"
dt_status dt__lite_translate_op(const dt__vlite *v, const dt__vlite_op *o, dt__onnx_file *file);

/* ---- for forms: after an error they return "" and do nothing --------------------------------- */

/* The error of the operator that is read. */
dt_status dt__form_refuse(dt__lite_nodes *b, const char *format, ...) DT_PRINTF(2, 3);
/* Input i has the pixels of an image in its batch: parts of it, else NULL; the result has them. */
const int64_t *dt__form_block(const dt__lite_nodes *b, int i);
void dt__form_set_block(dt__lite_nodes *b, const int64_t *block);
/* A node with a result; its name. The setters give the newest node an attribute. */
const char *dt__form_node(dt__lite_nodes *b, const char *type, int n, const char *const *in);
#define DT__LITE_NODE(b, type, ...)                                                                \
    dt__form_node(b, type, DT__COUNT_OF(((const char *const[]){ __VA_ARGS__ })),                   \
                  (const char *const[]){ __VA_ARGS__ })
void dt__form_int(dt__lite_nodes *b, const char *name, int64_t value);
void dt__form_ints(dt__lite_nodes *b, const char *name, int n, const int64_t *value);
void dt__form_float(dt__lite_nodes *b, const char *name, double value);
void dt__form_word(dt__lite_nodes *b, const char *name, const char *value);
/* Another result of the newest node. */
const char *dt__form_more(dt__lite_nodes *b);
/* Constants. */
const char *dt__form_list(dt__lite_nodes *b, int n, const int64_t *value);
const char *dt__form_number(dt__lite_nodes *b, double value);

/* Input i of the operator: its tensor (NULL: left out), the values, and a list of integers, which
 * must be constant. */
const dt__vlite_tensor *dt__form_tensor(const dt__lite_nodes *b, int i);
const char *dt__form_in(dt__lite_nodes *b, int i);
/* The values of a tensor in place of input i. */
const char *dt__form_value(dt__lite_nodes *b, int tensor, int i);
bool dt__form_ints_of(dt__lite_nodes *b, int i, int most, int *n, int64_t *to);
/* The codes of input i where the result has the same scale, else its values: of operators that
 * choose or arrange elements. */
const char *dt__form_codes_or_in(dt__lite_nodes *b, int i);
/* Result k, and its tensor. */
const dt__vlite_tensor *dt__form_out(const dt__lite_nodes *b, int k);
dt_status dt__form_set(dt__lite_nodes *b, int k, const char *value);
/* Result 0 after the activation of a number. */
dt_status dt__form_set_activated(dt__lite_nodes *b, int64_t activation, const char *value);
/* A mean of codes. One between two of them becomes the one further from zero, but QuantizeLinear
 * takes the even one: where codes stay codes of the same scale, it is moved by `part` of a step. */
const char *dt__form_away(dt__lite_nodes *b, const char *value, double part);
/* An option that is a float. */
double dt__form_real(const dt__lite_nodes *b, int option);
/* An axis of a tensor, counted from the front. */
int64_t dt__form_axis(dt__lite_nodes *b, int64_t axis, int rank);
const char *dt__form_turned(dt__lite_nodes *b, const char *x, int rank, const int64_t *order);
const char *dt__form_channels_first(dt__lite_nodes *b, const char *x);
const char *dt__form_channels_last(dt__lite_nodes *b, const char *x);
/* A value in the extents that the file declares of a tensor. */
const char *dt__form_shaped(dt__lite_nodes *b, const char *x, const dt__vlite_tensor *like);

#endif
