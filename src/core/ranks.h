/* Ranks: processes that train one model together, started by a launcher of MPI (mpirun, srun).
 * Communication is implemented in src/cluster, which the rest of the library calls through the
 * table below. Everywhere a dt__cluster may be NULL: this process is alone. In a library built
 * without src/cluster (DETENT_CLUSTER) it is always NULL.
 *
 * The shards of an update are the leaves of a binary tree, whose node [a, b) has the children [a,
 * m) and [m, b), m = a + (b - a)/2. Rank k has the V/P shards from k V/P on, of V shards and P
 * ranks. A sum over shards is taken in this tree, so that its bits do not depend on the number of
 * ranks. */
#ifndef DT__CORE_RANKS_H
#define DT__CORE_RANKS_H

#include "core/core.h"
#include "core/message.h"

#include <string.h>

typedef struct dt__cluster dt__cluster;
struct dt_statistics;
struct dt__agreement;

/* Joins the other ranks. *out is NULL if no launcher started this process, or started it alone;
 * then MPI is not loaded. `timeout`: seconds after which a rank that has not sent its part counts
 * as missing; 0: never. Errors: STATE (MPI cannot be started), UNSUPPORTED (detent was built
 * without this MPI, or without src/cluster), NOMEM. */
dt_status dt__cluster_open(dt_ctx *ctx, double timeout, dt__cluster **out);

/* The name of the launcher's MPI, "openmpi" or "mpich"; NULL: no launcher started this process, or
 * it is the only one. Decided by environment variables: OMPI_COMM_WORLD_SIZE (Open MPI's mpirun),
 * PMIX_RANK with SLURM_STEP_NUM_TASKS (srun --mpi=pmix), PMI_SIZE (MPICH's mpirun, srun
 * --mpi=pmi2). */
const char *dt__launcher_mpi(void);

/* ---- jobs and messages ----------------------------------------------------------------------- */

/* Work for the communication thread. It must not use the context. */
typedef struct dt__cluster_job {
    bool (*run)(dt__cluster *c, void *user); /* false: failed, as dt__cluster_exchange reports */
    void *user;
    struct dt__cluster_job *next; /* `next` and the flags are private to the cluster */
    bool done, patient;
} dt__cluster_job;

/* What communication has cost so far, excluding messages without a timeout. */
typedef struct dt__cluster_costs {
    double busy;   /* seconds that the communication thread had jobs */
    double waited; /* seconds in dt__cluster_wait: not overlapped with computation */
    double sent;   /* bytes */
} dt__cluster_costs;

/* Messages from each rank to each. */
typedef struct dt__exchange {
    const char *what; /* "bucket 3": for error messages */
    bool patient;     /* no timeout while waiting for rank 0, which may work alone for long */
    /* Sets the messages to and from rank k; those of the rank itself are ignored. */
    void (*pieces)(void *user, int k, dt__message *send, dt__message *receive);
    void *user;
} dt__exchange;

/* The points at which ranks exchange the status of their work: an error of any rank becomes the
 * error of all. All get the message of the first rank with an error; a rank with its own error
 * keeps its own. A rank that fails between two meetings goes to the last meeting at once, which
 * matches whichever meeting the others are in: then all return the error, and there is no further
 * meeting. */
typedef enum dt__meeting { DT__MEETING, DT__LAST_MEETING } dt__meeting;

/* ---- tensors --------------------------------------------------------------------------------- */

typedef struct dt__tensor_list {
    dt_tensor **x; /* dense and contiguous; NULL: none */
    int64_t n;
} dt__tensor_list;

/* Tensors that a rank sends to others. */
typedef struct dt__tensor_post {
    const char *what;
    int to;                /* the rank that gets them; -1: all */
    dt_status status;      /* status of making them; an error becomes the error of all ranks */
    dt__tensor_list given; /* ignored after an error */
} dt__tensor_post;

/* ---- who has which part of a tensor (ranks.c) ------------------------------------------------ */

/* Tensors are divided between multiples of this many elements, the size of a partial sum of
 * squares. */
#define DT__CUT ((int64_t)16384)

/* A tensor of f32 whose elements ranks exchange. */
typedef struct dt__bucket_tensor {
    int64_t count;
    uint64_t turn; /* where the division begins: balances tensors with few cuts among ranks */
} dt__bucket_tensor;

/* Elements range[0] ... range[1]-1 of a tensor belong to the rank: it sums these elements of the
 * gradient, and updates these elements of the parameter. */
void dt__range_of_rank(const dt__bucket_tensor *x, int rank, int ranks, int64_t range[2]);

/* ---- buckets --------------------------------------------------------------------------------- */

/* Where node [a, b) of the tree is divided. */
static inline int64_t dt__middle(int64_t a, int64_t b) { return a + (b - a) / 2; }
/* Whether the shards of node [a, b) belong to one rank. If those of its parent do not, the node is
 * a part that this rank sends. */
static inline bool dt__is_of_one_rank(int64_t a, int64_t b, int64_t shards_of_rank)
{
    return a / shards_of_rank == (b - 1) / shards_of_rank;
}
/* How many such parts rank k sends. */
int dt__parts_of_rank(int k, int64_t shards, int64_t shards_of_rank);

/* A part of a tensor: piece i of n of each rank's range. */
typedef struct dt__bucket_span {
    int64_t tensor, i, n;
} dt__bucket_span;

typedef enum dt__bucket_task {
    DT__BUCKET_SUM,     /* each rank sums its ranges over all shards, and sends them to all */
    DT__BUCKET_SCATTER, /* each rank sums its ranges */
    DT__BUCKET_GATHER   /* each rank sends its ranges to all */
} dt__bucket_task;

struct dt__buckets;

/* A job of the communication thread: some spans. */
typedef struct dt__bucket {
    dt__cluster_job job;
    struct dt__buckets *of;
    dt__bucket_task task;
    int64_t number, first; /* index of the first span */
    int64_t past;          /* only tensors before `past` are needed */
    int n_spans;
} dt__bucket;

/* How tensors are cut into buckets. */
typedef struct dt__buckets_plan {
    const char *what;                 /* "the gradient": for messages */
    const dt__bucket_tensor *tensors; /* lent, as is the data */
    int64_t n_tensors, shards;
    int64_t first, most; /* most elements of the first bucket, and of the others */
    /* part[i][k]: part i of tensor k: a node of the tree that this rank has computed or, for
     * GATHER, the tensor itself. Read by the communication thread. */
    float *const *const *part;
} dt__buckets_plan;

typedef struct dt__buckets {
    dt_ctx *ctx;
    dt__cluster *cluster;
    const struct dt__cluster_hooks *hooks; /* the cluster's, which may be closed first */
    dt__buckets_plan plan;
    dt__bucket *bucket;
    dt__bucket_span *span;
    int64_t n, n_spans, room, room_spans;
    float *received; /* used by one bucket at a time, as is `segments` */
    dt__segment *segments;
} dt__buckets;

/* ---- what ranks do --------------------------------------------------------------------------- */

/* The functions of src/cluster. */
typedef struct dt__cluster_hooks {
    void (*close)(dt__cluster *c, bool together);
    void (*post)(dt__cluster *c, dt__cluster_job *job);
    dt_status (*wait)(dt__cluster *c, const dt__cluster_job *job);
    bool (*exchange)(dt__cluster *c, const dt__exchange *x);
    dt__cluster_costs (*costs_of)(dt__cluster *c);
    dt_status (*gather)(dt__cluster *c, const char *what, const void *own, size_t bytes, void *all);
    dt_status (*gather_parts)(dt__cluster *c, const char *what, const dt__segment *part, int to);
    dt_status (*tell)(dt__cluster *c, const char *what, void *data, size_t bytes);
    dt_status (*meet)(dt__cluster *c, dt__meeting which, dt_status status);
    dt_status (*tensors)(dt__cluster *c, const dt__tensor_post *post, dt__tensor_list *all);
    void (*tensor_lists_free)(dt__cluster *c, dt__tensor_list *all);
    dt_status (*buckets_make)(dt__buckets *b);
    void (*buckets_free)(dt__buckets *b);
    void (*bucket_post)(dt__bucket *b, dt__bucket_task task);
    /* Called after the last sample: gives every rank the tiles of all ranks (ptq/statistics.h).
     * NOMEM. */
    dt_status (*join_statistics)(struct dt_statistics *s);
    dt_status (*agree)(const struct dt__agreement *a, dt_status status); /* train/shards/agree.h */
    const struct dt__optimizer_hooks *optimizer;                         /* optim/optimizer.h */
    const struct dt__experts_hooks *experts;                             /* train/shards/shards.h */
} dt__cluster_hooks;

struct dt__cluster {
    const dt__cluster_hooks *hooks;
    dt_ctx *ctx;
    int rank, ranks;
    bool intranode; /* ranks read each other's memory; else they exchange messages of MPI */
    bool has_ended; /* a last meeting had an error: all ranks have it, and end */
};

static inline int dt__cluster_rank(const dt__cluster *c) { return c == NULL ? 0 : c->rank; }
static inline int dt__cluster_ranks(const dt__cluster *c) { return c == NULL ? 1 : c->ranks; }
static inline bool dt__cluster_has_ended(const dt__cluster *c) { return c != NULL && c->has_ended; }

/* `together`: every rank calls it, and MPI is finalized. Otherwise the process must exit, and the
 * launcher ends the others. */
static inline void dt__cluster_close(dt__cluster *c, bool together)
{
    if (c != NULL) c->hooks->close(c, together);
}

/* Hands the job to the communication thread until dt__cluster_wait returns. c must not be NULL. */
static inline void dt__cluster_post(dt__cluster *c, dt__cluster_job *job)
{
    c->hooks->post(c, job);
}
/* Waits for a job; called by one thread at a time. STATE, naming the rank that is missing. c must
 * not be NULL. */
static inline dt_status dt__cluster_wait(dt__cluster *c, const dt__cluster_job *job)
{
    return c->hooks->wait(c, job);
}
/* For use in a job: sends and receives, and returns when all is done. c must not be NULL. */
static inline bool dt__cluster_exchange(dt__cluster *c, const dt__exchange *x)
{
    return c->hooks->exchange(c, x);
}

static inline dt__cluster_costs dt__cluster_costs_of(dt__cluster *c)
{
    return c == NULL ? (dt__cluster_costs){ 0 } : c->hooks->costs_of(c);
}

/* Gathers `bytes` bytes of each rank, in the order of ranks, in `all` on each rank. */
static inline dt_status dt__cluster_gather(dt__cluster *c, const char *what, const void *own,
                                           size_t bytes, void *all)
{
    if (c != NULL) return c->hooks->gather(c, what, own, bytes, all);
    memcpy(all, own, bytes);
    return DT_OK;
}
/* Sends part[k], of any size, of each rank k to rank `to`, or to all ranks if `to` is -1. */
static inline dt_status dt__cluster_gather_parts(dt__cluster *c, const char *what,
                                                 const dt__segment *part, int to)
{
    return c == NULL ? DT_OK : c->hooks->gather_parts(c, what, part, to);
}
/* Sends rank 0's data to all others, which wait without a timeout. */
static inline dt_status dt__cluster_tell(dt__cluster *c, const char *what, void *data, size_t bytes)
{
    return c == NULL ? DT_OK : c->hooks->tell(c, what, data, bytes);
}
static inline dt_status dt__cluster_meet(dt__cluster *c, dt__meeting which, dt_status status)
{
    return c == NULL ? status : c->hooks->meet(c, which, status);
}

/* all: [ranks], the lists of the ranks in order; empty on a rank that does not get them. Its own
 * entry is `given`, which remains the caller's. Free the others by dt__tensor_lists_free, also
 * after an error. */
static inline dt_status dt__cluster_tensors(dt__cluster *c, const dt__tensor_post *post,
                                            dt__tensor_list *all)
{
    all[0] = post->given;
    return c == NULL ? post->status : c->hooks->tensors(c, post, all);
}
static inline void dt__tensor_lists_free(dt__cluster *c, dt__tensor_list *all)
{
    if (c != NULL) c->hooks->tensor_lists_free(c, all);
}

/* NOMEM; dt__buckets_free then frees what was made. The cluster must not be NULL. */
static inline dt_status dt__buckets_make(dt__cluster *c, const dt__buckets_plan *plan,
                                         dt__buckets *out)
{
    *out = (dt__buckets){ .ctx = c->ctx, .cluster = c, .hooks = c->hooks, .plan = *plan };
    return c->hooks->buckets_make(out);
}
static inline void dt__buckets_free(dt__buckets *b)
{
    if (b->hooks != NULL) b->hooks->buckets_free(b);
}
/* Posts a bucket's job. The sums are in part[0]. */
static inline void dt__bucket_post(dt__bucket *b, dt__bucket_task task)
{
    b->of->cluster->hooks->bucket_post(b, task);
}

#endif
