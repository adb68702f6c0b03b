/* Forward passes of networks of integers alone (numerics §8), compared with the same networks in
 * float, in evaluation mode without gradients: prepared with preset device-int8, and converted. */
#include "bench/measure.h"
#include "bench/nets.h"

#include <detent/qat.h>

#include <string.h>

enum { FLOAT, PREPARED, CONVERTED, FORMS };

static const char *const names[FORMS] = { "float", "prepared", "converted" };

static const dt__net *const nets[] = { &dt__net_cnn, &dt__net_dscnn, &dt__net_mobilenet };

typedef struct subject {
    dt_ctx *ctx;
    dt_tape *t;
    dt_module *m;
    dt_tensor *x;
} subject;

static dt_status run(void *user)
{
    const subject *s = user;
    dt_tape_reset(s->t);
    dt_forward(s->t, s->m, s->x);
    return dt_tape_status(s->t);
}

/* The ranges observe one batch. */
static dt_status prepare(const subject *s, const dt__net *net, bool convert)
{
    dt_qat_options o = dt_qat_defaults();
    dt_shape example = { .rank = 3 };
    memcpy(example.dims, net->image, sizeof net->image);
    o.preset = DT_DEVICE_INT8;
    o.inputs = &example;
    o.n_inputs = 1;
    DT__TRY(dt_prepare(s->m, &o));
    DT__TRY(dt_observe(s->m, true));
    DT__TRY(run((void *)(uintptr_t)s));
    DT__TRY(dt_observe(s->m, false));
    return convert ? dt_convert(s->m, NULL, NULL) : DT_OK;
}

static dt_status make_model(const dt__net *net, int64_t batch, int form, subject *s)
{
    const int64_t dims[] = { batch, net->image[0], net->image[1], net->image[2] };
    DT__TRY(dt_tape_create(s->ctx, &s->t));
    DT__TRY(net->create(s->ctx, &s->m));
    DT__TRY(dt_tensor_create(s->ctx, DT_F32, 4, dims, &s->x));
    DT__TRY(dt_fill_uniform(s->x, 0, 1));
    dt_train(s->m, false);
    dt_no_grad(s->t, true);
    return form == FLOAT ? DT_OK : prepare(s, net, form == CONVERTED);
}

static dt_status make(dt__bench *b, const dt__net *net, int64_t batch, int form, subject *s)
{
    DT__TRY(dt__bench_ctx(b, dt_threads(b->ctx), &s->ctx));
    const dt_status status = make_model(net, batch, form, s);
    return status == DT_OK ? DT_OK : dt_fail(b->ctx, status, "%s", dt_error(s->ctx));
}

static void free_subject(subject *s)
{
    dt_tensor_free(s->x);
    dt_module_free(s->m);
    dt_tape_free(s->t);
    dt_ctx_free(s->ctx);
}

static dt_status compare(dt__bench *b, const dt__net *net, int64_t batch)
{
    subject s[FORMS] = { { 0 } };
    dt__trial t[FORMS];
    dt_status status = DT_OK;
    for (int i = 0; i < FORMS; i++) {
        if (status == DT_OK) status = make(b, net, batch, i, &s[i]);
        t[i] = (dt__trial){ .unit = "ms", .run = run, .subject = &s[i], .limit = DT__NO_TRIAL };
        t[i].ctx = s[i].ctx;
        dt__bench_name(b, t[i].name, "device/%s/b%lld/%s", net->name, (long long)batch, names[i]);
        if (i == FLOAT) continue;
        t[i].ratio[0].trial = FLOAT;
        t[i].ratio[0].name = names[FLOAT];
    }
    if (status == DT_OK) status = dt__measure(b, FORMS, t);
    for (int i = 0; i < FORMS; i++) free_subject(&s[i]);
    return status;
}

dt_status dt__bench_device(dt__bench *b)
{
    if (b->options.quick) return compare(b, nets[0], 2);
    for (int i = 0; i < DT__COUNT_OF(nets); i++) DT__TRY(compare(b, nets[i], 128));
    return DT_OK;
}
