/* cluster [BATCH [THREADS [points [LAUNCHER]]]]: what a step of the network 1024-4096-4096-1024
 * would take on 2 to 64 machines, by a model of which the compute is measured here and the network
 * is stated:
 *     X = buckets (P - 1) a + (P - 1)/P bytes / b      gradients one way, or weights
 *     whole optimizers:  T = forward + backward + optimizer + max(2X / buckets, 2X - backward)
 *     a shared one:      T = forward + backward + optimizer/P
 *                            + max(X / buckets, X - backward) + max(X / buckets, X - optimizer/P)
 * with a = 30 us a message, b = the bandwidth of each machine, buckets of 4 MiB. Buckets leave
 * while backward or the update runs, and the last cannot be hidden. Strong: BATCH examples in all;
 * weak: BATCH on each machine. Efficiency is the share of P times one machine's examples a second.
 *
 * With `points`: what the model says of 2 and 4 ranks on this machine, of one thread each, beside
 * what `ranks step` measures, by messages of MPI: a and b are those that `ranks ping` finds, and
 * compute is that of one thread, times the ranks that a processor has. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include <detent/nn.h>
#include <detent/ops.h>
#include <detent/optim.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char default_launcher[] =
    "env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
    "mpirun.openmpi --oversubscribe --bind-to none";

enum { WIDTH = 1024, REPEATS = 5, MOST = 64 };

static const dt_mlp_options network = { .sizes = { 4, { WIDTH, 4096, 4096, WIDTH } },
                                        .bias = true };

typedef struct trial {
    dt_ctx *ctx;
    dt_tape *t;
    dt_module *m;
    dt_optimizer *optimizer;
} trial;

typedef struct seconds {
    double forward, backward, optimizer;
} seconds;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static dt_status step(trial *b, dt_tensor *x, dt_tensor *target, seconds *s)
{
    dt_tape_reset(b->t);
    dt_zero_grad(b->m);
    const double a = now();
    dt_tensor *loss = dt_mse(b->t, dt_forward(b->t, b->m, x), target, DT_REDUCE_MEAN);
    const double f = now();
    if (dt_backward(b->t, loss, NULL) != DT_OK) return dt_tape_status(b->t);
    const double g = now();
    const dt_status status = dt_optimizer_step(b->optimizer, b->t, 1e-4);
    *s = (seconds){ f - a, g - f, now() - g };
    return status;
}

static double whole(const seconds *s) { return s->forward + s->backward + s->optimizer; }

/* The fastest of some steps. */
static dt_status measure(trial *b, int64_t batch, seconds *best)
{
    dt_tensor *x = NULL, *target = NULL;
    const int64_t dims[2] = { batch, WIDTH };
    dt_status status = dt_tensor_create(b->ctx, DT_F32, 2, dims, &x);
    if (status == DT_OK) status = dt_tensor_create(b->ctx, DT_F32, 2, dims, &target);
    if (status == DT_OK) status = dt_fill_normal(x, 0, 1);
    for (int i = 0; i <= REPEATS && status == DT_OK; i++) {
        seconds s;
        status = step(b, x, target, &s);
        if (i == 1 || (i > 1 && whole(&s) < whole(best))) *best = s;
    }
    dt_tape_reset(b->t);
    dt_tensor_free(x);
    dt_tensor_free(target);
    return status;
}

typedef struct link_of {
    double us, gbit; /* of a message; of a machine */
} link_of;

#define BYTES (4.0 * (WIDTH * 4096.0 + 4096.0 * 4096 + 4096.0 * WIDTH + 9216))

/* The part of x that `work` does not hide. */
static double exposed(double x, double work, double buckets)
{
    return x - work > x / buckets ? x - work : x / buckets;
}

static double predict(const seconds *s, int machines, const link_of *l, bool shared)
{
    const double buckets = BYTES / (4 << 20) + 1, part = (double)(machines - 1) / machines;
    const double x = buckets * (machines - 1) * 1e-6 * l->us + part * BYTES / (l->gbit * 1e9 / 8);
    const double update = shared ? s->optimizer / machines : s->optimizer;
    const double compute = s->forward + s->backward + update;
    if (!shared) return compute + exposed(2 * x, s->backward, buckets);
    return compute + exposed(x, s->backward, buckets) + exposed(x, update, buckets);
}

static dt_status print(trial *b, int64_t batch)
{
    static const double gbits[] = { 10, 25, 100 };
    seconds one, part;
    dt_status status = measure(b, batch, &one);
    if (status != DT_OK) return status;
    printf("1 machine, batch %lld: forward %.1f ms, backward %.1f ms, optimizer %.1f ms; "
           "%.1f MB of gradients\n",
           (long long)batch, 1e3 * one.forward, 1e3 * one.backward, 1e3 * one.optimizer,
           BYTES / 1e6);
    printf("efficiency              %21s %21s\n", "weak", "strong");
    printf("%8s %8s %13s %8s %13s %8s\n", "Gbit/s", "machines", "whole", "shared", "whole",
           "shared");
    for (int machines = 2; machines <= MOST && machines <= batch; machines *= 2) {
        status = measure(b, batch / machines, &part);
        for (int i = 0; i < 3 && status == DT_OK; i++) {
            const link_of l = { 30, gbits[i] };
            printf("%8g %8d", gbits[i], machines);
            for (int k = 0; k < 4; k++) {
                const bool strong = k > 1;
                const double t = predict(strong ? &part : &one, machines, &l, k % 2 != 0);
                printf(" %*.0f %%", k % 2 ? 6 : 11,
                       100 * whole(&one) / t / (strong ? machines : 1));
            }
            printf("\n");
        }
    }
    return status;
}

/* ---- measured points ------------------------------------------------------------------------- */

typedef struct points {
    const char *launcher, *ranks; /* the program beside this one */
    int64_t batch;
} points;

/* Runs a command; the first two numbers that it prints. */
static bool ask(const char *command, double out[2])
{
    FILE *pipe = popen(command, "r");
    if (pipe == NULL) return false;
    const int got = fscanf(pipe, "%lf %lf", &out[0], &out[1]);
    while (fgetc(pipe) != EOF) {
    }
    return pclose(pipe) == 0 && got == 2;
}

static bool print_point(const points *p, const seconds *s, int ranks, bool shared)
{
    char command[2048], folder[] = "/tmp/detent-cluster-XXXXXX";
    double link[2], step[2];
    snprintf(command, sizeof command, "%s -n %d %s ping", p->launcher, ranks, p->ranks);
    if (!ask(command, link) || mkdtemp(folder) == NULL) return false;
    snprintf(command, sizeof command,
             "DETENT_EXCHANGE=messages %s -n %d %s step mlp run.dir=%s/run run.threads=1 "
             "run.report=false train.batch_size=%lld cluster.check_steps=0 "
             "cluster.shard_optimizer=%s; rm -rf %s",
             p->launcher, ranks, p->ranks, folder, (long long)p->batch, shared ? "on" : "off",
             folder);
    if (!ask(command, step)) return false;
    const double predicted = 1e3 * predict(s, ranks, &(link_of){ link[0], link[1] }, shared);
    printf("%d ranks, %-17s  %6.1f us %7.1f Gbit/s %12.1f %12.1f %+7.0f %%\n", ranks,
           shared ? "shared optimizer" : "whole optimizers", link[0], link[1], predicted, step[0],
           100 * (predicted / step[0] - 1));
    fflush(stdout);
    return true;
}

/* b has one thread. */
static dt_status print_points(trial *b, const points *p)
{
    const int processors = (int)sysconf(_SC_NPROCESSORS_ONLN);
    printf("%-28s %9s %14s %12s %12s %9s\n", "here", "a", "b", "model ms", "measured ms", "error");
    for (int ranks = 2; ranks <= 4; ranks *= 2) {
        seconds s;
        const dt_status status = measure(b, p->batch / ranks, &s);
        if (status != DT_OK) return status;
        const double crowd = ranks > processors ? (double)ranks / processors : 1;
        const seconds here = { crowd * s.forward, crowd * s.backward, crowd * s.optimizer };
        for (int shared = 0; shared < 2; shared++) {
            if (!print_point(p, &here, ranks, shared != 0)) return DT_ERR_IO;
        }
    }
    return DT_OK;
}

/* ---- the program ----------------------------------------------------------------------------- */

static dt_status open(int threads, trial *b)
{
    dt_ctx_options options = dt_ctx_defaults();
    options.threads = threads;
    dt_status status = dt_ctx_create(&b->ctx, &options);
    if (status == DT_OK) status = dt_mlp_create(b->ctx, &network, &b->m);
    if (status == DT_OK) status = dt_optimizer_create(b->m, NULL, &b->optimizer);
    if (status == DT_OK) status = dt_tape_create(b->ctx, &b->t);
    if (status == DT_OK) dt_train(b->m, true);
    return status;
}

static int end(trial *b, dt_status status)
{
    if (status != DT_OK) fprintf(stderr, "%s\n", b->ctx == NULL ? "no memory" : dt_error(b->ctx));
    dt_tape_free(b->t);
    dt_optimizer_free(b->optimizer);
    dt_module_free(b->m);
    dt_ctx_free(b->ctx);
    return status != DT_OK;
}

int main(int n_words, char **words)
{
    const int64_t batch = n_words > 1 ? atoll(words[1]) : 256;
    const bool with_points = n_words > 3 && strcmp(words[3], "points") == 0;
    char ranks[1024];
    trial b = { 0 }, one = { 0 };
    if (batch < 4 || (n_words > 3 && !with_points)) return 2;
    dt_status status = open(n_words > 2 ? atoi(words[2]) : 0, &b);
    if (status == DT_OK) status = print(&b, batch);
    int failed = end(&b, status);
    if (failed || !with_points) return failed;
    const char *slash = strrchr(words[0], '/');
    snprintf(ranks, sizeof ranks, "%.*s/ranks", slash == NULL ? 1 : (int)(slash - words[0]),
             slash == NULL ? "." : words[0]);
    const points p = { n_words > 4 ? words[4] : default_launcher, ranks, batch };
    status = open(1, &one);
    if (status == DT_OK) status = print_points(&one, &p);
    return end(&one, status);
}
