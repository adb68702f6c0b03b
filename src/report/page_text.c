/* Texts and numbers of a page. */
#include "report/page_text.h"

#include "core/text/number.h"
#include "core/text/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Escapes characters that change how a page is displayed, such as direction marks. */
static void put_escaped(dt__chars *t, const char *text)
{
    char out[DT_TEXT_JSON];
    bool hidden;
    for (size_t n = strlen(text), took; n > 0; text += took, n -= took) {
        took = dt__visible(text, n, out, &hidden);
        switch (*text) {
        case '&': dt__put_text(t, "&amp;"); break;
        case '<': dt__put_text(t, "&lt;"); break;
        case '>': dt__put_text(t, "&gt;"); break;
        case '"': dt__put_text(t, "&quot;"); break;
        case '\'': dt__put_text(t, "&#39;"); break;
        case '\n':
        case '\t': dt__put(t, text, 1); break;
        default: dt__put_text(t, out);
        }
    }
}

static void put_apart(dt__chars *t, int64_t value)
{
    char digits[24];
    const int n = snprintf(digits, sizeof digits, "%" PRId64, value < 0 ? -value : value);
    if (value < 0) dt__put_text(t, "−");
    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0) dt__put_text(t, ",");
        dt__put(t, digits + i, 1);
    }
}

static void put_dash(dt__chars *t) { dt__put_text(t, "–"); }

void dt__page_fixed(dt__chars *t, double value, int decimals)
{
    if (!isfinite(value) || fabs(value) > 1e12) {
        put_dash(t);
        return;
    }
    int64_t factor = 1;
    for (int i = 0; i < decimals; i++) factor *= 10;
    const int64_t all = (int64_t)llround(fabs(value) * (double)factor);
    if (value < 0 && all > 0) dt__put_text(t, "−");
    put_apart(t, all / factor);
    if (decimals > 0) dt__put_text(t, ".");
    for (int64_t rest = all % factor, unit = factor / 10; unit > 0; rest %= unit, unit /= 10) {
        const char digit = (char)('0' + rest / unit);
        dt__put(t, &digit, 1);
    }
}

/* Writes a number as C does, but independently of the locale, with a true minus and e-5 for
 * e-05. */
static void put_digits(dt__chars *t, double value, int digits)
{
    char text[32];
    snprintf(text, sizeof text, "%.*g", digits, value);
    for (const char *c = text; *c != 0; c++) {
        const bool exponent = c > text && (c[-1] == '-' || c[-1] == '+') && strchr(text, 'e') < c;
        if (*c == '-' && c == text) dt__put_text(t, "−");
        else if (*c == ',') dt__put_text(t, ".");
        else if (!(exponent && *c == '0' && strchr(text, 'e') != NULL)) dt__put(t, c, 1);
    }
}

static void put_significant(dt__chars *t, double value)
{
    const double size = fabs(value);
    if (!isfinite(value)) put_dash(t);
    else if (size >= 9999.5 && size < 1e15) put_apart(t, (int64_t)llround(value));
    else put_digits(t, value, size < 0.1 ? 3 : 4);
}

static void put_bytes(dt__chars *t, int64_t bytes)
{
    static const char *const unit[] = { " B", " KiB", " MiB", " GiB", " TiB" };
    double value = (double)bytes;
    int i = 0;
    for (; value >= 1000 && i < 4; i++) value /= 1024;
    dt__page_fixed(t, value, i == 0 || value >= 100 ? 0 : 1);
    dt__put_text(t, unit[i]);
}

static void put_percent(dt__chars *t, double share)
{
    const double percent = 100 * share, size = fabs(percent);
    if (isfinite(share) && size > 0 && size < 0.01) {
        dt__put_text(t, "&lt;0.01 %");
        return;
    }
    dt__page_fixed(t, percent, size == 0 || size >= 10 ? 1 : 2);
    dt__put_text(t, isfinite(share) ? " %" : "");
}

static void put_coordinate(dt__chars *t, double value)
{
    char text[32];
    const double tenths = round(value * 10) / 10;
    dt__print_real(isfinite(tenths) && tenths != 0 ? tenths : 0, text);
    dt__put_text(t, text);
}

void dt__page(dt__chars *t, const char *format, ...)
{
    va_list a;
    va_start(a, format);
    for (const char *c = format; *c != 0;) {
        const size_t plain = strcspn(c, "%");
        dt__put(t, c, plain);
        c += plain;
        if (*c == 0) break;
        switch (c[1]) {
        case 's': put_escaped(t, va_arg(a, const char *)); break;
        case 'r': dt__put_text(t, va_arg(a, const char *)); break;
        case 'i': put_apart(t, va_arg(a, int64_t)); break;
        case 'd': dt__put_integer(t, va_arg(a, int64_t)); break;
        case 'f': put_coordinate(t, va_arg(a, double)); break;
        case 'g': put_significant(t, va_arg(a, double)); break;
        case 'b': put_bytes(t, va_arg(a, int64_t)); break;
        case 'p': put_percent(t, va_arg(a, double)); break;
        default: dt__put_text(t, "%");
        }
        c += 2;
    }
    va_end(a);
}
