/* Finds the model's file where a command is given the folder of a run. */
#include "cli/cli.h"
#include "cli/print/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Names of files that dt_run writes. */
#define FLOAT_MODEL "float.safetensors"
#define ADAPTERS "adapters.safetensors"

typedef struct finding {
    const cli_args *args;
    dt_ctx *ctx;
    const char *word; /* the folder */
    char *path;       /* the path found; CLI_PATH bytes */
    int status;       /* an error was printed, if it is not CLI_DONE */
} finding;

/* Stops the search after a failure of the machine: a later candidate must not replace a file that
 * could not be read. */
static bool fail_by(finding *f)
{
    if (dt_error_of_machine(f->ctx)) f->status = cli_fail_by(f->args, f->ctx);
    return false;
}

static bool exists(finding *f, const char *path, struct stat *about)
{
    if (stat(path, about) == 0) return true;
    if (cli_exit_errno(errno) == CLI_FAILED) {
        f->status = cli_fail(f->args, CLI_FAILED, "%s: %s", path, strerror(errno));
    }
    return false;
}

/* Whether the folder holds a file; path = word/name. */
static bool holds(finding *f, const char *name, char path[CLI_PATH])
{
    struct stat about;
    size_t n = strlen(f->word);
    while (n > 1 && f->word[n - 1] == '/') n--;
    const int length = snprintf(path, CLI_PATH, "%.*s/%s", (int)n, f->word, name);
    return length > 0 && length < CLI_PATH && exists(f, path, &about);
}

/* A folder with config.json is a Hugging Face model, not a run. */
static bool is_run(finding *f)
{
    struct stat about;
    char path[CLI_PATH];
    if (!exists(f, f->word, &about) || !S_ISDIR(about.st_mode)) return false;
    return !holds(f, "config.json", path) && f->status == CLI_DONE &&
           (holds(f, "recipe.yaml", path) || holds(f, "checkpoints", path));
}

/* Finds the run's final model: the converted one or, without `qat`, the float one. */
static bool find_final(finding *f)
{
    char recipe_path[CLI_PATH], name[CLI_PATH] = "model.safetensors";
    dt_recipe *recipe = NULL;
    static const char *const reads[] = { "qat", "convert", "model.pack", NULL };
    const dt_recipe_source source = {
        .path = recipe_path, .leave_files = true, .saved = true, .reads = reads
    };
    if (!holds(f, "recipe.yaml", recipe_path)) {
        return f->status == CLI_DONE && holds(f, name, f->path);
    }
    if (dt_recipe_read(f->ctx, &source, &recipe) == DT_OK) {
        const dt_recipe_options *o = dt_recipe_get(recipe);
        const bool packs = o->model.pack || o->model.packing.given;
        snprintf(name, sizeof name, "%s",
                 o->qat.given ? o->convert.output
                 : packs      ? ADAPTERS
                              : FLOAT_MODEL);
    } else {
        fail_by(f);
    }
    dt_recipe_free(recipe);
    return f->status == CLI_DONE && holds(f, name, f->path);
}

static bool find_checkpoint(finding *f)
{
    char folder[CLI_PATH];
    if (!holds(f, "checkpoints", folder)) return false;
    if (dt_checkpoint_newest(f->ctx, folder, f->path, CLI_PATH, NULL) == DT_OK) return true;
    return fail_by(f);
}

static bool find_float(finding *f) { return holds(f, FLOAT_MODEL, f->path); }

/* Finds the packed result of a run with model.pack. */
static bool find_adapters(finding *f) { return holds(f, ADAPTERS, f->path); }

int cli_find_model(const cli_args *args, char path[CLI_PATH])
{
    typedef bool finder(finding * f);
    static finder *const finders[][3] = {
        [CLI_FINAL_MODEL] = { find_final, find_checkpoint, find_float },
        [CLI_FLOAT_MODEL] = { find_float, find_checkpoint, NULL },
        [CLI_TRAINED_MODEL] = { find_adapters, find_checkpoint, find_float },
    };
    finding f = { .args = args, .word = args->words[0], .path = path };
    finder *const *find = finders[args->command->model];
    if (!is_run(&f)) {
        snprintf(path, CLI_PATH, "%s", f.word);
        return f.status;
    }
    f.status = cli_open(args, 1, &f.ctx);
    if (f.status != CLI_DONE) return f.status;
    bool found = false;
    for (int i = 0; i < 3 && find[i] != NULL && !found && f.status == CLI_DONE; i++) {
        found = find[i](&f);
    }
    dt_ctx_free(f.ctx);
    if (f.status != CLI_DONE) return f.status;
    if (!found) {
        return cli_fail(args, CLI_BAD_FILE,
                        "the run %s has no model yet: it has no valid checkpoint", f.word);
    }
    cli_tell(stderr, "detent %s: of the run %s: %s", args->command->name, f.word, path);
    return CLI_DONE;
}
