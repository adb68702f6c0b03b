#include "core/system/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

void *dt__library_load(const char *file, const dt__function *functions, int n, void *table,
                       char why[256])
{
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        snprintf(why, 256, "%s", dlerror());
        return NULL;
    }
    for (int i = 0; i < n; i++) {
        void *f = dlsym(library, functions[i].name);
        if (f == NULL) {
            snprintf(why, 256, "%s has no %s", file, functions[i].name);
            return NULL;
        }
        memcpy((char *)table + functions[i].offset, &f, sizeof f);
    }
    return library;
}
