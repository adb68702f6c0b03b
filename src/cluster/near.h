/* Ranks of one machine: a receiver reads a message from where it lies in the sender's memory, by
 * process_vm_readv, and sleeps on a word that all of them map until there is something to read.
 * The bytes are copied once, and no processor asks. MPI only starts and ends such ranks. */
#ifndef DT__CLUSTER_NEAR_H
#define DT__CLUSTER_NEAR_H

#include "cluster/cluster.h"

#include <stdatomic.h>

#define DT__LINE 64 /* bytes that processors exchange at once */

/* A message from one rank to another. It is on its way while `written` and `read` differ. */
typedef struct dt__letter {
    _Alignas(DT__LINE) _Atomic uint32_t written; /* by the sender alone, after the rest */
    _Atomic uint32_t read;                       /* by the receiver alone */
    int32_t n_segments;                          /* 1: the bytes are at `at` */
    uint64_t bytes;
    uint64_t at; /* in the sender's memory: of the bytes, or of its list of segments */
} dt__letter;

typedef struct dt__desk {
    _Alignas(DT__LINE) _Atomic uint32_t bell; /* rises when the rank may have something to do */
    _Atomic uint32_t has_ended;               /* `words` says why */
    char words[DT__TRANSPORT_WHY];
} dt__desk;

/* What all ranks map. It has no name, so nothing is left of it when they have ended, however. */
typedef struct dt__board {
    uint64_t token[2];                  /* of rank 0 */
    _Alignas(DT__LINE) dt__desk desk[]; /* [ranks]; behind: letters [from][to] */
} dt__board;

/* What a rank tells the others so that they find its memory. */
typedef struct dt__near_card {
    uint64_t token[2], token_at; /* random numbers, and where they lie in its memory */
    int64_t process, file;       /* 0: it wants messages by MPI; of rank 0: the board */
} dt__near_card;

typedef struct dt__near {
    dt_ctx *ctx;
    int rank, ranks;
    dt__board *board; /* NULL: none */
    size_t board_bytes;
    dt__near_card card;
    int64_t *process; /* of each rank */
    bool *waits;      /* a message of the rank has not come */
    uint32_t seen;    /* the bell, before the last look at the letters */
} dt__near;

static inline dt__letter *dt__letter_of(const dt__near *n, int from, int to)
{
    dt__letter *all = (dt__letter *)(void *)(n->board->desk + n->ranks);
    return all + (size_t)from * (size_t)n->ranks + to;
}

/* ---- near_open.c ---- */

/* Finds out whether all ranks can read each other's memory, and agrees with them; *out is NULL
 * where one cannot, or where DETENT_EXCHANGE is "messages". ARG (another DETENT_EXCHANGE), NOMEM,
 * and as dt__cluster_gather. */
dt_status dt__near_open(dt__cluster *c, dt__near **out);
void dt__near_free(dt__near *n); /* NULL is allowed */

/* The steps of it. `make`: a rank's card, and the board of rank 0. NOMEM. */
dt_status dt__near_make(dt_ctx *ctx, int rank, int ranks, dt__near **out);
/* Whether this rank can read the memory of all, whose cards are in `all`; maps the board. */
bool dt__near_join(dt__near *n, const dt__near_card *all);
/* When all have joined, or not. */
void dt__near_close_file(dt__near *n);

/* ---- near.c ---- */

/* Copies `bytes` from another process. The reason of a failure is in errno. */
bool dt__near_read(int64_t process, void *to, uint64_t from, size_t bytes);
/* A dt__near is its state. */
extern const dt__transport dt__near_transport;

#endif
