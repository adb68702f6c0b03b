/* How threads wait for each other (core/wait.h): loops of 2 us to 2 ms of work, and the step of a
 * small model, on an idle machine and beside as many busy processes as there are processors. The
 * library's waiting, threads that always spin, threads that always sleep, and one thread alone take
 * turns within a repetition. */
#include "bench/measure.h"
#include "core/clock.h"
#include "core/threads.h"

#include <detent/nn.h>
#include <detent/ops.h>
#include <detent/optim.h>

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EVIDENCE, ACTIVE, PASSIVE, ALONE, WAYS };
#define STEP_BATCH 512
#define QUICK_BATCH 16
#define ITEM_SECONDS 0.25e-6
#define ITEM_WORK 500     /* the work per item that dt__parallel gets */
#define IDLE_SECONDS 0.02 /* duration of a turn */
#define BUSY_SECONDS 0.15 /* several of the system's time slices */
#define MOST_BUSY 64

/* ---- subjects -------------------------------------------------------------------------------- */

/* A loop, or steps of a model, which exists twice: once for one thread. */
typedef struct subject {
    const dt__bench *b;
    int64_t rounds, items; /* for a loop; rounds per item */
    struct model {
        dt_ctx *ctx;
        dt_tape *t;
        dt_module *m;
        dt_optimizer *o;
        dt_tensor *x, *labels;
    } model[2];     /* for steps: on all threads, on one */
    double seconds; /* duration of a turn */
    double elapsed[WAYS];
} subject;

static void compute(const void *args, const dt__share *share)
{
    const subject *s = args;
    double sum = 0;
    for (int64_t i = share->first; i < share->past; i++) sum += s->b->limits->f32(s->rounds);
    *(volatile double *)&sum = sum;
}

static dt_status step(const struct model *p)
{
    dt_tape_reset(p->t);
    dt_zero_grad(p->m);
    dt_tensor *loss = dt_cross_entropy(p->t, dt_forward(p->t, p->m, p->x), p->labels, NULL);
    DT__TRY(dt_backward(p->t, loss, NULL));
    return dt_optimizer_step(p->o, p->t, 1e-3);
}

/* A model's error is in its own context; it is copied to that of the benchmark. */
static dt_status passed_on(const dt__bench *b, const struct model *p, dt_status s)
{
    return s == DT_OK || p->ctx == NULL ? s : dt_fail(b->ctx, s, "%s", dt_error(p->ctx));
}

static dt_status run_once(const subject *s, bool alone)
{
    if (s->items == 0) return passed_on(s->b, &s->model[alone], step(&s->model[alone]));
    dt__parallel(s->items, alone ? 0 : ITEM_WORK, compute, s);
    return DT_OK;
}

/* One thread does not wait. */
static int ways_of(const dt__bench *b) { return dt_threads(b->ctx) == 1 ? 1 : WAYS; }

/* Runs for the duration of a turn; *elapsed is the mean time of a run. */
static dt_status run_way(subject *s, int way)
{
    static const dt__waiting waiting[WAYS] = { DT__WAIT_BY_EVIDENCE, DT__WAIT_ACTIVE,
                                               DT__WAIT_PASSIVE, DT__WAIT_BY_EVIDENCE };
    dt__team *const team = (s->items == 0 ? s->model[0].ctx : s->b->ctx)->team;
    int64_t runs = 0;
    dt__team_wait(team, waiting[way]);
    DT__TRY(run_once(s, way == ALONE));
    const double start = dt__seconds();
    double now = start;
    for (; now - start < s->seconds; now = dt__seconds(), runs++) {
        DT__TRY(run_once(s, way == ALONE));
    }
    s->elapsed[way] = (now - start) / (double)runs;
    return DT_OK;
}

static dt_status run_turn(void *user)
{
    subject *s = user;
    for (int way = 0; way < ways_of(s->b); way++) DT__TRY(run_way(s, way));
    dt__team_wait((s->items == 0 ? s->model[0].ctx : s->b->ctx)->team, DT__WAIT_BY_EVIDENCE);
    return DT_OK;
}

/* ---- the step -------------------------------------------------------------------------------- */

static int batch_of(const dt__bench *b) { return b->options.quick ? QUICK_BATCH : STEP_BATCH; }

static dt_status make_model(const dt__bench *b, int threads, struct model *p)
{
    const dt_mlp_options mlp = { .sizes = { 4, { 768, 256, 128, 10 } }, .bias = true };
    const int64_t dims[2] = { batch_of(b), 768 };
    DT__TRY(dt__bench_ctx(b, threads, &p->ctx));
    DT__TRY(dt_tape_create(p->ctx, &p->t));
    DT__TRY(dt_mlp_create(p->ctx, &mlp, &p->m));
    DT__TRY(dt_optimizer_create(p->m, NULL, &p->o));
    DT__TRY(dt_tensor_create(p->ctx, DT_F32, 2, dims, &p->x));
    DT__TRY(dt_fill_uniform(p->x, 0, 1));
    DT__TRY(dt_tensor_create(p->ctx, DT_I32, 1, dims, &p->labels));
    int32_t *label = dt_data_mut(p->labels);
    for (int64_t i = 0; i < dims[0]; i++) label[i] = (int32_t)(i % 10);
    dt_train(p->m, true);
    return step(p);
}

static void free_model(struct model *p)
{
    dt_tensor_free(p->x);
    dt_tensor_free(p->labels);
    dt_optimizer_free(p->o);
    dt_module_free(p->m);
    dt_tape_free(p->t);
    dt_ctx_free(p->ctx);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static dt_status measure(dt__bench *b, subject *s, const char *name)
{
    static const char *const ways[WAYS] = { "", "/active", "/passive", "/one-thread" };
    dt__trial trials[WAYS + 1] = {
        { .silent = true, .unit = "ms", .run = run_turn, .subject = s, .limit = DT__NO_TRIAL }
    };
    const int n = ways_of(b);
    for (int i = 0; i < n; i++) {
        dt__trial *t = &trials[1 + i];
        *t = (dt__trial){ .unit = "ms", .elapsed = &s->elapsed[i], .limit = DT__NO_TRIAL };
        dt__bench_name(b, t->name, "waiting/%s%s", name, ways[i]);
    }
    for (int i = 0; i + 1 < n; i++) {
        trials[1].ratio[i].trial = 2 + i;
        trials[1].ratio[i].name = ways[1 + i] + 1;
    }
    return dt__measure(b, n + 1, trials);
}

static dt_status measure_loops(dt__bench *b, const char *beside, double seconds)
{
    static const int sizes[] = { 2, 8, 20, 50, 200, 500, 2000 }; /* in microseconds */
    subject s = { .b = b, .rounds = 1, .seconds = seconds };
    double start, once = 0;
    while (once < ITEM_SECONDS) { /* doubles the rounds until an item takes long enough */
        s.rounds *= 2;
        start = dt__seconds();
        for (int i = 0; i < 1000; i++) compute(&s, &(dt__share){ 0, 1, 0 });
        once = (dt__seconds() - start) / 1000;
    }
    for (int i = 0; i < DT__COUNT_OF(sizes); i += b->options.quick ? 3 : 1) {
        char name[64];
        s.items = (int64_t)(1e-6 * sizes[i] / once) + 1;
        snprintf(name, sizeof name, "%s/%dus", beside, sizes[i]);
        DT__TRY(measure(b, &s, name));
    }
    return DT_OK;
}

static dt_status measure_step(dt__bench *b, const char *beside, double seconds)
{
    subject s = { .b = b, .seconds = seconds };
    char name[64];
    dt_status status = DT_OK;
    for (int i = 0; i < 2 && status == DT_OK; i++) {
        struct model *p = &s.model[i];
        status = passed_on(b, p, make_model(b, i == 0 ? dt_threads(b->ctx) : 1, p));
    }
    snprintf(name, sizeof name, "%s/step-768-256-128-10/b%d", beside, batch_of(b));
    if (status == DT_OK) status = measure(b, &s, name);
    for (int i = 0; i < 2; i++) free_model(&s.model[i]);
    return status;
}

/* ---- beside others --------------------------------------------------------------------------- */

/* A process that computes until it is killed or its parent has exited. */
static pid_t start_busy(void)
{
    const pid_t parent = getpid(), child = fork();
    if (child != 0) return child;
    volatile double x = 0;
    while (getppid() == parent) {
        for (int i = 0; i < 1000000; i++) x = x + 1;
    }
    _exit(0);
}

dt_status dt__bench_waiting(dt__bench *b)
{
    const bool quick = b->options.quick;
    pid_t busy[MOST_BUSY];
    int n = 0;
    DT__TRY(measure_loops(b, "idle", quick ? 1e-3 : IDLE_SECONDS));
    DT__TRY(measure_step(b, "idle", quick ? 1e-3 : IDLE_SECONDS));
    const int processors = dt__processors();
    for (; n < processors && n < MOST_BUSY; n++) {
        busy[n] = start_busy();
        if (busy[n] < 0) break;
    }
    dt_status s = measure_loops(b, "busy", quick ? 1e-3 : BUSY_SECONDS);
    if (s == DT_OK) s = measure_step(b, "busy", quick ? 1e-3 : BUSY_SECONDS);
    for (int i = 0; i < n; i++) {
        kill(busy[i], SIGKILL);
        waitpid(busy[i], NULL, 0);
    }
    return s;
}
