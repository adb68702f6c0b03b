/* sensor_windows.c: from arrays to an integer model. Windows of three acceleration axes, a network
 * of 1-d convolutions written as a list of layers, training with int4 weights and int8 activations,
 * the model file, and a prediction from that file. */
#include <detent/io.h>
#include <detent/experimental/layers.h>
#include <detent/ops.h>
#include <detent/train.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { TRAINED = 1200, TESTED = 300, ALL = TRAINED + TESTED, LENGTH = 64, AXES = 3, CLASSES = 3 };

static const char *const names[CLASSES] = { "rest", "walk", "shake" };
static float windows[ALL][AXES][LENGTH];
static int32_t motion[ALL];
static const int64_t dims[] = { 1, AXES, LENGTH };

/* Stands in for a sensor: a slow swing, a fast one, or none, and noise. */
static void measure(void)
{
    uint32_t state = 1;
    for (int i = 0; i < ALL; i++) {
        motion[i] = i % CLASSES;
        const float rate = motion[i] == 1 ? 0.2F : 1.1F, size = motion[i] == 0 ? 0.0F : 0.6F;
        for (int a = 0; a < AXES; a++) {
            for (int t = 0; t < LENGTH; t++) {
                state = state * 1664525u + 1013904223u;
                const float noise = (float)(state >> 8) * 0x1p-24F - 0.5F;
                windows[i][a][t] = size * sinf(rate * (float)(t + 7 * i + 3 * a)) + noise;
            }
        }
    }
}

static dt_status make_dataset(dt_ctx *ctx, int first, int count, dt_dataset **out)
{
    dt_arrays a = { .count = count, .rank = 2, .dims = { AXES, LENGTH }, .borrow = true };
    a.x = windows[first]; /* f32 */
    a.y = motion + first;
    a.y_dtype = DT_ARRAY_I32;
    a.outputs = CLASSES;
    a.names = names;
    return dt_dataset_from_arrays(ctx, &a, out);
}

/* What a recipe file would say. */
static const char text[] =
    "run: {dir: run}\n"
    "model:\n"
    "  family: layers\n"
    "  input: [3, 64]\n"
    "  layers:\n"
    "  - {conv1d: c1, out: 16, kernel: 5, stride: 2, norm: batch, activation: relu}\n"
    "  - {conv1d: c2, out: 32, kernel: 5, stride: 2, norm: batch, activation: relu}\n"
    "  - flatten\n"
    "  - {linear: head, out: 3}\n"
    "data: {format: given}\n"
    "train: {epochs: 4, batch_size: 50, optimizer: {name: adamw, lr: 0.005}}\n"
    "qat: {preset: int8-dynamic-int4-weight, start_step: 40}\n";

static dt_status train(dt_ctx *ctx, dt_dataset *trained, dt_dataset *tested)
{
    dt_recipe *recipe;
    dt_run_summary end;
    const dt_recipe_source source = { .path = "sensors", .text = text, .bytes = sizeof text - 1 };
    const dt_run_control control = { .train = trained, .test = tested };
    dt_status s = dt_recipe_read(ctx, &source, &recipe);
    if (s == DT_OK) s = dt_run(ctx, recipe, &control, &end);
    if (s == DT_OK) {
        printf("float %.1f %%, int4 %.1f %% right; the bits of training: %s\n",
               100 * dt_metric_value(&end.result[DT_RUN_FLOAT].metrics, "accuracy"),
               100 * dt_metric_value(&end.result[DT_RUN_CONVERTED].metrics, "accuracy"),
               end.same_bits_as_qat ? "yes" : "no");
    }
    dt_recipe_free(recipe);
    return s;
}

/* The class of the last window, by the file alone. */
static dt_status predict(dt_ctx *ctx)
{
    dt_module *m = NULL;
    dt_tensor *x = NULL, *y = NULL;
    dt_tape *t = NULL;
    int best = 0;
    dt_status s = dt_model_load(ctx, "run/model.safetensors", &m, NULL);
    if (s == DT_OK) s = dt_tensor_from(ctx, DT_F32, 3, dims, windows[ALL - 1], &x);
    if (s == DT_OK) s = dt_tape_create(ctx, &t);
    if (s == DT_OK) dt_train(m, false);
    if (s == DT_OK) s = dt_forward_n(t, m, &x, 1, &y, 1);
    const float *score = s == DT_OK ? dt_data(dt_contiguous(t, y)) : NULL;
    if (s == DT_OK && score == NULL) s = dt_error_status(ctx);
    for (int k = 1; s == DT_OK && k < CLASSES; k++) best = score[k] > score[best] ? k : best;
    if (s == DT_OK) printf("last window: %s (it is %s)\n", names[best], names[motion[ALL - 1]]);
    dt_tape_free(t);
    dt_tensor_free(x);
    dt_module_free(m);
    return s;
}

int main(void)
{
    char dir[] = "sensor_windows.XXXXXX";
    dt_ctx *ctx;
    dt_dataset *trained = NULL, *tested = NULL;
    if (dt_ctx_create(&ctx, NULL) != DT_OK || mkdtemp(dir) == NULL || chdir(dir) != 0) return 1;
    measure();
    dt_status s = make_dataset(ctx, 0, TRAINED, &trained);
    if (s == DT_OK) s = make_dataset(ctx, TRAINED, TESTED, &tested);
    if (s == DT_OK) s = train(ctx, trained, tested);
    if (s == DT_OK) s = predict(ctx);
    if (s != DT_OK) fprintf(stderr, "%s\n", dt_error(ctx));
    dt_dataset_free(trained);
    dt_dataset_free(tested);
    dt_ctx_free(ctx);
    return s == DT_OK ? 0 : 1;
}
