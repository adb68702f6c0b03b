/* Reads the objects of config.json. */
#include "io/hf/hf_config.h"

#include <stdio.h>
#include <string.h>

/* Scans an object: known keys by their table, others by `other`. */
typedef struct reading {
    const dt_key *keys;
    void *options;
    dt_status (*other)(dt__json *j, const char *name, void *options); /* must skip the value */
} reading;

static dt_status read_known(dt__json *j, const reading *r, const char *name, uint64_t *seen)
{
    for (int i = 0; r->keys[i].name != NULL; i++) {
        const dt_key *key = &r->keys[i];
        char what[96];
        if (strcmp(key->name, name) != 0) continue;
        if ((*seen & (uint64_t)1 << i) != 0) return dt__json_fail(j, "'%s' occurs twice", name);
        *seen |= (uint64_t)1 << i;
        if (dt__json_null(j)) return DT_OK;
        if (key->given != 0) *((bool *)r->options + key->given) = true;
        const char *before = j->what;
        snprintf(what, sizeof what, "the file, at '%s'", key->name);
        j->what = what;
        const dt_status s = dt__json_value(j, key, r->options);
        j->what = before;
        return s;
    }
    return dt__json_null(j) ? DT_OK : r->other(j, name, r->options);
}

static dt_status read_object(dt__json *j, const reading *r)
{
    uint64_t seen = 0;
    for (bool more = dt__json_open(j, '{'); more; more = dt__json_more(j, '}')) {
        const char *name;
        DT__TRY(dt__json_key(j, &name));
        DT__TRY(read_known(j, r, name, &seen));
    }
    return j->status;
}

dt_status dt__hf_read_object(dt__json *j, const dt_key *keys, void *options,
                             dt_status (*other)(dt__json *j, const char *name, void *options))
{
    return read_object(j, &(reading){ keys, options, other });
}

/* compressed-tensors is read by hf_compressed_config.c; weights of other methods are refused. */
dt_status dt__hf_read_method(dt__json *j, bool *quantized)
{
    const char *method = "";
    dt__json look = *j;
    for (bool more = dt__json_open(&look, '{'); more; more = dt__json_more(&look, '}')) {
        const char *key;
        DT__TRY(dt__json_key(&look, &key));
        const bool is_method = strcmp(key, "quant_method") == 0 && dt__json_peek(&look) == '"';
        DT__TRY(is_method ? dt__json_string(&look, &method) : dt__json_skip(&look));
    }
    DT__TRY(look.status);
    *quantized |= strcmp(method, "compressed-tensors") != 0;
    return dt__json_skip(j);
}

dt_status dt__hf_refuse(const dt__hf_config *c, const char *format, ...)
{
    char text[512];
    DT__FORMAT(text, sizeof text, format);
    return dt_fail(c->ctx, DT_ERR_UNSUPPORTED, "%s: %s", c->path, text);
}
