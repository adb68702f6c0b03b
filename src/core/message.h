/* Messages between ranks. */
#ifndef DT__CORE_MESSAGE_H
#define DT__CORE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>

/* A contiguous piece of a message: sent from this memory, or received there. */
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
    bool at_most;   /* receiving: the message may have fewer bytes */
} dt__message;

#endif
