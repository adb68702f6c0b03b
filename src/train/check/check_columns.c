/* Checks which keys of `data` apply to tables in .csv files, and which to files with several
 * arrays: a key that would be ignored is an error. */
#include "train/recipe/recipe.h"

#include <detent/experimental/tables.h>

static void refuse(dt_recipe *r, const char *path, const char *whose, const char *files)
{
    dt__node *node = dt__given(r, path);
    if (node == NULL) return;
    dt__complain(r, node, "'%s' belongs to %s, which '%s' does not name", path, whose, files);
}

/* The keys of input or output i. */
static void check_side(dt_recipe *r, const char *list, int64_t i, bool table, const char *files)
{
    const char *block = dt__recipe_format(r, "%s.%lld", list, (long long)i);
    if (dt__has_bad(r, block)) return;
    if (table) refuse(r, dt__recipe_join(r, block, "tensor"), "files .npz or .safetensors", files);
    else refuse(r, dt__recipe_join(r, block, "columns"), "tables in .csv files", files);
}

bool dt__recipe_has_tables(const dt_recipe *r)
{
    const dt_data_options *d = &r->options.data;
    const dt_strings *names = d->train_tensors.given ? &d->train_tensors.x : &d->train;
    return names->n > 0 && dt_is_table(names->v[0]);
}

/* Not for recipes saved by runs, which may have keys without effect. */
void dt__recipe_check_columns(dt_recipe *r)
{
    const dt_data_options *d = &r->options.data;
    const dt_tensor_files *train = &d->train_tensors;
    const dt_strings *names = train->given ? &train->x : &d->train;
    if (r->saved || r->told || d->format != DT_DATA_TENSORS || dt__is_bad(r, "data.format") ||
        names->n == 0 || dt__is_bad(r, "data.train") || dt__has_bad(r, "data.train")) {
        return;
    }
    const bool inputs = dt__recipe_has_tables(r), apart = train->given && train->y != NULL;
    const char *x = train->given ? "data.train.x" : "data.train";
    if (!inputs) refuse(r, "data.columns", "tables in .csv files", x);
    for (int64_t i = 0; i < d->n_inputs; i++) check_side(r, "data.inputs", i, inputs, x);
    for (int64_t i = 0; i < d->n_outputs; i++) {
        check_side(r, "data.outputs", i, inputs && !apart, apart ? "data.train.y" : x);
    }
}
