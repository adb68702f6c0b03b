/* Trains a small network, teaches it int4 weights and int8 activations, converts, saves, loads and
 * predicts: the loaded integer model answers with the very bits of the trained one. */
#include <detent/data.h>
#include <detent/io.h>
#include <detent/ops.h>
#include <detent/optim.h>
#include <detent/qat.h>

#include <stdio.h>
#include <string.h>

enum { BATCH = 64, FLOAT_STEPS = 300, QAT_STEPS = 150, IMAGES = 4000, TESTED = 500 };

static const char path[] = "train_mlp.safetensors";
static const dt_mlp_options network = { .sizes = { 4, { 784, 128, 64, 10 } }, .bias = true };

typedef struct example {
    dt_ctx *ctx;
    dt_tape *t;
    dt_module *m, *loaded;
    dt_optimizer *optimizer;
    dt_dataset *images[2];
    dt_loader *train, *test;
    float prepared[10 * TESTED];
} example;

static dt_status train(example *e, int steps, double lr)
{
    dt_train(e->m, true);
    for (int i = 0; i < steps; i++) {
        dt_tensor *x, *labels;
        dt_tape_reset(e->t);
        if (dt_loader_next(e->train, &x, &labels) != DT_OK) return dt_error_status(e->ctx);
        dt_zero_grad(e->m);
        dt_tensor *loss = dt_cross_entropy(e->t, dt_forward(e->t, e->m, x), labels, NULL);
        if (dt_backward(e->t, loss, NULL) != DT_OK) return dt_tape_status(e->t); /* of every op */
        if (dt_optimizer_step(e->optimizer, e->t, lr) != DT_OK) return dt_error_status(e->ctx);
    }
    return DT_OK;
}

/* Scores of the test images, lent by the tape; prints the share that is right. */
static const float *predict(example *e, dt_module *m, const char *what)
{
    dt_tensor *x, *labels;
    dt_tape_reset(e->t);
    dt_train(m, false);
    if (dt_loader_seek(e->test, (dt_position){ 0, 0 }) != DT_OK) return NULL;
    if (dt_loader_next(e->test, &x, &labels) != DT_OK) return NULL;
    const float *score = dt_data(dt_contiguous(e->t, dt_forward(e->t, m, x)));
    if (score == NULL) return NULL;
    const int32_t *label = dt_data(labels);
    int right = 0;
    for (int i = 0; i < TESTED; i++) {
        int best = 0;
        for (int k = 1; k < 10; k++) best = score[10 * i + k] > score[10 * i + best] ? k : best;
        right += best == label[i];
    }
    printf("%-10s %5.1f %% of %d test images\n", what, 100.0 * right / TESTED, TESTED);
    return score;
}

static dt_status make(example *e)
{
    const dt_loader_options shuffled = { .batch_size = BATCH, .shuffle = true };
    const dt_loader_options in_order = { .batch_size = TESTED };
    dt_status s = dt_tape_create(e->ctx, &e->t);
    if (s == DT_OK) s = dt_mlp_create(e->ctx, &network, &e->m);
    if (s == DT_OK) s = dt_optimizer_create(e->m, NULL, &e->optimizer); /* AdamW */
    if (s == DT_OK) s = dt_digits_create(e->ctx, IMAGES, 1, DT_TARGET_CLASS, &e->images[0]);
    if (s == DT_OK) s = dt_digits_create(e->ctx, TESTED, 2, DT_TARGET_CLASS, &e->images[1]);
    if (s == DT_OK) s = dt_loader_create(e->images[0], &shuffled, &e->train);
    return s == DT_OK ? dt_loader_create(e->images[1], &in_order, &e->test) : s;
}

static dt_status run(example *e)
{
    dt_status s = train(e, FLOAT_STEPS, 2e-3);
    if (s != DT_OK || predict(e, e->m, "float") == NULL) return dt_error_status(e->ctx);
    s = dt_prepare(e->m, NULL); /* int8 activations, int4 weights in groups of 32 */
    if (s != DT_OK || predict(e, e->m, "rounded") == NULL) return dt_error_status(e->ctx);
    if ((s = train(e, QAT_STEPS, 5e-4)) != DT_OK) return s;
    const float *score = predict(e, e->m, "qat");
    if (score == NULL) return dt_error_status(e->ctx);
    memcpy(e->prepared, score, sizeof e->prepared);
    dt_tape_reset(e->t);
    if ((s = dt_convert(e->m, NULL, NULL)) != DT_OK) return s;
    const dt_model_info info = { .family = dt_family_named(e->ctx, "mlp"), .options = &network };
    if ((s = dt_model_save(e->m, &info, path)) != DT_OK) return s;
    if ((s = dt_model_load(e->ctx, path, &e->loaded, NULL)) != DT_OK) return s;
    score = predict(e, e->loaded, "converted");
    if (score == NULL) return dt_error_status(e->ctx);
    if (memcmp(score, e->prepared, sizeof e->prepared) != 0) {
        return dt_fail(e->ctx, DT_ERR_STATE, "the converted model answers with other bits");
    }
    printf("%s answers with the same bits\n", path);
    return DT_OK;
}

int main(void)
{
    static example e; /* a program may have statics; the library has none */
    dt_status s = dt_ctx_create(&e.ctx, NULL);
    if (s == DT_OK) s = make(&e);
    if (s == DT_OK) s = run(&e);
    if (s != DT_OK) fprintf(stderr, "train_mlp: %s\n", dt_error(e.ctx));
    dt_loader_free(e.train);
    dt_loader_free(e.test);
    for (int i = 0; i < 2; i++) dt_dataset_free(e.images[i]);
    dt_optimizer_free(e.optimizer);
    dt_module_free(e.m);
    dt_module_free(e.loaded);
    dt_tape_free(e.t);
    dt_ctx_free(e.ctx);
    return s == DT_OK ? 0 : 1;
}
