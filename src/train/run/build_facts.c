/* Lists what this library was built with, and the libraries it runs with, one per line. */
#include "core/text/json.h"
#include "kernels/products/blas_library.h"
#include "kernels/sets.h"
#if defined DETENT_ONEDNN
#include "kernels/convolution/onednn_library.h"
#endif

#include <detent/experimental/train.h>

#include <stdio.h> /* for jpeglib.h */
#include <string.h>

#include <jpeglib.h>
#include <png.h>
#include <protobuf-c/protobuf-c.h>
#include <utf8proc.h>
#include <xxhash.h>
#include <yaml.h>
#include <zlib.h>

#if defined __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

/* Adds the line "name\tvalue\n". */
static void put(dt__chars *t, const char *name, const char *value)
{
    DT__PUT_ALL(t, name, "\t", value, "\n");
}

/* The selected kernels, and all that were built. */
static dt_status put_kernels(dt__chars *t)
{
    const char *chosen = dt_kernels_name(t->ctx);
    if (chosen == NULL) return dt_error_status(t->ctx);
    DT__PUT_ALL(t, "kernels\t", chosen, ", of");
    for (int i = 0; dt__kernel_set_at(i) != NULL; i++) {
        DT__PUT_ALL(t, i > 0 ? ", " : " ", dt__kernel_set_at(i)->name);
    }
    dt__put_text(t, "\n");
    return DT_OK;
}

static void put_linked(dt__chars *t)
{
    char xxhash[32];
    const unsigned v = XXH_versionNumber(); /* 801: 0.8.1 */
    snprintf(xxhash, sizeof xxhash, "%u.%u.%u", v / 10000, v / 100 % 100, v % 100);
    put(t, "libyaml", yaml_get_version_string());
    put(t, "zlib", zlibVersion());
    put(t, "libpng", png_get_libpng_ver(NULL));
    put(t, "libjpeg", "libjpeg-turbo " TEXT(LIBJPEG_TURBO_VERSION) " when it was built");
    put(t, "xxhash", xxhash);
    put(t, "utf8proc", utf8proc_version());
    put(t, "protobuf-c", protobuf_c_version());
}

/* Libraries that are loaded when first needed, and may be missing. */
static void put_loaded(dt__chars *t)
{
#if defined DETENT_ONEDNN
    char text[64];
    if (dt__dnnl_load(t->ctx) == DT_OK) {
        const dnnl_version_t *v = dt__dnnl.version();
        snprintf(text, sizeof text, "%d.%d.%d", v->major, v->minor, v->patch);
        put(t, "oneDNN", text);
    } else {
        put(t, "oneDNN", dt_error(t->ctx));
    }
#else
    put(t, "oneDNN", "not built in");
#endif
    const bool blas = dt__blas_load(t->ctx) == DT_OK;
    put(t, "BLAS", blas ? dt__blas.openblas_get_config() : dt_error(t->ctx));
}

dt_status dt_build_facts(dt_ctx *ctx, dt_sink sink, void *user)
{
    DT__NEED2(ctx, ctx, sink);
    dt__chars t = { .ctx = ctx };
    put(&t, "detent", DETENT_VERSION);
    put(&t, "compiler", COMPILER);
    put(&t, "options", DETENT_BUILT_WITH);
    dt_status s = put_kernels(&t);
    put_linked(&t);
    put_loaded(&t);
    const char *text = s == DT_OK ? dt__chars_text(&t) : NULL;
    if (s == DT_OK && text == NULL) s = DT_ERR_NOMEM;
    for (const char *end; s == DT_OK && *text != 0; text = end) {
        end = strchr(text, '\n') + 1;
        s = sink(user, text, (size_t)(end - text));
    }
    dt__release(ctx, t.bytes);
    return s;
}
