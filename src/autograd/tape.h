/* The tape: the records of one forward pass and the handles it lent. */
#ifndef DT__AUTOGRAD_TAPE_H
#define DT__AUTOGRAD_TAPE_H

#include "autograd/kind.h"

#include <detent/experimental/ops.h>

/* What a record saves of an operand or of a result. */
typedef struct dt__saved {
    dt_tensor *x;            /* the handle as given or lent; its shape outlives its storage */
    dt__storage *storage;    /* the value's, if the op saves it; NULL: only the shape is saved */
    uint64_t version;        /* of the storage when it was saved */
    int64_t offset;          /* of the value in the storage */
    dt__codes *codes, *pull; /* an operand's, for the op's backward; for its kind's pullback */
    bool contiguous;         /* the value is contiguous (x may not be) */
    bool wants;              /* for an operand: it requires a gradient */
    uint8_t precision;       /* how backward reads an operand's value: dt_precision */
    dt__halves *halves;      /* the value as bf16, in place of the storage, or NULL */
} dt__saved;

/* A call that backward will run. Kept small, since there is one per op. */
typedef struct dt__record {
    const dt_op *op;
    const struct dt__kernels *kernels;
    const void *options; /* the op's defaults, or a copy */
    const char *where;   /* path of the module that made the call, a dt__text or NULL */
    int64_t state[4];
    int n_in, n_out, products;
    bool coded;
    dt__saved kept[]; /* operands, then results */
} dt__record;

/* The call of a record as backward gets it. call.arg and call.out only have storage if op->saves
 * includes them, so an op that reads what it did not save fails at once. These tensors live as long
 * as this struct and must not be retained. */
typedef struct dt__replay {
    dt_call call;
    dt_tensor arg[DT_MAX_IN], out[DT_MAX_OUT];
} dt__replay;

/* The second run of a checkpointed segment (src/autograd/segment.h): its record, and the index of
 * the next saved read. */
typedef struct dt__second_run {
    const dt__record *record; /* NULL: no second run */
    int at;
} dt__second_run;

struct dt__module_call;

/* Sums of a batch norm over a shard, and over all shards of the batch: two numbers for each of
 * `channels` channels (kernels/kernels.h, dt__batch_norm). */
typedef struct dt__norm_sums {
    int64_t channels;
    bool backward;
    double count; /* values of a channel in this shard */
    const double *own;
    double *all; /* `all` and `all_count` are results */
    double all_count;
} dt__norm_sums;

struct dt_tape {
    dt_ctx *ctx;
    dt_status status;
    bool no_grad;
    bool backward_done; /* dt_backward has run */
    bool in_first_run;  /* in the first run of a checkpointed segment: nothing is recorded */
    bool watching;      /* check every result for NaN and infinity */
    bool shapes_only;   /* ops check operands and make results, and compute nothing */
    dt_tensor **lent;
    int64_t n_lent, room_lent;
    dt__record **records;
    int64_t n_records, room_records;
    int depth;            /* number of open module scopes */
    int64_t *scope_start; /* first handle of each open scope */
    int64_t room_scopes;
    dt__second_run again;
    dt_tensor **saved_reads; /* of the segment that is in its first run */
    int64_t n_saved_reads, room_saved_reads;
    const char *where;                  /* path of the running module, a dt__text; NULL outside */
    const struct dt__open_module *open; /* innermost module whose scope is open (nn); NULL: none */
    /* In a calibration pass (calib_cache.h), else NULL: the calibration cache of the batch,
     * and a function that is called with each operand of each op. */
    struct dt__calib_cache *calib;
    void (*on_read)(dt_tape *t, const dt_tensor *x);
    /* Called after each module's forward (src/nn/module.h), which is then not fused; NULL: none. */
    void (*on_forward)(void *user, const struct dt__module_call *call);
    void *on_forward_user;
    /* Called after each op, before operands are freed; modules are then not fused. NULL: none. */
    void (*on_call)(void *user, const dt_call *c);
    void *on_call_user;
    /* Whether an op that has a `lower` runs as the calls of its `lower`; NULL: no op does. */
    bool (*lowers)(void *user, const dt_op *op);
    void *lowers_user;
    int lowered; /* nesting depth of running calls of `lower` */
    /* Called when an op begins to compute, and when it has computed; NULL: none. */
    void (*on_compute)(void *user, const dt_op *op, bool begins);
    void *on_compute_user;
    /* Called in backward after each record, when its operands have their gradients; NULL: none. */
    void (*on_gradients)(void *user);
    void *on_gradients_user;
    /* Batch norms in training call it for the sums over all shards; NULL: the batch has a single
     * shard. It returns no error: the cluster records it. */
    void (*add_norms)(void *user, dt__norm_sums *s);
    void *add_norms_user;
    struct dt__cache *cache; /* key-value cache of earlier tokens (cache.h); NULL: none */
};

/* Calls the tape's on_compute. */
static inline void dt__tape_computes(const dt_tape *t, const dt_op *op, bool begins)
{
    if (t->on_compute != NULL) t->on_compute(t->on_compute_user, op, begins);
}

/* Puts a handle on the tape, which takes over the caller's reference (frees it on an error). */
dt_status dt__tape_lend(dt_tape *t, dt_tensor *x);
/* Sets the tape's status to that of the context's latest error, unless it has one. */
dt_status dt__tape_adopt(dt_tape *t, dt_status status);
/* Appends *r to the records; the tape takes ownership. */
dt_status dt__tape_record(dt_tape *t, dt__record *r);
/* Runs backward through the records after the first `base`, and frees them. If `status` is not
 * DT_OK, only frees them. */
dt_status dt__backward_to(dt_tape *t, int64_t base, dt_status status);
void dt__record_free(dt_ctx *ctx, dt__record *r);
void dt__record_replay(dt_tape *t, const dt__record *r, dt__replay *out);

/* Opens a scope. Leaving it drops every handle made inside, except the n in `keep`, which move to
 * the outer scope. */
dt_status dt__scope_enter(dt_tape *t);
void dt__scope_leave(dt_tape *t, dt_tensor *const *keep, int n);

/* Reserves `blocks` blocks of a random stream; returns the counter of the first, and the key. */
uint64_t dt__tape_draw(dt_tape *t, dt__purpose purpose, uint64_t blocks, uint64_t *key);

#endif
