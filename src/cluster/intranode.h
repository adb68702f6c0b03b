/* Messages between ranks of one machine: a receiver reads a message directly from the sender's
 * memory, by process_vm_readv, and until then sleeps on a word in shared memory. The bytes are
 * copied once, and no processor polls. MPI only starts and ends such ranks. */
#ifndef DT__CLUSTER_INTRANODE_H
#define DT__CLUSTER_INTRANODE_H

#include "cluster/cluster.h"

#include <stdatomic.h>

#define DT__LINE 64 /* bytes of a cache line */

/* Announces a message from one rank to another; it is on its way while `written` and `read`
 * differ. */
typedef struct dt__message_slot {
    /* changed by the sender only, after the other fields */
    _Alignas(DT__LINE) _Atomic uint32_t written;
    _Atomic uint32_t read; /* changed by the receiver only */
    int32_t n_segments;    /* 1: the bytes are at `at` */
    uint64_t bytes;
    uint64_t at; /* address in the sender's memory: of the bytes, or of the list of segments */
} dt__message_slot;

/* Written by one rank for the others, except `wakeups`, which the others increment. */
typedef struct dt__rank_part {
    /* incremented when the rank may have something to do */
    _Alignas(DT__LINE) _Atomic uint32_t wakeups;
    _Atomic uint32_t has_ended; /* `words` says why */
    char words[DT__TRANSPORT_WHY];
} dt__rank_part;

/* Memory that all ranks map. It has no name, so it vanishes with the last process. */
typedef struct dt__shared {
    uint64_t token[2];                       /* of rank 0 */
    _Alignas(DT__LINE) dt__rank_part part[]; /* [ranks]; behind: slots [from][to] */
} dt__shared;

/* What a rank sends the others so that they find its memory. */
typedef struct dt__rank_address {
    uint64_t token[2], token_at; /* random numbers, and their address in its memory */
    /* process 0: the rank requests MPI; file: of rank 0, the shared memory */
    int64_t process, file;
} dt__rank_address;

typedef struct dt__intranode {
    dt_ctx *ctx;
    int rank, ranks;
    dt__shared *shared; /* NULL: none */
    size_t shared_bytes;
    dt__rank_address address;
    int64_t *process; /* of each rank */
    bool *waits;      /* a message from the rank has not come yet */
    uint32_t seen;    /* `wakeups` before the last look at the slots */
} dt__intranode;

static inline dt__message_slot *dt__slot_of(const dt__intranode *n, int from, int to)
{
    dt__message_slot *all = (dt__message_slot *)(void *)(n->shared->part + n->ranks);
    return all + (size_t)from * (size_t)n->ranks + to;
}

/* ---- intranode_open.c ---- */

/* Lets all ranks find out, and agree, whether they can read each other's memory; *out is NULL if
 * one cannot, or if DETENT_EXCHANGE is "messages". Errors: ARG (another DETENT_EXCHANGE), NOMEM,
 * those of dt__cluster_gather. */
dt_status dt__intranode_open(dt__cluster *c, dt__intranode **out);
void dt__intranode_free(dt__intranode *n); /* NULL is allowed */

/* Steps of dt__intranode_open. Makes a rank's address and, on rank 0, the shared memory. Errors:
 * NOMEM. */
dt_status dt__intranode_make(dt_ctx *ctx, int rank, int ranks, dt__intranode **out);
/* Whether this rank can read the memory of all ranks at their addresses; maps the shared memory. */
bool dt__intranode_join(dt__intranode *n, const dt__rank_address *all);
/* Closes the file of the shared memory, after all ranks have mapped it or failed to. */
void dt__intranode_close_file(dt__intranode *n);

/* ---- intranode.c ---- */

/* Copies `bytes` from another process. On failure errno has the reason. */
bool dt__intranode_read(int64_t process, void *to, uint64_t from, size_t bytes);
/* The transport whose state is a dt__intranode. */
extern const dt__transport dt__intranode_transport;

#endif
