/* Runs the selected parts with one thread and with all. */
#include "bench/measure.h"
#include "kernels/products/blas_library.h"
#include "kernels/sets.h"

#include <detent/experimental/machine.h>

#include <stdio.h>
#include <string.h>

const char *const dt_bench_parts[] = {
    "limits",   "products", "quantize", "optimizer", "step",   "convolutions", "rounding",
    "language", "experts",  "backward", "waiting",   "device", "growth",       NULL
};

static dt_status (*const parts[])(dt__bench *b) = {
    dt__bench_limits,  dt__bench_products,     dt__bench_quantize, dt__bench_optimizer,
    dt__bench_step,    dt__bench_convolutions, dt__bench_rounding, dt__bench_language,
    dt__bench_experts, dt__bench_backward,     dt__bench_waiting,  dt__bench_device,
    dt__bench_growth
};

dt_bench_options dt_bench_defaults(void) { return (dt_bench_options){ .parts = DT_BENCH_ALL }; }

void dt__bench_name(const dt__bench *b, char name[DT__BENCH_NAME], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(name, DT__BENCH_NAME, format, arguments);
    va_end(arguments);
    if (n >= 0 && n < DT__BENCH_NAME) {
        snprintf(name + n, (size_t)(DT__BENCH_NAME - n), "/t%d", dt_threads(b->ctx));
    }
}

dt_status dt__bench_ctx(const dt__bench *b, int threads, dt_ctx **out)
{
    dt_ctx_options o = dt_ctx_defaults();
    o.allocator = b->user->allocator;
    o.threads = threads;
    o.cpu_mask = b->user->cpu_mask;
    const dt_status s = dt_ctx_create(out, &o);
    if (s != DT_OK) return dt_fail(b->user, s, "out of memory");
    return DT_OK;
}

/* Sizes of buffers, chosen by the sizes of the caches. */
static void choose_memory(dt__bench *b)
{
    const size_t most = (size_t)1 << 30, least = (size_t)64 << 20;
    size_t last = 0;
    for (int i = 0; i < 3; i++) last = b->cache[i] > last ? b->cache[i] : last;
    b->memory = 4 * last < least ? least : 4 * last > most ? most : 4 * last;
    if (b->options.quick) b->memory = (size_t)1 << 20;
}

/* Runs the parts with a number of threads; an error is copied to the user's context. */
static dt_status run_with(dt__bench *b, int threads)
{
    DT__TRY(dt__bench_ctx(b, threads, &b->ctx));
    dt_status s = dt__kernels_open(b->ctx);
    if (s == DT_OK) b->limits = dt__limits_of(dt__kernel_set_of(b->ctx)->needs);
    for (int i = 0; s == DT_OK && i < DT__COUNT_OF(parts); i++) {
        if ((b->options.parts >> i & 1) == 0) continue;
        s = parts[i](b);
        dt_memory_trim(b->ctx);
    }
    if (s != DT_OK && dt_error_status(b->ctx) == s) dt_fail(b->user, s, "%s", dt_error(b->ctx));
    dt_ctx_free(b->ctx);
    b->ctx = NULL;
    return s;
}

dt_status dt_bench(dt_ctx *ctx, const dt_bench_options *options, dt_bench_sink row, void *user)
{
    dt__bench b = { .user = ctx, .row = row, .row_user = user };
    b.options = options == NULL ? dt_bench_defaults() : *options;
    const dt_bench_options *o = &b.options;
    if (row == NULL || o->parts == 0 || (o->parts & ~(unsigned)DT_BENCH_ALL) != 0) {
        return dt_fail(ctx, DT_ERR_ARG,
                       "bench: parts must be bits of DT_BENCH_ALL, and there must be a sink");
    }
    if (o->repeat < 0 || o->repeat > DT__MOST_TURNS) {
        return dt_fail(ctx, DT_ERR_ARG, "bench: repeat is %d, outside 0...%d", o->repeat,
                       DT__MOST_TURNS);
    }
    dt_machine machine;
    DT__TRY(dt_machine_find(ctx, &machine)); /* this loads OpenBLAS */
    memcpy(b.cache, machine.cache, sizeof b.cache);
    choose_memory(&b);
    const int threads = dt_threads(ctx);
    dt_status s = run_with(&b, 1);
    if (s == DT_OK && threads > 1) s = run_with(&b, threads);
    dt__blas.openblas_set_num_threads(1);
    return s;
}
