/* A mixture of experts by itself: learns a function that is a different linear map in each region,
 * is taught int4 weights and int8 activations, and converts; then looks at one expert of the
 * grouped parameter. */
#include <detent/experimental/nn.h>
#include <detent/optim.h>
#include <detent/qat.h>

#include <stdio.h>
#include <string.h>

enum { ROWS = 128, WIDTH = 32, REGIONS = 4, FLOAT_STEPS = 300, QAT_STEPS = 150 };

static const dt_moe_layer layer = {
    .width = WIDTH, .hidden = 64, .experts = 8, .top_k = 2, .normalize = true
};

typedef struct example {
    dt_ctx *ctx;
    dt_tape *t;
    dt_module *m;
    dt_optimizer *optimizer;
    dt_tensor *maps[REGIONS], *x, *target, *share;
    float prepared[ROWS * WIDTH];
} example;

/* New rows; the first elements of a row say which map it goes through. */
static void draw(example *e)
{
    dt_fill_normal(e->x, 0, 1);
    float *x = dt_data_mut(e->x), *target = dt_data_mut(e->target);
    for (int i = 0; i < ROWS; i++, x += WIDTH, target += WIDTH) {
        const float *map = dt_data(e->maps[i % REGIONS]);
        for (int k = 0; k < REGIONS; k++) x[k] = k == i % REGIONS ? 4 : 0;
        for (int o = 0; o < WIDTH; o++) {
            target[o] = 0;
            for (int k = 0; k < WIDTH; k++) target[o] += map[o * WIDTH + k] * x[k];
        }
    }
}

/* The loss of the task and a hundredth of that which keeps rows spread over the experts. */
static dt_tensor *loss_of(example *e, float *error)
{
    dt_tensor *out[2] = { NULL }; /* what the experts give, and the router's logits */
    dt_forward_n(e->t, e->m, &e->x, 1, out, 2);
    dt_tensor *loss = dt_mse(e->t, out[0], e->target, DT_REDUCE_MEAN);
    if (loss != NULL) *error = (float)dt_item(loss);
    dt_tensor *balance = dt_load_balance_loss(e->t, out[1], NULL);
    return dt_add(e->t, loss, dt_mul(e->t, balance, e->share));
}

static dt_status train(example *e, int steps, double lr, const char *what)
{
    float error = 0;
    for (int i = 0; i < steps; i++) {
        dt_tape_reset(e->t);
        draw(e);
        dt_zero_grad(e->m);
        if (dt_backward(e->t, loss_of(e, &error), NULL) != DT_OK) return dt_tape_status(e->t);
        if (dt_optimizer_step(e->optimizer, e->t, lr) != DT_OK) return dt_error_status(e->ctx);
    }
    printf("%-8s mean square error %.4f\n", what, (double)error);
    return DT_OK;
}

static const float *predict(example *e)
{
    dt_tape_reset(e->t);
    dt_train(e->m, false);
    return dt_data(dt_contiguous(e->t, dt_forward(e->t, e->m, e->x)));
}

/* One expert's matrix: a handle on a part of the parameter. */
static dt_status look(example *e)
{
    char text[2][96];
    dt_tensor *w = dt_param(e->m, "w_up.weight"), *third = dt_grouped_expert(w, 3);
    if (third == NULL) return dt_error_status(e->ctx);
    dt_describe(w, text[0], sizeof text[0]);
    dt_describe(third, text[1], sizeof text[1]);
    printf("w_up.weight: %s\nits expert 3: %s\n", text[0], text[1]);
    dt_tensor_free(third);
    return DT_OK;
}

static dt_status make(example *e)
{
    const int64_t rows[] = { ROWS, WIDTH }, square[] = { WIDTH, WIDTH };
    const float share = 0.01f;
    dt_status s = dt_tape_create(e->ctx, &e->t);
    if (s == DT_OK) s = dt_moe_create(e->ctx, &layer, &e->m);
    if (s == DT_OK) s = dt_optimizer_create(e->m, NULL, &e->optimizer); /* AdamW */
    if (s == DT_OK) s = dt_tensor_create(e->ctx, DT_F32, 2, rows, &e->x);
    if (s == DT_OK) s = dt_tensor_create(e->ctx, DT_F32, 2, rows, &e->target);
    if (s == DT_OK) s = dt_tensor_from(e->ctx, DT_F32, 0, NULL, &share, &e->share);
    for (int i = 0; i < REGIONS && s == DT_OK; i++) {
        s = dt_tensor_create(e->ctx, DT_F32, 2, square, &e->maps[i]);
        if (s == DT_OK) s = dt_fill_normal(e->maps[i], 0, 0.2);
    }
    return s;
}

static dt_status run(example *e)
{
    dt_status s = train(e, FLOAT_STEPS, 3e-3, "float");
    dt_tape_reset(e->t);
    if (s == DT_OK) s = dt_prepare(e->m, NULL); /* the router stays in float */
    if (s == DT_OK) s = train(e, QAT_STEPS, 1e-3, "qat");
    if (s == DT_OK) s = look(e);
    if (s != DT_OK) return s;
    const float *y = predict(e);
    if (y == NULL) return dt_error_status(e->ctx);
    memcpy(e->prepared, y, sizeof e->prepared);
    dt_tape_reset(e->t);
    if ((s = dt_convert(e->m, NULL, NULL)) != DT_OK || (s = look(e)) != DT_OK) return s;
    if ((y = predict(e)) == NULL) return dt_error_status(e->ctx);
    if (memcmp(y, e->prepared, sizeof e->prepared) != 0) {
        return dt_fail(e->ctx, DT_ERR_STATE, "the converted experts answer with other bits");
    }
    puts("the converted experts answer with the same bits");
    return DT_OK;
}

int main(void)
{
    static example e; /* a program may have statics; the library has none */
    dt_status s = dt_ctx_create(&e.ctx, NULL);
    if (s == DT_OK) s = make(&e);
    if (s == DT_OK) s = run(&e);
    if (s != DT_OK) fprintf(stderr, "experts: %s\n", dt_error(e.ctx));
    dt_optimizer_free(e.optimizer);
    dt_module_free(e.m);
    dt_tensor_free(e.x);
    dt_tensor_free(e.target);
    dt_tensor_free(e.share);
    for (int i = 0; i < REGIONS; i++) dt_tensor_free(e.maps[i]);
    dt_tape_free(e.t);
    dt_ctx_free(e.ctx);
    return s == DT_OK ? 0 : 1;
}
