/* A disk that loses power: the possible contents of a folder if a program ends after any of its
 * calls, by the strictest reading of POSIX. The calls come from the log of tests/shim/faults.c.
 *
 * Contents of a file are durable once it is synced, directory entries (created, renamed, removed)
 * once their folder is. What is not synced may or may not be on the disk, in any order; only a
 * rename is atomic. */
#ifndef DISK_MODEL_H
#define DISK_MODEL_H

#include "fault_runs.h"

typedef struct disk disk;

/* A disk whose folder holds `start`, all of it synced. `log` are the records of a command that ran
 * in `folder`. */
disk *disk_open(const tree *start, const char *folder, const char *log, size_t bytes);
void disk_close(disk *d);

/* Takes the next call; false: there was none. */
bool disk_step(disk *d);

/* What is lost of contents that are not synced, in the order of writing. */
typedef enum disk_loss {
    DISK_NOTHING, /* a killed program's files */
    DISK_ALL,
    DISK_TORN,    /* the second half */
    DISK_ZEROS,   /* lengths are there, bytes are zeros */
    DISK_EARLIER, /* all but the last write */
    DISK_LOSSES
} disk_loss;

/* Which directory entries that are not synced are on the disk: all (0), none (1), from 2 on only
 * the k-th, and then all but the k-th. disk_orders is the number of such choices. */
int disk_orders(const disk *d);

/* The folder after the power came back. */
void disk_state(const disk *d, int order, disk_loss loss, tree *out);

#endif
