/* ranks [REPEATS [LAUNCHER]]: steps of several ranks on this machine, beside those of one rank that
 * has as many threads:
 *     ms a step (the median of the steps of a run, then of REPEATS runs, which take turns)
 *     the share of that above one rank's
 *     CPU: ms of processor time of all ranks in a step, which other work changes little
 *     communication: ms in which messages about gradients and weights were on their way
 *     hidden: the share of them in which the rank computed
 *     MB that a rank sends a step
 * and what these cost: messages of MPI, by which ranks of several machines exchange; comparing all
 * ranks' weights after each step; the watchdog. Networks: the MLP 1024-4096-4096-1024, a GPT of
 * width 384, ResNet-20; batches of 256, 8 and 64 examples.
 *
 * The launcher starts this program for each figure: `ranks step NETWORK KEY=VALUE...` prints those
 * of a run; `ranks ping` measures messages between the first two ranks: microseconds of a small
 * one, and Gbit/s each way, of messages of 4 MiB both ways at once. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "cluster/transport.h"

#include <detent/experimental/data.h>
#include <detent/train.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { STEPS = 12, SKIPPED = 3, MOST_REPEATS = 64, WORDS = 2048 };

static const char default_launcher[] =
    "env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
    "mpirun.openmpi --oversubscribe --bind-to none";

/* ---- the networks ---------------------------------------------------------------------------- */

typedef struct network {
    const char *name, *recipe;
    int64_t count, dims[3], classes;
    int rank;
} network;

#define COMMON "train: {epochs: 1000, batch_size: "
#define REST                                                                                       \
    ", log: {every_steps: 1000000}, checkpoint: {every_steps: 0}, optimizer: {name: adamw}}\n"     \
    "data: {format: given}\n"

static const network networks[] = {
    { "mlp",
      "model: {family: mlp, sizes: [1024, 4096, 4096, 1024]}\n" COMMON "256" REST,
      256,
      { 1024 },
      1024,
      1 },
    { "gpt",
      "model: {family: gpt, vocab: 256, context: 128, layers: 6, heads: 6, width: 384}\n" COMMON
      "8" REST,
      1025,
      { 0 },
      256,
      0 },
    { "resnet20",
      "model: {family: resnet, depth: 20, outputs: 10, image: [3, 32, 32]}\n" COMMON "64" REST,
      64,
      { 3, 32, 32 },
      10,
      3 },
};

static uint32_t draw(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static dt_status make_tokens(dt_ctx *ctx, const network *n, dt_dataset **out)
{
    int32_t ids[2048];
    uint32_t state = 1;
    for (int64_t i = 0; i < n->count; i++) ids[i] = (int32_t)(draw(&state) % (uint32_t)n->classes);
    return dt_text_create(ctx, ids, n->count, n->classes, 128, out);
}

static dt_status make_data(dt_ctx *ctx, const network *n, dt_dataset **out)
{
    int64_t each = 1;
    uint32_t state = 1;
    if (n->rank == 0) return make_tokens(ctx, n, out);
    for (int i = 0; i < n->rank; i++) each *= n->dims[i];
    float *x = malloc((size_t)(n->count * each) * sizeof *x);
    int32_t *y = malloc((size_t)n->count * sizeof *y);
    if (x == NULL || y == NULL) exit(2);
    for (int64_t i = 0; i < n->count * each; i++) x[i] = (float)draw(&state) / (1 << 23) - 1;
    for (int64_t i = 0; i < n->count; i++) y[i] = (int32_t)(draw(&state) % (uint32_t)n->classes);
    dt_arrays a = { .count = n->count,
                    .rank = n->rank,
                    .x_dtype = DT_ARRAY_F32,
                    .x = x,
                    .target = DT_TARGET_CLASS,
                    .y_dtype = DT_ARRAY_I32,
                    .y = y,
                    .outputs = n->classes };
    memcpy(a.dims, n->dims, sizeof n->dims);
    const dt_status status = dt_dataset_from_arrays(ctx, &a, out);
    free(x);
    free(y);
    return status;
}

/* ---- a run ----------------------------------------------------------------------------------- */

typedef struct run {
    double began, ms[STEPS], cpu;
    dt_progress last;
    int n;
} run;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double processor_ms(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return 1e3 * (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-3 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void took_a_step(void *user, const dt_progress *p)
{
    run *r = user;
    const double t = now();
    if (p->step == SKIPPED) r->cpu = -processor_ms();
    if (p->step > SKIPPED && r->n < STEPS) { /* ranks may agree to stop a step later */
        r->ms[r->n++] = 1e3 * (t - r->began);
        if (r->n == STEPS) r->cpu += processor_ms();
    }
    r->began = t;
    r->last = *p;
}

static bool has_enough(void *user) { return ((run *)user)->n == STEPS; }

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, compare);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* words: overrides of the recipe. */
static int step(const network *n, char **words, int n_words)
{
    dt_ctx *ctx;
    dt_recipe *recipe = NULL;
    dt_dataset *data = NULL;
    run r = { .n = 0 };
    const dt_recipe_source source = { .path = n->name,
                                      .text = n->recipe,
                                      .bytes = strlen(n->recipe),
                                      .overrides = (const char *const *)words,
                                      .n_overrides = n_words };
    if (dt_ctx_create(&ctx, NULL) != DT_OK) return 2;
    dt_status status = dt_recipe_read(ctx, &source, &recipe);
    if (status == DT_OK) status = make_data(ctx, n, &data);
    const dt_run_control control = {
        .cluster = true, .stop = has_enough, .progress = took_a_step, .user = &r, .train = data
    };
    if (status == DT_OK) status = dt_run(ctx, recipe, &control, NULL);
    if (status == DT_ERR_INTERRUPTED) status = DT_OK;
    if (status != DT_OK) fprintf(stderr, "%s\n", dt_error(ctx));
    else if (r.n == STEPS) {
        printf("%.6f %.6f %.6f %.6f %.0f\n", median(r.ms, STEPS), r.cpu / STEPS,
               r.last.communication_ms, r.last.exposed_ms, r.last.sent);
    }
    dt_recipe_free(recipe);
    dt_dataset_free(data);
    dt_ctx_free(ctx);
    return status != DT_OK;
}

/* ---- messages -------------------------------------------------------------------------------- */

enum { SMALL = 8, LARGE = 4 << 20, PINGS = 40 };

typedef struct ends {
    const dt__transport *mpi;
    int rank, ranks;
    void *requests;
    dt__message send[64], receive[64];
} ends;

/* Both send `bytes` and wait for those of the other; seconds. */
static double exchange(ends *e, char *out, char *in, size_t bytes)
{
    char why[DT__TRANSPORT_WHY];
    const int other = 1 - e->rank;
    int left = 1, missing;
    memset(e->send, 0, sizeof e->send);
    memset(e->receive, 0, sizeof e->receive);
    if (e->rank < 2) {
        e->send[other] = (dt__message){ .data = out, .bytes = bytes };
        e->receive[other] = (dt__message){ .data = in, .bytes = bytes };
    }
    const double began = now();
    if (e->mpi->post(e->requests, e->send, e->receive, e->ranks, why) != 0) exit(1);
    while (left > 0) {
        if (e->mpi->test(e->requests, e->receive, e->ranks, &left, &missing, why) != DT__GOES_ON) {
            exit(1);
        }
    }
    return now() - began;
}

static double fastest(ends *e, char *out, char *in, size_t bytes)
{
    double best = 1e9;
    for (int i = 0; i < PINGS; i++) {
        const double t = exchange(e, out, in, bytes);
        if (t < best) best = t;
    }
    return best;
}

/* The module of the launcher's MPI lies in the folder above this program. */
static const dt__transport *find_transport(const char *self)
{
    char path[WORDS];
    const char *slash = strrchr(self, '/');
    const int n = slash == NULL ? 1 : (int)(slash - self);
    snprintf(path, sizeof path, "%.*s/../detent-%s.so", n, slash == NULL ? "." : self,
             getenv("OMPI_COMM_WORLD_SIZE") != NULL ? "openmpi" : "mpich");
    void *library = dlopen(path, RTLD_NOW);
    return library == NULL ? NULL : dlsym(library, "dt__mpi_transport");
}

static int ping(const char *self)
{
    char why[DT__TRANSPORT_WHY];
    size_t request;
    ends e = { .mpi = find_transport(self) };
    if (e.mpi == NULL || e.mpi->open(&e.rank, &e.ranks, &request, why) != 0) return 1;
    if (e.ranks < 2 || e.ranks > 64) return 2;
    e.requests = malloc(2 * (size_t)e.ranks * request);
    char *out = calloc(1, LARGE), *in = calloc(1, LARGE);
    if (e.requests == NULL || out == NULL || in == NULL) return 2;
    const double small = fastest(&e, out, in, SMALL), large = fastest(&e, out, in, LARGE);
    if (e.rank == 0) printf("%.3f %.3f\n", 1e6 * small, 8e-9 * LARGE / (large - small));
    fflush(stdout);
    e.mpi->close(why);
    free(e.requests);
    free(out);
    free(in);
    return 0;
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* How a network is trained. */
typedef struct way {
    const char *name, *keys;
    int ranks, threads;
    const char *environment; /* "NAME=value", or empty */
} way;

#define ALONE "cluster.shard_optimizer=off cluster.check_steps=0"
#define SHARED "cluster.shard_optimizer=on cluster.check_steps=0"

static const way ways[] = {
    { "1 rank, 2 threads", "", 1, 2, "" },
    { "2 ranks, whole optimizers", ALONE, 2, 1, "" },
    { "2 ranks, shared optimizer", SHARED, 2, 1, "" },
    { "  by messages of MPI", SHARED, 2, 1, "DETENT_EXCHANGE=messages" },
    { "  and weights compared", "cluster.shard_optimizer=on cluster.check_steps=1", 2, 1, "" },
    { "  and no timeout", SHARED " cluster.timeout=0", 2, 1, "" },
    { "4 ranks, shared optimizer", SHARED, 4, 1, "" },
};

enum { WAYS = sizeof ways / sizeof ways[0] };

typedef struct result {
    double ms[MOST_REPEATS], cpu[MOST_REPEATS], busy[MOST_REPEATS], exposed[MOST_REPEATS], sent;
} result;

static bool measure(const char *self, const char *launcher, const network *n, const way *w,
                    result *out, int repeat)
{
    char command[WORDS], start[WORDS / 2] = "", folder[] = "/tmp/detent-ranks-XXXXXX";
    if (mkdtemp(folder) == NULL) return false;
    if (w->ranks > 1) snprintf(start, sizeof start, "%s -n %d", launcher, w->ranks);
    snprintf(command, sizeof command,
             "%s %s %s step %s run.dir=%s/run run.threads=%d run.report=false %s; rm -rf %s",
             w->environment, start, self, n->name, folder, w->threads, w->keys, folder);
    FILE *pipe = popen(command, "r");
    if (pipe == NULL) return false;
    const int got = fscanf(pipe, "%lf %lf %lf %lf %lf", &out->ms[repeat], &out->cpu[repeat],
                           &out->busy[repeat], &out->exposed[repeat], &out->sent);
    out->cpu[repeat] *= w->ranks;
    return pclose(pipe) == 0 && got == 5;
}

static void print(const way *w, result *r, int repeats, double one)
{
    const double ms = median(r->ms, repeats), busy = median(r->busy, repeats);
    const double exposed = median(r->exposed, repeats);
    printf("  %-28s %9.1f %9.1f", w->name, ms, median(r->cpu, repeats));
    if (w->ranks > 1) {
        const double hidden = busy > exposed ? 1 - exposed / busy : 0;
        printf(" %+7.0f %% %11.1f %8.0f %% %9.1f", 100 * (ms / one - 1), busy, 100 * hidden,
               r->sent / 1e6);
    }
    printf("\n");
    fflush(stdout);
}

static bool compare_ways(const char *self, const char *launcher, const network *n, int repeats)
{
    static result results[WAYS];
    for (int i = 0; i < repeats; i++) {
        for (int k = 0; k < WAYS; k++) {
            if (!measure(self, launcher, n, &ways[k], &results[k], i)) return false;
        }
    }
    printf("%s\n", n->name);
    double copy[MOST_REPEATS];
    memcpy(copy, results[0].ms, sizeof copy);
    const double one = median(copy, repeats);
    for (int k = 0; k < WAYS; k++) print(&ways[k], &results[k], repeats, one);
    return true;
}

int main(int n_words, char **words)
{
    const int n_networks = (int)(sizeof networks / sizeof networks[0]);
    if (n_words > 2 && strcmp(words[1], "step") == 0) {
        for (int i = 0; i < n_networks; i++) {
            if (strcmp(words[2], networks[i].name) != 0) continue;
            return step(&networks[i], words + 3, n_words - 3);
        }
        return 2;
    }
    if (n_words == 2 && strcmp(words[1], "ping") == 0) return ping(words[0]);
    const int repeats = n_words > 1 ? atoi(words[1]) : 5;
    const char *launcher = n_words > 2 ? words[2] : default_launcher;
    if (repeats < 1 || repeats > MOST_REPEATS) return 2;
    printf("%-30s %9s %9s %9s %13s %8s %9s\n", "", "ms", "CPU ms", "more", "comm. ms", "hidden",
           "sent MB");
    for (int i = 0; i < n_networks; i++) {
        if (!compare_ways(words[0], launcher, &networks[i], repeats)) return 1;
    }
    return 0;
}
