/* Parallel loops. Each context has a team: the thread that calls into the library, and helpers,
 * which start with the first loop that is worth sharing and end with the context. */
#ifndef DT__CORE_THREADS_H
#define DT__CORE_THREADS_H

#include "core/core.h"
#include "core/wait.h"

/* Items first ... past - 1 of a loop, which run on thread `thread` of the loop. */
typedef struct dt__share {
    int64_t first, past;
    int thread; /* less than dt__threads() of the caller */
} dt__share;

typedef void dt__loop(const void *args, const dt__share *s);

/* Begins the body of a loop, which runs for each `item`; the arguments are a struct. */
#define DT__LOOP(name, type, arguments, item)                                                      \
    static inline void name##_of_item(const type *arguments, int64_t item);                        \
    static void name(const void *args, const dt__share *share)                                     \
    {                                                                                              \
        for (int64_t i = share->first; i < share->past; i++) name##_of_item(args, i);              \
    }                                                                                              \
    static inline void name##_of_item(const type *arguments, int64_t item)

/* Begins the body of a loop, <name>_share, which runs for each share of the items. Its arguments
 * are a struct <name>_args of these fields; the body has a copy `a` of it. DT__EACH: the body runs
 * for each item. */
#define DT__SHARE(name, ...)                                                                       \
    typedef struct name##_args {                                                                   \
        __VA_ARGS__                                                                                \
    } name##_args;                                                                                 \
    static inline void name##_of_share(const name##_args a, const dt__share *share);               \
    static void name##_share(const void *args, const dt__share *share)                             \
    {                                                                                              \
        name##_of_share(*(const name##_args *)args, share);                                        \
    }                                                                                              \
    static inline void name##_of_share(const name##_args a, const dt__share *share)
#define DT__EACH(name, item, ...)                                                                  \
    struct name##_args;                                                                            \
    static inline void name##_of_item(const struct name##_args a, int64_t item);                   \
    DT__SHARE(name, __VA_ARGS__)                                                                   \
    {                                                                                              \
        for (int64_t i = share->first; i < share->past; i++) name##_of_item(a, i);                 \
    }                                                                                              \
    static inline void name##_of_item(const name##_args a, int64_t item)

/* Calls `body` until each of the items 0 ... n - 1 was in exactly one share, and returns when all
 * are done. The shares of one thread are adjacent, unless a thread is slow and others take some of
 * its items. So results must not depend on which thread runs an item, nor on where shares begin.
 *
 * `work` is the work of one item, measured in floats that are read, added to and written, about
 * half a nanosecond each; 0: the loop is not shared. A loop runs on the calling thread if it has
 * little work, is inside of another loop, or its context's team is busy. */
void dt__parallel(int64_t n, int64_t work, dt__loop *body, const void *args);

/* The most threads that a loop of the calling thread can have, and thus the number of scratch areas
 * that it needs. 1 within a loop. */
int dt__threads(void);

/* *x = min(*x, v) and max(*x, v), for results that shares find. */
void dt__lower(_Atomic int64_t *x, int64_t v);
void dt__raise(_Atomic int64_t *x, int64_t v);

/* The work for which another thread always pays. */
#define DT__WORTH_A_THREAD ((int64_t)8192)
/* Multiply-adds of codes and of floats that take as long as one element. */
#define DT__CODE_PRODUCTS 64
#define DT__FLOAT_PRODUCTS 16

/* ---- teams ---------------------------------------------------------------------------------- */

#define DT__MOST_THREADS 1024

/* A team of `threads` threads; NULL: out of memory. If the system refuses to start a thread, loops
 * run on fewer threads; this is no error. After fork(), the child's loops start threads of their
 * own. */
dt__team *dt__team_create(const dt_allocator *a, int threads);
void dt__team_free(const dt_allocator *a, dt__team *t);
/* Makes t the team of the calling thread's loops, and returns the previous team; NULL: none. */
dt__team *dt__team_enter(dt__team *t);
/* For benchmarks: sets a fixed way of waiting. */
void dt__team_wait(dt__team *t, dt__waiting waiting);

/* Number of threads that a context has unless it is set: OMP_NUM_THREADS of the
 * environment, else one for each processor that the process may use. */
int dt__threads_usual(void);

#endif
