/* What a fp32 product costs that gives the same bits on any number of threads and any processor:
 * detent's own against OpenBLAS with threads of its own, for the products of training.
 * Two pools of threads in one process would slow each other, so each side runs in a process of its
 * own, in turn.
 *
 *     bench/grid [THREADS [ROUNDS]]           2 threads and 3 rounds if not said
 *     bench/grid --run detent|openblas THREADS    one side: a median in microseconds for each row
 *
 * detent's side is whole ops: linear forward (NT), and backward with one wanted gradient (NN,
 * TN). */
#include <detent/experimental/detent.h>
#include <detent/ops.h>

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Layers of 768-256-128-10 at batch 64 and 512, of 1024-4096-4096-1024 at 256, and squares. */
typedef struct layer {
    int m, n, k; /* y [m, n] = x [m, k] w^T, w being [n, k] */
} layer;

static const layer layers[] = {
    { 64, 256, 768 },    { 64, 128, 256 },     { 64, 10, 128 },      { 512, 256, 768 },
    { 512, 128, 256 },   { 512, 10, 128 },     { 256, 4096, 1024 },  { 256, 4096, 4096 },
    { 256, 1024, 4096 }, { 1024, 1024, 1024 }, { 1024, 4096, 4096 },
};
enum { LAYERS = sizeof layers / sizeof layers[0], ROWS = 3 * LAYERS, SIDES = 4, MOST_ROUNDS = 99 };
enum { LARGEST = 4096 * 4096, MOST_SAMPLES = 500 };

/* y = x w^T, dx = dy w, dw = dy^T x */
typedef enum form { NT, NN, TN } form;
static const char *const form_name[] = { "NT", "NN", "TN" };

static void fail(const char *what)
{
    fprintf(stderr, "bench/grid: %s\n", what);
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof v[0], by_value);
    return v[n / 2];
}

/* ---- one side ------------------------------------------------------------------------------- */

typedef struct side {
    dt_tape *t; /* NULL: OpenBLAS */
    dt_tensor *x, *w, *dy;
    const float *a, *b;
    float *c;
} side;

static double time_openblas(const side *s, const layer *l, form f)
{
    const int m = f == TN ? l->n : l->m, n = f == NT ? l->n : l->k;
    const int k = f == NT ? l->k : f == NN ? l->n : l->m;
    const int lda = f == TN ? m : k, ldb = f == NT ? k : n;
    const double start = now();
    cblas_sgemm(CblasRowMajor, f == TN ? CblasTrans : CblasNoTrans,
                f == NT ? CblasTrans : CblasNoTrans, m, n, k, 1, s->a, lda, s->b, ldb, 0, s->c, n);
    return now() - start;
}

static double time_detent(const side *s, form f)
{
    dt_tape_reset(s->t);
    dt_grad_clear(s->x);
    dt_grad_clear(s->w);
    dt_set_requires_grad(s->x, f == NN);
    dt_set_requires_grad(s->w, f == TN);
    double start = now();
    dt_tensor *y = dt_linear(s->t, s->x, s->w, NULL);
    if (f != NT) {
        start = now();
        dt_backward(s->t, y, s->dy);
    }
    const double end = now();
    if (dt_tape_status(s->t) != DT_OK) fail(dt_error(dt_tape_ctx(s->t)));
    return end - start;
}

static dt_tensor *matrix(dt_ctx *ctx, int64_t rows, int64_t columns)
{
    dt_tensor *x;
    if (dt_tensor_create(ctx, DT_F32, 2, (int64_t[]){ rows, columns }, &x) != DT_OK ||
        dt_fill_uniform(x, -1, 1) != DT_OK) {
        fail(dt_error(ctx));
    }
    return x;
}

static void run_row(side *s, const layer *l, form f)
{
    double sample[MOST_SAMPLES];
    const double flops = 2.0 * l->m * l->n * l->k;
    int n = (int)(1e10 / flops); /* about a tenth of a second */
    n = n < 5 ? 5 : n > MOST_SAMPLES ? MOST_SAMPLES : n;
    for (int i = -2; i < n; i++) {
        const double us = s->t == NULL ? time_openblas(s, l, f) : time_detent(s, f);
        if (i >= 0) sample[i] = us;
    }
    printf("%.3f\n", median(sample, n));
}

static void run_side(bool detent, int threads)
{
    dt_ctx_options o = dt_ctx_defaults();
    o.threads = threads;
    dt_ctx *ctx;
    side s = { .t = NULL };
    if (dt_ctx_create(&ctx, &o) != DT_OK) fail("no context");
    if (detent && dt_tape_create(ctx, &s.t) != DT_OK) fail(dt_error(ctx));
    if (!detent) {
        openblas_set_num_threads(threads);
        s.a = dt_data(matrix(ctx, 1, LARGEST));
        s.b = dt_data(matrix(ctx, 1, LARGEST));
        s.c = dt_data_mut(matrix(ctx, 1, LARGEST));
    }
    for (int i = 0; i < LAYERS; i++) {
        const layer *l = &layers[i];
        if (detent) {
            s.x = matrix(ctx, l->m, l->k);
            s.w = matrix(ctx, l->n, l->k);
            s.dy = matrix(ctx, l->m, l->n);
        }
        for (form f = NT; f <= TN; f++) run_row(&s, l, f);
        if (s.t != NULL) dt_tape_reset(s.t);
        dt_tensor_free(s.x);
        dt_tensor_free(s.w);
        dt_tensor_free(s.dy);
    }
}

/* ---- both ----------------------------------------------------------------------------------- */

static void ask(const char *self, const char *name, int threads, double *us)
{
    char command[4200];
    snprintf(command, sizeof command, "'%s' --run %s %d", self, name, threads);
    FILE *from = popen(command, "r");
    if (from == NULL) fail("cannot start a side");
    for (int i = 0; i < ROWS; i++) {
        if (fscanf(from, "%lf", &us[i]) != 1) fail("a side stopped");
    }
    pclose(from);
}

static void compare(const char *self, int threads, int rounds)
{
    static double us[SIDES][MOST_ROUNDS][ROWS], v[MOST_ROUNDS]; /* a benchmark may have statics */
    for (int r = 0; r < rounds; r++) {
        for (int which = 0; which < SIDES; which++) {
            ask(self, which % 2 == 0 ? "detent" : "openblas", which < 2 ? threads : 1,
                us[which][r]);
        }
    }
    printf("microseconds, medians of %d rounds; OpenBLAS core %s\n", rounds,
           openblas_get_corename());
    printf("%-24s %9s %9s %9s %9s %11s %11s\n", "", "grid", "OpenBLAS", "grid, 1", "OpenBLAS, 1",
           "to OpenBLAS", "to 1 thread");
    for (int i = 0; i < ROWS; i++) {
        double of[SIDES];
        for (int which = 0; which < SIDES; which++) {
            for (int r = 0; r < rounds; r++) v[r] = us[which][r][i];
            of[which] = median(v, rounds);
        }
        const layer *l = &layers[i / 3];
        char name[40];
        snprintf(name, sizeof name, "%s %d, %d, %d", form_name[i % 3], l->m, l->n, l->k);
        printf("%-24s %9.1f %9.1f %9.1f %11.1f %11.2f %11.2f\n", name, of[0], of[1], of[2], of[3],
               of[0] / of[1], of[2] / of[0]);
    }
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "--run") == 0) {
        run_side(strcmp(argv[2], "detent") == 0, atoi(argv[3]));
        return 0;
    }
    char self[4096];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    const int threads = argc > 1 ? atoi(argv[1]) : 2, rounds = argc > 2 ? atoi(argv[2]) : 3;
    if (length < 0 || threads < 1 || rounds < 1 || rounds > MOST_ROUNDS) {
        fprintf(stderr, "usage: bench/grid [THREADS [ROUNDS]]\n");
        return 2;
    }
    self[length] = 0;
    compare(self, threads, rounds);
    return 0;
}
