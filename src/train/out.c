/* Text, JSON and YAML into a sink. */
#include "train/out.h"

#include <stdio.h>
#include <string.h>

void dt__out_bytes(dt__out *o, const char *text, size_t bytes)
{
    if (o->status != DT_OK || bytes == 0) return;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '\n') {
            o->column = 0;
        } else {
            o->column += ((unsigned char)text[i] & 0xC0) != 0x80;
        }
    }
    o->status = o->sink(o->user, text, bytes);
}

void dt__out_text(dt__out *o, const char *text) { dt__out_bytes(o, text, strlen(text)); }

void dt__out_format(dt__out *o, const char *format, ...)
{
    char text[256];
    DT__FORMAT(text, sizeof text, format);
    dt__out_text(o, text);
}

void dt__out_real(dt__out *o, double value)
{
    char text[32];
    dt__print_real(value, text);
    dt__out_text(o, text);
}

void dt__out_int(dt__out *o, int64_t value) { dt__out_format(o, "%lld", (long long)value); }

static void new_line(dt__out *o)
{
    dt__out_text(o, o->comma ? ",\n" : "\n");
    dt__out_format(o, "%*s", o->indent, "");
    o->comma = true;
}

void dt__out_json(dt__out *o, const char *text)
{
    dt__out_text(o, "\"");
    for (; *text != 0; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            dt__out_format(o, "\\%c", c);
        } else if (c < 0x20 || c == 0x7F) {
            dt__out_format(o, "\\u%04x", c);
        } else {
            dt__out_bytes(o, text, 1);
        }
    }
    dt__out_text(o, "\"");
}

void dt__out_name(dt__out *o, const char *name)
{
    new_line(o);
    if (name == NULL) return;
    dt__out_json(o, name);
    dt__out_text(o, ": ");
}

void dt__out_open(dt__out *o, const char *name, char bracket)
{
    if (o->indent > 0) dt__out_name(o, name);
    dt__out_bytes(o, &bracket, 1);
    o->indent += 2;
    o->comma = false;
}

void dt__out_close(dt__out *o, char bracket)
{
    o->indent -= 2;
    if (o->comma) {
        o->comma = false;
        new_line(o);
    }
    dt__out_bytes(o, &bracket, 1);
    o->comma = true;
    if (o->indent == 0) dt__out_text(o, "\n");
}

void dt__out_field(dt__out *o, const char *name, const char *text)
{
    dt__out_name(o, name);
    dt__out_json(o, text);
}

static const char plain_first[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_/.";
static const char plain_rest[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_/.+-";

/* Characters that a YAML reader refuses, or takes for a line break, unless escaped. */
static bool must_escape(int32_t c)
{
    return c < 0x20 || (c >= 0x7F && c <= 0xA0) || c == 0x2028 || c == 0x2029 || c == 0xFEFF ||
           c == 0xFFFE || c == 0xFFFF;
}

void dt__out_yaml(dt__out *o, const char *text)
{
    const size_t length = strlen(text);
    if (length > 0 && strchr(plain_first, *text) != NULL && strspn(text, plain_rest) == length) {
        dt__out_bytes(o, text, length);
        return;
    }
    dt__out_text(o, "\"");
    const char *end = text + length;
    for (size_t n = 0; text < end; text += n) {
        const int32_t c = dt__utf8_decode(text, (size_t)(end - text), &n);
        if (c == '"' || c == '\\') {
            dt__out_format(o, "\\%c", (int)c);
        } else if (must_escape(c)) {
            dt__out_format(o, "\\u%04x", (unsigned)c);
        } else {
            dt__out_bytes(o, text, n);
        }
    }
    dt__out_text(o, "\"");
}
