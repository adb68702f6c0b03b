/* Ranks of one machine: a receiver reads a message from where it lies in the sender's memory, by
 * process_vm_readv, and sleeps on a word that all of them map until there is something to read.
 * The bytes are copied once, and no processor asks. MPI only starts and ends such ranks. */
#ifndef DT__CLUSTER_INTRANODE_H
#define DT__CLUSTER_INTRANODE_H

#include "cluster/cluster.h"

#include <stdatomic.h>

#define DT__LINE 64 /* bytes that processors exchange at once */

/* Where a message from one rank to another lies; on its way while `written` and `read` differ. */
typedef struct dt__message_slot {
    _Alignas(DT__LINE) _Atomic uint32_t written; /* by the sender alone, after the rest */
    _Atomic uint32_t read;                       /* by the receiver alone */
    int32_t n_segments;                          /* 1: the bytes are at `at` */
    uint64_t bytes;
    uint64_t at; /* in the sender's memory: of the bytes, or of its list of segments */
} dt__message_slot;

/* What one rank writes for the others; they raise `wakeups`. */
typedef struct dt__rank_part {
    _Alignas(DT__LINE) _Atomic uint32_t wakeups; /* rises when the rank may have something to do */
    _Atomic uint32_t has_ended;                  /* `words` says why */
    char words[DT__TRANSPORT_WHY];
} dt__rank_part;

/* Memory that all ranks map. It has no name, so nothing is left of it when they have ended. */
typedef struct dt__shared {
    uint64_t token[2];                       /* of rank 0 */
    _Alignas(DT__LINE) dt__rank_part part[]; /* [ranks]; behind: slots [from][to] */
} dt__shared;

/* What a rank tells the others so that they find its memory. */
typedef struct dt__rank_address {
    uint64_t token[2], token_at; /* random numbers, and where they lie in its memory */
    int64_t process, file;       /* 0: it wants messages by MPI; of rank 0: the shared memory */
} dt__rank_address;

typedef struct dt__intranode {
    dt_ctx *ctx;
    int rank, ranks;
    dt__shared *shared; /* NULL: none */
    size_t shared_bytes;
    dt__rank_address address;
    int64_t *process; /* of each rank */
    bool *waits;      /* a message of the rank has not come */
    uint32_t seen;    /* the wakeups, before the last look at the slots */
} dt__intranode;

static inline dt__message_slot *dt__slot_of(const dt__intranode *n, int from, int to)
{
    dt__message_slot *all = (dt__message_slot *)(void *)(n->shared->part + n->ranks);
    return all + (size_t)from * (size_t)n->ranks + to;
}

/* ---- intranode_open.c ---- */

/* Finds out whether all ranks can read each other's memory, and agrees with them; *out is NULL
 * where one cannot, or where DETENT_EXCHANGE is "messages". ARG (another DETENT_EXCHANGE), NOMEM,
 * and as dt__cluster_gather. */
dt_status dt__intranode_open(dt__cluster *c, dt__intranode **out);
void dt__intranode_free(dt__intranode *n); /* NULL is allowed */

/* The steps of it. `make`: a rank's address, and the shared memory of rank 0. NOMEM. */
dt_status dt__intranode_make(dt_ctx *ctx, int rank, int ranks, dt__intranode **out);
/* Whether this rank can read the memory of all, by their addresses; maps the shared memory. */
bool dt__intranode_join(dt__intranode *n, const dt__rank_address *all);
/* When all have joined, or not. */
void dt__intranode_close_file(dt__intranode *n);

/* ---- intranode.c ---- */

/* Copies `bytes` from another process. The reason of a failure is in errno. */
bool dt__intranode_read(int64_t process, void *to, uint64_t from, size_t bytes);
/* A dt__intranode is its state. */
extern const dt__transport dt__intranode_transport;

#endif
