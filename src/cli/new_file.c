/* Writes files that a command never replaces: recipes, which the user may have edited. */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int cli_exit_errno(int error)
{
    static const int of_machine[] = { EIO, ENOSPC, EDQUOT, EFBIG, EMFILE, ENFILE, ENOMEM };
    for (size_t i = 0; i < sizeof of_machine / sizeof of_machine[0]; i++) {
        if (error == of_machine[i]) return CLI_FAILED;
    }
    return CLI_BAD_FILE;
}

/* Returns 0, or errno. */
static int write_all(int file, const char *text, size_t bytes)
{
    while (bytes > 0) {
        const ssize_t n = write(file, text, bytes);
        if (n < 0 && errno != EINTR) return errno;
        text += n > 0 ? n : 0;
        bytes -= (size_t)(n > 0 ? n : 0);
    }
    return 0;
}

int cli_write_new(const cli_args *args, const char *path, const char *text, size_t bytes)
{
    int file;
    do file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0666);
    while (file < 0 && errno == EINTR);
    if (file < 0) return cli_fail(args, cli_exit_errno(errno), "%s: %s", path, strerror(errno));
    int error = write_all(file, text, bytes);
    if (close(file) != 0 && errno != EINTR && error == 0) error = errno;
    if (error == 0) return CLI_DONE;
    unlink(path);
    return cli_fail(args, CLI_FAILED, "%s: cannot be written: %s", path, strerror(error));
}
