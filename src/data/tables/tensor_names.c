/* Names of array files: wildcards are expanded by glob(3), and sorted by bytes, as glob's order
 * depends on the locale. */
#include "data/tables/tensor_names.h"
#include "core/comparisons.h"

#include "core/system/atomic_file.h"
#include "core/text/ending.h"
#include "core/text/utf8.h"
#include "data/files/array_file.h"
#include "data/data_options.h"
#include "data/splits/name_pattern.h"
#include "data/tables/database.h"
#include "data/tables/table_join.h"

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

/* The length of a file's name without the array, table or query. */
static size_t file_length(const char *name)
{
    const size_t n = dt__database_length(name);
    return n > 0 ? n : dt__array_file_length(name);
}

static dt_status add(dt_ctx *ctx, dt__tensor_names *names, const char *path, const char *part)
{
    DT__TRY(DT__RESERVE(ctx, names->v, names->n, names->room));
    char *copy = dt__format_string(ctx, "%s%s", path, part);
    if (copy == NULL) return DT_ERR_NOMEM;
    names->v[names->n++] = (dt__tensor_name){ .path = copy };
    return DT_OK;
}

/* Where the suffix of a name begins, .csv.gz as a whole; n: no suffix. */
static size_t ending_of(const char *name, size_t n)
{
    size_t end = dt__ends_in_of(name, n, ".gz") ? n - 3 : n;
    while (end > 0 && name[end - 1] != '.' && name[end - 1] != '/') end--;
    return end > 0 && name[end - 1] == '.' ? end : n;
}

/* A pattern for glob(3): all characters are literal except * and ? in the name; the suffix matches
 * in upper and lower case. */
static char *pattern_of(dt_ctx *ctx, const char *dir, const char *name, size_t n)
{
    char *path = dt__data_path(ctx, dir, name);
    if (path == NULL) return NULL;
    const size_t whole = strlen(path) - (strlen(name) - n), folder = whole - n;
    const size_t ending = ending_of(path, whole);
    char *pattern = dt__alloc(ctx, 4 * whole + 1), *to = pattern;
    for (size_t i = 0; pattern != NULL && i < whole; i++) {
        const char small = dt__small_letter(path[i]);
        if (i >= ending && small >= 'a' && small <= 'z') {
            const char both[] = { '[', small, (char)(small - 'a' + 'A'), ']' };
            memcpy(to, both, sizeof both);
            to += sizeof both;
            continue;
        }
        if (strchr(i < folder ? "*?[\\" : "[\\", path[i]) != NULL) *to++ = '\\';
        *to++ = path[i];
    }
    if (pattern != NULL) *to = '\0';
    dt__release(ctx, path);
    return pattern;
}

/* Missing folders match nothing; others must be readable. */
static int stops_at(const char *path, int error)
{
    (void)path;
    return error != ENOENT && error != ENOTDIR;
}

static size_t digits_of(const char *text) { return strspn(text, "0123456789"); }

/* Whether the first number in which a and b differ is larger in a; false if another character
 * differs before. */
static bool is_larger(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] != 0 && a[n] == b[n]) n++;
    while (n > 0 && digits_of(a + n - 1) > 0) n--; /* to the beginning of the number */
    const char *p = a + n + strspn(a + n, "0"), *q = b + n + strspn(b + n, "0");
    const size_t i = digits_of(p), k = digits_of(q);
    if (digits_of(a + n) == 0 || digits_of(b + n) == 0) return false;
    return i != k ? i > k : strncmp(p, q, i) > 0;
}

/* Finds files that are not in the order of their numbers. */
static void find_larger(dt__tensor_names *names, int64_t first)
{
    for (int64_t i = first + 1; i < names->n && names->larger == NULL; i++) {
        if (!is_larger(names->v[i - 1].path, names->v[i].path)) continue;
        names->larger = names->v[i - 1].path;
        names->smaller = names->v[i].path;
    }
}

static dt_status expand(dt_ctx *ctx, const char *pattern, const char *part, dt__tensor_names *names)
{
    glob_t found;
    const int64_t first = names->n;
    const int failed = glob(pattern, GLOB_NOSORT, stops_at, &found);
    dt_status status = DT_OK;
    if (failed == GLOB_NOMATCH) return DT_OK;
    if (failed == GLOB_NOSPACE)
        return dt_fail(ctx, DT_ERR_NOMEM, "out of memory for finding files '%s'", pattern);
    if (failed != 0) return dt__file_fail(ctx, "find files", pattern, errno);
    for (size_t i = 0; i < found.gl_pathc && status == DT_OK; i++) {
        status = add(ctx, names, found.gl_pathv[i], part);
    }
    globfree(&found);
    if (names->n > first) {
        qsort(names->v + first, (size_t)(names->n - first), sizeof *names->v, dt__by_text);
        find_larger(names, first);
    }
    return status;
}

static dt_status add_each(dt_ctx *ctx, const char *key, const char *dir, const char *name,
                          dt__tensor_names *names);

/* The name of a file, or of a pattern, without its folder; of joined files the first. */
static size_t name_in(const char *path, const char **name)
{
    const size_t n = dt__join_length(path);
    const char *end = path + (n > 0 ? n : strlen(path));
    *name = end;
    while (*name > path && (*name)[-1] != '/') --*name;
    return (size_t)(end - *name);
}

/* The part of a file's name that its pattern matches from the first * to the last. False: the
 * pattern has no *. */
static bool stem_of(const char *pattern, const char *path, const char **stem, size_t *n)
{
    const char *form;
    size_t after = 0;
    const size_t length = name_in(pattern, &form), own = name_in(path, stem);
    const size_t before = strcspn(form, "*");
    if (before >= length) return false;
    while (form[length - after - 1] != '*') after++;
    *stem += before;
    *n = own - before - after;
    return true;
}

/* Moves *p to the next number before `end`; returns its length, 0: none. */
static size_t next_number(const char **p, const char *end)
{
    while (*p < end && digits_of(*p) == 0) ++*p;
    const size_t n = digits_of(*p), most = (size_t)(end - *p);
    return n < most ? n : most;
}

/* Whether two joined files have the same name, or the same numbers in it. */
static bool is_pair(const char *const pattern[2], const char *const path[2])
{
    const char *a, *b;
    size_t n, k, i, j;
    if (!stem_of(pattern[0], path[0], &a, &n) || !stem_of(pattern[1], path[1], &b, &k)) return true;
    if (n == k && memcmp(a, b, n) == 0) return true;
    const char *const end[] = { a + n, b + k };
    bool any = false;
    while ((i = next_number(&a, end[0])) == (j = next_number(&b, end[1])) && i > 0) {
        if (memcmp(a, b, i) != 0) return false;
        a += i;
        b += j;
        any = true;
    }
    return any && i == j;
}

/* Adds the files of FILE+FILE: names at the same position form one table. */
static dt_status add_joined(dt_ctx *ctx, const char *key, const char *dir, const char *name,
                            size_t n, dt__tensor_names *names)
{
    dt__tensor_names first = { 0 }, others = { 0 };
    char *left = dt__format_string(ctx, "%.*s", (int)n, name);
    dt_status s = left == NULL ? DT_ERR_NOMEM : add_each(ctx, key, dir, left, &first);
    if (s == DT_OK) s = add_each(ctx, key, dir, name + n + 1, &others);
    if (s == DT_OK && first.n != others.n) {
        s = dt_fail(ctx, DT_ERR_CONFIG,
                    "%s: '%s': %lld files match '%s', but %lld '%s'; expected one of each for "
                    "every table",
                    key, name, (long long)first.n, left, (long long)others.n, name + n + 1);
    }
    for (int64_t i = 0; i < first.n && s == DT_OK; i++) {
        const char *const pattern[] = { left, name + n + 1 };
        const char *const path[] = { first.v[i].path, others.v[i].path };
        if (is_pair(pattern, path)) continue;
        dt__say(ctx,
                "warning: %s: '%s' and '%s' are joined, though their names do not say that they "
                "belong together: files of two patterns are joined in the order of their bytes",
                key, path[0], path[1]);
        break;
    }
    for (int64_t i = 0; i < first.n && s == DT_OK; i++) {
        char *both = dt__format_string(ctx, "%s+%s", first.v[i].path, others.v[i].path);
        s = both == NULL ? DT_ERR_NOMEM : add(ctx, names, both, "");
        dt__release(ctx, both);
    }
    dt__release(ctx, left);
    dt__tensor_names_free(ctx, &first);
    dt__tensor_names_free(ctx, &others);
    return s;
}

static dt_status add_pattern(dt_ctx *ctx, const char *key, const char *dir, const char *name,
                             dt__tensor_names *names)
{
    const int64_t before = names->n;
    const size_t n = file_length(name);
    char *pattern = pattern_of(ctx, dir, name, n);
    if (pattern == NULL) return DT_ERR_NOMEM;
    const dt_status status = expand(ctx, pattern, name + n, names);
    dt__release(ctx, pattern);
    DT__TRY(status);
    if (names->n > before) return DT_OK;
    return dt_fail(ctx, DT_ERR_CONFIG, "%s: no file matches '%s'%s%s", key, name,
                   dir == NULL ? "" : " in ", dir == NULL ? "" : dir);
}

static dt_status add_each(dt_ctx *ctx, const char *key, const char *dir, const char *name,
                          dt__tensor_names *names)
{
    const size_t joined = dt__join_length(name);
    if (joined > 0) return add_joined(ctx, key, dir, name, joined, names);
    if (strcspn(name, "*?") < file_length(name)) return add_pattern(ctx, key, dir, name, names);
    char *path = dt__data_path(ctx, dir, name);
    const dt_status status = path == NULL ? DT_ERR_NOMEM : add(ctx, names, path, "");
    dt__release(ctx, path);
    return status;
}

dt_status dt__tensor_names_add(dt_ctx *ctx, const char *key, const char *dir,
                               const dt_strings *list, dt__tensor_names *names)
{
    for (int i = 0; i < list->n; i++) DT__TRY(add_each(ctx, key, dir, list->v[i], names));
    return DT_OK;
}

void dt__tensor_names_free(dt_ctx *ctx, dt__tensor_names *names)
{
    for (int64_t i = 0; i < names->n; i++) dt__release(ctx, names->v[i].path);
    dt__release(ctx, names->v);
    *names = (dt__tensor_names){ .v = NULL };
}

/* The name of the folder that contains a file; length 0 if the path has none. */
static const char *folder_of(const char *path, size_t *n)
{
    const char *end = path + file_length(path);
    while (end > path && *end != '/') end--;
    const char *begin = end;
    while (begin > path && begin[-1] != '/') begin--;
    *n = (size_t)(end - begin);
    return begin;
}

static dt_status find_label(dt_ctx *ctx, dt__tensor_name *name, const char *pattern,
                            dt__words *classes, bool closed)
{
    size_t n = 0;
    const char *label = name->path,
               *what = pattern == NULL ? "its folder" : "the {label} of its name,";
    if (pattern == NULL) label = folder_of(name->path, &n);
    else if (!dt__name_field(pattern, name->path, "label", &label, &n)) {
        return dt_fail(ctx, DT_ERR_FORMAT,
                       "'%s': its name is not of the form '%s' of "
                       "data.file_names",
                       name->path, pattern);
    }
    name->label = dt__words_find(classes, label, n);
    if (name->label >= 0) return DT_OK;
    if (pattern == NULL && n == 0) {
        return dt_fail(ctx, DT_ERR_FORMAT,
                       "'%s': it is in no folder that is its class; a table is data.train: {x: "
                       "FILE.csv}, arrays are {x: FILE, y: FILE}, and data.file_names can have a "
                       "{label}",
                       name->path);
    }
    if (n == 0 || closed) {
        return dt_fail(ctx, DT_ERR_FORMAT,
                       "'%s': %s '%.*s' is not a class%s; files must be in folders of their "
                       "classes, data.file_names has a {label}, or 'y' labels them",
                       name->path, what, (int)(n < 64 ? n : 64), label,
                       closed ? " of the training data" : "");
    }
    if (!dt__is_utf8_of(label, n)) {
        return dt_fail(ctx, DT_ERR_FORMAT, "'%s': %s its class, is not UTF-8", name->path,
                       pattern == NULL ? "the name of its folder," : what);
    }
    name->label = dt__words_add(ctx, classes, label, n);
    return name->label < 0 ? DT_ERR_NOMEM : DT_OK;
}

/* By position / others, then by label. */
static int by_share(const void *a, const void *b)
{
    const dt__tensor_name *x = a, *y = b;
    const int64_t left = x->position * y->others, right = y->position * x->others;
    if (left != right) return left < right ? -1 : 1;
    return x->label < y->label ? -1 : x->label > y->label;
}

dt_status dt__tensor_names_label(dt_ctx *ctx, dt__tensor_names *names, const char *pattern,
                                 dt__words *classes)
{
    const bool closed = classes->n > 0;
    for (int64_t i = 0; i < names->n; i++) {
        DT__TRY(find_label(ctx, &names->v[i], pattern, classes, closed));
    }
    int64_t *to = dt__alloc_array(ctx, 2 * classes->n, sizeof *to), *count = to + classes->n;
    if (to == NULL) return DT_ERR_NOMEM;
    memset(count, 0, (size_t)classes->n * sizeof *count);
    for (int64_t i = 0; i < classes->n; i++) to[i] = i;
    const dt_status status = closed ? DT_OK : dt__words_sort(ctx, classes, NULL, to);
    for (int64_t i = 0; i < names->n; i++) {
        dt__tensor_name *name = &names->v[i];
        name->label = to[name->label];
        name->position = 2 * count[name->label]++ + 1;
    }
    for (int64_t i = 0; i < names->n; i++) names->v[i].others = count[names->v[i].label];
    dt__release(ctx, to);
    if (names->n > 0) qsort(names->v, (size_t)names->n, sizeof *names->v, by_share);
    return status;
}
