/* Teams and their loops. A loop's items are cut into chunks, and the chunks into one contiguous
 * share a thread. Each thread takes chunks from its own share by an atomic counter, and when that
 * is empty from those of the others. A helper that is asleep or was preempted therefore costs
 * nothing: the others do its share, and the caller withdraws the offer that the helper did not take
 * in time.
 *
 * A helper's seat has one state, which helper and caller change by atomic exchanges:
 *
 *     FREE -> OFFERED -> WORKING -> FREE      the helper spins, takes a loop, has done it
 *     FREE -> ASLEEP -> OFFERED               it had slept; the caller wakes it
 *     OFFERED -> FREE                         the caller withdraws the offer
 *     WORKING -> AWAITED -> FREE              the caller sleeps until the helper is done
 *     FREE, ASLEEP -> LEAVE                   the team is freed
 *
 * The fields of the loop change only while no helper is WORKING or AWAITED. */
#include "core/threads.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNKS_OF_SHARE 64 /* chunks per share, at most */

enum { FREE, ASLEEP, OFFERED, WORKING, AWAITED, LEAVE };

/* The counter and the state are on lines of their own, since different threads write them. */
typedef struct seat {
    _Alignas(DT__ALIGNMENT) dt__signal state;
    dt__team *team;
    int index;
    pthread_t thread;
    dt__observer observer;
    _Alignas(DT__ALIGNMENT) _Atomic int64_t next; /* the next chunk of the share */
    int64_t past;
} seat;

struct dt__team {
    int threads;
    int started;           /* seats 1 ... started - 1 have a helper thread */
    bool refused;          /* the system refused to start a helper */
    _Atomic pid_t process; /* the process that started them */
    atomic_bool busy;      /* a loop is running */
    dt__loop *body;        /* the running loop's body; so are all fields below */
    const void *args;
    int64_t n, chunk;
    int shares;
    dt__evidence evidence;
    seat seats[]; /* 0: the caller's */
};

/* The team whose loops the calling thread starts; NULL: they run on this thread alone. */
static _Thread_local dt__team *current;

/* ---- a loop --------------------------------------------------------------------------------- */

static void run_chunks(dt__team *t, int thread)
{
    dt__share s = { .thread = thread };
    for (int i = 0; i < t->shares; i++) {
        seat *from = &t->seats[(thread + i) % t->shares];
        while (atomic_load_explicit(&from->next, memory_order_relaxed) < from->past) {
            const int64_t chunk = atomic_fetch_add_explicit(&from->next, 1, memory_order_relaxed);
            if (chunk >= from->past) break;
            s.first = chunk * t->chunk;
            s.past = dt__min_i64(s.first + t->chunk, t->n);
            t->body(t->args, &s);
        }
    }
}

static void *help(void *argument)
{
    seat *own = argument;
    dt__team *t = own->team;
    atomic_uint *state = &own->state.value;
    const dt__wait work = { &own->state, &t->evidence, &own->observer, true };
    for (;;) {
        unsigned seen = FREE;
        if (!dt__spin(&work, FREE) && atomic_compare_exchange_strong(state, &seen, ASLEEP)) {
            while (atomic_load(state) == ASLEEP) dt__signal_sleep(&own->state, ASLEEP);
        }
        seen = OFFERED;
        if (atomic_compare_exchange_strong(state, &seen, WORKING)) {
            run_chunks(t, own->index);
            if (atomic_exchange(state, FREE) == AWAITED) dt__signal_wake(&own->state);
        } else if (seen == LEAVE) {
            return NULL;
        }
    }
}

static void offer(dt__team *t)
{
    for (int i = 1; i < t->shares; i++) {
        seat *s = &t->seats[i];
        if (atomic_exchange(&s->state.value, OFFERED) == ASLEEP) dt__signal_wake(&s->state);
    }
}

/* Withdraws offers that were not taken, and waits for the helpers that work. */
static void finish(dt__team *t)
{
    for (int i = 1; i < t->shares; i++) {
        seat *s = &t->seats[i];
        const dt__wait done = { &s->state, &t->evidence, &t->seats[0].observer, false };
        unsigned seen = OFFERED;
        if (atomic_compare_exchange_strong(&s->state.value, &seen, FREE) || seen == FREE) continue;
        if (dt__spin(&done, WORKING)) continue;
        seen = WORKING;
        if (!atomic_compare_exchange_strong(&s->state.value, &seen, AWAITED)) continue;
        while (atomic_load(&s->state.value) == AWAITED) dt__signal_sleep(&s->state, AWAITED);
    }
}

static void share_out(dt__team *t, int shares)
{
    const int64_t chunks = dt__ceil_div(t->n, t->chunk);
    t->shares = shares;
    for (int i = 0; i < shares; i++) {
        atomic_store_explicit(&t->seats[i].next, chunks * i / shares, memory_order_relaxed);
        t->seats[i].past = chunks * (i + 1) / shares;
    }
}

/* ---- helpers -------------------------------------------------------------------------------- */

/* Helpers block all signals, which the program's own threads handle. */
static bool start_helper(dt__team *t, int index)
{
    seat *s = &t->seats[index];
    sigset_t all, before;
    dt__signal_init(&s->state, FREE);
    s->team = t;
    s->index = index;
    s->observer = dt__observer_new();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool started = pthread_create(&s->thread, NULL, help, s) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

/* A child process has none of its parent's threads. */
static void forget_after_fork(dt__team *t)
{
    const pid_t process = getpid();
    if (atomic_load(&t->process) == process) return;
    t->started = 1;
    t->refused = false;
    atomic_store(&t->busy, false);
    atomic_store(&t->process, process);
}

/* Starts helpers until `threads` threads can run; returns how many there are. */
static int ensure_helpers(dt__team *t, int threads)
{
    while (t->started < threads && !t->refused) {
        if (start_helper(t, t->started)) {
            t->started++;
        } else {
            t->refused = true;
        }
    }
    return t->started < threads ? t->started : threads;
}

dt__team *dt__team_create(const dt_allocator *a, int threads)
{
    const size_t bytes = sizeof(dt__team) + (size_t)threads * sizeof(seat);
    dt__team *t = a->allocate(a->user, bytes, DT__ALIGNMENT);
    if (t == NULL) return NULL;
    memset(t, 0, bytes);
    t->threads = threads;
    t->started = 1;
    atomic_init(&t->process, getpid());
    atomic_init(&t->busy, false);
    dt__evidence_init(&t->evidence, DT__WAIT_BY_EVIDENCE);
    t->seats[0].observer = dt__observer_new();
    return t;
}

static void dismiss_helpers(dt__team *t)
{
    forget_after_fork(t);
    for (int i = 1; i < t->started; i++) {
        seat *s = &t->seats[i];
        if (atomic_exchange(&s->state.value, LEAVE) == ASLEEP) dt__signal_wake(&s->state);
    }
    for (int i = 1; i < t->started; i++) pthread_join(t->seats[i].thread, NULL);
    t->started = 1;
}

void dt__team_free(const dt_allocator *a, dt__team *t)
{
    dismiss_helpers(t);
    a->release(a->user, t, sizeof *t + (size_t)t->threads * sizeof(seat));
}

void dt__team_wait(dt__team *t, dt__waiting waiting)
{
    dismiss_helpers(t);
    dt__evidence_init(&t->evidence, waiting);
}

/* ---- the calling thread --------------------------------------------------------------------- */

dt__team *dt__team_enter(dt__team *t)
{
    dt__team *const before = current;
    current = t;
    return before;
}

int dt__threads(void) { return current == NULL ? 1 : current->threads; }

int dt__threads_usual(void)
{
    const char *text = getenv("OMP_NUM_THREADS");
    const long wanted = text == NULL ? 0 : strtol(text, NULL, 10);
    if (wanted > 0) return wanted < DT__MOST_THREADS ? (int)wanted : DT__MOST_THREADS;
    return (int)dt__min_i64(dt__processors(), DT__MOST_THREADS);
}

/* ---- the call ------------------------------------------------------------------------------- */

/* The fewest items that are worth a thread of their own. */
static int64_t least_items(int64_t work)
{
    return work >= DT__WORTH_A_THREAD ? 1 : dt__ceil_div(DT__WORTH_A_THREAD, work);
}

static int threads_for(const dt__team *t, int64_t n, int64_t work)
{
    if (t == NULL || t->threads == 1 || work <= 0) return 1;
    return (int)dt__max_i64(1, dt__min_i64(t->threads, n / least_items(work)));
}

/* The items of a chunk: a quarter of what is worth a thread, so that a slow thread holds back
 * little work from the others; a multiple of that in long loops. */
static int64_t chunk_of(int64_t n, int64_t work, int threads)
{
    const int64_t quarter = dt__max_i64(1, least_items(work) / 4);
    const int64_t most = (int64_t)threads * CHUNKS_OF_SHARE;
    return quarter * dt__max_i64(1, dt__ceil_div(dt__ceil_div(n, quarter), most));
}

/* Reserves the team for a loop of at most `threads` threads; returns how many it gets. 1: the team
 * is not reserved, since it is busy or has no helpers. */
static int take(dt__team *t, int threads)
{
    if (threads == 1) return 1;
    forget_after_fork(t);
    if (atomic_exchange(&t->busy, true)) return 1;
    const int found = ensure_helpers(t, threads);
    if (found == 1) atomic_store(&t->busy, false);
    return found;
}

static void run_shared(dt__team *t, int threads)
{
    share_out(t, threads);
    current = NULL;
    offer(t);
    run_chunks(t, 0);
    finish(t);
    current = t;
}

void dt__lower(_Atomic int64_t *x, int64_t v)
{
    int64_t old = atomic_load(x);
    while (v < old && !atomic_compare_exchange_weak(x, &old, v)) {
    }
}

void dt__raise(_Atomic int64_t *x, int64_t v)
{
    int64_t old = atomic_load(x);
    while (v > old && !atomic_compare_exchange_weak(x, &old, v)) {
    }
}

void dt__parallel(int64_t n, int64_t work, dt__loop *body, const void *args)
{
    dt__team *const t = current;
    if (n <= 0) return;
    const int threads = take(t, threads_for(t, n, work));
    if (threads == 1) {
        body(args, &(dt__share){ 0, n, 0 });
        return;
    }
    t->body = body;
    t->args = args;
    t->n = n;
    t->chunk = chunk_of(n, work, threads);
    run_shared(t, threads);
    atomic_store(&t->busy, false);
}
