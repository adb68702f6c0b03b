/* Checks the metadata that only files of detent have: the version that wrote the file, and its hash
 * (see safetensors_write.c). Files of other programs have neither and pass. */
#include "core/system/atomic_file.h"
#include "core/text/ending.h"
#include "io/safetensors/safetensors.h"

#include <stdlib.h>
#include <string.h>

/* The number before the first point of "major.minor.patch"; -1 if the text is not of that form. */
static long major_of(const char *version)
{
    size_t n = 0;
    while (n < 9 && dt__is_digit(version[n])) n++;
    if (n == 0 || version[n] != '.' || !dt__is_digit(version[n + 1])) return -1;
    return strtol(version, NULL, 10);
}

static dt_status check_version(const dt_file *file)
{
    const char *version = dt_file_meta(file, DT__KEY_VERSION);
    if (version == NULL) return DT_OK;
    char text[DT__SHOWN];
    const long major = major_of(version);
    if (major < 0) {
        return dt_fail(file->ctx, DT_ERR_FORMAT, "%s: %s '%s' is not a version", file->path,
                       DT__KEY_VERSION, dt__shown(version, text));
    }
    if (major <= major_of(dt_version())) return DT_OK;
    return dt_fail(file->ctx, DT_ERR_UNSUPPORTED,
                   "%s: written by detent %s; this is %s, which cannot read its files", file->path,
                   dt__shown(version, text), dt_version());
}

static dt_status check_hash(const dt_file *file)
{
    const char *said = dt_file_meta(file, DT__KEY_HASH);
    if (said == NULL) {
        if (dt_file_meta(file, DT__KEY_VERSION) == NULL) return DT_OK;
        return dt_fail(file->ctx, DT_ERR_FORMAT,
                       "%s: the file was damaged or changed: it has %s without %s (a program that "
                       "changes it leaves out both)",
                       file->path, DT__KEY_VERSION, DT__KEY_HASH);
    }
    if (file->hash_at == 0) {
        return dt_fail(file->ctx, DT_ERR_FORMAT, "%s: %s must be 16 digits of 0-9 and a-f",
                       file->path, DT__KEY_HASH);
    }
    const size_t after = file->hash_at + DT__HASH_DIGITS;
    const dt__span span[] = { { file->bytes, file->hash_at },
                              { DT__NO_HASH, DT__HASH_DIGITS },
                              { file->bytes + after, file->size - after } };
    char digits[DT__HASH_DIGITS + 1];
    DT__TRY(dt__hash_spans(file->ctx, span, DT__COUNT_OF(span), digits));
    if (strcmp(digits, said) == 0) return DT_OK;
    return dt_fail(file->ctx, DT_ERR_FORMAT,
                   "%s: the file was damaged or changed: its %s is %s, its bytes give %s",
                   file->path, DT__KEY_HASH, said, digits);
}

dt_status dt_file_check(const dt_file *file)
{
    DT__NEED(NULL, file);
    for (int64_t i = 0; i < file->n_parts; i++) DT__TRY(dt_file_check(file->part[i]));
    DT__TRY(check_version(file));
    return check_hash(file);
}

dt_status dt__file_hash(const dt_file *file, char digits[DT__HASH_DIGITS + 1])
{
    if (file->part == NULL) {
        const dt__span whole = { file->bytes, file->size };
        return dt__hash_spans(file->ctx, &whole, 1, digits);
    }
    const int64_t n = file->n_parts + file->meta_count;
    dt__span *span = dt__alloc_array(file->ctx, n, sizeof *span);
    if (span == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < file->n_parts; i++) {
        span[i] = (dt__span){ file->part[i]->bytes, file->part[i]->size };
    }
    for (int64_t i = 0; i < file->meta_count; i++) {
        const char *text = file->meta[i].value;
        span[file->n_parts + i] = (dt__span){ text, strlen(text) };
    }
    const dt_status s = dt__hash_spans(file->ctx, span, n, digits);
    dt__release(file->ctx, span);
    return s;
}
