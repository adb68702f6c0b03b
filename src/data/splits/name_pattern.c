/* Parses names of files by a pattern (name_pattern.h). */
#include "data/splits/name_pattern.h"

#include <string.h>

/* A field of a pattern and the text after it. */
typedef struct piece {
    const char *field, *text;
    size_t field_bytes, text_bytes;
} piece;

/* Parses the next piece; *pattern is at a brace. False: malformed. */
static bool take(const char **pattern, piece *p)
{
    p->field = *pattern + 1;
    const char *end = strpbrk(p->field, "{}");
    if (**pattern != '{' || end == NULL || *end != '}' || end == p->field) return false;
    p->field_bytes = (size_t)(end - p->field);
    p->text = end + 1;
    p->text_bytes = strcspn(p->text, "{}");
    *pattern = p->text + p->text_bytes;
    return **pattern == 0 || (**pattern == '{' && p->text_bytes > 0);
}

static bool is_field(const piece *p, const char *field)
{
    return p->field_bytes == strlen(field) && memcmp(p->field, field, p->field_bytes) == 0;
}

static const char *find(const char *in, const piece *p)
{
    while (*in != 0 && strncmp(in, p->text, p->text_bytes) != 0) in++;
    return *in == 0 ? NULL : in;
}

/* The end of a field that begins at `at`; NULL: none. */
static const char *end_of(const char *at, const piece *p, bool last)
{
    const size_t n = strlen(at);
    if (n <= p->text_bytes) return NULL;
    if (!last) return find(at + 1, p);
    return strcmp(at + n - p->text_bytes, p->text) == 0 ? at + n - p->text_bytes : NULL;
}

bool dt__name_field(const char *pattern, const char *path, const char *field, const char **begin,
                    size_t *n)
{
    const char *slash = strrchr(path, '/'), *at = slash == NULL ? path : slash + 1;
    const size_t before = strcspn(pattern, "{}");
    bool found = false;
    piece p;
    if (strncmp(at, pattern, before) != 0) return false;
    at += before;
    for (pattern += before; *pattern != 0; at += p.text_bytes) {
        if (!take(&pattern, &p)) return false;
        const char *end = end_of(at, &p, *pattern == 0);
        if (end == NULL) return false;
        if (is_field(&p, field)) {
            *begin = at;
            *n = (size_t)(end - at);
            found = true;
        }
        at = end;
    }
    return found;
}

bool dt__name_pattern_has(const char *pattern, const char *field)
{
    piece p;
    pattern += strcspn(pattern, "{}");
    while (*pattern != 0 && take(&pattern, &p)) {
        if (is_field(&p, field)) return true;
    }
    return false;
}

const char *dt__name_pattern_fault(const char *pattern)
{
    piece p;
    const char *at = pattern + strcspn(pattern, "{}");
    while (*at != 0) {
        if (!take(&at, &p))
            return "has a brace without its partner, an empty field, or two fields "
                   "without a text between them";
    }
    if (dt__name_pattern_has(pattern, "label") || dt__name_pattern_has(pattern, "group")) {
        return NULL;
    }
    return "has neither {label} nor {group}";
}
