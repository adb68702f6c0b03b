/* Ranks: processes that train one model together, started by a launcher of MPI (mpirun, srun). Each
 * has a communication thread, which alone calls MPI and runs jobs in the order in which they were
 * posted: the same order on every rank.
 *
 * The shards of an update are the leaves of a binary tree, whose node [a, b) has the children
 * [a, m) and [m, b), m = a + (b - a)/2. Rank k has the shards from k V/P on. A sum over shards is
 * taken in this tree, so that its bits do not depend on the number of ranks. */
#ifndef DT__CLUSTER_CLUSTER_H
#define DT__CLUSTER_CLUSTER_H

#include "cluster/transport.h"
#include "core/core.h"

typedef struct dt__cluster dt__cluster;

/* Joins the other ranks. *out is NULL where no launcher started this process, or started it alone;
 * then nothing of MPI is loaded. `timeout`: seconds after which a rank that has not sent its part
 * counts as missing; 0: never. Errors: STATE (MPI cannot be started), UNSUPPORTED (detent was
 * built without this MPI), NOMEM. */
dt_status dt__cluster_open(dt_ctx *ctx, double timeout, dt__cluster **out);
/* `together`: every rank is here; MPI is ended. Else the process must end, and the launcher ends
 * the others. NULL is allowed. */
void dt__cluster_close(dt__cluster *c, bool together);

int dt__cluster_rank(const dt__cluster *c);  /* 0 of NULL */
int dt__cluster_ranks(const dt__cluster *c); /* 1 of NULL */
dt_ctx *dt__cluster_ctx(const dt__cluster *c);
/* Whether ranks read each other's memory (intranode.h); else they exchange messages of MPI. */
bool dt__cluster_is_intranode(const dt__cluster *c);

/* Work for the communication thread. It must not use the context. */
typedef struct dt__cluster_job {
    bool (*run)(dt__cluster *c, void *user); /* false: failed, by dt__cluster_exchange */
    void *user;
    struct dt__cluster_job *next; /* these belong to the cluster */
    bool done, patient;
} dt__cluster_job;

/* Lends the job to the communication thread, until it was waited for. */
void dt__cluster_post(dt__cluster *c, dt__cluster_job *job);
/* Of one thread at a time. STATE, naming the rank that is missing. */
dt_status dt__cluster_wait(dt__cluster *c, const dt__cluster_job *job);

/* What communication has cost so far, but for messages that have no timeout. */
typedef struct dt__cluster_costs {
    double busy;   /* seconds that the communication thread had jobs */
    double waited; /* seconds of dt__cluster_wait: they were not hidden */
    double sent;   /* bytes */
} dt__cluster_costs;

dt__cluster_costs dt__cluster_costs_of(dt__cluster *c); /* zeros of NULL */

/* Messages from each rank to each. */
typedef struct dt__exchange {
    const char *what; /* "bucket 3": for messages */
    bool patient;     /* waits without a timeout for rank 0, which may work alone for long */
    /* Written by the caller for rank k; those of its own rank are not used. */
    void (*pieces)(void *user, int k, dt__message *send, dt__message *receive);
    void *user;
} dt__exchange;

/* For a job: sends and receives, and returns when all is done. */
bool dt__cluster_exchange(dt__cluster *c, const dt__exchange *x);

/* `bytes` bytes of each rank, in the order of ranks, to `all` on each. */
dt_status dt__cluster_gather(dt__cluster *c, const char *what, const void *own, size_t bytes,
                             void *all);
/* What rank 0 has, to all others, which wait for as long as it takes. NULL: nothing to do. */
dt_status dt__cluster_tell(dt__cluster *c, const char *what, void *data, size_t bytes);
/* part[k], of any size, of each rank k to rank `to`, or to all where it is -1: a rank sends its own
 * and receives the others'. NULL: nothing to do. */
dt_status dt__cluster_gather_parts(dt__cluster *c, const char *what, const dt__segment *part,
                                   int to);

/* How a work went on this rank: an error of any rank becomes that of all. The message is that of
 * the first such rank; a rank with an error of its own keeps its own. NULL: returns `status`.
 * A rank that fails between two meetings goes to the last one at once, where it meets the others
 * wherever they are: then all return the error, and nobody has another meeting. */
typedef enum dt__meeting { DT__MEETING, DT__LAST_MEETING } dt__meeting;
dt_status dt__cluster_meet(dt__cluster *c, dt__meeting which, dt_status status);
/* Whether a last meeting had an error: all ranks have it and end. False of NULL. */
bool dt__cluster_has_ended(const dt__cluster *c);
void dt__cluster_end(dt__cluster *c); /* for share.c */

/* ---- tensors (tensor_lists.c) ---------------------------------------------------------------- */

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

/* all: [ranks], the lists of the ranks in order; empty on a rank that does not get them. Its own is
 * `given`, which stays the caller's. Free the others by dt__tensor_lists_free, in any case. NULL:
 * there is one list. */
dt_status dt__cluster_tensors(dt__cluster *c, const dt__tensor_post *post, dt__tensor_list *all);
void dt__tensor_lists_free(dt__cluster *c, dt__tensor_list *all);

/* ---- who has which part of a tensor (buckets.c) --------------------------------------------- */

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

/* ---- buckets (buckets.c, bucket.c) ----------------------------------------------------------- */

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
    dt__buckets_plan plan;
    dt__bucket *bucket;
    dt__bucket_span *span;
    int64_t n, n_spans, room, room_spans;
    float *received; /* these two are used by one bucket at a time */
    dt__segment *segments;
} dt__buckets;

/* NOMEM; then dt__buckets_free frees what was made. */
dt_status dt__buckets_make(dt_ctx *ctx, dt__cluster *c, const dt__buckets_plan *plan,
                           dt__buckets *out);
void dt__buckets_free(dt__buckets *b);
/* Posts a bucket's job. The sums are in part[0]. */
void dt__bucket_post(dt__bucket *b, dt__bucket_task task);

/* Elements from ... from+n-1 of a tensor. */
typedef struct dt__bucket_piece {
    int64_t tensor, from, n;
} dt__bucket_piece;

/* What of span i belongs to rank k. */
dt__bucket_piece dt__bucket_piece_of(const dt__bucket *b, int i, int k);

#endif
