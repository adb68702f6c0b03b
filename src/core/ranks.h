/* Ranks: processes that train one model together, started by a launcher of MPI (mpirun, srun). What
 * they do is src/cluster, which the rest of the library calls through the table below. Everywhere a
 * dt__cluster may be NULL: this process is alone. A library that is built without src/cluster
 * (DETENT_CLUSTER) has no other.
 *
 * The shards of an update are the leaves of a binary tree, whose node [a, b) has the children
 * [a, m) and [m, b), m = a + (b - a)/2. Rank k has the shards from k V/P on. A sum over shards is
 * taken in this tree, so that its bits do not depend on the number of ranks. */
#ifndef DT__CORE_RANKS_H
#define DT__CORE_RANKS_H

#include "core/core.h"
#include "core/message.h"

#include <string.h>

typedef struct dt__cluster dt__cluster;
struct dt_statistics;
struct dt__agreement;

/* Joins the other ranks. *out is NULL where no launcher started this process, or started it alone;
 * then nothing of MPI is loaded. `timeout`: seconds after which a rank that has not sent its part
 * counts as missing; 0: never. Errors: STATE (MPI cannot be started), UNSUPPORTED (detent was
 * built without this MPI, or without src/cluster), NOMEM. */
dt_status dt__cluster_open(dt_ctx *ctx, double timeout, dt__cluster **out);

/* The name of the launcher's MPI, "openmpi" or "mpich"; NULL: no launcher started this process, or
 * it is the only one. By environment variables alone: OMPI_COMM_WORLD_SIZE (Open MPI's mpirun),
 * PMIX_RANK with SLURM_STEP_NUM_TASKS (srun --mpi=pmix), PMI_SIZE (MPICH's mpirun, srun
 * --mpi=pmi2). */
const char *dt__launcher_mpi(void);

/* ---- jobs and messages ----------------------------------------------------------------------- */

/* Work for the communication thread. It must not use the context. */
typedef struct dt__cluster_job {
    bool (*run)(dt__cluster *c, void *user); /* false: failed, by dt__cluster_exchange */
    void *user;
    struct dt__cluster_job *next; /* these belong to the cluster */
    bool done, patient;
} dt__cluster_job;

/* What communication has cost so far, but for messages that have no timeout. */
typedef struct dt__cluster_costs {
    double busy;   /* seconds that the communication thread had jobs */
    double waited; /* seconds of dt__cluster_wait: they were not hidden */
    double sent;   /* bytes */
} dt__cluster_costs;

/* Messages from each rank to each. */
typedef struct dt__exchange {
    const char *what; /* "bucket 3": for messages */
    bool patient;     /* waits without a timeout for rank 0, which may work alone for long */
    /* Written by the caller for rank k; those of its own rank are not used. */
    void (*pieces)(void *user, int k, dt__message *send, dt__message *receive);
    void *user;
} dt__exchange;

/* How a work went on this rank: an error of any rank becomes that of all. The message is that of
 * the first such rank; a rank with an error of its own keeps its own. A rank that fails between two
 * meetings goes to the last one at once, where it meets the others wherever they are: then all
 * return the error, and nobody has another meeting. */
typedef enum dt__meeting { DT__MEETING, DT__LAST_MEETING } dt__meeting;

/* ---- tensors --------------------------------------------------------------------------------- */

typedef struct dt__tensor_list {
    dt_tensor **x; /* dense and contiguous; NULL: none */
    int64_t n;
} dt__tensor_list;

/* What a rank has for others. */
typedef struct dt__tensor_post {
    const char *what;
    int to;                /* the rank that gets them; -1: all */
    dt_status status;      /* how making them went: an error is that of all ranks */
    dt__tensor_list given; /* not read after an error */
} dt__tensor_post;

/* ---- who has which part of a tensor (ranks.c) ------------------------------------------------ */

/* Elements between which a tensor may be cut: those of a partial sum of squares. */
#define DT__CUT ((int64_t)16384)

/* A tensor of f32 whose elements ranks exchange. */
typedef struct dt__bucket_tensor {
    int64_t count;
    uint64_t turn; /* spreads tensors of few cuts over ranks */
} dt__bucket_tensor;

/* Elements range[0] ... range[1]-1 of a tensor belong to the rank: those of its gradient that it
 * sums, those of the parameter that it updates. */
void dt__range_of_rank(const dt__bucket_tensor *x, int rank, int ranks, int64_t range[2]);

/* ---- buckets --------------------------------------------------------------------------------- */

/* Where node [a, b) of the tree is divided. */
static inline int64_t dt__middle(int64_t a, int64_t b) { return a + (b - a) / 2; }
/* Whether node [a, b) lies in one rank's shards, and its parent does not: it is a part that this
 * rank sends. */
static inline bool dt__is_of_one_rank(int64_t a, int64_t b, int64_t shards_of_rank)
{
    return a / shards_of_rank == (b - 1) / shards_of_rank;
}
/* How many such parts rank k sends. */
int dt__parts_of_rank(int k, int64_t shards, int64_t shards_of_rank);

/* A part of a tensor: of the range of each rank, piece i of n. */
typedef struct dt__bucket_span {
    int64_t tensor, i, n;
} dt__bucket_span;

typedef enum dt__bucket_task {
    DT__BUCKET_SUM,     /* each rank sums its ranges over all shards, and sends them to all */
    DT__BUCKET_SCATTER, /* each rank sums its ranges */
    DT__BUCKET_GATHER   /* each rank sends its ranges to all */
} dt__bucket_task;

struct dt__buckets;

/* Some spans: a job of the communication thread. */
typedef struct dt__bucket {
    dt__cluster_job job;
    struct dt__buckets *of;
    dt__bucket_task task;
    int64_t number, first; /* first span */
    int64_t past;          /* the tensors before `past` are all that it needs */
    int n_spans;
} dt__bucket;

/* How tensors are cut into buckets. */
typedef struct dt__buckets_plan {
    const char *what;                 /* "the gradient": for messages */
    const dt__bucket_tensor *tensors; /* lent, as the data are */
    int64_t n_tensors, shards;
    int64_t first, most; /* elements of the first bucket, and of others */
    /* part[i][k]: part i of tensor k (a node of the tree that this rank has computed, or, to be
     * gathered, the tensor); read by the communication thread. */
    float *const *const *part;
} dt__buckets_plan;

typedef struct dt__buckets {
    dt_ctx *ctx;
    dt__cluster *cluster;
    const struct dt__cluster_hooks *hooks; /* of the cluster, which may be closed before these */
    dt__buckets_plan plan;
    dt__bucket *bucket;
    dt__bucket_span *span;
    int64_t n, n_spans, room, room_spans;
    float *received; /* these two are used by one bucket at a time */
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
    /* After the last sample: gives every rank the tiles of all (ptq/statistics.h). NOMEM. */
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
    bool has_ended; /* a last meeting had an error: all ranks have it and end */
};

static inline int dt__cluster_rank(const dt__cluster *c) { return c == NULL ? 0 : c->rank; }
static inline int dt__cluster_ranks(const dt__cluster *c) { return c == NULL ? 1 : c->ranks; }
static inline bool dt__cluster_has_ended(const dt__cluster *c) { return c != NULL && c->has_ended; }

/* `together`: every rank is here; MPI is ended. Else the process must end, and the launcher ends
 * the others. */
static inline void dt__cluster_close(dt__cluster *c, bool together)
{
    if (c != NULL) c->hooks->close(c, together);
}

/* Lends the job to the communication thread, until it was waited for. Not of NULL. */
static inline void dt__cluster_post(dt__cluster *c, dt__cluster_job *job)
{
    c->hooks->post(c, job);
}
/* Of one thread at a time. STATE, naming the rank that is missing. Not of NULL. */
static inline dt_status dt__cluster_wait(dt__cluster *c, const dt__cluster_job *job)
{
    return c->hooks->wait(c, job);
}
/* For a job: sends and receives, and returns when all is done. Not of NULL. */
static inline bool dt__cluster_exchange(dt__cluster *c, const dt__exchange *x)
{
    return c->hooks->exchange(c, x);
}

static inline dt__cluster_costs dt__cluster_costs_of(dt__cluster *c)
{
    return c == NULL ? (dt__cluster_costs){ 0 } : c->hooks->costs_of(c);
}

/* `bytes` bytes of each rank, in the order of ranks, to `all` on each. */
static inline dt_status dt__cluster_gather(dt__cluster *c, const char *what, const void *own,
                                           size_t bytes, void *all)
{
    if (c != NULL) return c->hooks->gather(c, what, own, bytes, all);
    memcpy(all, own, bytes);
    return DT_OK;
}
/* part[k], of any size, of each rank k to rank `to`, or to all where it is -1: a rank sends its own
 * and receives the others'. */
static inline dt_status dt__cluster_gather_parts(dt__cluster *c, const char *what,
                                                 const dt__segment *part, int to)
{
    return c == NULL ? DT_OK : c->hooks->gather_parts(c, what, part, to);
}
/* What rank 0 has, to all others, which wait for as long as it takes. */
static inline dt_status dt__cluster_tell(dt__cluster *c, const char *what, void *data, size_t bytes)
{
    return c == NULL ? DT_OK : c->hooks->tell(c, what, data, bytes);
}
static inline dt_status dt__cluster_meet(dt__cluster *c, dt__meeting which, dt_status status)
{
    return c == NULL ? status : c->hooks->meet(c, which, status);
}

/* all: [ranks], the lists of the ranks in order; empty on a rank that does not get them. Its own is
 * `given`, which stays the caller's. Free the others by dt__tensor_lists_free, in any case. */
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

/* NOMEM; then dt__buckets_free frees what was made. Not of NULL. */
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
