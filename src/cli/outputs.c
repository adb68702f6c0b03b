/* What a command writes: a file that is there already stays as it is, unless --force is given. */
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

/* Devices and pipes can be written to as often as one likes; folders, and files that are read, are
 * the command's business. */
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
