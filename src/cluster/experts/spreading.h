/* cluster.experts: spread: each rank has a share of the experts of every mixture, and multiplies
 * the rows of all ranks by them.
 *     spread_model.c      which tensors are spread; cutting a model down to a share, and joining it
 *     spread_session.c    rounds of messages while models run
 *     spread_rows.c       what the messages hold
 *     spread_gradients.c  gradients of the shares, summed over shards */
#ifndef DT__CLUSTER_SPREADING_H
#define DT__CLUSTER_SPREADING_H

#include "autograd/spread.h"
#include "core/ranks.h"
#include "nn/module.h"
#include "ops/products/grouped_owned.h"

/* What a message asks for. */
typedef enum dt__asking {
    DT__ASKS_NOTHING, /* the rank's own pass is through */
    DT__ASKS_FORWARD,
    DT__ASKS_BACKWARD,
    DT__ASKS_THE_END /* the rank has failed, and will not answer again */
} dt__asking;

/* Goes before the rows. Rows are floats, or codes as dt__codes has them. */
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

/* A mixture's layer of which each rank has some experts: its weight and all that is cut with it. */
typedef struct dt__spread_layer {
    dt_tensor *weight, *bias; /* lent; bias NULL: none */
    int64_t first, past;      /* numbers of its tensors in the session's list */
} dt__spread_layer;

/* Of a call of grouped_linear, the rows of each rank. */
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
    /* of the session */
    bool open;
    dt_status status; /* of serving: the first error */
    dt_status lost;   /* why the ranks are no longer in step */
    dt_tape *tape;
    dt__spread_layer *layers;
    int64_t n_layers, room_layers;
    dt_tensor **tensor; /* all that is spread in the model, lent */
    int64_t n_tensors, room_tensors;
    dt_tensor **slot; /* [ranks][n_tensors]: gradients from the rows of each other rank */
    /* Where a tensor gets one gradient from each rank in the session: takes it as soon as it is
     * there, of tensor[i]. NULL: they stay in their slots. */
    dt_status (*on_gradient)(void *user, int rank, int64_t i, dt_tensor **grad);
    void *on_gradient_user;
    dt__rows_head *send, *receive;               /* [ranks], as those below */
    dt__rows_room *out, *in, *answer, *answered; /* rows to and of, results for and from a rank */
    int64_t *cursor;
} dt__spreading;

/* ---- spread_session.c ---- */

/* The context's; NULL: experts are not spread. */
dt__spreading *dt__spreading_of(const dt_ctx *ctx);
/* dt__experts_hooks.open */
dt_status dt__spreading_open(dt_ctx *ctx, dt__cluster *c, const dt__fetching *fetching);

/* ---- spread_rows.c ---- */

uint64_t dt__rows_bytes(const dt__rows_head *h, const dt__spread_layer *l);
uint64_t dt__rows_answer_bytes(const dt__rows_head *h, const dt__spread_layer *l);
/* Enlarges the block to `bytes`, and DT__STEP that may be read behind them. NOMEM. */
dt_status dt__rows_reserve(dt_ctx *ctx, dt__rows_room *r, uint64_t bytes);
/* Fills the heads and the blocks of rows for all ranks. NOMEM. */
dt_status dt__rows_ask(dt__spreading *s, const dt__asked *a);
/* Answers the rows of rank k. `a`: the call of this rank, whose own gradients it takes. */
dt_status dt__rows_serve(dt__spreading *s, int k, const dt__asked *a);
/* Puts the answers in their places. NOMEM. */
dt_status dt__rows_take(dt__spreading *s, const dt__asked *a);

/* ---- spread_model.c ---- */

/* Functions of dt__spread. */
bool dt__spread_is_cut(void *user, dt_module *m);
dt_status dt__spread_cut_model(void *user, dt_module *m);
dt_status dt__spread_join_model(void *user, dt_module *m);
int64_t dt__spread_experts(void *user, dt_module *m, const dt_tensor *p);
/* The tensors of a module that are spread, or can be, in the order of their numbers; the weight is
 * the first. Returns how many. */
int dt__spread_tensors(const dt_module *m, dt_tensor *to[4]);

/* ---- spread_gradients.c ---- */

extern const struct dt__experts_hooks dt__ranks_experts; /* train/shards/shards.h */

#endif
