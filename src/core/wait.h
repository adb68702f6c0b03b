/* How threads wait for each other: they spin while that is cheap, and sleep early while other
 * programs want the processor. Times are in nanoseconds. */
#ifndef DT__CORE_WAIT_H
#define DT__CORE_WAIT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A word that one thread changes and another one waits for. Linux sleeps on the word itself. */
typedef struct dt__signal {
    atomic_uint value;
#ifndef __linux__
    pthread_mutex_t mutex;
    pthread_cond_t changed;
#endif
} dt__signal;

void dt__signal_init(dt__signal *s, unsigned value);
/* Sleeps while the value is `value`; may return early. */
void dt__signal_sleep(dt__signal *s, unsigned value);
/* Wakes the thread that sleeps on s. The caller has changed the value. */
void dt__signal_wake(dt__signal *s);

typedef enum dt__waiting {
    DT__WAIT_BY_EVIDENCE, /* the default */
    DT__WAIT_ACTIVE,      /* always spin */
    DT__WAIT_PASSIVE      /* spin for a moment, then sleep */
} dt__waiting;

/* What the threads of a team have observed about other programs. Threads update it without a lock:
 * losing an observation does no harm. */
typedef struct dt__evidence {
    dt__waiting waiting;        /* fixed while threads run */
    _Atomic int64_t latest;     /* when a thread last found that it had lost its processor */
    _Atomic int64_t calm_until; /* until then threads spin for MOMENT only */
    _Atomic int64_t period;     /* duration of the next calm time */
} dt__evidence;

/* What one thread has observed about itself. */
typedef struct dt__observer {
    int64_t sampled;  /* when preemptions were last counted */
    long preemptions; /* count by then */
    int64_t patience; /* how long it spins for work before it sleeps */
} dt__observer;

dt__observer dt__observer_new(void);
void dt__evidence_init(dt__evidence *e, dt__waiting waiting);
/* How many processors this process may use, at least 1. */
int dt__processors(void);

/* Whether spinning for long would keep the processor from other programs. */
bool dt__is_contended(const dt__evidence *e, int64_t now);
/* Records that a thread lost its processor. */
void dt__note_disturbance(dt__evidence *e, int64_t now);

typedef struct dt__wait {
    dt__signal *signal;
    dt__evidence *evidence;
    dt__observer *observer; /* of the calling thread */
    bool for_work;          /* a helper waits for a loop; false: the caller waits for its helpers */
} dt__wait;

/* Spins while the value is `value`. False: it is still `value`, and the thread should sleep. */
bool dt__spin(const dt__wait *w, unsigned value);

#endif
