/* Rows and the machine as text: lines for people, objects of JSON for programs. */
#include "bench/measure.h"
#include "core/text/number.h"

#include <detent/experimental/machine.h>

#include <math.h>
#include <stdio.h>

#define PAGE 2048

/* Text of limited size; `length` also counts what did not fit. */
typedef struct page {
    char *text;
    size_t size, length;
} page;

static void put(page *p, const char *format, ...) DT_PRINTF(2, 3);
static void put(page *p, const char *format, ...)
{
    char *at = p->length < p->size ? p->text + p->length : NULL;
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(at, at == NULL ? 0 : p->size - p->length, format, arguments);
    va_end(arguments);
    if (n > 0) p->length += (size_t)n;
}

/* Writes "key":, after a comma if a field precedes it. */
static void put_key(page *p, const char *key)
{
    const bool first = p->length < p->size && p->text[p->length - 1] == '{';
    put(p, "%s\"%s\": ", first ? "" : ", ", key);
}

static void put_string(page *p, const char *key, const char *text)
{
    put_key(p, key);
    if (text == NULL) {
        put(p, "null");
        return;
    }
    put(p, "\"");
    for (; *text != 0; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c < 0x20 || c == 0x7f) {
            put(p, "\\u%04x", c);
        } else {
            put(p, "%s%c", c == '"' || c == '\\' ? "\\" : "", c);
        }
    }
    put(p, "\"");
}

static void put_number(page *p, const char *key, double value)
{
    char text[32] = "null";
    if (isfinite(value)) dt__print_real(value, text);
    put_key(p, key);
    put(p, "%s", text);
}

/* ---- rows ----------------------------------------------------------------------------------- */

static void put_row_json(page *p, const dt_bench_row *row)
{
    put(p, "{");
    put_string(p, "name", row->name);
    put_number(p, "value", row->value);
    put_string(p, "unit", row->unit);
    put_number(p, "low", row->low);
    put_number(p, "high", row->high);
    put_number(p, "repetitions", row->repetitions);
    put_string(p, "limit", row->limit);
    put_number(p, "share_of_limit", row->share_of_limit);
    put_key(p, "ratio_to");
    put(p, row->n_ratios > 0 ? "{" : "null");
    for (int i = 0; i < row->n_ratios; i++) {
        put_number(p, row->ratio_to[i].to, row->ratio_to[i].value);
    }
    put(p, row->n_ratios > 0 ? "}}" : "}");
}

/* The number of decimals for three significant digits. */
static int decimals(double value)
{
    const double v = fabs(value);
    return v >= 99.95 ? 0 : v >= 9.995 ? 1 : v >= 0.9995 ? 2 : 3;
}

static void put_row(page *p, const dt_bench_row *row)
{
    put(p, "%-48s %8.*f %-8s", row->name, decimals(row->value), row->value, row->unit);
    if (row->repetitions > 1) {
        char spread[48];
        snprintf(spread, sizeof spread, "(%.*f to %.*f)", decimals(row->low), row->low,
                 decimals(row->high), row->high);
        put(p, "  %-18s", spread);
    }
    if (isfinite(row->share_of_limit)) {
        put(p, "  %3.0f %% of %s", 100 * row->share_of_limit, row->limit);
    }
    for (int i = 0; i < row->n_ratios; i++) {
        const double value = row->ratio_to[i].value;
        put(p, "%s %.*f x %s", i == 0 ? " " : ",", decimals(value), value, row->ratio_to[i].to);
    }
}

/* ---- the machine ---------------------------------------------------------------------------- */

static void put_machine_json(page *p, const dt_machine *m)
{
    put(p, "{");
    put_string(p, "processor", m->processor);
    put_number(p, "cores", (double)m->cores);
    put_number(p, "threads", m->threads);
    put_number(p, "l1_bytes", (double)m->cache[0]);
    put_number(p, "l2_bytes", (double)m->cache[1]);
    put_number(p, "last_cache_bytes", (double)m->cache[2]);
    put_string(p, "kernels", m->kernels);
    put_string(p, "openblas", m->blas);
    put_string(p, "openblas_core", m->blas_core);
    put_string(p, "detent", dt_version());
    put_string(p, "compiler", __VERSION__);
    put(p, "}");
}

static void put_machine(page *p, const dt_machine *m)
{
    const size_t *c = m->cache;
    put(p, "%s, %ld cores, %d thread%s; caches %zu KiB, %zu KiB, %zu MiB\n", m->processor, m->cores,
        m->threads, m->threads == 1 ? "" : "s", c[0] >> 10, c[1] >> 10, c[2] >> 20);
    put(p, "detent %s, kernels %s, compiler %s; %s, core %s", dt_version(), m->kernels, __VERSION__,
        m->blas, m->blas_core);
}

/* ---- the whole ------------------------------------------------------------------------------ */

typedef struct output {
    bool json;
    int rows;
    dt_sink sink;
    void *user;
} output;

static dt_status write_page(const output *o, const page *p)
{
    return o->sink(o->user, p->text, p->length < p->size ? p->length : p->size - 1);
}

static dt_status write_row(void *user, const dt_bench_row *row)
{
    output *o = user;
    char text[PAGE];
    page p = { text, sizeof text, 0 };
    if (o->json) {
        put(&p, "%s\n  ", o->rows++ > 0 ? "," : "");
        put_row_json(&p, row);
    } else {
        put_row(&p, row);
        put(&p, "\n");
    }
    return write_page(o, &p);
}

dt_status dt_bench_write(dt_ctx *ctx, const dt_bench_options *options, bool json, dt_sink sink,
                         void *user)
{
    output o = { json, 0, sink, user };
    dt_machine m;
    char text[PAGE];
    page p = { text, sizeof text, 0 };
    DT__TRY(dt_machine_find(ctx, &m));
    if (json) {
        put(&p, "{\"machine\": ");
        put_machine_json(&p, &m);
        put(&p, ",\n\"rows\": [");
    } else {
        put_machine(&p, &m);
        put(&p, "\n\n");
    }
    DT__TRY(write_page(&o, &p));
    DT__TRY(dt_bench(ctx, options, write_row, &o));
    return json ? sink(user, "\n]}\n", 4) : DT_OK;
}
