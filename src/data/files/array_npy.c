/* Reads .npy files [NumPy, "numpy.lib.format"]:
 *     93 'N' 'U' 'M' 'P' 'Y'   major minor   length of the header: u16, from version 2 on u32
 *     header: a dictionary as Python writes it, {'descr': '<f4', 'fortran_order': False,
 *             'shape': (3, 4), }
 *     numbers in the order of C */
#include "core/text/number.h"
#include "data/files/array_file.h"

#include <string.h>

typedef struct cursor {
    const dt__array_file *file;
    const char *at, *end;
} cursor;

static dt_status bad_header(const cursor *c, const char *wanted)
{
    char text[24];
    const size_t left = (size_t)(c->end - c->at),
                 n = left < sizeof text - 1 ? left : sizeof text - 1;
    for (size_t i = 0; i < n; i++) text[i] = c->at[i] < ' ' || c->at[i] > '~' ? '?' : c->at[i];
    text[n] = '\0';
    return dt__array_fail(c->file, DT_ERR_FORMAT,
                          "damaged header of .npy: expected %s at \"%s\"; numpy.save writes one",
                          wanted, text);
}

static bool next_is(cursor *c, char wanted)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t')) c->at++;
    if (c->at == c->end || *c->at != wanted) return false;
    c->at++;
    return true;
}

static dt_status read_string(cursor *c, char *text, size_t size)
{
    const char quote = next_is(c, '\'') ? '\'' : next_is(c, '"') ? '"' : 0;
    if (quote == 0) return bad_header(c, "a string");
    size_t n = 0;
    for (; c->at < c->end && *c->at != quote && n + 1 < size; c->at++) {
        /* printable, as messages show it */
        text[n++] = *c->at < ' ' || *c->at > '~' ? '?' : *c->at;
    }
    text[n] = '\0';
    return next_is(c, quote) ? DT_OK : bad_header(c, "the end of a string");
}

/* <U11 and |S11: texts of up to 11 characters. */
static bool read_text_type(dt__array_file *a, const char *descr)
{
    int64_t n;
    if (strchr("<|=", descr[0]) == NULL || (descr[1] != 'U' && descr[1] != 'S')) return false;
    if (dt__parse_int(descr + 2, &n) != DT__NUMBER || n < 1 || n > INT32_MAX) return false;
    a->unit = descr[1] == 'U' ? 4 : 1;
    a->text = n * a->unit;
    a->dtype = DT_ARRAY_U8;
    return true;
}

static dt_status read_descr(cursor *c, dt__array_file *a)
{
    static const struct {
        const char *descr;
        int dtype;
    } known[] = {
        { "f4", DT_ARRAY_F32 }, { "f8", DT_ARRAY_F64 }, { "f2", DT_ARRAY_F16 },
        { "u1", DT_ARRAY_U8 },  { "b1", DT_ARRAY_U8 },  { "i1", DT_ARRAY_I8 },
        { "u2", DT_ARRAY_U16 }, { "i2", DT_ARRAY_I16 }, { "i4", DT_ARRAY_I32 },
        { "i8", DT_ARRAY_I64 },
    };
    char text[24] = "";
    if (next_is(c, '[')) {
        return dt__array_fail(a, DT_ERR_UNSUPPORTED,
                              "structured numbers; expected an array of one type");
    }
    DT__TRY(read_string(c, text, sizeof text));
    if (text[0] == '>') {
        return dt__array_fail(a, DT_ERR_UNSUPPORTED,
                              "dtype '%s' has the bytes in the other order; save "
                              "x.astype('<%s')",
                              text, text + 1);
    }
    if (text[1] == 'O') {
        return dt__array_fail(a, DT_ERR_UNSUPPORTED,
                              "an array of Python objects; save words as y.astype(str), numbers as "
                              "x.astype('<f4')");
    }
    if (read_text_type(a, text)) return DT_OK;
    for (int i = 0; i < DT__COUNT_OF(known) && strchr("<|=", text[0]) != NULL; i++) {
        if (strcmp(text + 1, known[i].descr) != 0) continue;
        a->dtype = known[i].dtype;
        return DT_OK;
    }
    return dt__array_fail(a, DT_ERR_UNSUPPORTED,
                          "dtype '%s'; expected float16, float32, float64, bool, uint8, int8, "
                          "uint16, int16, int32 or int64",
                          text);
}

static dt_status read_order(cursor *c, dt__array_file *a)
{
    next_is(c, ' ');
    const size_t left = (size_t)(c->end - c->at);
    if (left >= 4 && memcmp(c->at, "True", 4) == 0) {
        return dt__array_fail(a, DT_ERR_UNSUPPORTED,
                              "the order of Fortran; save numpy.ascontiguousarray(x)");
    }
    if (left < 5 || memcmp(c->at, "False", 5) != 0) return bad_header(c, "True or False");
    c->at += 5;
    return DT_OK;
}

static dt_status read_shape(cursor *c, dt__array_file *a)
{
    if (!next_is(c, '(')) return bad_header(c, "a shape");
    for (a->rank = 0; !next_is(c, ')'); a->rank++) {
        if (a->rank == DT_MAX_RANK) {
            return dt__array_fail(a, DT_ERR_UNSUPPORTED, "more than %d dimensions", DT_MAX_RANK);
        }
        next_is(c, ' ');
        int64_t extent = 0;
        const char *begin = c->at;
        for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++) {
            const int digit = *c->at - '0';
            if (extent > (INT64_MAX - digit) / 10) return bad_header(c, "an extent below 2^63");
            extent = 10 * extent + digit;
        }
        if (c->at == begin) return bad_header(c, "an extent");
        a->dims[a->rank] = extent;
        if (next_is(c, ',')) continue;
        if (!next_is(c, ')')) return bad_header(c, "the end of a shape");
        a->rank++;
        break;
    }
    return DT_OK;
}

static const struct {
    const char *name;
    dt_status (*read)(cursor *c, dt__array_file *a);
} entries[] = {
    { "descr", read_descr },
    { "fortran_order", read_order },
    { "shape", read_shape },
};

static dt_status read_entry(cursor *c, dt__array_file *a, unsigned *seen)
{
    char name[24];
    DT__TRY(read_string(c, name, sizeof name));
    for (int i = 0; i < DT__COUNT_OF(entries); i++) {
        if (strcmp(name, entries[i].name) != 0 || (*seen & 1u << i) != 0) continue;
        *seen |= 1u << i;
        if (!next_is(c, ':')) return bad_header(c, "':'");
        return entries[i].read(c, a);
    }
    return bad_header(c, "descr, fortran_order and shape, each once, are");
}

static dt_status read_header(cursor *c, dt__array_file *a)
{
    unsigned seen = 0;
    if (!next_is(c, '{')) return bad_header(c, "'{'");
    while (!next_is(c, '}')) {
        DT__TRY(read_entry(c, a, &seen));
        if (next_is(c, ',')) continue;
        if (!next_is(c, '}')) return bad_header(c, "'}'");
        break;
    }
    if (seen != (1u << DT__COUNT_OF(entries)) - 1) {
        return bad_header(c, "descr, fortran_order and shape are");
    }
    next_is(c, '\n');
    return c->at == c->end ? DT_OK : bad_header(c, "the end of the header");
}

dt_status dt__npy_head(dt__array_file *a, const uint8_t *bytes, size_t n, size_t *head,
                       size_t *body)
{
    static const uint8_t magic[] = { 0x93, 'N', 'U', 'M', 'P', 'Y' };
    if (n < 10 || memcmp(bytes, magic, sizeof magic) != 0) {
        return dt__array_fail(a, DT_ERR_FORMAT, "not a .npy file; numpy.save writes one");
    }
    if (bytes[6] < 1 || bytes[6] > 3 || bytes[7] != 0) {
        return dt__array_fail(a, DT_ERR_UNSUPPORTED, ".npy version %d.%d; 1.0 to 3.0 are known",
                              bytes[6], bytes[7]);
    }
    const size_t begin = bytes[6] == 1 ? 10 : 12;
    const size_t length = bytes[6] == 1 ? dt__u16_at(bytes + 8)
                          : n < begin   ? 0
                                        : dt__u32_at(bytes + 8);
    if (n < begin || length > n - begin || begin + length > DT__NPY_HEAD_MOST) {
        return dt__array_fail(a, DT_ERR_FORMAT, "the header of .npy has %zu bytes; %s", length,
                              begin + length > DT__NPY_HEAD_MOST ? "expected at most 65535"
                                                                 : "the file is cut short");
    }
    cursor c = { a, (const char *)bytes + begin, (const char *)bytes + begin + length };
    DT__TRY(read_header(&c, a));
    *head = begin + length;
    if (!dt__array_bytes(a, body)) {
        return dt__array_fail(a, DT_ERR_FORMAT, "the shape is larger than memory can be");
    }
    return DT_OK;
}

dt_status dt__npy_open(dt__array_file *a)
{
    size_t head = 0, body = 0;
    DT__TRY(dt__npy_head(a, a->bytes, a->size, &head, &body));
    a->data = a->bytes + head;
    if (a->size - head == body) return DT_OK;
    return dt__array_fail(a, DT_ERR_FORMAT,
                          "the header declares %zu bytes of numbers, but %zu follow it", body,
                          a->size - head);
}
