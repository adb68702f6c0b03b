/* Lists the input files of folders: .png, .jpg and .jpeg for a model of images, .wav and other
 * formats for recordings, .csv for tables, else .npy. Skips names that begin with a dot, as a shell
 * does. */
#include "cli/input_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { DEEPEST = 8, ENDINGS = 8, MOST_FILES = 1000000 };

static const char *const images[ENDINGS] = { ".png", ".jpg", ".jpeg" };
static const char *const sounds[ENDINGS] = { ".wav", ".flac", ".ogg", ".opus", ".aiff" };
static const char *const tables[ENDINGS] = { ".csv" };
static const char *const arrays[ENDINGS] = { ".npy" };

static const char *const *endings_of(const dt_model_data *data)
{
    if (data->pixels) return images;
    if (data->rate > 0) return sounds;
    return data->n_columns > 0 || data->table != NULL ? tables : arrays;
}

static bool ends_with(const char *name, const char *const *ending)
{
    const size_t n = strlen(name);
    for (int i = 0; i < ENDINGS && ending[i] != NULL; i++) {
        const size_t m = strlen(ending[i]);
        if (n > m && strcasecmp(name + n - m, ending[i]) == 0) return true;
    }
    return false;
}

/* Takes ownership of `path`. False: no memory, or too many files. */
static bool add(input_files *f, char *path)
{
    if (path != NULL && f->n == f->room && f->n < MOST_FILES) {
        const int room = f->room == 0 ? 64 : 2 * f->room;
        char **larger = realloc(f->path, (size_t)room * sizeof *larger);
        if (larger != NULL) f->path = larger, f->room = room;
    }
    if (path == NULL || f->n == f->room) {
        free(path);
        return false;
    }
    f->path[f->n++] = path;
    return true;
}

static char *join(const char *folder, const char *name)
{
    const size_t n = strlen(folder), size = n + strlen(name) + 2;
    char *path = malloc(size);
    const bool slash = n > 0 && folder[n - 1] == '/';
    if (path != NULL) snprintf(path, size, "%s%s%s", folder, slash ? "" : "/", name);
    return path;
}

/* Returns 0 or errno; ELOOP for folders deeper than DEEPEST, as those that link to themselves. */
static int add_folder(input_files *f, const char *folder, const char *const *ending, int depth)
{
    struct dirent **entry = NULL;
    const int n = scandir(folder, &entry, NULL, alphasort);
    int error = n < 0 ? errno : 0;
    for (int i = 0; i < n; i++) {
        const bool shown = error == 0 && entry[i]->d_name[0] != '.';
        char *path = shown ? join(folder, entry[i]->d_name) : NULL;
        if (shown && path == NULL) {
            error = ENOMEM;
        } else if (path != NULL && cli_is_folder(path)) {
            error = depth < DEEPEST ? add_folder(f, path, ending, depth + 1) : ELOOP;
            free(path);
        } else if (path != NULL && ends_with(path, ending)) {
            if (!add(f, path)) error = ENOMEM;
        } else {
            free(path);
        }
        free(entry[i]);
    }
    free(entry);
    return error;
}

static int refuse_empty(const cli_args *args, const char *folder, const char *const *ending)
{
    char list[64] = "";
    for (int i = 0; i < ENDINGS && ending[i] != NULL; i++) {
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s*%s", i > 0 ? ", " : "", ending[i]);
    }
    return cli_fail(args, CLI_BAD_FILE,
                    "'%s': a folder without files %s, which this model reads of folders", folder,
                    list);
}

int input_files_find(const cli_args *args, const dt_model_data *data, input_files *out)
{
    const char *const *ending = endings_of(data);
    for (int i = 1; i < args->n_words; i++) {
        const char *word = args->words[i];
        const int before = out->n;
        if (!cli_is_folder(word)) {
            if (!add(out, strdup(word))) return cli_fail(args, CLI_FAILED, "out of memory");
            continue;
        }
        const int error = add_folder(out, word, ending, 0);
        if (error != 0) {
            return cli_fail(args, cli_exit_errno(error), "%s: %s", word, strerror(error));
        }
        if (out->n == before) return refuse_empty(args, word, ending);
    }
    return CLI_DONE;
}

void input_files_free(input_files *f)
{
    for (int i = 0; i < f->n; i++) free(f->path[i]);
    free(f->path);
    *f = (input_files){ .n = 0 };
}
