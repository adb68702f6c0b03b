/* cluster [BATCH [THREADS]]: what a step of the network 1024-4096-4096-1024 would take on 2 to 64
 * machines, by a model of which the compute is measured here and the network is stated:
 *     T = forward + backward + optimizer + max(X / buckets, X - backward)
 *     X = buckets 2 (P - 1) a + 2 (P - 1)/P bytes / b
 * with a = 30 us a message, b = the bandwidth of each machine, buckets of 4 MiB. Buckets leave
 * while backward runs, and the last cannot be hidden. Strong: BATCH examples in all; weak: BATCH on
 * each machine. Efficiency is the share of P times one machine's examples a second. */
#include <detent/nn.h>
#include <detent/ops.h>
#include <detent/optim.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

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

static double predict(const seconds *s, int machines, double bytes, double gbit)
{
    const double buckets = bytes / (4 << 20) + 1, share = (double)(machines - 1) / machines;
    const double x = buckets * 2 * (machines - 1) * 30e-6 + 2 * share * bytes / (gbit * 1e9 / 8);
    const double left = x - s->backward, last = x / buckets;
    return whole(s) + (left > last ? left : last);
}

static dt_status print(trial *b, int64_t batch)
{
    static const double gbits[] = { 10, 25, 100 };
    const double bytes = 4.0 * (WIDTH * 4096.0 + 4096.0 * 4096 + 4096.0 * WIDTH + 9216);
    seconds one, part;
    dt_status status = measure(b, batch, &one);
    if (status != DT_OK) return status;
    printf("1 machine, batch %lld: forward %.1f ms, backward %.1f ms, optimizer %.1f ms; "
           "%.1f MB of gradients\n",
           (long long)batch, 1e3 * one.forward, 1e3 * one.backward, 1e3 * one.optimizer,
           bytes / 1e6);
    printf("%8s %8s %21s %21s\n", "Gbit/s", "machines", "weak ms  efficiency",
           "strong ms  efficiency");
    for (int machines = 2; machines <= MOST && machines <= batch; machines *= 2) {
        status = measure(b, batch / machines, &part);
        for (int i = 0; i < 3 && status == DT_OK; i++) {
            const double weak = predict(&one, machines, bytes, gbits[i]);
            const double strong = predict(&part, machines, bytes, gbits[i]);
            printf("%8g %8d %12.1f %7.0f %% %12.1f %7.0f %%\n", gbits[i], machines, 1e3 * weak,
                   100 * whole(&one) / weak, 1e3 * strong, 100 * whole(&one) / strong / machines);
        }
    }
    return status;
}

int main(int n_words, char **words)
{
    const int64_t batch = n_words > 1 ? atoll(words[1]) : 256;
    trial b = { 0 };
    dt_ctx_options options = dt_ctx_defaults();
    options.threads = n_words > 2 ? atoi(words[2]) : 0;
    if (batch < 1 || dt_ctx_create(&b.ctx, &options) != DT_OK) return 2;
    dt_status status = dt_mlp_create(b.ctx, &network, &b.m);
    if (status == DT_OK) status = dt_optimizer_create(b.m, NULL, &b.optimizer);
    if (status == DT_OK) status = dt_tape_create(b.ctx, &b.t);
    if (status == DT_OK) {
        dt_train(b.m, true);
        status = print(&b, batch);
    }
    if (status != DT_OK) fprintf(stderr, "%s\n", dt_error(b.ctx));
    dt_tape_free(b.t);
    dt_optimizer_free(b.optimizer);
    dt_module_free(b.m);
    dt_ctx_free(b.ctx);
    return status != DT_OK;
}
