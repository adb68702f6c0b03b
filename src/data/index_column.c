/* Finds columns that number the rows of a table (index_column.h). Programs write them beside the
 * data; a model that reads one would learn the order of the file. */
#include "core/text/row_named.h"
#include "core/comparisons.h"
#include "data/index_column.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FEWEST 3 /* rows */

static bool is_unnamed(const char *small)
{
    static const char pandas[] = "unnamed: ";
    return *small == 0 || strncmp(small, pandas, sizeof pandas - 1) == 0;
}

static bool is_index_name(const char *small)
{
    static const char *const names[] = { "id",        "ids",      "idx",       "index",
                                         "row",       "rows",     "row_id",    "rowid",
                                         "row id",    "rownum",   "nr",        "no",
                                         "no.",       "num",      "#",         "row_number",
                                         "rowname",   "rownames", "row_names", "sample_id",
                                         "record_id", "level_0" };
    return DT__IS_ONE_OF(small, names);
}

/* Whether the column is v[0], v[0] + 1, ... */
static bool counts(const dt__column *c)
{
    int64_t i = 0;
    while (i < c->n && c->v[i * c->step] == c->v[0] + (float)i) i++;
    return i == c->n && c->v[0] == floorf(c->v[0]);
}

/* Whether n sorted numbers are different integers; `dense`: also without gaps. */
static bool are_different(const float *v, int64_t n, bool dense)
{
    for (int64_t i = 0; i < n; i++) {
        if (v[i] != floorf(v[i]) || (i > 0 && v[i] == v[i - 1])) return false;
    }
    return !dense || v[n - 1] - v[0] == (float)(n - 1);
}

dt_status dt__is_index_column(dt_ctx *ctx, const char *name, const dt__column *c, bool *out)
{
    char small[64] = "";
    *out = false;
    if (c->n < FEWEST) return DT_OK;
    if (name == NULL) {
        *out = (c->v[0] == 0 || c->v[0] == 1) && counts(c);
        return DT_OK;
    }
    for (size_t i = 0; name[i] != 0 && i + 1 < sizeof small; i++) {
        small[i] = (char)tolower((unsigned char)name[i]);
    }
    const bool unnamed = is_unnamed(small);
    if (!unnamed && !is_index_name(small)) return DT_OK;
    *out = counts(c);
    if (*out) return DT_OK;
    float *sorted = dt__alloc_array(ctx, c->n, sizeof *sorted);
    if (sorted == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < c->n; i++) sorted[i] = c->v[i * c->step];
    qsort(sorted, (size_t)c->n, sizeof *sorted, dt__by_float);
    *out = sorted[0] >= 0 && are_different(sorted, c->n, !unnamed);
    dt__release(ctx, sorted);
    return DT_OK;
}
