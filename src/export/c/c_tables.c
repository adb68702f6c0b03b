/* Format c: constants as rows of numbers. Floats are written with all their bits. */
#include "export/c/c_program.h"

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
    const uint32_t fraction = (bits & 0x7fffff) << 1; /* six hexadecimal digits */
    if (exponent == 0 && fraction == 0) {
        snprintf(name.text, sizeof name.text, "%s0.0f", sign);
        return name;
    }
    char text[16];
    int n = snprintf(text, sizeof text, ".%06x", (unsigned)fraction);
    while (text[n - 1] == '0') n--; /* no point without digits behind it */
    text[n == 1 ? 0 : n] = 0;
    snprintf(name.text, sizeof name.text, "%s0x%d%sp%df", sign, exponent > 0 ? 1 : 0, text,
             (exponent > 0 ? exponent : 1) - 127);
    return name;
}

size_t dt__c_descriptor_bytes(const char *text)
{
    const char *begin = strchr(text, '{');
    size_t fields = 0;
    if (strncmp(text, "static const ", 13) != 0 || begin == NULL ||
        memchr(text, '[', (size_t)(begin - text)) != NULL)
        return 0;
    bool comment = false, inside = false; /* inside: of a field */
    for (const char *c = begin + 1; *c != 0 && *c != '}'; c++) {
        if (strncmp(c, "/*", 2) == 0) comment = true;
        if (strncmp(c, "*/", 2) == 0) {
            comment = false;
            c++;
            continue;
        }
        if (comment || *c == ' ' || *c == '\n') continue;
        if (*c != ',' && !inside) fields++;
        inside = *c != ',';
    }
    return 4 * fields;
}

void dt__c_constant(dt__c_program *p, const char *format, ...)
{
    va_list args;
    char text[1024];
    va_start(args, format);
    const int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (p->status != DT_OK) return;
    dt__put(&p->constants, text, (size_t)(n < 0 ? 0 : n));
    p->flash += dt__c_descriptor_bytes(text);
}

/* The checksum of NAME_checksum: FNV-1a over bytes, 16-bit numbers, or bits of floats. */
static void check(dt__c_program *p, uint32_t v) { p->checksum = (p->checksum ^ v) * 16777619u; }

static dt__c_name float_text(const void *v)
{
    float f;
    memcpy(&f, v, sizeof f);
    return dt__c_float(f);
}

static dt__c_name integer_text(int width, int value)
{
    dt__c_name name;
    snprintf(name.text, sizeof name.text, "%*d", width, value);
    return name;
}

static dt__c_name byte_text(const void *v) { return integer_text(3, *(const uint8_t *)v); }
static dt__c_name signed_byte_text(const void *v) { return integer_text(4, *(const int8_t *)v); }
static dt__c_name word_text(const void *v)
{
    const int32_t *word = v;
    return *word == INT32_MIN ? (dt__c_name){ "-2147483647 - 1" } : integer_text(1, *word);
}
static dt__c_name short_text(const void *v) { return integer_text(1, *(const uint16_t *)v); }

static uint32_t float_bits(const void *v)
{
    uint32_t bits;
    memcpy(&bits, v, sizeof bits);
    return bits;
}

static uint32_t word_bits(const void *v) { return *(const uint32_t *)v; }
static uint32_t byte_bits(const void *v) { return *(const uint8_t *)v; }
static uint32_t short_bits(const void *v) { return *(const uint16_t *)v; }

struct dt__c_number {
    const char *type;  /* in C */
    const char *check; /* the text whose function continues a checksum over them */
    size_t size;
    dt__c_name (*text)(const void *v);
    uint32_t (*bits)(const void *v); /* bits that the checksum covers */
};

static const dt__c_number floats = { "float", "check_floats", sizeof(float), float_text,
                                     float_bits };
static const dt__c_number bytes = { "uint8_t", "check_bytes", 1, byte_text, byte_bits };
static const dt__c_number signed_bytes = { "int8_t", "check_bytes", 1, signed_byte_text,
                                           byte_bits };
static const dt__c_number shorts = { "uint16_t", "check_shorts", 2, short_text, short_bits };

static const dt__c_number words = { "int32_t", "check_words", 4, word_text, word_bits };

const char *dt__c_check_of(const dt__c_table *t) { return t->of->check; }

/* Stores the numbers in binary; they are formatted when the file is written, as their text is
 * several times as large. */
static void add(dt__c_program *p, const dt__c_number *of, const char *name, const char *what,
                const void *v, int64_t n)
{
    if (p->status == DT_OK)
        dt__c_fail(p, DT__RESERVE(p->ctx, p->table, p->n_tables, p->room_tables));
    if (p->status != DT_OK) return;
    dt__c_table *t = &p->table[p->n_tables];
    *t = (dt__c_table){ .n = n, .of = of, .values = dt__alloc_array(p->ctx, n, of->size) };
    if (t->values == NULL) {
        dt__c_fail(p, DT_ERR_NOMEM);
        return;
    }
    p->n_tables++;
    memcpy(t->values, v, (size_t)n * of->size);
    for (int64_t i = 0; i < n; i++) check(p, of->bits((const char *)v + i * (int64_t)of->size));
    snprintf(t->name, sizeof t->name, "%s", name);
    dt__c_want(p, of->check);
    if (what[0] != '\0') dt__c_printf(&p->constants, "/* %s */\n", what);
    dt__c_printf(&p->constants, "static const %s %s[%lld] = {\n", of->type, name, (long long)n);
    t->at = p->constants.used;
    dt__put_text(&p->constants, "};\n");
    p->flash += (size_t)n * of->size;
}

void dt__c_floats(dt__c_program *p, const char *name, const char *what, const float *v, int64_t n)
{
    for (int64_t i = 0; i < n && p->status == DT_OK; i++) {
        if (isfinite(v[i])) continue;
        dt__c_fail(p, dt_fail(p->ctx, DT_ERR_NUMERIC,
                              "export: %s has a value that is not finite, at %lld", what,
                              (long long)i));
    }
    add(p, &floats, name, what, v, n);
}

void dt__c_bytes(dt__c_program *p, const char *name, const char *what, const uint8_t *v, int64_t n)
{
    add(p, &bytes, name, what, v, n);
}

void dt__c_signed_bytes(dt__c_program *p, const char *name, const char *what, const int8_t *v,
                        int64_t n)
{
    add(p, &signed_bytes, name, what, v, n);
}

void dt__c_shorts(dt__c_program *p, const char *name, const char *what, const uint16_t *v,
                  int64_t n)
{
    add(p, &shorts, name, what, v, n);
}

void dt__c_words(dt__c_program *p, const char *name, const char *what, const int32_t *v, int64_t n)
{
    add(p, &words, name, what, v, n);
}

int64_t dt__c_put_rows(const dt__c_table *t, int64_t from, size_t most, dt__chars *to)
{
    const char *v = t->values;
    size_t column = 0;
    int64_t i = from;
    for (; i < t->n && !to->failed; i++) {
        const dt__c_name number = t->of->text(v + i * (int64_t)t->of->size);
        const size_t n = strlen(number.text);
        const bool full = column > 0 && column + n + 2 > WIDTH;
        if (full && to->used >= most) break;
        if (full) column = 0;
        dt__put_text(to, column > 0 ? " " : i > from ? "\n    " : "    ");
        dt__put(to, number.text, n);
        dt__put_text(to, ",");
        column += n + 1 + (column > 0 ? 1 : 4);
    }
    dt__put_text(to, "\n");
    return i;
}
