/* train.shards, internal to src/train: an update's gradient as a sum over shards of its batches, in
 * a tree, so that 1, 2, ... ranks get the same bits (core/ranks.h).
 *     shards.c          the gradients of this rank's shards, and their sum over all
 *     shards_layout.c   the gradients of a node, and buckets of them
 *     shards_overlap.c  buckets that leave while backward goes on
 *     shards_sync.c     shards in step, with batch norms over all of them
 *     shards_merge.c    running statistics of norms and static ranges, from those of the shards
 *     run_cluster.c     joining the other ranks: what must agree, messages of rank 0 */
#ifndef DT__TRAIN_SHARDS_H
#define DT__TRAIN_SHARDS_H

#include "autograd/spread.h"
#include "core/ranks.h"
#include "core/tensor.h"
#include "train/run/run.h"

/* How the buffers of shards are merged. */
typedef enum dt__merging {
    DT__MERGE_MEAN, /* in the order of shards, in double */
    DT__MERGE_LEAST,
    DT__MERGE_MOST,
    DT__MERGE_COUNT, /* i64: counts of all shards are added */
    DT__MERGE_VALUES /* values kept by an observer, in the order of shards */
} dt__merging;

/* A buffer that forward passes change. */
typedef struct dt__merged {
    dt_tensor *x; /* lent by the model */
    dt__merging how;
    size_t at;       /* offset of its bytes in a shard's state */
    size_t count_at; /* of values: offset of their number */
    size_t bytes;
} dt__merged;

/* A shard's report on its part of an update. */
typedef struct dt__shard_report {
    double loss;
    uint64_t drawn[DT__PURPOSES]; /* blocks of random numbers that it drew */
    /* used: it has examples; nonfinite: an op found a non-finite value */
    int64_t used, nonfinite;
} dt__shard_report;

/* When a parameter's gradient changed last, as an index of records in backward. */
typedef struct dt__param_state {
    const dt_tensor *grad; /* compared only, never dereferenced */
    uint64_t version;
    int64_t last;
} dt__param_state;

#define DT__SHARD_PARTS 64 /* more than the levels of a tree, and than the parts of a rank */

/* A node of the tree: the gradients of all parameters, as backward made them. */
typedef struct dt__gradients {
    dt_tensor **x; /* NULL: no gradient yet */
    float **data;  /* of each, for buckets */
} dt__gradients;

/* The sum of a node's leaves, for a parameter with expert parallelism. */
typedef struct dt__own_node {
    int64_t a, b;
    dt_tensor *x;
} dt__own_node;

/* A parameter of which this rank has some experts, and the tree nodes whose parents are
 * incomplete. */
typedef struct dt__own_experts {
    dt_tensor *x;         /* lent */
    bool given;           /* some shard had a gradient */
    unsigned char *taken; /* [ranks]: the leaf of that rank's current shard is in the tree */
    dt__own_node *node;
    int64_t n_nodes, room_nodes;
} dt__own_experts;

struct dt__shards {
    dt_ctx *ctx;
    dt__cluster *cluster;                  /* NULL: one rank */
    const struct dt__experts_hooks *hooks; /* of the cluster, which may be closed before these */
    int64_t shards, own;                   /* number of all shards, and of this rank's */
    dt_module *model;
    dt_optimizer *optimizer;
    uint64_t seen; /* the model's change counter when the following fields were made */
    /* in reverse order of registration, about the order in which backward completes gradients */
    dt_tensor **param;
    dt__bucket_tensor *tensor; /* how each is divided among ranks */
    dt__param_state *param_state;
    int64_t n_params;
    dt__gradients part[DT__SHARD_PARTS], stack[DT__SHARD_PARTS];
    float *const *parts[DT__SHARD_PARTS]; /* data of `part` */
    int n_parts, n_stack;
    dt__own_experts *experts;
    int64_t n_experts, room_experts;
    int64_t experts_shard; /* index of the shards that all ranks are computing */
    /* bytes of nodes now; largest number so far, with leaves */
    int64_t experts_bytes, experts_most;
    struct dt__sync *sync; /* cluster.sync_norm, if the model has batch norms; else NULL */
    dt__merged *merged;
    int64_t n_merged;
    size_t state_bytes; /* of all merged buffers */
    char *before;       /* their state before the update */
    dt__buckets buckets;
    dt_tape *tape;
    int64_t learned;      /* number of records of the backward that filled param_state; 0: none */
    int64_t records;      /* records that the current backward has processed */
    int64_t sent, posted; /* parameters in part[0]; posted buckets */
    /* Exchanged after the shards: from each rank a flag, `own` reports, a byte per parameter
     * (whether it has a gradient), `own` states of merged buffers. */
    size_t report_bytes;
    char *mine, *all;
    char *packed;                 /* the merged buffers' states of all shards */
    char words[DT__MESSAGE_SIZE]; /* message of this rank's first shard with a non-finite value */
};

typedef struct dt__shards dt__shards;

dt__shard_report *dt__shards_report(const dt__shards *s, char *of_rank, int64_t i);
unsigned char *dt__shards_given(const dt__shards *s, char *of_rank);
char *dt__shards_state(const dt__shards *s, char *of_rank, int64_t i);
/* Computes the gradient of a shard. */
dt_status dt__shards_leaf(dt__run *r, const dt__batch_range *p, int64_t shard, dt__gradients *to);
/* Posts the next bucket. */
void dt__shards_post(dt__shards *s);
/* Sets the random streams of a shard: its own key, and the counters of the update. */
void dt__shards_key(dt__run *r, const dt__batch_range *p, int64_t shard);

/* ---- shards_layout.c ---- */

/* Remakes the following if the model's tensors have changed. CONFIG, NOMEM. */
dt_status dt__shards_follow(dt__run *r);
void dt__shards_forget(dt__shards *s);
/* NOMEM; then dt__gradients_forget frees what was made. */
dt_status dt__gradients_make(const dt__shards *s, dt__gradients *g);
void dt__gradients_forget(const dt__shards *s, dt__gradients *g);
/* Frees the gradients, but keeps the arrays. */
void dt__gradients_free(const dt__shards *s, dt__gradients *g);

/* ---- shards_sync.c ---- */

/* Makes s->sync, if it is needed. NOMEM; then dt__sync_close frees what was made. */
dt_status dt__sync_open(dt__run *r, dt__shards *s);
void dt__sync_close(dt__shards *s);
/* Computes the gradients of all shards of this rank in step; the other returns that of the rank's
 * shard i. */
dt_status dt__sync_leaves(dt__run *r, const dt__batch_range *p);
dt_status dt__sync_take(dt__shards *s, int64_t i, dt__gradients *to);

/* ---- shards_overlap.c ---- */

/* Moves gradient i to `to`, where nothing else changes it; zeros if there is none. */
dt_status dt__shards_take(dt__shards *s, int64_t i, dt__gradients *to);
/* Called before and after backward of a shard's last batch: gradients may be sent meanwhile. */
void dt__shards_watch(dt__run *r, bool on);
/* STATE if a gradient changed after it was sent. */
dt_status dt__shards_check_sent(const dt__shards *s);

/* ---- experts that are spread (cluster/experts) ---- */

typedef struct dt__experts_hooks {
    /* Sets ctx->spread, which dt__spread_close frees, also after an error. NOMEM. */
    dt_status (*open)(dt_ctx *ctx, dt__cluster *c, const dt__fetching *fetching);
    /* Adds a parameter with expert parallelism. NOMEM. The functions below are called only if there
     * is one. */
    dt_status (*add)(dt__shards *s, dt_tensor *x);
    void (*forget)(dt__shards *s);
    void (*begin)(dt__shards *s); /* before the first shard of an update */
    /* At the beginning of shard i of each rank: if a shard has a single batch, gradients are added
     * as soon as they are computed, layer by layer. */
    void (*watch)(dt__run *r, const dt__batch_range *p, int64_t i);
    /* At its end: adds the remaining gradients of this rank's experts. */
    dt_status (*take)(dt__shards *s);
    void (*put)(dt__shards *s); /* after all shards: sets the parameters' gradients to the sums */
} dt__experts_hooks;

/* ---- shards_merge.c ---- */

/* Finds the buffers. */
dt_status dt__shards_find_merged(dt__run *r, dt__shards *s);
void dt__shards_save(const dt__shards *s, char *to);
void dt__shards_restore(const dt__shards *s, const char *from);
/* Merges the states of all shards with examples, in order, and recomputes scales of changed
 * ranges. */
dt_status dt__shards_merge(dt__run *r, dt__shards *s);
/* Before the first update with learned ranges: the first shard initializes them, on every rank. */
dt_status dt__shards_begin_ranges(dt__run *r, const dt__batch_range *p);

#endif
