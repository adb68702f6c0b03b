/* Names in a list of layers: faults, and the inputs of a layer. */
#include "nn/lists/layers_build.h"

#include "core/block_list.h"

#include <string.h>

const char *dt__layers_text(dt__layers_build *b, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *text = dt__block_list_text_v(b->ctx, &b->blocks, format, arguments);
    va_end(arguments);
    return text;
}

dt_status dt__layers_fault_at(dt__layers_build *b, const char *path, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *text = dt__block_list_text_v(b->ctx, &b->blocks, format, arguments);
    va_end(arguments);
    if (text == NULL || path == NULL) return DT_ERR_NOMEM;
    b->faults++;
    b->fault(b->user, path, text);
    return DT_OK;
}

dt_status dt__layers_add(dt__layers_scope *s, const dt__layers_value *value, dt__layers_value **out)
{
    DT__TRY(DT__RESERVE(s->b->ctx, s->values, s->n, s->room));
    *out = dt__block_list_add(s->b->ctx, &s->b->blocks, sizeof **out);
    if (*out == NULL) return DT_ERR_NOMEM;
    **out = *value;
    s->values[s->n++] = *out;
    return value->name == NULL ? DT_OK : dt__layers_rename_last(s, value->name);
}

dt_status dt__layers_rename_last(dt__layers_scope *s, const char *name)
{
    s->values[s->n - 1]->name = name;
    return dt__names_add(s->b->ctx, &s->names, dt__hash_name(name, strlen(name)), s->n - 1);
}

dt__layers_value *dt__layers_own(const dt__layers_scope *s, const char *name)
{
    const uint64_t hash = dt__hash_name(name, strlen(name));
    int64_t probe = 0, at;
    while ((at = dt__names_next(&s->names, hash, &probe)) >= 0) {
        if (strcmp(s->values[at]->name, name) == 0) return s->values[at];
    }
    return NULL;
}

dt_status dt__layers_capture(dt__layers_scope *s, dt__layers_value *outer, const char *path,
                             dt__layers_value **out)
{
    dt__layers_value inner = *outer;
    *out = NULL;
    outer->read = inner.read = true;
    if (s->n_in == DT_MAX_IN) {
        return dt__layers_fault_at(
            s->b, path, "a repetition reads more than %d layers outside of it", DT_MAX_IN);
    }
    s->captured[s->n_in] = outer;
    inner.number = s->n_in++;
    return dt__layers_add(s, &inner, out);
}

/* Finds a name in this scope or the outer ones, inner scopes first; *out NULL: not found. */
static dt_status find(dt__layers_scope *s, const char *name, const char *path,
                      dt__layers_value **out)
{
    *out = dt__layers_own(s, name);
    if (*out != NULL || s->outer == NULL) return DT_OK;
    dt__layers_value *outer;
    DT__TRY(find(s->outer, name, path, &outer));
    return outer == NULL ? DT_OK : dt__layers_capture(s, outer, path, out);
}

/* All names that a layer could read, for a message. */
static const char *known_names(const dt__layers_scope *s)
{
    const char *all = "";
    for (const dt__layers_scope *at = s; at != NULL && all != NULL; at = at->outer) {
        for (int64_t i = 0; i < at->n && all != NULL; i++) {
            if (at->values[i]->name == NULL) continue;
            all = dt__layers_text(s->b, "%s%s%s", all, *all == 0 ? "" : ", ", at->values[i]->name);
        }
    }
    return all == NULL || *all == 0 ? "no layer has a name yet" : all;
}

dt_status dt__layers_find(dt__layers_scope *s, const char *name, const char *path,
                          dt__layers_value **out)
{
    char shown[DT__SHOWN];
    DT__TRY(find(s, name, path, out));
    if (*out != NULL) {
        (*out)->read = true;
        return DT_OK;
    }
    return dt__layers_fault_at(
        s->b, path, "no layer before this one is called '%s' (a layer reads earlier ones: %s)",
        dt__shown(name, shown), known_names(s));
}
