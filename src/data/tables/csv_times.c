/* Converts the texts of a key column to times, by which rows are sorted (dt__csv_times). */
#include "data/columns/columns.h"
#include "data/tables/csv_types.h"

#include <math.h>
#include <string.h>

dt_status dt__csv_times(const dt__csv *c, int64_t key, const char *format, double *time)
{
    const dt__words *words = &c->key_words[key];
    dt__csv_reader r;
    double v;
    dt__csv_in_form(c, &r);
    if (format == NULL) format = c->key_form[key];
    bool numbers = format == NULL && words->n > 0;
    for (int64_t i = 0; i < words->n; i++) {
        dt__csv_field f = { words->word[i], strlen(words->word[i]) };
        if (i == 0) numbers = numbers && dt__csv_is_number(&r, &f, &v);
        time[i] = (double)NAN;
        if (numbers) {
            if (dt__csv_is_number(&r, &f, &v) && isfinite(v)) time[i] = v;
            continue;
        }
        const dt_status s = dt__time_parse(c->ctx, format, f.text, f.n, &time[i]);
        if (s == DT_ERR_NOMEM) return s;
        if (s != DT_OK) time[i] = (double)NAN;
    }
    return DT_OK;
}
