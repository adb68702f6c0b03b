/* JSON text, built in memory. A failed allocation sets a flag, so that callers check once at the
 * end. */
#include "core/text/number.h"
#include "core/text/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void dt__put(dt__chars *t, const char *bytes, size_t n)
{
    if (t->failed || n == 0) return;
    if (n > t->capacity - t->used) {
        const size_t wanted = 2 * t->capacity + n + 256;
        char *grown = dt__grow(t->ctx, t->bytes, t->used, wanted);
        t->failed = grown == NULL;
        if (t->failed) return;
        t->bytes = grown;
        t->capacity = wanted;
    }
    memcpy(t->bytes + t->used, bytes, n);
    t->used += n;
}

void dt__put_text(dt__chars *t, const char *text) { dt__put(t, text, strlen(text)); }

void dt__put_quoted(dt__chars *t, const char *text) { dt__put_quoted_bytes(t, text, strlen(text)); }

void dt__put_quoted_bytes(dt__chars *t, const char *text, size_t bytes)
{
    dt__put_text(t, "\"");
    for (size_t i = 0; i < bytes; i++) {
        char escape[8];
        if (text[i] == '"' || text[i] == '\\') {
            dt__put(t, (const char[]){ '\\', text[i] }, 2);
        } else if ((unsigned char)text[i] < 0x20) {
            snprintf(escape, sizeof escape, "\\u%04x", (unsigned)text[i]);
            dt__put_text(t, escape);
        } else {
            dt__put(t, text + i, 1);
        }
    }
    dt__put_text(t, "\"");
}

void dt__put_integer(dt__chars *t, int64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRId64, value);
    dt__put_text(t, digits);
}

void dt__put_real(dt__chars *t, double value)
{
    char text[32];
    dt__print_real(value, text);
    dt__put_text(t, text);
}

void dt__put_fragments(dt__chars *t, int n, const dt__fragment *all)
{
    for (const dt__fragment *p = all; p < all + n; p++) {
        if (p->text != NULL) dt__put_text(t, p->text);
        else if (p->quoted != NULL) dt__put_quoted(t, p->quoted);
        else if (p->is_real) dt__put_real(t, p->real);
        else dt__put_integer(t, p->integer);
    }
}

void dt__put_field(dt__chars *t, const char *name, double value)
{
    DT__PUT_ALL(t, ", \"", name, "\": ");
    if (isfinite(value)) dt__put_real(t, value);
    else dt__put_text(t, "null");
}

dt_status dt__collect(void *chars, const char *text, size_t bytes)
{
    dt__put(chars, text, bytes);
    return ((dt__chars *)chars)->failed ? DT_ERR_NOMEM : DT_OK;
}

void dt__put_comma(dt__chars *t, bool *first)
{
    if (!*first) dt__put_text(t, ",");
    *first = false;
}

bool dt__put_each(dt__chars *t, int64_t i, int64_t n)
{
    if (i > 0 && i < n) dt__put_text(t, t->word == NULL ? "," : ", ");
    return i < n;
}

const char *dt__chars_text(dt__chars *t)
{
    dt__put(t, "", 1);
    return t->failed ? NULL : t->bytes;
}
