/* Measures where time goes by a stack of parts: the time between two events belongs to the part on
 * top. */
#include "bench/account.h"

#include "autograd/tape.h"
#include "core/clock.h"
#include "kernels/kernels.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define MOST_PARTS 128
#define MOST_STEPS 2048
#define DEEPEST 16

typedef struct part {
    const char *phase, *name;
} part;

struct dt__account {
    dt_ctx *ctx;
    dt_tape *tape;
    const dt__kernels *real; /* the context's own kernels */
    pthread_t owner;
    const char *phase; /* NULL: between steps */
    int n_parts, depth;
    part parts[MOST_PARTS];
    int open[DEEPEST]; /* stack of parts, the innermost last */
    double since;      /* when the innermost part was opened or became the top again */
    int64_t steps;
    double (*seconds)[MOST_PARTS]; /* of the latest MOST_STEPS steps */
};

/* ---- parts ---------------------------------------------------------------------------------- */

static int part_of(dt__account *a, const char *name)
{
    for (int i = 0; i < a->n_parts; i++) {
        if (strcmp(a->parts[i].name, name) == 0 && a->parts[i].phase == a->phase) return i;
    }
    if (a->n_parts == MOST_PARTS) return MOST_PARTS - 1;
    a->parts[a->n_parts] = (part){ a->phase, name };
    return a->n_parts++;
}

static double *now_of(dt__account *a) { return a->seconds[a->steps % MOST_STEPS]; }

/* Adds the time since the last event to the part on top. */
static void charge(dt__account *a)
{
    const double now = dt__seconds();
    if (a->depth > 0) now_of(a)[a->open[a->depth - 1]] += now - a->since;
    a->since = now;
}

static bool counts(const dt__account *a)
{
    return a != NULL && a->phase != NULL && pthread_equal(pthread_self(), a->owner) != 0;
}

static void begin(dt__account *a, const char *name)
{
    if (!counts(a) || a->depth == DEEPEST) return;
    charge(a);
    a->open[a->depth++] = part_of(a, name);
}

static void end(dt__account *a)
{
    if (!counts(a)) return;
    charge(a);
    a->depth--;
}

void dt__account_phase(dt__account *a, const char *phase)
{
    if (a == NULL) return;
    charge(a);
    if (a->phase == NULL) memset(now_of(a), 0, sizeof a->seconds[0]);
    a->depth = 0;
    a->phase = phase;
    if (phase == NULL) {
        a->steps++;
        return;
    }
    a->open[a->depth++] = part_of(a, "dispatch");
}

static void on_compute(void *user, const dt_op *op, bool begins)
{
    if (begins) begin(user, op->name);
    else end(user);
}

/* ---- kernels -------------------------------------------------------------------------------- */

/* The running account: kernels have no argument that could carry it. */
static dt__account *current;

#define TIMED(name, text, type)                                                                    \
    static void timed_##name(const type *g)                                                        \
    {                                                                                              \
        begin(current, text);                                                                      \
        current->real->name(g);                                                                    \
        end(current);                                                                              \
    }

TIMED(qd8_qb4_gemm, "product-int", dt__qgemm)
TIMED(qd8_qb8_gemm, "product-int", dt__qgemm)
TIMED(f32_qb4_gemm, "product-f32-codes", dt__fgemm)
TIMED(f32_qb8_gemm, "product-f32-codes", dt__fgemm)
TIMED(gather_codes, "gather-codes", dt__gathering)
TIMED(qd8_depthwise, "product-int-depthwise", dt__qdepthwise)
TIMED(expand, "expand", dt__panel_tile)
TIMED(q7_gemm, "product-int-gradient", dt__q7_product)
TIMED(q7_rows, "quantize-gradients", dt__q7_rows)
TIMED(q7_columns, "quantize-gradients", dt__q7_columns)
TIMED(q7_words, "interleave-codes", dt__q7_words)
TIMED(q7_lines, "quantize-gradients", dt__q7_lines)
TIMED(q7_taps, "product-int-gradient", dt__q7_taps)

static void timed_gemm(const dt__gemm *g)
{
    begin(current, g->trans_a   ? "product-f32-weight"
                   : g->trans_b ? "product-f32"
                                : "product-f32-input");
    current->real->gemm(g);
    end(current);
}

static void timed_gemms(const dt__gemms *s)
{
    begin(current, "product-f32-several");
    current->real->gemms(s);
    end(current);
}

static void timed_conv(const dt__conv *c, const void *x, const void *w, const void *bias, void *y)
{
    begin(current, "convolution-f32");
    current->real->conv(c, x, w, bias, y);
    end(current);
}

static void timed_conv_backward_x(const dt__conv *c, const void *dy, const void *w,
                                  const void *bias, void *dx)
{
    begin(current, "convolution-f32-input");
    current->real->conv_backward_x(c, dy, w, bias, dx);
    end(current);
}

static void timed_conv_backward_w(const dt__conv *c, const void *x, const void *dy, void *dw)
{
    begin(current, "convolution-f32-weight");
    current->real->conv_backward_w(c, x, dy, dw);
    end(current);
}

static int64_t timed_range(int64_t n, int64_t group, const float *x, float *lo, float *hi)
{
    begin(current, "quantize-activations");
    const int64_t bad = current->real->range(n, group, x, lo, hi);
    end(current);
    return bad;
}

static int64_t timed_encode(const dt__code_row *r, const float *x, int8_t *codes, uint8_t *mask)
{
    begin(current, "quantize-activations");
    const int64_t clipped = current->real->encode(r, x, codes, mask);
    end(current);
    return clipped;
}

static int64_t timed_quantize_panel(const dt__panel_source *s, int64_t panel)
{
    begin(current, "quantize-weights");
    const int64_t clipped = current->real->quantize_panel(s, panel);
    end(current);
    return clipped;
}

static dt__kernels timed_of(const dt__kernels *real)
{
    dt__kernels k = *real;
    k.qd8_qb4_gemm = timed_qd8_qb4_gemm;
    k.qd8_qb8_gemm = timed_qd8_qb8_gemm;
    k.f32_qb4_gemm = timed_f32_qb4_gemm;
    k.f32_qb8_gemm = timed_f32_qb8_gemm;
    k.gather_codes = timed_gather_codes;
    k.qd8_depthwise = timed_qd8_depthwise;
    k.expand = timed_expand;
    k.q7_gemm = timed_q7_gemm;
    k.q7_rows = timed_q7_rows;
    k.q7_columns = timed_q7_columns;
    k.q7_words = timed_q7_words;
    k.q7_lines = timed_q7_lines;
    k.q7_taps = timed_q7_taps;
    k.gemm = timed_gemm;
    k.gemms = timed_gemms;
    k.conv = timed_conv;
    k.conv_backward_x = timed_conv_backward_x;
    k.conv_backward_w = timed_conv_backward_w;
    k.range = timed_range;
    k.encode = timed_encode;
    k.quantize_panel = timed_quantize_panel;
    return k;
}

/* ---- an account ----------------------------------------------------------------------------- */

static dt__kernels timed;

dt_status dt__account_create(dt__bench *b, dt_ctx *ctx, dt_tape *t, dt__account **out)
{
    dt__account *a = *out = dt__alloc_zero(b->ctx, sizeof *a);
    if (a == NULL) return DT_ERR_NOMEM;
    a->seconds = dt__alloc_array(b->ctx, MOST_STEPS, sizeof a->seconds[0]);
    if (a->seconds == NULL) return DT_ERR_NOMEM;
    a->ctx = ctx;
    a->tape = t;
    a->owner = pthread_self();
    a->real = ctx->kernels[DT_F32];
    timed = timed_of(a->real);
    current = a;
    ctx->kernels[DT_F32] = &timed;
    t->on_compute = on_compute;
    t->on_compute_user = a;
    return DT_OK;
}

void dt__account_free(dt__bench *b, dt__account *a)
{
    if (a == NULL) return;
    if (a->real != NULL) {
        a->ctx->kernels[DT_F32] = a->real;
        a->tape->on_compute = NULL;
        current = NULL;
    }
    dt__release(b->ctx, a->seconds);
    dt__release(b->ctx, a);
}

/* ---- rows ----------------------------------------------------------------------------------- */

static double total_of(const dt__account *a, int64_t step)
{
    double sum = 0;
    for (int i = 0; i < a->n_parts; i++) sum += a->seconds[step][i];
    return sum;
}

/* The mean time of each part over the steps whose total lies between the quartiles. */
static dt_status middle_of(dt__bench *b, const dt__account *a, double mean[MOST_PARTS])
{
    const int n = (int)dt__min_i64(a->steps, MOST_STEPS);
    double *total = dt__alloc_array(b->ctx, n > 0 ? n : 1, sizeof *total);
    if (total == NULL) return DT_ERR_NOMEM;
    for (int i = 0; i < n; i++) total[i] = total_of(a, i);
    const dt__quartiles s = dt__quartiles_of(n, total);
    dt__release(b->ctx, total);
    int used = 0;
    memset(mean, 0, MOST_PARTS * sizeof mean[0]);
    for (int i = 0; i < n; i++) {
        const double t = total_of(a, i);
        if (t < s.low || t > s.high) continue;
        used++;
        for (int k = 0; k < a->n_parts; k++) mean[k] += a->seconds[i][k];
    }
    for (int k = 0; k < a->n_parts; k++) mean[k] /= used;
    return DT_OK;
}

/* The part with the largest time below that of `last`, in an order without ties; -1: none. */
static int next_of(int n, const double *mean, int last)
{
    int best = -1;
    for (int i = 0; i < n; i++) {
        if (last >= 0 && (mean[i] > mean[last] || (mean[i] == mean[last] && i <= last))) continue;
        if (best < 0 || mean[i] > mean[best]) best = i;
    }
    return best;
}

static dt_status hand_on(dt__bench *b, const char *name, double seconds, double step, double sum)
{
    char text[DT__BENCH_NAME];
    dt__bench_name(b, text, "%s", name);
    const dt_bench_row row = { .name = text,
                               .unit = "ms",
                               .value = 1e3 * seconds,
                               .low = 1e3 * seconds,
                               .high = 1e3 * seconds,
                               .repetitions = 1,
                               .share_of_limit = NAN,
                               .ratio_to = { { "step", seconds / step }, { "sum", seconds / sum } },
                               .n_ratios = 2 };
    return b->row(b->row_user, &row);
}

/* seconds: those of a step without an account. */
static dt_status report(dt__bench *b, dt__account *a, const char *prefix, double seconds)
{
    double mean[MOST_PARTS], sum = 0;
    char name[DT__BENCH_NAME];
    DT__TRY(middle_of(b, a, mean));
    for (int i = 0; i < a->n_parts; i++) sum += mean[i];
    for (int i = next_of(a->n_parts, mean, -1); i >= 0; i = next_of(a->n_parts, mean, i)) {
        if (mean[i] <= 0) continue;
        snprintf(name, sizeof name, "%s/%s/%s", prefix, a->parts[i].phase, a->parts[i].name);
        DT__TRY(hand_on(b, name, mean[i], seconds, sum));
    }
    snprintf(name, sizeof name, "%s/sum", prefix);
    return hand_on(b, name, sum, seconds, sum);
}

dt_status dt__account_measure(dt__bench *b, dt__account *a, const char *prefix,
                              const dt__trial step[2])
{
    dt__trial t[2] = { step[0], step[1] };
    for (int i = 0; i < 2; i++) {
        t[i].silent = true;
        t[i].unit = "ms";
        t[i].limit = DT__NO_TRIAL;
    }
    DT__TRY(dt__measure(b, 2, t));
    return report(b, a, prefix, t[0].median);
}
