/* A recipe from options set in C: options that differ from the defaults are written as the text of
 * a recipe, which is read as usual. So checks, files and messages are the same. */
#include "train/recipe/recipe.h"

#include <string.h>

static dt_status put_table(dt__chars *t, const dt_key *keys, const void *options,
                           const void *defaults, bool *any);

static bool is_absent(const dt_key *key, const void *options)
{
    const char *base = options;
    if (key->given != 0 && !*(const bool *)(base + key->given)) return true;
    const void *field = base + key->offset;
    switch (key->type) {
    case DT_KEY_STRING:
    case DT_KEY_PATH: return *(const char *const *)field == NULL;
    case DT_KEY_STRINGS: return ((const dt_strings *)field)->n == 0;
    case DT_KEY_INTS: return ((const dt_ints *)field)->n == 0;
    case DT_KEY_REALS: return ((const dt_reals *)field)->n == 0;
    case DT_KEY_LIST: return *(const int64_t *)(const void *)(base + key->count) == 0;
    default: return false;
    }
}

/* Writes the key unless its value is the default's. */
static dt_status put_value(dt__chars *t, const dt_key *key, const void *options,
                           const void *defaults, bool *any)
{
    dt__chars own = { .ctx = t->ctx }, usual = { .ctx = t->ctx };
    const bool required = key->fallback != NULL && strcmp(key->fallback, "!") == 0;
    if (is_absent(key, options)) return DT_OK;
    dt__put_value(&own, key, options);
    const bool compares = !required && key->given == 0 && !is_absent(key, defaults);
    if (compares) dt__put_value(&usual, key, defaults);
    const bool same =
        compares && own.used == usual.used && memcmp(own.bytes, usual.bytes, own.used) == 0;
    const bool failed = own.failed || usual.failed;
    if (!failed && !same) {
        dt__put_text(t, *any ? "," : "");
        DT__PUT_ALL(t, DT__QUOTED(key->name), ":");
        dt__put(t, own.bytes, own.used);
        *any = true;
    }
    DT__RELEASE(t->ctx, own.bytes, usual.bytes);
    return failed ? DT_ERR_NOMEM : DT_OK;
}

/* Writes a list of structs, each compared with the defaults of its table. */
static dt_status put_list(dt__chars *t, const dt_key *key, const void *options, bool *any)
{
    const char *base = options;
    const int64_t n = *(const int64_t *)(const void *)(base + key->count);
    if (n == 0) return DT_OK;
    void *defaults = dt__alloc(t->ctx, key->size);
    if (defaults == NULL) return DT_ERR_NOMEM;
    dt_status s = dt__default_options(t->ctx, key->keys, defaults, key->size);
    if (*any) dt__put_text(t, ",");
    *any = true;
    dt__put_quoted(t, key->name);
    dt__put_text(t, ":[");
    for (int64_t i = 0; i < n && s == DT_OK; i++) {
        bool within = false;
        dt__put_text(t, i == 0 ? "{" : ",{");
        s = put_table(t, key->keys, base + key->offset + (size_t)i * key->size, defaults, &within);
        dt__put_text(t, "}");
    }
    dt__put_text(t, "]");
    dt__release(t->ctx, defaults);
    return s;
}

/* Writes a map if it is given, or if anything in it differs. */
static dt_status put_map(dt__chars *t, const dt_key *key, const void *options, const void *defaults,
                         bool *any)
{
    const size_t before = t->used;
    bool within = false;
    if (key->given != 0 && !*((const bool *)options + key->given)) return DT_OK;
    if (*any) dt__put_text(t, ",");
    dt__put_quoted(t, key->name);
    dt__put_text(t, ":{");
    DT__TRY(put_table(t, key->keys, (const char *)options + key->offset,
                      (const char *)defaults + key->offset, &within));
    dt__put_text(t, "}");
    if (within || key->given != 0) *any = true;
    else if (!t->failed) t->used = before;
    return DT_OK;
}

static dt_status put_table(dt__chars *t, const dt_key *keys, const void *options,
                           const void *defaults, bool *any)
{
    for (const dt_key *key = keys; key->name != NULL; key++) {
        if (key->type == DT_KEY_MAP) DT__TRY(put_map(t, key, options, defaults, any));
        else if (key->type == DT_KEY_LIST) DT__TRY(put_list(t, key, options, any));
        else DT__TRY(put_value(t, key, options, defaults, any));
    }
    return DT_OK;
}

/* `model` has its own keys, then those of the family. */
static dt_status put_model(dt__chars *t, const dt_model_options *m)
{
    const dt_family *family =
        m->family_name == NULL ? NULL : dt_family_named(t->ctx, m->family_name);
    const dt_model_options usual = { .family_name = NULL };
    bool any = false;
    dt__put_text(t, "\"model\":{");
    DT__TRY(put_table(t, dt_model_keys, m, &usual, &any));
    if (family != NULL && m->options != NULL) {
        void *defaults = dt__alloc(t->ctx, family->options_size + 1);
        if (defaults == NULL) return DT_ERR_NOMEM;
        dt_status s = dt__default_options(t->ctx, family->keys, defaults, family->options_size);
        if (s == DT_OK) s = put_table(t, family->keys, m->options, defaults, &any);
        dt__release(t->ctx, defaults);
        DT__TRY(s);
    }
    dt__put_text(t, "}");
    return DT_OK;
}

static dt_status put_recipe(dt__chars *t, const dt_recipe_options *o,
                            const dt_recipe_options *defaults)
{
    bool any = true;
    dt__put_text(t, "{");
    DT__TRY(put_model(t, &o->model));
    for (const dt_key *key = dt_recipe_keys; key->name != NULL; key++) {
        if (key->keys != dt_model_keys) DT__TRY(put_map(t, key, o, defaults, &any));
    }
    dt__put_text(t, "}");
    return t->failed ? DT_ERR_NOMEM : DT_OK;
}

dt_status dt_recipe_defaults(dt_ctx *ctx, dt_recipe_options *options)
{
    DT__NEED2(ctx, ctx, options);
    return dt__default_options(ctx, dt_recipe_keys, options, sizeof *options);
}

dt_status dt_recipe_create(dt_ctx *ctx, const char *name, const dt_recipe_options *options,
                           dt_recipe **out)
{
    DT__NEED2(ctx, ctx, out);
    *out = NULL;
    if (options == NULL) return dt_fail(ctx, DT_ERR_ARG, "recipe: the options are NULL");
    dt_recipe_options *defaults = dt__alloc(ctx, sizeof *defaults);
    if (defaults == NULL) return DT_ERR_NOMEM;
    dt__chars t = { .ctx = ctx };
    dt_status s = dt_recipe_defaults(ctx, defaults);
    if (s == DT_OK) s = put_recipe(&t, options, defaults);
    if (s == DT_OK) {
        const dt_recipe_source source = { .path = name == NULL ? "options" : name,
                                          .text = t.bytes,
                                          .bytes = t.used };
        s = dt_recipe_read(ctx, &source, out);
    }
    DT__RELEASE(ctx, defaults, t.bytes);
    return s;
}
