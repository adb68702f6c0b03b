/* Byte pair encoding (Sennrich et al. 2016; on bytes, Radford et al. 2019). A piece of text begins
 * as one token per byte; with a sentencepiece vocabulary (Kudo and Richardson 2018) as one per
 * character, or as the tokens of its bytes if the character has none. Then, as long as neighbours
 * have a merge, the merge of smallest index is applied, leftmost first. The tokens of a piece are a
 * linked list; possible merges are in a heap by (merge, position), so n bytes take n log n steps. A
 * heap entry is stale if its tokens have changed since. */
#include "core/text/utf8.h"
#include "data/text/tokenizer.h"

#include <string.h>

/* ---- the alphabet --------------------------------------------------------------------------- */

/* Printable characters of Latin-1 represent their bytes; U+0100 and the following represent the
 * other 68 bytes in order: 0-32, 127-160, 173. */
uint32_t dt__byte_char(int byte)
{
    if (byte <= 32) return 256u + (uint32_t)byte;
    if (byte >= 127 && byte <= 160) return 256u + 33 + (uint32_t)(byte - 127);
    return byte == 173 ? 256 + 67 : (uint32_t)byte;
}

int dt__char_byte(uint32_t c)
{
    if (c < 256) return dt__byte_char((int)c) == c ? (int)c : -1;
    if (c <= 256 + 32) return (int)c - 256;
    if (c < 256 + 67) return (int)c - 256 - 33 + 127;
    return c == 256 + 67 ? 173 : -1;
}

/* ---- merges by their pairs ------------------------------------------------------------------ */

static uint32_t slot_of(const dt__bpe *b, int32_t left, int32_t right)
{
    uint64_t hash = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u;
    uint32_t s = (uint32_t)(hash >> 32) & b->mask;
    for (; b->slot[s] >= 0; s = (s + 1) & b->mask) {
        const dt__merge *m = &b->merge[b->slot[s]];
        if (m->left == left && m->right == right) break;
    }
    return s;
}

dt_status dt__bpe_index(dt_ctx *ctx, dt__bpe *b, int64_t *twice)
{
    *twice = -1;
    b->slot = dt__slots(ctx, b->merges, &b->mask);
    if (b->slot == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < b->merges && *twice < 0; i++) {
        const uint32_t s = slot_of(b, b->merge[i].left, b->merge[i].right);
        if (b->slot[s] >= 0) *twice = i;
        b->slot[s] = (int32_t)i;
    }
    return DT_OK;
}

/* ---- encoding ------------------------------------------------------------------------------- */

#define NONE UINT32_MAX

typedef struct node {
    int32_t id; /* -1: merged into the token before */
    uint32_t before, after;
} node;

typedef struct work {
    const dt_tokenizer *k;
    node *node;
    uint64_t *heap; /* merge << 32 | position of the left token; a min-heap */
    size_t room, used;
} work;

static void push(work *w, uint64_t entry)
{
    size_t i = w->used++;
    for (; i > 0 && w->heap[(i - 1) / 2] > entry; i = (i - 1) / 2) {
        w->heap[i] = w->heap[(i - 1) / 2];
    }
    w->heap[i] = entry;
}

static uint64_t pop(work *w)
{
    const uint64_t first = w->heap[0], last = w->heap[--w->used];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= w->used) break;
        if (child + 1 < w->used && w->heap[child + 1] < w->heap[child]) child++;
        if (w->heap[child] >= last) break;
        w->heap[i] = w->heap[child];
        i = child;
    }
    w->heap[i] = last;
    return first;
}

static void push_pair(work *w, uint32_t left)
{
    const node *n = &w->node[left];
    if (n->after == NONE) return;
    const dt__bpe *b = &w->k->bpe;
    const int32_t merge = b->slot[slot_of(b, n->id, w->node[n->after].id)];
    if (merge >= 0) push(w, (uint64_t)(uint32_t)merge << 32 | left);
}

static void merge_all(work *w)
{
    while (w->used > 0) {
        const uint64_t entry = pop(w);
        const dt__merge *m = &w->k->bpe.merge[entry >> 32];
        const uint32_t left = (uint32_t)entry;
        node *n = &w->node[left];
        if (n->id != m->left || n->after == NONE || w->node[n->after].id != m->right) continue;
        node *gone = &w->node[n->after];
        n->id = m->result;
        n->after = gone->after;
        gone->id = -1;
        if (n->after != NONE) w->node[n->after].before = left;
        if (n->before != NONE) push_pair(w, n->before);
        push_pair(w, left);
    }
}

/* There is one pair per two neighbours, and merging adds two pairs: the heap has less than 3 n
 * entries. */
static dt_status make_room(work *w, size_t n)
{
    dt_ctx *ctx = w->k->ctx;
    if (n <= w->room) return DT_OK;
    if (n > INT32_MAX) {
        return dt_fail(ctx, DT_ERR_ARG, "encode: %zu bytes without a place to split; 2^31 at most",
                       n);
    }
    DT__RELEASE(ctx, w->node, w->heap);
    w->room = n < 64 ? 64 : n;
    w->node = dt__alloc_array(ctx, (int64_t)w->room, sizeof *w->node);
    w->heap = dt__alloc_array(ctx, 3 * (int64_t)w->room, sizeof *w->heap);
    return w->node == NULL || w->heap == NULL ? DT_ERR_NOMEM : DT_OK;
}

/* Makes the initial tokens of a piece; returns their number, at most n. */
static uint32_t begin_piece(work *w, const unsigned char *p, size_t n)
{
    const dt__bpe *b = &w->k->bpe;
    const unsigned char *const end = p + n;
    uint32_t used = 0;
    while (p < end) {
        const int length = b->pieces ? dt__utf8_length(p, end) : 0;
        const int32_t id =
            length == 0 ? -1 : dt__tokenizer_find(w->k, (const char *)p, (size_t)length);
        w->node[used++].id = id >= 0 ? id : b->byte[*p];
        if (id >= 0) p += length;
        else p++;
        for (int i = 1; id < 0 && i < length; i++) w->node[used++].id = b->byte[*p++];
    }
    for (uint32_t i = 0; i < used; i++) {
        w->node[i].before = i == 0 ? NONE : i - 1;
        w->node[i].after = i + 1 == used ? NONE : i + 1;
    }
    return used;
}

static dt_status encode_piece(work *w, const unsigned char *p, size_t n, dt_ids *ids)
{
    if (w->k->bpe.ignore_merges) {
        const int32_t whole = dt__tokenizer_find(w->k, (const char *)p, n);
        if (whole >= 0 && !w->k->token[whole].added) return dt_ids_put(ids, whole);
    }
    DT__TRY(make_room(w, n));
    const uint32_t used = begin_piece(w, p, n);
    w->used = 0;
    for (uint32_t i = 0; i < used; i++) push_pair(w, i);
    merge_all(w);
    for (uint32_t i = 0; i != NONE; i = w->node[i].after) {
        DT__TRY(dt_ids_put(ids, w->node[i].id));
    }
    return DT_OK;
}

/* Splits text by the steps from `step` on. */
static dt_status encode_steps(work *w, int step, const unsigned char *p, const unsigned char *end,
                              dt_ids *ids)
{
    const dt__steps *steps = &w->k->pre_tokenizer;
    if (step == steps->n) return p == end ? DT_OK : encode_piece(w, p, (size_t)(end - p), ids);
    const dt__step *s = &steps->at[step];
    while (p < end) {
        const size_t n = s->kind->next(s, p, end);
        DT__TRY(encode_steps(w, step + 1, p, p + n, ids));
        p += n;
    }
    return DT_OK;
}

static dt_status encode(const dt_tokenizer *k, const unsigned char *text, size_t bytes, dt_ids *ids)
{
    work w = { .k = k };
    const dt_status status = encode_steps(&w, 0, text, text + bytes, ids);
    DT__RELEASE(k->ctx, w.node, w.heap);
    return status;
}

const dt__split *dt__bpe_split(const dt_tokenizer *k)
{
    const dt__steps *pre = &k->pre_tokenizer;
    if (k->kind != &dt__tokenizer_is_bpe || k->bpe.pieces || pre->n == 0) return NULL;
    const dt__step *last = &pre->at[pre->n - 1];
    for (int64_t i = 0; i < k->vocab; i++) {
        if (k->token[i].left || k->token[i].right) return NULL;
    }
    if (pre->n == 1) return last->on ? &dt__splits[0] : NULL;
    return pre->n == 2 && !last->on ? pre->at[0].split : NULL;
}

bool dt__normalizes_nfc(const dt_tokenizer *k)
{
    return k->normalizer.n == 1 && k->normalizer.at[0].kind->edit == dt__edit_nfc;
}

static bool normalizes_spaces(const dt__steps *steps, dt__spaces *out)
{
    bool replaces = false;
    for (int i = 0; i < steps->n; i++) {
        const dt__step *s = &steps->at[i];
        if (strcmp(s->to, DT__SPACE_SIGN) != 0) return false;
        if (s->kind->edit == dt__edit_prepend && out->prefix == DT__NO_PREFIX) {
            out->prefix = DT__PREFIX;
        } else if (s->kind->edit == dt__edit_replace && strcmp(s->from, " ") == 0) {
            replaces = true;
        } else {
            return false;
        }
    }
    return replaces || steps->n == 0;
}

bool dt__bpe_spaces(const dt_tokenizer *k, dt__spaces *out)
{
    const dt__steps *pre = &k->pre_tokenizer;
    const dt__step *s = &pre->at[0];
    *out = (dt__spaces){ .prefix = DT__NO_PREFIX };
    const bool plain = k->kind == &dt__tokenizer_is_bpe && k->bpe.pieces && !k->bpe.ignore_merges;
    if (!plain || pre->n > 1 || !normalizes_spaces(&k->normalizer, out)) return false;
    if (pre->n == 0) return k->normalizer.n > 0;
    if (s->kind->edit == dt__edit_sign_spaces && strcmp(s->to, DT__SPACE_SIGN) == 0) {
        out->cut = s->on;
        if (out->prefix == DT__NO_PREFIX && s->choice != DT__NEVER) {
            out->prefix = DT__PREFIX_UNLESS_SPACE;
        }
        return true;
    }
    /* removes all spaces */
    return k->normalizer.n > 0 && s->kind->next == dt__cut_split && s->split == NULL &&
           strcmp(s->to, " ") == 0;
}

const dt__tokenizer_kind dt__tokenizer_is_bpe = { "bpe", encode, dt__bpe_put };
