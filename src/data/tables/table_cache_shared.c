/* Caches of tables that several processes use: one reads a table, the others wait and load its
 * cache. Outdated cache files of a table are removed. */
#define _DEFAULT_SOURCE /* flock */
#include "data/tables/table_cache.h"

#include "core/pace.h"
#include "core/system/system_calls.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

/* Does nothing if the file system has no locks. */
void dt__table_cache_lock(dt__table_cache *t)
{
    dt__pace pace = dt__pace_begin();
    t->lock = dt__sys_open(t->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (t->lock >= 0 && flock(t->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
        if (!dt__pace_is_due(&pace)) continue;
        dt__say(t->ctx, "'%s': waiting for another process, which reads a table into '%s'",
                t->table, t->folder);
    }
}

void dt__table_cache_unlock(dt__table_cache *t)
{
    if (t->lock >= 0) dt__sys_close(t->lock);
    t->lock = -1;
}

void dt__table_cache_remove_old(const dt__table_cache *t)
{
    const char *stem = strrchr(t->stem, '/') + 1;
    const size_t n = strlen(stem), same = n - DT__CACHE_HASH;
    int64_t removed = 0;
    DIR *folder = dt__sys_open_folder(t->folder);
    if (folder == NULL) return;
    for (const struct dirent *e = readdir(folder); e != NULL; e = readdir(folder)) {
        const char *name = e->d_name, *ending = strlen(name) > n ? name + n : "";
        if (strncmp(name, stem, same) != 0 || strncmp(name, stem, n) == 0) continue;
        if (strcmp(ending, ".table") != 0 && strncmp(ending, ".x", 2) != 0) continue;
        if (strspn(name + same, "0123456789abcdef") != DT__CACHE_HASH) continue;
        removed += unlinkat(dirfd(folder), name, 0) == 0;
    }
    closedir(folder);
    if (removed == 0) return;
    dt__say(t->ctx, "'%s': %lld files in '%s' of what it held before are removed", t->table,
            (long long)removed, t->folder);
}
