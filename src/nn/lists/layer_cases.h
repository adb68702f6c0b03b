/* Cases of layers: tests of every type of nn.inc, written at the end of the layer's file.
 *
 * A new layer is
 *     src/nn/<room>/nn_<name>.c          forward, the type dt__nn_<name>, its create function, its
 *                                        cases and, last, DT__LAYER_CASES(<name>, cases)
 *     src/nn/nn.inc                      its line
 *     include/detent/experimental/nn.h   the prototype of dt_<name>_create
 * `detent-test layers` then checks each case: values, gradients, names and state, training and
 * evaluation, every quantization preset (prepared = converted = loaded, bit for bit),
 * calibration (every weight that a preset quantizes is rounded from data), activation
 * checkpointing, failing allocations, numbers of threads. It reports missing cases: a layer needs
 * one with known values or `plain`, one whose gradient is checked, and one that is refused. */
#ifndef DT__NN_LAYER_CASES_H
#define DT__NN_LAYER_CASES_H

#include "autograd/op.h"
#include "nn/module.h"

#define DT__LAYER_IN 4 /* inputs of a case, at most */
#define DT__LAYER_PARAMS 4

/* Values that a parameter or buffer gets before the layer runs. */
typedef struct dt__layer_given {
    const char *path;
    double values[DT__CASE_VALUES];
} dt__layer_given;

/* The range of a parameter's or buffer's initial values: all lie in low ... high and, if there are
 * 32 or more, some lie in its lowest and some in its highest quarter. */
typedef struct dt__layer_first {
    const char *path;
    double low, high;
} dt__layer_first;

typedef struct dt__layer_case {
    const char *name;
    dt_status (*create)(dt_ctx *ctx, dt_module **out);
    dt__case_tensor in[DT__LAYER_IN]; /* as for ops; only the first is the model's input */
    int n_out;                        /* 0: 1 */
    const char *state; /* paths of parameters and, after '!', of buffers: "weight bias !mean" */
    dt__layer_first first[DT__LAYER_PARAMS];
    dt__layer_given given[DT__LAYER_PARAMS]; /* others: initial values, slightly perturbed */
    int n_y;                                 /* number of given values of the first output */
    double y[DT__CASE_VALUES];
    /* Computes the first output again, from parameters and inputs, by ops or by running children
     * one by one. */
    dt_tensor *(*plain)(dt_tape *t, dt_module *m, dt_tensor *const *in);
    bool training;    /* the values are for training mode */
    bool fixed;       /* buffers do not change in training */
    bool random;      /* draws numbers in training */
    bool indices;     /* its input is indices, which get no gradient */
    bool rough;       /* no gradient check: not smooth at these values, or too many values */
    dt_status fails;  /* the error of create or of forward; DT_OK: none */
    const char *says; /* must occur in the message */
} dt__layer_case;

typedef struct dt__layer_cases {
    const char *name;
    const dt_module_type *type;
    const dt__layer_case *cases;
    int n;
} dt__layer_cases;

/* Defines a dt__layer_case.create: `call` makes the layer, from ctx, and sets *out. */
#define DT__MAKE(name, call)                                                                       \
    static dt_status name(dt_ctx *ctx, dt_module **out) { return call; }

/* The same with a create function and options of a type. */
#define DT__MAKE_OF(name, create, type, ...)                                                       \
    DT__MAKE(name, create(ctx, &(const type){ __VA_ARGS__ }, out))

/* Ends a file nn_<name>.c. Without it the tests do not link: dt__cases_of_layer_<name> is
 * missing. */
#define DT__LAYER_CASES(layer, table)                                                              \
    extern const dt__layer_cases dt__cases_of_layer_##layer;                                       \
    const dt__layer_cases dt__cases_of_layer_##layer = { #layer, &dt__nn_##layer, table,           \
                                                         DT__COUNT_OF(table) };

#endif
