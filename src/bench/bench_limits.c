/* The machine's limits: multiply-adds per second, and bytes read and copied per second, in every
 * level of memory. Copies count the bytes that are read and those that are written; the loops store
 * through the caches, as kernels do, so the processor first reads each line that it writes.
 * `streaming` is the C library's memcpy, which bypasses the caches for large blocks. */
#include "bench/measure.h"
#include "core/threads.h"
#include "kernels/sets.h"

#include <string.h>

#define LEAST_BYTES ((size_t)512)

/* ---- loops on all threads ------------------------------------------------------------------- */

typedef struct limit_args {
    const dt__limit_subject *s;
    _Atomic double *sum;
} limit_args;

static void add(_Atomic double *sum, double v)
{
    double old = atomic_load(sum);
    while (!atomic_compare_exchange_weak(sum, &old, old + v)) {
    }
}

/* Runs `body` once per thread, and sums the results. */
static dt_status run_on_all(const dt__limit_subject *s, dt__loop *body)
{
    _Atomic double sum = 0;
    dt__parallel(dt__threads(), DT__WORTH_A_THREAD, body, &(limit_args){ s, &sum });
    s->b->consumed = atomic_load(&sum);
    return DT_OK;
}

#define LIMIT(name, result)                                                                        \
    static void name##_share(const void *args, const dt__share *share)                             \
    {                                                                                              \
        const limit_args *of = args;                                                               \
        const dt__limit_subject *s = of->s;                                                        \
        for (int64_t part = share->first; part < share->past; part++) add(of->sum, result);        \
    }                                                                                              \
    static dt_status run_##name(void *subject) { return run_on_all(subject, name##_share); }

/* Every thread runs all rounds. */
LIMIT(int8, (double)s->limits->int8(s->amount))
LIMIT(f32, s->limits->f32(s->amount))
LIMIT(f64, s->limits->f64(s->amount))

/* Every thread reads or copies its own part, `amount` bytes, repeatedly. */
static double read_part(const dt__limit_subject *s, int64_t part)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < s->passes; i++) {
        sum += s->limits->read((size_t)s->amount, s->x + part * s->amount);
    }
    return (double)sum;
}

static double copy_part(const dt__limit_subject *s, int64_t part)
{
    const int64_t at = part * s->amount;
    for (int64_t i = 0; i < s->passes; i++) {
        s->limits->copy((size_t)s->amount, s->x + at, s->y + at);
    }
    return 0;
}

static double memcpy_part(const dt__limit_subject *s, int64_t part)
{
    const int64_t at = part * s->amount;
    for (int64_t i = 0; i < s->passes; i++) memcpy(s->y + at, s->x + at, (size_t)s->amount);
    return 0;
}

LIMIT(read, read_part(s, part))
LIMIT(copy, copy_part(s, part))
LIMIT(memcpy, memcpy_part(s, part))

/* ---- subjects ------------------------------------------------------------------------------- */

void dt__limit_free(dt__limit_subject *s)
{
    if (s->b == NULL) return;
    dt__release(s->b->ctx, s->x);
    dt__release(s->b->ctx, s->y);
    s->x = s->y = NULL;
}

/* Allocates `bytes` for all threads together, and chooses the number of passes so that the parallel
 * region's cost is negligible. */
static dt_status take_memory(dt__limit_subject *s, size_t bytes, bool two)
{
    const size_t threads = (size_t)dt_threads(s->b->ctx);
    size_t part = bytes / threads / LEAST_BYTES * LEAST_BYTES;
    if (part == 0) part = LEAST_BYTES;
    const size_t work = s->b->options.quick ? part : (size_t)64 << 20;
    s->amount = (int64_t)part;
    s->passes = work > part ? (int64_t)(work / part) : 1;
    s->x = dt__random_bytes(s->b, part * threads);
    s->y = two ? dt__random_bytes(s->b, part * threads) : NULL;
    return s->x == NULL || (two && s->y == NULL) ? DT_ERR_NOMEM : DT_OK;
}

static double bytes_of(const dt__limit_subject *s)
{
    return (double)s->amount * (double)s->passes * dt_threads(s->b->ctx);
}

/* indexed by DT__LIMIT_INT8, _F32, _F64 */
static void compute_trial(dt__limit_subject *s, int which, dt__trial *out)
{
    static dt_status (*const run[])(void *subject) = { run_int8, run_f32, run_f64 };
    static const char *const name[] = { "int8", "f32", "f64" };
    const int64_t rounds[] = { s->limits->int8_round, s->limits->f32_round, s->limits->f64_round };
    const double round = (double)rounds[which];
    const bool floats = which != DT__LIMIT_INT8;
    s->amount = (int64_t)((s->b->options.quick ? 1e5 : 1e8) / round) + 1;
    *out =
        (dt__trial){ .unit = floats ? "GFLOP/s" : "GMAC/s",
                     .work = (floats ? 2 : 1) * round * (double)s->amount * dt_threads(s->b->ctx),
                     .run = run[which],
                     .subject = s,
                     .limit = DT__NO_TRIAL };
    dt__bench_name(s->b, out->name, "limits/%s-%s", name[which], s->limits->name);
}

static void memory_trial(dt__limit_subject *s, bool two, dt__trial *out)
{
    *out = (dt__trial){ .unit = "GB/s",
                        .work = (two ? 2 : 1) * bytes_of(s),
                        .run = two ? run_copy : run_read,
                        .subject = s,
                        .limit = DT__NO_TRIAL };
}

dt_status dt__limit_trial(dt__bench *b, int which, dt__limit_subject *s, dt__trial *out)
{
    const bool copies = which == DT__LIMIT_COPY;
    *s = (dt__limit_subject){ .b = b, .limits = b->limits };
    if (which < DT__LIMIT_READ) {
        compute_trial(s, which, out);
    } else {
        DT__TRY(take_memory(s, b->memory, copies));
        memory_trial(s, copies, out);
        dt__bench_name(b, out->name, "limits/memory-%s", copies ? "copy" : "read");
    }
    out->silent = true;
    return DT_OK;
}

/* ---- the part ------------------------------------------------------------------------------- */

static dt_status measure_compute(dt__bench *b)
{
    dt__limit_subject subjects[DT__MOST_TRIALS];
    dt__trial trials[DT__MOST_TRIALS];
    int n = 0;
    const dt__limits *l;
    for (int i = 0; (l = dt__limits_at(i)) != NULL && n + 3 <= DT__MOST_TRIALS; i++) {
        if ((l->needs & ~dt__cpu_offers()) != 0) continue;
        for (int which = 0; which < DT__LIMIT_READ; which++, n++) {
            subjects[n] = (dt__limit_subject){ .b = b, .limits = l };
            compute_trial(&subjects[n], which, &trials[n]);
        }
    }
    return dt__measure(b, n, trials);
}

/* Each thread uses half of a cache's size, for copies a quarter per side; for main memory `memory`
 * bytes. */
static dt_status measure_level(dt__bench *b, const char *level, size_t read, size_t copy)
{
    dt__limit_subject subjects[2] = { { .b = b, .limits = b->limits },
                                      { .b = b, .limits = b->limits } };
    dt__trial trials[3];
    int n = 2;
    dt_status s = take_memory(&subjects[0], read, false);
    if (s == DT_OK) s = take_memory(&subjects[1], copy, true);
    if (s == DT_OK) {
        memory_trial(&subjects[0], false, &trials[0]);
        memory_trial(&subjects[1], true, &trials[1]);
        dt__bench_name(b, trials[0].name, "limits/%s-read", level);
        dt__bench_name(b, trials[1].name, "limits/%s-copy", level);
        if (read == b->memory) {
            trials[2] = trials[1];
            trials[2].run = run_memcpy;
            dt__bench_name(b, trials[2].name, "limits/%s-copy-streaming", level);
            n = 3;
        }
        s = dt__measure(b, n, trials);
    }
    dt__limit_free(&subjects[0]);
    dt__limit_free(&subjects[1]);
    return s;
}

dt_status dt__bench_limits(dt__bench *b)
{
    static const char *const levels[] = { "l1", "l2", "last-cache" };
    const size_t threads = (size_t)dt_threads(b->ctx);
    DT__TRY(measure_compute(b));
    for (int i = 0; i < 3; i++) {
        const bool own = i < 2; /* each core has its own cache of this level */
        if (b->cache[i] == 0 || (b->options.quick && i > 0)) continue;
        const size_t bytes = own ? b->cache[i] * threads : b->cache[i];
        DT__TRY(measure_level(b, levels[i], bytes / 2, bytes / 4));
    }
    return measure_level(b, "memory", b->memory, b->memory);
}
