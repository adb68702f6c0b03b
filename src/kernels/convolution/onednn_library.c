/* The functions of libdnnl, found by name. */
#if defined DETENT_ONEDNN
#include "kernels/convolution/onednn_library.h"

#include "core/system/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define NAME "libdnnl.so." TEXT(DNNL_VERSION_MAJOR)

dt__dnnl_library dt__dnnl;

static int (*get_threads)(void); /* of the OpenMP that the library is linked with, or NULL */
static void (*set_threads)(int);

static char why[256]; /* why the library could not be loaded; "": it was loaded */

static const dt__function functions[] = {
#define FUNCTION(name) { "dnnl_" #name, offsetof(dt__dnnl_library, name) },
    DT__DNNL_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

static void load(void)
{
    void *library = dt__library_load(NAME, functions, DT__COUNT_OF(functions), &dt__dnnl, why);
    if (library == NULL) return;
    void *get = dlsym(library, "omp_get_max_threads"), *set = dlsym(library, "omp_set_num_threads");
    memcpy(&get_threads, &get, sizeof get);
    memcpy(&set_threads, &set, sizeof set);
}

dt_status dt__dnnl_load(dt_ctx *ctx)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    if (why[0] == 0) return DT_OK;
    return dt_fail(ctx, DT_ERR_STATE,
                   "convolutions of floats need oneDNN (Debian: libdnnl2; or build detent with "
                   "-DDETENT_ONEDNN=OFF): %s",
                   why);
}

int dt__dnnl_threads(int threads)
{
    const int before = get_threads != NULL ? get_threads() : 0;
    if (set_threads != NULL && threads > 0 && threads != before) set_threads(threads);
    return before;
}
#else
typedef int dt__no_onednn_library; /* ISO C forbids an empty translation unit */
#endif
