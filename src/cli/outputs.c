/* Checks of a command's outputs: an existing file is not overwritten unless --force is given. */
#include "cli.h"

#include <string.h>
#include <sys/stat.h>

static bool is_one_file(const struct stat *a, const char *path)
{
    struct stat b;
    return stat(path, &b) == 0 && a->st_dev == b.st_dev && a->st_ino == b.st_ino;
}

static bool is_read(const cli_args *args, const struct stat *about)
{
    int i = 0;
    while (i < args->n_words && !is_one_file(about, args->words[i])) i++;
    return i < args->n_words;
}

int cli_check_apart(const cli_args *args, const char *path)
{
    struct stat about;
    if (path == NULL || stat(path, &about) != 0 || !is_read(args, &about)) return CLI_DONE;
    return cli_fail(args, CLI_USAGE,
                    "%s would be written over: it is read; another output is wanted", path);
}

/* Refuses existing regular files. Devices and pipes are allowed; the command itself checks folders
 * and files that it also reads. */
static int check_output(const cli_args *args, const char *path, bool force)
{
    struct stat about;
    if (force || stat(path, &about) != 0 || !S_ISREG(about.st_mode)) return CLI_DONE;
    if (is_read(args, &about)) return CLI_DONE;
    return cli_fail(args, CLI_BAD_FILE, "%s: File exists; --force writes over it", path);
}

bool cli_forced(const cli_args *args)
{
    const cli_option *o = args->command->options;
    for (int i = 0; o[i].name != NULL; i++) {
        if (strcmp(o[i].name, "--force") == 0) return args->option[i] != NULL;
    }
    return false;
}

int cli_check_outputs(const cli_args *args)
{
    const cli_option *o = args->command->options;
    int status = CLI_DONE;
    for (int i = 0; o[i].name != NULL && status == CLI_DONE; i++) {
        if (!o[i].writes || args->option[i] == NULL) continue;
        status = check_output(args, args->option[i], cli_forced(args));
    }
    return status;
}
