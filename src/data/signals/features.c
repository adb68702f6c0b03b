/* Log mel energies and mel-frequency cepstral coefficients of a signal (Davis and Mermelstein
 * 1980), with the filters of torchaudio and librosa (mel scale of HTK, not normalized). Frame k
 * has the samples s[k step] ... s[k step + frame - 1]; N is the least power of two that holds a
 * frame.
 *     window  w[n] = (1 - cos(2 pi n / frame)) / 2                           (Hann, periodic)
 *     power   P[i] = |sum over n of w[n] s[k step + n] exp(-2 pi j i n / N)|^2,   i = 0 ... N/2
 *     mel     m(f) = 2595 log10(1 + f / 700); bins + 2 frequencies f_0 ... f_{bins+1} of equal
 *             distance in m from low_hz to high_hz
 *     energy  E[b] = sum over i of max(0, min((F - f_b) / (f_{b+1} - f_b),
 *                                             (f_{b+2} - F) / (f_{b+2} - f_{b+1}))) P[i],
 *             F = i rate / N
 *     log mel L[b] = ln(max(E[b], floor))
 *     mfcc    C[c] = sqrt((c == 0 ? 1 : 2) / bins) sum over b of L[b] cos(pi c (b + 1/2) / bins)
 * Tables (window, filters, cosines) are computed in double and rounded; all else is f32, sums in
 * the order of the formula, so that a device computes the same bits. */
#include "data/signals/features.h"

#include "core/tensor.h"
#include "core/threads.h"
#include "data/signals/fourier.h"
#include "kernels/exp.h"

#include <math.h>

#define PI 3.14159265358979323846
#define MOST_FRAME 65536
#define MOST_BINS 512

static const char *const kinds[] = { "none", "log_mel", "mfcc", NULL };

#define AT(field) .offset = offsetof(dt_features_options, field)

const dt_key dt__features_keys[] = {
    { "kind", DT_KEY_CHOICE, AT(kind), .choices = kinds, .fallback = "none",
      .text = "input: the signal, log mel energies, or cepstral coefficients" },
    { "rate", DT_KEY_REAL, AT(rate), .least = 1, .most = 1e6, .fallback = "16000",
      .text = "samples a second; sounds and recordings have their own" },
    { "frame_ms", DT_KEY_REAL, AT(frame_ms), .least = 0.01, .most = 1e5, .fallback = "40",
      .text = "length of a frame, in milliseconds" },
    { "step_ms", DT_KEY_REAL, AT(step_ms), .least = 0.01, .most = 1e5, .fallback = "20",
      .text = "from one frame to the next, in milliseconds" },
    { "bins", DT_KEY_INT, AT(bins), .least = 1, .most = MOST_BINS, .fallback = "40",
      .text = "mel filters" },
    { "coefficients", DT_KEY_INT, AT(coefficients), .least = 1, .most = MOST_BINS, .fallback = "10",
      .text = "mfcc: how many, at most the bins" },
    { "low_hz", DT_KEY_REAL, AT(low_hz), .most = 1e6, .fallback = "20",
      .text = "lowest frequency of the filters" },
    { "high_hz", DT_KEY_REAL, AT(high_hz), .most = 1e6, .fallback = "0",
      .text = "highest frequency of the filters; 0: half of the rate" },
    { "floor", DT_KEY_REAL, AT(floor), .least = 1e-30, .most = 1e30, .fallback = "1e-06",
      .text = "smallest energy that a logarithm is taken of" },
    { 0 },
};

dt_features_options dt_features_defaults(void)
{
    return (dt_features_options){ .rate = 16000,
                                  .frame_ms = 40,
                                  .step_ms = 20,
                                  .bins = 40,
                                  .coefficients = 10,
                                  .low_hz = 20,
                                  .floor = 1e-6 };
}

struct dt_features {
    dt_ctx *ctx;
    dt_features_options options;
    dt__features_tables t;
    int threads;
    size_t scratch;   /* per thread, in floats */
    float *scratches; /* [threads][scratch]: the transform, energies */
};

/* ---- checks ---------------------------------------------------------------------------------- */

static int64_t samples_of(double rate, double ms) { return (int64_t)floor(rate * ms / 1000 + 0.5); }

static double top_of(const dt_features_options *o)
{
    return o->high_hz == 0 ? o->rate / 2 : o->high_hz;
}

static int size_of(int64_t frame)
{
    int size = 2;
    while (size < frame) size *= 2;
    return size;
}

static double mel_of(double hz) { return 2595 * log10(1 + hz / 700); }
static double hz_of(double mel) { return 700 * (pow(10, mel / 2595) - 1); }

/* The frequency f_b, in Hz. */
static double edge(const dt_features_options *o, int64_t b)
{
    const double low = mel_of(o->low_hz), high = mel_of(top_of(o));
    return hz_of(low + (high - low) * (double)b / (double)(o->bins + 1));
}

/* The weight of frequency bin i of the transform in filter b. */
static double weight_of(const dt_features_options *o, int size, int64_t b, int i)
{
    const double f = (double)i * o->rate / size, from = edge(o, b), peak = edge(o, b + 1);
    return fmax(0,
                fmin((f - from) / (peak - from), (edge(o, b + 2) - f) / (edge(o, b + 2) - peak)));
}

static dt__mel_filter filter_of(const dt_features_options *o, int size, int64_t b)
{
    const int half = size / 2;
    int i = (int)fmax(0, floor(edge(o, b) * size / o->rate));
    while (i <= half && !(weight_of(o, size, b, i) > 0)) i++;
    dt__mel_filter f = { .first = i };
    while (i <= half && weight_of(o, size, b, i) > 0) i++;
    f.n = i - f.first;
    return f;
}

static bool is_within(double value, double least, double most)
{
    return value >= least && value <= most; /* false for NaN */
}

static dt_status check_frame(dt_ctx *ctx, const dt_features_options *o, dt_status status,
                             const char *where)
{
    const int64_t frame = samples_of(o->rate, o->frame_ms), step = samples_of(o->rate, o->step_ms);
    if (frame < 2 || frame > MOST_FRAME) {
        return dt_fail(ctx, status,
                       "%sframe_ms is %g, that is %lld samples at %g a second: expected 2 to %d",
                       where, o->frame_ms, (long long)frame, o->rate, MOST_FRAME);
    }
    if (step < 1) {
        return dt_fail(ctx, status,
                       "%sstep_ms is %g, that is %lld samples at %g a second: expected at least 1",
                       where, o->step_ms, (long long)step, o->rate);
    }
    if (!(o->low_hz >= 0 && o->low_hz < top_of(o) && top_of(o) <= o->rate / 2)) {
        return dt_fail(
            ctx, status,
            "%slow_hz is %g and high_hz %g: expected 0 <= low_hz < high_hz <= %g, half of the rate",
            where, o->low_hz, top_of(o), o->rate / 2);
    }
    const int size = size_of(frame);
    for (int64_t b = 0; b < o->bins; b++) {
        if (filter_of(o, size, b).n > 0) continue;
        return dt_fail(ctx, status,
                       "%sbins is %lld: filter %lld, from %.4g to %.4g Hz, has none of the "
                       "frequencies of a frame, which are %.4g Hz apart; fewer bins or a longer "
                       "frame would do",
                       where, (long long)o->bins, (long long)b, edge(o, b), edge(o, b + 2),
                       o->rate / size);
    }
    return DT_OK;
}

dt_status dt__features_check(dt_ctx *ctx, const dt_features_options *o, dt_status status,
                             const char *where)
{
    const struct {
        const char *name;
        double value, least, most;
    } ranges[] = {
        { "kind", o->kind, DT_FEATURES_LOG_MEL, DT_FEATURES_MFCC },
        { "rate", o->rate, 1, 1e6 },
        { "frame_ms", o->frame_ms, 0.01, 1e5 },
        { "step_ms", o->step_ms, 0.01, 1e5 },
        { "bins", (double)o->bins, 1, MOST_BINS },
        { "coefficients", (double)o->coefficients, 1,
          o->kind == DT_FEATURES_MFCC ? (double)o->bins : MOST_BINS },
        { "low_hz", o->low_hz, 0, 1e6 },
        { "high_hz", o->high_hz, 0, 1e6 },
        { "floor", o->floor, 1e-30, 1e30 },
    };
    for (int i = 0; i < DT__COUNT_OF(ranges); i++) {
        if (is_within(ranges[i].value, ranges[i].least, ranges[i].most)) continue;
        return dt_fail(ctx, status, "%s%s is %g: expected %g to %g", where, ranges[i].name,
                       ranges[i].value, ranges[i].least, ranges[i].most);
    }
    return check_frame(ctx, o, status, where);
}

/* ---- creation -------------------------------------------------------------------------------- */

static dt_status make_filters(dt_features *f)
{
    const dt_features_options *o = &f->options;
    dt__features_tables *t = &f->t;
    t->filters = dt__alloc_array(f->ctx, o->bins, sizeof *t->filters);
    if (t->filters == NULL) return DT_ERR_NOMEM;
    for (int64_t b = 0; b < o->bins; b++) {
        t->filters[b] = filter_of(o, t->size, b);
        t->n_weights += t->filters[b].n;
    }
    t->weights = dt__alloc_array(f->ctx, t->n_weights, sizeof *t->weights);
    if (t->weights == NULL) return DT_ERR_NOMEM;
    float *weight = t->weights;
    for (int64_t b = 0; b < o->bins; b++) {
        const dt__mel_filter *p = &t->filters[b];
        for (int i = 0; i < p->n; i++) *weight++ = (float)weight_of(o, t->size, b, p->first + i);
    }
    return DT_OK;
}

static dt_status make_cosines(dt_features *f)
{
    const dt_features_options *o = &f->options;
    f->t.cosines = dt__alloc_array(f->ctx, o->coefficients * o->bins, sizeof *f->t.cosines);
    if (f->t.cosines == NULL) return DT_ERR_NOMEM;
    for (int64_t c = 0; c < o->coefficients; c++) {
        const double scale = sqrt((c == 0 ? 1.0 : 2.0) / (double)o->bins);
        for (int64_t b = 0; b < o->bins; b++) {
            const double angle = PI * (double)c * ((double)b + 0.5) / (double)o->bins;
            f->t.cosines[c * o->bins + b] = (float)(scale * cos(angle));
        }
    }
    return DT_OK;
}

static dt_status make_tables(dt_features *f)
{
    const dt_features_options *o = &f->options;
    dt__features_tables *t = &f->t;
    t->frame = samples_of(o->rate, o->frame_ms);
    t->step = samples_of(o->rate, o->step_ms);
    t->size = size_of(t->frame);
    f->scratch = (size_t)t->size + (size_t)o->bins;
    t->window = dt__alloc_array(f->ctx, t->frame, sizeof *t->window);
    t->turns = dt__alloc_array(f->ctx, t->size, sizeof *t->turns);
    t->joins = dt__alloc_array(f->ctx, dt__max_i64(t->size / 2, 2), sizeof *t->joins);
    f->scratches = dt__alloc_array(f->ctx, f->threads, f->scratch * sizeof *f->scratches);
    if (t->window == NULL || t->turns == NULL || t->joins == NULL || f->scratches == NULL) {
        return DT_ERR_NOMEM;
    }
    for (int64_t n = 0; n < t->frame; n++) {
        t->window[n] = (float)(0.5 - 0.5 * cos(2 * PI * (double)n / (double)t->frame));
    }
    dt__fourier_tables(t->size, t->turns, t->joins);
    if (o->kind == DT_FEATURES_MFCC) DT__TRY(make_cosines(f));
    return make_filters(f);
}

dt_status dt_features_create(dt_ctx *ctx, const dt_features_options *options, dt_features **out)
{
    DT__NEED3(ctx, ctx, options, out);
    *out = NULL;
    DT__TRY(dt__features_check(ctx, options, DT_ERR_ARG, "features: "));
    dt_features *f = dt__alloc_zero(ctx, sizeof *f);
    if (f == NULL) return DT_ERR_NOMEM;
    f->ctx = ctx;
    dt__ctx_retain(ctx);
    f->options = *options;
    f->threads = dt_threads(ctx);
    const dt_status status = make_tables(f);
    if (status == DT_OK) *out = f;
    else dt_features_free(f);
    return status;
}

void dt_features_free(dt_features *f)
{
    if (f == NULL) return;
    dt_ctx *ctx = f->ctx;
    const dt__features_tables *t = &f->t;
    void *const parts[] = { t->window,  t->turns,   t->joins,     t->filters,
                            t->weights, t->cosines, f->scratches, f };
    for (int i = 0; i < DT__COUNT_OF(parts); i++) dt__release(ctx, parts[i]);
    dt__ctx_release(ctx);
}

/* ---- running --------------------------------------------------------------------------------- */

int64_t dt_features_frames(const dt_features *f, int64_t n)
{
    if (f == NULL) return 0;
    return n < f->t.frame ? 0 : (n - f->t.frame) / f->t.step + 1;
}

int64_t dt_features_width(const dt_features *f)
{
    if (f == NULL) return 0;
    return f->options.kind == DT_FEATURES_MFCC ? f->options.coefficients : f->options.bins;
}

const dt__features_tables *dt__features_tables_of(const dt_features *f) { return &f->t; }

/* Computes the features of one frame. */
static void run_frame(const dt_features *f, int thread, const float *s, float *out)
{
    const dt__features_tables *t = &f->t;
    const int half = t->size / 2;
    float *z = f->scratches + (size_t)thread * f->scratch;
    for (int k = 0; k < t->size; k++) {
        const int to = 2 * dt__fourier_place(half, k / 2) + k % 2;
        z[to] = k < t->frame ? t->window[k] * s[k] : 0;
    }
    dt__fourier_powers(z, t->size, t->turns, t->joins);
    float *logs = t->cosines != NULL ? z + t->size : out;
    const float *weight = t->weights, floor = (float)f->options.floor;
    for (int64_t b = 0; b < f->options.bins; b++) {
        const dt__mel_filter *p = &t->filters[b];
        float sum = 0;
        for (int i = p->first; i < p->first + p->n; i++) {
            sum += *weight++ * (i < half ? z[2 * i] : z[1]);
        }
        logs[b] = dt__log_f32(sum > floor ? sum : floor);
    }
    for (int64_t c = 0; t->cosines != NULL && c < f->options.coefficients; c++) {
        const float *cosine = t->cosines + c * f->options.bins;
        out[c] = 0;
        for (int64_t b = 0; b < f->options.bins; b++) out[c] += cosine[b] * logs[b];
    }
}

typedef struct frames_args {
    const dt_features *f;
    const float *samples;
    int64_t n, frames, width; /* samples and frames of a signal, numbers per frame */
    float *out;
} frames_args;

static void frames_share(const void *args, const dt__share *share)
{
    const frames_args *of = args;
    for (int64_t i = share->first; i < share->past; i++) {
        const int64_t at = i / of->frames * of->n + i % of->frames * of->f->t.step;
        run_frame(of->f, share->thread, of->samples + at, of->out + i * of->width);
    }
}

dt_status dt_features_run(dt_features *f, const float *samples, int64_t count, int64_t n,
                          float *out)
{
    DT__NEED(NULL, f);
    const int64_t frames = dt_features_frames(f, n), width = dt_features_width(f);
    int64_t all;
    if (count < 0 || !dt__product(2, (const int64_t[]){ count, frames }, &all)) {
        return dt_fail(f->ctx, DT_ERR_ARG, "features: %lld signals: expected at least 0",
                       (long long)count);
    }
    if (frames < 1) {
        return dt_fail(
            f->ctx, DT_ERR_ARG,
            "features: a signal of %lld sample%s: a frame has %lld (%g ms at %g a second)",
            (long long)n, DT__S(n), (long long)f->t.frame, f->options.frame_ms, f->options.rate);
    }
    dt__team *const before = dt__threads_enter(f->ctx);
    dt__parallel(all, 8 * f->t.size, frames_share,
                 &(frames_args){ f, samples, n, frames, width, out });
    dt__threads_leave(before);
    return DT_OK;
}
