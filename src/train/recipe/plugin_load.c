/* Loads plugins: shared objects that register extensions in a context (plugin.h). */
#include "core/system/library.h"
#include "core/system/open_file.h"
#include "core/system/system_calls.h"
#include "core/text/json.h"
#include "io/safetensors/safetensors.h"

#include <detent/experimental/plugin.h>
#include <stdio.h>
#include <string.h>

#define PATH 4096
#define PIN "@xxh3:"
#define SYMBOL "dt_this_plugin"

static dt_status hash_of(dt_ctx *ctx, const char *path, char digits[DT_PLUGIN_HASH])
{
    int file;
    int64_t size;
    char part[1 << 14];
    ssize_t n = -1;
    dt__chars bytes = { .ctx = ctx };
    DT__TRY(dt__open_file(ctx, path, &file, &size));
    while ((n = dt__sys_read(file, part, sizeof part)) > 0) dt__put(&bytes, part, (size_t)n);
    dt__sys_close(file);
    const dt__span whole = { bytes.bytes, bytes.used };
    dt_status s = n < 0          ? dt_fail(ctx, DT_ERR_IO, "%s: cannot be read", path)
                  : bytes.failed ? DT_ERR_NOMEM
                                 : dt__hash_spans(ctx, &whole, 1, digits);
    dt__release(ctx, bytes.bytes);
    return s;
}

/* Splits "file@xxh3:digits"; *pinned is "" without the second part. */
static dt_status divide(dt_ctx *ctx, const char *text, char path[PATH], char pinned[DT_PLUGIN_HASH])
{
    const char *pin = strstr(text, PIN);
    const size_t n = pin == NULL ? strlen(text) : (size_t)(pin - text);
    pinned[0] = 0;
    if (n == 0 || n >= PATH) {
        return dt_fail(ctx, DT_ERR_CONFIG, "a plugin: expected a file, not '%s'", text);
    }
    snprintf(path, PATH, "%.*s", (int)n, text);
    if (pin == NULL) return DT_OK;
    pin += strlen(PIN);
    if (strlen(pin) != DT_PLUGIN_HASH - 1 || strspn(pin, "0123456789abcdef") != strlen(pin)) {
        return dt_fail(ctx, DT_ERR_CONFIG,
                       "plugin %s: expected 16 hexadecimal digits behind " PIN ", not '%s'", path,
                       pin);
    }
    strcpy(pinned, pin);
    return DT_OK;
}

/* Makes a clear error for a source file, or a library that is not a plugin, as dlopen's is hard to
 * understand. */
static dt_status refuse_library(dt_ctx *ctx, const char *path, const char *why)
{
    static const char *const endings[] = { ".c", ".cc", ".cpp", ".h" };
    const char *dot = strrchr(path, '.');
    for (int i = 0; i < DT__COUNT_OF(endings) && dot != NULL; i++) {
        if (strcmp(dot, endings[i]) != 0) continue;
        return dt_fail(
            ctx, DT_ERR_CONFIG,
            "plugin %s: expected a shared object; of source code the compiler makes one: "
            "cc -shared -fPIC -I INCLUDE %s -o NAME.so",
            path, path);
    }
    if (strstr(why, SYMBOL) == NULL) return dt_fail(ctx, DT_ERR_CONFIG, "plugin %s: %s", path, why);
    return dt_fail(ctx, DT_ERR_CONFIG,
                   "plugin %s: not a plugin of detent: it has no " SYMBOL
                   ", which DT_PLUGIN in its "
                   "source defines",
                   path);
}

/* Adds "./" to a name without a slash, which dlopen would not look for in the working directory. */
static dt_status open_library(dt_ctx *ctx, const char *path, const dt_plugin **out)
{
    static const dt__function symbol = { SYMBOL, 0 };
    char here[PATH + 2], why[256];
    void *found = NULL;
    snprintf(here, sizeof here, "%s%s", strchr(path, '/') == NULL ? "./" : "", path);
    if (dt__library_load(here, &symbol, 1, &found, why) == NULL) {
        return refuse_library(ctx, path, why);
    }
    *out = found;
    return DT_OK;
}

static dt_status check(dt_ctx *ctx, const char *path, const dt_plugin *p)
{
    if (p->abi != DT_PLUGIN_ABI || p->layout != DT_PLUGIN_LAYOUT) {
        return dt_fail(ctx, DT_ERR_CONFIG,
                       "plugin %s: compiled with headers of another detent (plugin ABI %d, this is "
                       "%d of version %s); compile it again",
                       path, p->abi, DT_PLUGIN_ABI, dt_version());
    }
    if (p->name != NULL && *p->name != 0 && p->start != NULL) return DT_OK;
    return dt_fail(ctx, DT_ERR_CONFIG, "plugin %s: no name, or nothing to start", path);
}

static const dt_plugin_info *with_hash(const dt_ctx *ctx, const char *hash)
{
    const dt_plugin_info *p = NULL;
    for (int64_t i = 0; (p = dt_plugin_at(ctx, i)) != NULL && strcmp(p->hash, hash) != 0;) i++;
    return p;
}

static dt_status add(dt_ctx *ctx, const char *path, const char *hash, const dt_plugin *p)
{
    dt_plugin_info *info = dt__alloc_zero(ctx, sizeof *info + strlen(path) + 1);
    if (info == NULL) return DT_ERR_NOMEM;
    info->name = p->name;
    info->text = p->text != NULL ? p->text : "";
    info->path = strcpy((char *)(info + 1), path);
    strcpy(info->hash, hash);
    const dt_status s = dt__register(ctx, DT__PLUGINS, info);
    if (s != DT_OK) dt__release(ctx, info);
    return s;
}

dt_status dt_plugin_load(dt_ctx *ctx, const char *text)
{
    DT__NEED2(ctx, ctx, text);
    char path[PATH], pinned[DT_PLUGIN_HASH], hash[DT_PLUGIN_HASH];
    const dt_plugin *p = NULL;
    DT__TRY(divide(ctx, text, path, pinned));
    if (pinned[0] != 0 && with_hash(ctx, pinned) != NULL)
        return DT_OK; /* the same file under another path */
    DT__TRY(hash_of(ctx, path, hash));
    if (pinned[0] != 0 && strcmp(pinned, hash) != 0) {
        return dt_fail(ctx, DT_ERR_CONFIG,
                       "plugin %s: another file than the one that was used: its XXH3 is %s, not %s",
                       path, hash, pinned);
    }
    if (with_hash(ctx, hash) != NULL) return DT_OK;
    DT__TRY(open_library(ctx, path, &p));
    DT__TRY(check(ctx, path, p));
    const dt_plugin_info *other = dt__registered_named(ctx, DT__PLUGINS, p->name);
    if (other != NULL) {
        return dt_fail(ctx, DT_ERR_CONFIG, "plugin %s: '%s' is the name of %s, too", path, p->name,
                       other->path);
    }
    const dt_status s = p->start(ctx);
    if (s != DT_OK) {
        char why[DT__MESSAGE_SIZE / 2];
        snprintf(why, sizeof why, "%s", dt_error(ctx));
        return dt_fail(ctx, s, "plugin %s: %s", path, why);
    }
    return add(ctx, path, hash, p);
}
