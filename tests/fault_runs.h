/* The program under tests/shim/faults.c, and folders before and after it. */
#ifndef FAULT_RUNS_H
#define FAULT_RUNS_H

#include "failing_calls.h"
#include "testing.h"

/* False, after test_skip, where the shim is not built: under a sanitizer, or without the
 * program. */
bool fault_shim(void);
const char *fault_library(void);  /* the shim's path */
const char *fault_messages(void); /* that of tests/shim/messages.c */

typedef struct fault {
    const char *kind; /* "write", "memory", ...; NULL: none */
    int64_t at;       /* which call of that kind, from 1 on */
    int error;        /* errno; FAULT_SHORT */
    bool lasts;       /* all later calls of the kind, too */
} fault;

#define FAULT_SHORT (-1) /* half of the requested bytes are read or written */

#define FAULT_KINDS 10
extern const char *const fault_kinds[FAULT_KINDS];

typedef struct fault_run {
    const char *folder;    /* where it runs */
    const char *arguments; /* as a shell would split them, without special characters */
    fault fault;
    const char *log;    /* a file for the calls that change files; NULL: none */
    int64_t kill_after; /* microseconds until SIGKILL; 0: never */
    int status;         /* result: the exit status, 128 + the signal if killed */
    char said[4096];    /* the beginning of both streams */
    bool happened;      /* for fault_run_inside: a call failed */
    int64_t calls[FAULT_KINDS];
} fault_run;

/* Runs `detent ARGUMENTS`; it is killed, with status 128 + SIGALRM, after 60 s. */
void fault_run_program(fault_run *r);

/* Does so in this process (command_inside.c), with a call that fails, or NULL; ignores `fault`,
 * `log` and `kill_after`. */
void fault_run_inside(fault_run *r, const failing_call *fails);

/* ---- folders --------------------------------------------------------------------------------- */

typedef struct tree_file {
    char path[256]; /* in the folder; of a folder with a '/' at its end */
    char *bytes;
    size_t size;
    uint64_t node;   /* the file's number in its file system; 0: made in memory */
    int64_t changed; /* when it was changed last, in ns */
} tree_file;

typedef struct tree {
    tree_file *file; /* ascending by path */
    int64_t n, room;
} tree;

/* Reads a folder; opens only files that may have changed since `before`. */
void tree_read(tree *t, const char *folder);
void tree_free(tree *t);
tree_file *tree_find(const tree *t, const char *path); /* NULL: not there */

/* Whether the contents are equal. In .json and .jsonl, numbers whose name ends in "per_s" or
 * "seconds" are ignored, since they depend on time. Much of a page (.html) does, too; only its end
 * must be there. */
bool tree_same_file(const tree_file *a, const tree_file *b);

/* Makes `folder` equal to `t`: writes what differs, removes what `t` does not have. `now` is the
 * present content of the folder. */
void tree_restore(const tree *t, const tree *now, const char *folder);

/* Adds a copy of the bytes, for a tree that is made in memory. */
void tree_add(tree *t, const char *path, const void *bytes, size_t size);
void tree_sort(tree *t);

#endif
