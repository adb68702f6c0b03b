/* host.c: trains a recipe with what a plugin registers on the context, and loads the converted
 * model again:  host PLUGIN.so RECIPE RUN_DIR  */
#include <detent/experimental/io.h>
#include <detent/experimental/train.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef dt_status (*plugin)(dt_ctx *ctx);

/* The plugin stays loaded as long as the context may call it: to the end. */
static dt_status add_plugin(dt_ctx *ctx, const char *path)
{
    plugin registers;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return dt_fail(ctx, DT_ERR_IO, "%s", dlerror());
    void *symbol = dlsym(library, "detent_plugin");
    if (symbol == NULL) return dt_fail(ctx, DT_ERR_FORMAT, "%s has no detent_plugin", path);
    memcpy(&registers, &symbol, sizeof registers);
    return registers(ctx);
}

static dt_status train(dt_ctx *ctx, const char *recipe_path, const char *run)
{
    char dir[512];
    dt_recipe *recipe = NULL;
    dt_run_summary summary;
    snprintf(dir, sizeof dir, "run.dir=%s", run);
    const dt_recipe_source source = { .path = recipe_path,
                                      .overrides = (const char *[]){ dir },
                                      .n_overrides = 1 };
    dt_status s = dt_recipe_read(ctx, &source, &recipe);
    if (s == DT_OK) s = dt_run(ctx, recipe, NULL, &summary);
    if (s == DT_OK && !summary.same_bits_as_qat) {
        s = dt_fail(ctx, DT_ERR_STATE, "the converted model answers with other bits");
    }
    dt_recipe_free(recipe);
    return s;
}

static dt_status load(dt_ctx *ctx, const char *run)
{
    char path[512];
    dt_module *m = NULL;
    dt_model_info info;
    snprintf(path, sizeof path, "%s/model.safetensors", run);
    const dt_status s = dt_model_load(ctx, path, &m, &info);
    if (s != DT_OK) return s;
    printf("loaded: family %s, %lld parameters\n", info.family->name, (long long)dt_param_count(m));
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    return DT_OK;
}

int main(int argc, char **argv)
{
    dt_ctx *ctx = NULL;
    if (argc != 4) {
        fprintf(stderr, "usage: host PLUGIN.so RECIPE RUN_DIR\n");
        return 2;
    }
    if (dt_ctx_create(&ctx, NULL) != DT_OK) return 1;
    dt_status s = add_plugin(ctx, argv[1]);
    if (s == DT_OK) s = train(ctx, argv[2], argv[3]);
    if (s == DT_OK) s = load(ctx, argv[3]);
    if (s != DT_OK) fprintf(stderr, "host: %s\n", dt_error(ctx));
    dt_ctx_free(ctx);
    return s == DT_OK ? 0 : 1;
}
