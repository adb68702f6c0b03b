/* Serializes numbers in native byte order, and texts preceded by their lengths. */
#include "data/tables/table_state.h"

#include "data/tables/csv_types.h"

#include <string.h>

static void put_number(dt__chars *to, int64_t n) { dt__put(to, (const char *)&n, sizeof n); }

static void put_text(dt__chars *to, const char *text)
{
    const size_t n = strlen(text);
    put_number(to, (int64_t)n);
    dt__put(to, text, n);
}

static void put_words(dt__chars *to, const dt__words *w)
{
    put_number(to, w->n);
    for (int64_t i = 0; i < w->n; i++) put_text(to, w->word[i]);
}

static void put_exact(dt__chars *to, const dt__exact *v)
{
    const uint8_t is_integer = v->is_integer;
    dt__put(to, (const char *)&v->value, sizeof v->value);
    dt__put(to, (const char *)&v->integer, sizeof v->integer);
    dt__put(to, (const char *)&is_integer, 1);
}

static void put_merging(dt__chars *to, const dt__merging *m)
{
    const dt__value_range *r = &m->range;
    const uint8_t flags[] = { r->any, r->inexact, r->real, m->found, m->full, m->wide };
    dt__put(to, (const char *)&r->low, sizeof r->low);
    dt__put(to, (const char *)&r->high, sizeof r->high);
    dt__put(to, (const char *)flags, sizeof flags);
    put_exact(to, &m->pair[0]);
    put_exact(to, &m->pair[1]);
    dt__put(to, (const char *)&m->both, sizeof m->both);
    dt__put(to, (const char *)&m->n, sizeof m->n);
    for (int64_t i = 0; i < m->slots; i++) {
        const dt__merge_slot *s = &m->slot[i];
        const dt__exact v = { s->value, s->integer, s->is_integer != 0 };
        if (s->used == 0) continue;
        dt__put(to, (const char *)&s->rounded, sizeof s->rounded);
        put_exact(to, &v);
    }
}

void dt__table_state_put(dt__chars *to, dt__csv *const *c, int n)
{
    for (int k = 0; k < n; k++) {
        const dt__csv *own = c[k];
        const dt__csv_types *types = own->types;
        put_words(to, &own->inputs);
        put_words(to, &own->targets);
        put_words(to, &own->keys);
        put_words(to, &own->patterns);
        put_number(to, own->decimal);
        put_number(to, own->thousands);
        put_text(to, own->shown == NULL ? "" : own->shown);
        put_words(to, &own->labels.words);
        put_number(to, own->key_words == NULL ? 0 : own->keys.n);
        for (int64_t i = 0; own->key_words != NULL && i < own->keys.n; i++) {
            put_words(to, &own->key_words[i]);
        }
        put_number(to, types == NULL ? 0 : types->columns.n);
        for (int64_t i = 0; types != NULL && i < types->columns.n; i++) {
            put_words(to, &types->words[i]);
        }
        const int64_t numbers = own->merging == NULL ? 0 : own->inputs.n + own->targets.n;
        put_number(to, numbers);
        for (int64_t i = 0; i < numbers; i++) put_merging(to, &own->merging[i]);
    }
}

const void *dt__state_take(dt__state_bytes *from, int64_t bytes)
{
    if (bytes < 0 || bytes > from->end - from->at) return NULL;
    const void *at = from->at;
    from->at += bytes;
    return at;
}

static dt_status fail(const dt__state_bytes *from)
{
    return dt_fail(from->ctx, DT_ERR_STATE, "the numbers that were kept are of another table");
}

static dt_status take_number(dt__state_bytes *from, int64_t *n)
{
    const void *at = dt__state_take(from, sizeof *n);
    *n = 0;
    if (at == NULL) return fail(from);
    memcpy(n, at, sizeof *n);
    return DT_OK;
}

/* Reads a number that must be 0 or `wanted`. */
static dt_status take_count(dt__state_bytes *from, int64_t wanted, int64_t *n)
{
    DT__TRY(take_number(from, n));
    return *n == 0 || *n == wanted ? DT_OK : fail(from);
}

/* Words are indexed in the order in which they were found. */
static dt_status take_words(dt__state_bytes *from, dt__words *w)
{
    int64_t n, bytes;
    DT__TRY(take_number(from, &n));
    for (int64_t i = 0; i < n; i++) {
        DT__TRY(take_number(from, &bytes));
        const char *word = dt__state_take(from, bytes);
        if (word == NULL) return fail(from);
        const int64_t number = dt__words_add(from->ctx, w, word, (size_t)bytes);
        if (number < 0) return DT_ERR_NOMEM;
        if (number != i) return fail(from);
    }
    return DT_OK;
}

static dt_status take_keys(dt__state_bytes *from, dt__csv *c)
{
    int64_t n;
    DT__TRY(take_count(from, c->keys.n, &n));
    if (n > 0 && c->key_words == NULL) DT__TRY(dt__csv_begin_keys(c));
    for (int64_t i = 0; i < n; i++) DT__TRY(take_words(from, &c->key_words[i]));
    return DT_OK;
}

static dt_status take_form(dt__state_bytes *from, dt__csv *c)
{
    int64_t decimal, thousands, n;
    DT__TRY(take_number(from, &decimal));
    DT__TRY(take_number(from, &thousands));
    DT__TRY(take_number(from, &n));
    const char *text = dt__state_take(from, n);
    if (text == NULL) return fail(from);
    char *shown = n == 0 ? NULL : dt__alloc(c->ctx, (uint64_t)n + 1);
    if (n > 0 && shown == NULL) return DT_ERR_NOMEM;
    if (n > 0) memcpy(shown, text, (size_t)n), shown[n] = 0;
    dt__release(c->ctx, c->shown);
    c->shown = shown;
    c->decimal = (char)decimal;
    c->thousands = (char)thousands;
    return DT_OK;
}

static dt_status take_types(dt__state_bytes *from, dt__csv *c)
{
    int64_t n;
    if (c->x_of == NULL) DT__TRY(dt__csv_types_begin(c));
    DT__TRY(take_count(from, c->types == NULL ? 0 : c->types->columns.n, &n));
    for (int64_t i = 0; i < n; i++) DT__TRY(take_words(from, &c->types->words[i]));
    return DT_OK;
}

static bool take(dt__state_bytes *from, void *to, size_t bytes)
{
    const void *at = dt__state_take(from, (int64_t)bytes);
    if (at != NULL) memcpy(to, at, bytes);
    return at != NULL;
}

static bool take_exact(dt__state_bytes *from, dt__exact *v)
{
    uint8_t is_integer = 0;
    const bool good = take(from, &v->value, sizeof v->value) &&
                      take(from, &v->integer, sizeof v->integer) && take(from, &is_integer, 1);
    v->is_integer = is_integer != 0;
    return good;
}

static dt_status take_merging_of(dt__state_bytes *from, dt__merging *m)
{
    dt__value_range r = { 0 };
    dt__exact pair[2];
    uint8_t flags[6];
    float both;
    int64_t n = 0;
    dt__merging_free(from->ctx, m);
    bool good = take(from, &r.low, sizeof r.low) && take(from, &r.high, sizeof r.high) &&
                take(from, flags, sizeof flags) && take_exact(from, &pair[0]) &&
                take_exact(from, &pair[1]) && take(from, &both, sizeof both) &&
                take(from, &n, sizeof n);
    for (int64_t i = 0; i < n && good; i++) {
        float rounded;
        dt__exact v;
        good = take(from, &rounded, sizeof rounded) && take_exact(from, &v);
        if (good) DT__TRY(dt__merging_put(from->ctx, m, &v, rounded));
    }
    if (!good) return dt_fail(from->ctx, DT_ERR_STATE, "numbers that were kept are damaged");
    r.any = flags[0];
    r.inexact = flags[1];
    r.real = flags[2];
    m->range = r;
    m->found = flags[3];
    m->full = flags[4];
    m->wide = flags[5];
    m->pair[0] = pair[0];
    m->pair[1] = pair[1];
    m->both = both;
    return DT_OK;
}

static dt_status take_merging(dt__state_bytes *from, dt__csv *c)
{
    int64_t n;
    DT__TRY(take_count(from, c->inputs.n + c->targets.n, &n));
    if (n > 0 && c->merging == NULL) {
        c->merging = dt__alloc_zero(c->ctx, (size_t)n * sizeof *c->merging);
        if (c->merging == NULL) return DT_ERR_NOMEM;
    }
    for (int64_t i = 0; i < n; i++) DT__TRY(take_merging_of(from, &c->merging[i]));
    return DT_OK;
}

dt_status dt__table_state_take(dt__state_bytes *from, dt__csv *const *c, int n)
{
    for (int k = 0; k < n; k++) {
        dt__words *const lists[] = { &c[k]->inputs, &c[k]->targets, &c[k]->keys, &c[k]->patterns };
        for (int i = 0; i < DT__COUNT_OF(lists); i++) DT__TRY(take_words(from, lists[i]));
        DT__TRY(take_form(from, c[k]));
        DT__TRY(take_words(from, &c[k]->labels.words));
        DT__TRY(take_keys(from, c[k]));
        DT__TRY(take_types(from, c[k]));
        DT__TRY(take_merging(from, c[k]));
    }
    return DT_OK;
}
