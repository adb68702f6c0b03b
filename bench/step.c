/* One training step of a small network, in float and with quantization, and what OpenBLAS alone takes
 * for the same fp32 products. Repetitions are interleaved, so that a machine that changes its speed
 * changes it for all; medians and the quartiles around them are printed.
 *
 *     bench/step [repetitions]        OPENBLAS_CORETYPE should be unset
 */
#include <detent/ops.h>
#include <detent/optim.h>
#include <detent/qat.h>

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LAYERS = 3, MOST = 1000 };

static const int64_t sizes[LAYERS + 1] = { 784, 256, 128, 10 };

/* A model with all that a step needs. */
typedef struct subject {
    dt_ctx *ctx;
    dt_tape *t;
    dt_module *m;
    dt_optimizer *o;
    dt_tensor *x, *labels;
    double ms[MOST];
    size_t held; /* bytes that forward leaves for backward */
} subject;

static double now(void)
{
    struct timespec s;
    clock_gettime(CLOCK_MONOTONIC, &s);
    return 1e3 * (double)s.tv_sec + 1e-6 * (double)s.tv_nsec;
}

static void need(dt_status s, const dt_ctx *ctx)
{
    if (s == DT_OK) return;
    fprintf(stderr, "bench/step: %s\n", dt_error(ctx));
    exit(1);
}

static void make(subject *s, int64_t batch, bool qat)
{
    const dt_mlp_options mlp = { .sizes = { 4, { sizes[0], sizes[1], sizes[2], sizes[3] } },
                                 .bias = true };
    need(dt_ctx_create(&s->ctx, NULL), s->ctx);
    need(dt_tape_create(s->ctx, &s->t), s->ctx);
    need(dt_mlp_create(s->ctx, &mlp, &s->m), s->ctx);
    need(dt_optimizer_create(s->m, NULL, &s->o), s->ctx);
    if (qat) need(dt_prepare(s->m, NULL), s->ctx);
    need(dt_tensor_create(s->ctx, DT_F32, 2, (int64_t[]){ batch, sizes[0] }, &s->x), s->ctx);
    need(dt_fill_uniform(s->x, 0, 1), s->ctx);
    need(dt_tensor_create(s->ctx, DT_I32, 1, &batch, &s->labels), s->ctx);
    int32_t *label = dt_data_mut(s->labels);
    for (int64_t i = 0; i < batch; i++) label[i] = (int32_t)(i * 7 % 10);
    dt_train(s->m, true);
}

static void free_subject(subject *s)
{
    dt_tensor_free(s->x);
    dt_tensor_free(s->labels);
    dt_optimizer_free(s->o);
    dt_module_free(s->m);
    dt_tape_free(s->t);
    dt_ctx_free(s->ctx);
}

static double step(subject *s)
{
    const double start = now();
    dt_tape_reset(s->t);
    dt_zero_grad(s->m);
    const size_t before = dt_memory_of(s->ctx).used;
    dt_tensor *loss = dt_cross_entropy(s->t, dt_forward(s->t, s->m, s->x), s->labels, NULL);
    s->held = dt_memory_of(s->ctx).used - before;
    need(dt_backward(s->t, loss, NULL), s->ctx);
    need(dt_optimizer_step(s->o, s->t, 1e-3), s->ctx);
    return now() - start;
}

/* y = x W^T, dx = dy W (not for the first layer), dW = dy^T x, for each layer. */
static double products(int64_t batch, float *a, float *b, float *c)
{
    const double start = now();
    for (int l = 0; l < LAYERS; l++) {
        const int m = (int)batch, k = (int)sizes[l], n = (int)sizes[l + 1];
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1, a, k, b, k, 0, c, n);
        if (l > 0) {
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, k, n, 1, a, n, b, k, 0, c, k);
        }
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, n, k, m, 1, a, n, b, k, 0, c, k);
    }
    return now() - start;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(double *v, int n, double p)
{
    qsort(v, (size_t)n, sizeof v[0], by_value);
    return v[(int)(p * (n - 1) + 0.5)];
}

static double row(const char *name, double *ms, int n, double of, const char *note)
{
    const double median = quantile(ms, n, 0.5);
    printf("%-28s %8.3f ms  (%.3f to %.3f)  %5.2f x  %s\n", name, median, quantile(ms, n, 0.25),
           quantile(ms, n, 0.75), of > 0 ? median / of : 1.0, note);
    return median;
}

static void compare(int64_t batch, int repetitions)
{
    static subject plain, qat; /* zeroed; a benchmark may have statics */
    static double blas[MOST];
    float *a = calloc((size_t)(512 * 784), sizeof *a), *b = calloc(784 * 256, sizeof *b);
    float *c = calloc((size_t)(512 * 784), sizeof *c);
    if (a == NULL || b == NULL || c == NULL) exit(1);
    for (int i = 0; i < 512 * 784; i++) a[i] = (float)(i % 17) - 8;
    for (int i = 0; i < 784 * 256; i++) b[i] = (float)(i % 13) - 6;
    make(&plain, batch, false);
    make(&qat, batch, true);
    const int threads = dt_threads(plain.ctx);
    for (int i = -5; i < repetitions; i++) {
        const double f = step(&plain), q = step(&qat);
        openblas_set_num_threads(threads); /* free to use them all; then as the library wants it */
        const double p = products(batch, a, b, c);
        openblas_set_num_threads(1);
        if (i < 0) continue; /* warm-up */
        plain.ms[i] = f;
        qat.ms[i] = q;
        blas[i] = p;
    }
    char note[80];
    printf("784-256-128-10, batch %lld, %d threads, AdamW\n", (long long)batch, threads);
    snprintf(note, sizeof note, "%zu KiB held for backward", plain.held / 1024);
    const double f = row("  float step", plain.ms, repetitions, 0, note);
    snprintf(note, sizeof note, "%zu KiB held for backward", qat.held / 1024);
    row("  qat step (plain C kernels)", qat.ms, repetitions, f, note);
    row("  OpenBLAS, same products", blas, repetitions, f, "fp32, its own threads");
    free_subject(&plain);
    free_subject(&qat);
    free(a);
    free(b);
    free(c);
}

int main(int argc, char **argv)
{
    const int repetitions = argc > 1 ? atoi(argv[1]) : 200;
    if (repetitions < 1 || repetitions > MOST) {
        fprintf(stderr, "bench/step: repetitions are 1...%d\n", MOST);
        return 2;
    }
    printf("detent %s, OpenBLAS core %s\n", dt_version(), openblas_get_corename());
    compare(64, repetitions);
    compare(512, repetitions);
    return 0;
}
