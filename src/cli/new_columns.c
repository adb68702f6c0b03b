/* How `detent new` writes the columns of a table in the recipe:
 *     numbers     as they are; with missing values, or texts such as 'error', the median and an
 *                 indicator
 *     words       categories, at most MOST, with enough rows each to be learned and to be in each
 *                 fold; missing values are a category of their own
 *     booleans    0 or 1; missing values the most frequent one and an indicator
 *     times       parts; times in the order of the rows are left out
 *     left out    columns without a value or with only one, and words that hardly repeat */
#include "cli/new_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MOST 30 /* categories */
#define FEW 20  /* with at most so many different words, a column is no list of unique texts */
#define DAY 86400.0
#define NAMES DT_MAX_LIST /* columns of a rule */
#define LEFT_OUT "type: ignore"
#define OF_ROWS "times of the rows"
#define MARKS 24 /* bytes of the texts among numbers */
#define SHOWN 40 /* tables of at most so many columns are listed with columns that have no rule */

/* The decision about a column. */
typedef struct decision {
    char rule[160]; /* keys of the recipe; empty: none */
    char why[48], becomes[48];
} decision;

bool new_columns_has(const char *list, const char *name)
{
    const size_t bytes = strlen(name);
    for (; list != NULL && *list != 0;) {
        const size_t n = strcspn(list, ",");
        if (n == bytes && strncmp(list, name, n) == 0) return true;
        list += n + (list[n] == ',');
    }
    return false;
}

#define SAY(field, ...) snprintf(out->field, sizeof out->field, __VA_ARGS__)

static void decide_time(const dt_column_look *c, decision *out)
{
    const bool hours = c->least != DAY * (double)(int64_t)(c->least / DAY) ||
                       c->most != DAY * (double)(int64_t)(c->most / DAY);
    const bool weeks = c->most - c->least >= 2 * DAY, years = c->most - c->least >= 60 * DAY;
    char format[48] = "", parts[48];
    if (c->format != NULL) snprintf(format, sizeof format, ", format: '%s'", c->format);
    snprintf(parts, sizeof parts, "seconds%s%s%s", hours ? ", of_day" : "",
             weeks ? ", of_week" : "", years ? ", of_year" : "");
    SAY(rule, "type: time%s, parts: [%s]%s", format, parts,
        c->missing > 0 ? ", missing: median, indicator: true" : "");
    SAY(why, c->is_unsure ? "times, the day first?" : "times");
    SAY(becomes, "%s", parts);
}

static void leave_out(decision *out)
{
    SAY(rule, LEFT_OUT);
    SAY(becomes, "left out");
}

static bool is_counter(const dt_column_look *c, int64_t rows)
{
    const size_t n = strlen(c->name);
    const bool counts = c->is_integer && c->rises && c->missing == 0 &&
                        c->most - c->least == (double)(rows - 1) &&
                        (c->different == rows || c->different == DT_LOOK_DIFFERENT);
    return counts && rows > 2 && n > 2 && strcasecmp(c->name + n - 2, "id") == 0;
}

/* Whether a column has numbers except for a few texts such as 'inf', 'error' or '-', which are read
 * as missing. */
static bool holds_numbers(const dt_column_look *c, int64_t there)
{
    const bool few = c->odd[0] != NULL && c->odd[DT_LOOK_ODD - 1] == NULL;
    size_t bytes = 0;
    for (int i = 0; i < DT_LOOK_ODD && c->odd[i] != NULL; i++) bytes += strlen(c->odd[i]);
    return bytes <= MARKS && c->type == DT_COLUMN_CATEGORY && few && c->different > FEW &&
           10 * c->numbers >= 9 * there;
}

static void decide_numbers(const dt_column_look *c, decision *out)
{
    cli_text words = { .used = 0 };
    for (int i = 0; i < DT_LOOK_ODD && c->odd[i] != NULL; i++) {
        if (i > 0) cli_text_add(&words, ", ");
        new_data_quote(&words, c->odd[i], strlen(c->odd[i]));
    }
    SAY(rule, "missing: median, indicator: true, words: [%.100s]", words.text);
    SAY(why, "numbers, and %.30s", words.text);
    SAY(becomes, "number, else median; indicator");
}

/* Why a column is left out; NULL: it is an input. */
static const char *why_not(const dt_column_look *c, int64_t rows)
{
    const int64_t there = rows - c->missing;
    const bool many = c->different > FEW && c->different > there / 2;
    if (holds_numbers(c, there)) return NULL;
    if (*c->name == 0 && c->type != DT_COLUMN_NUMBER) return "no name";
    if (there == 0) return "no value";
    if (c->different == 1 && c->missing == 0) return "always the same";
    if (is_counter(c, rows)) return "numbers of the rows";
    if (c->type == DT_COLUMN_TIME && c->rises && c->different > there / 2) return OF_ROWS;
    return c->type == DT_COLUMN_CATEGORY && many ? "texts of one row each" : NULL;
}

/* The number of categories to keep: frequent words or, if none is frequent, all. */
static int64_t categories_of(const dt_column_look *c)
{
    const int64_t n = c->frequent > 0 ? c->frequent : c->different;
    return n < MOST ? n : MOST;
}

static void decide(const dt_column_look *c, int64_t rows, decision *out)
{
    const bool holes = c->missing > 0;
    const char *not_used = why_not(c, rows);
    if (not_used != NULL) {
        leave_out(out);
        SAY(why, "%s", not_used);
    } else if (c->type == DT_COLUMN_TIME) {
        decide_time(c, out);
    } else if (holds_numbers(c, rows - c->missing)) {
        decide_numbers(c, out);
    } else if (c->type == DT_COLUMN_NUMBER) {
        if (holes) SAY(rule, "missing: median, indicator: true");
        SAY(why, c->is_integer ? "integers" : "numbers");
        SAY(becomes, holes ? "number, else median; indicator" : "number");
    } else if (c->type == DT_COLUMN_BOOLEAN) {
        SAY(rule, "type: boolean%s", holes ? ", missing: frequent, indicator: true" : "");
        SAY(why, "true or false");
        SAY(becomes, holes ? "0 or 1, else frequent; indicator" : "0 or 1");
    } else {
        char most[24] = "";
        const int64_t kept = categories_of(c);
        if (kept < c->different) snprintf(most, sizeof most, ", most: %d", (int)kept);
        SAY(rule, "type: category%s%s", most, holes ? ", missing: code" : "");
        SAY(why, "%lld words%s", (long long)c->different,
            c->different == DT_LOOK_DIFFERENT ? " and more" : "");
        SAY(becomes, "category%s%s", most, holes ? ", one of missing" : "");
    }
}

/* Writes one rule for all columns, from i on, that have the same rule and none written yet. */
static void add_rule(const dt_table_look *look, decision *all, int64_t i, cli_text *types)
{
    char rule[sizeof all->rule];
    int names = 0;
    snprintf(rule, sizeof rule, "%s", all[i].rule);
    cli_text_add(types, "      - {columns: [");
    for (int64_t k = i; k < look->n && names < NAMES; k++) {
        if (strcmp(all[k].rule, rule) != 0) continue;
        if (names++ > 0) cli_text_add(types, ", ");
        new_data_quote(types, look->column[k].name, strlen(look->column[k].name));
        all[k].rule[0] = 0;
    }
    cli_text_add(types, "], %s}\n", rule);
}

static void add_row(const dt_column_look *c, const decision *d, cli_table *table)
{
    cli_table_put(table, c->name);
    cli_table_put(table, d->why);
    if (c->missing > 0) cli_table_format(table, "%lld", (long long)c->missing);
    else cli_table_put(table, "");
    cli_table_put(table, d->becomes);
}

/* The first name of a list "a,b" that is no column; NULL: there is none. */
static const char *find_unknown(const char *list, const dt_table_look *look)
{
    for (const char *at = list; at != NULL && *at != 0;) {
        const size_t n = strcspn(at, ",");
        int64_t k = 0;
        for (; k < look->n; k++) {
            const char *name = look->column[k].name;
            if (strlen(name) == n && strncmp(name, at, n) == 0) break;
        }
        if (k == look->n) return at;
        at += n + (at[n] == ',');
    }
    return NULL;
}

static bool is_input(const new_data *d, const dt_column_look *c)
{
    return !new_columns_has(d->target, c->name) && !new_columns_has(d->moments, c->name) &&
           (d->group == NULL || strcmp(d->group, c->name) != 0) &&
           (d->inputs == NULL || new_columns_has(d->inputs, c->name));
}

static void decide_all(const new_data *d, const dt_table_look *look, decision *all, new_columns *c)
{
    static const char *const head[] = { "column", "holds", "missing", "becomes" };
    c->unknown = find_unknown(c->ignore, look);
    c->table.form = "llrl";
    for (int i = 0; i < 4; i++) cli_table_put(&c->table, head[i]);
    bool typed = false;
    int64_t kept = 0;
    c->rows = look->rows;
    for (int64_t i = 0; i < look->n; i++) {
        const dt_column_look *column = &look->column[i];
        if (d->group != NULL && strcmp(d->group, column->name) == 0) c->groups = column->different;
        if (!is_input(d, column)) continue;
        decide(column, look->rows, &all[i]);
        c->in_time = c->in_time || strcmp(all[i].why, OF_ROWS) == 0;
        if (new_columns_has(c->ignore, column->name)) leave_out(&all[i]);
        typed = typed || all[i].rule[0] != 0;
        kept += strcmp(all[i].rule, LEFT_OUT) != 0;
    }
    for (int64_t i = 0; i < look->n; i++) {
        if (!is_input(d, &look->column[i])) continue;
        const bool time = strcmp(all[i].why, OF_ROWS) == 0;
        /* no other column is an input */
        if (time && kept == 0) decide_time(&look->column[i], &all[i]);
        c->kept += strcmp(all[i].rule, LEFT_OUT) != 0;
        if (typed && *look->column[i].name == 0) leave_out(&all[i]); /* types require a name */
        if (all[i].rule[0] != 0 || look->n <= SHOWN) add_row(&look->column[i], &all[i], &c->table);
    }
    for (int64_t i = 0; i < look->n; i++) {
        if (all[i].rule[0] != 0) add_rule(look, all, i, &c->types);
    }
}

void new_columns_drop(new_columns *c, const char *name)
{
    const int columns = (int)strlen(c->table.form);
    for (int row = columns; row + columns <= c->table.n; row += columns) {
        char **becomes = &c->table.cell[row + columns - 1];
        if (strcmp(c->table.cell[row], name) != 0) continue;
        free(*becomes);
        *becomes = strdup("left out");
        c->table.failed = c->table.failed || *becomes == NULL;
    }
}

dt_status new_columns_decide(dt_ctx *ctx, new_data *d, new_columns *c)
{
    dt_csv_options options = { .header = !d->no_header };
    dt_table_look look;
    dt_status s = dt_table_look_at(ctx, d->path, &options, &look);
    if (s == DT_ERR_FORMAT && strstr(dt_error(ctx), "latin-1") != NULL) {
        d->latin1 = true;
        options.encoding = DT_CSV_LATIN1;
        s = dt_table_look_at(ctx, d->path, &options, &look);
    }
    if (s != DT_OK) return s;
    new_series_find(&look, d);
    decision *all = calloc((size_t)look.n, sizeof *all);
    if (all != NULL) decide_all(d, &look, all, c);
    if (all == NULL || c->table.failed) s = DT_ERR_NOMEM;
    free(all);
    dt_table_look_free(ctx, &look);
    return s;
}
