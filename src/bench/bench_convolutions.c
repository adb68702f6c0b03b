/* Convolutions of a batch of images with integer codes, compared with float convolutions and, if
 * available, another library's integer convolutions. All layers have 3 x 3 kernels and padding 1. A
 * product of [positions] by [outputs][terms] counts as many multiply-adds. `-quantized` quantizes
 * the batch first, as a layer in training does. */
#include "bench/measure.h"
#include "core/tensor.h"
#include "kernels/kernels.h"
#include "kernels/convolution/qconv.h"
#include "qat/quantized.h"

static const dt_bench_conv layers[] = {
    { 128, 1, 16, 28, 1, 1 },  { 128, 16, 32, 28, 2, 1 },    { 128, 32, 32, 14, 1, 1 },
    { 128, 32, 48, 14, 2, 1 }, { 128, 16, 16, 32, 1, 1 },    { 128, 32, 32, 16, 1, 1 },
    { 128, 64, 64, 8, 1, 1 },  { 32, 32, 32, 32, 1, 32 },    { 32, 64, 64, 16, 1, 64 },
    { 32, 64, 64, 16, 2, 64 }, { 32, 128, 128, 14, 2, 128 }, { 32, 512, 512, 7, 1, 512 },
};
static const dt_bench_conv quick_layer = { 2, 3, 5, 8, 1, 1 };

typedef struct form {
    const char *name;
    dt_quant_spec weight;
    bool quantizes;
} form;

#define INT4                                                                                       \
    {                                                                                              \
        .bits = 4, .granularity = DT_PER_GROUP, .group_size = 32                                   \
    }
#define INT8                                                                                       \
    {                                                                                              \
        .bits = 8, .granularity = DT_PER_CHANNEL                                                   \
    }

static const form forms[] = { { "int4-group32", INT4, false },
                              { "int8-channel", INT8, false },
                              { "int4-group32-quantized", INT4, true } };
#define FORMS DT__COUNT_OF(forms)

/* The operands of a layer. */
typedef struct operands {
    dt__bench *b;
    const dt_bench_conv *layer;
    dt__conv conv;
    dt_tensor *x, *w, *y;
    dt__codes *codes_x, *codes_w[FORMS];
    void *scratch, *float_scratch;
} operands;

typedef struct subject {
    operands *o;
    int form;
    void *rival;
} subject;

/* ---- work ------------------------------------------------------------------------------------ */

static dt__fq of_samples(void)
{
    dt__fq fq = { .quant = dt_activation_quant_defaults(), .samples = true };
    fq.quant.granularity = DT_PER_SAMPLE;
    return fq;
}

static dt__qconv qconv_of(const operands *o, const dt__codes *x, const dt__codes *w)
{
    return (dt__qconv){ .conv = &o->conv,
                        .layout = &w->layout,
                        .panels = w->panels,
                        .u = x->u,
                        .ldu = x->stride,
                        .sx = x->scale,
                        .zu = x->zero_u,
                        .y = dt__values_mut(o->y),
                        .threads = dt_threads(o->b->ctx),
                        .scratch = o->scratch };
}

static dt_status run_integer(void *user)
{
    const subject *s = user;
    const operands *o = s->o;
    dt__codes *x = NULL;
    if (forms[s->form].quantizes) {
        const dt__fq fq = of_samples();
        DT__TRY(dt__codes_make(o->x, &fq, "x", &x));
    }
    const dt__qconv q = qconv_of(o, x != NULL ? x : o->codes_x, o->codes_w[s->form]);
    dt__qconv_run(dt__kernels_of(o->b->ctx, DT_F32), &q);
    dt__codes_release(x);
    return DT_OK;
}

static dt__conv_work float_work(const operands *o)
{
    return (dt__conv_work){ .conv = &o->conv,
                            .x = dt__values(o->x),
                            .w = dt__values(o->w),
                            .to_y = dt__values_mut(o->y),
                            .scratch = o->float_scratch };
}

static dt_status run_float(void *user)
{
    const subject *s = user;
    const dt__conv_work w = float_work(s->o);
    dt__conv_compute(s->o->b->ctx, dt__kernels_of(s->o->b->ctx, DT_F32), &w);
    return DT_OK;
}

static dt_status run_rival(void *user)
{
    const subject *s = user;
    s->o->b->options.rival.run(s->rival);
    return DT_OK;
}

/* ---- operands -------------------------------------------------------------------------------- */

static dt_status random_tensor(dt_ctx *ctx, const int64_t dims[4], dt_tensor **out)
{
    DT__TRY(dt_tensor_create(ctx, DT_F32, 4, dims, out));
    return dt_fill_normal(*out, 0, 1);
}

static dt_status make_scratch(operands *o)
{
    const dt__conv_work work = float_work(o);
    size_t bytes = 0, of_floats;
    DT__TRY(dt__conv_plan(o->b->ctx, dt__kernels_of(o->b->ctx, DT_F32), &work, &of_floats));
    for (int i = 0; i < FORMS; i++) {
        const dt__qconv q = qconv_of(o, o->codes_x, o->codes_w[i]);
        const size_t wanted = dt__qconv_scratch(&q);
        bytes = wanted > bytes ? wanted : bytes;
    }
    o->scratch = dt__alloc(o->b->ctx, bytes);
    o->float_scratch = dt__alloc(o->b->ctx, of_floats);
    return o->scratch == NULL || o->float_scratch == NULL ? DT_ERR_NOMEM : DT_OK;
}

static dt_status make_operands(dt__bench *b, const dt_bench_conv *l, operands *o)
{
    const int64_t to = (l->size - 1) / l->stride + 1;
    *o = (operands){ .b = b, .layer = l };
    o->conv = (dt__conv){ .batch = l->batch,
                          .in = l->in,
                          .out = l->out,
                          .groups = l->groups,
                          .x_size = { l->size, l->size },
                          .y_size = { to, to },
                          .kernel = { 3, 3 },
                          .stride = { l->stride, l->stride },
                          .padding = { 1, 1 },
                          .dilation = { 1, 1 } };
    DT__TRY(random_tensor(b->ctx, (int64_t[]){ l->batch, l->in, l->size, l->size }, &o->x));
    DT__TRY(random_tensor(b->ctx, (int64_t[]){ l->out, l->in / l->groups, 3, 3 }, &o->w));
    DT__TRY(random_tensor(b->ctx, (int64_t[]){ l->batch, l->out, to, to }, &o->y));
    const dt__fq samples = of_samples();
    DT__TRY(dt__codes_make(o->x, &samples, "x", &o->codes_x));
    for (int i = 0; i < FORMS; i++) {
        const dt__fq fq = { .quant = forms[i].weight };
        DT__TRY(dt__codes_make(o->w, &fq, "w", &o->codes_w[i]));
    }
    return make_scratch(o);
}

static void free_operands(operands *o)
{
    dt_tensor *all[] = { o->x, o->w, o->y };
    for (int i = 0; i < DT__COUNT_OF(all); i++) dt_tensor_free(all[i]);
    dt__codes_release(o->codes_x);
    for (int i = 0; i < FORMS; i++) dt__codes_release(o->codes_w[i]);
    dt__release(o->b->ctx, o->scratch);
    dt__release(o->b->ctx, o->float_scratch);
    dt_memory_trim(o->b->ctx);
}

/* ---- comparisons ----------------------------------------------------------------------------- */

enum { LIMIT, FLOAT, FIRST, RIVAL = FIRST + FORMS, TRIALS };

static void set_trial(subject *s, const char *what, dt_status (*run)(void *subject), dt__trial *t)
{
    const dt_bench_conv *l = s->o->layer;
    const dt__conv *c = &s->o->conv;
    *t = (dt__trial){ .unit = "GMAC/s",
                      .work = (double)(l->batch * dt__conv_y_plane(c) * l->out *
                                       (l->in / l->groups) * 9),
                      .run = run,
                      .subject = s,
                      .limit = DT__NO_TRIAL };
    dt__bench_name(s->o->b, t->name, "convolutions/%lld-%lld%s/%lldx%lld/s%lld/%s",
                   (long long)l->in, (long long)l->out, l->groups > 1 ? "-depthwise" : "",
                   (long long)l->size, (long long)l->size, (long long)l->stride, what);
}

static void fill_trials(operands *o, subject *s, dt__trial *t)
{
    const bool rival = s[RIVAL].rival != NULL;
    set_trial(&s[FLOAT], "f32", run_float, &t[FLOAT]);
    for (int i = FIRST; i < RIVAL; i++) {
        s[i].form = i - FIRST;
        set_trial(&s[i], forms[s[i].form].name, run_integer, &t[i]);
        t[i].limit = LIMIT;
        t[i].ratio[0].trial = FLOAT;
        t[i].ratio[0].name = "f32";
        t[i].ratio[1].trial = RIVAL;
        t[i].ratio[1].name = rival ? o->b->options.rival.name : NULL;
    }
    if (rival) set_trial(&s[RIVAL], o->b->options.rival.name, run_rival, &t[RIVAL]);
}

static dt_status compare(dt__bench *b, const dt_bench_conv *layer)
{
    const dt_bench_rival *r = &b->options.rival;
    operands o;
    subject s[TRIALS];
    dt__trial t[TRIALS];
    dt__limit_subject limit = { .b = b };
    dt_status status = make_operands(b, layer, &o);
    for (int i = 0; i < TRIALS; i++) s[i] = (subject){ .o = &o };
    if (r->name != NULL && r->open_conv != NULL) {
        s[RIVAL].rival = r->open_conv(r->user, dt_threads(b->ctx), layer);
    }
    fill_trials(&o, s, t);
    if (status == DT_OK) status = dt__limit_trial(b, DT__LIMIT_INT8, &limit, &t[LIMIT]);
    if (status == DT_OK) status = dt__measure(b, s[RIVAL].rival != NULL ? TRIALS : RIVAL, t);
    if (s[RIVAL].rival != NULL) r->close(s[RIVAL].rival);
    dt__limit_free(&limit);
    free_operands(&o);
    return status;
}

dt_status dt__bench_convolutions(dt__bench *b)
{
    dt__team *const threads = dt__threads_enter(b->ctx);
    dt_status s = b->options.quick ? compare(b, &quick_layer) : DT_OK;
    for (int i = 0; s == DT_OK && !b->options.quick && i < DT__COUNT_OF(layers); i++) {
        s = compare(b, &layers[i]);
    }
    dt__threads_leave(threads);
    return s;
}
