/* Finds the model's file if a command is given a run's folder. */
#include "cli.h"
#include "text.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Written by dt_run. */
#define FLOAT_MODEL "float.safetensors"
#define ADAPTERS "adapters.safetensors"

static bool join(char path[CLI_PATH], const char *folder, const char *name)
{
    struct stat about;
    size_t n = strlen(folder);
    while (n > 1 && folder[n - 1] == '/') n--;
    const int length = snprintf(path, CLI_PATH, "%.*s/%s", (int)n, folder, name);
    return length > 0 && length < CLI_PATH && stat(path, &about) == 0;
}

/* A folder with config.json is a Hugging Face model, not a run. */
static bool is_run(const char *word)
{
    struct stat about;
    char path[CLI_PATH];
    if (stat(word, &about) != 0 || !S_ISDIR(about.st_mode)) return false;
    return !join(path, word, "config.json") &&
           (join(path, word, "recipe.yaml") || join(path, word, "checkpoints"));
}

/* The run's final model: the converted one, or without `qat` the float one. */
static bool find_final(dt_ctx *ctx, const char *run, char path[CLI_PATH])
{
    char recipe_path[CLI_PATH], name[CLI_PATH] = "model.safetensors";
    dt_recipe *recipe = NULL;
    const dt_recipe_source source = { .path = recipe_path, .leave_files = true, .saved = true };
    if (!join(recipe_path, run, "recipe.yaml")) return join(path, run, name);
    if (dt_recipe_read(ctx, &source, &recipe) == DT_OK) {
        const dt_recipe_options *o = dt_recipe_get(recipe);
        const bool packs = o->model.pack || o->model.packing.given;
        snprintf(name, sizeof name, "%s",
                 o->qat.given ? o->convert.output
                 : packs      ? ADAPTERS
                              : FLOAT_MODEL);
    }
    dt_recipe_free(recipe);
    return join(path, run, name);
}

static bool find_checkpoint(dt_ctx *ctx, const char *run, char path[CLI_PATH])
{
    char folder[CLI_PATH];
    return join(folder, run, "checkpoints") &&
           dt_checkpoint_newest(ctx, folder, path, CLI_PATH, NULL) == DT_OK;
}

static bool find_float(dt_ctx *ctx, const char *run, char path[CLI_PATH])
{
    (void)ctx;
    return join(path, run, FLOAT_MODEL);
}

/* The end of a run with model.pack. */
static bool find_adapters(dt_ctx *ctx, const char *run, char path[CLI_PATH])
{
    (void)ctx;
    return join(path, run, ADAPTERS);
}

int cli_find_model(const cli_args *args, char path[CLI_PATH])
{
    typedef bool finder(dt_ctx * ctx, const char *run, char path[CLI_PATH]);
    static finder *const finders[][3] = {
        [CLI_FINAL_MODEL] = { find_final, find_checkpoint, find_float },
        [CLI_FLOAT_MODEL] = { find_float, find_checkpoint, NULL },
        [CLI_TRAINED_MODEL] = { find_adapters, find_checkpoint, find_float },
    };
    const char *word = args->words[0];
    finder *const *find = finders[args->command->model];
    if (!is_run(word)) {
        snprintf(path, CLI_PATH, "%s", word);
        return CLI_DONE;
    }
    dt_ctx *ctx = cli_ctx(args, 1);
    if (ctx == NULL) return CLI_FAILED;
    bool found = false;
    for (int i = 0; i < 3 && find[i] != NULL && !found; i++) found = find[i](ctx, word, path);
    dt_ctx_free(ctx);
    if (!found) {
        return cli_fail(args, CLI_BAD_FILE,
                        "%s is a run without a model so far: no good checkpoint", word);
    }
    cli_tell(stderr, "detent %s: of the run %s: %s", args->command->name, word, path);
    return CLI_DONE;
}
