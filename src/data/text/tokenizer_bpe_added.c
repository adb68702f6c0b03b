/* Reads the added tokens of a tokenizer.json. Those of the second class are searched by their
 * normalized texts, in normalized text. */
#include "data/text/tokenizer_bpe_read.h"

#include <stdlib.h>
#include <string.h>

static dt_status read_added(reading *r)
{
    enum { ID, CONTENT, SINGLE_WORD, LSTRIP, RSTRIP, NORMALIZED, SPECIAL, KEYS };
    static const char *const names[] = { "id",     "content",    "single_word", "lstrip",
                                         "rstrip", "normalized", "special",     NULL };
    const unsigned char *at[KEYS];
    dt__json *j = r->j;
    entry e = { NULL };
    DT__TRY(dt__json_fields(j, "an added token", names, at));
    const unsigned char *const after = j->at;
    if (at[ID] == NULL || at[CONTENT] == NULL) {
        return dt__json_fail(j, "an added token has an id and a content");
    }
    j->at = at[CONTENT];
    DT__TRY(dt__json_bytes(j, &e.text, &e.n));
    if (e.n == 0) return dt__json_fail(j, "an added token is empty: its content has no text");
    j->at = at[ID];
    DT__TRY(dt__read_id(j, e.text, &e.id));
    DT__TRY(dt__must_be_false(j, at[SINGLE_WORD], "single_word of an added token"));
    DT__TRY(dt__read_truth(j, at[LSTRIP], false, &e.left));
    DT__TRY(dt__read_truth(j, at[RSTRIP], false, &e.right));
    DT__TRY(dt__read_truth(j, at[SPECIAL], false, &e.special));
    DT__TRY(dt__read_truth(j, at[NORMALIZED], !e.special, &e.late));
    j->at = after;
    return dt__bpe_keep(r, &r->added, &e);
}

static int order(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    const int c = memcmp(x->text, y->text, x->n < y->n ? x->n : y->n);
    return c != 0 ? c : (x->n > y->n) - (x->n < y->n);
}

dt_status dt__bpe_read_added(reading *r)
{
    dt__json *j = r->j;
    char shown[DT__SHOWN];
    if (r->parts->at[DT__PART_ADDED] == NULL) return DT_OK;
    j->at = r->parts->at[DT__PART_ADDED];
    for (bool more = dt__json_open(j, '['); more; more = dt__json_more(j, ']')) {
        DT__TRY(read_added(r));
    }
    DT__TRY(j->status);
    if (r->added.n > 0) qsort(r->added.at, (size_t)r->added.n, sizeof *r->added.at, order);
    for (int64_t i = 1; i < r->added.n; i++) {
        if (order(&r->added.at[i - 1], &r->added.at[i]) != 0) continue;
        return dt__json_fail(j, "the added token '%s' occurs twice",
                             dt__shown(r->added.at[i].text, shown));
    }
    return DT_OK;
}

const entry *dt__bpe_find_added(const reading *r, const entry *e)
{
    if (r->added.n == 0) return NULL;
    return bsearch(e, r->added.at, (size_t)r->added.n, sizeof *e, order);
}

static dt_status put_pattern(reading *r, const entry *e)
{
    dt_tokenizer *k = r->k;
    dt_ctx *ctx = k->ctx;
    dt__chars room[2] = { { .ctx = ctx }, { .ctx = ctx } };
    const unsigned char *const text = (const unsigned char *)e->text;
    dt__passage t = { text, text + e->n, true };
    const dt_status s = e->late ? dt__steps_edit(&k->normalizer, &t, room) : DT_OK;
    const size_t n = (size_t)(t.end - t.at);
    k->added.at[k->added.first[2]++] = (dt__pattern){ e->id, (uint32_t)n, NULL };
    if (s == DT_OK) dt__put(&k->added.bytes, (const char *)t.at, n);
    for (int i = 0; i < 2; i++) dt__release(ctx, room[i].bytes);
    return s != DT_OK ? s : k->added.bytes.failed ? DT_ERR_NOMEM : DT_OK;
}

static int by_text(const void *a, const void *b)
{
    const dt__pattern *p = a, *q = b;
    const int c = memcmp(p->text, q->text, p->n < q->n ? p->n : q->n);
    return c != 0 ? c : (p->n > q->n) - (p->n < q->n);
}

static dt_status equal_patterns(const reading *r, const dt__pattern *p)
{
    char a[DT__SHOWN], b[DT__SHOWN];
    const entry *e = r->added.at, *f = r->added.at;
    while (e->id != p[0].id) e++;
    while (f->id != p[1].id) f++;
    return dt__json_fail(r->j, "the added tokens '%s' and '%s' are one text when normalized",
                         dt__shown(e->text, a), dt__shown(f->text, b));
}

/* Sorts added tokens: entries are sorted by text, but normalization may change that order. */
static dt_status sort_added(reading *r)
{
    dt__added *added = &r->k->added;
    size_t used = 0;
    for (int late = 0; late < 2; late++) {
        added->first[late] = added->first[2];
        for (int64_t i = 0; i < r->added.n; i++) {
            if (r->added.at[i].late == (late == 1)) DT__TRY(put_pattern(r, &r->added.at[i]));
        }
    }
    for (int64_t i = 0; i < added->first[2]; i++) { /* the bytes are final now */
        added->at[i].text = added->bytes.bytes + used;
        used += added->at[i].n;
    }
    dt__pattern *const second = added->at + added->first[1];
    const int64_t n = added->first[2] - added->first[1];
    if (n > 1) qsort(second, (size_t)n, sizeof *second, by_text);
    for (int64_t i = 0; i + 1 < n; i++) {
        if (by_text(&second[i], &second[i + 1]) == 0) return equal_patterns(r, &second[i]);
    }
    return DT_OK;
}

dt_status dt__bpe_set_added(reading *r, size_t *used)
{
    dt_tokenizer *k = r->k;
    char a[DT__SHOWN], b[DT__SHOWN];
    k->added.bytes.ctx = k->ctx;
    k->added.at = dt__alloc_array(k->ctx, r->added.n, sizeof *k->added.at);
    if (k->added.at == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < r->added.n; i++) {
        const entry *e = &r->added.at[i];
        dt__token *t = &k->token[e->id];
        if (t->added) {
            const entry *other = r->added.at;
            while (other->id != e->id) other++;
            return dt__json_fail(r->j, "the added tokens '%s' and '%s' have one id, %d",
                                 dt__shown(other->text, a), dt__shown(e->text, b), e->id);
        }
        if (!t->there) dt__bpe_set_token(r, e, e->text, e->n, used);
        else if (t->n != e->n || memcmp(k->bytes + t->at, e->text, e->n) != 0)
            return dt__bpe_same_id(r, e);
        t->added = true;
        t->special = e->special;
        t->late = e->late;
        t->left = e->left;
        t->right = e->right;
    }
    return sort_added(r);
}
