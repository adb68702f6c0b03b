/* Rows of SQLite files [sqlite.org/c3ref]. A file is opened read-only, with its locks, so that
 * concurrent transactions are seen completely or not at all; functions and views in the file have
 * no side effects. */
#include "data/tables/database.h"

#include "core/text/ending.h"
#include "core/text/json.h"
#include "core/text/number.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char *const endings[] = { ".db", ".sqlite", ".sqlite3" };

size_t dt__database_length(const char *name)
{
    for (const char *c = name; c != NULL; c = strchr(c + 1, ':')) {
        const char *end = c + strcspn(c + (*c == ':'), ":") + (*c == ':');
        for (int i = 0; i < DT__COUNT_OF(endings); i++) {
            if (dt__ends_in_of(name, (size_t)(end - name), endings[i])) return (size_t)(end - name);
        }
        if (*end == 0) break;
    }
    return 0;
}

#if defined DETENT_SQLITE
#include "data/tables/sqlite_library.h"

#define WAIT 10000 /* milliseconds for a lock */
#define LIST 300   /* bytes of a list of tables */

struct dt__database {
    dt_ctx *ctx;
    const char *name; /* as given; lent */
    char *file;
    sqlite3 *db;
    sqlite3_stmt *query;
    int columns;
    int64_t row; /* from 1; 0: the names are next */
    bool ended;
    dt__chars text; /* text of a row, */
    size_t at;      /* and how much of it was read */
};

/* The error of SQLite's last call. */
static dt_status fail(const dt__database *d, dt_status status, const char *what)
{
    const int code = dt__sqlite.extended_errcode(d->db);
    if ((code & 0xFF) == SQLITE_NOMEM) {
        return dt_fail(d->ctx, DT_ERR_NOMEM, "'%s': out of memory", d->file);
    }
    if ((code & 0xFF) == SQLITE_NOTADB || (code & 0xFF) == SQLITE_CORRUPT) status = DT_ERR_FORMAT;
    return dt_fail(d->ctx, status, "'%s': %s: %s", d->file, what, dt__sqlite.errmsg(d->db));
}

/* ---- queries -------------------------------------------------------------------------------- */

static bool begins_with(const char *text, const char *word)
{
    const size_t n = strlen(word);
    return strncasecmp(text, word, n) == 0 && strchr(" \t\r\n(*", text[n]) != NULL;
}

/* Lists the tables and views as "a, b, c"; *n: their number. */
static dt_status list_tables(const dt__database *d, char list[LIST], int *n)
{
    sqlite3_stmt *query;
    size_t used = 0;
    int step;
    list[0] = 0;
    *n = 0;
    if (dt__sqlite.prepare_v2(d->db,
                              "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND "
                              "name NOT LIKE 'sqlite~_%' ESCAPE '~' ORDER BY name",
                              -1, &query, NULL) != SQLITE_OK) {
        return fail(d, DT_ERR_IO, "cannot be read");
    }
    while ((step = dt__sqlite.step(query)) == SQLITE_ROW) {
        char shown[DT__SHOWN];
        const char *name = (const char *)dt__sqlite.column_text(query, 0);
        if (name == NULL) break;
        if (used + DT__SHOWN + 8 < LIST) {
            used += (size_t)snprintf(list + used, LIST - used, "%s%s", *n == 0 ? "" : ", ",
                                     dt__shown(name, shown));
        } else if (used + 6 < LIST) {
            used += (size_t)snprintf(list + used, LIST - used, ", ...");
            used = LIST;
        }
        ++*n;
    }
    const dt_status s = step == SQLITE_DONE ? DT_OK : fail(d, DT_ERR_IO, "cannot be read");
    dt__sqlite.finalize(query);
    return s;
}

/* The query for a table; "": the only one. */
static dt_status query_of_table(const dt__database *d, const char *table, dt__chars *query)
{
    char list[LIST];
    int n;
    DT__TRY(list_tables(d, list, &n));
    if (*table == 0 && n != 1) {
        return dt_fail(d->ctx, DT_ERR_CONFIG,
                       "'%s' has %s%s; '%s:NAME' reads one, and "
                       "'%s:SELECT ...' the rows of a query",
                       d->file, n == 0 ? "no table" : "several tables: ", list, d->file, d->file);
    }
    dt__put_text(query, "SELECT * FROM \"");
    for (const char *c = *table == 0 ? list : table; *c != 0; c++) {
        dt__put(query, *c == '"' ? "\"\"" : c, *c == '"' ? 2 : 1);
    }
    dt__put_text(query, "\"");
    return dt__chars_text(query) == NULL ? DT_ERR_NOMEM : DT_OK;
}

/* The error for a missing table. */
static dt_status fail_table(const dt__database *d, const char *table)
{
    char list[LIST], shown[DT__SHOWN];
    int n;
    DT__TRY(list_tables(d, list, &n));
    return dt_fail(d->ctx, DT_ERR_CONFIG,
                   "'%s' has no table '%s'; it has %s; a query begins with SELECT or WITH", d->file,
                   dt__shown(table, shown), n == 0 ? "none" : list);
}

static dt_status check_query(const dt__database *d, const char *behind)
{
    if (d->query == NULL) return dt_fail(d->ctx, DT_ERR_CONFIG, "'%s': an empty query", d->name);
    if (!dt__sqlite.stmt_readonly(d->query) || dt__sqlite.column_count(d->query) == 0) {
        return dt_fail(d->ctx, DT_ERR_CONFIG,
                       "'%s': the query changes the data base; expected one SELECT", d->name);
    }
    if (behind[strspn(behind, " \t\r\n;")] == 0) return DT_OK;
    return dt_fail(d->ctx, DT_ERR_CONFIG, "'%s': text follows the query; expected one SELECT",
                   d->name);
}

static dt_status prepare(dt__database *d, const char *part)
{
    dt__chars query = { .ctx = d->ctx };
    const char *behind;
    part += strspn(part, " \t\r\n");
    const bool given =
        begins_with(part, "select") || begins_with(part, "with") || begins_with(part, "values");
    dt_status s = given ? DT_OK : query_of_table(d, part, &query);
    if (s == DT_OK && dt__sqlite.prepare_v2(d->db, given ? part : query.bytes, -1, &d->query,
                                            &behind) != SQLITE_OK) {
        s = fail(d, DT_ERR_CONFIG, "the query");
        const bool other = !given && strstr(dt_error(d->ctx), "no such table") != NULL;
        if (other) s = fail_table(d, part);
    }
    if (s == DT_OK) s = check_query(d, behind);
    dt__release(d->ctx, query.bytes);
    return s;
}

/* ---- opening -------------------------------------------------------------------------------- */

static dt_status open_file(dt__database *d, const char *part)
{
    const int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX;
    if (dt__sqlite.open_v2(d->file, &d->db, flags, NULL) != SQLITE_OK) {
        return d->db == NULL ? DT_ERR_NOMEM : fail(d, DT_ERR_IO, "cannot be opened");
    }
    dt__sqlite.busy_timeout(d->db, WAIT);
    if (dt__sqlite.exec(d->db, "PRAGMA trusted_schema = OFF", NULL, NULL, NULL) != SQLITE_OK) {
        return fail(d, DT_ERR_IO, "cannot be read");
    }
    DT__TRY(prepare(d, part));
    d->columns = dt__sqlite.column_count(d->query);
    return DT_OK;
}

dt_status dt__database_open(dt_ctx *ctx, const char *name, dt__database **out)
{
    const size_t n = dt__database_length(name);
    const char *why = dt__sqlite_load();
    *out = NULL;
    if (why != NULL) {
        return dt_fail(ctx, DT_ERR_UNSUPPORTED,
                       "'%s': it needs SQLite (Debian: libsqlite3-0), which cannot be loaded: %s",
                       name, why);
    }
    dt__database *d = *out = dt__alloc_zero(ctx, sizeof *d);
    if (d == NULL) return DT_ERR_NOMEM;
    d->ctx = d->text.ctx = ctx;
    d->name = name;
    d->file = dt__format_string(ctx, "%.*s", (int)n, name);
    return d->file == NULL ? DT_ERR_NOMEM : open_file(d, name + n + (name[n] == ':'));
}

void dt__database_close(dt__database *d)
{
    if (d == NULL) return;
    dt__sqlite.finalize(d->query);
    dt__sqlite.close(d->db);
    DT__RELEASE(d->ctx, d->text.bytes, d->file, d);
}

/* ---- rows ----------------------------------------------------------------------------------- */

static void put_quoted(dt__chars *to, const char *text, size_t n)
{
    dt__put(to, "\"", 1);
    for (size_t i = 0; i < n; i++) {
        dt__put(to, text[i] == '"' ? "\"\"" : text + i, text[i] == '"' ? 2 : 1);
    }
    dt__put(to, "\"", 1);
}

static dt_status refuse(const dt__database *d, int column, const char *why)
{
    char shown[DT__SHOWN];
    const char *name = dt__sqlite.column_name(d->query, column);
    return dt_fail(d->ctx, DT_ERR_FORMAT, "'%s': row %lld, column %d ('%s'): %s", d->name,
                   (long long)d->row, column + 1, dt__shown(name == NULL ? "" : name, shown), why);
}

static dt_status put_value(dt__database *d, int column)
{
    char digits[32];
    switch (dt__sqlite.column_type(d->query, column)) {
    case SQLITE_NULL: /* an empty line would not be a row */
        if (d->columns == 1) dt__put_text(&d->text, "\"\"");
        return DT_OK;
    case SQLITE_INTEGER:
        dt__put_integer(&d->text, dt__sqlite.column_int64(d->query, column));
        return DT_OK;
    case SQLITE_FLOAT:
        dt__print_real(dt__sqlite.column_double(d->query, column), digits);
        dt__put_text(&d->text, digits);
        return DT_OK;
    case SQLITE_TEXT: break;
    default: return refuse(d, column, "a BLOB; expected numbers or texts");
    }
    const char *text = (const char *)dt__sqlite.column_text(d->query, column);
    const size_t n = (size_t)dt__sqlite.column_bytes(d->query, column);
    if (text == NULL) return dt_fail(d->ctx, DT_ERR_NOMEM, "'%s': out of memory", d->file);
    if (memchr(text, 0, n) != NULL) return refuse(d, column, "a text with a NUL in it");
    put_quoted(&d->text, text, n);
    return DT_OK;
}

static dt_status put_row(dt__database *d)
{
    d->text.used = d->at = 0;
    if (d->row > 0) {
        const int step = dt__sqlite.step(d->query);
        d->ended = step == SQLITE_DONE;
        if (d->ended) return DT_OK;
        if (step != SQLITE_ROW) return fail(d, DT_ERR_IO, "a row cannot be read");
    }
    for (int i = 0; i < d->columns; i++) {
        const char *name = dt__sqlite.column_name(d->query, i);
        if (i > 0) dt__put(&d->text, ",", 1);
        if (name == NULL) return dt_fail(d->ctx, DT_ERR_NOMEM, "'%s': out of memory", d->file);
        if (d->row == 0) put_quoted(&d->text, name, strlen(name));
        else DT__TRY(put_value(d, i));
    }
    dt__put(&d->text, "\n", 1);
    d->row++;
    return d->text.failed ? DT_ERR_NOMEM : DT_OK;
}

dt_status dt__database_read(dt__database *d, uint8_t *to, size_t wanted, size_t *got)
{
    *got = 0;
    while (*got < wanted) {
        if (d->at == d->text.used && !d->ended) DT__TRY(put_row(d));
        if (d->ended) break;
        const size_t left = d->text.used - d->at, room = wanted - *got;
        const size_t n = left < room ? left : room;
        memcpy(to + *got, d->text.bytes + d->at, n);
        d->at += n;
        *got += n;
    }
    return DT_OK;
}

#else

dt_status dt__database_open(dt_ctx *ctx, const char *name, dt__database **out)
{
    *out = NULL;
    return dt_fail(ctx, DT_ERR_UNSUPPORTED,
                   "'%s': this detent was built without SQLite: build it where Debian's "
                   "libsqlite3-dev is installed",
                   name);
}

void dt__database_close(dt__database *d) { (void)d; }

dt_status dt__database_read(dt__database *d, uint8_t *to, size_t wanted, size_t *got)
{
    (void)d, (void)to, (void)wanted;
    *got = 0;
    return DT_OK;
}
#endif
