/* What detent needs of MPI, as a table of functions that a module of its own gives: linking to MPI
 * would cost every start of the program the time that MPI's libraries take, and one program can
 * have a module for each MPI. Ranks of one machine exchange messages by functions of the same
 * table that need no MPI (intranode.h); these do not open and close. The communication thread
 * alone calls them (cluster.c). They return 0, or another number with the reason in `why`. */
#ifndef DT__CLUSTER_TRANSPORT_H
#define DT__CLUSTER_TRANSPORT_H

#include "core/message.h"

#define DT__TRANSPORT_WHY 512

/* What `test` has found. */
typedef enum dt__tested { DT__GOES_ON, DT__GOES_WRONG, DT__HAS_ENDED } dt__tested;

typedef struct dt__transport {
    /* Starts MPI. *request_bytes: what `requests` below needs for each message. */
    int (*open)(int *rank, int *ranks, size_t *request_bytes, char why[DT__TRANSPORT_WHY]);
    /* Starts to receive receive[k] from rank k and to send send[k] to it, for all k. The state of
     * MPI is `requests`, with room for 2 * ranks messages. */
    int (*post)(void *state, const dt__message *send, const dt__message *receive, int ranks,
                char why[DT__TRANSPORT_WHY]);
    /* Lets messages progress. *left: how many are not done; *missing: the first rank whose message
     * has not come, -1: none. WRONG: *missing is whose message fails, or has other bytes than
     * `receive`; ENDED: `why` is what rank *missing said by `end`. */
    dt__tested (*test)(void *state, const dt__message *receive, int ranks, int *left, int *missing,
                       char why[DT__TRANSPORT_WHY]);
    /* Sleeps until `test` may find something new, for 20 ms at most. NULL: it is unknown when. */
    void (*wait)(void *state);
    /* Before this rank ends, while others may wait for it: says why, to all of them. `why` stays
     * until the process ends. */
    void (*end)(void *state, const char why[DT__TRANSPORT_WHY], int rank, int ranks);
    /* Ends MPI, when every rank has called it. */
    int (*close)(char why[DT__TRANSPORT_WHY]);
} dt__transport;

#endif
