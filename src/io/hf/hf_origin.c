/* detent.hf: what a Hugging Face folder holds besides options and tensors, as one metadata text
 * that is saved with the model, so that the folder can be written again:
 *
 *     { "config.json": text, "tied_head": false, "dtype": "BF16", "dtypes": { tensor: dtype, ... },
 *       "files": { "generation_config.json": text, ... } } */
#include "core/text/utf8.h"
#include "core/comparisons.h"
#include "io/hf/hf.h"
#include "io/model/model.h"

#include <stdlib.h>
#include <string.h>

/* Files that describe how a model is used, not what it computes; kept if they are plain text. */
static const char *const extras[] = { "generation_config.json", "special_tokens_map.json",
                                      "tokenizer_config.json", "chat_template.jinja", NULL };

static const char *const dtypes[] = { "F32", "F16", "BF16", NULL };

static const char *one_of(const char *const *names, const char *name)
{
    while (*names != NULL && strcmp(*names, name) != 0) names++;
    return *names;
}

const char *dt__hf_dtype(const char *name) { return one_of(dtypes, name); }

bool dt__hf_is_text(const dt__hf_text *t)
{
    return t->text != NULL && strlen(t->text) == t->bytes && dt__is_utf8(t->text);
}

dt_status dt__hf_extra_read(const dt__hf_place *p, const char *name, dt__hf_extra *out)
{
    *out = (dt__hf_extra){ .lent = p->origin != NULL };
    for (int64_t i = 0; out->lent && i < p->origin->files.n; i++) {
        const dt__hf_pair *f = &p->origin->files.at[i];
        if (strcmp(f->key, name) != 0) continue;
        out->it = (dt__hf_text){ f->key, f->value, strlen(f->value) };
    }
    if (out->lent) return DT_OK;
    DT__TRY(dt__hf_text_read(p->ctx, p->folder, name, DT__HF_EXTRA_MOST, &out->it));
    if (out->it.text == NULL || dt__hf_is_text(&out->it)) return DT_OK;
    dt__say_once(p->ctx, "%s: is not UTF-8 and not read", out->it.path);
    dt__hf_text_free(p->ctx, &out->it);
    return DT_OK;
}

void dt__hf_extra_free(const dt__hf_place *p, dt__hf_extra *text)
{
    if (!text->lent) dt__hf_text_free(p->ctx, &text->it);
}

static dt_status put_extras(dt_file *file, const char *folder, dt__chars *t)
{
    bool first = true;
    dt__put_text(t, ",\"files\":{");
    for (int i = 0; extras[i] != NULL; i++) {
        dt__hf_text text;
        DT__TRY(dt__hf_text_read(file->ctx, folder, extras[i], DT__HF_EXTRA_MOST, &text));
        if (dt__hf_is_text(&text)) {
            dt__put_comma(t, &first);
            DT__PUT_ALL(t, DT__QUOTED(extras[i]), ":", DT__QUOTED(text.text));
        }
        dt__hf_text_free(file->ctx, &text);
    }
    dt__put_text(t, "}");
    return DT_OK;
}

/* The dtype of most tensors, and the tensors that have another. */
static void put_dtypes(const dt_file *file, const char *table, dt__chars *t)
{
    const dt_file_entry *tokens = dt_file_find(file, table);
    const char *dtype = tokens == NULL ? "F32" : tokens->dtype;
    bool first = true;
    DT__PUT_ALL(t, ",\"dtype\":", DT__QUOTED(dtype));
    dt__put_text(t, ",\"dtypes\":{");
    for (int64_t i = 0; i < file->count; i++) {
        const dt_file_entry *e = file->by_name[i];
        /* parts of quantized weights are left out */
        const bool is_float = dt__hf_dtype(e->dtype) != NULL;
        if (!is_float || strcmp(e->dtype, dtype) == 0) continue;
        dt__put_comma(t, &first);
        DT__PUT_ALL(t, DT__QUOTED(e->name), ":", DT__QUOTED(e->dtype));
    }
    dt__put_text(t, "}");
}

dt_status dt__hf_origin_put(dt_file *file, const char *folder, const dt__hf_text *config,
                            const dt__hf_model *model, dt__chars *t)
{
    const bool gpt = model->is_gpt, tied = gpt ? model->gpt.tied : model->llama.tied;
    const bool head = tied && dt_file_find(file, dt__hf_head(gpt)) != NULL;
    dt__put_text(t, "{\"config.json\":");
    DT__PUT_ALL(t, DT__QUOTED(config->text), head ? ",\"tied_head\":true" : ",\"tied_head\":false");
    put_dtypes(file, dt__hf_tokens(gpt), t);
    DT__TRY(put_extras(file, folder, t));
    dt__put_text(t, "}");
    return DT_OK;
}

static dt_status check_once(dt__json *j, const dt__hf_pairs *pairs)
{
    char shown[DT__SHOWN];
    for (int64_t i = 1; i < pairs->n; i++) {
        if (strcmp(pairs->at[i - 1].key, pairs->at[i].key) != 0) continue;
        return dt__json_fail(j, "'%s' occurs twice", dt__shown(pairs->at[i].key, shown));
    }
    return DT_OK;
}

/* Reads pairs that must be sorted by key. */
static dt_status read_pairs(dt__json *j, dt__hf_pairs *to, const char *const *allowed, bool of_keys)
{
    char shown[DT__SHOWN];
    for (bool more = dt__json_open(j, '{'); more; more = dt__json_more(j, '}')) {
        dt__hf_pair p;
        DT__TRY(dt__json_key(j, &p.key));
        DT__TRY(dt__json_string(j, &p.value));
        const char *checked = of_keys ? p.key : p.value;
        if (one_of(allowed, checked) == NULL) {
            return dt__json_fail(j, "'%s' is not allowed here", dt__shown(checked, shown));
        }
        DT__TRY(DT__RESERVE(j->ctx, to->at, to->n, to->room));
        to->at[to->n++] = p;
    }
    DT__TRY(j->status);
    if (to->n > 0) qsort(to->at, (size_t)to->n, sizeof *to->at, dt__by_text);
    return check_once(j, to);
}

static dt_status read_dtype(dt__json *j, dt__hf_origin *o)
{
    const char *text;
    char shown[DT__SHOWN];
    DT__TRY(dt__json_string(j, &text));
    o->dtype = dt__hf_dtype(text);
    if (o->dtype != NULL) return DT_OK;
    return dt__json_fail(j, "'%s' is not a dtype of such a folder", dt__shown(text, shown));
}

static dt_status read_config(dt__json *j, dt__hf_origin *o)
{
    return dt__json_string(j, &o->config);
}

static dt_status read_tied_head(dt__json *j, dt__hf_origin *o)
{
    return dt__json_bool(j, &o->tied_head);
}

static dt_status read_dtypes(dt__json *j, dt__hf_origin *o)
{
    return read_pairs(j, &o->dtypes, dtypes, false);
}

static dt_status read_files(dt__json *j, dt__hf_origin *o)
{
    return read_pairs(j, &o->files, extras, true);
}

static const struct {
    const char *key;
    dt_status (*read)(dt__json *j, dt__hf_origin *o);
} fields[] = {
    { DT__HF_CONFIG, read_config }, { "tied_head", read_tied_head }, { "dtype", read_dtype },
    { "dtypes", read_dtypes },      { "files", read_files },
};

/* Bit i of *seen: field i was read. */
static dt_status read_field(dt__json *j, dt__hf_origin *o, unsigned *seen)
{
    const char *key;
    char shown[DT__SHOWN];
    int i = 0;
    DT__TRY(dt__json_key(j, &key));
    while (i < DT__COUNT_OF(fields) && strcmp(fields[i].key, key) != 0) i++;
    if (i == DT__COUNT_OF(fields)) {
        return dt__json_fail(j, "unknown key '%s'", dt__shown(key, shown));
    }
    if ((*seen & 1U << i) != 0) return dt__json_fail(j, "'%s' occurs twice", key);
    *seen |= 1U << i;
    return fields[i].read(j, o);
}

static dt_status read_origin(dt__json *j, dt__hf_origin *o)
{
    unsigned seen = 0;
    for (bool more = dt__json_open(j, '{'); more; more = dt__json_more(j, '}')) {
        DT__TRY(read_field(j, o, &seen));
    }
    DT__TRY(j->status);
    DT__TRY(dt__json_end(j));
    if (o->config != NULL && o->dtype != NULL) return DT_OK;
    return dt__json_fail(j, "config.json or dtype is missing");
}

dt_status dt__hf_origin_read(dt_ctx *ctx, const char *text, dt__hf_origin *out)
{
    dt__json j;
    *out = (dt__hf_origin){ .ctx = ctx };
    const dt__hf_text whole = { DT__KEY_HF, text, strlen(text) };
    DT__TRY(dt__hf_scan(ctx, &whole, &j, &out->strings));
    const dt_status s = read_origin(&j, out);
    if (s != DT_OK) dt__hf_origin_free(out);
    return s;
}

void dt__hf_origin_free(dt__hf_origin *o)
{
    DT__RELEASE(o->ctx, o->dtypes.at, o->files.at, o->strings);
    *o = (dt__hf_origin){ .ctx = o->ctx };
}

const char *dt__hf_dtype_of(const dt__hf_origin *o, const char *name)
{
    for (int64_t i = 0; i < o->dtypes.n; i++) {
        if (strcmp(o->dtypes.at[i].key, name) == 0) return dt__hf_dtype(o->dtypes.at[i].value);
    }
    return o->dtype;
}

dt_status dt__hf_chat_template(dt_ctx *ctx, const char *text, char **out)
{
    static const char *const names[] = { "chat_template.jinja", "tokenizer_config.json" };
    dt__hf_origin o;
    const char *found = NULL;
    *out = NULL;
    DT__TRY(dt__hf_origin_read(ctx, text, &o));
    for (int k = 0; k < DT__COUNT_OF(names) && found == NULL; k++) {
        for (int64_t i = 0; i < o.files.n; i++) {
            if (strcmp(o.files.at[i].key, names[k]) == 0) found = o.files.at[i].value;
        }
    }
    const size_t bytes = found == NULL ? 0 : strlen(found) + 1;
    if (found != NULL) *out = dt__alloc(ctx, bytes);
    if (*out != NULL) memcpy(*out, found, bytes);
    dt__hf_origin_free(&o);
    return found != NULL && *out == NULL ? DT_ERR_NOMEM : DT_OK;
}
