#include "cluster/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef DETENT_LIBDIR
#define DETENT_LIBDIR "lib"
#endif

static bool is_there(const char *folder, const char *mpi, char *path, size_t room)
{
    const int n = snprintf(path, room, "%s/detent-%s.so", folder, mpi);
    return n > 0 && (size_t)n < room && access(path, R_OK) == 0;
}

bool dt__launcher_module(const char *mpi, char *path, size_t room)
{
    static const char *const beside[] = { "", "/../" DETENT_LIBDIR "/detent", "/..", "/../.." };
    char here[2048], folder[2200];
    const char *chosen = getenv("DETENT_MODULES");
    if (chosen != NULL) return is_there(chosen, mpi, path, room);
    const ssize_t n = readlink("/proc/self/exe", here, sizeof here - 1);
    if (n <= 0) return false;
    here[n] = 0;
    char *slash = strrchr(here, '/');
    if (slash == NULL) return false;
    *slash = 0;
    for (int i = 0; i < DT__COUNT_OF(beside); i++) {
        snprintf(folder, sizeof folder, "%s%s", here, beside[i]);
        if (is_there(folder, mpi, path, room)) return true;
    }
    return false;
}
