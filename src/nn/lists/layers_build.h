/* Building the module of a list of layers: names, inputs and shapes are resolved layer by layer. */
#ifndef DT__NN_LAYERS_BUILD_H
#define DT__NN_LAYERS_BUILD_H

#include "core/text/json.h"
#include "core/names.h"
#include "nn/lists/layer_type.h"

/* A value of a list: an input, or the result of a layer. */
typedef struct dt__layers_value {
    const char *name; /* NULL: none */
    const char *path; /* path of the option that makes it: "layers.3" */
    bool known;       /* false: its layer is wrong, so layers that read it are skipped */
    bool read;        /* a layer reads it, or it is an output */
    dt_shape shape;
    int64_t number;                 /* in the graph (graph.h) */
    struct dt__layers_value *alias; /* the same value under another name; NULL: none */
} dt__layers_value;

typedef struct dt__layers_build {
    dt_ctx *ctx;
    void *blocks; /* memory of strings and values */
    dt_option_fault fault;
    void *user;
    int64_t faults;
    int64_t modules; /* number made so far */
    dt_tape *tape;   /* for computing shapes */
} dt__layers_build;

/* A list that is being built: the model's, or that of one repetition. */
typedef struct dt__layers_scope {
    dt__layers_build *b;
    struct dt__layers_scope *outer; /* the list around a repetition; NULL: this is the model's */
    const char *path;               /* path of the list: "layers", "layers.2.layers" */
    dt_module *m;                   /* the graph */
    dt__layers_value **values;      /* values that have names in this list */
    int64_t n, room;
    dt__names names;                       /* of the values */
    dt__layers_value *last;                /* the result of the previous layer; NULL: none */
    dt__layers_value *captured[DT_MAX_IN]; /* in a repetition: the outer value behind each input */
    int n_in, depth;
    int64_t n_nodes;
} dt__layers_scope;

/* Reports a fault at a path. Returns OK, or NOMEM. */
dt_status dt__layers_fault_at(dt__layers_build *b, const char *path, const char *format, ...)
    DT_PRINTF(3, 4);
/* Strings that live as long as the build; NULL: NOMEM. */
const char *dt__layers_text(dt__layers_build *b, const char *format, ...) DT_PRINTF(2, 3);

/* The value with a name: of this scope or of an outer one, which then becomes an input of the
 * graph. *out is NULL, after a fault at `path`, if there is none. */
dt_status dt__layers_find(dt__layers_scope *s, const char *name, const char *path,
                          dt__layers_value **out);
/* The value with a name in this scope; NULL: none. */
dt__layers_value *dt__layers_own(const dt__layers_scope *s, const char *name);
/* Adds a copy of a value; *out is lent. */
dt_status dt__layers_add(dt__layers_scope *s, const dt__layers_value *value,
                         dt__layers_value **out);
/* Renames the value that was added last; `name` must live as long as the build. NOMEM. */
dt_status dt__layers_rename_last(dt__layers_scope *s, const char *name);
/* Makes a value of the outer scope an input of the repetition, without a name there. */
dt_status dt__layers_capture(dt__layers_scope *s, dt__layers_value *outer, const char *path,
                             dt__layers_value **out);
/* Builds the layers of a list into s->m. */
dt_status dt__layers_build_list(dt__layers_scope *s, const dt_item_list *layers);

/* Reports a fault for each layer that no layer reads and that is not an output. */
dt_status dt__layers_check_read(const dt__layers_scope *s);

/* The shape of m's result for inputs of these shapes (layer_shapes.c). Errors: those of the ops,
 * SHAPE for a result without the batch. */
dt_status dt__layer_shape(dt_tape *t, dt_module *m, const dt_shape *in, int n_in, dt_shape *out);

#endif
