/* Layers that are a function of ops: DT__OP_LAYER makes a kind of layer from a function on the
 * tape, its options and their keys. The module's state is the options. Operands that may be
 * constants (dt_operands) are buffers or parameters `first`, `second`, `third`, initially 1. */
#ifndef DT__NN_OP_LAYER_H
#define DT__NN_OP_LAYER_H

#include "nn/lists/layer_cases.h"
#include "nn/lists/layer_type.h"
#include "nn/module.h"

/* The layer's function. Returns its result, lent by the tape; NULL with the error on the tape.
 * `options` is the kind's struct, without its head. */
typedef dt_tensor *dt__op_function(dt_tape *t, const void *options, dt_tensor *const *in, int n_in);

typedef struct dt__op_layer {
    const dt_module_type *module;
    size_t size; /* bytes of the options */
    dt__op_function *apply;
    /* Refuses options that are invalid for every input. NULL: there are no such options. */
    dt_status (*check)(dt_ctx *ctx, const char *name, const void *options);
    int operands;     /* number of operands, including constants; 0: any number */
    bool joins;       /* all inputs have the same number of dimensions; a constant has fewer */
    size_t constants; /* offset of a dt_operands in the options; 0: none */
} dt__op_layer;

/* Makes a module of the kind. `options` is the kind's struct. ARG if they are wrong, NOMEM. */
dt_status dt__op_layer_create(dt_ctx *ctx, const dt__op_layer *op, const void *options,
                              dt_module **out);
/* The same for a list of layers; also ARG if the kind does not have n_in inputs. */
dt_status dt__op_layer_in_list(dt_ctx *ctx, const dt__op_layer *op, const void *options, int n_in,
                               dt_module **out);
/* The forward of all these layers. */
void dt__op_forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out);

/* Defines the module type dt__nn_<kind>, its dt__op_layer <kind>_op and the kind dt__layer_<kind>;
 * `...` are further fields of dt__op_layer. */
#define DT__OP_LAYER(kind, about, options_type, key_table, least, most, ...)                       \
    extern const dt_module_type dt__nn_##kind;                                                     \
    const dt_module_type dt__nn_##kind = { .name = #kind, .forward = dt__op_forward };             \
    static const dt__op_layer kind##_op = { .module = &dt__nn_##kind,                              \
                                            .size = sizeof(options_type),                          \
                                            __VA_ARGS__ };                                         \
    static dt_status kind##_in_list(dt_ctx *ctx, const void *options, const dt_shape *in,          \
                                    int n_in, dt_module **out)                                     \
    {                                                                                              \
        (void)in;                                                                                  \
        return dt__op_layer_in_list(ctx, &kind##_op, options, n_in, out);                          \
    }                                                                                              \
    DT__LAYER_TYPE(kind, about, options_type, key_table, least, most, .create = kind##_in_list)

/* The same for a kind without options. */
#define DT__PLAIN_OP_LAYER(kind, about, least, most, ...)                                          \
    static const dt_key kind##_keys[] = { DT__LAYER_HEAD(#kind, dt_plain_layer), { 0 } };          \
    DT__OP_LAYER(kind, about, dt_plain_layer, kind##_keys, least, most, __VA_ARGS__)

/* A create function for cases: made_<kind>_<name>(ctx, out), with these options. */
#define DT__OP_MAKE(name, kind, options_type, ...)                                                 \
    static dt_status made_##kind##_##name(dt_ctx *ctx, dt_module **out)                            \
    {                                                                                              \
        return dt__op_layer_create(ctx, &kind##_op, &(const options_type){ __VA_ARGS__ }, out);    \
    }

/* Ends a file nn_<topic>.c of such layers. */
#define DT__OP_LAYER_CASES(topic, table)                                                           \
    extern const dt__layer_cases dt__cases_of_layer_##topic;                                       \
    const dt__layer_cases dt__cases_of_layer_##topic = { #topic, &dt__op_module, table,            \
                                                         DT__COUNT_OF(table) };

/* A placeholder for all types of a file in lists of cases. */
extern const dt_module_type dt__op_module;
/* The type of layer `add`, which nn_graph.c fuses with the layer before. */
extern const dt_module_type dt__nn_add;

#endif
