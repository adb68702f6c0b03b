/* An interpreter of ONNX graphs (https://github.com/onnx/onnx, docs/Operators.md, opset 21), with
 * which detent checks its own exports. It shares no code with the writer, and reads nothing but the
 * file.
 *
 * Nodes run in order, each by a function from the tables of operators. Results follow the
 * specification: a float operator is computed in double and rounded once, which for + - * / and
 * sqrt is IEEE arithmetic of floats; sums of products (MatMul, Conv) are rounded once at the end,
 * so results of other programs may differ slightly. Integers wrap. What the specification leaves
 * undefined (a Cast of a float outside the range of the type) is an error.
 *
 * Files are not trusted: sizes are checked, memory and work are limited. */
#ifndef DT__IO_ONNX_INTERPRET_H
#define DT__IO_ONNX_INTERPRET_H

#include "core/core.h"
#include "io/onnx/onnx.h"

/* Types of elements by their numbers in ONNX (TensorProto.DataType). */
typedef enum dt__verify_type {
    DT__VERIFY_F32 = 1,
    DT__VERIFY_U8 = 2,
    DT__VERIFY_I8 = 3,
    DT__VERIFY_I32 = 6,
    DT__VERIFY_I64 = 7,
    DT__VERIFY_BOOL = 9,
    DT__VERIFY_F16 = 10, /* F16 and BF16 are results of Cast only; values are stored as floats */
    DT__VERIFY_F64 = 11,
    DT__VERIFY_BF16 = 16,
    DT__VERIFY_U4 = 21,
    DT__VERIFY_I4 = 22,
    DT__VERIFY_U2 = 25,
    DT__VERIFY_I2 = 26,
    DT__VERIFY_TYPES
} dt__verify_type;

/* Sets of types, for tables of operators. */
#define DT__VERIFY_BIT(type) (1u << DT__VERIFY_##type)
#define DT__VERIFY_FLOATS (DT__VERIFY_BIT(F32) | DT__VERIFY_BIT(F64))
#define DT__VERIFY_INDICES (DT__VERIFY_BIT(I32) | DT__VERIFY_BIT(I64))
#define DT__VERIFY_BYTES (DT__VERIFY_BIT(U8) | DT__VERIFY_BIT(I8))
#define DT__VERIFY_SIGNED (DT__VERIFY_FLOATS | DT__VERIFY_INDICES | DT__VERIFY_BIT(I8))
#define DT__VERIFY_NUMBERS (DT__VERIFY_SIGNED | DT__VERIFY_BIT(U8))
#define DT__VERIFY_PLAIN (DT__VERIFY_NUMBERS | DT__VERIFY_BIT(BOOL))
#define DT__VERIFY_NIBBLES (DT__VERIFY_BIT(U4) | DT__VERIFY_BIT(I4))
#define DT__VERIFY_CRUMBS (DT__VERIFY_BIT(U2) | DT__VERIFY_BIT(I2))
#define DT__VERIFY_HALVES (DT__VERIFY_BIT(F16) | DT__VERIFY_BIT(BF16))
#define DT__VERIFY_ANY                                                                             \
    (DT__VERIFY_PLAIN | DT__VERIFY_NIBBLES | DT__VERIFY_CRUMBS | DT__VERIFY_HALVES)

typedef struct dt__verify_value {
    dt__verify_type type;
    int rank;
    int64_t dims[DT_MAX_RANK];
    int64_t count;
    void *data; /* row-major; bools and 4-bit integers use a byte each. NULL: no value */
} dt__verify_value;

/* A value and its name in the graph's inputs or outputs. */
typedef struct dt__verify_named {
    const char *name;
    dt__verify_value value;
} dt__verify_named;

/* What Cast does with a real outside the range of the integer type, which ONNX leaves undefined: an
 * error, the type's least value (as on x86), or 0. */
enum { DT__VERIFY_OPEN_FAILS, DT__VERIFY_OPEN_LEAST, DT__VERIFY_OPEN_ZERO };

/* Limits of a run. Zero means the default: 8 GiB, 1e13. */
typedef struct dt__verify_limits {
    size_t bytes;     /* of all live values */
    double work;      /* elements written, and multiply-adds */
    int open;         /* DT__VERIFY_OPEN_... */
    int64_t elements; /* of a result; 0: any number */
    bool lite;        /* progress is reported as TFLite's, by the caller for whole nodes */
} dt__verify_limits;

typedef struct dt__verify dt__verify;

/* Reads and checks a file: the operator set is version 21, nodes are supported and in order, each
 * name has one definition, initializers are valid. The caller closes it. Errors: IO; FORMAT;
 * UNSUPPORTED (an operator, a type); NOMEM. */
dt_status dt__verify_open(dt_ctx *ctx, const char *path, const dt__verify_limits *limits,
                          dt__verify **out);
/* Does so for a graph in memory, which is lent and of version 21; `path` is for messages. */
dt_status dt__verify_open_graph(dt_ctx *ctx, const char *path, const DtOnnx__Graph *graph,
                                const dt__verify_limits *limits, dt__verify **out);
void dt__verify_close(dt__verify *v);

/* Inputs and outputs of the graph in its order: names and declared types. */
int64_t dt__verify_inputs(const dt__verify *v);
int64_t dt__verify_outputs(const dt__verify *v);
const char *dt__verify_input_name(const dt__verify *v, int64_t i);
dt__verify_type dt__verify_input_type(const dt__verify *v, int64_t i);
const char *dt__verify_output_name(const dt__verify *v, int64_t i);
/* The declared type and extents of input i: symbol "batch" becomes `batch`, any other symbol 0.
 * False if no shape is declared, or no element type. */
bool dt__verify_input_dims(const dt__verify *v, int64_t i, int64_t batch, dt__verify_value *out);

/* Runs the graph. Inputs are copied. Errors: SHAPE, DTYPE (inputs that the graph lacks or declares
 * otherwise); FORMAT (a node whose inputs do not fit, with its name); NOMEM. */
dt_status dt__verify_run(dt__verify *v, const dt__verify_named *in, int64_t n_in);
/* Work of the last run. */
double dt__verify_worked(const dt__verify *v);
/* Output i of the last run, lent until the next one. */
const dt__verify_value *dt__verify_output(const dt__verify *v, int64_t i);

/* ---- for operators --------------------------------------------------------------------------- */

typedef struct dt__verify_call dt__verify_call;

/* How an operator is run. */
typedef struct dt__verify_operator {
    const char *name;
    dt_status (*run)(dt__verify_call *c);
    int least_in, most_in;  /* most_in 0: any number */
    int most_out;           /* 0: any number */
    int same;               /* the first `same` inputs must have one type; -1: all inputs */
    unsigned types;         /* allowed types of input 0 */
    const char *attributes; /* known attributes, each followed by a blank */
    double (*real)(double a, double b);
    int64_t (*whole)(int64_t a, int64_t b);
    double alpha, beta; /* defaults of the attributes alpha and beta */
} dt__verify_operator;

/* A single node to run, without a graph. */
typedef struct dt__verify_alone {
    dt_ctx *ctx;
    const char *path; /* for messages */
    const DtOnnx__Node *node;
    const dt__verify_operator *op;
    dt__verify_limits limits;
    void **blocks; /* memory of the results */
} dt__verify_alone;

/* An operator of ai.onnx; NULL: there is none. */
const dt__verify_operator *dt__verify_operator_of(const char *name);
/* Runs the node on values, into its results `out`; a result with the elements of input 0 in the
 * same order shares its data. Errors: UNSUPPORTED, without the node's name; FORMAT; NOMEM. */
dt_status dt__verify_alone_run(const dt__verify_alone *alone, const dt__verify_value *const *in,
                               int64_t n_in, dt__verify_value *out);

struct dt__verify_call {
    dt__verify *v;
    const DtOnnx__Node *node;
    const dt__verify_operator *op;
    const dt__verify_value *const *in; /* NULL: absent */
    int64_t n_in;
    dt__verify_value *const *out; /* NULL: the result is unnamed and unused */
    int64_t n_out;
    dt__verify *body; /* graph of attribute `body`; NULL: none */
};

/* Tables of operators, each ends with an empty row. */
extern const dt__verify_operator dt__verify_elementwise[];  /* interpret_elementwise.c */
extern const dt__verify_operator dt__verify_casts[];        /* interpret_cast.c */
extern const dt__verify_operator dt__verify_reductions[];   /* interpret_reduce.c */
extern const dt__verify_operator dt__verify_shapes[];       /* interpret_shapes.c */
extern const dt__verify_operator dt__verify_selections[];   /* interpret_select.c */
extern const dt__verify_operator dt__verify_gathers[];      /* interpret_gather.c */
extern const dt__verify_operator dt__verify_products[];     /* interpret_products.c */
extern const dt__verify_operator dt__verify_convolutions[]; /* interpret_conv.c */
extern const dt__verify_operator dt__verify_pools[];        /* interpret_pool.c */
extern const dt__verify_operator dt__verify_norms[];        /* interpret_norm.c */
extern const dt__verify_operator dt__verify_quantizers[];   /* interpret_quantize.c */
extern const dt__verify_operator dt__verify_scans[];        /* interpret_scan.c */
/* domain com.microsoft, also in interpret_products.c */
extern const dt__verify_operator dt__verify_microsoft[];

/* FORMAT with a message about the node; returns the status. */
dt_status dt__verify_refuse(const dt__verify_call *c, const char *format, ...) DT_PRINTF(2, 3);

/* Makes result i, uninitialized. *out is valid also if result 0 has no name. */
dt_status dt__verify_make(dt__verify_call *c, int64_t i, dt__verify_type type, int rank,
                          const int64_t *dims, dt__verify_value **out);
/* Makes result i with the type and extents of `like`. */
dt_status dt__verify_make_like(dt__verify_call *c, int64_t i, const dt__verify_value *like,
                               dt__verify_value **out);
/* Makes result 0 a view of input 0 with other extents. */
dt_status dt__verify_same(dt__verify_call *c, int rank, const int64_t *dims);
/* Adds a * b * d to the work; an error above the limit. */
dt_status dt__verify_work(const dt__verify_call *c, double a, double b, double d);
/* Reports this much work as done to the context's listeners while a node runs. */
void dt__verify_did(const dt__verify_call *c, double steps);
/* Memory for count * size bytes, freed when the node is done. */
dt_status dt__verify_scratch(dt__verify_call *c, int64_t count, size_t size, void **out);

/* Runs the body on its inputs, which are copied; it sees the current values of the outer graph. */
dt_status dt__verify_run_body(const dt__verify_call *c, const dt__verify_named *in, int64_t n_in);

/* The context, and how many bytes of values the limit leaves. */
dt_ctx *dt__verify_ctx(const dt__verify_call *c);
size_t dt__verify_room(const dt__verify_call *c);
int dt__verify_open_casts(const dt__verify_call *c); /* limits.open */

/* Input i; NULL: absent. */
const dt__verify_value *dt__verify_in(const dt__verify_call *c, int64_t i);

/* The index of a text attribute in `choices`, which end with NULL; the first is the default. */
dt_status dt__verify_choice(const dt__verify_call *c, const char *name, const char *const *choices,
                            int *out);

/* A list of integers, from an attribute or from an input vector. */
#define DT__VERIFY_LIST (2 * DT_MAX_RANK)
typedef struct dt__verify_list {
    int n; /* -1: absent */
    int64_t v[DT__VERIFY_LIST];
} dt__verify_list;

dt_status dt__verify_attribute_list(const dt__verify_call *c, const char *name,
                                    dt__verify_list *out);
dt_status dt__verify_input_list(const dt__verify_call *c, int64_t input, dt__verify_list *out);
/* An axis counted from the front; an error if it is out of range. */
dt_status dt__verify_axis(const dt__verify_call *c, int64_t axis, int rank, int *out);
/* Axes as a set; repeated axes are an error. */
dt_status dt__verify_axes(const dt__verify_call *c, const dt__verify_list *axes, int rank,
                          bool set[DT_MAX_RANK]);
/* Reads an input of one element as an integer. */
dt_status dt__verify_input_int(const dt__verify_call *c, int64_t input, int64_t *out);

/* ---- elements (interpret_values.c) --------------------------------------------------------- */

/* Bytes of an element in memory; 0: unsupported type. */
size_t dt__verify_size(dt__verify_type type);
const char *dt__verify_type_name(dt__verify_type type);
static inline bool dt__verify_is_half(dt__verify_type type)
{
    return type == DT__VERIFY_F16 || type == DT__VERIFY_BF16;
}

static inline bool dt__verify_is_real(dt__verify_type type)
{
    return type == DT__VERIFY_F32 || type == DT__VERIFY_F64 || dt__verify_is_half(type);
}

/* Read or write n elements from index `from` on, `step` apart. Reals are rounded, integers wrap. */
void dt__verify_load_real(const dt__verify_value *x, int64_t from, int64_t step, int64_t n,
                          double *to);
void dt__verify_load_whole(const dt__verify_value *x, int64_t from, int64_t step, int64_t n,
                           int64_t *to);
void dt__verify_store_real(dt__verify_value *y, int64_t to, int64_t n, const double *from);
void dt__verify_store_whole(dt__verify_value *y, int64_t to, int64_t n, const int64_t *from);

static inline double dt__verify_real_at(const dt__verify_value *x, int64_t i)
{
    double a;
    dt__verify_load_real(x, i, 0, 1, &a);
    return a;
}
static inline int64_t dt__verify_whole_at(const dt__verify_value *x, int64_t i)
{
    int64_t a;
    dt__verify_load_whole(x, i, 0, 1, &a);
    return a;
}

/* Fills a value from a tensor of the file; allocates its data. */
dt_status dt__verify_decode(dt_ctx *ctx, const dt__onnx_tensor *t, size_t most_bytes,
                            dt__verify_value *out);

/* The product of extents. False if one is negative, or if the product of the nonzero ones is above
 * 2^40, so that indices cannot overflow. */
bool dt__verify_fits(int rank, const int64_t *dims, int64_t *count);

/* Strides of a value's elements, row-major. */
void dt__verify_strides(const dt__verify_value *x, int64_t stride[DT_MAX_RANK]);

/* ---- rows of several operands (interpret_rows.c) ------------------------------------------- */

#define DT__VERIFY_OPERANDS 3
#define DT__VERIFY_CHUNK 256

/* A part of a row: n <= DT__VERIFY_CHUNK elements of each operand, and where results go. */
typedef struct dt__verify_row {
    const dt__verify_call *c;
    const dt__verify_value *x[DT__VERIFY_OPERANDS];
    int64_t from[DT__VERIFY_OPERANDS], step[DT__VERIFY_OPERANDS];
    dt__verify_value *y;
    int64_t to, n;
    const void *user;
} dt__verify_row;

typedef dt_status dt__verify_row_function(const dt__verify_row *row);

/* Extents of the values broadcast against each other; absent values (NULL) are skipped. */
dt_status dt__verify_broadcast(const dt__verify_call *c, const dt__verify_value *const *x,
                               int64_t n, int *rank, int64_t dims[DT_MAX_RANK]);
/* Strides of x broadcast to these extents; an error if it does not broadcast. */
dt_status dt__verify_spread(const dt__verify_call *c, const dt__verify_value *x, int rank,
                            const int64_t *dims, int64_t stride[DT_MAX_RANK]);
/* Calls `function` for all parts of y; operands of `row` are broadcast to y. */
dt_status dt__verify_rows(dt__verify_row *row, dt__verify_row_function *function);

/* Iterates over extents in row-major order; offset[k] follows stride[k]. Zero it, then set rank,
 * dims and strides. */
typedef struct dt__verify_walk {
    int rank;
    int64_t dims[DT_MAX_RANK], at[DT_MAX_RANK];
    int64_t stride[DT__VERIFY_OPERANDS][DT_MAX_RANK], offset[DT__VERIFY_OPERANDS];
} dt__verify_walk;

void dt__verify_step(dt__verify_walk *w);

#endif
