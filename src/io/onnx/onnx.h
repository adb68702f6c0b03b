/* Reading ONNX models (https://github.com/onnx/onnx, docs/IR.md and docs/Operators.md) as models of
 * family `layers`.
 *
 * Nodes are read in order. A value of the graph is either constant or computed by a layer. Nodes
 * with constant inputs are folded, so shape arithmetic disappears; the batch size is a symbol in
 * it. A computed value has an order of dimensions: a Transpose only changes that order, and a layer
 * `permute` is made when a later node needs another order. Layers that no output needs are removed
 * at the end. */
#ifndef DT__IO_ONNX_H
#define DT__IO_ONNX_H

#include "core/core.h"
#include "nn/lists/layer_type.h"

#include <detent/experimental/io.h>

#include "io/onnx.pb-c.h"

typedef DtOnnx__Node dt__onnx_node;
typedef DtOnnx__Tensor dt__onnx_tensor;

/* ---- files (onnx_file.c) --------------------------------------------------------------------- */

/* A large tensor: protobuf-c's copy, and the bytes in the mapped file (onnx_large.c). */
typedef struct dt__onnx_large {
    const uint8_t *copy, *at;
    size_t bytes;
    bool away; /* the copy was freed */
} dt__onnx_large;

/* A mapped file with data of tensors (onnx_external.c). */
typedef struct dt__onnx_map {
    struct dt__onnx_map *next;
    void *block; /* memory of this struct */
    const char *path;
    void *at; /* NULL: the file is empty, or not a regular file */
    size_t bytes;
} dt__onnx_map;

typedef struct dt__onnx_file {
    dt_ctx *ctx;
    const char *path;     /* for messages, lent */
    const char *whole;    /* path with its folder, lent */
    void *blocks;         /* memory of the model */
    DtOnnx__Model *model; /* always has a graph */
    int64_t opset;
    /* image inputs and outputs are [N, height, width, channels] in the file, not in the model */
    bool channels_last;
    size_t size;           /* in bytes */
    size_t field;          /* bytes of the field that is being unpacked */
    void *map;             /* the mapped file; NULL: none, or not mapped */
    dt__onnx_large *large; /* tensors whose copies can be freed */
    size_t n_large;
    dt__onnx_map **maps; /* list of mapped data files; NULL: the file may have none */
    /* of a graph made from another format: names of inputs and outputs in its file; an entry or
     * list that is NULL: the graph's names */
    const char **in_names, **out_names;
} dt__onnx_file;

/* Opens a file; dt__onnx_close frees it, also after an error: IO; FORMAT; UNSUPPORTED (the operator
 * set's version); NOMEM. */
dt_status dt__onnx_open(dt_ctx *ctx, const char *path, dt__onnx_file *out);
void dt__onnx_close(dt__onnx_file *file);
/* Unpacks a graph attribute into memory of the file; `g` NULL: there is none. A graph without nodes
 * is an error. Errors: FORMAT, NOMEM. */
dt_status dt__onnx_unpack_graph(dt__onnx_file *f, const ProtobufCBinaryData *g,
                                DtOnnx__Graph **out);
/* Finds the large tensors of a mapped file (onnx_large.c). NOMEM. */
dt_status dt__onnx_find_large(dt__onnx_file *f);
/* Frees their copies; from then on dt__onnx_bytes reads them from the file. */
void dt__onnx_give_back(const dt__onnx_file *f);
/* The bytes at `at` of a constant: in the file, if the copy was freed. */
const void *dt__onnx_bytes(const dt__onnx_file *f, const void *at);
/* Whether a string in a message contains a NUL. */
bool dt__onnx_has_nul(const ProtobufCMessageDescriptor *type, const uint8_t *from, size_t n);
/* Whether the graph input of this name is also an initializer, as in old files. */
bool dt__onnx_is_initializer(const DtOnnx__Graph *graph, const char *name);

/* The data of a tensor in another file of the same folder (onnx_external.c): *out points to `bytes`
 * bytes of that file, which stays mapped, or of a copy in the block list *blocks. Errors:
 * UNSUPPORTED (a path outside the folder), FORMAT (fewer bytes, or another length), IO, NOMEM. */
dt_status dt__onnx_external(const dt__onnx_file *file, const dt__onnx_tensor *t, size_t bytes,
                            void **blocks, ProtobufCBinaryData *out);
/* Unmaps all data files; called by dt__onnx_close. */
void dt__onnx_unmap(dt__onnx_file *f);
/* A model's memory is at most this many times the size of its files. */
#define DT__ONNX_GROWTH 40

/* ---- values ---------------------------------------------------------------------------------- */

/* A number of shape arithmetic: `value`, times the batch size if `batch`. */
typedef struct dt__onnx_number {
    double value;
    bool batch;
} dt__onnx_number;

/* TensorProto.DataType */
enum {
    DT__ONNX_FLOAT = 1,
    DT__ONNX_U8,
    DT__ONNX_I8,
    DT__ONNX_U16,
    DT__ONNX_I16,
    DT__ONNX_I32,
    DT__ONNX_I64,
    DT__ONNX_BOOL = 9,
    DT__ONNX_F16,
    DT__ONNX_DOUBLE,
    DT__ONNX_U32,
    DT__ONNX_U64,
    DT__ONNX_BF16 = 16,
    DT__ONNX_U4 = 21,
    DT__ONNX_I4,
    DT__ONNX_U2 = 25,
    DT__ONNX_I2
};

/* Whether elements of a type are floating-point numbers. */
static inline bool dt__onnx_is_real(int type)
{
    return type == DT__ONNX_FLOAT || type == DT__ONNX_F16 || type == DT__ONNX_DOUBLE ||
           type == DT__ONNX_BF16;
}

/* The codes of a quantized constant, or how a computed value is quantized (onnx_quantized.c): x =
 * (code - zero) * scale. */
typedef struct dt__onnx_codes {
    int bits;
    int axis;      /* axis of the scales; -1: one scale per tensor */
    int64_t block; /* elements of that axis per scale; 0: one */
    int rank;      /* rank and extents of the scales */
    int64_t dims[DT_MAX_RANK], scales;
    const float *scale; /* NULL: dynamic, one scale per tensor */
    const int8_t *zero; /* in signed form */
} dt__onnx_codes;

enum { DT__ONNX_UNSET, DT__ONNX_CONSTANT, DT__ONNX_COMPUTED, DT__ONNX_WRONG };

typedef struct dt__onnx_value {
    const char *name;
    int kind;
    int64_t maker; /* the node that computes it; -1: none */
    int64_t uses;  /* number of node inputs and graph outputs that read it */
    bool told;     /* a message has said that it is copied */
    int rank;
    /* of a constant: floats are in f; integers, doubles and multiples of the batch size in n */
    int64_t dims[DT_MAX_RANK], count;
    const float *f;
    const dt__onnx_number *n;
    int type;                    /* DT__ONNX_FLOAT... */
    const dt__onnx_codes *codes; /* NULL: none */
    bool integers;               /* of a computed value: codes that are not dequantized yet */
    bool rounded;                /* and its layer has rounded to these codes */
    bool whole;                  /* of a computed value: integers of an input, held as floats */
    const char *initializer;     /* its name, if it is an initializer; else NULL */
    /* of a constant: the matrix of the file of which it is the transpose; NULL: none */
    const struct dt__onnx_value *turned;
    /* of a constant that stands for a value per example: 1 + the dimension (of extent 1) that
     * stands for the batch; -1: such a dimension is unknown; 0: an ordinary constant */
    int spread;
    /* computed: the result of a layer. Dimension i is the layer's dimension axis[i]; axis 0 is the
     * batch, merged with the dimensions outer (before it) and inner (behind it); 0: none. */
    int64_t layer;
    int axis[DT_MAX_RANK], outer, inner;
    /* a layer with the same values, batch first and the other dimensions in order; -1: none yet */
    int64_t plain;
} dt__onnx_value;

/* ---- layers ---------------------------------------------------------------------------------- */

#define DT__ONNX_WEIGHTS 12

typedef struct dt__onnx_weight {
    const char *path; /* "weight", "layers.0.ih.bias" */
    const float *data;
    int64_t count;
} dt__onnx_weight;

typedef struct dt__onnx_layer {
    const dt_layer_type *type; /* NULL: an input */
    void *options;             /* begin with a dt_layer_head */
    const dt__onnx_node *node; /* NULL: an input */
    const char *hint;          /* path derived from names of initializers; NULL: none */
    const char *wanted;        /* the hint, or a name derived from the node */
    const char *name;          /* the final name, set at the end; for an input at once */
    int64_t from[DT_MAX_IN];
    int n_from;
    int64_t index;
    dt_shape shape; /* of the result */
    dt__onnx_weight weight[DT__ONNX_WEIGHTS];
    int n_weights;
    const dt__onnx_codes *codes; /* of `weight`; NULL: floats */
    const dt__onnx_codes *input; /* how the input is quantized; NULL: it is not */
    bool live;                   /* an output needs this layer */
} dt__onnx_layer;

/* A condition that must be true for an iteration of an unrolled loop. */
typedef struct dt__onnx_condition {
    const dt__onnx_node *loop;
    const char *name;
} dt__onnx_condition;

#define DT__ONNX_FAULTS 700

typedef struct dt__onnx {
    dt_ctx *ctx;
    const dt__onnx_file *file;
    const dt_onnx_options *options;
    const DtOnnx__Graph *graph;
    void *blocks;  /* memory of values and layers */
    void **arena;  /* memory of options and their texts */
    dt_tape *tape; /* for shapes */
    dt__onnx_value *value;
    int64_t n_values; /* sorted by name */
    dt__onnx_layer **layer;
    int64_t n_layers, room_layers;
    int64_t batch; /* fixed batch size of the inputs; 0: none */
    /* 1: computed values have a batch dimension in front that the node's axes do not count */
    int front;
    const dt__onnx_node *node; /* the node that is being read */
    int64_t n_faults;
    char faults[DT__ONNX_FAULTS];
    size_t faults_used;
    /* NULL, or called with every fault; reading then continues after a fault as far as possible.
     * NOMEM. */
    dt_status (*note)(void *user, const char *fault);
    void *user;
    dt_status noted;
    bool *refused; /* for each node: the table of operators refuses it */
    dt__onnx_condition *condition;
    int64_t n_conditions;
} dt__onnx;

/* Memory that lives as long as g; NULL: NOMEM. */
void *dt__onnx_memory(dt__onnx *g, int64_t count, size_t size);
/* UNSUPPORTED with a message about the current node; returns the status. */
dt_status dt__onnx_refuse(dt__onnx *g, const char *format, ...) DT_PRINTF(2, 3);

/* ---- tensors of the file (onnx_tensor.c) ----------------------------------------------------- */

/* Whether elements of a type can be read. */
bool dt__onnx_is_known(int type);
/* Bytes of raw_data for `count` elements; SIZE_MAX: too many to count. */
size_t dt__onnx_tensor_bytes(const dt__onnx_tensor *t, int64_t count);
/* Number of elements in the field of its type; for 4-bit types of pairs. */
size_t dt__onnx_typed_count(const dt__onnx_tensor *t);
/* Number of elements by its shape; false: `why` is the reason, as the end of a sentence. */
bool dt__onnx_tensor_shape(const dt__onnx_tensor *t, int64_t *count, char *why, size_t size);
/* Whether its data have `count` elements of its type; if not, `why` is the reason, as above. */
bool dt__onnx_tensor_holds(const dt__onnx_tensor *t, int64_t count, char *why, size_t size);
/* Bits of element i, in the lowest bits of the result; higher bits may repeat the sign. */
uint64_t dt__onnx_tensor_bits(const dt__onnx_tensor *t, int64_t i);

/* ---- constants (onnx_constant.c) ------------------------------------------------------------- */

/* Makes a constant from a tensor of the file. */
dt_status dt__onnx_decode(dt__onnx *g, const dt__onnx_tensor *t, dt__onnx_value *out);
/* Rounds a number to a type; false: out of range of the type, or of the arithmetic here. */
bool dt__onnx_round(int type, double *value);
/* Makes a constant whose elements the caller fills: v->f for FLOAT, v->n for I64; the other is
 * NULL. */
dt_status dt__onnx_constant(dt__onnx *g, dt__onnx_value *v, int rank, const int64_t *dims,
                            float **f, dt__onnx_number **n);
/* Makes a constant of floats that live as long as g. */
void dt__onnx_lend_floats(dt__onnx_value *v, int rank, const int64_t *dims, int64_t count,
                          const float *f);
dt__onnx_number dt__onnx_number_at(const dt__onnx_value *v, int64_t i);
/* Converts to an integer; values beyond +-2^62, which mean "to the end", are clamped. */
static inline int64_t dt__onnx_whole(double value)
{
    return value >= 0x1p62 ? INT64_MAX : value <= -0x1p62 ? -INT64_MAX : (int64_t)value;
}
/* The elements of an integer constant that does not depend on the batch size. `what` is for
 * messages. */
dt_status dt__onnx_ints_of(dt__onnx *g, const dt__onnx_value *v, const char *what, dt_ints *out);
/* The single number of a constant. */
dt_status dt__onnx_real_of(dt__onnx *g, const dt__onnx_value *v, const char *what, double *out);
/* The elements of a constant as floats. */
dt_status dt__onnx_floats_of(dt__onnx *g, const dt__onnx_value *v, const char *what,
                             const float **out);
/* A constant with its dimensions permuted. */
dt_status dt__onnx_transposed(dt__onnx *g, const dt__onnx_value *v, const int *order,
                              dt__onnx_value *out);

/* ---- nodes (onnx_node.c) --------------------------------------------------------------------- */

/* Input i of the current node; NULL: absent. */
const dt__onnx_value *dt__onnx_in(dt__onnx *g, int i);
/* Result i of the current node; NULL: unused. */
dt__onnx_value *dt__onnx_out(dt__onnx *g, int i);
/* Makes result i an alias of v. */
void dt__onnx_same(dt__onnx *g, int i, const dt__onnx_value *v);
/* Makes result i the result of a layer, with the same order of dimensions. */
void dt__onnx_result(dt__onnx *g, int i, const dt__onnx_layer *l);
dt__onnx_value *dt__onnx_find(dt__onnx *g, const char *name);

/* Attribute of a node; NULL (or the fallback) if it is absent. */
const DtOnnx__Attribute *dt__onnx_attribute_of(const dt__onnx_node *n, const char *name);
int64_t dt__onnx_int_of(const dt__onnx_node *n, const char *name, int64_t fallback);
double dt__onnx_real_attribute(const dt__onnx_node *n, const char *name, double fallback);
/* Whether a string attribute equals `text`; an absent one is `fallback`. */
bool dt__onnx_says(const dt__onnx *g, const char *name, const char *text, const char *fallback);
/* A list of integers; empty if the attribute is absent. */
dt_status dt__onnx_list(dt__onnx *g, const char *name, dt_ints *out);
/* A list that is an attribute in old versions and an input in newer ones. */
dt_status dt__onnx_list_or_in(dt__onnx *g, const char *name, int input, dt_ints *out);
/* An axis of the node as a dimension of a value of this rank; an error if it is out of range. */
dt_status dt__onnx_axis(dt__onnx *g, int64_t axis, int rank, int *out);
/* Like dt__onnx_axis; adds the dimension to `seen`, an error if it was in it. */
dt_status dt__onnx_new_axis(dt__onnx *g, int64_t axis, int rank, bool seen[DT_MAX_RANK], int *out);
/* Selects of a dimension the elements first, first + step, ... before end. */
typedef struct dt__onnx_range {
    int axis;
    int64_t first, end, step;
} dt__onnx_range;
/* The ranges of a Slice for a value of this rank, each of another dimension. Negative bounds count
 * from the dimension's end; bounds may be out of range. */
dt_status dt__onnx_ranges(dt__onnx *g, int rank, int *n, dt__onnx_range to[DT_MAX_RANK]);
/* Counts a range's bounds from the front and clamps them to a dimension of n elements; returns the
 * number of selected elements. */
int64_t dt__onnx_clamp(dt__onnx_range *r, int64_t n);

/* Runs the current node as operator `name` on constants by the interpreter (onnx_fold.c). in[i]
 * NULL: the node's own input i, which is constant. *out is its only result. */
dt_status dt__onnx_run_on(dt__onnx *g, const char *name, const dt__onnx_value *const *in, int n,
                          dt__onnx_value *out);

/* ---- making layers (onnx_layer.c) ------------------------------------------------------------ */

dt__onnx_layer *dt__onnx_maker(const dt__onnx *g, const dt__onnx_value *v);
/* Extent of a dimension of a computed value. For the batch it is {1, true}, times the dimensions
 * that are merged with it. */
dt__onnx_number dt__onnx_extent(const dt__onnx *g, const dt__onnx_value *v, int i);
/* A layer of a kind with default options, not yet added to g. */
dt_status dt__onnx_new(dt__onnx *g, const char *kind, dt__onnx_layer **out);
void dt__onnx_read_from(dt__onnx_layer *l, const dt__onnx_layer *from);
/* Adds a weight to a layer; the data are not copied and must live as long as g. */
dt_status dt__onnx_weigh(dt__onnx *g, dt__onnx_layer *l, const char *path, const dt__onnx_value *v);
dt_status dt__onnx_weigh_floats(dt__onnx *g, dt__onnx_layer *l, const char *path, const float *data,
                                int64_t count);
/* Sets the layer's path from the name of an initializer: "features.0" for "features.0.weight". */
dt_status dt__onnx_hint(dt__onnx *g, dt__onnx_layer *l, const char *initializer, bool whole);
/* Adds the layer to g, and infers the shape of its result. */
dt_status dt__onnx_add(dt__onnx *g, dt__onnx_layer *l);
dt_status dt__onnx_add_on(dt__onnx *g, dt__onnx_layer *l,
                          const dt__onnx_layer *from); /* its input */
/* Adds a layer with default options and one input. */
dt_status dt__onnx_simple(dt__onnx *g, const char *kind, const dt__onnx_layer *from,
                          dt__onnx_layer **out);
/* Adds a layer that reshapes the result of `from`; returns `from` itself if it has that shape. */
dt_status dt__onnx_reshaped(dt__onnx *g, dt__onnx_layer *from, const dt_shape *shape,
                            dt__onnx_layer **out);
dt_status dt__onnx_permuted(dt__onnx *g, dt__onnx_layer *from, const int *order,
                            dt__onnx_layer **out);
dt_status dt__onnx_sliced(dt__onnx *g, dt__onnx_layer *from, int dim, const int64_t range[3],
                          dt__onnx_layer **out);
/* y = x scale + bias with two numbers. */
dt_status dt__onnx_scaled(dt__onnx *g, dt__onnx_layer *from, double scale, double bias,
                          dt__onnx_layer **out);
bool dt__onnx_is(const dt__onnx_layer *l, const char *kind);

/* ---- where the batch is (onnx_batch.c) ------------------------------------------------------- */

/* Whether other dimensions are merged with the batch. */
bool dt__onnx_is_merged(const dt__onnx_value *v);
/* The dimension of a computed value that is the batch, or contains it. */
int dt__onnx_batch_at(const dt__onnx_value *v);
/* Puts the dimensions of a layer's result in order, except the batch, which is dimension `at` of
 * v. */
void dt__onnx_put_batch_at(dt__onnx_value *v, int at);
/* Whether two computed values have the same order of dimensions. */
bool dt__onnx_alike(const dt__onnx_value *a, const dt__onnx_value *b);
/* Makes v the result of a layer with the batch first and the other dimensions in the order of v. */
dt_status dt__onnx_ordered(dt__onnx *g, dt__onnx_value *v);
/* The layer with the values of v and its dimensions in order. Refused unless the batch is the first
 * dimension. */
dt_status dt__onnx_plain(dt__onnx *g, const dt__onnx_value *v, dt__onnx_layer **out);
/* Makes result i the result of a layer, with the order of dimensions of v. */
void dt__onnx_keep(dt__onnx *g, int i, const dt__onnx_value *v, const dt__onnx_layer *l);
/* A constant that broadcasts to `like`, with the dimensions in the order of its layer and without
 * the batch. */
dt_status dt__onnx_arranged(dt__onnx *g, const dt__onnx_value *like, const dt__onnx_value *c,
                            dt__onnx_value *out);
/* Reshapes a computed value to the shape given by a constant. */
dt_status dt__onnx_reshape_value(dt__onnx *g, dt__onnx_value *v, const dt__onnx_value *to);

/* ---- layers from constants (onnx_take.c) ----------------------------------------------------- */

/* Adds a layer: output o along dimension `dim` is the sum of weight[o, i] times input i. */
dt_status dt__onnx_mixed(dt__onnx *g, dt__onnx_layer *from, int dim, int64_t rows,
                         const float *weight, dt__onnx_layer **out);
/* Adds a layer: output o along dimension `dim` is input index[o]. */
dt_status dt__onnx_taken(dt__onnx *g, dt__onnx_layer *from, int dim, const int64_t *index,
                         int64_t n, dt__onnx_layer **out);
/* Adds a layer that pads dimension `dim` with a value; both numbers are at least 0. */
dt_status dt__onnx_padded(dt__onnx *g, dt__onnx_layer *from, int dim, int64_t before, int64_t after,
                          double value, dt__onnx_layer **out);
/* Adds a layer that returns constant c, which has an example's dimensions, for each example. Its
 * input `like` only gives the batch size. */
dt_status dt__onnx_given(dt__onnx *g, dt__onnx_layer *like, const dt__onnx_value *c,
                         dt__onnx_layer **out);

/* Turns input constants that stand for a value per example into computed values; *any: there were
 * some (onnx_spread.c). */
dt_status dt__onnx_compute_spread(dt__onnx *g, bool *any);
/* After folding a node: marks results that stand for a value per example, too. */
void dt__onnx_keep_spread(dt__onnx *g);

/* v without dimension i, which must have extent 1 (onnx_shapes.c). */
dt_status dt__onnx_dropped(dt__onnx *g, dt__onnx_value *v, int i);
/* v with dimension i repeated `times` times (onnx_cut.c). */
dt_status dt__onnx_repeated(dt__onnx *g, dt__onnx_value *v, int i, int64_t times);
/* v with a dimension of extent 1 before its dimension i. */
dt_status dt__onnx_inserted(dt__onnx *g, dt__onnx_value *v, int i);

/* Input i as a layer with dimensions [channels, ...] of an image, a signal or a volume. In a file
 * without a batch its first extent must be 1. */
dt_status dt__onnx_image(dt__onnx *g, int i, dt__onnx_layer **out);
/* Makes result i the result of such a layer. */
dt_status dt__onnx_image_result(dt__onnx *g, int i, dt__onnx_layer *l);

/* ---- operands that broadcast (onnx_elementwise.c) -------------------------------------------- */

/* A kind of layer and its option `equal`. */
typedef struct dt__onnx_form {
    const char *kind;
    bool equal;
} dt__onnx_form;

/* Adds a layer of n operands. Constants are allowed among the first three, if its options are a
 * dt_operands_layer. *out is its result. */
dt_status dt__onnx_apply(dt__onnx *g, const dt__onnx_form *form, const dt__onnx_value *const *v,
                         int n, dt__onnx_value *out);
/* Makes result 0 an alias of v, unless s is an error; returns s. */
dt_status dt__onnx_finish(dt__onnx *g, dt_status s, const dt__onnx_value *v);
/* Result 0 is v times c, or v + c, for a constant c that broadcasts to v (onnx_arithmetic.c). */
dt_status dt__onnx_times(dt__onnx *g, const dt__onnx_value *v, const dt__onnx_value *c);
dt_status dt__onnx_plus(dt__onnx *g, const dt__onnx_value *v, const dt__onnx_value *c);
/* *out: mask c with a large negative number in place of minus infinity; Softmax turns both into 0.
 * Refused unless result 0, of `rank` dimensions, is read by Softmax only, and no row is masked as a
 * whole (onnx_attention.c). */
dt_status dt__onnx_masked(dt__onnx *g, int rank, const dt__onnx_value *c, dt__onnx_value *out);
/* Whether a MatMul can be a layer linear: its weight is a constant matrix or vector
 * (onnx_weights.c). */
bool dt__onnx_is_linear(dt__onnx *g);
/* Whether a constant is minus infinity, as in masks. */
bool dt__onnx_hides(const dt__onnx_value *c);
/* Reads a Where with constant condition that masks elements of a computed value: adds the mask. */
dt_status dt__onnx_hidden(dt__onnx *g);
/* Reads a LayerNormalization that the layer layer_norm does not support (onnx_reduce.c). */
dt_status dt__onnx_long_norm(dt__onnx *g);
/* Result 0 is 1 where x is not 0, else 0. */
dt_status dt__onnx_truth(dt__onnx *g, const dt__onnx_value *x);
/* Makes a constant of one number. */
dt_status dt__onnx_numeral(dt__onnx *g, double value, dt__onnx_value *out);

/* ---- nodes by kind --------------------------------------------------------------------------- */

typedef dt_status dt__onnx_reader(dt__onnx *g);

/* How an operator is read. */
typedef struct dt__onnx_operator {
    const char *name;
    dt__onnx_reader *compute; /* for computed inputs; NULL: all inputs must be constant */
    dt__onnx_reader *fold;    /* if all inputs are constant; NULL: unsupported */
} dt__onnx_operator;

const dt__onnx_operator *dt__onnx_operator_of(const char *name);

#define DT__ONNX(name, compute, fold, ...) dt__onnx_reader compute, fold;
#define DT__ONNX_COMPUTED(name, compute, ...) dt__onnx_reader compute;
#define DT__ONNX_CONSTANT(name, fold, ...) dt__onnx_reader fold;
#include "io/onnx/onnx_operators.inc"

/* ---- what nodes may have (onnx_check.c) ------------------------------------------------------ */

/* Numbers of inputs and outputs of an operator from a version on. */
typedef struct dt__onnx_version {
    const char *op;
    int since, least_in, most_in, most_out; /* 0: any number */
} dt__onnx_version;

typedef struct dt__onnx_attribute_row {
    const char *op, *name;
    int type, since, until; /* AttributeProto.AttributeType; versions, 0: the newest */
    const char *values;     /* supported values: "*" all, else a list; "": it must be absent */
    bool read;              /* a reader uses it; else all values of the list have no effect */
} dt__onnx_attribute_row;

/* All attributes; ends with a row without an operator. */
extern const dt__onnx_attribute_row dt__onnx_attributes[];
/* NULL: this version has no such operator. */
const dt__onnx_version *dt__onnx_version_of(const char *op, int64_t opset);
/* Checks the current node against the table: UNSUPPORTED. */
dt_status dt__onnx_check_node(dt__onnx *g);

/* ---- codes (onnx_quantized.c, onnx_qoperators.c, onnx_prepare.c) ----------------------------- */

/* Adds a layer fake_quant to quantized inputs of the node, unless the node only rearranges
 * elements, or its layer quantizes its input. Refuses a node that computes with codes as if they
 * were values. */
dt_status dt__onnx_round_inputs(dt__onnx *g);
/* Quantizes a computed value by a layer fake_quant. */
dt_status dt__onnx_rounded(dt__onnx *g, const dt__onnx_value *v);
/* Gives the results of a node that only rearranges elements the codes of its input. */
void dt__onnx_keep_codes(dt__onnx *g);
/* The codes of a constant whose dimensions are permuted. Errors: NOMEM. */
dt_status dt__onnx_transpose_codes(dt__onnx *g, const dt__onnx_codes *q, const int *order, int rank,
                                   const dt__onnx_codes **out);
/* Replaces operators of codes (QLinearConv and others) by float operators between DequantizeLinear
 * and QuantizeLinear, in a new g->graph. Errors: NOMEM. */
dt_status dt__onnx_expand_codes(dt__onnx *g);
/* Whether dt__onnx_expand_codes replaces this node. */
bool dt__onnx_is_expanded(const dt__onnx_node *n);
/* Unrolls loops with a constant number of iterations, in a new g->graph; g->condition gets the
 * conditions that must be true (onnx_loops.c). Errors: FORMAT, UNSUPPORTED, NOMEM. */
dt_status dt__onnx_unroll(dt__onnx *g);
bool dt__onnx_is_loop(const dt__onnx_node *n);
/* Replaces each If with a constant condition by the nodes of its branch, in a new g->graph
 * (onnx_ifs.c). Errors: FORMAT, NOMEM. */
dt_status dt__onnx_choose(dt__onnx *g);
bool dt__onnx_is_if(const dt__onnx_node *n);
/* Applies the input dimensions given in the options (onnx_given.c). Errors: ARG. */
dt_status dt__onnx_put_shapes(const dt__onnx *g);
/* Prepares the model with the file's codes and ranges. Errors: UNSUPPORTED, naming a layer whose
 * quantization has no corresponding scheme; NOMEM. */
dt_status dt__onnx_prepare(dt__onnx *g, dt_module *m);

/* ---- the whole (onnx_walk.c, onnx_names.c) --------------------------------------------------- */

/* Reads all nodes. Errors: FORMAT, UNSUPPORTED; the message lists all nodes that are not
 * supported. */
dt_status dt__onnx_walk(dt__onnx *g);
/* Reads all nodes, finds the layers of the graph's outputs, and names all layers they need. */
dt_status dt__onnx_layers(dt__onnx *g, dt__onnx_layer *output[DT_MAX_OUT]);
/* Calls `work` for the graph of a file; results that outlive the call are in *arena. Weights of
 * modules are not drawn, and random streams do not change. FORMAT: the graph needs far more memory
 * than the file. */
typedef dt_status dt__onnx_work(void *user, dt__onnx *g);
dt_status dt__onnx_with(const dt__onnx_file *f, const dt_onnx_options *options, void **arena,
                        dt__onnx_work *work, void *user);
/* Calls `work` for the current graph of g, with a state of its own. */
dt_status dt__onnx_try(const dt__onnx *g, void **arena, dt__onnx_work *work, void *user);
/* Names the live layers. */
dt_status dt__onnx_name_layers(dt__onnx *g);
/* Marks the layer of an output, and those that it needs, as live. */
void dt__onnx_mark(dt__onnx *g, dt__onnx_layer *output);
/* Names the live layers, and builds the model from them, with its weights. */
dt_status dt__onnx_build(dt__onnx *g, dt__onnx_layer *const *outputs, int n, dt_module **out,
                         dt_layers_options **options);
/* Reads a graph: makes the model, its options, and the text for info.data. */
typedef dt_status dt__onnx_read(dt__onnx *g, void *user, dt_module **out,
                                dt_layers_options **options, const char **data);
/* Makes the model of a file with `read`; the graph may be absent (another format). After an error
 * the caller frees *out and *info. */
dt_status dt__onnx_model(const dt__onnx_file *f, const dt_onnx_options *how, dt__onnx_read *read,
                         void *user, dt_module **out, dt_model_info *info);
/* Reads the model of the file's own graph. */
dt__onnx_read dt__onnx_read_graph;
/* dt_onnx_verify for an open file. */
dt_status dt__onnx_verify(dt_module *m, const dt__onnx_file *file, const char *values,
                          const dt_onnx_options *options, dt_onnx_differences *out);
/* Reports all that reading the graph refuses, for dt_graph_inspect (onnx_look.c). */
struct dt__look;
dt_status dt__onnx_look_faults(struct dt__look *l, const dt__onnx_file *file);
/* Metadata about the model's inputs and outputs from the options or the file, as the text for
 * dt_model_info.data, in memory of the options; NULL: none. `outputs` are the layers of the graph's
 * outputs. Errors: ARG, NOMEM. */
dt_status dt__onnx_describe(dt__onnx *g, const dt_layers_options *o, dt__onnx_layer *const *outputs,
                            const char **out);
/* The name without blanks and dots at both ends. */
const char *dt__onnx_clean(dt__onnx *g, const char *name);

/* ---- values inside of the graph (onnx_probes.c) ---------------------------------------------- */

/* A value of the graph that a layer computes and that the file of expected values contains. */
typedef struct dt__onnx_probe {
    struct dt__onnx_probes *all;
    const dt_file_entry *expected;
    const char *reader; /* the layer before which the value is compared, */
    int input, calls;   /* as this input; number of calls so far */
    int rank, axis[DT_MAX_RANK];
    dt_module *m; /* module of the reader, with the hook; NULL: none */
    uint64_t hook;
    dt_onnx_difference difference;
} dt__onnx_probe;

typedef struct dt__onnx_probes {
    dt_ctx *ctx;
    const dt_file *expected;
    bool no_batch;      /* `expected` has one example, without batch dimension */
    dt__onnx_probe *at; /* in the order of nodes */
    int64_t n, room;
    void *arena;
    dt_status status; /* of the comparisons */
} dt__onnx_probes;

/* Finds the values that are in `expected`. dt__onnx_probes_end must be called in any case. */
dt_status dt__onnx_probes_find(const dt__onnx_file *f, const dt_onnx_options *options,
                               dt__onnx_probes *p);
/* Compares each of these values in the model's next forward pass. */
dt_status dt__onnx_probes_begin(dt__onnx_probes *p, dt_module *m);
void dt__onnx_probes_end(dt__onnx_probes *p);

/* Adds a batch dimension to one example: *x is freed and replaced. */
dt_status dt__onnx_put_batch(dt_tensor **x);
/* Compares y with an entry of a file, whose dimension i is dimension axis[i] of y; no_batch: the
 * entry is one example. FORMAT if its shape differs, or if it has no numbers. */
dt_status dt__onnx_compare(const dt_file *file, const dt_file_entry *expected, const dt_tensor *y,
                           const int *axis, bool no_batch, dt_onnx_difference *d);

#endif
