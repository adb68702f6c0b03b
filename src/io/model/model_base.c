/* Finds the base of a file of adapters, and compares its hash. */
#include "io/model/model_base.h"

#include "nn/layers/lora.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MOST_ABOVE 3 /* parent folders in which a relative path is looked for */
#define PATH_SIZE 4096

typedef struct base {
    const char *path, *hash;
} base;

static const dt_key base_keys[] = {
    { "path", DT_KEY_STRING, .offset = offsetof(base, path), .fallback = "!" },
    { "xxh3", DT_KEY_STRING, .offset = offsetof(base, hash), .fallback = "!" },
    { 0 },
};

bool dt__has_base(const dt_file *file) { return dt_file_meta(file, DT__KEY_BASE) != NULL; }

/* The caller frees *strings. */
static dt_status read_text(dt_ctx *ctx, const char *file, const char *text, char **strings,
                           base *out)
{
    const size_t n = strlen(text);
    const unsigned char *begin = (const unsigned char *)text;
    *strings = dt__alloc(ctx, n + 1);
    if (*strings == NULL) return DT_ERR_NOMEM;
    dt__json j = { .ctx = ctx,
                   .path = file,
                   .what = DT__KEY_BASE,
                   .begin = begin,
                   .at = begin,
                   .end = begin + n,
                   .strings = *strings };
    DT__TRY(dt__json_options(&j, base_keys, out));
    DT__TRY(dt__json_end(&j));
    if (out->path != NULL && *out->path != 0 && out->hash != NULL) return DT_OK;
    return dt__json_fail(&j, "path and xxh3 must be there");
}

/* `path` relative to the folder of a file, or to the folder `above` levels above. */
static bool place_of(const char *file, int above, const char *path, char out[PATH_SIZE])
{
    const char *slash = strrchr(file, '/');
    int n = slash == NULL ? snprintf(out, PATH_SIZE, "./")
                          : snprintf(out, PATH_SIZE, "%.*s", (int)(slash + 1 - file), file);
    for (int i = 0; i < above && n > 0 && n < PATH_SIZE; i++) {
        n += snprintf(out + n, PATH_SIZE - (size_t)n, "../");
    }
    if (n > 0 && n < PATH_SIZE) n += snprintf(out + n, PATH_SIZE - (size_t)n, "%s", path);
    return n > 0 && n < PATH_SIZE;
}

static dt_status find(const dt_file *file, const base *b, char out[PATH_SIZE])
{
    struct stat about;
    const bool whole = *b->path == '/';
    for (int above = 0; above <= MOST_ABOVE; above++) {
        if (whole) snprintf(out, PATH_SIZE, "%s", b->path);
        else if (!place_of(file->path, above, b->path, out)) continue;
        if (stat(out, &about) == 0 && S_ISREG(about.st_mode)) return DT_OK;
        if (whole) break;
    }
    char shown[DT__SHOWN];
    return dt_fail(file->ctx, DT_ERR_IO,
                   "%s: it holds adapters of '%s', which is not there%s: put it back", file->path,
                   dt__shown(b->path, shown), whole ? "" : ", nor in a folder above");
}

static dt_status check_base(const dt_file *file, const dt_file *found, const char *wanted)
{
    const char *hash = dt_file_meta(found, DT__KEY_HASH);
    if (dt__has_base(found)) {
        return dt_fail(file->ctx, DT_ERR_FORMAT, "%s: its base %s holds adapters itself",
                       file->path, found->path);
    }
    if (hash == NULL || strcmp(hash, wanted) != 0) {
        char shown[DT__SHOWN];
        return dt_fail(file->ctx, DT_ERR_FORMAT,
                       "%s: its adapters were trained over another base: %s has " DT__KEY_HASH
                       " %s, expected %s",
                       file->path, found->path, hash == NULL ? "none" : hash,
                       dt__shown(wanted, shown));
    }
    return dt_file_check(found);
}

static dt_status open_base(const dt_file *file, const base *b, dt_file **out)
{
    char path[PATH_SIZE];
    DT__TRY(find(file, b, path));
    DT__TRY(dt_file_open(file->ctx, path, out));
    const dt_status s = check_base(file, *out, b->hash);
    if (s == DT_OK) return DT_OK;
    dt_file_close(*out);
    *out = NULL;
    return s;
}

dt_status dt__base_open(const dt_file *file, dt_file **out)
{
    base b = { NULL, NULL };
    char *strings;
    *out = NULL;
    dt_status s = read_text(file->ctx, file->path, dt_file_meta(file, DT__KEY_BASE), &strings, &b);
    if (s == DT_OK) s = open_base(file, &b, out);
    dt__release(file->ctx, strings);
    return s;
}

dt_status dt__base_compare(dt_ctx *ctx, const char *path, const char *of_file, const char *of_model)
{
    base a = { NULL, NULL }, b = { NULL, NULL };
    char *strings[2] = { NULL, NULL };
    if (of_file == NULL && of_model == NULL) return DT_OK;
    dt_status s = DT_OK;
    if (of_file != NULL) s = read_text(ctx, path, of_file, &strings[0], &a);
    if (s == DT_OK && of_model != NULL) s = read_text(ctx, "model", of_model, &strings[1], &b);
    const bool same = a.hash != NULL && b.hash != NULL && strcmp(a.hash, b.hash) == 0;
    if (s == DT_OK && !same) {
        s = dt_fail(ctx, DT_ERR_FORMAT,
                    "%s: over another base: " DT__KEY_HASH " of its base is %s, of the model's %s",
                    path, a.hash == NULL ? "none" : a.hash, b.hash == NULL ? "none" : b.hash);
    }
    DT__RELEASE(ctx, strings[0], strings[1]);
    return s;
}

bool dt__is_of_base(const dt_module *m, const char *path, const dt_tensor *x, dt_entry_kind kind)
{
    const char *name;
    const dt_module *holder = dt__holder((dt_module *)(uintptr_t)m, path, &name);
    const bool adapter = dt__has_lora(holder) && strncmp(name, "lora_", 5) == 0;
    return kind == DT_PARAM && !x->requires_grad && !adapter;
}
