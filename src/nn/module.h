/* The struct of a module, and functions for src/nn and the folders above it. */
#ifndef DT__NN_MODULE_H
#define DT__NN_MODULE_H

#include "autograd/kind.h"
#include "autograd/tape.h"
#include "core/names.h"

#include <detent/experimental/nn.h>

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
    /* For a hook of a weight: whether the gradient of its result is passed to its operand
     * unchanged. NULL: not known. */
    bool (*is_straight)(const void *user);
} dt__hook;

typedef struct dt__param {
    dt_tensor *x;
    const char *path; /* relative to the module of dt__module_params, which lends it */
} dt__param;

/* Whether a layer's norm is folded into its weight and bias: src/nn/fold.c. */
typedef enum dt__folding {
    DT__APART,         /* not folded */
    DT__FOLDED,        /* folded; in training the norm uses batch statistics */
    DT__FOLDED_FROZEN, /* folded with the running statistics, which no longer change */
    /* in an integer network: folded with the running statistics, which the pass in floats that
     * observes ranges still updates (src/qat/device/device_norms.c) */
    DT__FOLDED_PLANNED
} dt__folding;

/* An adapter: src/nn/layers/lora.h. */
typedef struct dt__lora {
    int64_t rank; /* 0: none */
    double alpha;
    bool beside; /* the weight is packed: the adapter is a separate product */
} dt__lora;

/* Replaces the forward of a module's type after dt_prepare; owned by the module:
 * src/qat/device/device_plan.h. */
typedef struct dt__form {
    void (*run)(void *user, dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in,
                dt_tensor **out, int n_out);
    void (*free)(dt_ctx *ctx, void *user);
    void *user;
} dt__form;

struct dt_module {
    dt_ctx *ctx;
    const dt_module_type *type;
    void *state;
    dt_module *parent; /* NULL: a root */
    int64_t place;     /* among the parent's children */
    const char *name;  /* dt__text, within the parent; NULL in a root */
    const char *path;  /* dt__text, from the root; "" in a root */
    dt__entry *entries;
    int64_t n_entries, room_entries;
    dt_module **children;
    int64_t n_children, room_children;
    dt__names names;   /* of the children; empty if there are few, or if one was removed */
    dt_module *norm;   /* set by dt__set_norm: the only reader of this layer's output; NULL: none */
    dt_module *normed; /* in a norm that dt__set_norm set: its layer */
    dt__folding folding;
    dt__lora lora;
    int example_rank;   /* rank of an example's input, if the model's family gives it; 0: unknown */
    int64_t example[3]; /* its extents */
    dt__form form;      /* run NULL: the type's forward */
    dt__hook *hooks;
    uint64_t last_hook;
    atomic_int running; /* running forward passes, in any thread; above 0 no hook may be removed */
    bool training;
    bool recomputed;   /* under activation checkpointing */
    uint64_t changes;  /* raised whenever a tensor, child or path here or below changes */
    dt__param *params; /* each parameter once, valid if `params_changes` equals `changes` */
    int64_t n_params, room_params;
    uint64_t params_changes;
};

/* Each parameter of m and below once, in the order of visiting, under its first path. The list is
 * lent until the tree changes. */
dt_status dt__module_params(dt_module *m, const dt__param **params, int64_t *n);
/* A counter that grows whenever a tensor, a child or a path in m or below changes. */
static inline uint64_t dt__module_changes(const dt_module *m) { return m->changes; }
/* Increments that counter in m and all modules above. */
void dt__module_changed(dt_module *m);

/* The next module after m when walking `root`, each module before its children; NULL: none. */
dt_module *dt__module_next(const dt_module *root, const dt_module *m);
/* for (each module m in `root`, including root, which is the first) */
#define DT__EACH_MODULE(m, root)                                                                   \
    for (dt_module *m = (root); m != NULL; m = dt__module_next(root, m))
/* for (each entry e in `root` and below; m has it). Must not be left by `break`. */
#define DT__EACH_ENTRY(m, e, root)                                                                 \
    DT__EACH_MODULE(m, root)                                                                       \
        for (const dt__entry *e = m->entries; e != NULL && e < m->entries + m->n_entries; e++)
/* Whether e is the first entry of its tensor in root: tied parameters have several. */
bool dt__entry_is_first(const dt_module *root, const dt__entry *e);

/* The part of `path` relative to m; path leads from the root to something in m. */
const char *dt__path_within(const dt_module *m, const char *path);
/* The child of m with a name of n bytes; NULL if there is none. */
dt_module *dt__child_of(const dt_module *m, const char *name, size_t n);
/* The entry of m itself (not of a child) with this name; NULL if there is none. */
dt__entry *dt__entry_find(const dt_module *m, const char *name);
/* Splits a path: the module that all but its last name lead to, and *name, the last one. NULL if
 * there is no such module. */
dt_module *dt__holder(dt_module *m, const char *path, const char **name);
/* Adds an entry. Takes over the caller's reference to x, even on an error. */
dt_status dt__module_add_tensor(dt_module *m, const char *name, dt_tensor *x, dt_entry_kind kind);
/* Removes an entry of m itself, and m's reference to its tensor, if the entry exists. */
void dt__module_remove(dt_module *m, const char *name);
/* dt_module_add for a child that may have the name of a tensor of m: `a.weight` is then both a
 * parameter and a module, and `a.weight.scale` a tensor of that module. On an error the child
 * remains the caller's. */
dt_status dt__module_attach(dt_module *m, const char *name, dt_module *child);

/* Runs the hooks of a site on x, in their order, and returns the result; NULL with the error on the
 * tape. */
dt_tensor *dt__run_hooks(dt_tape *t, dt_module *m, dt_site site, dt_tensor *x);
void dt__hooks_free(dt_module *m);
/* The bias that a layer computes with, NULL if it has none; as dt_module_weight for the weight. */
dt_tensor *dt__module_bias(dt_tape *t, dt_module *m);
/* Called by dt_module_add: if the last child of a sequential module is a batch norm after a
 * convolution, declares that it can be folded (nn_sequential.c). */
void dt__sequential_added(dt_module *m);
/* Frees entries that were removed from a module. */
void dt__entries_free(dt_ctx *ctx, dt__entry *entries, int64_t n);

/* The number of multiply-adds of m itself for an input x: of a linear or convolution layer; else
 * 0. */
int64_t dt__module_products(const dt_module *m, const dt_tensor *x);

/* A function that runs in place of the forward of a module's type. */
typedef struct dt__body {
    void (*run)(void *user, dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in,
                dt_tensor **out, int n_out);
    void *user;
    bool optional; /* outputs other than the first may remain NULL */
} dt__body;

/* A module whose forward is running on a tape, and the one that called it. */
typedef struct dt__open_module {
    const dt_module *m;
    const struct dt__open_module *caller;
} dt__open_module;

/* A call of a module. */
typedef struct dt__module_call {
    dt_module *m;
    dt_tensor *const *in;
    int n_in;
    dt_tensor **out;
    int n_out;
    dt__body body; /* run NULL: the type's forward */
} dt__module_call;

/* dt_forward_n with a body: tape scope, path in messages, input hooks and calibration are those of
 * the module. Backward never recomputes such a call. */
dt_status dt__forward_call(dt_tape *t, const dt__module_call *call);
/* Runs link[0] and, fused with it, as many of the following links as one op can compute; *taken is
 * the number of links run. Does not drop x. */
dt_tensor *dt__forward_links(dt_tape *t, const dt_link *link, int64_t n, dt_tensor *x,
                             int64_t *taken);

/* For a forward of several steps: drops the intermediate result x after y was computed from it.
 * Does nothing if x is y or belongs to an outer scope (an input of the module). */
void dt__drop_step(dt_tape *t, dt_tensor *x, const dt_tensor *y);

/* Drops x and returns y, which was computed from x. */
static inline dt_tensor *dt__then(dt_tape *t, dt_tensor *x, dt_tensor *y)
{
    dt__drop_step(t, x, y);
    return y;
}

/* Add a parameter, or a buffer, `name` to m, filled with zeros; *x is lent. */
dt_status dt__new_param(dt_module *m, const char *name, int rank, const int64_t *dims,
                        dt_tensor **x);
/* Adds a parameter `weight` of n ones and a parameter `bias` of n zeros, as norms have them. */
dt_status dt__new_scale_and_shift(dt_module *m, int64_t n);
dt_status dt__new_buffer(dt_module *m, const char *name, int rank, const int64_t *dims,
                         dt_tensor **x);
/* Adds `child` to m, or returns `made`, the status of its create function; *lent is the child. */
dt_status dt__add_made(dt_module *m, const char *name, dt_status made, dt_module *child,
                       dt_module **lent);
/* The end of a create function: if status is OK, *out = m, else frees m. Returns status. */
dt_status dt__layer_done(dt_status status, dt_module *m, dt_module **out);
/* ARG if an extent is below 1; ARG if a number is outside 0...1. */
dt_status dt__want_extent(dt_ctx *ctx, const char *layer, const char *what, int64_t extent);
dt_status dt__want_share(dt_ctx *ctx, const char *layer, const char *what, double share);

/* Sets the shape of an example of m's only input; rank 1 to 3. */
void dt__set_example(dt_module *m, int rank, const int64_t *dims);

/* All types of src/nn/<room>/nn_<name>.c. */
#define DT__NN(name) extern const dt_module_type dt__nn_##name;
#include "nn/nn.inc"
#undef DT__NN

#endif
