/* Reads the description of a sweep and the recipes of all its runs, before any is trained. */
#include "sweep/sweep_plan.h"

#include "train/task/task.h"

#include <string.h>

/* ---- the keys of a description -------------------------------------------------------------- */

static const char *const method_names[] = { "grid", "random", "halving", NULL };

/* sweep_values.c reads `keys` and sweep_exclude.c reads `exclude`; the table names them for
 * messages. */
typedef struct description {
    dt_sweep_options o;
    const char *keys, *exclude;
} description;

#define AT(field) .offset = offsetof(dt_sweep_options, field)

const dt_key dt_sweep_keys[] = {
    { "keys", DT_KEY_STRING, .offset = offsetof(description, keys),
      .text = "keys of the recipe, each with a list of values or, not of a grid, a range {from: "
              "least, to: largest, scale: linear or log}" },
    { "exclude", DT_KEY_STRING, .offset = offsetof(description, exclude),
      .text = "rules, each a map of keys of the sweep with a value or a list of values; recipes "
              "with all values of a rule are left out" },
    { "method", DT_KEY_CHOICE, AT(method), .choices = method_names, .fallback = "grid",
      .text = "grid: all combinations; random: values that are drawn; halving: the same, trained "
              "briefly, of which the best are trained for longer" },
    { "dir", DT_KEY_PATH, AT(dir),
      .text = "folder of the sweep; default: run.dir of the recipe with -sweep behind it" },
    { "metric", DT_KEY_STRING, AT(metric),
      .text = "by which recipes are compared, on validation data where the recipe has them; "
              "default: the first of the task" },
    { "runs", DT_KEY_INT, AT(runs), .most = DT_SWEEP_RUNS, .fallback = "0",
      .text = "random, halving: how many recipes are drawn" },
    { "seed", DT_KEY_INT, AT(seed), .most = DT_NO_LIMIT, .fallback = "0",
      .text = "of what is drawn" },
    { "seeds", DT_KEY_INT, AT(seeds), .least = 1, .most = 100, .fallback = "1",
      .text = "runs of each recipe, with run.seed, run.seed + 1, ..." },
    { "folds", DT_KEY_INT, AT(folds), .most = 100, .fallback = "0",
      .text = "in place of seeds: cross-validation, runs of each recipe with data.split.fold 0, 1, "
              "... of so many folds, each of which is the test data once; at least 2; 0: none" },
    { "rungs", DT_KEY_INT, AT(rungs), .least = 2, .most = 10, .fallback = "3",
      .text = "halving: how often recipes are compared; the last rung trains as the recipe says" },
    { "reduce", DT_KEY_INT, AT(reduce), .least = 2, .most = 100, .fallback = "3",
      .text = "halving: of so many recipes one goes on, and is trained so many times longer" },
    { "most_runs", DT_KEY_INT, AT(most_runs), .least = 1, .most = DT_SWEEP_RUNS, .fallback = "256",
      .text = "a sweep of more runs is an error" },
    { 0 },
};

/* ---- checks --------------------------------------------------------------------------------- */

static bool is_known(const dt_recipe *file, const char *text)
{
    for (const dt__complaint *c = file->complaints; c != NULL; c = c->next) {
        if (c->text != NULL && strncmp(c->text, text, strlen(text)) == 0) return true;
    }
    return false;
}

/* Where to insert an error: errors are in the order of their lines. */
static dt__complaint **place_of(dt_sweep *s, const dt__complaint *c)
{
    dt__complaint **place = &s->file->complaints;
    while (*place != NULL && ((*place)->origin < c->origin ||
                              ((*place)->origin == c->origin &&
                               ((*place)->line < c->line ||
                                ((*place)->line == c->line && (*place)->column <= c->column))))) {
        place = &(*place)->next;
    }
    return place;
}

/* Adds the errors of a recipe, each once. `run` NULL: they are errors of the recipe itself. Errors
 * in the recipe's own lines are caused by values that exclude each other, those of a short rung by
 * its lengths: they name the run. */
static void take_errors(dt_sweep *s, const dt__trial_run *run, const dt_recipe *recipe)
{
    const bool is_short = run != NULL && run->rung < dt__rung_count(s) - 1;
    const char *which =
        run == NULL ? ""
        : is_short  ? dt__recipe_format(s->file, " (in rung %lld of recipe %s of the sweep)",
                                        (long long)run->rung + 1, run->trial->name)
                    : dt__recipe_format(s->file, " (in recipe %s of the sweep)", run->trial->name);
    for (const dt__complaint *c = recipe->complaints; c != NULL; c = c->next) {
        if (c->text == NULL || is_known(s->file, c->text)) continue;
        const bool named = is_short || c->origin != DT__FROM_SWEEP;
        dt__complaint *copy = dt__recipe_alloc(s->file, sizeof *copy);
        if (copy == NULL) return;
        *copy = *c;
        copy->text = dt__recipe_format(s->file, "%s%s", c->text, named ? which : "");
        s->file->n_complaints++;
        dt__complaint **place = place_of(s, copy);
        copy->next = *place;
        *place = copy;
    }
}

/* Checks run.seed + seeds - 1, the last seed of a recipe. */
static void check_seed(dt_sweep *s, const dt__trial *t)
{
    if (s->o.folds > 0 || t->seed <= INT64_MAX - (s->o.seeds - 1)) return;
    dt__complain(s->file, s->file->root, "recipe %s has run.seed %lld, which leaves no %lld seeds",
                 t->name, (long long)t->seed, (long long)s->o.seeds);
}

/* Reads the recipe of a trial in a rung. `taken`: its errors are errors of the sweep; else the
 * first one is the reason why the trial is refused. The last rung also gives the lengths to
 * shorten. */
static dt_status check_trial(dt_sweep *s, dt__trial *t, int64_t rung, bool taken)
{
    const dt__trial_run run = { .trial = t, .rung = rung };
    dt_recipe *recipe;
    const dt_status status = dt__trial_recipe(s, &run, &recipe);
    if (status == DT_ERR_CONFIG && taken) {
        take_errors(s, &run, recipe);
    } else if (status == DT_ERR_CONFIG) {
        const char *text = recipe->complaints->text, *message = strstr(text, "error: ");
        t->refused = dt__recipe_format(s->file, "%s", message != NULL ? message + 7 : text);
        t->row.refused = t->refused;
        s->n_refused++;
    } else if (status == DT_OK && rung == dt__rung_count(s) - 1) {
        dt__trial_take(t, recipe);
        check_seed(s, t);
    }
    dt_recipe_free(recipe);
    return status == DT_ERR_CONFIG ? DT_OK : status;
}

/* Whether each value of a refused trial is also in a valid one. If so, its values exclude each
 * other, and the trial is left out; else one of its values is wrong, which is an error. */
static bool is_combination(const dt_sweep *s, const dt__trial *refused)
{
    for (int k = 0; k < s->n_keys; k++) {
        int64_t i = 0;
        while (i < s->n_trials &&
               (s->trial[i].refused != NULL || s->trial[i].value[k] != refused->value[k])) {
            i++;
        }
        if (i == s->n_trials) return false;
    }
    return s->n_keys > 0;
}

static dt_status check_trials(dt_sweep *s)
{
    const int64_t last = dt__rung_count(s) - 1;
    for (int64_t i = 0; i < s->n_trials; i++) DT__TRY(check_trial(s, &s->trial[i], last, false));
    for (int64_t i = 0; i < s->n_trials && s->file->n_complaints < DT__RECIPE_ERRORS; i++) {
        dt__trial *t = &s->trial[i];
        if (t->refused != NULL && !is_combination(s, t)) DT__TRY(check_trial(s, t, last, true));
    }
    return DT_OK;
}

/* Reads the recipes of a shorter rung, where every error counts. */
static dt_status check_short(dt_sweep *s, int64_t rung)
{
    for (int64_t i = 0; i < s->n_trials && s->file->n_complaints < DT__RECIPE_ERRORS; i++) {
        if (s->trial[i].refused == NULL) DT__TRY(check_trial(s, &s->trial[i], rung, true));
    }
    return DT_OK;
}

/* The first valid trial; there is one unless the sweep has errors. */
static const dt__trial *first_trial(const dt_sweep *s)
{
    const dt__trial *t = s->trial;
    while (t->refused != NULL) t++;
    return t;
}

/* Refuses rungs of the same length, which would repeat a comparison. */
static void check_rungs(dt_sweep *s)
{
    if (s->o.method != DT_SWEEP_HALVING || s->n_trials == 0) return;
    const int64_t *length = first_trial(s)->length;
    const int key = length[DT__LENGTH_STEPS] > 0 ? DT__LENGTH_STEPS : DT__LENGTH_EPOCHS;
    dt__node *at = dt__node_at(s->file, "rungs", NULL);
    if (dt__rung_length(s, 0, key, length[key]) < dt__rung_length(s, 1, key, length[key])) return;
    dt__complain(s->file, at != NULL ? at : s->file->root,
                 "the first two of %lld rungs would train equally long, as the recipe has %lld "
                 "%s; fewer rungs, a smaller 'reduce', or train.steps",
                 (long long)s->o.rungs, (long long)length[key],
                 key == DT__LENGTH_STEPS ? "updates" : "epochs");
}

static void check_options(dt_sweep *s)
{
    dt_recipe *file = s->file;
    dt__node *method = dt__node_at(file, "method", NULL), *runs = dt__node_at(file, "runs", NULL),
             *metric = dt__node_at(file, "metric", NULL);
    dt__node *folds = dt__node_at(file, "folds", NULL);
    if (s->o.folds == 1 || (s->o.folds > 0 && s->o.seeds > 1)) {
        dt__complain(file, folds != NULL ? folds : file->root,
                     s->o.folds == 1
                         ? "'folds' must be 0, or at least 2"
                         : "'folds' and 'seeds' both repeat runs; expected one of them");
    }
    if (s->o.method != DT_SWEEP_GRID && s->o.runs == 0 && runs == NULL) {
        dt__complain(file, method, "method '%s' requires 'runs', the number of recipes to draw",
                     method_names[s->o.method]);
    } else if (s->o.method != DT_SWEEP_GRID && s->o.runs == 0) {
        dt__complain(file, runs, "'runs' must be at least 1");
    }
    if (s->o.method == DT_SWEEP_GRID && runs != NULL) {
        dt__complain(file, runs,
                     "a grid has as many runs as its values; 'runs' is for method "
                     "random or halving");
    }
    if (metric != NULL && !metric->bad && !dt__page_metric_is_known(s->o.metric) &&
        dt_metric_named(s->ctx, s->o.metric) == NULL) {
        dt__complain(file, metric,
                     "no task has a metric %s; expected one such as loss, accuracy or r2 "
                     "(docs/run.md)",
                     dt__recipe_quote(file, metric));
    }
}

/* ---- the data ------------------------------------------------------------------------------- */

/* The names of metrics, for a message. */
static const char *list_metrics(dt_sweep *s, const dt_metric *const *metric, int n)
{
    const char *text = "";
    for (int i = 0; i < n; i++) {
        text = dt__recipe_format(s->file, "%s%s%s", text, i == 0 ? "" : ", ", metric[i]->name);
    }
    return text;
}

static dt_status check_metric_of(dt_sweep *s, const dt__trial *t, const dt_recipe *recipe,
                                 const dt_dataset *d)
{
    const dt_metric *metric[DT_MAX_METRICS];
    int n, i = 0;
    DT__TRY(dt__task_metrics(d, &recipe->options.train.metrics, metric, &n));
    while (i < n && strcmp(metric[i]->name, s->o.metric) != 0) i++;
    if (i < n) return DT_OK;
    dt__node *at = dt__node_at(s->file, "metric", NULL);
    dt__complain(s->file, at, "recipe %s has no metric %s; it has %s", t->name,
                 dt__recipe_quote(s->file, at), list_metrics(s, metric, n));
    return DT_OK;
}

/* Checks, with the data of the first recipe, that its task has the metric and the data can be cut
 * into folds. Both depend on the data: top5 needs more than five classes. */
static dt_status check_data(dt_sweep *s)
{
    if ((s->o.metric == NULL && s->o.folds == 0) || s->n_trials == 0) return DT_OK;
    const dt__trial_run run = { .trial = first_trial(s), .rung = dt__rung_count(s) - 1 };
    dt_dataset *train = NULL, *validation = NULL, *test = NULL;
    dt_recipe *recipe;
    dt_status status = dt__trial_recipe(s, &run, &recipe);
    const dt_data_options *o = status == DT_OK ? &dt_recipe_get(recipe)->data : NULL;
    if (status == DT_OK && (o->format != DT_DATA_GIVEN || o->source != NULL)) {
        status = dt_recipe_open_data(recipe, NULL, &train, &validation, &test);
        const dt_dataset *d = test != NULL ? test : validation != NULL ? validation : train;
        if (status == DT_ERR_CONFIG) take_errors(s, &run, recipe);
        else if (status == DT_OK && s->o.metric != NULL) {
            status = check_metric_of(s, run.trial, recipe, d);
        }
    }
    dt_dataset_free(train);
    dt_dataset_free(validation);
    dt_dataset_free(test);
    dt_recipe_free(recipe);
    return s->file->n_complaints > 0 ? DT_OK : status;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Removes a key from the tree; the table describes the other keys. */
static dt__node *take_key(dt_recipe *file, const char *name)
{
    if (file->root->kind != DT__MAP) return NULL;
    dt__node **place = &file->root->first;
    while (*place != NULL && strcmp((*place)->key->text, name) != 0) place = &(*place)->next;
    dt__node *found = *place;
    if (found == NULL) return NULL;
    *place = found->next;
    found->next = NULL;
    file->root->count--;
    return found;
}

static void mark(dt__node *node)
{
    if (node == NULL) return;
    node->origin = DT__FROM_SWEEP;
    if (node->key != NULL) node->key->origin = DT__FROM_SWEEP;
    for (dt__node *child = node->first; child != NULL; child = child->next) mark(child);
}

static void read_description(dt_sweep *s, const dt_sweep_source *source)
{
    description d = { 0 };
    dt_recipe *file = s->file;
    mark(file->root);
    dt__node *keys = take_key(file, "keys"), *exclude = take_key(file, "exclude");
    dt__recipe_fill_table(file, dt_sweep_keys, &d);
    s->o = d.o;
    if (source->seeds > 0) s->o.seeds = source->seeds;
    if (source->folds > 0) s->o.folds = source->folds;
    if (file->n_complaints > 0 || file->out_of_memory) return;
    check_options(s);
    if (keys == NULL && s->o.folds == 0)
        dt__complain(file, file->root, "missing key 'keys' (%s)", dt_sweep_keys[0].text);
    if (file->n_complaints > 0) return;
    if (s->o.folds > 0) s->o.seeds = s->o.folds; /* runs of each recipe */
    if (keys != NULL) dt__sweep_read_keys(s, keys);
    if (exclude != NULL && file->n_complaints == 0) dt__sweep_read_exclude(s, exclude);
    if (file->n_complaints == 0) dt__sweep_make_trials(s, keys == NULL ? file->root : keys);
}

/* Copies the recipe's settings that are needed later. */
static void keep_source(dt_sweep *s, const dt_recipe_source *source)
{
    const char **override =
        dt__recipe_alloc(s->file, ((size_t)source->n_overrides + 1) * sizeof *override);
    s->recipe = *source;
    s->recipe.path = dt__recipe_copy(s->file, source->path, strlen(source->path));
    if (source->text != NULL) {
        s->recipe.text = dt__recipe_copy(s->file, source->text, source->bytes);
    }
    for (int i = 0; i < source->n_overrides && override != NULL; i++) {
        override[i] = dt__recipe_copy(s->file, source->overrides[i], strlen(source->overrides[i]));
    }
    s->recipe.overrides = override;
}

/* Loads the plugins that the recipe names, since the description may use their names. Errors of the
 * recipe are reported later. */
static dt_status load_plugins(dt_sweep *s)
{
    static const char *const reads[] = { "run", NULL };
    dt_recipe_source source = s->recipe;
    dt_recipe *recipe = NULL;
    source.reads = reads;
    source.leave_files = source.told = true;
    const dt_status status = dt_recipe_read(s->ctx, &source, &recipe);
    dt_recipe_free(recipe);
    return status == DT_ERR_NOMEM ? status : DT_OK;
}

/* Stores run.folds of the recipe, and refuses them unless the description or the command line says
 * how many folds the sweep trains. */
static void take_folds(dt_sweep *s, int64_t folds)
{
    s->base_folds = folds;
    if (folds == 0 || s->o.folds > 0 || dt__node_at(s->file, "folds", NULL) != NULL) return;
    dt__complain(s->file, s->file->root,
                 "recipe %s has run.folds %lld; in a sweep 'folds: %lld' of its description "
                 "trains them, and 'folds: 0' trains none",
                 s->recipe.path, (long long)folds, (long long)folds);
}

/* Reads the recipe without values of the sweep: to report its own errors, and for the sweep's
 * folder. */
static dt_status read_base(dt_sweep *s)
{
    dt_recipe *base;
    const dt_status status = dt_recipe_read(s->ctx, &s->recipe, &base);
    if (status == DT_ERR_CONFIG) take_errors(s, NULL, base);
    else if (status != DT_OK) return status;
    if (status == DT_OK) take_folds(s, dt_recipe_get(base)->run.folds);
    s->tests = status == DT_OK && dt_recipe_get(base)->data.split.test > 0;
    if (status == DT_OK && s->o.dir == NULL) {
        const char *dir = dt_recipe_get(base)->run.dir;
        size_t n = strlen(dir);
        while (n > 1 && dir[n - 1] == '/') n--;
        s->o.dir = dt__recipe_format(s->file, "%.*s-sweep", (int)n, dir);
    }
    dt_recipe_free(base);
    return DT_OK;
}

static dt_status read_all(dt_sweep *s, const dt_sweep_source *source)
{
    dt_recipe *file = s->file;
    file->sweep_file = file->file;
    keep_source(s, &source->recipe);
    if (source->text != NULL) {
        file->root = dt__yaml_parse(file, source->text, source->bytes, DT__FROM_FILE);
    } else {
        DT__TRY(dt__recipe_parse_file(file));
    }
    if (file->root == NULL || file->out_of_memory) return DT_OK;
    DT__TRY(load_plugins(s));
    read_description(s, source);
    if (file->n_complaints > 0 || file->out_of_memory) return DT_OK;
    DT__TRY(read_base(s));
    const int64_t last = dt__rung_count(s) - 1;
    if (file->n_complaints == 0) DT__TRY(check_trials(s));
    if (file->n_complaints == 0) check_rungs(s);
    for (int64_t k = last - 1; k >= 0 && file->n_complaints == 0; k--) DT__TRY(check_short(s, k));
    return file->n_complaints == 0 ? check_data(s) : DT_OK;
}

dt_status dt_sweep_read(dt_ctx *ctx, const dt_sweep_source *source, dt_sweep **out)
{
    DT__NEED3(ctx, ctx, source, out);
    *out = NULL;
    if (source->path == NULL || source->recipe.path == NULL) {
        return dt_fail(ctx, DT_ERR_ARG, "dt_sweep_read: no path");
    }
    dt_recipe *file = dt__recipe_empty(ctx, source->path, "sweep");
    dt_sweep *s = file == NULL ? NULL : dt__recipe_alloc(file, sizeof *s);
    if (s == NULL) {
        dt_recipe_free(file);
        return DT_ERR_NOMEM;
    }
    *s = (dt_sweep){ .ctx = ctx, .file = file };
    dt_status status = read_all(s, source);
    if (status == DT_OK) status = dt__recipe_verdict(file);
    if (status == DT_OK || status == DT_ERR_CONFIG) *out = s;
    else dt_recipe_free(file);
    return status;
}

void dt_sweep_free(dt_sweep *s)
{
    if (s != NULL) dt_recipe_free(s->file);
}

int dt_sweep_error_count(const dt_sweep *s)
{
    if (s == NULL) return 0;
    return dt_recipe_error_count(s->file);
}

const char *dt_sweep_error_at(const dt_sweep *s, int i)
{
    if (s == NULL) return NULL;
    return dt_recipe_error_at(s->file, i);
}

const dt_sweep_options *dt_sweep_get(const dt_sweep *s) { return s == NULL ? NULL : &s->o; }
