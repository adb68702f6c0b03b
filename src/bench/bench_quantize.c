/* Quantization from fp32 to codes: weights into packed panels, activations into rows of u8, in
 * cache and from memory; a grouped weight compared with one of as many rows. Counts the bytes of
 * fp32 values read and of codes and scales written. */
#include "bench/measure.h"
#include "core/tensor.h"
#include "qat/quantized.h"

typedef struct work {
    const char *name;
    dt_quant_spec quant;
    int64_t experts; /* 0: the weight is not grouped */
} work;

#define GROUP(n)                                                                                   \
    {                                                                                              \
        .bits = 4, .granularity = DT_PER_GROUP, .group_size = n                                    \
    }

static const work tasks[] = {
    { "weight-int4-group32", GROUP(32), 0 },
    { "experts-int4-group32", GROUP(32), 4 },
    { "weight-int4-group128", GROUP(128), 0 },
    { "weight-int8-channel", { .bits = 8, .granularity = DT_PER_CHANNEL }, 0 },
    { "activation-int8-token",
      { .scheme = DT_SCHEME_ASYMMETRIC,
        .bits = 8,
        .granularity = DT_PER_TOKEN,
        .activation = true },
      0 },
};
#define TASKS DT__COUNT_OF(tasks)

typedef struct subject {
    const work *task;
    dt_tensor *x;
} subject;

static dt_status make_codes(const subject *s, dt__codes **out)
{
    const dt__fq fq = { .quant = s->task->quant, .map = dt__row_map_of_experts(s->task->experts) };
    return dt__codes_make(s->x, &fq, s->task->name, out);
}

static dt_status run(void *user)
{
    dt__codes *codes;
    DT__TRY(make_codes(user, &codes));
    dt__codes_release(codes);
    return DT_OK;
}

static dt_status bytes_of(const subject *s, double *bytes)
{
    dt__codes *codes;
    DT__TRY(make_codes(s, &codes));
    const double written = codes->panels != NULL
                               ? (double)codes->layout.bytes
                               : (double)(codes->rows * (codes->stride + codes->groups * 9));
    *bytes = 4 * (double)dt_count(s->x) + written;
    dt__codes_release(codes);
    return DT_OK;
}

/* x itself, or x viewed as experts with equal shares of its rows. */
static dt_status open_subject(const dt__bench *b, const dt_tensor *x, const work *task, subject *s)
{
    *s = (subject){ .task = task };
    DT__TRY(dt__view(b->ctx, x, &s->x));
    if (task->experts == 0) return DT_OK;
    s->x->rank = 3;
    s->x->dims[0] = task->experts;
    s->x->dims[1] = x->dims[0] / task->experts;
    s->x->dims[2] = x->dims[1];
    s->x->count = s->x->dims[0] * s->x->dims[1] * s->x->dims[2];
    dt__contiguous_strides(3, s->x->dims, s->x->strides);
    return DT_OK;
}

static dt_status compare(dt__bench *b, const dt_tensor *x, bool cached)
{
    subject s[TASKS] = { { .task = NULL } };
    dt__trial t[TASKS + 1];
    dt__limit_subject limit = { .b = b };
    dt_status status = DT_OK;
    if (!cached) status = dt__limit_trial(b, DT__LIMIT_COPY, &limit, &t[TASKS]);
    for (int i = 0; status == DT_OK && i < TASKS; i++) {
        status = open_subject(b, x, &tasks[i], &s[i]);
        if (status != DT_OK) break;
        t[i] = (dt__trial){ .unit = "GB/s", .run = run, .subject = &s[i] };
        t[i].limit = cached ? DT__NO_TRIAL : TASKS;
        dt__bench_name(b, t[i].name, "quantize/%s/%s", tasks[i].name, cached ? "cache" : "memory");
        status = bytes_of(&s[i], &t[i].work);
    }
    if (status == DT_OK) status = dt__measure(b, cached ? TASKS : TASKS + 1, t);
    for (int i = 0; i < TASKS; i++) dt_tensor_free(s[i].x);
    dt__limit_free(&limit);
    return status;
}

static dt_status with_values(dt__bench *b, int64_t rows, int64_t columns, bool cached)
{
    dt_tensor *x;
    DT__TRY(dt_tensor_create(b->ctx, DT_F32, 2, (int64_t[]){ rows, columns }, &x));
    dt_status s = dt_fill_normal(x, 0, 1);
    if (s == DT_OK) s = compare(b, x, cached);
    dt_tensor_free(x);
    dt_memory_trim(b->ctx);
    return s;
}

dt_status dt__bench_quantize(dt__bench *b)
{
    const int64_t columns = 1024;
    DT__TRY(with_values(b, b->options.quick ? 32 : 128, columns, true));
    return with_values(b, (int64_t)(b->memory / 4) / columns, columns, false);
}
