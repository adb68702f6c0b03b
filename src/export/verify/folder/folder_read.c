/* Reads NAME.h: macros that format c writes for callers. */
#include "export/verify/folder/exported_folder.h"

#include "core/system/atomic_file.h"
#include "core/system/system_calls.h"
#include "data/file_map.h"
#include "export/verify/exported.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define MOST_COUNT ((int64_t)1 << 40)

static bool is_there(const char *folder, const char *name, const char *end)
{
    char path[PATH_MAX];
    struct stat about;
    const int n = snprintf(path, sizeof path, "%s/%s%s", folder, name, end);
    return n > 0 && n < PATH_MAX && stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

/* The first NAME, in alphabetical order, with files NAME.h, NAME.c and NAME_test.c. */
static bool find_name(const char *folder, char out[DT__FOLDER_NAME])
{
    DIR *d = dt__sys_open_folder(folder);
    const struct dirent *entry;
    *out = 0;
    if (d == NULL) return false;
    while ((entry = dt__sys_next_entry(d)) != NULL) {
        char name[DT__FOLDER_NAME];
        const size_t n = strlen(entry->d_name);
        if (n < 3 || n >= sizeof name || strcmp(entry->d_name + n - 2, ".h") != 0) continue;
        snprintf(name, sizeof name, "%.*s", (int)n - 2, entry->d_name);
        if (!is_there(folder, name, ".c") || !is_there(folder, name, "_test.c")) continue;
        if (*out == 0 || strcmp(name, out) < 0) memcpy(out, name, sizeof name);
    }
    closedir(d);
    return *out != 0;
}

bool dt__is_exported_folder(const char *path)
{
    char name[DT__FOLDER_NAME];
    return find_name(path, name);
}

/* The text after "#define NAME_WORD "; NULL: no such macro. */
static const char *macro(const char *text, const dt__folder_about *a, const char *word)
{
    char line[2 * DT__FOLDER_NAME];
    int n = snprintf(line, sizeof line, "#define %s_%s ", a->name, word);
    for (char *c = line + 8; *c != 0; c++) *c = (char)(*c >= 'a' && *c <= 'z' ? *c - 32 : *c);
    const char *at = strstr(text, line);
    return at == NULL ? NULL : at + n;
}

/* "784 / * elements of x, [28, 28, 1] * /" */
static bool read_end(const char *text, dt__folder_end *to)
{
    char *end;
    if (text == NULL) return false;
    const int64_t count = strtoll(text, &end, 10);
    const char *line = end + strcspn(end, "\n"), *open = strchr(end, '[');
    if (open == NULL || open > line) return false;
    to->count = 1;
    for (text = open; *text == '[' || *text == ','; text = end) {
        const int64_t extent = strtoll(text + 1, &end, 10);
        if (end == text + 1 && text[1] == ']') break; /* scalar */
        if (to->rank == DT_MAX_RANK - 1 || extent < 1 || extent > MOST_COUNT / to->count) {
            return false;
        }
        to->dims[to->rank++] = extent;
        to->count *= extent;
    }
    to->last = strncmp(end, "], channels last", 16) == 0;
    return to->count == count;
}

static dt_status read_header(dt_ctx *ctx, const char *shown, const char *text, dt__folder_about *a)
{
    const char *arena = macro(text, a, "ARENA_BYTES");
    a->codes = macro(text, a, "INPUT_SCALE") != NULL;
    a->arena = arena == NULL ? 0 : strtoll(arena, NULL, 10);
    if (a->codes && arena != NULL) { /* the first definition is with CMSIS-NN */
        const char *plain = macro(arena, a, "ARENA_BYTES");
        a->arena = plain == NULL ? 0 : strtoll(plain, NULL, 10);
    }
    if (macro(text, a, "INPUTS0") != NULL || macro(text, a, "OUTPUTS0") != NULL ||
        (macro(text, a, "INPUTS") == NULL && macro(text, a, "STATE_BYTES") != NULL)) {
        return dt_fail(
            ctx, DT_ERR_UNSUPPORTED,
            "%s: a language model, or one of several inputs or outputs, which is not run "
            "on data as C; its own self-test compares it with detent",
            shown);
    }
    if (read_end(macro(text, a, "INPUTS"), &a->in) &&
        read_end(macro(text, a, "OUTPUTS"), &a->out) && a->arena > 0 && a->arena <= MOST_COUNT) {
        a->in.last = a->in.last || (a->codes && a->in.rank == 3);
        a->out.last = a->out.last || (a->codes && a->out.rank == 3);
        return DT_OK;
    }
    return dt_fail(ctx, DT_ERR_FORMAT,
                   "%s: %s.h does not say inputs, outputs and arena as format c writes them", shown,
                   a->name);
}

dt_status dt__folder_read(dt_ctx *ctx, const char *folder, const char *shown, dt__folder_about *out)
{
    char path[PATH_MAX];
    void *map;
    size_t bytes;
    *out = (dt__folder_about){ .arena = 0 };
    if (!find_name(folder, out->name)) {
        return dt_fail(ctx, DT_ERR_FORMAT,
                       "%s: not a folder of format c: it has no NAME.h with NAME.c and NAME_test.c",
                       shown);
    }
    if (snprintf(path, sizeof path, "%s/%s.h", folder, out->name) >= (int)sizeof path) {
        return dt__file_fail(ctx, "open", shown, ENAMETOOLONG);
    }
    DT__TRY(dt__map_file(ctx, path, &map, &bytes));
    char *text = dt__alloc_zero(ctx, (uint64_t)bytes + 1);
    if (text != NULL && map != NULL) memcpy(text, map, bytes);
    if (map != NULL) munmap(map, bytes);
    const dt_status s = text == NULL ? DT_ERR_NOMEM : read_header(ctx, shown, text, out);
    dt__release(ctx, text);
    return s;
}
