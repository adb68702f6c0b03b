/* Output files of a command: an existing one is replaced as a whole, and stderr says so. */
#include "cli/cli.h"
#include "cli/print/text.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static bool is_one_file(const struct stat *a, const char *path)
{
    struct stat b;
    return stat(path, &b) == 0 && a->st_dev == b.st_dev && a->st_ino == b.st_ino;
}

static bool is_read(const cli_args *args, const struct stat *about)
{
    const cli_option *o = args->command->options;
    bool read = false;
    for (int i = 0; i < args->n_words && !read; i++) read = is_one_file(about, args->words[i]);
    for (int i = 0; o[i].name != NULL && !read; i++) {
        read = o[i].reads && args->option[i] != NULL && is_one_file(about, args->option[i]);
    }
    return read;
}

int cli_check_apart(const cli_args *args, const char *path)
{
    struct stat about;
    if (path == NULL || stat(path, &about) != 0 || !is_read(args, &about)) return CLI_DONE;
    return cli_fail(args, CLI_USAGE, "%s would be overwritten: it is read; give another output",
                    path);
}

int cli_check_kept(const cli_args *args, const char *read)
{
    const cli_option *o = args->command->options;
    struct stat about;
    if (stat(read, &about) != 0) return CLI_DONE;
    for (int i = 0; o[i].name != NULL; i++) {
        const char *path = args->option[i];
        if (!o[i].writes || path == NULL || !is_one_file(&about, path)) continue;
        return cli_fail(args, CLI_USAGE, "%s would be overwritten: it is read; give another output",
                        path);
    }
    return CLI_DONE;
}

/* Whether a and b are the same path; the file need not exist. */
static bool is_one_path(const char *a, const char *b)
{
    char folder[2][CLI_PATH];
    const char *const path[] = { a, b }, *name[2];
    struct stat about;
    if (stat(a, &about) == 0 && S_ISREG(about.st_mode)) return is_one_file(&about, b);
    for (int i = 0; i < 2; i++) {
        const char *slash = strrchr(path[i], '/');
        name[i] = slash == NULL ? path[i] : slash + 1;
        const int n = slash == NULL ? 1 : (int)(slash + 1 - path[i]);
        if (n >= CLI_PATH) return false;
        snprintf(folder[i], CLI_PATH, "%.*s", n, slash == NULL ? "." : path[i]);
    }
    return strcmp(name[0], name[1]) == 0 && stat(folder[0], &about) == 0 &&
           is_one_file(&about, folder[1]);
}

int cli_check_outputs(const cli_args *args)
{
    const cli_option *o = args->command->options;
    for (int i = 0; o[i].name != NULL; i++) {
        const char *path = args->option[i];
        const bool is_output = o[i].writes || strcmp(o[i].name, "-o") == 0;
        if (is_output && !o[i].pipes && path != NULL && strcmp(path, "-") == 0) {
            return cli_fail(args, CLI_USAGE,
                            "%s is -, and this command does not write to standard output; a file "
                            "of that name is ./-",
                            o[i].name);
        }
        if (!o[i].writes || path == NULL) continue;
        for (int k = 0; k < i; k++) {
            const char *other = args->option[k];
            if (!o[k].writes || other == NULL) continue;
            if (!is_one_path(path, other)) continue;
            return cli_fail(args, CLI_USAGE, "%s and %s are one file, '%s'", o[k].name, o[i].name,
                            path);
        }
    }
    return CLI_DONE;
}

/* Whether writing `path` replaces a file. Commands check folders, and files that they also read,
 * themselves. */
static bool is_replaced(const cli_args *args, const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISREG(about.st_mode) && !is_read(args, &about);
}

void cli_say_replaced(const cli_args *args, const char *path)
{
    if (path == NULL || !is_replaced(args, path)) return;
    cli_tell(stderr, "%s exists and will be replaced", path);
}

void cli_say_all_replaced(const cli_args *args)
{
    const cli_option *o = args->command->options;
    for (int i = 0; o[i].name != NULL; i++) {
        if (o[i].writes) cli_say_replaced(args, args->option[i]);
    }
}
