/* Runs trials in turn. A trial's runs are repeated until a sample is long enough for the clock;
 * then every trial gives one sample per turn. The value is the median of the samples, its spread
 * the quartiles. */
#define _POSIX_C_SOURCE 200809L
#include "bench/measure.h"

#include "core/clock.h"
#include "core/threads.h"

#include <math.h>
#include <string.h>

#define FEWEST_TURNS 5
#define MOST_TURNS_UNASKED 101

/* ---- samples -------------------------------------------------------------------------------- */

static void stay_busy(const void *args, const dt__share *share)
{
    const double end = *(const double *)args;
    (void)share;
    while (dt__seconds() < end) {
    }
}

/* Keeps all threads busy for a while, so that the system distributes them over the cores. Threads
 * that only wake for short regions may all stay on one core. */
static void spread_threads(const dt__bench *b, double seconds)
{
    if (b->options.quick || dt_threads(b->ctx) == 1) return;
    const double end = dt__seconds() + seconds;
    dt__parallel(dt__threads(), DT__WORTH_A_THREAD, stay_busy, &end);
}

static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Waits until no thread of this process computes, at most two seconds: idle threads of OpenBLAS
 * spin for a time that depends on its version and on the machine. */
static void wait_until_quiet(void)
{
    static const struct timespec slice = { 0, 2000000 };
    for (int i = 0; i < 1000; i++) {
        const double start = dt__seconds(), used = processor_seconds();
        nanosleep(&slice, NULL);
        if (processor_seconds() - used < 0.05 * (dt__seconds() - start)) return;
    }
}

/* A subject's error is in its own context; the user gets the error of b->ctx, so it is copied
 * there. */
static dt_status run_once(const dt__bench *b, const dt__trial *t)
{
    const dt_status s = t->run(t->subject);
    return s == DT_OK || t->ctx == NULL ? s : dt_fail(b->ctx, s, "%s", dt_error(t->ctx));
}

static dt_status sample(const dt__bench *b, dt__trial *t, double *seconds)
{
    if (t->run == NULL) {
        *seconds = *t->elapsed;
        return DT_OK;
    }
    if (t->steady) DT__TRY(run_once(b, t));
    const double start = dt__seconds();
    for (int64_t i = 0; i < t->runs; i++) DT__TRY(run_once(b, t));
    *seconds = (dt__seconds() - start) / (double)t->runs;
    if (t->spins && !b->options.quick && dt_threads(b->ctx) > 1) {
        wait_until_quiet();
        spread_threads(b, 0.015);
    }
    return DT_OK;
}

/* Finds the number of runs per sample by doubling, which also warms up. If a comparison contains
 * slow trials, samples are longer, since there are few. */
static dt_status calibrate(const dt__bench *b, dt__trial *t, bool beside_slow)
{
    const double enough = b->options.quick ? 1e-4 : beside_slow ? 0.1 : 2e-3;
    double seconds;
    t->runs = 1;
    if (t->run == NULL || t->slow) return DT_OK;
    for (;;) {
        DT__TRY(sample(b, t, &seconds));
        if (seconds * (double)t->runs >= enough || t->runs >= 1 << 24) return DT_OK;
        t->runs *= 2;
    }
}

static bool is_enough(const dt__bench *b, int turns, double elapsed, bool slow)
{
    if (b->options.repeat > 0) return turns >= b->options.repeat;
    if (slow) return turns >= 1;
    if (b->options.quick) return turns >= 3;
    return turns >= MOST_TURNS_UNASKED || (turns >= FEWEST_TURNS && elapsed > 1);
}

static dt_status take_turns(dt__bench *b, int n, dt__trial *trials)
{
    bool slow = false;
    for (int i = 0; i < n; i++) slow = slow || trials[i].slow;
    spread_threads(b, 0.05);
    for (int i = 0; i < n; i++) DT__TRY(calibrate(b, &trials[i], slow));
    spread_threads(b, 0.05);
    const double start = dt__seconds();
    for (int turn = 0; !is_enough(b, turn, dt__seconds() - start, slow); turn++) {
        for (int i = 0; i < n; i++) {
            DT__TRY(sample(b, &trials[i], &trials[i].seconds[turn]));
            trials[i].turns = turn + 1;
        }
    }
    return DT_OK;
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* The value that a row shows for a time. */
static double value_of(const dt__trial *t, double seconds)
{
    return strcmp(t->unit, "ms") == 0 ? 1e3 * seconds : 1e-9 * t->work / seconds;
}

static dt_status hand_on(dt__bench *b, const dt__trial *trials, const dt__quartiles *spread, int i)
{
    const dt__trial *t = &trials[i];
    const double low = value_of(t, spread[i].low), high = value_of(t, spread[i].high);
    dt_bench_row row = { .name = t->name,
                         .unit = t->unit,
                         .value = value_of(t, spread[i].median),
                         .low = fmin(low, high),
                         .high = fmax(low, high),
                         .repetitions = spread[i].n,
                         .share_of_limit = NAN };
    if (t->limit != DT__NO_TRIAL) {
        const double work = t->limit_work > 0 ? t->limit_work : t->work;
        row.limit = trials[t->limit].name;
        row.share_of_limit =
            work / spread[i].median / (trials[t->limit].work / spread[t->limit].median);
    }
    for (; row.n_ratios < DT_BENCH_RATIOS && t->ratio[row.n_ratios].name != NULL; row.n_ratios++) {
        const int other = t->ratio[row.n_ratios].trial;
        row.ratio_to[row.n_ratios] =
            (dt_bench_ratio){ t->ratio[row.n_ratios].name,
                              row.value / value_of(&trials[other], spread[other].median) };
    }
    return b->row(b->row_user, &row);
}

dt_status dt__measure(dt__bench *b, int n, dt__trial *trials)
{
    double *seconds = dt__alloc_array(b->ctx, n * DT__MOST_TURNS, sizeof *seconds);
    if (seconds == NULL) return DT_ERR_NOMEM;
    for (int i = 0; i < n; i++) trials[i].seconds = seconds + i * DT__MOST_TURNS;
    dt__team *const threads = dt__threads_enter(b->ctx);
    dt_status s = take_turns(b, n, trials);
    dt__threads_leave(threads);
    dt__quartiles spread[DT__MOST_TRIALS];
    for (int i = 0; s == DT_OK && i < n; i++) {
        spread[i] = dt__quartiles_of(trials[i].turns, trials[i].seconds);
        trials[i].median = spread[i].median;
    }
    for (int i = 0; s == DT_OK && i < n; i++) {
        if (!trials[i].silent) s = hand_on(b, trials, spread, i);
    }
    dt__release(b->ctx, seconds);
    return s;
}

/* ---- values --------------------------------------------------------------------------------- */

void *dt__random_bytes(dt__bench *b, size_t bytes)
{
    uint32_t *x = dt__alloc(b->ctx, bytes + 16);
    if (x == NULL) return NULL;
    for (size_t i = 0; i < bytes; i += 16) dt__philox(1, i, x + i / 4);
    return x;
}

float *dt__random_floats(dt__bench *b, int64_t count)
{
    float *x = dt__random_bytes(b, (size_t)count * sizeof *x);
    if (x == NULL) return NULL;
    for (int64_t i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, &x[i], sizeof word);
        x[i] = 2 * dt__unit_f32(word) - 1;
    }
    return x;
}
