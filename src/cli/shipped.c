/* The shipped recipes and their names. */
#include "cli/shipped.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENDING ".yaml"

static bool join(char path[SHIPPED_PATH], const char *folder, const char *name)
{
    const int n = snprintf(path, SHIPPED_PATH, "%s/%s", folder, name);
    return n > 0 && n < SHIPPED_PATH;
}

static int by_name(const void *a, const void *b) { return strcmp(a, b); }

static bool read_folder(shipped *s)
{
    DIR *folder = opendir(s->folder);
    if (folder == NULL) return false;
    const size_t tail = strlen(ENDING);
    errno = 0;
    for (const struct dirent *e; s->n < SHIPPED_MOST && (e = readdir(folder)) != NULL;) {
        const size_t n = strlen(e->d_name);
        if (n <= tail || n - tail >= sizeof s->names[0]) continue;
        if (strcmp(e->d_name + n - tail, ENDING) != 0) continue;
        memcpy(s->names[s->n], e->d_name, n - tail);
        s->names[s->n++][n - tail] = 0;
    }
    const bool whole = errno == 0;
    closedir(folder);
    if (!whole) return false;
    qsort(s->names, (size_t)s->n, sizeof s->names[0], by_name);
    return s->n > 0;
}

bool shipped_find(shipped *s)
{
    static const char *const beside[] = { "../share/detent/configs", "../configs",
                                          "../../configs" };
    char here[SHIPPED_PATH];
    *s = (shipped){ .n = 0 };
    const char *chosen = getenv("DETENT_CONFIGS");
    if (chosen != NULL) {
        const int n = snprintf(s->folder, sizeof s->folder, "%s", chosen);
        return n < SHIPPED_PATH && read_folder(s);
    }
    const ssize_t n = readlink("/proc/self/exe", here, sizeof here - 1);
    if (n <= 0) return false;
    here[n] = 0;
    char *slash = strrchr(here, '/');
    if (slash == NULL) return false;
    *slash = 0;
    for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++) {
        if (join(s->folder, here, beside[i]) && read_folder(s)) return true;
    }
    return false;
}

bool shipped_path(const shipped *s, const char *name, char path[SHIPPED_PATH])
{
    char file[80];
    snprintf(file, sizeof file, "%s%s", name, ENDING);
    return join(path, s->folder, file);
}
