/* Updates of one large parameter: AdamW and SGD with momentum, of plain fp32 and of a
 * FakeQuantTensor whose codes are renewed. Counts the bytes of parameter, gradient and state that
 * the formula reads and writes, 7 floats per element for AdamW and 5 for SGD, and the codes
 * written. */
#include "bench/measure.h"
#include "core/tensor.h"
#include "qat/quantized.h"

#include <detent/experimental/ops.h>
#include <detent/optim.h>
#include <detent/qat.h>

typedef struct work {
    const char *name;
    int optimizer;
    double momentum, floats; /* floats read and written per element */
    bool qat;
} work;

static const work tasks[] = { { "adamw", DT_ADAMW, 0, 7, false },
                              { "adamw-int4-group32", DT_ADAMW, 0, 7, true },
                              { "sgd-momentum", DT_SGD, 0.9, 5, false } };
#define TASKS DT__COUNT_OF(tasks)

typedef struct subject {
    dt_tape *t;
    dt_module *m;
    dt_optimizer *o;
    bool qat;
    double bytes;
} subject;

/* One update, and the renewal of codes for the next forward pass. */
static dt_status run(void *user)
{
    const subject *s = user;
    dt_tape_reset(s->t);
    DT__TRY(dt_optimizer_step(s->o, s->t, 1e-3));
    if (!s->qat) return DT_OK;
    dt__codes *codes;
    DT__TRY(dt__fq_codes(dt_param(s->m, "weight"), &codes));
    dt__codes_release(codes);
    return DT_OK;
}

/* One backward pass computes a gradient that all updates use. */
static dt_status make_gradient(dt__bench *b, subject *s, int64_t columns)
{
    dt_tensor *x;
    DT__TRY(dt_tensor_create(b->ctx, DT_F32, 2, (int64_t[]){ 4, columns }, &x));
    dt_status status = dt_fill_uniform(x, -1, 1);
    if (status == DT_OK) {
        dt_tensor *y = dt_mean(s->t, dt_square(s->t, dt_forward(s->t, s->m, x)), NULL);
        status = dt_backward(s->t, y, NULL);
    }
    dt_tape_reset(s->t);
    dt_tensor_free(x);
    return status;
}

static dt_status make(dt__bench *b, const work *task, int64_t rows, int64_t columns, subject *s)
{
    dt_optimizer_options o = dt_optimizer_defaults();
    o.name = task->optimizer;
    o.momentum = task->momentum;
    s->qat = task->qat;
    DT__TRY(dt_tape_create(b->ctx, &s->t));
    DT__TRY(dt_linear_create(b->ctx, columns, rows, false, &s->m));
    DT__TRY(dt_optimizer_create(s->m, &o, &s->o));
    if (task->qat) DT__TRY(dt_prepare(s->m, NULL));
    DT__TRY(make_gradient(b, s, columns));
    s->bytes = 4 * task->floats * (double)(rows * columns);
    if (!task->qat) return DT_OK;
    dt__codes *codes;
    DT__TRY(dt__fq_codes(dt_param(s->m, "weight"), &codes));
    s->bytes += (double)codes->layout.bytes;
    dt__codes_release(codes);
    return DT_OK;
}

static dt_status compare(dt__bench *b, int64_t rows, int64_t columns, bool cached)
{
    subject s[TASKS] = { { 0 } };
    dt__trial t[TASKS + 1];
    dt__limit_subject limit = { .b = b };
    dt_status status = DT_OK;
    if (!cached) status = dt__limit_trial(b, DT__LIMIT_COPY, &limit, &t[TASKS]);
    for (int i = 0; status == DT_OK && i < TASKS; i++) {
        status = make(b, &tasks[i], rows, columns, &s[i]);
        t[i] = (dt__trial){ .unit = "GB/s", .work = s[i].bytes, .run = run, .subject = &s[i] };
        t[i].limit = cached ? DT__NO_TRIAL : TASKS;
        dt__bench_name(b, t[i].name, "optimizer/%s/%s", tasks[i].name, cached ? "cache" : "memory");
    }
    if (status == DT_OK) status = dt__measure(b, cached ? TASKS : TASKS + 1, t);
    for (int i = 0; i < TASKS; i++) {
        dt_optimizer_free(s[i].o);
        dt_module_free(s[i].m);
        dt_tape_free(s[i].t);
    }
    dt__limit_free(&limit);
    dt_memory_trim(b->ctx);
    return status;
}

dt_status dt__bench_optimizer(dt__bench *b)
{
    const int64_t columns = 1024;
    DT__TRY(compare(b, b->options.quick ? 32 : 64, columns, true));
    return compare(b, (int64_t)(b->memory / 4) / columns, columns, false);
}
