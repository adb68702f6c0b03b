/* The order in time of words: all are numbers, or all are texts of one form that begin with
 * YYYY-MM-DD, such as 2024-05-31T12:00:00Z, whose bytes are in the order of time. */
#include "core/text/json.h"
#include "core/text/number.h"
#include "data/splits/held_back.h"

#include <stdlib.h>
#include <string.h>

typedef struct timed {
    double number;
    const char *word;
    int64_t code;
} timed;

static int by_number(const void *a, const void *b)
{
    const timed *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(((const timed *)a)->word, ((const timed *)b)->word);
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Whether digits and other characters are at the same places. A zone is one text. */
static bool has_form(const char *word, const char *form)
{
    for (; *word != 0 && is_digit(*word) == is_digit(*form); word++, form++) {
        if (!is_digit(*word) && *word != *form) return false;
    }
    return *word == *form;
}

static bool is_date(const char *word)
{
    static const char form[] = "0000-00-00";
    int i = 0;
    while (form[i] != 0 && is_digit(word[i]) == is_digit(form[i]) &&
           (is_digit(form[i]) || word[i] == '-')) {
        i++;
    }
    return form[i] == 0;
}

/* What follows the sign of a zone, "+02:00", is the same in both. */
static bool same_zone(const char *word, const char *other)
{
    const size_t n = strlen(word);
    const char *zone = n > 10 ? strpbrk(word + 10, "+-") : NULL;
    return zone == NULL || strcmp(zone, other + (zone - word)) == 0;
}

dt_status dt__order_times(dt_ctx *ctx, const dt__words *words, int64_t *time)
{
    timed *all = dt__alloc_array(ctx, words->n, sizeof *all);
    if (all == NULL) return DT_ERR_NOMEM;
    int64_t numbers = 0, dates = 0, bad = 0;
    for (int64_t i = 0; i < words->n; i++) {
        const char *word = words->word[i], *first = words->word[0];
        all[i] = (timed){ 0, word, i };
        const bool number = dt__parse_real(word, &all[i].number) == DT__NUMBER;
        const bool date = is_date(word) && has_form(word, first) && same_zone(word, first);
        numbers += number;
        dates += date;
        if (i > 0 && bad == 0 && (numbers <= i && dates <= i)) bad = i;
    }
    dt_status status = DT_OK;
    if (numbers < words->n && dates < words->n) {
        char shown[DT__SHOWN], other[DT__SHOWN];
        status = dt_fail(ctx, DT_ERR_CONFIG,
                         "data.split.column: '%s' and '%s' are in no order of time; expected "
                         "numbers, or times of one form and zone, such as 2024-05-31T12:00:00Z",
                         dt__shown(words->word[0], shown), dt__shown(words->word[bad], other));
    } else {
        qsort(all, (size_t)words->n, sizeof *all, numbers == words->n ? by_number : by_bytes);
        int64_t place = 0;
        for (int64_t i = 0; i < words->n; i++) {
            if (i > 0 && numbers == words->n && all[i].number != all[i - 1].number) place++;
            time[all[i].code] = numbers == words->n ? place : i;
        }
    }
    dt__release(ctx, all);
    return status;
}
