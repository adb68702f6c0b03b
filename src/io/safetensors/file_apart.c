/* Whether an output would overwrite an input; compares files, not names. */
#include "io/safetensors/file_apart.h"

#include "core/system/atomic_file.h"
#include "core/system/system_calls.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Whether `file` is one of the files of a folder from which models and tokenizers are read, under
 * any name; *error: errno if the folder cannot be read. */
static bool holds(const char *folder, const struct stat *file, int *error)
{
    DIR *open = dt__sys_open_folder(folder);
    bool found = false;
    errno = open == NULL ? errno : 0;
    for (struct dirent *e = NULL;
         open != NULL && !found && (e = dt__sys_next_entry(open)) != NULL;) {
        struct stat s;
        const char *end = strrchr(e->d_name, '.');
        if (end == NULL || (strcmp(end, ".safetensors") != 0 && strcmp(end, ".json") != 0))
            continue;
        found = fstatat(dirfd(open), e->d_name, &s, 0) == 0 && is_same(&s, file);
    }
    *error = found ? 0 : errno;
    if (open != NULL) closedir(open);
    return found;
}

dt_status dt__file_apart(dt_ctx *ctx, const char *to, const char *from)
{
    struct stat a, b;
    if (from == NULL || stat(to, &a) != 0 || stat(from, &b) != 0) return DT_OK;
    const bool is_folder = S_ISDIR(b.st_mode);
    int error = 0;
    const bool overwritten = is_folder ? holds(from, &a, &error) : is_same(&a, &b);
    if (error != 0) return dt__file_fail(ctx, "read the folder", from, error);
    if (!overwritten) return DT_OK;
    return dt_fail(ctx, DT_ERR_IO, "%s: would be overwritten: it is %sread; give another output",
                   dt__path_tail(to), is_folder ? "in the folder that is " : "");
}
