/* Shared by readers of CSV files: position, fields, and which columns are stored where. */
#ifndef DT__DATA_CSV_READER_H
#define DT__DATA_CSV_READER_H

#include "data/input.h"
#include "data/tables/csv.h"
#include "data/tables/database.h"
#include "data/tables/table_join.h"

typedef enum dt__csv_role { DT__CSV_INPUT, DT__CSV_TARGET, DT__CSV_KEY } dt__csv_role;

/* Where a column's value is stored: number `number` of the inputs, targets or keys of a table. */
typedef struct dt__csv_place {
    int64_t column, number;
    int table;
    dt__csv_role role;
    /* for the first place of a column: number of its places, and whether one needs the text */
    int same;
    bool is_text;
} dt__csv_place;

#define DT__CSV_FAULTS 20 /* reported errors per file */

typedef struct dt__csv_reader {
    dt__csv *const *c;  /* readings of the file, [n_c] */
    dt__csv_table *out; /* their tables, [n_c] */
    int n_c;
    struct dt__table_cache *cache; /* NULL: numbers are in memory */
    dt_ctx *ctx;
    const char *path;
    dt__input input;
    dt__database *database; /* the rows' source if not a file; NULL: none */
    dt__table_join *join;   /* likewise, several joined files */
    bool is_utf8;           /* the text has been decoded */
    uint8_t *text;          /* a window of the file, in UTF-8 (csv_window.c); owned */
    size_t filled, room;
    char *at, *end;          /* text up to the end of the last whole row */
    bool more;               /* the file may continue after the window */
    dt_status status;        /* of reading the file: after an error there are no more rows */
    char separator, decimal; /* ',' and '.', unless options or the first rows say otherwise */
    char thousands, comment; /* 0: none */
    bool is_plain;           /* numbers have a decimal point, and no thousands */
    int64_t line, column;    /* lines count from 1 */
    char **name;             /* of the file's columns */
    int64_t n, names_room;
    dt__csv_place *place; /* sorted by column */
    int64_t n_places, places_room;
    int64_t rows, rows_room;
    int64_t left_out, first_left_out; /* number of skipped rows, and the line of the first */
    char *fault[DT__CSV_FAULTS];      /* messages of errors; owned */
    int n_faults;
} dt__csv_reader;

typedef struct dt__csv_field {
    char *text; /* without quotes */
    size_t n;
} dt__csv_field;

/* FORMAT, naming file, line, column and the field. */
dt_status dt__csv_refuse(const dt__csv_reader *r, const dt__csv_field *f, const char *why);
/* Message for fields that are not UTF-8. */
extern const char dt__csv_not_utf8[];
const char *dt__csv_no_number(const dt__csv_reader *r, const dt__csv_field *f);
/* Parses the field at r->at. FORMAT. */
dt_status dt__csv_take_field(dt__csv_reader *r, dt__csv_field *f);
/* Opens a file; r->ctx, r->path and r->c must be set. Finds its encoding, separator and decimal
 * sign (csv_dialect.c). IO, FORMAT, NOMEM. */
dt_status dt__csv_open(dt__csv_reader *r);
/* Reads more of the file into the window, which grows; r->text and r->at may move. */
dt_status dt__csv_window_widen(dt__csv_reader *r);
/* FORMAT if the window is not valid text from byte `from` on. */
dt_status dt__csv_window_check(const dt__csv_reader *r, size_t from);
/* Sets r->end behind the last whole row from r->at on; enlarges the window until it has one. */
dt_status dt__csv_window_end(dt__csv_reader *r);
/* After the last row of a window: reads the next one. false: end of the file, or r->status is an
 * error. */
bool dt__csv_next_window(dt__csv_reader *r);
void dt__csv_close_reader(dt__csv_reader *r);
/* Makes a reader for single fields, in the form of the files. */
void dt__csv_in_form(const dt__csv *c, dt__csv_reader *r);
/* Number of fields of the row at *at, which moves to the end of the row; does not change the
 * text. */
int64_t dt__csv_count_fields(const dt__csv_reader *r, char separator, const char **at);
/* Skips empty lines and comments. False at the end, or after an error, which is r->status. */
bool dt__csv_has_row(dt__csv_reader *r);
/* The error for a row with n fields; `there` says how many are expected. */
dt_status dt__csv_wrong_count(const dt__csv_reader *r, int64_t n, const char *there);
/* Whether a row with a wrong number of fields is skipped, as options may allow; counts it. */
bool dt__csv_leaves_out(dt__csv_reader *r);
void dt__csv_say_left_out(const dt__csv_reader *r);
/* The error for a table without rows. */
dt_status dt__csv_no_row(const dt__csv_reader *r);
/* Rewrites a number with the file's decimal sign and thousands separators to one with a point;
 * false: not a number. */
#define DT__CSV_NUMBER 64
bool dt__csv_plain_number(const dt__csv_reader *r, const dt__csv_field *f, char to[DT__CSV_NUMBER],
                          size_t *n);
/* After a field: skips a separator, or the end of the line. */
static inline bool dt__csv_is_last(dt__csv_reader *r)
{
    if (r->at < r->end && *r->at == r->separator) {
        r->at++;
        return false;
    }
    if (r->at < r->end && *r->at == '\r') r->at++;
    if (r->at < r->end) r->at++;
    return true;
}

static inline bool dt__csv_ends_field(const dt__csv_reader *r, const char *c)
{
    return c == r->end || *c == r->separator || *c == '\n' ||
           (*c == '\r' && (c + 1 == r->end || c[1] == '\n'));
}

static inline bool dt__csv_is_blank(const dt__csv_reader *r, char c)
{
    return c == ' ' || (c == '\t' && r->separator != '\t');
}

#define DT__CSV_LIST 256 /* a list of names in a message */

/* Reads the names of the first line; without a header they are 0, 1, ... FORMAT, NOMEM. */
dt_status dt__csv_read_names(dt__csv_reader *r);
/* A hint at the mistake, from the names of the file's columns, to append to a message; or "". */
const char *dt__csv_advice(const dt__csv_reader *r);
/* Whether at least three names are numbers in equal steps. */
bool dt__csv_is_progression(char *const *name, int64_t n);

/* Whether a name or pattern means a column. A pattern that equals the name of a column means only
 * that column. */
bool dt__csv_means(const dt__csv *c, const char *pattern, const char *name);
/* Allocates the words of keys, and takes over their time formats. NOMEM. */
dt_status dt__csv_begin_keys(dt__csv *c);

/* Reads the header, chooses columns unless they are chosen, and sets where values are stored.
 * FORMAT, CONFIG, NOMEM. */
dt_status dt__csv_take_columns(dt__csv_reader *r);

#endif
