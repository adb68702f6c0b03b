/* train.shards, for src/train alone: an update's gradient as a sum over shards of its batches, in a
 * tree, so that 1, 2, ... ranks get the same bits (core/ranks.h).
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

/* How the values of shards become one. */
typedef enum dt__merging {
    DT__MERGE_MEAN, /* in the order of shards, in double */
    DT__MERGE_LEAST,
    DT__MERGE_MOST,
    DT__MERGE_COUNT, /* i64: what each shard adds */
    DT__MERGE_VALUES /* those that an observer keeps, in the order of shards */
} dt__merging;

/* A buffer that forward passes write. */
typedef struct dt__merged {
    dt_tensor *x; /* lent by the model */
    dt__merging how;
    size_t at;       /* offset of its bytes in a shard's state */
    size_t count_at; /* of values: offset of their count */
    size_t bytes;
} dt__merged;

/* What a shard says of its part of an update. */
typedef struct dt__shard_report {
    double loss;
    uint64_t drawn[DT__PURPOSES]; /* blocks of random numbers that it took */
    int64_t used, nonfinite;      /* it has examples; an op refused a value */
} dt__shard_report;

/* When a parameter's gradient changed last, counted in records of backward. */
typedef struct dt__param_state {
    const dt_tensor *grad; /* never read: an address to compare with */
    uint64_t version;
    int64_t last;
} dt__param_state;

#define DT__SHARD_PARTS 64 /* more than the levels of a tree, and than the parts of a rank */

/* A node of the tree: the gradients of all parameters, as backward made them. */
typedef struct dt__gradients {
    dt_tensor **x; /* NULL: not there yet */
    float **data;  /* of each, for buckets */
} dt__gradients;

/* The sum of a node's leaves, of a parameter that is spread. */
typedef struct dt__own_node {
    int64_t a, b;
    dt_tensor *x;
} dt__own_node;

/* A parameter of which this rank has some experts, and nodes of the tree whose parents are not
 * complete. */
typedef struct dt__own_experts {
    dt_tensor *x;         /* lent */
    bool given;           /* a shard had a gradient */
    unsigned char *taken; /* [ranks]: of this rank's present shard the leaf is in the tree */
    dt__own_node *node;
    int64_t n_nodes, room_nodes;
} dt__own_experts;

struct dt__shards {
    dt_ctx *ctx;
    dt__cluster *cluster;                  /* NULL: one rank */
    const struct dt__experts_hooks *hooks; /* of the cluster, which may be closed before these */
    int64_t shards, own;                   /* in all, and of each rank */
    dt_module *model;
    dt_optimizer *optimizer;
    uint64_t seen;     /* the model's counter of changes when all below was made */
    dt_tensor **param; /* in the reverse order of registration: as backward ends with them */
    dt__bucket_tensor *tensor; /* how ranks cut each */
    dt__param_state *param_state;
    int64_t n_params;
    dt__gradients part[DT__SHARD_PARTS], stack[DT__SHARD_PARTS];
    float *const *parts[DT__SHARD_PARTS]; /* data of `part` */
    int n_parts, n_stack;
    dt__own_experts *experts;
    int64_t n_experts, room_experts;
    int64_t experts_shard;               /* i, of shards i of all ranks that run now */
    int64_t experts_bytes, experts_most; /* of nodes now, and with leaves the most so far */
    struct dt__sync *sync; /* cluster.sync_norm, in a model that has batch norms; else NULL */
    dt__merged *merged;
    int64_t n_merged;
    size_t state_bytes; /* of all of them */
    char *before;       /* their state before the update */
    dt__buckets buckets;
    dt_tape *tape;
    int64_t learned;      /* records of the backward that param_state is of; 0: none */
    int64_t records;      /* through which this backward has gone */
    int64_t sent, posted; /* parameters in part[0], buckets */
    /* What ranks exchange after their shards: of each rank a flag, `own` reports, a byte for each
     * parameter that has a gradient, `own` states of merged buffers. */
    size_t report_bytes;
    char *mine, *all;
    char *packed;                 /* the merged buffers' states of all shards */
    char words[DT__MESSAGE_SIZE]; /* of the first of this rank's shards with a value that is not
                                   * finite */
};

typedef struct dt__shards dt__shards;

dt__shard_report *dt__shards_report(const dt__shards *s, char *of_rank, int64_t i);
unsigned char *dt__shards_given(const dt__shards *s, char *of_rank);
char *dt__shards_state(const dt__shards *s, char *of_rank, int64_t i);
/* The gradient of a shard. */
dt_status dt__shards_leaf(dt__run *r, const dt__batch_range *p, int64_t shard, dt__gradients *to);
/* Posts the next bucket. */
void dt__shards_post(dt__shards *s);
/* The random streams of a shard: a key of its own, and the counters of the update. */
void dt__shards_key(dt__run *r, const dt__batch_range *p, int64_t shard);

/* ---- shards_layout.c ---- */

/* Makes all anew if the model's tensors have changed. CONFIG, NOMEM. */
dt_status dt__shards_follow(dt__run *r);
void dt__shards_forget(dt__shards *s);
/* NOMEM; then dt__gradients_forget frees what was made. */
dt_status dt__gradients_make(const dt__shards *s, dt__gradients *g);
void dt__gradients_forget(const dt__shards *s, dt__gradients *g);
/* Frees the gradients, and keeps room for others. */
void dt__gradients_free(const dt__shards *s, dt__gradients *g);

/* ---- shards_sync.c ---- */

/* Makes s->sync, if it is wanted. NOMEM; then dt__sync_close frees what was made. */
dt_status dt__sync_open(dt__run *r, dt__shards *s);
void dt__sync_close(dt__shards *s);
/* The gradients of all shards of this rank, in step; then that of shard i of the rank. */
dt_status dt__sync_leaves(dt__run *r, const dt__batch_range *p);
dt_status dt__sync_take(dt__shards *s, int64_t i, dt__gradients *to);

/* ---- shards_overlap.c ---- */

/* Moves gradient i to `to`, where nothing else writes it; zeros where there is none. */
dt_status dt__shards_take(dt__shards *s, int64_t i, dt__gradients *to);
/* Around backward of a shard's last batch: gradients may leave meanwhile. */
void dt__shards_watch(dt__run *r, bool on);
/* STATE if a gradient was added to after it had left. */
dt_status dt__shards_check_sent(const dt__shards *s);

/* ---- experts that are spread (cluster/experts) ---- */

typedef struct dt__experts_hooks {
    /* Sets ctx->spread, which dt__spread_close frees, also after an error. NOMEM. */
    dt_status (*open)(dt_ctx *ctx, dt__cluster *c, const dt__fetching *fetching);
    /* Adds a parameter that is spread. NOMEM. The functions below are for shards that have one. */
    dt_status (*add)(dt__shards *s, dt_tensor *x);
    void (*forget)(dt__shards *s);
    void (*begin)(dt__shards *s); /* before the first shard of an update */
    /* At the begin of a session for shard i of each rank: where a shard has a single batch,
     * gradients are added up as soon as they are there, layer by layer. */
    void (*watch)(dt__run *r, const dt__batch_range *p, int64_t i);
    /* After the session: takes the gradients of own experts that are left. */
    dt_status (*take)(dt__shards *s);
    void (*put)(dt__shards *s); /* after all shards: gives parameters the sums */
} dt__experts_hooks;

/* ---- shards_merge.c ---- */

/* Finds the buffers. */
dt_status dt__shards_find_merged(dt__run *r, dt__shards *s);
void dt__shards_save(const dt__shards *s, char *to);
void dt__shards_restore(const dt__shards *s, const char *from);
/* Merges the states of all shards that were used, in their order, and computes scales of the ranges
 * that have changed. */
dt_status dt__shards_merge(dt__run *r, dt__shards *s);
/* Before the first update with learned ranges: the first shard initializes them, on every rank. */
dt_status dt__shards_begin_ranges(dt__run *r, const dt__batch_range *p);

#endif
