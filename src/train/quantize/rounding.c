/* Rounding a model: settings from the recipe, checks against the model, and their record in the
 * file (detent.quantize in its metadata). */
#include "train/quantize/rounding.h"

#include "io/model/model.h"
#include "ptq/keys.h"
#include "ptq/ptq_job.h"
#include "ptq/target.h"
#include "qat/convert.h"
#include "qat/prepare.h"

#define KEY_QUANTIZE "detent.quantize"

#define SAMPLES 512 /* the default */
#define BATCH_SIZE 32

static dt__rounding rounding_of(const dt_recipe_options *o, bool converts)
{
    const dt_calibration_options *data = &o->quantize.calibration;
    dt__rounding p = { .key = "quantize",
                       .options = o->quantize.rounding,
                       .correct_bias = o->quantize.given && o->quantize.correct_bias };
    if (converts) {
        data = &o->convert.calibration;
        p.key = "convert";
        p.options = o->convert.rounding;
        p.correct_bias = false; /* the biases were trained with these codes */
    }
    p.options = dt__settings_of(&p.options, p.options.rounder);
    p.choice = (dt__calibration_choice){ data->samples, data->batch_size, o->run.seed };
    p.cache = (size_t)data->cache_mb << 20;
    return p;
}

dt__rounding dt__rounding_of(const dt_recipe_options *o, bool converts, int64_t samples)
{
    const dt_ptq_options defaults = dt_ptq_defaults();
    dt__rounding p = rounding_of(o, converts);
    if (!converts && !o->quantize.given) {
        p.options = defaults.rounding;
        p.cache = defaults.cache;
    }
    if (p.choice.samples == 0) p.choice.samples = SAMPLES;
    if (p.choice.batch_size == 0) p.choice.batch_size = BATCH_SIZE;
    p.choice.samples = dt__min_i64(p.choice.samples, samples);
    return p;
}

/* Bounds of accumulators hold for input codes of b bits in either form that devices use: signed, or
 * unsigned with an offset of 2^(b-1). */
static dt_status check_inputs(const dt_accumulator *a, const dt_module *m)
{
    const dt__input_hook *hook = dt__input_hook_of(m);
    if (a->bits == 0 || a->input.n != 2 || hook == NULL) return DT_OK;
    const int64_t half = (int64_t)1 << (hook->quant.bits - 1);
    const int64_t least = a->input.v[0], most = a->input.v[1];
    if ((least <= -half && most >= half - 1) || most >= 2 * half - 1) return DT_OK;
    return dt_fail(m->ctx, DT_ERR_CONFIG,
                   "accumulator: input is [%lld, %lld], but the inputs of %s are codes of %lld "
                   "bits: it must be [%lld, %lld] or [0, %lld]",
                   (long long)least, (long long)most, m->path, (long long)hook->quant.bits,
                   (long long)-half, (long long)half - 1, (long long)(2 * half - 1));
}

static dt_status check_layer(const dt__rounding *p, dt_module *m)
{
    const dt__fq *fq = dt__layer_quant(m);
    dt_weight_op op;
    dt_rounding_options options;
    if (fq == NULL || !dt__weight_op_of(m, &op)) return DT_OK;
    DT__TRY(dt__layer_options(m, &fq->quant, &p->options, &options));
    return check_inputs(&p->options.accumulator, m);
}

dt_status dt__rounding_suits(const dt__rounding *p, dt_recipe *r, dt_module *m)
{
    dt_status s = DT_OK;
    DT__EACH_MODULE(layer, m) {
        if (s == DT_OK) s = check_layer(p, layer);
    }
    return dt__recipe_blame(r, p->key, DT_ERR_CONFIG, s);
}

#define AT(field) .offset = offsetof(dt__calibration_choice, field)

static const dt_key choice_keys[] = {
    { "samples", DT_KEY_INT, AT(samples) },
    { "batch_size", DT_KEY_INT, AT(batch_size) },
    { "seed", DT_KEY_INT, AT(seed) },
    { 0 },
};

#define AT_BIAS .offset = offsetof(dt__rounding, correct_bias)

static const dt_key settings_keys[] = {
    DT__ROUNDING_OPTIONS_KEYS(offsetof(dt__rounding, options)),
    { "correct_bias", DT_KEY_BOOL, AT_BIAS },
    { "calibration", DT_KEY_MAP, .offset = offsetof(dt__rounding, choice), .keys = choice_keys },
    { 0 },
};

char *dt__rounding_text(dt_ctx *ctx, const dt__rounding *p)
{
    dt__chars t = { .ctx = ctx };
    dt__put_options(&t, settings_keys, p);
    if (dt__chars_text(&t) != NULL) return t.bytes;
    dt__release(ctx, t.bytes);
    return NULL;
}

dt_status dt__rounding_save(const dt__rounding *p, dt_module *m, const dt_model_info *info,
                            const char *path)
{
    dt_ctx *ctx = dt_module_ctx(m);
    char *text = dt__rounding_text(ctx, p);
    const dt__meta meta[] = { { KEY_QUANTIZE, text }, { NULL, NULL } };
    const dt_status s = text == NULL ? DT_ERR_NOMEM : dt__model_save_with(m, info, meta, path);
    dt__release(ctx, text);
    return s;
}

dt_status dt__rounding_run(const dt__rounding *p, const dt__rounding_job *job,
                           dt_ptq_report *report)
{
    const dt_calibration data = { .batches = job->calibration->batches,
                                  .batch = dt__calibration_batch,
                                  .user = job->calibration };
    const dt_ptq_options options = { .rounding = p->options,
                                     .correct_bias = p->correct_bias,
                                     .cache = p->cache,
                                     .done = job->done,
                                     .user = job->user };
    const dt__ptq_job ptq = { .m = job->m,
                              .reference = job->reference,
                              .data = &data,
                              .options = &options,
                              .cluster = job->cluster };
    return dt__ptq(&ptq, report);
}
