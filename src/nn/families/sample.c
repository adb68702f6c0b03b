/* Sampling the next token from logits.
 *     temperature 0    the largest logit
 *     else             p_i = e^((x_i - max) / temperature) / sum, over the top_k most likely tokens
 *                      (0: all), reduced to the fewest of them whose p sum to at least top_p;
 *                      the result is the first i at which the running sum of p exceeds u
 * Equal logits are ranked by id, the lower first. u is number k of the seed's random stream, and
 * sums are in double in a fixed order, so a draw depends on (seed, k, logits) only. [top-p:
 * Holtzman et al., "The curious case of neural text degeneration"] */
#include "kernels/exp.h"
#include "nn/module.h"

#include <math.h>

/* Ids in order of likelihood, by a lazy heap sort: id[0 ... left-1] is a heap whose root is the
 * most likely of its ids; behind it are the ids already ranked, the most likely one last. */
typedef struct ranking {
    const float *x;
    int64_t n, left;
    int32_t *id; /* NULL: not ranked, since all tokens are kept */
    double max, temperature;
} ranking;

static bool precedes(const ranking *r, int32_t a, int32_t b)
{
    return r->x[a] > r->x[b] || (r->x[a] == r->x[b] && a < b);
}

static void sift(ranking *r, int64_t i)
{
    const int32_t id = r->id[i];
    for (int64_t child; (child = 2 * i + 1) < r->left; i = child) {
        if (child + 1 < r->left && precedes(r, r->id[child + 1], r->id[child])) child++;
        if (!precedes(r, r->id[child], id)) break;
        r->id[i] = r->id[child];
    }
    r->id[i] = id;
}

static void build_heap(ranking *r)
{
    for (int64_t i = 0; i < r->n; i++) r->id[i] = (int32_t)i;
    for (int64_t i = r->n / 2; i-- > 0;) sift(r, i);
}

/* The i-th most likely id; i where ids are not ranked. */
static int32_t ranked(ranking *r, int64_t i)
{
    if (r->id == NULL) return (int32_t)i;
    while (r->n - r->left <= i) {
        const int32_t best = r->id[0];
        r->id[0] = r->id[--r->left];
        if (r->left > 0) sift(r, 0);
        r->id[r->left] = best;
    }
    return r->id[r->n - 1 - i];
}

static double weight_of(const ranking *r, int32_t id)
{
    const double v = ((double)r->x[id] - r->max) / r->temperature;
    return v < -700 ? 0 : dt__exp_series(v);
}

/* The sum of probabilities over the `most` most likely ids; if these are all ids, in the order of
 * ids. */
static double sum_of(ranking *r, int64_t most)
{
    double sum = 0;
    for (int64_t i = 0; i < most; i++) {
        sum += weight_of(r, most == r->n ? (int32_t)i : ranked(r, i));
    }
    return sum;
}

/* How many of `most` candidates top_p keeps. */
static int64_t apply_top_p(ranking *r, int64_t most, double top_p)
{
    if (top_p == 1) return most;
    const double goal = top_p * sum_of(r, most);
    double sum = 0;
    int64_t n = 0;
    while (n < most && sum < goal) sum += weight_of(r, ranked(r, n++));
    return n;
}

/* Inverse transform sampling: of the first n ids, the one at which the running sum exceeds u times
 * the total. */
static int32_t pick(ranking *r, int64_t n, double u)
{
    double whole = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) whole += weight_of(r, ranked(r, i));
    int32_t last = ranked(r, 0); /* its p is above 0: rounding may leave u beyond the sum */
    for (int64_t i = 0; i < n && !(sum > u * whole); i++) {
        const double weight = weight_of(r, ranked(r, i));
        if (weight > 0) last = ranked(r, i);
        sum += weight;
    }
    return last;
}

static dt_status check(dt_ctx *ctx, const dt_sampling *o, int64_t k, const dt_tensor *logits)
{
    if (!(o->temperature >= 0) || isinf(o->temperature) || o->top_k < 0 || !(o->top_p > 0) ||
        o->top_p > 1 || k < 0) {
        return dt_fail(
            ctx, DT_ERR_ARG,
            "sample: temperature %g, top_k %lld, top_p %g, draw %lld; temperature, top_k "
            "and draw are at least 0, top_p lies above 0 and is at most 1",
            o->temperature, (long long)o->top_k, o->top_p, (long long)k);
    }
    if (logits->dtype == DT_F32 && logits->rank == 1 && logits->count > 0 &&
        logits->count <= INT32_MAX) {
        return DT_OK;
    }
    char has[160];
    dt_describe(logits, has, sizeof has);
    return dt_fail(ctx, DT_ERR_SHAPE, "sample: logits are f32 [vocab], not %s", has);
}

/* *id = the token with the largest logit, the first of equal ones. */
static dt_status best_of(dt_ctx *ctx, int64_t n, const float *x, int32_t *id)
{
    *id = 0;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(x[i]) || x[i] == INFINITY) {
            return dt_fail(ctx, DT_ERR_NUMERIC, "sample: the logit of token %lld is %s",
                           (long long)i, isnan(x[i]) ? "NaN" : "infinite");
        }
        if (x[i] > x[*id]) *id = (int32_t)i;
    }
    if (x[*id] != -INFINITY) return DT_OK;
    return dt_fail(ctx, DT_ERR_NUMERIC, "sample: every logit is -infinity");
}

static double draw(uint64_t seed, int64_t k)
{
    uint32_t word[4];
    dt__philox(dt__stream_of(seed, DT__FOR_SAMPLING).key, (uint64_t)k, word);
    return dt__unit_f64(word[0], word[1]);
}

dt_sampling dt_sampling_defaults(void) { return (dt_sampling){ .temperature = 1, .top_p = 1 }; }

dt_status dt_sample(dt_ctx *ctx, const dt_sampling *options, int64_t k, const dt_tensor *logits,
                    int32_t *id)
{
    DT__NEED2(ctx, ctx, logits);
    const dt_sampling o = options != NULL ? *options : dt_sampling_defaults();
    DT__TRY(check(ctx, &o, k, logits));
    const int64_t n = logits->count;
    const float *x = dt_data(logits);
    if (x == NULL) return dt_error_status(logits->ctx);
    DT__TRY(best_of(ctx, n, x, id));
    if (o.temperature == 0) return DT_OK;
    ranking r = { x, n, n, NULL, (double)x[*id], o.temperature };
    const int64_t most = o.top_k > 0 ? dt__min_i64(o.top_k, n) : n;
    if (most < n || o.top_p < 1) {
        r.id = dt__alloc_array(ctx, n, sizeof(int32_t));
        if (r.id == NULL) return DT_ERR_NOMEM;
        build_heap(&r);
    }
    *id = pick(&r, apply_top_p(&r, most, o.top_p), draw(o.seed, k));
    dt__release(ctx, r.id);
    return DT_OK;
}
