/* Reading ONNX models (https://github.com/onnx/onnx, docs/IR.md and docs/Operators.md) as models of
 * family `layers`.
 *
 * Nodes are read in their order. A value of the graph is either a constant or computed by a layer.
 * Constants of constants are computed at once, so arithmetic of shapes disappears; the batch size
 * is a symbol in it. A computed value remembers the order of its dimensions: a Transpose only
 * changes that order, and the layer `permute` is made when a reader needs another one. Layers that
 * no output needs are left out in the end. */
#ifndef DT__IO_ONNX_H
#define DT__IO_ONNX_H

#include "core/core.h"
#include "nn/lists/layer_type.h"

#include <detent/experimental/io.h>

#include "io/onnx.pb-c.h"

typedef DtOnnx__Node dt__onnx_node;
typedef DtOnnx__Tensor dt__onnx_tensor;

/* ---- files (onnx_file.c) --------------------------------------------------------------------- */

/* A tensor of many bytes: the copy of protobuf-c, and the bytes of the file (onnx_large.c). */
typedef struct dt__onnx_large {
    const uint8_t *copy, *at;
    size_t bytes;
    bool away; /* the copy was given back */
} dt__onnx_large;

/* A file with data of tensors, which is mapped (onnx_external.c). */
typedef struct dt__onnx_map {
    struct dt__onnx_map *next;
    void *block; /* its own memory */
    const char *path;
    void *at; /* NULL: it is empty, or not a regular file */
    size_t bytes;
} dt__onnx_map;

typedef struct dt__onnx_file {
    dt_ctx *ctx;
    const char *path;     /* for messages, lent */
    const char *whole;    /* with its folder, lent */
    void *blocks;         /* memory of the model */
    DtOnnx__Model *model; /* with a graph */
    int64_t opset;
    bool channels_last; /* images are [N, height, width, channels] at its ends, not in the model */
    size_t size;        /* in bytes */
    size_t field;       /* bytes of what is being unpacked */
    void *map;          /* those; NULL: no file, or not mapped */
    dt__onnx_large *large; /* tensors whose copies can be given back */
    size_t n_large;
    dt__onnx_map **maps; /* the first of the files with data; NULL: it can have none */
    /* of a graph made from another format: what its file calls the ends (NULL: nothing); NULL: as
     * the graph */
    const char **in_names, **out_names;
} dt__onnx_file;

/* Reads a file; dt__onnx_close frees it, also after an error: IO; FORMAT; UNSUPPORTED (the version
 * of the operators); NOMEM. */
dt_status dt__onnx_open(dt_ctx *ctx, const char *path, dt__onnx_file *out);
void dt__onnx_close(dt__onnx_file *file);
/* The graph inside of an attribute, in memory of the file; it has nodes. `g` NULL: there is none.
 * Errors: FORMAT, NOMEM. */
dt_status dt__onnx_unpack_graph(dt__onnx_file *f, const ProtobufCBinaryData *g,
                                DtOnnx__Graph **out);
/* Finds the large tensors of a file that is mapped (onnx_large.c). NOMEM. */
dt_status dt__onnx_find_large(dt__onnx_file *f);
/* Gives back their copies, which are read from then on by dt__onnx_bytes. */
void dt__onnx_give_back(const dt__onnx_file *f);
/* The bytes at `at` of a constant, in the file where the copy was given back. */
const void *dt__onnx_bytes(const dt__onnx_file *f, const void *at);
/* Whether a text of a message has a NUL inside. */
bool dt__onnx_has_nul(const ProtobufCMessageDescriptor *type, const uint8_t *from, size_t n);
/* Whether the i-th input of the graph is an initializer as well, as in old files. */
bool dt__onnx_is_initializer(const DtOnnx__Graph *graph, const char *name);

/* The data of a tensor that lie in another file of the same folder (onnx_external.c), `bytes` of
 * them, in *out: of the file, which stays mapped, or a copy in the block list *blocks. Errors:
 * UNSUPPORTED (a name that leaves the folder), FORMAT (fewer bytes, or another number), IO,
 * NOMEM. */
dt_status dt__onnx_external(const dt__onnx_file *file, const dt__onnx_tensor *t, size_t bytes,
                            void **blocks, ProtobufCBinaryData *out);
/* Of dt__onnx_close: unmaps all files with data. */
void dt__onnx_unmap(dt__onnx_file *f);
/* How many times as large as its files a model may be. */
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

/* Whether elements of a type are real numbers. */
static inline bool dt__onnx_is_real(int type)
{
    return type == DT__ONNX_FLOAT || type == DT__ONNX_F16 || type == DT__ONNX_DOUBLE ||
           type == DT__ONNX_BF16;
}

/* Codes that a constant was dequantized from, or to which a computed value is rounded
 * (onnx_quantized.c): x = (code - zero) * scale. */
typedef struct dt__onnx_codes {
    int bits;
    int axis;      /* along which scales differ; -1: there is one */
    int64_t block; /* elements of that axis that share a scale; 0: one */
    int rank;      /* of the scales, and their extents */
    int64_t dims[DT_MAX_RANK], scales;
    const float *scale; /* NULL: one of each tensor, by its own range */
    const int8_t *zero; /* in signed form */
} dt__onnx_codes;

enum { DT__ONNX_UNSET, DT__ONNX_CONSTANT, DT__ONNX_COMPUTED, DT__ONNX_WRONG };

typedef struct dt__onnx_value {
    const char *name;
    int kind;
    int64_t maker; /* the node that makes it; -1: none */
    int64_t uses;  /* how many inputs of nodes, and outputs of the graph, read it */
    bool told;     /* a line has said that it is copied */
    int rank;
    /* of a constant: floats as f; integers, doubles and what depends on the batch size as n */
    int64_t dims[DT_MAX_RANK], count;
    const float *f;
    const dt__onnx_number *n;
    int type;                    /* DT__ONNX_FLOAT... */
    const dt__onnx_codes *codes; /* NULL: none */
    bool integers;               /* of a computed value: it is codes still */
    bool rounded;                /* and its layer has rounded it to them */
    bool whole;                  /* of a computed value: integers of an input, as floats */
    const char *initializer;     /* its name, if it came from the file; else NULL */
    /* of a constant: the matrix of the file that it was made from by transposing; NULL: none */
    const struct dt__onnx_value *turned;
    /* of a constant: dimension spread - 1 has extent 1, and stands for the batch; -1: one of them
     * does, or several; 0: none */
    int spread;
    /* computed: the result of a layer. Dimension i is dimension axis[i] of that; 0 is the batch,
     * between dimensions outer and inner of it that are one with it; 0: none. */
    int64_t layer;
    int axis[DT_MAX_RANK], outer, inner;
    int64_t plain; /* a layer that has the batch first, the others in order; -1: none yet */
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
    const char *hint;          /* its path by the names of initializers; NULL: none */
    const char *wanted;        /* the hint, or a name by the node */
    const char *name;          /* set at the end; of an input at once */
    int64_t from[DT_MAX_IN];
    int n_from;
    int64_t index;
    dt_shape shape; /* of the result */
    dt__onnx_weight weight[DT__ONNX_WEIGHTS];
    int n_weights;
    const dt__onnx_codes *codes; /* of `weight`; NULL: floats */
    const dt__onnx_codes *input; /* how the input is quantized; NULL: it is not */
    bool live;                   /* an output needs it */
} dt__onnx_layer;

/* What must be true for a turn of a loop to be run. */
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
    int64_t batch; /* a fixed batch size of the inputs; 0: none */
    int front;     /* 1: computed values have the batch before the dimensions that the node knows */
    const dt__onnx_node *node; /* the one that is read */
    int64_t n_faults;
    char faults[DT__ONNX_FAULTS];
    size_t faults_used;
    /* Called with every fault, if there is one; then reading goes on behind faults, as far as
     * possible. NOMEM. */
    dt_status (*note)(void *user, const char *fault);
    void *user;
    dt_status noted;
    bool *refused; /* of each node: the table refuses it */
    dt__onnx_condition *condition;
    int64_t n_conditions;
} dt__onnx;

/* Memory that lives as long as the reading; NULL: NOMEM. */
void *dt__onnx_memory(dt__onnx *g, int64_t count, size_t size);
/* UNSUPPORTED with a message about the node that is read; returns the status. */
dt_status dt__onnx_refuse(dt__onnx *g, const char *format, ...) DT_PRINTF(2, 3);

/* ---- tensors of the file (onnx_tensor.c) ----------------------------------------------------- */

/* Whether elements of a type are read; the others want a tensor of such a type. */
bool dt__onnx_is_known(int type);
/* Bytes of raw_data for as many elements; SIZE_MAX: too many to count. */
size_t dt__onnx_tensor_bytes(const dt__onnx_tensor *t, int64_t count);
/* Elements in the field of its type, or pairs of those with 4 bits. */
size_t dt__onnx_typed_count(const dt__onnx_tensor *t);
/* Elements by its shape; false: why it is not read, as the end of a sentence. */
bool dt__onnx_tensor_shape(const dt__onnx_tensor *t, int64_t *count, char *why, size_t size);
/* Whether its data are those of `count` elements of its type; if not, why, as above. */
bool dt__onnx_tensor_holds(const dt__onnx_tensor *t, int64_t count, char *why, size_t size);
/* Bits of element i, the lowest ones of the result; the sign may be repeated above them. */
uint64_t dt__onnx_tensor_bits(const dt__onnx_tensor *t, int64_t i);

/* ---- constants (onnx_constant.c) ------------------------------------------------------------- */

/* The values of a tensor of the file, as a constant. */
dt_status dt__onnx_decode(dt__onnx *g, const dt__onnx_tensor *t, dt__onnx_value *out);
/* Rounds a number to a type; false: the type does not hold it, or arithmetic here does not. */
bool dt__onnx_round(int type, double *value);
/* A new constant, for the caller to fill: *f or *n, the other is NULL. Its type is FLOAT or I64. */
dt_status dt__onnx_constant(dt__onnx *g, dt__onnx_value *v, int rank, const int64_t *dims,
                            float **f, dt__onnx_number **n);
/* One of floats that live as long as the reading. */
void dt__onnx_lend_floats(dt__onnx_value *v, int rank, const int64_t *dims, int64_t count,
                          const float *f);
dt__onnx_number dt__onnx_number_at(const dt__onnx_value *v, int64_t i);
/* As an integer; what is beyond 2^62 is the end of all dimensions. */
static inline int64_t dt__onnx_whole(double value)
{
    return value >= 0x1p62 ? INT64_MAX : value <= -0x1p62 ? -INT64_MAX : (int64_t)value;
}
/* A constant of whole numbers without the batch size. `what` is for messages. */
dt_status dt__onnx_ints_of(dt__onnx *g, const dt__onnx_value *v, const char *what, dt_ints *out);
/* One real number. */
dt_status dt__onnx_real_of(dt__onnx *g, const dt__onnx_value *v, const char *what, double *out);
/* Float values of a constant. */
dt_status dt__onnx_floats_of(dt__onnx *g, const dt__onnx_value *v, const char *what,
                             const float **out);
/* A constant with dimensions in another order. */
dt_status dt__onnx_transposed(dt__onnx *g, const dt__onnx_value *v, const int *order,
                              dt__onnx_value *out);

/* ---- nodes (onnx_node.c) --------------------------------------------------------------------- */

/* Input i of the node that is read; NULL: absent. */
const dt__onnx_value *dt__onnx_in(dt__onnx *g, int i);
/* Its result i; NULL: it is not used. */
dt__onnx_value *dt__onnx_out(dt__onnx *g, int i);
/* Makes result i another name of a value. */
void dt__onnx_same(dt__onnx *g, int i, const dt__onnx_value *v);
/* Makes result i that of a layer, whose dimensions it has in the same order. */
void dt__onnx_result(dt__onnx *g, int i, const dt__onnx_layer *l);
dt__onnx_value *dt__onnx_find(dt__onnx *g, const char *name);

/* Attributes of a node; NULL, or the fallback: it has none of this name. */
const DtOnnx__Attribute *dt__onnx_attribute_of(const dt__onnx_node *n, const char *name);
int64_t dt__onnx_int_of(const dt__onnx_node *n, const char *name, int64_t fallback);
double dt__onnx_real_attribute(const dt__onnx_node *n, const char *name, double fallback);
/* Whether the text of an attribute is this one; `fallback` is what it is where it is absent. */
bool dt__onnx_says(const dt__onnx *g, const char *name, const char *text, const char *fallback);
/* A list of integers, empty where it is absent. */
dt_status dt__onnx_list(dt__onnx *g, const char *name, dt_ints *out);
/* A list that is an attribute in old versions and an input in newer ones. */
dt_status dt__onnx_list_or_in(dt__onnx *g, const char *name, int input, dt_ints *out);
/* An axis of the node as a dimension of a value of this rank; refused if it has none such. */
dt_status dt__onnx_axis(dt__onnx *g, int64_t axis, int rank, int *out);
/* The same; refused if it is in the set already, to which it is added. */
dt_status dt__onnx_new_axis(dt__onnx *g, int64_t axis, int rank, bool seen[DT_MAX_RANK], int *out);
/* What is taken of a dimension: elements first, first + step, ... before end. */
typedef struct dt__onnx_range {
    int axis;
    int64_t first, end, step;
} dt__onnx_range;
/* The ranges that Slice takes of a value of this rank, each of another dimension. Ends below 0
 * count from the dimension's end, and may lie beyond all. */
dt_status dt__onnx_ranges(dt__onnx *g, int rank, int *n, dt__onnx_range to[DT_MAX_RANK]);
/* Counts a range's ends from the front and clamps them to a dimension of n elements; how many of
 * these it takes. */
int64_t dt__onnx_clamp(dt__onnx_range *r, int64_t n);

/* The node as operator `name` on constants, by the interpreter (onnx_fold.c): in[i], or, where that
 * is NULL, its own input, which is constant. *out is its one result. */
dt_status dt__onnx_run_on(dt__onnx *g, const char *name, const dt__onnx_value *const *in, int n,
                          dt__onnx_value *out);

/* ---- making layers (onnx_layer.c) ------------------------------------------------------------ */

dt__onnx_layer *dt__onnx_maker(const dt__onnx *g, const dt__onnx_value *v);
/* Extent of a dimension of a computed value; of the batch: {1, true}, times what it is one with. */
dt__onnx_number dt__onnx_extent(const dt__onnx *g, const dt__onnx_value *v, int i);
/* A layer of a kind with default options, which is not added yet. */
dt_status dt__onnx_new(dt__onnx *g, const char *kind, dt__onnx_layer **out);
void dt__onnx_read_from(dt__onnx_layer *l, const dt__onnx_layer *from);
/* Copies nothing: the data live as long as the reading. */
dt_status dt__onnx_weigh(dt__onnx *g, dt__onnx_layer *l, const char *path, const dt__onnx_value *v);
dt_status dt__onnx_weigh_floats(dt__onnx *g, dt__onnx_layer *l, const char *path, const float *data,
                                int64_t count);
/* The path of a module from the name of its initializer: "features.0" of "features.0.weight". */
dt_status dt__onnx_hint(dt__onnx *g, dt__onnx_layer *l, const char *initializer, bool whole);
/* Adds it, with the shape of its result. */
dt_status dt__onnx_add(dt__onnx *g, dt__onnx_layer *l);
dt_status dt__onnx_add_on(dt__onnx *g, dt__onnx_layer *l,
                          const dt__onnx_layer *from); /* reads it */
/* A layer without options of its own, reading another one. */
dt_status dt__onnx_simple(dt__onnx *g, const char *kind, const dt__onnx_layer *from,
                          dt__onnx_layer **out);
/* A layer that gives the elements of `from` another shape; `from` itself if it has that shape. */
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

/* Whether other dimensions of the layer are one with the batch. */
bool dt__onnx_is_merged(const dt__onnx_value *v);
/* Which dimension of a computed value is the batch, or has it. */
int dt__onnx_batch_at(const dt__onnx_value *v);
/* The dimensions of a layer's result in order, but for the batch, which is dimension `at` of v. */
void dt__onnx_put_batch_at(dt__onnx_value *v, int at);
/* Whether two computed values have their dimensions at the same places of their layers. */
bool dt__onnx_alike(const dt__onnx_value *a, const dt__onnx_value *b);
/* Makes v the result of a layer whose dimensions are in the order of v behind the batch. */
dt_status dt__onnx_ordered(dt__onnx *g, dt__onnx_value *v);
/* The layer whose result is v with its dimensions in order. Refused unless the batch is the
 * first. */
dt_status dt__onnx_plain(dt__onnx *g, const dt__onnx_value *v, dt__onnx_layer **out);
/* Makes result i that of a layer, in which the dimensions of v are where they were. */
void dt__onnx_keep(dt__onnx *g, int i, const dt__onnx_value *v, const dt__onnx_layer *l);
/* A constant that broadcasts to `like`, in the order of dimensions of its layer, without the
 * batch. */
dt_status dt__onnx_arranged(dt__onnx *g, const dt__onnx_value *like, const dt__onnx_value *c,
                            dt__onnx_value *out);
/* Gives a computed value the shape of a constant. */
dt_status dt__onnx_reshape_value(dt__onnx *g, dt__onnx_value *v, const dt__onnx_value *to);

/* ---- layers from constants (onnx_take.c) ----------------------------------------------------- */

/* Output o along dimension `dim` of a layer's result is the sum of weight[o, i] times input i. */
dt_status dt__onnx_mixed(dt__onnx *g, dt__onnx_layer *from, int dim, int64_t rows,
                         const float *weight, dt__onnx_layer **out);
/* Output o along dimension `dim` is input index[o]. */
dt_status dt__onnx_taken(dt__onnx *g, dt__onnx_layer *from, int dim, const int64_t *index,
                         int64_t n, dt__onnx_layer **out);
/* Pads dimension `dim` by a value; both numbers are at least 0. */
dt_status dt__onnx_padded(dt__onnx *g, dt__onnx_layer *from, int dim, int64_t before, int64_t after,
                          double value, dt__onnx_layer **out);
/* A layer that gives the constant c, whose dimensions are those of an example, for each one,
 * whatever the layer `like` gives. */
dt_status dt__onnx_given(dt__onnx *g, dt__onnx_layer *like, const dt__onnx_value *c,
                         dt__onnx_layer **out);

/* Makes the constants among the inputs that stand for one of each example computed values; *any:
 * there are some (onnx_spread.c). */
dt_status dt__onnx_compute_spread(dt__onnx *g, bool *any);
/* Notes in results of a node of constants that they stand for some of each example, too. */
void dt__onnx_keep_spread(dt__onnx *g);

/* v without its dimension i, which must have extent 1 (onnx_shapes.c). */
dt_status dt__onnx_dropped(dt__onnx *g, dt__onnx_value *v, int i);
/* v with its dimension i `times` times one after the other (onnx_cut.c). */
dt_status dt__onnx_repeated(dt__onnx *g, dt__onnx_value *v, int i, int64_t times);
/* v with a dimension of extent 1 before its dimension i. */
dt_status dt__onnx_inserted(dt__onnx *g, dt__onnx_value *v, int i);

/* Input i as a layer whose dimensions are channels and those of an image, a signal or a volume. In
 * a file without a batch its first extent must be 1. */
dt_status dt__onnx_image(dt__onnx *g, int i, dt__onnx_layer **out);
/* Makes result i that of such a layer. */
dt_status dt__onnx_image_result(dt__onnx *g, int i, dt__onnx_layer *l);

/* ---- operands that broadcast (onnx_elementwise.c) -------------------------------------------- */

/* A kind of layer; `equal` is its option. */
typedef struct dt__onnx_form {
    const char *kind;
    bool equal;
} dt__onnx_form;

/* A layer of n values, constants among them where its options are a dt_operands_layer: the first
 * three at most. *out is its result. */
dt_status dt__onnx_apply(dt__onnx *g, const dt__onnx_form *form, const dt__onnx_value *const *v,
                         int n, dt__onnx_value *out);
/* Makes result 0 another name of v, unless s is an error; returns s. */
dt_status dt__onnx_finish(dt__onnx *g, dt_status s, const dt__onnx_value *v);
/* Result 0 is v c, or v + c, for a constant c that broadcasts to v (onnx_arithmetic.c). */
dt_status dt__onnx_times(dt__onnx *g, const dt__onnx_value *v, const dt__onnx_value *c);
dt_status dt__onnx_plus(dt__onnx *g, const dt__onnx_value *v, const dt__onnx_value *c);
/* c, in which minus infinity of a mask became a number that Softmax turns into 0. Refused unless
 * all that reads result 0, of `rank` dimensions, is Softmax, of which no row is hidden as a whole
 * (onnx_attention.c). */
dt_status dt__onnx_masked(dt__onnx *g, int rank, const dt__onnx_value *c, dt__onnx_value *out);
/* Whether a MatMul is layer linear: its weight is a constant matrix, or vector (onnx_weights.c). */
bool dt__onnx_is_linear(dt__onnx *g);
/* Whether a constant is minus infinity. */
bool dt__onnx_hides(const dt__onnx_value *c);
/* Where of a constant condition, that hides elements of a computed value: a mask is added to it. */
dt_status dt__onnx_hidden(dt__onnx *g);
/* LayerNormalization that the layer layer_norm does not have (onnx_reduce.c). */
dt_status dt__onnx_long_norm(dt__onnx *g);
/* Result 0 is 1 where x is not 0, else 0. */
dt_status dt__onnx_truth(dt__onnx *g, const dt__onnx_value *x);
/* One number as a constant. */
dt_status dt__onnx_numeral(dt__onnx *g, double value, dt__onnx_value *out);

/* ---- nodes by kind --------------------------------------------------------------------------- */

typedef dt_status dt__onnx_reader(dt__onnx *g);

/* How an operator is read. */
typedef struct dt__onnx_operator {
    const char *name;
    dt__onnx_reader *compute; /* an input is computed; NULL: all must be constant */
    dt__onnx_reader *fold;    /* all inputs are constant; NULL: not known */
} dt__onnx_operator;

const dt__onnx_operator *dt__onnx_operator_of(const char *name);

#define DT__ONNX(name, compute, fold, ...) dt__onnx_reader compute, fold;
#define DT__ONNX_COMPUTED(name, compute, ...) dt__onnx_reader compute;
#define DT__ONNX_CONSTANT(name, fold, ...) dt__onnx_reader fold;
#include "io/onnx/onnx_operators.inc"

/* ---- what nodes may have (onnx_check.c) ------------------------------------------------------ */

/* Inputs and outputs of an operator from a version on. */
typedef struct dt__onnx_version {
    const char *op;
    int since, least_in, most_in, most_out; /* 0: any number */
} dt__onnx_version;

typedef struct dt__onnx_attribute_row {
    const char *op, *name;
    int type, since, until; /* AttributeProto.AttributeType; versions, 0: the newest */
    const char *values;     /* that are read: "*" all, else a list; "": it must be absent */
    bool read;              /* else no value of the list changes anything */
} dt__onnx_attribute_row;

/* All attributes, and a row without an operator at the end. */
extern const dt__onnx_attribute_row dt__onnx_attributes[];
/* NULL: this version has no such operator. */
const dt__onnx_version *dt__onnx_version_of(const char *op, int64_t opset);
/* Checks the node that is read against the table: UNSUPPORTED. */
dt_status dt__onnx_check_node(dt__onnx *g);

/* ---- codes (onnx_quantized.c, onnx_qoperators.c, onnx_prepare.c) ----------------------------- */

/* Values that the node reads are rounded to their codes by a layer fake_quant, but where the node
 * only arranges them, or its layer quantizes its input. A node that computes with codes as if they
 * were values is refused. */
dt_status dt__onnx_round_inputs(dt__onnx *g);
/* A computed value, rounded. */
dt_status dt__onnx_rounded(dt__onnx *g, const dt__onnx_value *v);
/* Results of a node that only arranges elements have the codes of its input. */
void dt__onnx_keep_codes(dt__onnx *g);
/* Those of a constant whose dimensions get another order. Errors: NOMEM. */
dt_status dt__onnx_transpose_codes(dt__onnx *g, const dt__onnx_codes *q, const int *order, int rank,
                                   const dt__onnx_codes **out);
/* Operators of codes (QLinearConv and others) become those of floats between DequantizeLinear and
 * QuantizeLinear: g->graph is then a graph of its own. Errors: NOMEM. */
dt_status dt__onnx_expand_codes(dt__onnx *g);
/* Whether an operator is one of those, among others of the right kind. */
bool dt__onnx_is_expanded(const dt__onnx_node *n);
/* Loops whose number of turns is a constant become the nodes of all turns: g->graph is then a graph
 * of its own, and g->condition has what must be true (onnx_loops.c). Errors: FORMAT, UNSUPPORTED,
 * NOMEM. */
dt_status dt__onnx_unroll(dt__onnx *g);
bool dt__onnx_is_loop(const dt__onnx_node *n);
/* If with a condition that is constant becomes the nodes of its branch: g->graph is then a graph of
 * its own (onnx_ifs.c). Errors: FORMAT, NOMEM. */
dt_status dt__onnx_choose(dt__onnx *g);
bool dt__onnx_is_if(const dt__onnx_node *n);
/* Dimensions that the options give to inputs (onnx_given.c). Errors: ARG. */
dt_status dt__onnx_put_shapes(const dt__onnx *g);
/* Prepares the model with the file's codes and ranges. Errors: UNSUPPORTED, naming a layer whose
 * scheme has no counterpart; NOMEM. */
dt_status dt__onnx_prepare(dt__onnx *g, dt_module *m);

/* ---- the whole (onnx_walk.c, onnx_names.c) --------------------------------------------------- */

/* Reads all nodes. Errors: FORMAT, UNSUPPORTED, with all nodes that are not known. */
dt_status dt__onnx_walk(dt__onnx *g);
/* Walks, finds the layers of the graph's outputs, and names all that they need. */
dt_status dt__onnx_layers(dt__onnx *g, dt__onnx_layer *output[DT_MAX_OUT]);
/* Calls `work` for the graph of a file; what outlives the call is in *arena. Weights of modules are
 * not drawn, and random streams stay as they are. FORMAT: it takes far more memory than the
 * file. */
typedef dt_status dt__onnx_work(void *user, dt__onnx *g);
dt_status dt__onnx_with(const dt__onnx_file *f, const dt_onnx_options *options, void **arena,
                        dt__onnx_work *work, void *user);
/* The same for the graph of g as it is now, beside its own reading. */
dt_status dt__onnx_try(const dt__onnx *g, void **arena, dt__onnx_work *work, void *user);
/* Names the live layers. */
dt_status dt__onnx_name_layers(dt__onnx *g);
/* The layer of an output, and those that it needs, are live. */
void dt__onnx_mark(dt__onnx *g, dt__onnx_layer *output);
/* Names the live layers, and makes the model of them with its weights. */
dt_status dt__onnx_build(dt__onnx *g, dt__onnx_layer *const *outputs, int n, dt_module **out,
                         dt_layers_options **options);
/* Reads a graph of layers: the model, its options, and what info.data gets. */
typedef dt_status dt__onnx_read(dt__onnx *g, void *user, dt_module **out,
                                dt_layers_options **options, const char **data);
/* The model that `read` makes of a file, whose graph may be absent (another format's); on an error
 * the caller frees *out and *info. */
dt_status dt__onnx_model(const dt__onnx_file *f, const dt_onnx_options *how, dt__onnx_read *read,
                         void *user, dt_module **out, dt_model_info *info);
/* The model of the file's own graph. */
dt__onnx_read dt__onnx_read_graph;
/* dt_onnx_verify of an open file. */
dt_status dt__onnx_verify(dt_module *m, const dt__onnx_file *file, const char *values,
                          const dt_onnx_options *options, dt_onnx_differences *out);
/* All that a walk over the graph refuses, for dt_graph_inspect (onnx_look.c). */
struct dt__look;
dt_status dt__onnx_look_faults(struct dt__look *l, const dt__onnx_file *file);
/* What the options or the file say of the numbers that the model reads and gives, as the text that
 * a model file keeps (dt_model_info.data), in memory of options; NULL: nothing. `outputs` are the
 * layers of the graph's outputs. Errors: ARG, NOMEM. */
dt_status dt__onnx_describe(dt__onnx *g, const dt_layers_options *o, dt__onnx_layer *const *outputs,
                            const char **out);
/* A name without blanks and dots at its ends. */
const char *dt__onnx_clean(dt__onnx *g, const char *name);

/* ---- values inside of the graph (onnx_probes.c) ---------------------------------------------- */

/* A value of the graph that a layer computes and that a file has, too. */
typedef struct dt__onnx_probe {
    struct dt__onnx_probes *all;
    const dt_file_entry *expected;
    const char *reader; /* the layer before which it is seen, */
    int input, calls;   /* as this input of that; how many it has had */
    int rank, axis[DT_MAX_RANK];
    dt_module *m; /* of the reader, with the hook; NULL: none */
    uint64_t hook;
    dt_onnx_difference difference;
} dt__onnx_probe;

typedef struct dt__onnx_probes {
    dt_ctx *ctx;
    const dt_file *expected;
    bool no_batch;      /* `expected` has one example, without a batch */
    dt__onnx_probe *at; /* in the order of nodes */
    int64_t n, room;
    void *arena;
    dt_status status; /* of the comparisons */
} dt__onnx_probes;

/* Finds the values that `expected` has. dt__onnx_probes_end must be called in any case. */
dt_status dt__onnx_probes_find(const dt__onnx_file *f, const dt_onnx_options *options,
                               dt__onnx_probes *p);
/* Compares each of them in the next pass of the model. */
dt_status dt__onnx_probes_begin(dt__onnx_probes *p, dt_module *m);
void dt__onnx_probes_end(dt__onnx_probes *p);

/* Makes an example of a file a batch of one: *x is freed, and another tensor takes its place. */
dt_status dt__onnx_put_batch(dt_tensor **x);
/* How far y is from an entry of a file, of which dimension i is dimension axis[i] of y; no_batch:
 * the entry is one example. FORMAT if it has another shape, or no numbers. */
dt_status dt__onnx_compare(const dt_file *file, const dt_file_entry *expected, const dt_tensor *y,
                           const int *axis, bool no_batch, dt_onnx_difference *d);

#endif
