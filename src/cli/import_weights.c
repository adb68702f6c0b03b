/* `import --network`: reads the weights of a file, through a map of names, into the network that a
 * recipe describes. */
#include "cli/import_parts.h"
#include "cli/print/meter.h"
#include "cli/print/text.h"

static dt_status say(void *user, const char *text, size_t bytes)
{
    const import_weights *w = user;
    cli_tell(stderr, "%s: %.*s", w->from, (int)bytes, text);
    return DT_OK;
}

static int import_into(const cli_args *args, dt_ctx *ctx, const import_weights *w,
                       const dt_weight_map *map, const dt_model_options *model)
{
    const dt_model_info info = { .family = model->family, .options = model->options };
    dt_module *m = NULL;
    if (dt_model_blank(ctx, &info, &m) != DT_OK) return cli_fail_by(args, ctx);
    int status = CLI_DONE;
    meter_begin("import", w->quiet);
    dt_set_progress(ctx, meter_told, NULL);
    if (w->to != NULL) dt_expect_save(ctx, 4.0 * (double)dt_param_count(m));
    if (dt_weights_import(m, w->from, map, say, (void *)(uintptr_t)w) != DT_OK) {
        status = cli_fail_file(args, ctx);
    }
    if (w->to == NULL || w->check.inputs != NULL) meter_end();
    if (status == CLI_DONE && w->check.inputs != NULL) {
        status = import_check_run(args, ctx, &w->check, m);
    }
    if (status == CLI_DONE && w->to != NULL && dt_model_save(m, &info, w->to) != DT_OK) {
        status = cli_fail_by(args, ctx);
    }
    meter_end();
    if (status == CLI_DONE) {
        cli_say("%s: %lld parameter%s", w->to != NULL ? w->to : w->from,
                (long long)dt_param_count(m), CLI_S(dt_param_count(m)));
    }
    dt_module_free(m);
    return status;
}

static int check_network(const cli_args *args, const import_weights *w, const dt_model_options *m)
{
    if (m->family == NULL) {
        return cli_fail(args, CLI_USAGE, "%s has no 'model', which says what the network is",
                        w->network);
    }
    if (m->init == NULL) return CLI_DONE;
    return cli_fail(args, CLI_USAGE,
                    "%s has 'model.init', other weights for the network; leave it out, or override "
                    "it with ~model.init",
                    w->network);
}

static int with_network(const cli_args *args, dt_ctx *ctx, const import_weights *w,
                        const dt_weight_map *map)
{
    static const char *const reads[] = { "model", NULL };
    const dt_recipe_source source = {
        .path = w->network, .leave_files = true, .use = DT_RECIPE_TO_QUANTIZE, .reads = reads
    };
    dt_recipe *recipe = NULL;
    int status = cli_read_source(args, ctx, 1, &source, &recipe);
    if (status == CLI_DONE) {
        const dt_model_options *model = &dt_recipe_get(recipe)->model;
        status = check_network(args, w, model);
        if (status == CLI_DONE) status = import_into(args, ctx, w, map, model);
    }
    dt_recipe_free(recipe);
    return status;
}

int import_weights_run(const cli_args *args, dt_ctx *ctx, const import_weights *w)
{
    dt_weight_map map = { .n = 0 };
    dt_recipe *errors = NULL;
    int status = CLI_DONE;
    if (w->map != NULL) {
        const dt_status s = dt_weight_map_read(ctx, w->map, &map, &errors);
        if (s == DT_ERR_CONFIG) status = cli_print_errors(errors);
        else if (s != DT_OK) status = cli_fail_file(args, ctx);
    }
    if (status == CLI_DONE) status = with_network(args, ctx, w, &map);
    dt_recipe_free(errors);
    return status;
}
