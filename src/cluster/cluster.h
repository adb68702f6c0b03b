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

/* Work for the communication thread. It must not use the context. */
typedef struct dt__cluster_job {
    bool (*run)(dt__cluster *c, void *user); /* false: failed, by dt__cluster_exchange */
    void *user;
    struct dt__cluster_job *next; /* these two belong to the cluster */
    bool done;
} dt__cluster_job;

/* Lends the job to the communication thread, until it was waited for. */
void dt__cluster_post(dt__cluster *c, dt__cluster_job *job);
/* STATE, naming the rank that is missing. */
dt_status dt__cluster_wait(dt__cluster *c, const dt__cluster_job *job);

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
dt_status dt__cluster_gather_parts(dt__cluster *c, const char *what, const dt__message *part,
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

/* ---- the sum of a bucket (bucket.c) -------------------------------------------------------- */

/* Whether node [a, b) lies in one rank's shards, and its parent does not: it is a part that this
 * rank sends. */
static inline bool dt__is_of_one_rank(int64_t a, int64_t b, int64_t shards_of_rank)
{
    return a / shards_of_rank == (b - 1) / shards_of_rank;
}
/* How many such parts rank k sends. */
int dt__parts_of_rank(int k, int64_t shards, int64_t shards_of_rank);

/* A bucket of the gradient: n floats of each part of this rank, which become the sum over all
 * shards in part[0]. Ranks sum one slice each, and send it to all. */
typedef struct dt__bucket {
    dt__cluster_job job;
    int64_t number, shards, n;
    float *const *part; /* of this rank, each with all buckets */
    int64_t first;      /* index of the bucket's first element in a part */
    float *room;        /* dt__bucket_room(...) elements, used by one bucket at a time */
} dt__bucket;

int64_t dt__bucket_room(const dt__cluster *c, int64_t shards, int64_t n);
/* Posts the bucket's job; only number, shards, n, part, first and room are read. */
void dt__bucket_post(dt__cluster *c, dt__bucket *b);

#endif
