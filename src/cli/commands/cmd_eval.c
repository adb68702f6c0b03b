/* detent eval: evaluates a saved model, or an exported file, on a recipe's test data, or on its
 * validation data if there are none. */
#include "cli/cli.h"
#include "cli/print/meter.h"
#include "cli/print/text.h"

#include <detent/experimental/export.h>

#include <math.h>
#include <stdio.h>

enum { JSON, OUTPUTS, CACHE, QUIET }; /* options, as in main.c */

/* Opens the data to evaluate on. Missing paths are errors of the recipe. */
static int open_data(const cli_args *args, dt_ctx *ctx, dt_recipe *recipe,
                     const dt_model_info *info, dt_dataset **test)
{
    dt_dataset *validation = NULL;
    const dt_status s = dt_recipe_open_data(recipe, info, NULL, &validation, test);
    if (*test == NULL) *test = validation;
    else dt_dataset_free(validation);
    if (s == DT_ERR_IO) return cli_fail(args, CLI_USAGE, "%s", dt_error(ctx));
    if (s != DT_OK) return cli_fail_recipe(args, ctx, recipe);
    if (*test == NULL) return cli_fail(args, CLI_USAGE, "the recipe has no test data");
    return CLI_DONE;
}

#define SHOWN 20 /* classes in the table, at most */

/* Figures by class, where targets are labels of examples; else `each` is NULL. */
typedef struct class_rows {
    dt_class_scores scores;
    const dt_dataset *d;
} class_rows;

static const char *const rates[] = { "examples", "precision", "recall", "f1", "average_precision" };
enum { RATES = sizeof rates / sizeof rates[0] };

static void print_class(const class_rows *c, int64_t i)
{
    const double *each = (const double *)dt_data(c->scores.each) + i * RATES;
    const char *name = dt_dataset_class_name(c->d, i);
    fputs(i == 0 ? "{\"class\": " : ", {\"class\": ", stdout);
    if (name != NULL) cli_json_string(name);
    else printf("%lld", (long long)i);
    for (int k = 0; k < RATES; k++) {
        printf(", \"%s\": ", rates[k]);
        cli_json_number(each[k]);
    }
    fputs("}", stdout);
}

static void print_classes_json(const class_rows *c)
{
    if (c->scores.each == NULL) return;
    const double all[] = { c->scores.balanced_accuracy, c->scores.average_precision,
                           c->scores.calibration_error };
    static const char *const names[] = { "balanced_accuracy", "average_precision",
                                         "calibration_error" };
    for (int i = 0; i < 3; i++) {
        printf(", \"%s\": ", names[i]);
        cli_json_number(all[i]);
    }
    fputs(", \"classes\": [", stdout);
    for (int64_t i = 0; i < dt_dim(c->scores.each, 0); i++) print_class(c, i);
    fputs("]", stdout);
}

static void print_classes(const class_rows *c)
{
    if (c->scores.each == NULL) return;
    cli_say("balanced_accuracy %.5f  average_precision %.5f  calibration_error %.5f",
            c->scores.balanced_accuracy, c->scores.average_precision, c->scores.calibration_error);
    const int64_t n = dt_dim(c->scores.each, 0);
    cli_table t = { .form = "lrrrrr" };
    cli_table_put(&t, "class");
    for (int k = 0; k < RATES; k++) cli_table_put(&t, rates[k]);
    for (int64_t i = 0; i < n && n <= SHOWN; i++) {
        const double *each = (const double *)dt_data(c->scores.each) + i * RATES;
        const char *name = dt_dataset_class_name(c->d, i);
        if (name != NULL) cli_table_put(&t, name);
        else cli_table_format(&t, "%lld", (long long)i);
        for (int k = 0; k < RATES; k++) {
            if (isnan(each[k])) cli_table_put(&t, "-");
            else cli_table_format(&t, k == 0 ? "%.0f" : "%.4f", each[k]);
        }
    }
    if (n <= SHOWN) cli_table_print(&t);
}

static void print_json(const dt_metrics *m, const class_rows *c)
{
    for (int i = 0; i < m->n; i++) {
        printf("%s\"%s\": ", i == 0 ? "{" : ", ", m->metric[i]->name);
        cli_json_number(m->value[i]);
    }
    printf(", \"examples\": %lld, \"samples_per_s\": ", (long long)m->examples);
    cli_json_number(m->samples_per_s);
    if (m->tokens_per_s > 0) {
        fputs(", \"tokens_per_s\": ", stdout);
        cli_json_number(m->tokens_per_s);
    }
    print_classes_json(c);
    puts("}");
}

static void print_metrics(const dt_metrics *m, const class_rows *c)
{
    const bool tokens = m->tokens_per_s > 0;
    cli_text l = { .used = 0 };
    for (int i = 0; i < m->n; i++) {
        if (isnan(m->value[i])) cli_text_add(&l, "%s -  ", m->metric[i]->name);
        else cli_text_add(&l, "%s %.5f  ", m->metric[i]->name, m->value[i]);
    }
    cli_text_add(&l, "examples %lld  %s/s %.0f", (long long)m->examples,
                 tokens ? "tokens" : "samples", tokens ? m->tokens_per_s : m->samples_per_s);
    cli_say("%s", l.text);
    print_classes(c);
}

static dt_status write_outputs(dt_ctx *ctx, const dt_tensor *outputs, const char *path)
{
    dt_writer *w;
    dt_status s = dt_writer_create(ctx, &w);
    if (s == DT_OK) s = dt_writer_add(w, "output", outputs);
    if (s == DT_OK) s = dt_writer_write(w, path);
    dt_writer_free(w);
    return s;
}

static void show_progress(void *user, int64_t done, int64_t all)
{
    (void)user;
    meter_count(done, all, NULL);
}

static int evaluate(const cli_args *args, dt_module *m, const dt_recipe *recipe,
                    const dt_dataset *test, int cache)
{
    dt_ctx *ctx = dt_module_ctx(m);
    const dt_recipe_options *o = dt_recipe_get(recipe);
    const dt_evaluation how = { .batch_size = o->train.eval_batch_size,
                                .metrics = o->train.metrics,
                                .cache = cache,
                                .progress = show_progress };
    const char *path = args->option[OUTPUTS];
    if (cache != DT_CACHE_F32 && dt_dataset_target(test) != DT_TARGET_TOKENS) {
        return cli_fail(args, CLI_USAGE, "--cache is for language models; the data must be tokens");
    }
    dt_metrics metrics;
    dt_tensor *outputs = NULL;
    meter_begin("eval", args->option[QUIET] != NULL);
    const bool labels = dt_dataset_target(test) == DT_TARGET_CLASS;
    class_rows classes = { .d = test };
    dt_set_progress(ctx, meter_told, NULL);
    dt_status s = dt_evaluate(m, test, &how, &metrics, path == NULL && !labels ? NULL : &outputs);
    if (s == DT_OK && path != NULL) s = write_outputs(ctx, outputs, path);
    if (s == DT_OK && labels) s = dt_class_scores_of(test, outputs, &classes.scores);
    dt_tensor_free(outputs);
    meter_end();
    if (s == DT_OK) (args->option[JSON] != NULL ? print_json : print_metrics)(&metrics, &classes);
    dt_tensor_free(classes.scores.each);
    if (s != DT_OK) return cli_fail_by(args, ctx);
    if (isfinite(metrics.loss)) return CLI_DONE;
    return cli_fail(args, CLI_NONFINITE, "%s: the loss is not finite: outputs are NaN or infinite",
                    args->words[0]);
}

/* Standardizes the data by the mean and deviation in the model's own file. */
static int standardize(const cli_args *args, dt_ctx *ctx, const dt_model_info *info,
                       dt_dataset *test)
{
    dt_model_data data;
    if (info->data == NULL) return CLI_DONE;
    if (dt_model_data_parse(ctx, info->data, args->words[0], &data) != DT_OK) {
        return cli_fail_file(args, ctx);
    }
    const dt_status s = dt_model_data_standardize(&data, test);
    dt_model_data_free(ctx, &data);
    if (s == DT_OK) return CLI_DONE;
    return cli_fail(args, CLI_BAD_FILE,
                    "%s: mean and deviation of the model do not fit the data: %s", args->words[0],
                    dt_error(ctx));
}

/* Loads a model; an exported file as a module that runs it by the interpreters of
 * `export --verify`, or compiled. */
static dt_status load(dt_ctx *ctx, const char *path, dt_module **m, dt_model_info *info)
{
    return dt_export_is_file(path) ? dt_export_open(ctx, path, m, info)
                                   : dt_model_load(ctx, path, m, info);
}

/* Says which --cache gives the figures of the recipe's run, if it trains with a cache. */
static void say_cache(const cli_args *args, const dt_recipe *recipe)
{
    const int cache = dt_recipe_get(recipe)->qat_schedule.cache;
    if (cache == DT_CACHE_F32 || args->option[CACHE] != NULL) return;
    fprintf(stderr,
            "detent eval: the recipe trains with qat.cache: %s; its figures are those of --cache "
            "%s\n",
            dt_cache_names[cache], dt_cache_names[cache]);
}

/* Loads the model before the data, so that a bad file fails at once. */
static int run(const cli_args *args, dt_ctx *ctx, int cache)
{
    dt_module *m = NULL;
    dt_recipe *recipe = NULL;
    dt_dataset *test = NULL;
    dt_model_info info;
    if (load(ctx, args->words[0], &m, &info) != DT_OK) return cli_fail_file(args, ctx);
    static const char *const reads[] = {
        "run", "data", "!data.augment", "train.eval_batch_size", "train.metrics", "qat.cache", NULL
    };
    int status = cli_read_recipe_of(args, ctx, "test data", reads, &recipe);
    if (status == CLI_DONE) status = open_data(args, ctx, recipe, &info, &test);
    if (status == CLI_DONE && dt_model_check_data(ctx, args->words[0], &info, test) != DT_OK) {
        status = cli_fail_file(args, ctx);
    }
    if (status == CLI_DONE) status = standardize(args, ctx, &info, test);
    if (status == CLI_DONE) {
        say_cache(args, recipe);
        status = evaluate(args, m, recipe, test, cache);
    }
    dt_dataset_free(test);
    dt_recipe_free(recipe);
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    return status;
}

int cli_eval(const cli_args *args, dt_ctx *ctx)
{
    const int apart = cli_check_apart(args, args->option[OUTPUTS]);
    if (apart != CLI_DONE) return apart;
    int cache = DT_CACHE_F32;
    const int status = cli_read_choice(args, CACHE, dt_cache_names, &cache);
    return status == CLI_DONE ? run(args, ctx, cache) : status;
}
