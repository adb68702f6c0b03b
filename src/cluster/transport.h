/* The functions of MPI that detent needs, as a table that a module provides: linking to MPI would
 * slow every start of the program, and one program can have a module for each MPI. Ranks of one
 * machine exchange messages by functions of the same table that need no MPI (intranode.h); these
 * have no open and close. Only the communication thread calls them (cluster.c). They return 0, or
 * another number with the reason in `why`. */
#ifndef DT__CLUSTER_TRANSPORT_H
#define DT__CLUSTER_TRANSPORT_H

#include "core/message.h"

#define DT__TRANSPORT_WHY 512

/* Results of `test`. */
typedef enum dt__tested { DT__GOES_ON, DT__GOES_WRONG, DT__HAS_ENDED } dt__tested;

typedef struct dt__transport {
    /* Starts MPI. *request_bytes: size of the state for each message in `requests` below. */
    int (*open)(int *rank, int *ranks, size_t *request_bytes, char why[DT__TRANSPORT_WHY]);
    /* Starts to receive receive[k] from rank k and to send send[k] to it, for all k. `requests`
     * holds the state of MPI, for 2 * ranks messages. */
    int (*post)(void *state, const dt__message *send, const dt__message *receive, int ranks,
                char why[DT__TRANSPORT_WHY]);
    /* Makes progress. *left: number of messages that are not done; *missing: the first rank whose
     * message has not come, -1: none. WRONG: *missing is the rank whose message failed, or has
     * other bytes than `receive`; ENDED: `why` is what rank *missing passed to `end`. */
    dt__tested (*test)(void *state, const dt__message *receive, int ranks, int *left, int *missing,
                       char why[DT__TRANSPORT_WHY]);
    /* Sleeps until `test` may find something new, for at most 20 ms. NULL: the caller has to
     * poll. */
    void (*wait)(void *state);
    /* Announces to all others, which may wait for this rank, why it ends. `why` must live until the
     * process ends. */
    void (*end)(void *state, const char why[DT__TRANSPORT_WHY], int rank, int ranks);
    /* Ends MPI, after every rank has called it. */
    int (*close)(char why[DT__TRANSPORT_WHY]);
} dt__transport;

#endif
