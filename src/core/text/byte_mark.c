#include "core/text/byte_mark.h"

#include <string.h>

size_t dt__utf8_mark(const void *text, size_t bytes)
{
    return bytes >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
}

const char *dt__foreign_mark(const void *text, size_t bytes)
{
    static const struct {
        const char *mark;
        size_t bytes;
        const char *name;
    } marks[] = {
        { "\xFF\xFE\0\0", 4, "UTF-32" }, /* before UTF-16, whose mark is a prefix of this one */
        { "\0\0\xFE\xFF", 4, "UTF-32" },
        { "\xFF\xFE", 2, "UTF-16" },
        { "\xFE\xFF", 2, "UTF-16" },
    };
    for (int i = 0; i < DT__COUNT_OF(marks); i++) {
        if (bytes >= marks[i].bytes && memcmp(text, marks[i].mark, marks[i].bytes) == 0) {
            return marks[i].name;
        }
    }
    return NULL;
}

dt_status dt__skip_mark(dt_ctx *ctx, const char *path, const void *text, size_t bytes,
                        size_t *skipped)
{
    const char *foreign = dt__foreign_mark(text, bytes);
    *skipped = dt__utf8_mark(text, bytes);
    if (foreign == NULL) return DT_OK;
    return dt_fail(ctx, DT_ERR_FORMAT,
                   "'%s': a text in %s; expected UTF-8, as `iconv -f %s -t UTF-8` writes it", path,
                   foreign, foreign);
}
