/* cluster.experts: spread: each rank owns some experts of every mixture, and multiplies the rows of
 * all ranks by them.
 *     spread_model.c      cuts a model down to a rank's experts, and joins it again
 *     spread_session.c    rounds of messages while models run
 *     spread_rows.c       the contents of messages
 *     spread_gradients.c  gradients of the experts, summed over shards */
#ifndef DT__CLUSTER_SPREADING_H
#define DT__CLUSTER_SPREADING_H

#include "autograd/spread.h"
#include "core/ranks.h"
#include "nn/module.h"
#include "ops/products/grouped_owned.h"

/* The request in a message. */
typedef enum dt__asking {
    DT__ASKS_NOTHING, /* the rank's own pass is done */
    DT__ASKS_FORWARD,
    DT__ASKS_BACKWARD,
    DT__ASKS_THE_END /* the rank has failed, and will not answer again */
} dt__asking;

/* The head of a block of rows, which are floats, or codes as in dt__codes. */
typedef struct dt__rows_head {
    int32_t asks, layer;
    int64_t rows;
    int32_t no_grad, wants_x, wants_weight, wants_bias;
    int32_t coded, bits, integer, blocks, packed, has_zero, has_zero_u, unused;
    int64_t columns, group, groups, stride;
} dt__rows_head;

/* A block that grows. */
typedef struct dt__rows_room {
    char *data;
    size_t bytes, room;
} dt__rows_room;

/* A layer of a mixture whose experts are spread: its weight, and all tensors that are cut with
 * it. */
typedef struct dt__spread_layer {
    dt_tensor *weight, *bias; /* lent; bias NULL: none */
    int64_t first, past;      /* range of its tensors in the session's list */
} dt__spread_layer;

/* For a call of grouped_linear: the rows of each rank. */
typedef struct dt__asked {
    const dt_call *c; /* NULL: no call */
    const dt_tensor *dy;
    dt_tensor *const *dx;
    dt_tensor *index, *x;
    dt__codes *codes;
    int64_t assignments, per_row, in, out;
} dt__asked;

typedef struct dt__spreading {
    dt__spread link; /* what ops and files see */
    dt_ctx *ctx;
    dt__cluster *cluster;
    int rank, ranks;
    dt__fetching fetching;
    /* fields of the session */
    bool open;
    dt_status status; /* the first error while serving others */
    dt_status lost;   /* why the ranks are no longer in step */
    dt_tape *tape;
    dt__spread_layer *layers;
    int64_t n_layers, room_layers;
    dt_tensor **tensor; /* all tensors of the model that are spread, lent */
    int64_t n_tensors, room_tensors;
    dt_tensor **slot; /* [ranks][n_tensors]: gradients from the rows of other ranks */
    /* Takes a gradient of tensor[i] from its slot as soon as it is complete, where a tensor gets
     * one gradient from each rank in the session. NULL: gradients stay in their slots. */
    dt_status (*on_gradient)(void *user, int rank, int64_t i, dt_tensor **grad);
    void *on_gradient_user;
    dt__rows_head *send, *receive; /* [ranks], as those below */
    /* [ranks]: rows to and from a rank, results for and from it */
    dt__rows_room *out, *in, *answer, *answered;
    int64_t *cursor;
} dt__spreading;

/* ---- spread_session.c ---- */

/* That of the context; NULL: experts are not spread. */
dt__spreading *dt__spreading_of(const dt_ctx *ctx);
/* The function dt__experts_hooks.open. */
dt_status dt__spreading_open(dt_ctx *ctx, dt__cluster *c, const dt__fetching *fetching);

/* ---- spread_rows.c ---- */

uint64_t dt__rows_bytes(const dt__rows_head *h, const dt__spread_layer *l);
uint64_t dt__rows_answer_bytes(const dt__rows_head *h, const dt__spread_layer *l);
/* Enlarges the block to `bytes`, plus DT__STEP that products may read behind them. Errors:
 * NOMEM. */
dt_status dt__rows_reserve(dt_ctx *ctx, dt__rows_room *r, uint64_t bytes);
/* Fills the heads and the blocks of rows for all ranks. Errors: NOMEM. */
dt_status dt__rows_ask(dt__spreading *s, const dt__asked *a);
/* Computes the results for the rows of rank k. `a`: the call of this rank, which gets its own
 * gradients. */
dt_status dt__rows_serve(dt__spreading *s, int k, const dt__asked *a);
/* Copies the results to their rows. Errors: NOMEM. */
dt_status dt__rows_take(dt__spreading *s, const dt__asked *a);

/* ---- spread_model.c ---- */

/* Functions of dt__spread. */
bool dt__spread_is_cut(void *user, dt_module *m);
dt_status dt__spread_cut_model(void *user, dt_module *m);
dt_status dt__spread_join_model(void *user, dt_module *m);
int64_t dt__spread_experts(void *user, dt_module *m, const dt_tensor *p);
/* Lists the tensors of a module that are, or can be, spread, in the order of their indices; the
 * weight is the first. Returns how many. */
int dt__spread_tensors(const dt_module *m, dt_tensor *to[4]);

/* ---- spread_gradients.c ---- */

extern const struct dt__experts_hooks dt__ranks_experts; /* train/shards/shards.h */

#endif
