/* The communication thread of a rank: it starts MPI, runs jobs in order, ends MPI. To wait for
 * messages of MPI it polls, first without sleeping, then with short sleeps: messages make progress
 * only in MPI calls, but the processor is needed by the threads that compute. Ranks of one machine
 * do not poll (intranode.h). */
#include "cluster/cluster.h"

#include "cluster/experts/spreading.h"
#include "cluster/intranode.h"
#include "cluster/optimizer/ranks_of_optimizer.h"
#include "core/clock.h"
#include "core/system/library.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>

#define AWAKE 5e-5     /* seconds of polling before the first sleep */
#define WELCOME 30.0   /* least timeout in seconds for the start of MPI */
#define FAREWELL 20.0  /* timeout in seconds for the end of MPI */
#define SLEEP_NS 50000 /* nanoseconds */
#define WHY (DT__TRANSPORT_WHY + 128)

typedef struct mpi_module {
    const dt__transport *transport;
} mpi_module;

typedef struct station {
    dt__cluster head;               /* the public part; its functions get a pointer to it */
    const dt__transport *mpi, *way; /* way: the transport in use; its state is `state` */
    void *state;
    dt__intranode *intranode; /* NULL: messages go by MPI */
    double timeout;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t posted, finished;
    const bool *awaited; /* what the waiting thread waits for; only that wakes it */
    dt__cluster_job *first, *last, *running;
    dt__cluster_costs costs;
    bool begun, ending, together, failed, ended;
    char why[WHY];
    char last_words[DT__TRANSPORT_WHY]; /* error of this rank, if it ends alone */
    size_t request_bytes;
    void *requests;
    dt__message *send, *receive;
} station;

static station *station_of(dt__cluster *c) { return (station *)(void *)c; }

/* ---- on the communication thread ------------------------------------------------------------ */

static bool fail(station *c, const dt__exchange *x, int missing, const char *reason)
{
    if (missing >= 0) {
        snprintf(c->why, sizeof c->why, "rank %d: %s, of %s from rank %d", c->head.rank, reason,
                 x->what, missing);
    } else {
        snprintf(c->why, sizeof c->why, "rank %d: %s, of %s", c->head.rank, reason, x->what);
    }
    return false;
}

/* Another rank has ended alone. Waits, so that it is the first to exit, also on a busy machine:
 * launchers print its status and end the others. */
static bool fail_with(station *c, int rank, const char *words)
{
    nanosleep(&(const struct timespec){ .tv_sec = 2 }, NULL);
    snprintf(c->why, sizeof c->why, "rank %d has ended: %s", rank, words);
    return false;
}

/* Whether this rank ends alone, without waiting for others. */
static bool leaves(station *c)
{
    pthread_mutex_lock(&c->mutex);
    const bool leaves = c->ending && !c->together;
    pthread_mutex_unlock(&c->mutex);
    return leaves;
}

/* Polls, or sleeps, until all messages are done. */
static bool wait_for_all(station *c, const dt__exchange *x)
{
    char why[DT__TRANSPORT_WHY];
    double began = dt__seconds(), moved = began;
    int before = INT_MAX, left, missing;
    for (;;) {
        switch (c->way->test(c->state, c->receive, c->head.ranks, &left, &missing, why)) {
        case DT__GOES_WRONG: return fail(c, x, missing, why);
        case DT__HAS_ENDED: return fail_with(c, missing, why);
        case DT__GOES_ON: break;
        }
        if (left == 0) return true;
        if (leaves(c)) return fail(c, x, missing, "this rank ends");
        const double now = dt__seconds();
        if (left != before) moved = now;
        before = left;
        if (x->patient && missing == 0) began = now;
        if (c->timeout > 0 && now - began > c->timeout) {
            snprintf(why, sizeof why, "nothing has come within %g s (cluster.timeout)", c->timeout);
            return fail(c, x, missing, why);
        }
        if (c->way->wait != NULL) c->way->wait(c->state);
        else if (now - moved < AWAKE) sched_yield();
        else nanosleep(&(const struct timespec){ .tv_nsec = SLEEP_NS }, NULL);
    }
}

static bool exchange(dt__cluster *cluster, const dt__exchange *x)
{
    station *c = station_of(cluster);
    char why[DT__TRANSPORT_WHY];
    for (int k = 0; k < c->head.ranks; k++) {
        c->send[k] = c->receive[k] = (dt__message){ 0 };
        if (k != c->head.rank) x->pieces(x->user, k, &c->send[k], &c->receive[k]);
        if (c->send[k].bytes > INT_MAX || c->receive[k].bytes > INT_MAX) {
            return fail(c, x, -1, "a message has more than 2 GiB");
        }
    }
    if (x->patient) c->running->patient = true;
    for (int k = 0; k < c->head.ranks; k++) c->costs.sent += (double)c->send[k].bytes;
    if (c->way->post(c->state, c->send, c->receive, c->head.ranks, why)) return fail(c, x, -1, why);
    return wait_for_all(c, x);
}

static dt__cluster_job *next_job(station *c)
{
    pthread_mutex_lock(&c->mutex);
    while (c->first == NULL && !c->ending) pthread_cond_wait(&c->posted, &c->mutex);
    dt__cluster_job *job = c->first;
    if (job != NULL) c->first = job->next;
    pthread_mutex_unlock(&c->mutex);
    return job;
}

static void finish(station *c, bool *done, bool ok)
{
    pthread_mutex_lock(&c->mutex);
    *done = true;
    if (!ok) c->failed = true;
    if (c->awaited == done) pthread_cond_signal(&c->finished);
    pthread_mutex_unlock(&c->mutex);
}

static void *communicate(void *cluster)
{
    station *c = cluster;
    const bool open = c->mpi->open(&c->head.rank, &c->head.ranks, &c->request_bytes, c->why) == 0;
    finish(c, &c->begun, open);
    for (dt__cluster_job *job; open && (job = next_job(c)) != NULL;) {
        const double began = dt__seconds();
        c->running = job;
        const bool ok = !c->failed && !leaves(c) && job->run(&c->head, job->user);
        if (!job->patient) c->costs.busy += dt__seconds() - began;
        finish(c, &job->done, ok);
    }
    char why[DT__TRANSPORT_WHY];
    if (open && c->together && !c->failed) c->mpi->close(why);
    if (open && !c->together && c->last_words[0] != 0) {
        c->way->end(c->state, c->last_words, c->head.rank, c->head.ranks);
    }
    finish(c, &c->ended, true);
    return NULL;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static void post(dt__cluster *cluster, dt__cluster_job *job)
{
    station *c = station_of(cluster);
    pthread_mutex_lock(&c->mutex);
    job->next = NULL;
    job->done = job->patient = false;
    if (c->first == NULL) c->first = job;
    else c->last->next = job;
    c->last = job;
    pthread_cond_signal(&c->posted);
    pthread_mutex_unlock(&c->mutex);
}

/* Waits at most `seconds`; 0: forever. Returns *done. */
static bool wait_until(station *c, const bool *done, double seconds)
{
    struct timespec end;
    int error = 0;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += (time_t)(seconds < 1e9 ? seconds + 1 : 1e9);
    pthread_mutex_lock(&c->mutex);
    c->awaited = done;
    while (!*done && error != ETIMEDOUT) {
        if (seconds == 0) pthread_cond_wait(&c->finished, &c->mutex);
        else error = pthread_cond_timedwait(&c->finished, &c->mutex, &end);
    }
    const bool is_done = *done;
    pthread_mutex_unlock(&c->mutex);
    return is_done;
}

static dt_status wait(dt__cluster *cluster, const dt__cluster_job *job)
{
    station *c = station_of(cluster);
    const double began = dt__seconds();
    wait_until(c, &job->done, 0);
    pthread_mutex_lock(&c->mutex);
    const bool failed = c->failed;
    if (!job->patient) c->costs.waited += dt__seconds() - began;
    pthread_mutex_unlock(&c->mutex);
    if (!failed) return DT_OK;
    return dt_fail(c->head.ctx, DT_ERR_STATE, "%s; this rank ends", c->why);
}

static dt__cluster_costs costs_of(dt__cluster *cluster)
{
    station *c = station_of(cluster);
    pthread_mutex_lock(&c->mutex);
    const dt__cluster_costs costs = c->costs;
    pthread_mutex_unlock(&c->mutex);
    return costs;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void free_cluster(station *c)
{
    dt_ctx *ctx = c->head.ctx;
    dt__intranode_free(c->intranode);
    DT__RELEASE(ctx, c->requests, c->send, c->receive, c);
}

static dt_status load(dt_ctx *ctx, const char *mpi, const dt__transport **out)
{
    static const dt__function table[] = { { "dt__mpi_transport",
                                            offsetof(mpi_module, transport) } };
    char path[4096], why[256];
    mpi_module found;
    if (!dt__launcher_module(mpi, path, sizeof path)) {
        return dt_fail(ctx, DT_ERR_UNSUPPORTED,
                       "a launcher of %s started this process as one of several ranks, but there "
                       "is no detent-%s.so: detent was built without it (DETENT_MPI)",
                       mpi, mpi);
    }
    if (dt__library_load(path, table, 1, &found, why) == NULL) {
        return dt_fail(ctx, DT_ERR_STATE, "%s: %s", path, why);
    }
    *out = found.transport;
    return DT_OK;
}

/* Starts the thread with all signals blocked, so that the program's threads receive them. */
static bool start(station *c)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->posted, NULL);
    pthread_cond_init(&c->finished, NULL);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&c->thread, NULL, communicate, c);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0;
}

static dt_status make_room(station *c)
{
    c->requests = dt__alloc_array(c->head.ctx, 2 * (int64_t)c->head.ranks, c->request_bytes);
    c->send = dt__alloc_array(c->head.ctx, c->head.ranks, sizeof *c->send);
    c->receive = dt__alloc_array(c->head.ctx, c->head.ranks, sizeof *c->receive);
    c->state = c->requests;
    const bool ok = c->requests != NULL && c->send != NULL && c->receive != NULL;
    return ok ? DT_OK : DT_ERR_NOMEM;
}

/* Replaces MPI by shared memory if all ranks are on one machine. */
static dt_status choose_way(station *c)
{
    DT__TRY(dt__intranode_open(&c->head, &c->intranode));
    c->head.intranode = c->intranode != NULL;
    if (c->intranode == NULL) return DT_OK;
    c->way = &dt__intranode_transport;
    c->state = c->intranode;
    return DT_OK;
}

/* MPI does not return: its thread, and all memory that it may use, stay until the process ends. */
static dt_status abandon(station *c)
{
    dt__ctx_retain(c->head.ctx);
    pthread_detach(c->thread);
    return dt_fail(c->head.ctx, DT_ERR_STATE,
                   "MPI has not started (cluster.timeout): a rank is missing");
}

static void close_station(dt__cluster *cluster, bool together)
{
    station *c = station_of(cluster);
    pthread_mutex_lock(&c->mutex);
    c->ending = true;
    c->together = together;
    if (!together && !c->failed) {
        snprintf(c->last_words, sizeof c->last_words, "%s", dt_error(c->head.ctx));
    }
    pthread_cond_signal(&c->posted);
    pthread_mutex_unlock(&c->mutex);
    if (!wait_until(c, &c->ended, FAREWELL)) {
        dt__ctx_retain(c->head.ctx);
        pthread_detach(c->thread);
        return;
    }
    pthread_join(c->thread, NULL);
    pthread_mutex_destroy(&c->mutex);
    pthread_cond_destroy(&c->posted);
    pthread_cond_destroy(&c->finished);
    free_cluster(c);
}

static const dt__cluster_hooks hooks = {
    .close = close_station,
    .post = post,
    .wait = wait,
    .exchange = exchange,
    .costs_of = costs_of,
    .gather = dt__ranks_gather,
    .gather_parts = dt__ranks_gather_parts,
    .tell = dt__ranks_tell,
    .meet = dt__ranks_meet,
    .tensors = dt__ranks_tensors,
    .tensor_lists_free = dt__ranks_tensor_lists_free,
    .buckets_make = dt__ranks_buckets_make,
    .buckets_free = dt__ranks_buckets_free,
    .bucket_post = dt__ranks_bucket_post,
    .join_statistics = dt__ranks_join_statistics,
    .agree = dt__ranks_agree,
    .optimizer = &dt__ranks_optimizer,
    .experts = &dt__ranks_experts,
};

dt_status dt__cluster_open(dt_ctx *ctx, double timeout, dt__cluster **out)
{
    const dt__transport *mpi;
    const char *name = dt__launcher_mpi();
    *out = NULL;
    if (name == NULL) return DT_OK;
    DT__TRY(load(ctx, name, &mpi));
    station *c = dt__alloc_zero(ctx, sizeof *c);
    if (c == NULL) return DT_ERR_NOMEM;
    c->head = (dt__cluster){ .hooks = &hooks, .ctx = ctx };
    c->mpi = c->way = mpi;
    c->timeout = timeout;
    if (!start(c)) {
        free_cluster(c);
        return dt_fail(ctx, DT_ERR_STATE, "the communication thread cannot be started");
    }
    const double patience = timeout > 0 && timeout < WELCOME ? WELCOME : timeout;
    if (!wait_until(c, &c->begun, patience)) return abandon(c);
    dt_status s = c->failed ? dt_fail(ctx, DT_ERR_STATE, "MPI: %s", c->why) : make_room(c);
    if (s == DT_OK) s = choose_way(c);
    if (s == DT_OK) *out = &c->head;
    else close_station(&c->head, false);
    return s;
}
