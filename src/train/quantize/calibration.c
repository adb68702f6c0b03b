/* Calibration batches, from a separate loader, so that the training loader's position does not
 * change. */
#include "train/quantize/calibration.h"

#include "core/tensor.h"
#include "data/dataset.h"

#include <string.h>

dt_status dt__calibration_open(dt__calibration *c, dt_ctx *ctx, const dt_dataset *d,
                               const dt__calibration_choice *choice)
{
    const int64_t samples = dt__min_i64(choice->samples, dt__dataset_epoch(d, true));
    const dt_loader_options options = { .batch_size = choice->batch_size,
                                        .shuffle = true,
                                        .seed = (uint64_t)choice->seed };
    *c = (dt__calibration){ .ctx = ctx };
    DT__TRY(dt_loader_create(d, &options, &c->loader));
    c->batches = dt__ceil_div(samples, choice->batch_size);
    c->last = samples - (c->batches - 1) * choice->batch_size;
    return DT_OK;
}

void dt__calibration_close(dt__calibration *c)
{
    dt_tensor_free(c->part);
    dt_loader_free(c->loader);
    c->part = NULL;
    c->loader = NULL;
}

dt_status dt__calibration_batch(void *user, int64_t i, dt_tensor **x)
{
    dt__calibration *c = user;
    dt_tensor *target;
    DT__TRY(dt_loader_seek(c->loader, (dt_position){ .batch = i }));
    DT__TRY(dt_loader_next(c->loader, x, &target));
    if (i + 1 < c->batches || c->last == (*x)->dims[0]) return DT_OK;
    if (c->part == NULL) DT__TRY(dt_tensor_narrow(*x, 0, 0, c->last, &c->part));
    *x = c->part;
    return DT_OK;
}

/* Hashes each batch together with the digits of those before it, so that one batch is in memory at
 * a time. */
dt_status dt__calibration_hash(dt__calibration *c, char digits[DT__HASH_DIGITS + 1])
{
    digits[0] = 0;
    for (int64_t i = 0; i < c->batches; i++) {
        dt_tensor *x;
        DT__TRY(dt__calibration_batch(c, i, &x));
        const dt__span span[] = { { digits, strlen(digits) },
                                  { dt_data(x), (size_t)x->count * sizeof(float) } };
        DT__TRY(dt__hash_spans(c->ctx, span, DT__COUNT_OF(span), digits));
    }
    return DT_OK;
}

/* The logits of a language model are not needed and may be large: the head runs chunk by chunk as
 * in training, with arbitrary labels. */
static dt_tensor *forward(dt_tape *t, dt_module *m, dt_tensor *x)
{
    if (dt_module_type_of(m)->language == NULL) return dt_forward(t, m, x);
    return dt_token_loss(t, m, x, x, NULL, NULL);
}

dt_status dt__calibration_run(dt__calibration *c, dt_module *m, dt_tape *t)
{
    dt_no_grad(t, true);
    for (int64_t i = 0; i < c->batches; i++) {
        dt_tensor *x;
        dt_tape_reset(t);
        DT__TRY(dt__calibration_batch(c, i, &x));
        if (forward(t, m, x) == NULL) return dt_tape_status(t);
    }
    return DT_OK;
}

static dt_status observe(dt_module *m, const dt_dataset *d, const dt_recipe_options *o)
{
    dt__calibration c;
    dt_tape *t = NULL;
    dt_ctx *ctx = dt_module_ctx(m);
    int64_t images;
    const int64_t both[] = { o->qat_schedule.calibrate_batches, o->train.batch_size };
    if (!dt__product(2, both, &images)) images = INT64_MAX;
    const dt__calibration_choice choice = { images, o->train.batch_size, o->run.seed };
    dt_status status = dt__calibration_open(&c, ctx, d, &choice);
    if (status == DT_OK) status = dt_tape_create(ctx, &t);
    if (status == DT_OK) status = dt__calibration_run(&c, m, t);
    dt_tape_free(t);
    dt__calibration_close(&c);
    return status;
}

dt_status dt__observe_ranges(dt_module *m, const dt_dataset *d, const dt_recipe_options *o)
{
    const bool training = dt_is_training(m);
    DT__TRY(dt_enable(m, false));
    DT__TRY(dt_observe(m, true));
    dt_train(m, false);
    const dt_status status = observe(m, d, o);
    dt_train(m, training);
    dt_observe(m, false);
    dt_enable(m, true);
    return status;
}
