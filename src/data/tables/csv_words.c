/* Indices of words, by a hash table with linear probing, at most half full. */
#include "data/labels.h"
#include "core/comparisons.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static int64_t *place_of(const dt__words *w, const char *word, size_t bytes)
{
    uint64_t at = XXH3_64bits(word, bytes);
    for (;; at++) {
        int64_t *slot = &w->slot[at & (uint64_t)(w->slots - 1)];
        const char *there = *slot == 0 ? NULL : w->word[*slot - 1];
        if (there == NULL || (strlen(there) == bytes && memcmp(there, word, bytes) == 0))
            return slot;
    }
}

int64_t dt__words_find(const dt__words *w, const char *word, size_t bytes)
{
    return w->slots == 0 ? -1 : *place_of(w, word, bytes) - 1;
}

static dt_status rehash(dt_ctx *ctx, dt__words *w, int64_t slots)
{
    int64_t *fresh = dt__alloc_array(ctx, slots, sizeof *fresh);
    if (fresh == NULL) return DT_ERR_NOMEM;
    memset(fresh, 0, (size_t)slots * sizeof *fresh);
    dt__release(ctx, w->slot);
    w->slot = fresh;
    w->slots = slots;
    for (int64_t i = 0; i < w->n; i++) *place_of(w, w->word[i], strlen(w->word[i])) = i + 1;
    return DT_OK;
}

int64_t dt__words_add(dt_ctx *ctx, dt__words *w, const char *word, size_t bytes)
{
    const int64_t found = dt__words_find(w, word, bytes);
    if (found >= 0) return found;
    if (2 * (w->n + 1) > w->slots && rehash(ctx, w, dt__max_i64(64, 2 * w->slots)) != DT_OK) {
        return -1;
    }
    if (DT__RESERVE(ctx, w->word, w->n, w->room) != DT_OK) return -1;
    char *copy = dt__alloc(ctx, bytes + 1);
    if (copy == NULL) return -1;
    memcpy(copy, word, bytes);
    copy[bytes] = '\0';
    *place_of(w, word, bytes) = w->n + 1;
    w->word[w->n] = copy;
    return w->n++;
}

dt_status dt__words_sort(dt_ctx *ctx, dt__words *w, dt__word_order *order, int64_t *to)
{
    if (w->n == 0) return DT_OK;
    char **before = dt__alloc_array(ctx, w->n, sizeof *before);
    if (before == NULL) return DT_ERR_NOMEM;
    memcpy(before, w->word, (size_t)w->n * sizeof *before);
    qsort(w->word, (size_t)w->n, sizeof *w->word, order == NULL ? dt__by_text : order);
    dt_status status = rehash(ctx, w, w->slots);
    for (int64_t i = 0; status == DT_OK && i < w->n; i++) {
        to[i] = dt__words_find(w, before[i], strlen(before[i]));
    }
    dt__release(ctx, before);
    return status;
}

void dt__words_free(dt_ctx *ctx, dt__words *w)
{
    for (int64_t i = 0; i < w->n; i++) dt__release(ctx, w->word[i]);
    DT__RELEASE(ctx, w->word, w->slot);
    *w = (dt__words){ 0 };
}
