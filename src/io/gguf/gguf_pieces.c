/* Converts the sentencepiece vocabulary of a GGUF file ("llama") to BPE. llama.cpp merges the
 * neighbours whose joined text is the token with the highest score. So each way to cut a token into
 * two tokens is a merge, and merges are sorted by the scores of the tokens that they produce. */
#include "core/text/byte_order.h"
#include "io/gguf/gguf_keys.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES 512 /* of a token */
#define MOST_WAYS 8    /* merges for each token, on average: those of Llama and Gemma have 2 */
#define FREE_WAYS 4096 /* allowed in addition: small vocabularies have runs of one character */

typedef struct piece {
    const char *text;
    size_t n;
    int64_t id;
    float score;
    bool merges; /* is a result and an operand of merges */
} piece;

typedef struct pieces {
    piece *by_text; /* all pieces, sorted by text */
    const piece **by_score;
    int64_t n, merges;
} pieces;

static int order_texts(const piece *p, const piece *q)
{
    const int order = memcmp(p->text, q->text, p->n < q->n ? p->n : q->n);
    return order != 0 ? order : (p->n > q->n) - (p->n < q->n);
}

static int by_text(const void *a, const void *b) { return order_texts(a, b); }

static int by_score(const void *a, const void *b)
{
    const piece *p = *(const piece *const *)a, *q = *(const piece *const *)b;
    const int order = (q->score > p->score) - (q->score < p->score);
    return order != 0 ? order : (p->id > q->id) - (p->id < q->id);
}

static bool merges(const pieces *all, const char *text, size_t n)
{
    const piece key = { .text = text, .n = n };
    const piece *p = bsearch(&key, all->by_text, (size_t)all->n, sizeof key, by_text);
    return p != NULL && p->merges;
}

static void put_merges_of(pieces *all, const piece *p, dt__chars *t)
{
    for (size_t i = 1; i < p->n; i++) {
        if (((unsigned char)p->text[i] & 0xc0) == 0x80) continue;
        if (!merges(all, p->text, i) || !merges(all, p->text + i, p->n - i)) continue;
        dt__put_text(t, all->merges++ == 0 ? "[" : ",[");
        dt__put_quoted_bytes(t, p->text, i);
        dt__put_text(t, ",");
        dt__put_quoted_bytes(t, p->text + i, p->n - i);
        dt__put_text(t, "]");
    }
}

/* Refuses more merges than real vocabularies have: the ways to cut all tokens could take hundreds
 * of times the bytes of the file. */
static bool put_all(pieces *all, dt__chars *t)
{
    const int64_t most = MOST_WAYS * all->n + FREE_WAYS;
    dt__put_text(t, "\"vocab\":{");
    for (int64_t i = 0; dt__put_each(t, i, all->n); i++) {
        dt__put_quoted_bytes(t, all->by_text[i].text, all->by_text[i].n);
        DT__PUT_ALL(t, ":", all->by_text[i].id);
    }
    dt__put_text(t, "},\"merges\":[");
    for (int64_t i = 0; i < all->n && all->merges <= most && !t->failed; i++) {
        if (all->by_score[i]->merges) put_merges_of(all, all->by_score[i], t);
    }
    dt__put_text(t, "]");
    return all->merges <= most;
}

/* *fits false: a token is too long, or a score is not a number. */
static void collect(const dt__gguf_pieces *from, pieces *all, bool *fits)
{
    const unsigned char *at = from->tokens->data;
    for (uint64_t i = 0; i < from->tokens->n; i++) {
        piece p = { .id = (int64_t)i };
        int32_t type = DT__GGUF_NORMAL;
        at = dt__gguf_string(at, &p.text, &p.n);
        if (from->types != NULL) {
            dt__copy_little(&type, from->types->data + i * sizeof type, sizeof type);
        }
        dt__copy_little(&p.score, from->scores->data + i * sizeof p.score, sizeof p.score);
        *fits &= p.n <= MOST_BYTES && !isnan(p.score);
        p.merges = type == DT__GGUF_NORMAL || type == DT__GGUF_USER;
        if (type != DT__GGUF_UNUSED) all->by_text[all->n++] = p;
    }
    qsort(all->by_text, (size_t)all->n, sizeof *all->by_text, by_text);
    for (int64_t i = 0; i < all->n; i++) all->by_score[i] = &all->by_text[i];
    qsort(all->by_score, (size_t)all->n, sizeof *all->by_score, by_score);
}

dt_status dt__gguf_put_pieces(dt_ctx *ctx, const dt__gguf_pieces *from, dt__chars *t, bool *fits)
{
    const int64_t n = (int64_t)from->tokens->n;
    const size_t begin = t->used;
    pieces all = { .by_text = dt__alloc_array(ctx, n, sizeof *all.by_text),
                   .by_score = dt__alloc_array(ctx, n, sizeof *all.by_score) };
    const bool made = all.by_text != NULL && all.by_score != NULL;
    *fits = true;
    if (made) collect(from, &all, fits);
    if (made && *fits) *fits = put_all(&all, t);
    if (!*fits) t->used = begin;
    DT__RELEASE(ctx, all.by_text, (void *)(uintptr_t)all.by_score);
    return made && !t->failed ? DT_OK : DT_ERR_NOMEM;
}
