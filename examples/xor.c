/* xor.c: a network of two layers learns the exclusive or. Prints what it has learned; the exit
 * status says whether all four answers are right. */
#include <detent/nn.h>
#include <detent/ops.h>
#include <detent/optim.h>

#include <math.h>
#include <stdio.h>

static const float inputs[4][2] = { { 0, 0 }, { 0, 1 }, { 1, 0 }, { 1, 1 } };
static const float answers[4] = { 0, 1, 1, 0 };

/* Everything that the program owns, so that there is one place to free it. */
typedef struct program {
    dt_ctx *ctx;
    dt_tape *tape;
    dt_module *net;
    dt_optimizer *optimizer;
    dt_tensor *x, *target;
} program;

/* dt_module_add passes on the error of whoever could not make the child. */
static dt_status build(program *p)
{
    dt_module *part = NULL;
    dt_linear_create(p->ctx, 2, 8, true, &part);
    dt_status s = dt_module_add(p->net, "hidden", part);
    if (s != DT_OK) return s;
    dt_activation_create(p->ctx, "tanh", &part);
    s = dt_module_add(p->net, "tanh", part);
    if (s != DT_OK) return s;
    dt_linear_create(p->ctx, 8, 1, true, &part);
    return dt_module_add(p->net, "out", part);
}

static dt_status set_up(program *p)
{
    dt_ctx_options options = dt_ctx_defaults();
    options.seed = 3;
    dt_status s = dt_ctx_create(&p->ctx, &options);
    if (s == DT_OK) s = dt_tape_create(p->ctx, &p->tape);
    if (s == DT_OK) s = dt_sequential_create(p->ctx, &p->net);
    if (s == DT_OK) s = build(p);
    if (s == DT_OK) s = dt_optimizer_create(p->net, NULL, &p->optimizer);
    if (s == DT_OK) s = dt_tensor_from(p->ctx, DT_F32, 2, (int64_t[]){ 4, 2 }, inputs, &p->x);
    if (s == DT_OK) s = dt_tensor_from(p->ctx, DT_F32, 2, (int64_t[]){ 4, 1 }, answers, &p->target);
    return s;
}

static dt_status train(program *p, int updates)
{
    for (int i = 0; i < updates; i++) {
        dt_tape_reset(p->tape);
        dt_zero_grad(p->net);
        dt_tensor *y = dt_sigmoid(p->tape, dt_forward(p->tape, p->net, p->x));
        dt_tensor *loss = dt_mean(p->tape, dt_square(p->tape, dt_sub(p->tape, y, p->target)), NULL);

        /* An error of any op above is reported here. */
        dt_status s = dt_backward(p->tape, loss, NULL);
        if (s == DT_OK) s = dt_optimizer_step(p->optimizer, p->tape, 0.05);
        if (s != DT_OK) return s;
        if (i % 100 == 0) printf("update %3d: loss %.6f\n", i, dt_item(loss));
    }
    return DT_OK;
}

/* How many of the four answers are right and sure. */
static int count_right(program *p)
{
    dt_tape_reset(p->tape);
    dt_no_grad(p->tape, true);
    dt_train(p->net, false);
    const dt_tensor *y = dt_sigmoid(p->tape, dt_forward(p->tape, p->net, p->x));
    const float *answer = y == NULL ? NULL : dt_data(y);
    int right = 0;
    for (int i = 0; i < 4 && answer != NULL; i++) {
        printf("%g xor %g = %.3f\n", (double)inputs[i][0], (double)inputs[i][1], (double)answer[i]);
        right += fabsf(answer[i] - answers[i]) < 0.1f;
    }
    return right;
}

static void clean_up(program *p)
{
    dt_tensor_free(p->x);
    dt_tensor_free(p->target);
    dt_optimizer_free(p->optimizer);
    dt_module_free(p->net);
    dt_tape_free(p->tape);
    dt_ctx_free(p->ctx);
}

int main(void)
{
    program p = { 0 };
    dt_status s = set_up(&p);
    if (s == DT_OK) s = train(&p, 500);
    if (s != DT_OK) fprintf(stderr, "%s: %s\n", dt_status_name(s), dt_error(p.ctx));
    const int right = s == DT_OK ? count_right(&p) : 0;
    clean_up(&p);
    return right == 4 ? 0 : 1;
}
