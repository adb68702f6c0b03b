/* Two names are alike if they are the same number, or the same text in Unicode compatibility form
 * (NFKC) after folding case, mapping blanks and dashes to one kind, joining runs of blanks, and
 * removing invisible characters. Names of one character, such as a and A, may differ in case. */
#include "data/alike.h"

#include "core/block_list.h"
#include "core/comparisons.h"
#include "core/text/json.h"
#include "core/text/utf8.h"
#include "data/value_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

typedef struct folded {
    const char *text; /* the first field: dt__by_text sorts by it */
    int64_t at;
} folded;

/* Removes blanks at both ends, and joins runs of blanks. Returns the length. */
static size_t join_blanks(char *text, size_t n)
{
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        const bool blank = text[i] == ' ' || (text[i] >= '\t' && text[i] <= '\r');
        if (blank && (used == 0 || text[used - 1] == ' ')) continue;
        text[used++] = blank ? ' ' : text[i];
    }
    used -= used > 0 && text[used - 1] == ' ';
    text[used] = 0;
    return used;
}

static dt_status fold(dt_ctx *ctx, const char *name, void **blocks, const char **out)
{
    char value[DT__VALUE_TEXT];
    const unsigned char *p = (const unsigned char *)name, *end = p + strlen(name);
    const bool is_number = dt__value_text(name, strlen(name), value);
    const bool single = p < end && dt__utf8_length(p, end) == end - p;
    const utf8proc_option_t form = UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT |
                                   UTF8PROC_IGNORE | UTF8PROC_LUMP |
                                   (single ? 0 : UTF8PROC_CASEFOLD);
    const char *from = is_number ? value : name;
    const utf8proc_ssize_t bytes = (utf8proc_ssize_t)strlen(from);
    const unsigned char *text = (const unsigned char *)from;
    const utf8proc_ssize_t n = utf8proc_decompose(text, bytes, NULL, 0, form);
    *out = name;
    if (n < 0) return DT_OK; /* not UTF-8 */
    utf8proc_int32_t *room = dt__block_list_add(ctx, blocks, (size_t)(n + 1) * sizeof *room);
    if (room == NULL) return DT_ERR_NOMEM;
    utf8proc_decompose(text, bytes, room, n, form);
    const utf8proc_ssize_t used = utf8proc_reencode(room, n, form);
    join_blanks((char *)room, used < 0 ? 0 : (size_t)used);
    *out = (const char *)room;
    return DT_OK;
}

static bool is_missing(const char *text)
{
    static const char *const words[] = { "",     "na", "n/a", "#n/a", "<na>", "nan",
                                         "null", "?",  "-",   "--",   "." };
    for (int i = 0; i < DT__COUNT_OF(words); i++) {
        if (strcmp(words[i], text) == 0) return true;
    }
    return false;
}

static void say_pairs(dt_ctx *ctx, const dt__name_list *list, const folded *all, int64_t n)
{
    char first[DT__SHOWN], second[DT__SHOWN], more[60] = "";
    int64_t pairs = 0, at = 0;
    for (int64_t i = 1; i < n; i++) {
        if (strcmp(all[i].text, all[i - 1].text) == 0 && pairs++ == 0) at = i;
    }
    if (pairs == 0) return;
    if (pairs > 1) snprintf(more, sizeof more, " (and %lld more)", (long long)pairs - 1);
    dt__say(ctx,
            "warning: %s: the %s '%s' and '%s' differ in case, blanks or the form of characters or "
            "numbers alone%s: one spelling would make them one",
            list->where, list->what, dt__shown(list->name[all[at - 1].at], first),
            dt__shown(list->name[all[at].at], second), more);
}

static void say_missing(dt_ctx *ctx, const dt__name_list *list, const folded *all, int64_t n)
{
    char shown[DT__SHOWN];
    for (int64_t i = 0; i < n; i++) {
        if (!is_missing(all[i].text)) continue;
        dt__say(ctx, "warning: %s: '%s', one of the %s, looks like a missing value; %s",
                list->where, dt__shown(list->name[all[i].at], shown), list->what, list->instead);
        return;
    }
}

dt_status dt__say_alike(dt_ctx *ctx, const dt__name_list *list)
{
    void *blocks = NULL;
    int64_t n = 0;
    folded *all = dt__alloc_array(ctx, dt__max_i64(1, list->n), sizeof *all);
    dt_status s = all == NULL ? DT_ERR_NOMEM : DT_OK;
    for (int64_t i = 0; i < list->n && s == DT_OK; i++) {
        if (list->name[i] == NULL) continue;
        all[n].at = i;
        s = fold(ctx, list->name[i], &blocks, &all[n++].text);
    }
    if (s == DT_OK) {
        qsort(all, (size_t)n, sizeof *all, dt__by_text);
        say_pairs(ctx, list, all, n);
        say_missing(ctx, list, all, n);
    }
    dt__release(ctx, all);
    dt__block_list_free(ctx, &blocks);
    return s;
}
