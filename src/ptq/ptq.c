/* dt_ptq: converts a prepared model to integers, layer by layer in execution order.
 *
 * Weights that no rounder supports (embeddings) are converted first. Then, repeatedly: the next
 * layer is the first that a batch reaches whose weight is prepared and not yet packed, so
 * everything before it is final. Each batch resumes where it stopped (calib_cache.h), in the
 * float model too if the rounder needs its inputs. The statistics of all batches are summed, and
 * the weight is rounded and packed. Layers that no batch reaches are converted last. */
#include "core/clock.h"
#include "ptq/ptq_work.h"
#include "ptq/target.h"
#include "qat/convert.h"
#include "qat/prepare.h"

typedef dt__ptq_work work;

static const char *path_of_weight(const work *w, const dt_module *layer)
{
    return dt_param_path(w->m, dt__entry_find(layer, "weight")->x);
}

static bool reads_data(const work *w)
{
    return dt__needs_data(w->method) || w->options->correct_bias;
}

/* ---- checks --------------------------------------------------------------------------------- */

static dt_status check(work *w)
{
    if (!dt_is_prepared(w->m)) {
        return dt_fail(w->ctx, DT_ERR_STATE, "ptq: the model is %s",
                       dt_is_converted(w->m) ? "converted already" : "not prepared");
    }
    if (w->method == NULL) {
        return dt_fail(w->ctx, DT_ERR_CONFIG, "ptq: %d is not a rounder",
                       w->options->rounding.rounder);
    }
    if (reads_data(w) && (w->data == NULL || w->data->batches < 1)) {
        return dt_fail(w->ctx, DT_ERR_ARG, "ptq: %s needs batches to calibrate with",
                       dt__needs_data(w->method) ? w->method->name : "bias correction");
    }
    DT__EACH_MODULE(m, w->m) {
        dt_rounding_options options;
        if (!dt__is_ptq_layer(NULL, m)) continue;
        DT__TRY(dt__layer_options(m, &dt__layer_quant(m)->quant, &w->options->rounding, &options));
    }
    return DT_OK;
}

/* ---- modes ---------------------------------------------------------------------------------- */

/* Which modules are in training mode, in visiting order, except quantizers, some of which dt_ptq
 * removes. */
typedef struct modes {
    dt_module *m; /* NULL: none */
    bool *training;
    int64_t n;
} modes;

/* Puts m, which may be NULL, into evaluation mode. */
static dt_status modes_begin(modes *s, dt_module *m)
{
    *s = (modes){ .m = NULL };
    if (m == NULL) return DT_OK;
    DT__EACH_MODULE(each, m) s->n += dt__quantizer_of(each) == NULL;
    s->training = dt__alloc_array(m->ctx, s->n, sizeof *s->training);
    if (s->training == NULL) return DT_ERR_NOMEM;
    s->n = 0;
    DT__EACH_MODULE(each, m) {
        if (dt__quantizer_of(each) == NULL) s->training[s->n++] = each->training;
    }
    s->m = m;
    dt_train(m, false);
    return DT_OK;
}

static void modes_end(modes *s)
{
    if (s->m == NULL) return;
    s->n = 0;
    DT__EACH_MODULE(m, s->m) {
        m->training = dt__quantizer_of(m) == NULL ? s->training[s->n++] : m->parent->training;
    }
    dt__release(s->m->ctx, s->training);
}

/* ---- ranges of inputs ----------------------------------------------------------------------- */

/* Makes input ranges observe that have observed nothing so far; returns whether there are any. */
static bool observe_unseen(const work *w)
{
    bool some = false;
    DT__EACH_MODULE(m, w->m) {
        dt__input_hook *hook = dt__input_hook_of(m);
        if (hook == NULL || hook->range == NULL || dt__quantizer_has_seen(hook->range)) continue;
        some = hook->observing = true;
    }
    return some;
}

static void observe_no_more(const work *w)
{
    DT__EACH_MODULE(m, w->m) {
        if (dt__input_hook_of(m) != NULL) dt__input_hook_of(m)->observing = false;
    }
}

static dt_status run_batches(const work *w)
{
    dt_status s = DT_OK;
    const bool grad = dt_no_grad(w->tape, true);
    for (int64_t i = 0; i < w->data->batches && s == DT_OK; i++) {
        dt_tensor *x;
        dt_tape_reset(w->tape);
        s = dt__ptq_fetch(w, i, &x);
        if (s != DT_OK) break;
        dt_forward(w->tape, w->m, x);
        s = dt_tape_status(w->tape);
    }
    dt_tape_reset(w->tape);
    dt_no_grad(w->tape, grad);
    return s;
}

/* Calibrates the input ranges that have observed no batch, with float weights, as in training. */
static dt_status calibrate(const work *w)
{
    observe_no_more(w);
    const bool some = w->data != NULL && observe_unseen(w);
    dt_status s = some ? dt_enable(w->m, false) : DT_OK;
    if (s == DT_OK && some) s = run_batches(w);
    observe_no_more(w);
    if (s == DT_OK) s = dt_enable(w->m, true);
    return s == DT_OK ? dt__check_ranges(w->m) : s;
}

/* ---- a layer -------------------------------------------------------------------------------- */

/* A weight while it is rounded. */
typedef struct weight {
    const dt__fq *fq;
    dt__derived derived; /* of layers that derive their weight */
    dt_tensor *copy;     /* a contiguous copy; NULL: the master is contiguous */
    const dt_tensor *master;
    float *scale; /* of a static or learned range, [rows][groups]; NULL: none */
    int8_t *zero_point;
} weight;

static dt_status take_master(weight *v, dt_module *layer)
{
    const dt__row_map as_it_lies = { .groups = 0 };
    v->master = v->fq->inner;
    if (dt__derived_quant(layer) != NULL) {
        DT__TRY(dt__derived_begin(layer, &v->derived));
        v->master = v->derived.weight;
        v->fq = &v->derived.quant;
    }
    DT__TRY(dt__matrix_of(v->master, &as_it_lies, &v->copy));
    if (v->copy != NULL) v->master = v->copy;
    return DT_OK;
}

/* Copies the scales of a static or learned range, one for each block. Where the rounder regroups
 * columns (DT_ORDER_GROUP), scales are computed from the weight instead. */
static dt_status take_range(const work *w, weight *v)
{
    const bool has_zero = v->fq->zero_point != NULL;
    dt__panel_layout l;
    if (v->fq->scale == NULL || w->options->rounding.rounding.order == DT_ORDER_GROUP) return DT_OK;
    const dt__weight_shape shape = dt__weight_shape_of(v->master, &v->fq->map);
    DT__TRY(dt__weight_layout(w->ctx, &v->fq->quant, &shape, &l));
    const int64_t blocks = l.rows * l.groups;
    v->scale = dt__alloc_array(w->ctx, blocks, sizeof *v->scale);
    if (has_zero) v->zero_point = dt__alloc_array(w->ctx, blocks, 1);
    if (v->scale == NULL || (has_zero && v->zero_point == NULL)) return DT_ERR_NOMEM;
    dt__give_range(v->fq, blocks, v->scale, v->zero_point);
    return DT_OK;
}

static void free_weight(const work *w, weight *v)
{
    if (v->derived.layer != NULL) dt__derived_end(&v->derived, false);
    dt_tensor_free(v->copy);
    DT__RELEASE(w->ctx, v->scale, v->zero_point);
}

static dt_status choose_codes(const work *w, dt_module *layer, const weight *v, dt_rounded **out,
                              dt_round_report *report)
{
    dt_weight_op op;
    dt_rounding_options options;
    dt__weight_op_of(layer, &op);
    DT__TRY(dt__layer_options(layer, &v->fq->quant, &w->options->rounding, &options));
    const dt_round_work rounding = { .name = path_of_weight(w, layer),
                                     .weight = v->master,
                                     .op = &op,
                                     .quant = &v->fq->quant,
                                     .options = &options,
                                     .statistics = w->statistics,
                                     .scale = v->scale,
                                     .zero_point = v->zero_point };
    return dt_round(w->ctx, &rounding, out, report);
}

static dt_status done(work *w, const char *path, const dt_round_report *r)
{
    dt_ptq_report *all = &w->report;
    all->layers++;
    all->fallbacks += r->fallback;
    all->elements += r->rows * r->columns;
    all->unreached += r->unreached;
    all->untreated += r->untreated;
    all->unseen += r->unseen;
    all->dead += r->dead;
    all->zeros_kept += r->zeros_kept;
    all->kept_nearest += r->kept_nearest;
    all->accumulator_bits = dt__max_i64(all->accumulator_bits, r->accumulator_bits);
    if (w->options->done == NULL) return DT_OK;
    return w->options->done(w->options->user, path, r);
}

/* Corrects the bias of a packed layer; `before` is its weight before rounding. */
static dt_status correct(work *w, dt_module *layer, const dt_tensor *before)
{
    bool corrected;
    if (w->means == NULL) return DT_OK;
    DT__TRY(dt__bias_correct(w->means, layer, before, &corrected));
    w->report.corrected += corrected;
    return DT_OK;
}

/* Rounds and packs a layer; the rounder consumes the layer's statistics. */
static dt_status round_layer(work *w, dt_module *layer)
{
    dt_rounded *codes = NULL;
    dt_round_report report;
    dt_tensor *before = NULL;
    weight v = { .fq = dt__layer_quant(layer) };
    dt_status s = take_master(&v, layer);
    if (s == DT_OK) s = take_range(w, &v);
    if (s == DT_OK) s = choose_codes(w, layer, &v, &codes, &report);
    if (s == DT_OK && w->means != NULL) {
        s = dt_tensor_from(w->ctx, DT_F32, v.master->rank, v.master->dims, dt_data(v.master),
                           &before);
    }
    free_weight(w, &v);
    if (s == DT_OK) {
        const dt_code_rows rows = { .codes = codes->codes,
                                    .scale = codes->scale,
                                    .zero_point = codes->zero_point,
                                    .group_of = codes->group_of,
                                    .op_groups = dt__op_groups(layer) };
        s = dt__convert_layer(w->m, layer, &rows);
    }
    if (s == DT_OK) s = correct(w, layer, before);
    dt_tensor_free(before);
    dt_rounded_free(w->ctx, codes);
    return s == DT_OK ? done(w, path_of_weight(w, layer), &report) : s;
}

/* Logs that a layer is rounded to nearest although a rounder was requested. */
static void warn(const work *w, const dt_module *layer, const dt_round_report *r)
{
    if (!dt__needs_data(w->method) || layer->type->quantizable != DT_QUANTIZED_BY_PRESET) return;
    dt__say(w->ctx, "ptq: %s is rounded to nearest, not by %s: %s", path_of_weight(w, layer),
            w->method->name,
            r->unreached ? "no calibration batch reached its layer"
                         : "no rounder supports its type of layer");
}

/* Converts a layer, rounding to nearest, whose inputs are not known: no batch reached it
 * (rounder_can) or rounders do not support it. */
static dt_status convert_layer(work *w, dt_module *layer, bool rounder_can)
{
    const double start = dt__seconds();
    const dt_tensor *x = dt__entry_find(layer, "weight")->x;
    const int64_t groups = dt__op_groups(layer);
    int64_t dims[DT_MAX_RANK];
    const dt__weight_shape shape = dt__weight_shape_of(x, &dt__layer_quant(layer)->map);
    dt__matrix_dims(&shape, dims);
    dt_round_report report = { .method = dt__method_of(DT_ROUND_NEAREST)->name,
                               .rows = dims[0],
                               .columns = dims[0] == 0 ? 0 : x->count / dims[0],
                               .groups = groups,
                               .unreached = rounder_can,
                               .untreated = !rounder_can };
    warn(w, layer, &report);
    DT__TRY(dt__convert_layer(w->m, layer, NULL));
    report.seconds = dt__seconds() - start;
    return done(w, path_of_weight(w, layer), &report);
}

/* ---- layer by layer ------------------------------------------------------------------------- */

/* Multiply-adds of a batch in the layer that is rounded now. */
static double pass_of(const work *w)
{
    const dt_statistics *s = w->statistics;
    if (s == NULL) return 0;
    const bool routed = s->layer.op.kind == DT_WEIGHT_GROUPED_LINEAR;
    const double elements = (double)dt__entry_find(w->layer, "weight")->x->count,
                 each = routed ? (double)s->layer.groups : 1;
    return (double)dt_statistics_samples(s) * elements / each / (double)w->data->batches;
}

/* Rounds the next layer; *more is false if no batch reaches one. */
static dt_status next_layer(work *w, bool *more)
{
    dt_status s = dt__ptq_find_inputs(w);
    *more = w->layer != NULL;
    if (*more) w->passed = pass_of(w);
    if (s == DT_OK && *more) s = round_layer(w, w->layer);
    dt_statistics_free(w->statistics);
    dt__means_free(w->means);
    w->statistics = NULL;
    w->means = NULL;
    return s;
}

/* ---- dt_ptq --------------------------------------------------------------------------------- */

/* The first prepared layer among those that rounders support (rounder_can) or among the others;
 * NULL: none. */
static dt_module *first_layer(const work *w, bool rounder_can)
{
    DT__EACH_MODULE(m, w->m) {
        if (dt__layer_quant(m) == NULL) continue;
        if (dt__is_ptq_layer(NULL, m) == rounder_can) return m;
    }
    return NULL;
}

static dt_status round_by_data(work *w)
{
    const int64_t n = w->data->batches;
    w->batch = dt__alloc_array(w->ctx, n, sizeof *w->batch);
    if (w->batch == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < n; i++) {
        w->batch[i] = (dt__ptq_batch){ .ended = false };
        w->batch[i].cache[DT__QUANTIZED] = (dt__calib_cache){ .m = w->m, .budget = &w->budget };
        w->batch[i].cache[DT__FLOAT] = (dt__calib_cache){ .m = w->reference, .budget = &w->budget };
    }
    dt_status s = DT_OK;
    for (bool more = true; more && s == DT_OK && first_layer(w, true) != NULL;) {
        s = next_layer(w, &more);
    }
    for (int64_t i = 0; i < n; i++) {
        dt__calib_clear(&w->batch[i].cache[DT__QUANTIZED]);
        if (w->reference != NULL) dt__calib_clear(&w->batch[i].cache[DT__FLOAT]);
    }
    dt__release(w->ctx, w->batch);
    return s;
}

static dt_status convert_rest(work *w, bool rounder_can)
{
    dt_module *layer;
    while ((layer = first_layer(w, rounder_can)) != NULL) {
        DT__TRY(convert_layer(w, layer, rounder_can));
    }
    return DT_OK;
}

static dt_status convert(work *w)
{
    DT__TRY(check(w));
    DT__TRY(calibrate(w));
    dt__pass_work(w->ctx);
    DT__TRY(convert_rest(w, false));
    if (reads_data(w)) DT__TRY(round_by_data(w));
    else {
        dt_module *layer;
        while ((layer = first_layer(w, true)) != NULL) DT__TRY(round_layer(w, layer));
    }
    return convert_rest(w, true);
}

dt_ptq_options dt_ptq_defaults(void)
{
    return (dt_ptq_options){ .rounding = dt_rounding_defaults(), .cache = (size_t)1 << 30 };
}

dt_status dt__ptq(const dt__ptq_job *job, dt_ptq_report *report)
{
    const double start = dt__seconds();
    modes of_m = { .m = NULL }, of_reference = { .m = NULL };
    work w = { .ctx = dt_module_ctx(job->m), .m = job->m, .data = job->data };
    w.options = job->options;
    w.cluster = job->cluster;
    w.method = dt__method_of(w.options->rounding.rounder);
    w.budget.limit = w.options->cache;
    if (w.method != NULL && (w.method->rounder->needs_float || w.options->correct_bias)) {
        w.reference = job->reference;
    }
    static const dt__work_of kinds[] = { DT__FORWARD, DT__SUMS, DT__FACTOR, DT__ROUND };
    dt_status s = modes_begin(&of_m, w.m);
    if (s == DT_OK) s = modes_begin(&of_reference, w.reference);
    if (s == DT_OK) s = dt_tape_create(w.ctx, &w.tape);
    if (s == DT_OK) s = convert(&w);
    for (int i = 0; i < DT__COUNT_OF(kinds); i++) dt__cut_work(w.ctx, kinds[i]);
    dt_tape_free(w.tape);
    modes_end(&of_reference);
    modes_end(&of_m);
    w.report.seconds = dt__seconds() - start;
    if (report != NULL) *report = w.report;
    return s;
}

dt_status dt_ptq(dt_module *m, dt_module *reference, const dt_calibration *data,
                 const dt_ptq_options *options, dt_ptq_report *report)
{
    DT__NEED(dt_module_ctx(m), m);
    const dt_ptq_options defaults = dt_ptq_defaults();
    const dt__ptq_job job = {
        .m = m,
        .reference = reference,
        .data = data,
        .options = options != NULL ? options : &defaults,
    };
    return dt__ptq(&job, report);
}
