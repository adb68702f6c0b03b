/* Format c: constants as rows of numbers. Floats are written with all their bits. */
#include "export/c_program.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define WIDTH 96 /* columns of a row of numbers */

dt__c_name dt__c_float(float v)
{
    dt__c_name name;
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    const char *sign = bits >> 31 != 0 ? "-" : "";
    const int exponent = (int)(bits >> 23 & 255);
    const uint32_t fraction = (bits & 0x7fffff) << 1; /* six digits of four bits */
    if (exponent == 0 && fraction == 0) {
        snprintf(name.text, sizeof name.text, "%s0.0f", sign);
        return name;
    }
    char text[16];
    int n = snprintf(text, sizeof text, ".%06x", (unsigned)fraction);
    while (text[n - 1] == '0') n--; /* nor a point without digits */
    text[n == 1 ? 0 : n] = 0;
    snprintf(name.text, sizeof name.text, "%s0x%d%sp%df", sign, exponent > 0 ? 1 : 0, text,
             (exponent > 0 ? exponent : 1) - 127);
    return name;
}

void dt__c_constant(dt__c_program *p, const char *format, ...)
{
    va_list args;
    char text[1024];
    va_start(args, format);
    const int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (p->status == DT_OK) dt__put(&p->constants, text, (size_t)(n < 0 ? 0 : n));
}

/* The checksum of NAME_checksum: FNV-1a over bytes, numbers of 16 bits, or bits of floats. */
static void check(dt__c_program *p, uint32_t v) { p->checksum = (p->checksum ^ v) * 16777619u; }

/* ---- rows of numbers ------------------------------------------------------------------------- */

typedef struct rows {
    dt__chars *to;
    size_t column;
} rows;

static void put_number(rows *r, const char *text)
{
    const size_t n = strlen(text);
    if (r->column > 0 && r->column + n + 2 > WIDTH) {
        dt__put_text(r->to, "\n");
        r->column = 0;
    }
    dt__put_text(r->to, r->column == 0 ? "    " : " ");
    r->column += r->column == 0 ? 4 : 1;
    dt__put(r->to, text, n);
    dt__put_text(r->to, ",");
    r->column += n + 1;
}

static rows begin(dt__c_program *p, const dt__c_table *t, const char *type, const char *what)
{
    dt__c_fail(p, DT__RESERVE(p->ctx, p->table, p->n_tables, p->room_tables));
    if (p->status == DT_OK) p->table[p->n_tables++] = *t;
    dt__c_want(p, t->floats ? "check_floats" : t->shorts ? "check_shorts" : "check_bytes");
    if (what[0] != '\0') dt__c_printf(&p->constants, "/* %s */\n", what);
    dt__c_printf(&p->constants, "static const %s %s[%lld] = {\n", type, t->name, (long long)t->n);
    p->flash += (size_t)t->n * (t->floats ? sizeof(float) : t->shorts ? 2 : 1);
    return (rows){ &p->constants, 0 };
}

static void end(rows *r) { dt__put_text(r->to, "\n};\n"); }

static dt__c_table table_named(const char *name, int64_t n)
{
    dt__c_table t = { .n = n };
    snprintf(t.name, sizeof t.name, "%s", name);
    return t;
}

void dt__c_floats(dt__c_program *p, const char *name, const char *what, const float *v, int64_t n)
{
    dt__c_table t = table_named(name, n);
    t.floats = true;
    rows r = begin(p, &t, "float", what);
    for (int64_t i = 0; i < n && p->status == DT_OK; i++) {
        if (!isfinite(v[i])) {
            dt__c_fail(p, dt_fail(p->ctx, DT_ERR_NUMERIC,
                                  "export: %s has a value that is not finite, at %lld", what,
                                  (long long)i));
        }
        uint32_t bits;
        memcpy(&bits, &v[i], sizeof bits);
        check(p, bits);
        put_number(&r, dt__c_float(v[i]).text);
    }
    end(&r);
}

void dt__c_bytes(dt__c_program *p, const char *name, const char *what, const uint8_t *v, int64_t n)
{
    const dt__c_table t = table_named(name, n);
    rows r = begin(p, &t, "uint8_t", what);
    for (int64_t i = 0; i < n; i++) {
        char text[8];
        check(p, v[i]);
        snprintf(text, sizeof text, "%3d", v[i]);
        put_number(&r, text);
    }
    end(&r);
}

void dt__c_signed_bytes(dt__c_program *p, const char *name, const char *what, const int8_t *v,
                        int64_t n)
{
    const dt__c_table t = table_named(name, n);
    rows r = begin(p, &t, "int8_t", what);
    for (int64_t i = 0; i < n; i++) {
        char text[8];
        check(p, (uint8_t)v[i]);
        snprintf(text, sizeof text, "%4d", v[i]);
        put_number(&r, text);
    }
    end(&r);
}

void dt__c_shorts(dt__c_program *p, const char *name, const char *what, const uint16_t *v,
                  int64_t n)
{
    dt__c_table t = table_named(name, n);
    t.shorts = true;
    rows r = begin(p, &t, "uint16_t", what);
    for (int64_t i = 0; i < n; i++) {
        char text[8];
        check(p, v[i]);
        snprintf(text, sizeof text, "%d", v[i]);
        put_number(&r, text);
    }
    end(&r);
}
