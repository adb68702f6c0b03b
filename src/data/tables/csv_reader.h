/* What readers of CSV files share: where they are, fields, and which columns go where. */
#ifndef DT__DATA_CSV_READER_H
#define DT__DATA_CSV_READER_H

#include "data/input.h"
#include "data/tables/csv.h"
#include "data/tables/database.h"
#include "data/tables/table_join.h"

typedef enum dt__csv_role { DT__CSV_INPUT, DT__CSV_TARGET, DT__CSV_KEY } dt__csv_role;

/* Where the value of a column goes: number `number` of the inputs, targets or keys of a table. */
typedef struct dt__csv_place {
    int64_t column, number;
    int table;
    dt__csv_role role;
    /* of the first place of a column: how many follow each other, and whether one needs its text */
    int same;
    bool is_text;
} dt__csv_place;

#define DT__CSV_FAULTS 20 /* errors of a file that are shown at once */

typedef struct dt__csv_reader {
    dt__csv *const *c;  /* what is read of the file, [n_c] */
    dt__csv_table *out; /* likewise */
    int n_c;
    struct dt__table_cache *cache; /* NULL: numbers are in memory */
    dt_ctx *ctx;
    const char *path;
    dt__input input;
    dt__database *database; /* in place of a file; NULL: none */
    dt__table_join *join;   /* likewise, of several */
    bool is_utf8;           /* as soon as the text is decoded */
    uint8_t *text;          /* a window of the file, in UTF-8 (csv_window.c); owned */
    size_t filled, room;
    char *at, *end;          /* of whole rows */
    bool more;               /* the file may go on behind the window */
    dt_status status;        /* of reading on: after it failed there are no rows */
    char separator, decimal; /* ',' and '.', unless options or the first rows say otherwise */
    char thousands, comment; /* 0: none */
    bool is_plain;           /* numbers have a decimal point, and no thousands */
    int64_t line, column;    /* lines count from 1 */
    char **name;             /* of the file's columns */
    int64_t n, names_room;
    dt__csv_place *place; /* in the order of columns */
    int64_t n_places, places_room;
    int64_t rows, rows_room;
    int64_t left_out, first_left_out; /* rows that are skipped, and the line of the first */
    char *fault[DT__CSV_FAULTS];      /* messages of errors; owned */
    int n_faults;
} dt__csv_reader;

typedef struct dt__csv_field {
    char *text; /* without quotes */
    size_t n;
} dt__csv_field;

/* FORMAT, naming file, line, column and the field. */
dt_status dt__csv_refuse(const dt__csv_reader *r, const dt__csv_field *f, const char *why);
/* Why a field is refused that is not a number. */
extern const char dt__csv_not_utf8[];
const char *dt__csv_no_number(const dt__csv_reader *r, const dt__csv_field *f);
/* Takes the field at r->at. FORMAT. */
dt_status dt__csv_take_field(dt__csv_reader *r, dt__csv_field *f);
/* Reads a file: r->ctx, r->path and r->c are given. Finds its encoding, separator and decimal point
 * (csv_dialect.c). IO, FORMAT, NOMEM. */
dt_status dt__csv_open(dt__csv_reader *r);
/* Reads more of the file behind the window, which grows; r->text and r->at may move. */
dt_status dt__csv_window_widen(dt__csv_reader *r);
/* FORMAT if what was read from byte `from` of the window on is not a text. */
dt_status dt__csv_window_check(const dt__csv_reader *r, size_t from);
/* Sets r->end behind the last whole row from r->at on; the window grows until it has one. */
dt_status dt__csv_window_end(dt__csv_reader *r);
/* After the last row of a window: the next one. false: there is none, or r->status is an error. */
bool dt__csv_next_window(dt__csv_reader *r);
void dt__csv_close_reader(dt__csv_reader *r);
/* A reader of fields outside of a file, in the form that the files have. */
void dt__csv_in_form(const dt__csv *c, dt__csv_reader *r);
/* Fields of the row at *at, which becomes the end of the row; nothing is changed. */
int64_t dt__csv_count_fields(const dt__csv_reader *r, char separator, const char **at);
/* Skips lines without a character, and comments; false at the end, or after an error, which is
 * r->status then. */
bool dt__csv_has_row(dt__csv_reader *r);
/* The error of a row with n fields, said to be `there`. */
dt_status dt__csv_wrong_count(const dt__csv_reader *r, int64_t n, const char *there);
/* Leaves a row out that has another number of fields, where options say so; and says how many. */
bool dt__csv_leaves_out(dt__csv_reader *r);
void dt__csv_say_left_out(const dt__csv_reader *r);
/* The error of a table without rows. */
dt_status dt__csv_no_row(const dt__csv_reader *r);
/* A number with the file's decimal sign and thousands as one with a point; false: it is none. */
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

/* Reads the names of the first line, or without a header the numbers 0, 1, ... FORMAT, NOMEM. */
dt_status dt__csv_read_names(dt__csv_reader *r);
/* What the names of a file suggest that is wrong with it, behind a message, or "". */
const char *dt__csv_advice(const dt__csv_reader *r);
/* Whether at least three names are numbers in equal steps. */
bool dt__csv_is_progression(char *const *name, int64_t n);

/* Whether a name or pattern means a column: a pattern that is the name of one means that alone. */
bool dt__csv_means(const dt__csv *c, const char *pattern, const char *name);
/* Keys get room for their texts, and the form of times that rules give them. NOMEM. */
dt_status dt__csv_begin_keys(dt__csv *c);

/* Reads the header, chooses columns where none are chosen yet, and sets the places of their values.
 * FORMAT, CONFIG, NOMEM. */
dt_status dt__csv_take_columns(dt__csv_reader *r);

#endif
