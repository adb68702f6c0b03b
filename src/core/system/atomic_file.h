/* Atomic writing of files, and messages of the operating system's errors. Also after a power
 * failure a file is either the old one or the new one. */
#ifndef DT__CORE_ATOMIC_FILE_H
#define DT__CORE_ATOMIC_FILE_H

#include "core/core.h"

#include <sys/types.h>

#define DT__TEMPORARY 256 /* bytes of a temporary file's name, including the suffix and NUL */

/* A file that is being written under a temporary name. */
typedef struct dt__new_file {
    dt_ctx *ctx;
    const char *path; /* as the caller gave it, lent, for messages */
    char name[256];   /* in the folder; where the path is a link, the name that it leads to */
    char temporary[DT__TEMPORARY]; /* name in the same folder; "": none */
    mode_t mode;                   /* permissions of the old file; 0: there is none */
    int folder, descriptor;        /* -1: closed */
    int lock;      /* a second descriptor, which holds the lock until the rename; -1: closed */
    bool unsynced; /* without syncing: for files that can be made again */
    bool counted;  /* its bytes are planned work (dt__plan_work) */
    size_t bytes;  /* bytes written so far */
} dt__new_file;

/* Creates the temporary file in the folder of that path, or of the file that it links to, and
 * removes temporary files of the same path that killed programs left. Errors: IO, also if `path` is
 * a device, a folder or a pipe; then nothing is left to abandon. */
dt_status dt__file_begin(dt_ctx *ctx, const char *path, dt__new_file *file);
dt_status dt__file_write(dt__new_file *file, const void *data, size_t bytes);
/* Gives the file the permissions of the old one, syncs it, renames it, syncs the folder. After an
 * error the temporary file is removed, too. */
dt_status dt__file_commit(dt__new_file *file);
/* Removes the temporary file, if there is one. May be called again, and after a commit. */
void dt__file_abandon(dt__new_file *file);
/* Removes the temporary files in a folder whose programs were killed, of any path. */
void dt__file_remove_left(const char *folder);
/* Whether the second commit would overwrite what the first wrote. */
bool dt__file_is_same(const dt__new_file *a, const dt__new_file *b);

typedef struct dt__span {
    const void *data;
    size_t bytes;
} dt__span;

/* Writes the spans, one after the other, as the file `path`: begin, write and commit in one
 * call. */
dt_status dt__file_replace(dt_ctx *ctx, const char *path, const dt__span *span, int64_t count);

/* The same without waiting for the disk, which takes milliseconds: readers see the old file or the
 * new one, but after a power failure it may be neither. For files that can be made again. */
dt_status dt__file_replace_unsynced(dt_ctx *ctx, const char *path, const dt__span *span,
                                    int64_t count);

/* Records IO: "<path>: cannot <verb>: <the system's reason for `error`>". */
dt_status dt__file_fail(dt_ctx *ctx, const char *verb, const char *path, int error);

/* The end of a path, cut so that a message has room for other text. */
const char *dt__path_tail(const char *path);

/* Syncs the folder that holds the last name of `path`, so that the name survives a power failure.
 * Returns 0 or the error. Some file systems cannot sync folders (EINVAL); that is accepted. */
int dt__sync_around(const char *path);

/* Makes a folder and syncs its parent. Returns 0 or the error; EEXIST if something exists there. */
int dt__make_folder(const char *path);

#endif
