/* cost(layer, choice) = loss of the float model with only this layer's weight rounded to nearest,
 * minus the loss of the float model. Inputs stay float. The loss is measured on validation data or,
 * without them, on training data without augmentation. */
#include "sweep/search.h"

#include "nn/module.h"
#include "qat/convert.h"
#include "qat/prepare.h"
#include "train/recipe/recipe.h"
#include "train/task/task.h"

#include <math.h>
#include <string.h>

#define MOST_EXAMPLES 8192

typedef struct measuring {
    const dt__search *s;
    const char *path; /* of the float model */
    dt_dataset *data; /* lent */
    int64_t examples, batch;
} measuring;

static dt_status loss_of(const measuring *c, dt_module *m, double *loss)
{
    dt_metrics metrics;
    const dt_evaluation how = { .batch_size = dt__min_i64(c->batch, c->examples) };
    const dt__evaluation e = { .m = m, .d = c->data, .options = &how, .examples = c->examples };
    const dt_status status = dt__evaluate(&e, &metrics, NULL);
    *loss = status == DT_OK ? metrics.loss : (double)INFINITY;
    return status == DT_ERR_NUMERIC ? DT_OK : status;
}

static dt_status disable(void *user, const char *path, dt_module *m)
{
    const char *kept = user;
    const bool weight = strcmp(path, kept) == 0 && dt__layer_quant(m) != NULL;
    dt__layer_enable(m, weight, false);
    return DT_OK;
}

static dt_status measure(const measuring *c, const dt__search_layer *l, dt__choice *choice)
{
    dt_module *m;
    double loss;
    DT__TRY(dt_model_load(c->s->ctx, c->path, &m, NULL));
    dt_status status = dt__search_prepare(c->s, m, l, choice, true);
    if (status == DT_OK) status = dt_module_visit_modules(m, disable, l->path);
    if (status == DT_OK) status = loss_of(c, m, &loss);
    if (status == DT_OK) choice->cost = loss;
    dt_module_free(m);
    return status;
}

static dt_status measure_float(const measuring *c, double *loss)
{
    dt_module *m;
    DT__TRY(dt_model_load(c->s->ctx, c->path, &m, NULL));
    const dt_status status = loss_of(c, m, loss);
    dt_module_free(m);
    return status;
}

static dt_status measure_all(measuring *c, dt__search *s)
{
    double whole;
    DT__TRY(measure_float(c, &whole));
    for (int64_t i = 0; i < s->n; i++) {
        for (int k = 0; k < s->layer[i].n; k++) {
            dt__choice *choice = &s->layer[i].choice[k];
            DT__TRY(measure(c, &s->layer[i], choice));
            choice->cost -= whole;
        }
    }
    return DT_OK;
}

dt_status dt__search_costs(dt__search *s, dt_recipe *recipe, const char *path)
{
    dt_dataset *train = NULL, *validation = NULL, *test = NULL;
    DT__TRY(dt_recipe_open_data(recipe, NULL, &train, &validation, &test));
    measuring c = { .s = s, .path = path, .batch = s->o->train.eval_batch_size };
    c.data = validation != NULL ? validation : train;
    const int64_t n = dt__min_i64(dt_dataset_count(c.data), MOST_EXAMPLES);
    c.examples = n < c.batch ? n : n / c.batch * c.batch;
    const dt_status status = measure_all(&c, s);
    dt_dataset_free(train);
    dt_dataset_free(validation);
    dt_dataset_free(test);
    return status;
}
