/* Writing seeds of fuzz targets; called by detent-test alone. */
#include "fuzz.h"

#include "testing.h"

#include <stdio.h>

void fuzz_seed(const fuzz_seeds *s, const char *name, const void *data, size_t n)
{
    char path[TEST_PATH];
    test_join(path, s->folder, name);
    test_write_file(path, data, n);
}

fuzz_bytes fuzz_text(const char *text)
{
    return (fuzz_bytes){ (const uint8_t *)text, strlen(text) };
}

void fuzz_seed_text(const fuzz_seeds *s, const char *name, const char *text)
{
    fuzz_seed(s, name, text, strlen(text));
}

void fuzz_seed_parts(const fuzz_seeds *s, const char *name, const fuzz_bytes *part, int n)
{
    size_t all = 0, used = 0;
    for (int i = 0; i < n; i++) all += part[i].n + 2;
    uint8_t *data = malloc(all);
    ck_assert_ptr_nonnull(data);
    for (int i = 0; i < n; i++) {
        ck_assert_uint_lt(part[i].n, 1 << 16);
        if (i < n - 1) {
            data[used++] = (uint8_t)part[i].n;
            data[used++] = (uint8_t)(part[i].n >> 8);
        }
        if (part[i].n > 0) memcpy(data + used, part[i].v, part[i].n);
        used += part[i].n;
    }
    fuzz_seed(s, name, data, used);
    free(data);
}

/* Takes `"key":"value"` out of a header, with one of the commas beside it. */
static size_t without(char *header, size_t n, const char *key)
{
    char *at = strstr(header, key);
    if (at == NULL) return n;
    char *end = strchr(strchr(at, ':') + 2, '"') + 1;
    if (*end == ',') end++;
    else if (at[-1] == ',') at--;
    memmove(at, end, n - (size_t)(end - header) + 1);
    return n - (size_t)(end - at);
}

fuzz_bytes fuzz_seed_safetensors(const char *path)
{
    size_t size, n = 0;
    char *file = test_read_file(path, &size);
    ck_assert_uint_ge(size, 8);
    for (int i = 0; i < 8; i++) n |= (size_t)(unsigned char)file[i] << 8 * i;
    char *header = calloc(1, n + 1), *out = malloc(size);
    ck_assert(header != NULL && out != NULL);
    memcpy(header, file + 8, n);
    size_t left = without(header, n, "\"detent.version\"");
    left = without(header, left, "\"detent.xxh3\"");
    memcpy(out, header, left + 1); /* and a 0 */
    memcpy(out + left + 1, file + 8 + n, size - 8 - n);
    free(header);
    free(file);
    return (fuzz_bytes){ (const uint8_t *)out, left + 1 + size - 8 - n };
}
