/* What a module is made of, for src/nn and the layers above. */
#ifndef DT__NN_MODULE_H
#define DT__NN_MODULE_H

#include "autograd/kind.h"
#include "autograd/tape.h"

#include <detent/nn.h>

typedef struct dt__entry {
    const char *name, *path; /* dt__text; the path starts at the root of the tree */
    dt_tensor *x;
    dt_entry_kind kind;
} dt__entry;

typedef struct dt__hook {
    struct dt__hook *next;
    uint64_t id;
    dt_site site;
    dt_hook call;
    void *user;
    void (*drop)(dt_ctx *ctx, void *user);
} dt__hook;

typedef struct dt__param {
    dt_tensor *x;
    const char *path; /* relative to the module that was asked; lent by it */
} dt__param;

/* Whether `norm` is folded into a layer's weight and bias: src/nn/fold.c. */
typedef enum dt__folding {
    DT__APART,
    DT__FOLDED,       /* while the model trains, with statistics of the batch */
    DT__FOLDED_FROZEN /* with the running ones, which stay */
} dt__folding;

/* An adapter: src/nn/lora.h. */
typedef struct dt__lora {
    int64_t rank; /* 0: none */
    double alpha;
} dt__lora;

struct dt_module {
    dt_ctx *ctx;
    const dt_module_type *type;
    void *state;
    dt_module *parent; /* NULL: a root */
    const char *name;  /* dt__text, within the parent; NULL in a root */
    const char *path;  /* dt__text, from the root; "" in a root */
    dt__entry *entries;
    int64_t n_entries, room_entries;
    dt_module **children;
    int64_t n_children, room_children;
    dt_module *norm;   /* takes this layer's result and nothing else, by dt__set_norm; NULL: none */
    dt_module *normed; /* of that norm: the layer */
    dt__folding folding;
    dt__lora lora;
    dt__hook *hooks;
    uint64_t last_hook;
    atomic_int running; /* forward passes on their way, of any context: hooks stay meanwhile */
    bool training;
    bool recomputed;   /* keeps only its inputs for backward, which runs it again */
    uint64_t changes;  /* raised whenever a tensor, child or path here or below changes */
    dt__param *params; /* each parameter once, as of `params_changes` */
    int64_t n_params, room_params;
    uint64_t params_changes;
};

/* Each parameter of m and below once, in the order of visiting, under its first path. The list is
 * lent until the tree changes; the same tree makes it once. */
dt_status dt__module_params(dt_module *m, const dt__param **params, int64_t *n);
/* A number that differs whenever a tensor, a child or a path in m or below has changed. */
static inline uint64_t dt__module_changes(const dt_module *m) { return m->changes; }
/* Raises that number in m and above. */
void dt__module_changed(dt_module *m);

/* A path's text relative to m, for a path from the root that lies in m. */
const char *dt__path_within(const dt_module *m, const char *path);
/* The member of m itself of this name; NULL where there is none. */
dt__entry *dt__entry_find(const dt_module *m, const char *name);
/* The module that holds the last name of `path`, and that name; NULL where a step is missing. */
dt_module *dt__holder(dt_module *m, const char *path, const char **name);
/* Takes one reference of x, also on an error. */
dt_status dt__module_add_tensor(dt_module *m, const char *name, dt_tensor *x, dt_entry_kind kind);
/* Takes a tensor of m itself out of it, and m's reference; nothing where there is none. */
void dt__module_remove(dt_module *m, const char *name);
/* dt_module_add of a child that may have the name of a tensor of m: `a.weight` is then a parameter
 * and a module, `a.weight.scale` a tensor of the latter. On an error the child stays the
 * caller's. */
dt_status dt__module_attach(dt_module *m, const char *name, dt_module *child);

/* x after the hooks of a site, in their order; NULL after an error, which is on the tape. */
dt_tensor *dt__run_hooks(dt_tape *t, dt_module *m, dt_site site, dt_tensor *x);
void dt__hooks_free(dt_module *m);
/* A layer's `bias` (NULL: none) as it computes with it: what dt_module_weight is for the weight. */
dt_tensor *dt__module_bias(dt_tape *t, dt_module *m);
/* Frees members that no module owns any more. */
void dt__entries_free(dt_ctx *ctx, dt__entry *entries, int64_t n);

/* Multiplications of the weight of m (linear, convolution; else 0) with an input x. */
int64_t dt__module_products(const dt_module *m, const dt_tensor *x);

/* Gives every parameter and buffer another dtype (f32 or f64), on the same handles: for checking
 * gradients. All or nothing. STATE where a tensor is a wrapper or needed by a tape. */
dt_status dt__module_to(dt_module *m, dt_dtype dtype);

/* What runs within a module, in place of its type's forward where it is not NULL. */
typedef struct dt__body {
    void (*run)(void *user, dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in,
                dt_tensor **out, int n_out);
    void *user;
} dt__body;

/* A call of a module. */
typedef struct dt__module_call {
    dt_module *m;
    dt_tensor *const *in;
    int n_in;
    dt_tensor **out;
    int n_out;
    dt__body body; /* run NULL: the type's forward */
} dt__module_call;

/* dt_forward_n with a body of the caller's: the module's scope, path in messages, hooks of its
 * inputs and place in a calibration pass are the same. With a body nothing is recomputed in
 * backward. */
dt_status dt__forward_call(dt_tape *t, const dt__module_call *call);
/* Runs link[0], and with it what of the next ones its op can take; *taken is their number. x
 * stays. */
dt_tensor *dt__forward_links(dt_tape *t, const dt_link *link, int64_t n, dt_tensor *x,
                             int64_t *taken);

/* In a forward made of steps: x is not needed any more, unless it is an input, the next value `y`
 * itself, or was kept for somebody further out. */
void dt__drop_step(dt_tape *t, dt_tensor *x, const dt_tensor *y);

/* y, which was made of x, takes its place. */
static inline dt_tensor *dt__then(dt_tape *t, dt_tensor *x, dt_tensor *y)
{
    dt__drop_step(t, x, y);
    return y;
}

/* A new parameter (buffer) `name` of m, zero at first; *x is lent. */
dt_status dt__new_param(dt_module *m, const char *name, int rank, const int64_t *dims,
                        dt_tensor **x);
dt_status dt__new_buffer(dt_module *m, const char *name, int rank, const int64_t *dims,
                         dt_tensor **x);
/* Adds what a create function made, or passes its error on; *lent is the child. */
dt_status dt__add_made(dt_module *m, const char *name, dt_status made, dt_module *child,
                       dt_module **lent);
/* The ways a layer's create ends: *out gets m, or m is freed. */
dt_status dt__layer_done(dt_status status, dt_module *m, dt_module **out);
/* Refuse an extent of a layer below 1, a number outside 0...1. */
dt_status dt__want_extent(dt_ctx *ctx, const char *layer, const char *what, int64_t extent);
dt_status dt__want_share(dt_ctx *ctx, const char *layer, const char *what, double share);

/* Every type of src/nn/nn_<name>.c. */
#define DT__NN(name) extern const dt_module_type dt__nn_##name;
#include "nn/nn.inc"
#undef DT__NN

#endif
