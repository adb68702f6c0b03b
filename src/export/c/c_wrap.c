/* Format c: breaks statements at 100 columns. */
#include "export/c/c_write.h"

#include <string.h>

#define COLUMNS 100
#define INDENT 4 /* indentation of continuation lines */

/* Whether a line is code: comments, directives and strings are not broken. */
static bool is_code(const char *line, size_t n)
{
    size_t at = 0;
    while (at < n && line[at] == ' ') at++;
    return at < n && strchr("/*#\"", line[at]) == NULL;
}

/* Where a line may break: the last blank before the limit, not in a comment at its end; 0: nowhere.
 */
static size_t break_of(const char *line, size_t n, size_t least, size_t most)
{
    size_t at = 0;
    for (size_t i = least; i < n && i <= most; i++) {
        if (line[i] == '/' && i + 1 < n && line[i + 1] == '*') break;
        if (line[i] == ' ' && i > least && (line[i - 1] == ',' || line[i - 1] == '=')) at = i;
    }
    for (size_t i = least; at == 0 && i < n && i <= most; i++) {
        if (line[i] == '+' && line[i - 1] == ' ') at = i - 1;
    }
    return at;
}

static void put_line(const char *line, size_t n, dt__chars *to)
{
    size_t indent = 0, before = 0;
    while (indent < n && line[indent] == ' ') indent++;
    for (bool first = true; is_code(line, n) && before + n > COLUMNS; first = false) {
        const size_t at = break_of(line, n, first ? indent : 0, COLUMNS - before);
        if (at == 0) break;
        dt__put(to, line, at);
        dt__put_text(to, "\n");
        before = indent + INDENT;
        for (size_t i = 0; i < before; i++) dt__put_text(to, " ");
        line += at + 1;
        n -= at + 1;
    }
    dt__put(to, line, n);
}

void dt__c_wrap(const dt__chars *from, dt__chars *to)
{
    for (size_t at = 0; at < from->used;) {
        const char *line = from->bytes + at, *end = memchr(line, '\n', from->used - at);
        const size_t n = end != NULL ? (size_t)(end - line) : from->used - at;
        put_line(line, n, to);
        if (end != NULL) dt__put_text(to, "\n");
        at += n + 1;
    }
}
