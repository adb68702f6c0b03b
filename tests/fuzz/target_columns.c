/* Typed columns of a model, and a text that is read as a field of each of them: columns that are
 * read have a text that gives them again, and fields that are read are encoded or refused. */
#include "fuzz.h"

#include <detent/experimental/columns.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_WIDTH = 1 << 20 };

typedef struct text {
    char *bytes;
    size_t n;
} text;

static dt_status collect(void *user, const char *bytes, size_t n)
{
    text *t = user;
    char *larger = realloc(t->bytes, t->n + n + 1);
    FUZZ_NEEDS(larger != NULL, "memory");
    t->bytes = larger;
    memcpy(t->bytes + t->n, bytes, n);
    t->n += n;
    t->bytes[t->n] = 0;
    return DT_OK;
}

static void encode(dt_ctx *ctx, const dt_columns *c, const dt_columns *again, fuzz_bytes field)
{
    const int64_t width = dt_columns_width(c);
    dt_field *row = calloc((size_t)c->n + 1, sizeof *row);
    float *x = calloc((size_t)width + 1, sizeof *x), *y = calloc((size_t)width + 1, sizeof *y);
    FUZZ_NEEDS(row != NULL && x != NULL && y != NULL, "memory");
    dt_status s = DT_OK;
    for (int64_t i = 0; i < c->n && s == DT_OK; i++) {
        s = dt_column_parse(ctx, &c->column[i], (const char *)field.v, field.n, &row[i]);
    }
    if (s == DT_OK) s = dt_columns_encode(ctx, c, row, x);
    if (s == DT_OK) {
        FUZZ_HOLDS(dt_columns_encode(ctx, again, row, y) == DT_OK, "%s", dt_error(ctx));
        FUZZ_HOLDS(memcmp(x, y, (size_t)width * sizeof *x) == 0, "other numbers");
        for (int64_t i = 0; i < width; i++) FUZZ_HOLDS(isfinite(x[i]), "number %d", (int)i);
    } else {
        fuzz_refused(ctx, false);
    }
    free(row);
    free(x);
    free(y);
}

static void run(const uint8_t *data, size_t n)
{
    fuzz_bytes rest = { data, n };
    const fuzz_bytes list = fuzz_part(&rest);
    char *copy = calloc(1, list.n + 1);
    FUZZ_NEEDS(copy != NULL, "memory");
    if (list.n > 0) memcpy(copy, list.v, list.n);
    dt_ctx *ctx = fuzz_ctx(DT_CPU_PLAIN);
    dt_columns c, again;
    text t = { 0 };
    if (dt_columns_parse(ctx, copy, "columns", &c) == DT_OK) {
        FUZZ_HOLDS(dt_columns_text(ctx, &c, collect, &t) == DT_OK, "%s", dt_error(ctx));
        FUZZ_HOLDS(dt_columns_parse(ctx, t.bytes, "again", &again) == DT_OK, "%s", dt_error(ctx));
        FUZZ_HOLDS(dt_columns_width(&c) == dt_columns_width(&again), "other widths");
        if (dt_columns_width(&c) <= MOST_WIDTH) encode(ctx, &c, &again, rest);
        dt_columns_free(ctx, &again);
        dt_columns_free(ctx, &c);
    } else {
        fuzz_refused(ctx, c.n != 0);
    }
    free(copy);
    free(t.bytes);
    fuzz_end(ctx);
}

static void seeds(const fuzz_seeds *s)
{
    static const struct {
        const char *list, *field;
    } all[] = {
        { "[{\"name\":\"a\",\"type\":\"number\",\"scale\":\"robust\",\"missing\":\"mean\",\"fill\":"
          "3,\"offset\":1,\"factor\":2,\"indicator\":true},{\"name\":\"q\",\"scale\":\"quantile\","
          "\"quantiles\":[0,1,1,5]},{\"name\":\"l\",\"scale\":\"log\"}]",
          "-12.75e-2" },
        { "[{\"name\":\"c\",\"type\":\"category\",\"categories\":[\"x\",\"yes\"],\"missing\":"
          "\"code\"},{\"name\":\"b\",\"type\":\"boolean\",\"missing\":\"frequent\",\"fill\":1}]",
          "yes" },
        { "[{\"name\":\"t\",\"type\":\"time\",\"parts\":[\"seconds\",\"hour\",\"weekday\",\"day\","
          "\"month\",\"year\",\"of_day\",\"of_week\",\"of_year\"]}]",
          "2024-02-29T23:59:59.5+01:30" },
        { "[{\"name\":\"t\",\"type\":\"time\",\"parts\":[\"of_year\"],\"format\":"
          "\"%a %d %b %Y %I:%M:%S.%f %p %z\"}]",
          "Fri 31 May 2024 01:45:00.25 pm +0200" },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char one[1024], name[8];
        const size_t list = strlen(all[i].list), field = strlen(all[i].field);
        snprintf(name, sizeof name, "%zu", i);
        one[0] = (char)(list & 255);
        one[1] = (char)(list >> 8);
        memcpy(one + 2, all[i].list, list);
        memcpy(one + 2 + list, all[i].field, field);
        fuzz_seed(s, name, one, 2 + list + field);
    }
}

const fuzz_target fuzz_target_columns = { "columns", "typed columns of tables, and fields", run,
                                          seeds };
