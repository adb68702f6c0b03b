/* Waiting by evidence. Waking a thread takes 5 to 70 microseconds, longer than a small loop. A
 * spinning thread reacts within one microsecond, but keeps its processor from other programs. So a
 * thread spins for milliseconds, until it finds that it lost its processor: the clock jumped while
 * it was spinning, or the system counts an involuntary switch. Two such events within WINDOW start
 * a calm time, in which threads sleep after MOMENT. If spinning is disturbed again right after a
 * calm time, the next calm time is twice as long, up to LONGEST_CALM; so on a machine that is
 * always busy spinning is tried a few times per second, and resumes soon after the machine becomes
 * idle.
 *
 * A helper whose spinning was in vain halves its patience, one whose spinning was answered doubles
 * it: a program that has work only now and then does not spin in between. */
#define _GNU_SOURCE /* sched_getaffinity, RUSAGE_THREAD, syscall */
#include "core/wait.h"

#include <sched.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

#define MICROSECOND ((int64_t)1000)
#define MILLISECOND ((int64_t)1000000)
#define MOMENT (20 * MICROSECOND)
#define LEAST_PATIENCE (50 * MICROSECOND)
#define MOST_PATIENCE (2 * MILLISECOND)
#define FOR_HELPERS (500 * MICROSECOND) /* how long the caller spins for helpers that work */
#define JUMP (200 * MICROSECOND)        /* longer than any interrupt takes */
#define WINDOW (30 * MILLISECOND)
#define SHORTEST_CALM (10 * MILLISECOND)
#define LONGEST_CALM (320 * MILLISECOND)
#define LOOKS 32 /* checks of the value between two readings of the clock */

#ifdef __linux__

void dt__signal_init(dt__signal *s, unsigned value) { atomic_init(&s->value, value); }

void dt__signal_sleep(dt__signal *s, unsigned value)
{
    syscall(SYS_futex, &s->value, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

void dt__signal_wake(dt__signal *s)
{
    syscall(SYS_futex, &s->value, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

#else

void dt__signal_init(dt__signal *s, unsigned value)
{
    atomic_init(&s->value, value);
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->changed, NULL);
}

void dt__signal_sleep(dt__signal *s, unsigned value)
{
    pthread_mutex_lock(&s->mutex);
    if (atomic_load(&s->value) == value) pthread_cond_wait(&s->changed, &s->mutex);
    pthread_mutex_unlock(&s->mutex);
}

void dt__signal_wake(dt__signal *s)
{
    pthread_mutex_lock(&s->mutex);
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->mutex);
}

#endif

static int64_t now_in_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 * MILLISECOND + now.tv_nsec;
}

int dt__processors(void)
{
#ifdef CPU_COUNT
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
#endif
    const long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (int)count : 1;
}

static long preemptions(void)
{
#ifdef RUSAGE_THREAD
    struct rusage usage;
    if (getrusage(RUSAGE_THREAD, &usage) == 0) return usage.ru_nivcsw;
#endif
    return 0;
}

static void pause_briefly(void)
{
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}

#define GET(field) atomic_load_explicit(&(field), memory_order_relaxed)
#define SET(field, value) atomic_store_explicit(&(field), value, memory_order_relaxed)

dt__observer dt__observer_new(void) { return (dt__observer){ .patience = MOST_PATIENCE }; }

void dt__evidence_init(dt__evidence *e, dt__waiting waiting)
{
    e->waiting = waiting;
    atomic_init(&e->latest, INT64_MIN / 2);
    atomic_init(&e->calm_until, INT64_MIN / 2);
    atomic_init(&e->period, SHORTEST_CALM);
}

bool dt__is_contended(const dt__evidence *e, int64_t now)
{
    if (e->waiting != DT__WAIT_BY_EVIDENCE) return e->waiting == DT__WAIT_PASSIVE;
    return now < GET(e->calm_until);
}

void dt__note_disturbance(dt__evidence *e, int64_t now)
{
    const int64_t latest = GET(e->latest), calm = GET(e->calm_until);
    SET(e->latest, now);
    if (now < calm || now - latest > WINDOW) return;
    int64_t period = SHORTEST_CALM;
    if (now - calm < 2 * WINDOW) period = 2 * GET(e->period);
    if (period > LONGEST_CALM) period = LONGEST_CALM;
    SET(e->period, period);
    SET(e->calm_until, now + period);
}

/* Asks the system, at most once a millisecond, whether the calling thread was preempted. */
static void look_for_preemption(dt__evidence *e, dt__observer *o, int64_t now)
{
    if (now - o->sampled < MILLISECOND || e->waiting != DT__WAIT_BY_EVIDENCE) return;
    const long count = preemptions();
    if (count > o->preemptions && o->sampled > 0) dt__note_disturbance(e, now);
    o->preemptions = count;
    o->sampled = now;
}

/* A jump of the clock is counted once: as the involuntary switch that the system reports, if it
 * does. */
static void note_jump(dt__evidence *e, dt__observer *o, int64_t now)
{
    if (e->waiting != DT__WAIT_BY_EVIDENCE) return;
    dt__note_disturbance(e, now);
    o->preemptions = preemptions();
    o->sampled = now;
}

/* How long the thread may still spin. */
static int64_t limit(const dt__wait *w, int64_t now)
{
    if (w->evidence->waiting == DT__WAIT_ACTIVE) return INT64_MAX;
    if (dt__is_contended(w->evidence, now)) return MOMENT;
    return w->for_work ? w->observer->patience : FOR_HELPERS;
}

static void adapt(dt__observer *o, bool answered)
{
    const int64_t patience = answered ? 2 * o->patience : o->patience / 2;
    o->patience = patience < LEAST_PATIENCE  ? LEAST_PATIENCE
                  : patience > MOST_PATIENCE ? MOST_PATIENCE
                                             : patience;
}

bool dt__spin(const dt__wait *w, unsigned value)
{
    const int64_t start = now_in_ns();
    int64_t before = start;
    look_for_preemption(w->evidence, w->observer, start);
    for (;;) {
        for (int i = 0; i < LOOKS; i++) {
            if (atomic_load_explicit(&w->signal->value, memory_order_acquire) != value) {
                if (w->for_work) adapt(w->observer, true);
                return true;
            }
            pause_briefly();
        }
        const int64_t now = now_in_ns();
        if (now - before > JUMP) note_jump(w->evidence, w->observer, now);
        before = now;
        if (now - start < limit(w, now)) continue;
        if (w->for_work) adapt(w->observer, false);
        return false;
    }
}
