/* own_module.c: a module type of one's own, a highway layer [Srivastava et al. 2015]:
 *     y = g h + (1 - g) x      h = relu(W x + b), g = sigmoid(V x + c)
 * trained by dt_run as a family of one's own, with options in structs, converted to int4, saved,
 * and loaded again. */
#include <detent/io.h>
#include <detent/experimental/train.h>

#include <stdio.h>
#include <stdlib.h>

/* ---- the module ------------------------------------------------------------------------------ */

typedef struct highway_options {
    int64_t width, layers;
} highway_options;

typedef struct highway {
    dt_module *carry[2], *relu, *sigmoid; /* W and V */
} highway;

static void highway_forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in,
                            dt_tensor **out, int n_out)
{
    highway *s = dt_module_state(m);
    (void)n_in;
    (void)n_out;
    const dt_link transform[] = { { s->carry[0], NULL }, { s->relu, NULL } };
    const dt_link gate[] = { { s->carry[1], NULL }, { s->sigmoid, NULL } };
    dt_tensor *h = dt_forward_chain(t, transform, 2, in[0]);
    dt_tensor *g = dt_forward_chain(t, gate, 2, in[0]);
    out[0] = dt_add(t, in[0], dt_mul(t, g, dt_sub(t, h, in[0])));
}

static const dt_module_type highway_type = { .name = "highway", .forward = highway_forward };

/* Adds a child; it stays lent in *lent. */
static dt_status adopt(dt_module *m, const char *name, dt_module *child, dt_module **lent)
{
    *lent = child;
    return dt_module_add(m, name, child);
}

static dt_status highway_create(dt_ctx *ctx, int64_t width, dt_module **out)
{
    static const char *const names[] = { "transform", "gate" };
    dt_module *m, *part = NULL;
    dt_status s = dt_module_create(ctx, &highway_type, sizeof(highway), &m);
    for (int i = 0; i < 2 && s == DT_OK; i++) {
        s = dt_linear_create(ctx, width, width, true, &part);
        if (s == DT_OK) s = adopt(m, names[i], part, &((highway *)dt_module_state(m))->carry[i]);
    }
    if (s == DT_OK) s = dt_activation_create(ctx, "relu", &part);
    if (s == DT_OK) s = adopt(m, "relu", part, &((highway *)dt_module_state(m))->relu);
    if (s == DT_OK) s = dt_activation_create(ctx, "sigmoid", &part);
    if (s == DT_OK) s = adopt(m, "sigmoid", part, &((highway *)dt_module_state(m))->sigmoid);
    if (s != DT_OK) dt_module_free(m);
    *out = s == DT_OK ? m : NULL;
    return s;
}

/* ---- the family ------------------------------------------------------------------------------ */

static const dt_key keys[] = {
    { "width", DT_KEY_INT, offsetof(highway_options, width), .least = 1, .most = 4096,
      .fallback = "32", .text = "extent of the hidden layers" },
    { "layers", DT_KEY_INT, offsetof(highway_options, layers), .least = 1, .most = 64,
      .fallback = "2", .text = "highway layers" },
    { 0 },
};

/* flatten, linear, highway layers, linear */
static dt_status create(dt_ctx *ctx, const void *options, dt_module **out)
{
    const highway_options *o = options;
    dt_module *m, *part = NULL;
    char name[24];
    dt_status s = dt_sequential_create(ctx, &m);
    for (int64_t i = 0; i < o->layers + 3 && s == DT_OK; i++) {
        snprintf(name, sizeof name, "%lld", (long long)i);
        s = i == 0              ? dt_flatten_create(ctx, &part)
            : i == 1            ? dt_linear_create(ctx, 784, o->width, true, &part)
            : i < o->layers + 2 ? highway_create(ctx, o->width, &part)
                                : dt_linear_create(ctx, o->width, 10, true, &part);
        if (s == DT_OK) s = dt_module_add(m, name, part);
    }
    if (s != DT_OK) dt_module_free(m);
    *out = s == DT_OK ? m : NULL;
    return s;
}

static const dt_family highways = {
    .name = "highway",
    .text = "highway layers between two linear ones",
    .keys = keys,
    .options_size = sizeof(highway_options),
    .create = create,
};

/* ---- training -------------------------------------------------------------------------------- */

static void evaluated(void *user, const dt_progress *p, const dt_metrics *m)
{
    (void)user;
    printf("%-5s step %3lld: %.1f %% of the validation images\n", p->phase, (long long)p->step,
           100 * dt_metric_value(m, "accuracy"));
}

static dt_status train(dt_ctx *ctx, const char *run)
{
    dt_recipe *recipe = NULL;
    dt_run_summary summary;
    const highway_options network = { .width = 48, .layers = 2 };
    const dt_run_control control = { .evaluated = evaluated };
    dt_recipe_options *o = malloc(sizeof *o);
    if (o == NULL) return DT_ERR_NOMEM;
    dt_status s = dt_recipe_defaults(ctx, o);
    o->run.dir = run;
    o->model.family_name = "highway";
    o->model.options = &network;
    o->data.format = DT_DATA_DIGITS;
    o->data.train_count = 2000;
    o->data.test_count = 400;
    o->data.validation = 0.1;
    o->train.epochs = 4;
    o->train.optimizer.lr = 0.003;
    o->qat.given = true;
    o->qat_schedule.start_step = 60;
    if (s == DT_OK) s = dt_recipe_create(ctx, "own_module", o, &recipe);
    if (s == DT_OK) s = dt_run(ctx, recipe, &control, &summary);
    if (s == DT_OK && !summary.same_bits_as_qat) s = DT_ERR_STATE;
    dt_recipe_free(recipe);
    free(o);
    return s;
}

/* The converted model from its file: the family is registered, so nothing else is needed. */
static dt_status load(dt_ctx *ctx, const char *run)
{
    char path[300];
    dt_module *m;
    dt_model_info info;
    snprintf(path, sizeof path, "%s/model.safetensors", run);
    const dt_status s = dt_model_load(ctx, path, &m, &info);
    if (s != DT_OK) return s;
    const highway_options *o = info.options;
    printf("loaded: family %s, width %lld, %lld highway layers, gate of the first: %s\n",
           info.family->name, (long long)o->width, (long long)o->layers,
           dt_module_at(m, "2.gate") == NULL ? "missing" : "there");
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    return DT_OK;
}

int main(void)
{
    char dir[] = "own_module.XXXXXX", run[64];
    dt_ctx *ctx;
    if (dt_ctx_create(&ctx, NULL) != DT_OK || mkdtemp(dir) == NULL) return 1;
    snprintf(run, sizeof run, "%s/run", dir);
    dt_status s = dt_family_register(ctx, &highways);
    if (s == DT_OK) s = train(ctx, run);
    if (s == DT_OK) s = load(ctx, run);
    if (s != DT_OK) fprintf(stderr, "%s\n", dt_error(ctx));
    dt_ctx_free(ctx);
    return s == DT_OK ? 0 : 1;
}
