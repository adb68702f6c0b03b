/* Metadata of model files about the plugins of the context: name and hash.
 *     detent.plugins = [{ "name": "pact", "xxh3": "0123456789abcdef" }] */
#include "io/plugin.h"

#include "core/text/json.h"
#include "io/model/model.h"

#include <string.h>

const dt_plugin_info *dt_plugin_at(const dt_ctx *ctx, int64_t i)
{
    if (ctx == NULL || i < 0 || i >= ctx->registry[DT__PLUGINS].n) return NULL;
    return ctx->registry[DT__PLUGINS].item[i];
}

dt_status dt__plugins_put(dt_writer *w, dt_ctx *ctx)
{
    const dt_plugin_info *p;
    dt__chars t = { .ctx = ctx };
    if (dt_plugin_at(ctx, 0) == NULL) return DT_OK;
    for (int64_t i = 0; (p = dt_plugin_at(ctx, i)) != NULL; i++) {
        dt__put_text(&t, i == 0 ? "[{\"name\":" : ",{\"name\":");
        DT__PUT_ALL(&t, DT__QUOTED(p->name), ",\"xxh3\":\"", p->hash);
        dt__put_text(&t, "\"}");
    }
    dt__put_text(&t, "]");
    const char *text = dt__chars_text(&t);
    const dt_status s = text == NULL ? DT_ERR_NOMEM : dt_writer_meta(w, DT__KEY_PLUGINS, text);
    dt__release(ctx, t.bytes);
    return s;
}

static dt_status check_one(const dt_file *file, const char *name, const char *hash)
{
    const dt_plugin_info *p = dt__registered_named(file->ctx, DT__PLUGINS, name);
    char shown[DT__SHOWN], digits[DT__SHOWN];
    if (p != NULL && strcmp(p->hash, hash) == 0) return DT_OK;
    dt__shown(name, shown);
    dt__shown(hash, digits);
    if (p == NULL) {
        return dt_fail(file->ctx, DT_ERR_FORMAT,
                       "%s: needs plugin '%s' of XXH3 %s; load it by --plugin FILE or "
                       "dt_plugin_load",
                       file->path, shown, digits);
    }
    return dt_fail(file->ctx, DT_ERR_FORMAT,
                   "%s: was written with another file of plugin '%s': of XXH3 %s; that of %s is %s",
                   file->path, shown, digits, p->path, p->hash);
}

static dt_status read_one(const dt_file *file, dt__json *j)
{
    const char *name, *hash, *key;
    DT__TRY(dt__json_expect(j, '{'));
    DT__TRY(dt__json_key(j, &key));
    DT__TRY(dt__json_string(j, &name));
    DT__TRY(dt__json_expect(j, ','));
    DT__TRY(dt__json_key(j, &key));
    DT__TRY(dt__json_string(j, &hash));
    DT__TRY(dt__json_expect(j, '}'));
    return check_one(file, name, hash);
}

static dt_status read_all(const dt_file *file, dt__json *j)
{
    DT__TRY(dt__json_expect(j, '['));
    for (bool more = true; more; more = dt__json_more(j, ']')) DT__TRY(read_one(file, j));
    DT__TRY(j->status);
    return dt__json_end(j);
}

dt_status dt__plugins_check(const dt_file *file)
{
    dt__json j;
    char *strings;
    bool has;
    DT__TRY(dt__meta_scan(file, DT__KEY_PLUGINS, &j, &strings, &has));
    if (!has) return DT_OK;
    const dt_status s = read_all(file, &j);
    dt__release(file->ctx, strings);
    return s;
}
