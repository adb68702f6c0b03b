#include "drawn_columns.h"

#include <math.h>
#include <stdio.h>

uint64_t drawn_bits(drawn_columns *d)
{
    d->state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = d->state;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

int drawn_below(drawn_columns *d, int n) { return (int)(drawn_bits(d) % (uint64_t)n); }

double drawn_number(drawn_columns *d)
{
    const double part = (double)(drawn_bits(d) >> 11) * 0x1p-53 + 0.5;
    const double v = ldexp(part, drawn_below(d, 40) - 20);
    return drawn_below(d, 8) == 0 ? floor(v) : drawn_below(d, 2) == 0 ? v : -v;
}

static double drawn_time(drawn_columns *d)
{
    const double year = 366.0 * 86400;
    switch (drawn_below(d, 4)) {
    case 0: return floor((double)(drawn_bits(d) % 315537897600)) - 62135596800.0;
    case 1: return (double)(drawn_bits(d) % 40000) * 86400.0; /* midnights */
    case 2: return 946684800.0 + (double)drawn_below(d, 1 << 20) * 0x1p-20 * year;
    default: return 1.7e9 + drawn_number(d);
    }
}

static double value_of(drawn_columns *d, const dt_column *c)
{
    switch (c->type) {
    case DT_COLUMN_CATEGORY: return drawn_below(d, (int)c->n_categories + 1);
    case DT_COLUMN_BOOLEAN: return drawn_below(d, 2);
    case DT_COLUMN_TIME: return drawn_time(d);
    default: break;
    }
    if (c->scale == DT_SCALE_QUANTILE && drawn_below(d, 2) == 0) {
        return c->quantiles[drawn_below(d, (int)c->n_quantiles)];
    }
    return drawn_number(d);
}

static void draw_number(drawn_columns *d, int i, dt_column *c)
{
    c->scale = drawn_below(d, DT_SCALE_QUANTILE + 1);
    if (c->scale == DT_SCALE_ROBUST) {
        c->offset = drawn_number(d);
        c->factor = fabs(drawn_number(d)) + 0.001;
    }
    if (c->scale != DT_SCALE_QUANTILE) return;
    c->n_quantiles = 2 + drawn_below(d, DRAWN_QUANTILES - 1);
    c->quantiles = d->quantile[i];
    double at = drawn_number(d);
    for (int k = 0; k < c->n_quantiles; k++) {
        d->quantile[i][k] = at;
        if (drawn_below(d, 4) > 0) at += fabs(drawn_number(d)); /* some are equal */
    }
}

static void draw_category(drawn_columns *d, int i, dt_column *c)
{
    static const char *const forms[] = { "w%d", "%d", "Z\xc3\xbcrich %d", "a \"b\"?? %d", "*/ %d" };
    c->n_categories = 1 + drawn_below(d, DRAWN_CATEGORIES);
    c->category = d->words[i];
    for (int k = 0; k < c->n_categories; k++) {
        snprintf(d->word[i][k], sizeof d->word[i][k], forms[drawn_below(d, 5)], k);
        d->words[i][k] = d->word[i][k];
    }
    c->embedded = drawn_below(d, 2) == 0;
}

static void draw_missing(drawn_columns *d, dt_column *c)
{
    const bool category = c->type == DT_COLUMN_CATEGORY;
    do {
        c->missing = drawn_below(d, category ? DT_MISSING_CODE + 1 : DT_MISSING_CODE);
    } while (category && (c->missing == DT_MISSING_MEAN || c->missing == DT_MISSING_MEDIAN));
    if (c->missing != DT_MISSING_REFUSED && c->missing != DT_MISSING_CODE) c->fill = value_of(d, c);
    c->indicator = drawn_below(d, 2) == 0;
}

void draw_columns(drawn_columns *d, uint64_t seed)
{
    static const char *const names[] = { "age",
                                         "city",
                                         "the city",
                                         "int",
                                         "2nd",
                                         "Stra\xc3\x9f"
                                         "e",
                                         "a-b",
                                         "a_b",
                                         "class",
                                         "AGE",
                                         "x",
                                         "*/" };
    static const char *const formats[] = { NULL, "%Y-%m-%dT%H:%M:%S", "%d.%m.%Y" };
    *d = (drawn_columns){ .state = seed };
    d->all = (dt_columns){ .n = 1 + drawn_below(d, DRAWN_COLUMNS), .column = d->column };
    for (int i = 0; i < d->all.n; i++) {
        dt_column *c = &d->column[i];
        snprintf(d->name[i], sizeof d->name[i], "%s", names[(i + (int)seed) % DRAWN_COLUMNS]);
        c->name = d->name[i];
        c->type = i == 0 ? drawn_below(d, DT_COLUMN_IGNORE) : drawn_below(d, DT_COLUMN_IGNORE + 1);
        if (c->type == DT_COLUMN_IGNORE) continue;
        if (c->type == DT_COLUMN_NUMBER) draw_number(d, i, c);
        if (c->type == DT_COLUMN_CATEGORY) draw_category(d, i, c);
        if (c->type == DT_COLUMN_TIME) {
            c->parts = 1 + (unsigned)drawn_below(d, 511);
            c->format = formats[drawn_below(d, 3)];
            if ((c->parts & DT_TIME_SECONDS) != 0) c->offset = drawn_time(d);
        }
        draw_missing(d, c);
    }
}

double draw_field(drawn_columns *d, const dt_column *c)
{
    const bool allowed = c->type == DT_COLUMN_IGNORE || c->missing != DT_MISSING_REFUSED;
    return allowed && drawn_below(d, 4) == 0 ? (double)NAN : value_of(d, c);
}
