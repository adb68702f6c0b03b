/* Translates a TFLite model to an ONNX graph, which io/onnx reads: each operator becomes nodes, and
 * a tensor of codes the value between QuantizeLinear and DequantizeLinear. Images are [N, height,
 * width, channels] in both; nodes of ONNX that compute images are between two transpositions, of
 * which the reader makes no layers. */
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
    const char **value; /* for each tensor its floats or codes; NULL: not computed yet */
    const char **real;  /* for each tensor of codes its dequantized values */
    /* for each tensor, [height, width]: after SPACE_TO_BATCH_ND, such blocks of the image are in
     * the file's batch; NULL: none. The value here is the whole image */
    const int64_t **block;
    bool *wanted;           /* for each tensor: it is shape arithmetic that must be computed */
    const dt__vlite_op *op; /* the operator that is read */
    bool codes;             /* its results are rearranged codes of an input */
    dt_status status;       /* the first error of this operator; later calls do nothing */
    dt__refusals refusals;  /* refused operators */
} dt__lite_nodes;

typedef dt_status dt__lite_reader(dt__lite_nodes *b);

/* Marks the shapes that nodes need as computed values; others are declared in the file
 * (lite_shapes.c). */
void dt__lite_want_shapes(dt__lite_nodes *b);
/* Whether the operator can be skipped: it computes a shape that is not needed, or is part of making
 * negative indices count from the end. */
bool dt__lite_is_idle(const dt__lite_nodes *b);

/* How an operator is translated. */
typedef struct dt__lite_form {
    int code;
    const char *name; /* ONNX operator, for readers of several operators */
    dt__lite_reader *read;
} dt__lite_form;

/* How an operator is translated; NULL: unsupported (lite_forms.c). */
const dt__lite_form *dt__lite_form_of(int code);

/* Makes the graph of an open file, in memory of `file`, which dt__onnx_close frees. `refusals`, if
 * not NULL, receives all unsupported operators. Errors: UNSUPPORTED, naming all; NOMEM. */
dt_status dt__lite_translate(dt__vlite *v, dt__onnx_file *file, dt__refusals *refusals);

/* The type of a tensor's elements in ONNX. */
int dt__lite_onnx_type(const dt__vlite_tensor *t);
/* Makes the graph of one operator. An input tensor i that is not constant is the graph input of
 * this name. The graph's outputs are the operator's. Errors: UNSUPPORTED, NOMEM. */
#define DT__LITE_INPUT "t%d"
dt_status dt__lite_translate_op(const dt__vlite *v, const dt__vlite_op *o, dt__onnx_file *file);

/* ---- for forms: after an error they return "" and do nothing --------------------------------- */

/* Sets the error of the current operator. */
dt_status dt__form_refuse(dt__lite_nodes *b, const char *format, ...) DT_PRINTF(2, 3);
/* The blocks of input i (dt__lite_nodes.block), which the result has, too; NULL: none. */
const int64_t *dt__form_block(const dt__lite_nodes *b, int i);
void dt__form_set_block(dt__lite_nodes *b, const int64_t *block);
/* Adds a node and returns its result's name. The setters add an attribute to the newest node. */
const char *dt__form_node(dt__lite_nodes *b, const char *type, int n, const char *const *in);
#define DT__LITE_NODE(b, type, ...)                                                                \
    dt__form_node(b, type, DT__COUNT_OF(((const char *const[]){ __VA_ARGS__ })),                   \
                  (const char *const[]){ __VA_ARGS__ })
void dt__form_int(dt__lite_nodes *b, const char *name, int64_t value);
void dt__form_ints(dt__lite_nodes *b, const char *name, int n, const int64_t *value);
void dt__form_float(dt__lite_nodes *b, const char *name, double value);
void dt__form_word(dt__lite_nodes *b, const char *name, const char *value);
/* Adds another result to the newest node. */
const char *dt__form_more(dt__lite_nodes *b);
/* Constants. */
const char *dt__form_list(dt__lite_nodes *b, int n, const int64_t *value);
const char *dt__form_number(dt__lite_nodes *b, double value);

/* Input i of the operator: its tensor (NULL: left out); its values; its integers, which must be
 * constant. */
const dt__vlite_tensor *dt__form_tensor(const dt__lite_nodes *b, int i);
const char *dt__form_in(dt__lite_nodes *b, int i);
/* The values of a tensor that replaces input i. */
const char *dt__form_value(dt__lite_nodes *b, int tensor, int i);
bool dt__form_ints_of(dt__lite_nodes *b, int i, int most, int *n, int64_t *to);
/* For operators that select or rearrange elements: the codes of input i if the result has the same
 * scale, else its values. */
const char *dt__form_codes_or_in(dt__lite_nodes *b, int i);
/* Result k: its tensor, and its name. */
const dt__vlite_tensor *dt__form_out(const dt__lite_nodes *b, int k);
dt_status dt__form_set(dt__lite_nodes *b, int k, const char *value);
/* Sets result 0 to `value` after the fused activation. */
dt_status dt__form_set_activated(dt__lite_nodes *b, int64_t activation, const char *value);
/* For a mean of codes: TFLite rounds ties away from zero, QuantizeLinear to even, so if input and
 * result have the same scale, the mean is moved by `part` of a step. */
const char *dt__form_away(dt__lite_nodes *b, const char *value, double part);
/* An option that is a float. */
double dt__form_real(const dt__lite_nodes *b, int option);
/* An axis of a tensor, counted from the front. */
int64_t dt__form_axis(dt__lite_nodes *b, int64_t axis, int rank);
const char *dt__form_turned(dt__lite_nodes *b, const char *x, int rank, const int64_t *order);
const char *dt__form_channels_first(dt__lite_nodes *b, const char *x);
const char *dt__form_channels_last(dt__lite_nodes *b, const char *x);
/* A value reshaped to the extents that the file declares for a tensor. */
const char *dt__form_shaped(dt__lite_nodes *b, const char *x, const dt__vlite_tensor *like);

#endif
