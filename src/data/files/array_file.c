/* Opens arrays in files; the suffix of the name decides the format. */
#include "data/files/array_file.h"

#include "core/text/byte_order.h"
#include "core/text/ending.h"
#include "core/text/utf8.h"
#include "data/file_map.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static const struct {
    const char *ending;
    bool has_parts; /* a file contains named arrays */
    dt_status (*open)(dt__array_file *a);
} formats[] = {
    { ".npy", false, dt__npy_open },
    { ".npz", true, dt__npz_open },
    { ".safetensors", true, dt__safetensors_open },
    { ".wav", false, dt__wav_open },
    { ".flac", false, dt__sound_open },
    { ".ogg", false, dt__sound_open },
    { ".opus", false, dt__sound_open },
    { ".aiff", false, dt__sound_open },
    { ".aif", false, dt__sound_open },
};

/* The format by the suffix of the file's name, before a ":part"; -1: none. *length: of the file's
 * name. */
static int format_of(const char *name, size_t *length)
{
    const size_t n = *length = strlen(name);
    for (size_t at = 1; at < n; at++) {
        for (int i = 0; i < DT__COUNT_OF(formats); i++) {
            const size_t m = strlen(formats[i].ending);
            if (n - at < m || !dt__is_ending(name + at, formats[i].ending, m)) continue;
            const char next = name[at + m];
            if (next != '\0' && (next != ':' || !formats[i].has_parts)) continue;
            *length = at + m;
            return i;
        }
    }
    return -1;
}

bool dt__is_array_file(const char *name)
{
    size_t length;
    return format_of(name, &length) >= 0;
}

size_t dt__array_file_length(const char *name)
{
    size_t length;
    format_of(name, &length);
    return length;
}

dt_status dt__array_fail(const dt__array_file *a, dt_status status, const char *format, ...)
{
    char text[DT__MESSAGE_SIZE];
    DT__FORMAT(text, sizeof text, format);
    return dt_fail(a->ctx, status, "'%s': %s", a->name, text);
}

void dt__name_list_add(char list[DT__NAME_LIST], const char *name, size_t n)
{
    static const char more[] = ", ...";
    const size_t used = strlen(list), room = DT__NAME_LIST - sizeof more;
    char text[DT__SHOWN], shown[DT__SHOWN];
    if (used >= sizeof more && strcmp(list + used - (sizeof more - 1), more) == 0) return;
    snprintf(text, sizeof text, "%.*s", (int)(n < sizeof text ? n : sizeof text - 1), name);
    dt__shown(text, shown);
    if (used + strlen(shown) + 2 > room) strcpy(list + used, more);
    else snprintf(list + used, room - used, "%s%s", used > 0 ? ", " : "", shown);
}

dt_status dt__array_refuse_name(const dt__array_file *a, int found, const char *list)
{
    if (a->part == NULL && found > 0) {
        return dt__array_fail(a, DT_ERR_FORMAT, "%d arrays (%s); %s:NAME says which one", found,
                              list, a->name);
    }
    if (found > 0) return dt__array_fail(a, DT_ERR_FORMAT, "more than one array of this name");
    if (*list == 0) return dt__array_fail(a, DT_ERR_FORMAT, "it has no arrays");
    return dt__array_fail(a, DT_ERR_FORMAT, "no array of this name; there are %s", list);
}

bool dt__array_bytes(const dt__array_file *a, size_t *bytes)
{
    int64_t count;
    const size_t each = a->text > 0 ? (size_t)a->text : (size_t)dt__array_dtype_of(a->dtype)->bytes;
    return dt__product(a->rank, a->dims, &count) && dt__mul_size((uint64_t)count, each, bytes) &&
           *bytes <= SIZE_MAX / 2;
}

/* On a big-endian machine: a copy of the numbers in native byte order. */
static dt_status turn_numbers(dt__array_file *a)
{
    const size_t width = (size_t)dt__array_dtype_of(a->dtype)->bytes;
    size_t bytes = 0;
    if (width == 1 || !dt__array_bytes(a, &bytes)) return DT_OK;
    dt__storage *turned = dt__storage_create(a->ctx, (uint64_t)bytes);
    if (turned == NULL) return DT_ERR_NOMEM;
    dt__reverse_elements(turned->data, a->data, bytes, width);
    dt__storage_release(a->source.storage);
    a->source.storage = turned;
    a->data = turned->data;
    return DT_OK;
}

int64_t dt__array_text(const dt__array_file *a, int64_t i, char *text)
{
    const uint8_t *at = a->data + i * a->text;
    int64_t n = a->text / a->unit, used = 0;
    while (n > 0 && (a->unit == 1 ? at[n - 1] : dt__u32_at(at + 4 * (n - 1))) == 0) n--;
    for (int64_t k = 0; k < n; k++) {
        const uint32_t c = a->unit == 1 ? at[k] : dt__u32_at(at + 4 * k);
        if (used + 4 >= DT__TEXT_MOST || c == 0) return -1;
        if (a->unit == 1) text[used++] = (char)c;
        else used += (int64_t)dt__utf8_put(c, text + used);
    }
    text[used] = '\0';
    return dt__is_utf8_of(text, (size_t)used) ? used : -1;
}

dt_status dt__array_file_open(dt_ctx *ctx, const char *name, dt__array_file *a)
{
    DT__TRY(dt__array_file_open_any(ctx, name, a));
    if (a->text == 0) return DT_OK;
    return dt__array_fail(
        a, DT_ERR_UNSUPPORTED,
        "an array of words, which only classes may be (data.train.y); expected numbers");
}

dt_status dt__array_file_open_any(dt_ctx *ctx, const char *name, dt__array_file *a)
{
    size_t length;
    *a = (dt__array_file){ .ctx = ctx, .name = name };
    const int format = format_of(name, &length);
    if (format < 0) {
        return dt__array_fail(a, DT_ERR_UNSUPPORTED,
                              "a file .npy, .npz, .safetensors, .csv, or a recording (.wav, .flac, "
                              ".ogg, .opus, .aiff) is required");
    }
    char *path = dt__copy_string(ctx, name);
    if (path == NULL) return DT_ERR_NOMEM;
    a->path = path;
    path[length] = '\0';
    if (name[length] == ':') a->part = name + length + 1;
    void *map;
    DT__TRY(dt__map_file(ctx, path, &map, &a->size));
    a->bytes = map;
    if (map == NULL) return dt__array_fail(a, DT_ERR_FORMAT, "the file is empty");
    DT__TRY(formats[format].open(a));
    if (DT__BIG_ENDIAN && !a->native) DT__TRY(turn_numbers(a));
    if (a->source.storage != NULL) return DT_OK; /* the map is no longer needed */
    a->source.map = map;
    a->source.map_bytes = a->size;
    a->bytes = NULL;
    return DT_OK;
}

void dt__array_file_close(dt__array_file *a)
{
    if (a->bytes != NULL) munmap(a->bytes, a->size);
    if (a->source.map != NULL) munmap(a->source.map, a->source.map_bytes);
    dt__storage_release(a->source.storage);
    dt__release(a->ctx, (void *)(uintptr_t)a->path);
}
