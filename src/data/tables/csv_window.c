/* A window over the text of a CSV file, which contains whole rows and begins with one. The rest
 * after the last whole row moves to the front when more is read, so memory is bounded by the
 * longest row. Text that must be decoded is read as a whole. */
#include "data/tables/csv_reader.h"

#include <string.h>

#define WINDOW ((size_t)1 << 20) /* bytes that are read at first */

/* Reads until the window is full or the file ends. */
static dt_status fill(dt__csv_reader *r)
{
    size_t got;
    uint8_t *const to = r->text + r->filled;
    const size_t wanted = r->room - r->filled;
    if (r->database != NULL) DT__TRY(dt__database_read(r->database, to, wanted, &got));
    else if (r->join != NULL) DT__TRY(dt__table_join_read(r->join, to, wanted, &got));
    else DT__TRY(dt__input_read(&r->input, to, wanted, &got));
    r->filled += got;
    r->more = r->filled == r->room;
    return r->is_utf8 ? dt__csv_window_check(r, r->filled - got) : DT_OK;
}

dt_status dt__csv_window_check(const dt__csv_reader *r, size_t from)
{
    if (memchr(r->text + from, 0, r->filled - from) == NULL) return DT_OK;
    return dt_fail(r->ctx, DT_ERR_FORMAT, "'%s': a NUL byte; expected text in UTF-8", r->path);
}

dt_status dt__csv_window_widen(dt__csv_reader *r)
{
    const size_t room = r->room == 0 ? WINDOW : 2 * r->room;
    const size_t at = r->text == NULL ? 0 : (size_t)(r->at - (char *)r->text);
    uint8_t *larger = dt__grow(r->ctx, r->text, r->filled, room);
    if (larger == NULL) return DT_ERR_NOMEM;
    r->text = larger;
    r->room = room;
    r->at = (char *)larger + at;
    return fill(r);
}

/* Whether a quote in the rows at `begin` begins a field. Before the separator is known, all are
 * assumed to. */
static bool begins_field(const dt__csv_reader *r, const char *begin, const char *quote)
{
    while (quote > begin && dt__csv_is_blank(r, quote[-1])) quote--;
    if (quote == begin || quote[-1] == '\n') return true;
    return r->separator != 0 ? quote[-1] == r->separator : strchr(",;\t|", quote[-1]) != NULL;
}

/* The end of the quoted field at `quote`; NULL: not in the window. */
static const char *skip_quoted(const char *quote, const char *end)
{
    const char *c = quote + 1;
    while ((c = memchr(c, '"', (size_t)(end - c))) != NULL) {
        if (c + 1 == end) return NULL; /* the quote may be doubled */
        if (c[1] != '"') return c + 1;
        c += 2;
    }
    return NULL;
}

static const char *last_line_end(const char *begin, const char *end)
{
    while (end > begin && end[-1] != '\n') end--;
    return end > begin ? end : NULL;
}

/* The end of the last row that ends in the window; NULL: none does. */
static const char *last_row_end(const dt__csv_reader *r, const char *begin, const char *end)
{
    const char *last = NULL, *c = begin;
    while (c < end) {
        const char *quote = memchr(c, '"', (size_t)(end - c));
        const char *line = last_line_end(c, quote == NULL ? end : quote);
        if (line != NULL) last = line;
        if (quote == NULL) break;
        c = begins_field(r, c, quote) ? skip_quoted(quote, end) : quote + 1;
        if (c == NULL) break;
    }
    return last;
}

/* Does so row by row, as comments may contain quotes. */
static const char *last_commented_end(const dt__csv_reader *r, const char *end)
{
    dt__csv_reader copy = *r;
    const char *last = NULL;
    copy.more = false;
    copy.end = (char *)r->text + (end - (const char *)r->text);
    while (dt__csv_has_row(&copy)) {
        const char *at = copy.at;
        dt__csv_count_fields(&copy, r->separator, &at);
        if (at == end) break;
        last = at + 1;
        copy.at += last - copy.at;
    }
    return last;
}

dt_status dt__csv_window_end(dt__csv_reader *r)
{
    for (;;) {
        char *const filled = (char *)r->text + r->filled;
        const char *end = !r->more          ? filled
                          : r->comment == 0 ? last_row_end(r, r->at, filled)
                                            : last_commented_end(r, filled);
        if (end != NULL) {
            r->end = filled - (filled - end);
            return DT_OK;
        }
        DT__TRY(dt__csv_window_widen(r));
    }
}

bool dt__csv_next_window(dt__csv_reader *r)
{
    const size_t left = r->filled - (size_t)(r->end - (char *)r->text);
    if (r->status != DT_OK) return false;
    memmove(r->text, r->end, left);
    r->filled = left;
    r->at = r->end = (char *)r->text;
    r->status = fill(r);
    if (r->status == DT_OK) r->status = dt__csv_window_end(r);
    return r->status == DT_OK && r->at < r->end;
}

dt_status dt__csv_no_row(const dt__csv_reader *r)
{
    if (r->status != DT_OK) return r->status;
    return dt_fail(r->ctx, DT_ERR_FORMAT, "'%s': an empty file; expected the rows of a table",
                   r->path);
}
