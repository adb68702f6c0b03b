/* Rows and the machine as text: lines for people, objects of JSON for programs. */
#define _POSIX_C_SOURCE 200809L
#include "bench/measure.h"
#include "core/number.h"
#include "kernels/machine.h"

#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Text that grows; what does not fit is counted. */
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

/* ,"key": "text" with what JSON wants escaped */
static void put_string(page *p, const char *key, const char *text)
{
    put(p, "%s\"%s\": \"", p->length > 1 ? ", " : "", key);
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
    put(p, "%s\"%s\": %s", p->length > 1 ? ", " : "", key, text);
}

/* ---- rows ------------------------------------------------------------------------------------- */

static void put_row_json(page *p, const dt_bench_row *row)
{
    put(p, "{");
    put_string(p, "name", row->name);
    put_number(p, "value", row->value);
    put_string(p, "unit", row->unit);
    put_number(p, "low", row->low);
    put_number(p, "high", row->high);
    put_number(p, "repetitions", row->repetitions);
    if (row->limit != NULL) {
        put_string(p, "limit", row->limit);
    } else {
        put(p, ", \"limit\": null");
    }
    put_number(p, "share_of_limit", row->share_of_limit);
    put(p, ", \"ratio_to\": %s", row->n_ratios > 0 ? "{" : "null");
    for (int i = 0; i < row->n_ratios; i++) {
        char number[32] = "null";
        if (isfinite(row->ratio_to[i].value)) dt__print_real(row->ratio_to[i].value, number);
        put(p, "%s\"%s\": %s", i == 0 ? "" : ", ", row->ratio_to[i].to, number);
    }
    put(p, row->n_ratios > 0 ? "}}" : "}");
}

/* Three digits, or all before the point. */
static int decimals(double value)
{
    const double v = fabs(value);
    return v >= 99.95 ? 0 : v >= 9.995 ? 1 : v >= 0.9995 ? 2 : 3;
}

static void put_row(page *p, const dt_bench_row *row)
{
    put(p, "%-46s %8.*f %-8s", row->name, decimals(row->value), row->value, row->unit);
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
        put(p, "%s %.2f x %s", i == 0 ? " " : ",", row->ratio_to[i].value, row->ratio_to[i].to);
    }
}

size_t dt_bench_row_text(const dt_bench_row *row, bool json, char *text, size_t size)
{
    page p = { text, size, 0 };
    if (json) {
        put_row_json(&p, row);
    } else {
        put_row(&p, row);
    }
    return p.length;
}

/* ---- the machine ------------------------------------------------------------------------------ */

typedef struct machine {
    char processor[DT__PROCESSOR], blas[48];
    long cores;
    int threads;
    const char *kernels;
    dt__bench caches;
} machine;

static void put_machine_json(page *p, const machine *m)
{
    put(p, "{");
    put_string(p, "processor", m->processor);
    put_number(p, "cores", (double)m->cores);
    put_number(p, "threads", m->threads);
    put_number(p, "l1_bytes", (double)m->caches.cache[0]);
    put_number(p, "l2_bytes", (double)m->caches.cache[1]);
    put_number(p, "last_cache_bytes", (double)m->caches.cache[2]);
    put_string(p, "kernels", m->kernels);
    put_string(p, "openblas", m->blas);
    put_string(p, "openblas_core", dt__blas_core());
    put_string(p, "detent", dt_version());
    put_string(p, "compiler", __VERSION__);
    put(p, "}");
}

static void put_machine(page *p, const machine *m)
{
    const size_t *c = m->caches.cache;
    put(p, "%s, %ld cores, %d thread%s; caches %zu KiB, %zu KiB, %zu MiB\n", m->processor, m->cores,
        m->threads, m->threads == 1 ? "" : "s", c[0] >> 10, c[1] >> 10, c[2] >> 20);
    put(p, "detent %s, kernels %s, compiler %s; %s, core %s", dt_version(), m->kernels, __VERSION__,
        m->blas, dt__blas_core());
}

size_t dt_bench_machine(dt_ctx *ctx, bool json, char *text, size_t size)
{
    machine m = { .cores = sysconf(_SC_NPROCESSORS_ONLN), .threads = dt_threads(ctx) };
    m.kernels = dt_kernels_name(ctx);
    if (m.kernels == NULL) return 0;
    dt__processor(m.processor);
    dt__bench_caches(&m.caches);
    /* "OpenBLAS 0.3.21 and how it was built" */
    const char *config = openblas_get_config();
    const size_t name = strcspn(config, " ");
    const size_t both = name + strspn(config + name, " ");
    snprintf(m.blas, sizeof m.blas, "%.*s", (int)(both + strcspn(config + both, " ")), config);
    page p = { text, size, 0 };
    if (json) {
        put_machine_json(&p, &m);
    } else {
        put_machine(&p, &m);
    }
    return p.length;
}
