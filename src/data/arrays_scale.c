/* Standardizing arrays: means and deviations of channels.
 *     M2      = sum of (v - mean)^2          deviation = sqrt(M2 / n)
 * Examples are divided into blocks whose size depends on shapes only. Each block is summed in two
 * passes, and blocks are joined in their order [Chan, Golub, LeVeque, "Updating formulae and a
 * pairwise algorithm for computing sample variances", 1979, equation 2.1]:
 *     delta = mean_b - mean
 *     mean  = mean + delta n_b / (n + n_b)
 *     M2    = M2 + M2_b + delta^2 n n_b / (n + n_b) */
#include "data/arrays.h"

#include "core/text/json.h"
#include "kernels/kernels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define BLOCK 16384 /* numbers per block, approximately */
/* largest number of blocks that are summed before they are joined, */
#define MOST_AT_ONCE 64
#define ROOM ((int64_t)1 << 22) /* and of numbers in these blocks */

static dt_status check_kind(const dt_dataset *d)
{
    if (d->kind == &dt__data_arrays) return DT_OK;
    return dt_fail(d->ctx, DT_ERR_ARG, "dataset: it has %s, not arrays", d->kind->examples);
}

static dt_status check_numbers(const dt_dataset *d, const char *what, int64_t n, const double *list)
{
    const bool above_0 = strcmp(what, "deviation") == 0;
    for (int64_t i = 0; i < n; i++) {
        const float value = (float)list[i];
        if (isfinite(value) && (!above_0 || value > 0)) continue;
        return dt_fail(d->ctx, DT_ERR_ARG, "%s of channel %lld: %g: expected a finite number%s",
                       what, (long long)i, list[i], above_0 ? " above 0" : "");
    }
    return DT_OK;
}

dt_status dt_dataset_standardize(dt_dataset *d, int64_t n, const double *mean,
                                 const double *deviation)
{
    DT__NEED(NULL, d);
    DT__TRY(check_kind(d));
    const int64_t channels = dt_dataset_array_channels(d);
    if (n != 1 && n != channels) {
        return dt_fail(d->ctx, DT_ERR_ARG,
                       "mean and deviation: %lld number%s for arrays of %lld channel%s: expected "
                       "one for all or one for each",
                       (long long)n, DT__S(n), (long long)channels, channels == 1 ? "" : "s");
    }
    DT__TRY(check_numbers(d, "mean", n, mean));
    DT__TRY(check_numbers(d, "deviation", n, deviation));
    dt__storage *both = dt__storage_create(d->ctx, 2 * (size_t)channels * sizeof(double));
    if (both == NULL) return DT_ERR_NOMEM;
    double *to = both->data;
    for (int64_t i = 0; i < channels; i++) {
        to[i] = mean[n == 1 ? 0 : i];
        to[channels + i] = deviation[n == 1 ? 0 : i];
    }
    dt__storage_release(d->scaling);
    d->scaling = both;
    return DT_OK;
}

bool dt_dataset_standard(const dt_dataset *d, const double **mean, const double **deviation)
{
    if (d == NULL) return false;
    if (d->scaling == NULL) return false;
    *mean = d->scaling->data;
    *deviation = *mean + dt_dataset_array_channels(d);
    return true;
}

typedef struct measuring {
    const dt_dataset *d;
    const dt__kernels *kernels;
    dt__array_channels shape;
    int64_t each;    /* examples per block */
    int64_t at_once; /* blocks per round */
    float *values;   /* [at_once][each examples] */
    double *sums;    /* [at_once][2][channels]: mean and M2 of a block */
} measuring;

/* sums of fewer channels are repeated to this length, so that loops over short rows are long */
#define TILE 256

/* Adds n rows of few channels: sums of several rows side by side, then adds these. */
static void add_short_rows(const dt__kernels *k, int64_t n, int64_t channels, const float *v,
                           const double *from, double *out)
{
    const int64_t together = TILE / channels, period = together * channels, whole = n / together;
    double sums[TILE] = { 0 }, shifts[TILE] = { 0 };
    for (int64_t i = 0; from != NULL && i < period; i++) shifts[i] = from[i % channels];
    const double *shift = from == NULL ? NULL : shifts;
    k->add_up(whole, period, v, shift, sums);
    k->add_up(1, (n - whole * together) * channels, v + whole * period, shift, sums);
    const int64_t used = dt__min_i64(period, n * channels);
    for (int64_t i = 0; i < used; i++) out[i % channels] += sums[i];
}

/* Adds each number (from NULL), or its squared distance from from[c], to out[c]. */
static void add_up(const dt__kernels *k, const dt__array_channels *s, const float *v,
                   const double *from, double *out)
{
    if (s->inner == 1 && s->channels <= TILE) {
        add_short_rows(k, s->outer, s->channels, v, from, out);
        return;
    }
    if (s->inner == 1) k->add_up(s->outer, s->channels, v, from, out);
    for (int64_t o = 0; o < s->outer * s->channels && s->inner > 1; o++, v += s->inner) {
        const int64_t c = o % s->channels;
        const double shift[1] = { from == NULL ? 0 : from[c] };
        add_short_rows(k, s->inner, 1, v, from == NULL ? NULL : shift, out + c);
    }
}

static void measure_block(const measuring *m, int64_t first, int64_t n, int64_t slot)
{
    const dt__array_store *s = m->d->arrays;
    const int64_t size = dt__array_size(s), channels = m->shape.channels;
    const float *v = dt__array_floats(s, m->d->first + first, n);
    double *mean = m->sums + 2 * slot * channels, *squares = mean + channels;
    const dt__array_channels all = { n * m->shape.outer, channels, m->shape.inner };
    memset(mean, 0, 2 * (size_t)channels * sizeof *mean);
    if (v == NULL) {
        float *copy = m->values + slot * m->each * size;
        dt__array_examples(s, m->d->first + first, n, copy);
        v = copy;
    }
    add_up(m->kernels, &all, v, NULL, mean);
    for (int64_t c = 0; c < channels; c++) mean[c] /= (double)(all.outer * all.inner);
    add_up(m->kernels, &all, v, mean, squares);
}

/* Joins a block with n_b numbers per channel to the n before it, whose M2 is in `squares`. */
static void join(const measuring *m, int64_t slot, double n, double n_b, double *mean,
                 double *squares)
{
    const int64_t channels = m->shape.channels;
    const double *own = m->sums + 2 * slot * channels;
    for (int64_t c = 0; c < channels; c++) {
        const double delta = own[c] - mean[c];
        mean[c] += delta * (n_b / (n + n_b));
        squares[c] += own[channels + c] + delta * delta * (n * n_b / (n + n_b));
    }
}

DT__EACH(measure_all, b, const measuring *m; const dt_dataset *d; int64_t done;)
{
    const int64_t first = (a.done + b) * a.m->each;
    measure_block(a.m, first, dt__min_i64(a.m->each, a.d->count - first), b);
}

static void measure_all(const measuring *m, double *mean, double *squares)
{
    const dt_dataset *d = m->d;
    const int64_t blocks = dt__ceil_div(d->count, m->each);
    const double each = (double)(m->shape.outer * m->shape.inner);
    dt__team *const before = dt__threads_enter(d->ctx);
    for (int64_t done = 0; done < blocks; done += m->at_once) {
        const int64_t n = dt__min_i64(m->at_once, blocks - done);
        const measure_all_args args = { m, d, done };
        dt__parallel(n, DT__WORTH_A_THREAD, measure_all_share, &args);
        for (int64_t b = 0; b < n; b++) {
            const int64_t first = (done + b) * m->each;
            join(m, b, (double)first * each, (double)dt__min_i64(m->each, d->count - first) * each,
                 mean, squares);
        }
    }
    dt__threads_leave(before);
}

/* Converts M2 to the deviation. */
static void finish(const dt_dataset *d, double *squares)
{
    const dt__array_channels shape = dt__array_channels_of(d->arrays);
    const double n = (double)d->count * (double)(shape.outer * shape.inner);
    for (int64_t c = 0; c < shape.channels; c++) {
        const double deviation = sqrt(squares[c] / n);
        const bool constant = !((float)deviation > 0);
        squares[c] = constant ? 1 : deviation;
        if (!constant) continue;
        dt__say(d->ctx, "data: channel %lld is constant; its deviation is taken as 1",
                (long long)c);
    }
}

/* Whether all numbers were finite: double sums of finite f32, and of their squares, cannot
 * overflow. */
static bool are_finite(int64_t n, const double *sum)
{
    int64_t i = 0;
    while (i < n && isfinite(sum[i])) i++;
    return i == n;
}

/* Computes means, and sums of squared distances from them. */
static dt_status measure(const dt_dataset *d, double *mean, double *squares)
{
    DT__TRY(dt__kernels_open(d->ctx));
    const int64_t size = dt__array_size(d->arrays), channels = dt_dataset_array_channels(d);
    measuring m = { .d = d,
                    .kernels = dt__kernels_of(d->ctx, DT_F32),
                    .shape = dt__array_channels_of(d->arrays) };
    m.each = dt__max_i64(1, BLOCK / size);
    m.at_once = dt__min_i64(MOST_AT_ONCE, dt__max_i64(1, ROOM / (m.each * size)));
    m.values = dt__alloc_array(d->ctx, m.at_once * m.each, (size_t)size * sizeof *m.values);
    m.sums = dt__alloc_array(d->ctx, 2 * m.at_once, (size_t)channels * sizeof *m.sums);
    const dt_status status = m.values == NULL || m.sums == NULL ? DT_ERR_NOMEM : DT_OK;
    for (int64_t c = 0; c < channels; c++) mean[c] = squares[c] = 0;
    if (status == DT_OK) measure_all(&m, mean, squares);
    DT__RELEASE(d->ctx, m.values, m.sums);
    return status;
}

dt_status dt_dataset_measure(const dt_dataset *d, double *mean, double *deviation)
{
    DT__NEED(NULL, d);
    DT__TRY(check_kind(d));
    if (d->count == 0) return dt_fail(d->ctx, DT_ERR_ARG, "dataset: no examples to measure");
    DT__TRY(measure(d, mean, deviation));
    if (!are_finite(dt_dataset_array_channels(d), deviation)) {
        DT__TRY(dt__array_store_check(d->arrays, 0));
    }
    finish(d, deviation);
    return DT_OK;
}

/* ---- other units -------------------------------------------------------------------------- */

#define FAR 10    /* warn if means differ by this many deviations of the training data, */
#define OTHER 100 /* or if deviations differ by this factor */
#define ENOUGH 10 /* numbers needed to estimate a deviation */

/* "column 'a'" or "channel 0". */
static void name_channel(const dt_dataset *d, int64_t c, char text[DT__SHOWN + 12])
{
    const dt__array_store *s = d->arrays;
    char shown[DT__SHOWN];
    const bool named = s->column_name != NULL && s->n_columns == dt_dataset_array_channels(d);
    if (named) snprintf(text, DT__SHOWN + 12, "column '%s'", dt__shown(s->column_name[c], shown));
    else snprintf(text, DT__SHOWN + 12, "channel %lld", (long long)c);
}

static void say_first(const dt_dataset *d, const dt__trained_units *trained, int64_t c,
                      const double own[2], int64_t far)
{
    char text[DT__SHOWN + 12], more[40] = "", units[80];
    const int64_t k = trained->n == 1 ? 0 : c;
    name_channel(d, c, text);
    if (far > 1) snprintf(more, sizeof more, " (and %lld more)", (long long)far - 1);
    if (trained->pixels) snprintf(units, sizeof units, "pixels, bytes or numbers from 0 to 1");
    else snprintf(units, sizeof units, "%.4g and %.4g", trained->mean[k], trained->deviation[k]);
    dt__say(d->ctx,
            "warning: %s%s has mean %.4g and deviation %.4g; the model was trained on %s: if they "
            "are in other units, answers are wrong",
            text, more, own[0], own[1], units);
}

dt_status dt__say_far(const dt_dataset *d, const dt__trained_units *trained)
{
    const int64_t channels = dt_dataset_array_channels(d), n = trained->n;
    if (d->count == 0 || (n != 1 && n != channels)) return DT_OK;
    double *own = dt__alloc_array(d->ctx, 2 * channels, sizeof *own), *spread = own + channels;
    if (own == NULL) return DT_ERR_NOMEM;
    const dt_status s = measure(d, own, spread);
    const dt__array_channels shape = dt__array_channels_of(d->arrays);
    const double numbers = (double)d->count * (double)(shape.outer * shape.inner);
    int64_t far = 0, first = 0;
    for (int64_t c = 0; s == DT_OK && c < channels; c++) {
        const double unit = trained->deviation[n == 1 ? 0 : c],
                     middle = trained->mean[n == 1 ? 0 : c];
        spread[c] = sqrt(spread[c] / numbers);
        const bool tells = numbers >= ENOUGH && spread[c] > 0;
        const bool other = tells && (spread[c] * OTHER < unit || spread[c] > unit * OTHER);
        const bool measured = middle != 0 || unit != 1;
        const bool pixels = own[c] >= 0 && own[c] <= 1 && spread[c] < 0.501;
        const bool unlike = trained->pixels && !pixels;
        if (!unlike && !(measured && (other || fabs(own[c] - middle) > FAR * unit))) continue;
        if (far++ == 0) first = c;
    }
    if (far > 0) say_first(d, trained, first, (const double[]){ own[first], spread[first] }, far);
    dt__release(d->ctx, own);
    return s;
}
