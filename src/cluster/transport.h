/* What detent needs of MPI, as a table of functions that a module of its own gives: linking to MPI
 * would cost every start of the program the time that MPI's libraries take, and one program can
 * have a module for each MPI. The communication thread alone calls these functions (cluster.c).
 * They return 0, or another number with the reason in `why`. */
#ifndef DT__CLUSTER_TRANSPORT_H
#define DT__CLUSTER_TRANSPORT_H

#include <stddef.h>

#define DT__TRANSPORT_WHY 512

/* A piece of a message, which is sent from where it lies, or received there. */
typedef struct dt__segment {
    void *data;
    size_t bytes;
} dt__segment;

#define DT__MOST_SEGMENTS 512

/* A message to a rank, or from it: the bytes at `data`, or segments. 0 bytes: none. */
typedef struct dt__message {
    void *data;
    size_t bytes; /* at most INT_MAX */
    const dt__segment *segment;
    int n_segments; /* at most DT__MOST_SEGMENTS; 0: all is at `data` */
} dt__message;

typedef struct dt__transport {
    /* Starts MPI. *request_bytes: what `requests` below needs for each message. */
    int (*open)(int *rank, int *ranks, size_t *request_bytes, char why[DT__TRANSPORT_WHY]);
    /* Starts to receive receive[k] from rank k and to send send[k] to it, for all k. `requests` has
     * room for 2 * ranks messages. */
    int (*post)(void *requests, const dt__message *send, const dt__message *receive, int ranks,
                char why[DT__TRANSPORT_WHY]);
    /* Lets messages progress. *left: how many are not done; *missing: the first rank whose message
     * has not come, -1: none. */
    int (*test)(void *requests, int ranks, int *left, int *missing, char why[DT__TRANSPORT_WHY]);
    /* Ends MPI, when every rank has called it. */
    int (*close)(char why[DT__TRANSPORT_WHY]);
} dt__transport;

#endif
