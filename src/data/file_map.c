/* Maps a file into memory: pages are read when they are accessed. */
#include "data/file_map.h"

#include "core/system/atomic_file.h"
#include "core/system/open_file.h"
#include "core/system/system_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static dt_status map_descriptor(dt_ctx *ctx, const char *path, int descriptor, void **bytes,
                                size_t *size)
{
    struct stat about;
    if (fstat(descriptor, &about) != 0) return dt__file_fail(ctx, "read", path, errno);
    if (!S_ISREG(about.st_mode)) {
        return dt_fail(ctx, DT_ERR_IO, "cannot read '%s': it is not a regular file", path);
    }
    DT__TRY(dt__whole_size(ctx, path, about.st_size, size));
    if (*size == 0) return DT_OK;
    void *map = mmap(NULL, *size, PROT_READ, MAP_SHARED, descriptor, 0);
    if (map == MAP_FAILED) return dt__file_fail(ctx, "map", path, errno);
    const dt_status s = dt__check_fetched(ctx, path, map, *size);
    if (s == DT_OK) *bytes = map;
    else munmap(map, *size);
    return s;
}

dt_status dt__map_file(dt_ctx *ctx, const char *path, void **bytes, size_t *size)
{
    *bytes = NULL;
    *size = 0;
    const int descriptor = dt__sys_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return dt__file_fail(ctx, "open", path, errno);
    const dt_status status = map_descriptor(ctx, path, descriptor, bytes, size);
    dt__sys_close(descriptor);
    return status;
}
