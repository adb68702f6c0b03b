/* Fields of CSV files, and the choice of columns: the names in the first line are matched with the
 * requested ones. */
#include "data/tables/csv_types.h"

#include "core/text/glob.h"
#include "core/text/json.h"
#include "core/text/number.h"
#include "core/text/utf8.h"
#include "data/value_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_COLUMNS 65536

/* ---- fields ------------------------------------------------------------------------------- */

dt_status dt__csv_refuse(const dt__csv_reader *r, const dt__csv_field *f, const char *why)
{
    char shown[DT__SHOWN], text[64];
    const size_t n = f->n < sizeof text - 1 ? f->n : sizeof text - 1;
    memcpy(text, f->text, n);
    text[n] = '\0';
    const bool named = r->column < r->n;
    const bool row = r->database != NULL;
    if (r->join != NULL) {
        int64_t at = r->line - 1;
        const char *file = dt__table_join_file(r->join, &at);
        return dt_fail(r->ctx, DT_ERR_FORMAT, "'%s': row %lld, column '%s': '%s' %s", file,
                       (long long)at, named ? r->name[r->column] : "", dt__shown(text, shown), why);
    }
    return dt_fail(r->ctx, DT_ERR_FORMAT, "'%s': %s %lld, column %lld%s%s%s: '%s' %s", r->path,
                   row ? "row" : "line", (long long)r->line - row, (long long)r->column + 1,
                   named ? " ('" : "", named ? r->name[r->column] : "", named ? "')" : "",
                   dt__shown(text, shown), why);
}

const char dt__csv_not_utf8[] = "is not UTF-8; data.columns.encoding: latin-1 reads it";

const char *dt__csv_no_number(const dt__csv_reader *r, const dt__csv_field *f)
{
    bool comma = false;
    size_t i = 0;
    for (; i < f->n && strchr("0123456789.,-+ ", f->text[i]) != NULL; i++) {
        comma = comma || (f->text[i] == ',' && i > 0 && i + 1 < f->n);
    }
    if (r->decimal != '.') return "is not a number with a decimal comma (data.columns.decimal)";
    if (comma && i == f->n) {
        return "is not a number: a decimal point and no commas are expected (data.columns.decimal, "
               "thousands)";
    }
    return "is not a number; data.columns.types has types for others, as {columns: NAME, type: "
           "category}";
}

/* Parses a field that begins with a quote. Doubled quotes inside become one. */
static dt_status take_quoted(dt__csv_reader *r, dt__csv_field *f)
{
    char *to = ++r->at;
    *f = (dt__csv_field){ r->at, 0 };
    const int64_t line = r->line;
    for (;; r->at++) {
        if (r->at == r->end) {
            r->line = line;
            f->n = (size_t)(to - f->text);
            return dt__csv_refuse(r, f, "begins with a quote that nothing closes");
        }
        if (*r->at == '"' && (r->at + 1 == r->end || r->at[1] != '"')) break;
        if (*r->at == '"') r->at++;
        r->line += *r->at == '\n' && r->database == NULL && r->join == NULL;
        *to++ = *r->at;
    }
    f->n = (size_t)(to - f->text);
    r->at++;
    while (r->at < r->end && dt__csv_is_blank(r, *r->at)) r->at++;
    return dt__csv_ends_field(r, r->at)
               ? DT_OK
               : dt__csv_refuse(r, f, "is followed by text behind its quote");
}

dt_status dt__csv_take_field(dt__csv_reader *r, dt__csv_field *f)
{
    while (r->at < r->end && dt__csv_is_blank(r, *r->at)) r->at++;
    if (r->at < r->end && *r->at == '"') return take_quoted(r, f);
    *f = (dt__csv_field){ r->at, 0 };
    while (!dt__csv_ends_field(r, r->at)) r->at++;
    f->n = (size_t)(r->at - f->text);
    while (f->n > 0 && dt__csv_is_blank(r, f->text[f->n - 1])) f->n--;
    return DT_OK;
}

/* ---- columns ------------------------------------------------------------------------------ */

bool dt__csv_means(const dt__csv *c, const char *pattern, const char *name)
{
    if (strcmp(pattern, name) == 0) return true;
    return dt__glob_match(pattern, name) &&
           dt__words_find(&c->patterns, pattern, strlen(pattern)) < 0;
}

static dt_status add_name(dt__csv_reader *r, const dt__csv_field *f)
{
    if (!dt__is_utf8_of(f->text, f->n)) return dt__csv_refuse(r, f, dt__csv_not_utf8);
    if (r->n == MOST_COLUMNS)
        return dt__csv_refuse(r, f, "is a column too many: expected at most 65536");
    DT__TRY(DT__RESERVE(r->ctx, r->name, r->n, r->names_room));
    char *name = dt__alloc(r->ctx, f->n + 1);
    if (name == NULL) return DT_ERR_NOMEM;
    memcpy(name, f->text, f->n);
    name[f->n] = '\0';
    r->name[r->n++] = name;
    for (int k = 0; k < r->n_c && strpbrk(name, "*?") != NULL; k++) {
        if (dt__words_add(r->ctx, &r->c[k]->patterns, name, f->n) < 0) return DT_ERR_NOMEM;
    }
    return DT_OK;
}

/* Whether all of the n fields' texts are numbers. */
static bool are_numbers(char *const *name, int64_t n)
{
    char value[DT__VALUE_TEXT];
    int64_t i = 0;
    while (i < n && dt__value_text(name[i], strlen(name[i]), value)) i++;
    return i == n && n > 0;
}

/* Reads the names in the first line; without a header they are 0, 1, ... */
static dt_status read_fields(dt__csv_reader *r, bool header)
{
    bool last = false;
    for (int64_t i = 0; !last; i++) {
        dt__csv_field f;
        char digits[32];
        r->column = i;
        DT__TRY(dt__csv_take_field(r, &f));
        if (!header) {
            dt__print_real((double)i, digits);
            f = (dt__csv_field){ digits, strlen(digits) };
        }
        DT__TRY(add_name(r, &f));
        last = dt__csv_is_last(r);
    }
    return DT_OK;
}

static void forget_names(dt__csv_reader *r)
{
    for (int64_t i = 0; i < r->n; i++) dt__release(r->ctx, r->name[i]);
    for (int k = 0; k < r->n_c; k++) dt__words_free(r->ctx, &r->c[k]->patterns);
    r->n = 0;
}

/* Does so for a file that may have no header. Unquoting changes the text, so a row of numbers is
 * read again only if it has no quotes. */
dt_status dt__csv_read_names(dt__csv_reader *r)
{
    char *const begin = r->at;
    const int64_t line = r->line;
    bool header = r->c[0]->options->header;
    DT__TRY(read_fields(r, header));
    const bool quoted = memchr(begin, '"', (size_t)(r->at - begin)) != NULL;
    if (header && r->c[0]->finds_header && !quoted && are_numbers(r->name, r->n)) {
        header = dt__csv_is_progression(r->name, r->n);
        dt__say(r->ctx,
                header ? "'%s': the first row, numbers in equal steps, is taken for a header"
                       : "'%s': the first row consists of numbers, and is read as the others",
                r->path);
    }
    if (!header && r->c[0]->options->header) {
        forget_names(r);
        r->at = begin;
        DT__TRY(read_fields(r, false));
    }
    r->line = header ? r->line + 1 : line;
    if (!header) r->at = begin;
    return DT_OK;
}

/* "a, b, c, ..." of n names. */
static const char *list_names(char *const *name, int64_t n, char text[DT__CSV_LIST])
{
    char shown[DT__SHOWN];
    size_t used = 0;
    text[0] = 0;
    for (int64_t i = 0; i < n; i++) {
        if (used + DT__SHOWN + 8 >= DT__CSV_LIST) {
            snprintf(text + used, DT__CSV_LIST - used, ", ...");
            break;
        }
        used += (size_t)snprintf(text + used, DT__CSV_LIST - used, "%s%s", i == 0 ? "" : ", ",
                                 dt__shown(name[i], shown));
    }
    return text;
}

/* A hint at the mistake, from the names of the file's columns. */
const char *dt__csv_advice(const dt__csv_reader *r)
{
    if (!r->c[0]->options->header) return "";
    if (r->n == 1 && strpbrk(r->name[0], ",;\t|") != NULL) {
        return "; its fields are separated by another character than data.columns.separator says";
    }
    return are_numbers(r->name, r->n) ? "; its first row consists of numbers, as of a file without "
                                        "a header (data.columns.header: false)"
                                      : "";
}

static dt_status no_column(const dt__csv_reader *r, const char *key, const char *pattern)
{
    char all[DT__CSV_LIST], shown[DT__SHOWN];
    return dt_fail(r->ctx, DT_ERR_CONFIG, "data.columns.%s: '%s' is not a column of '%s' (%s)%s",
                   key, dt__shown(pattern, shown), r->path, list_names(r->name, r->n, all),
                   dt__csv_advice(r));
}

static bool is_excluded(const dt__csv *c, const char *name)
{
    const dt_strings *patterns = &c->options->exclude;
    int i = 0;
    while (i < patterns->n && !dt__csv_means(c, patterns->v[i], name)) i++;
    const dt_column_rule *rule = dt__csv_rule_of(c, name);
    return i < patterns->n || (rule != NULL && rule->type == DT_COLUMN_IGNORE);
}

/* Refuses patterns that match no column. */
static dt_status check_patterns(const dt__csv_reader *r, const char *key,
                                const dt_strings *patterns)
{
    for (int i = 0; i < patterns->n; i++) {
        int64_t k = 0;
        while (k < r->n && !dt__csv_means(r->c[0], patterns->v[i], r->name[k])) k++;
        if (k == r->n) return no_column(r, key, patterns->v[i]);
    }
    return DT_OK;
}

static dt_status check_excluded(const dt__csv_reader *r, const dt__csv *c)
{
    DT__TRY(check_patterns(r, "exclude", &c->options->exclude));
    for (int64_t i = 0; i < c->options->types.n; i++) {
        const dt_column_rule *rule = c->options->types.v[i].options;
        DT__TRY(check_patterns(r, "types", &rule->columns));
    }
    return DT_OK;
}

/* Whether a rule takes effect: it is the first of an input or of a key that is a time, or leaves a
 * column out. */
static bool decides(const dt__csv_reader *r, const dt_column_rule *rule)
{
    for (int64_t i = 0; i < r->n; i++) {
        bool used = rule->type == DT_COLUMN_IGNORE;
        const size_t n = strlen(r->name[i]);
        for (int k = 0; k < r->n_c && !used; k++) {
            used = dt__words_find(&r->c[k]->inputs, r->name[i], n) >= 0 ||
                   (rule->type == DT_COLUMN_TIME &&
                    dt__words_find(&r->c[k]->keys, r->name[i], n) >= 0);
        }
        if (used && dt__csv_rule_of(r->c[0], r->name[i]) == rule) return true;
    }
    return false;
}

/* Refuses rules without effect: of a target, of columns that are left out, or after a rule that
 * matches all of its columns. */
static dt_status check_rules(const dt__csv_reader *r)
{
    const dt_item_list *types = &r->c[0]->options->types;
    for (int64_t i = 0; i < types->n; i++) {
        const dt_column_rule *rule = types->v[i].options;
        if (decides(r, rule)) continue;
        return dt_fail(r->ctx, DT_ERR_CONFIG,
                       "data.columns.types: the rule of '%s' decides no input: its columns are "
                       "targets, left out, or decided by a rule above it",
                       rule->columns.v[0]);
    }
    return DT_OK;
}

/* Adds the columns that match a pattern, except targets. */
static dt_status choose(dt__csv_reader *r, dt__csv *c, const char *key, const char *pattern,
                        dt__words *list)
{
    int64_t found = 0, excluded = 0;
    bool are_targets = false;
    for (int64_t i = 0; i < r->n; i++) {
        const size_t n = strlen(r->name[i]);
        if (!dt__csv_means(c, pattern, r->name[i])) continue;
        const bool is_key = list == &c->inputs && dt__words_find(&c->keys, r->name[i], n) >= 0;
        if (is_key && strcmp(pattern, r->name[i]) != 0) continue;
        if (list == &c->inputs && is_excluded(c, r->name[i])) {
            excluded++;
            continue;
        }
        if (list == &c->inputs && dt__words_find(&c->targets, r->name[i], n) >= 0) {
            are_targets = true;
            if (strcmp(pattern, r->name[i]) != 0) continue;
            return dt_fail(r->ctx, DT_ERR_CONFIG,
                           "data.columns.inputs: '%s' is the target, which no input may be",
                           pattern);
        }
        if (dt__words_add(r->ctx, list, r->name[i], n) < 0) return DT_ERR_NOMEM;
        found++;
    }
    if (found == 0 && are_targets) {
        return dt_fail(r->ctx, DT_ERR_CONFIG,
                       "data.columns.target: all columns of '%s' that '%s' matches are targets; no "
                       "input is left",
                       r->path, pattern);
    }
    if (found == 0 && excluded > 0) {
        return dt_fail(r->ctx, DT_ERR_CONFIG,
                       "data.columns.exclude: no input is left of the columns of '%s' that '%s' "
                       "matches",
                       r->path, pattern);
    }
    return found > 0 ? DT_OK : no_column(r, key, pattern);
}

/* Warns that column names which are numbers may be data, unless the recipe names them. */
static void say_numbers(const dt__csv_reader *r, const dt__csv *c)
{
    char list[DT__CSV_LIST];
    if (!c->options->header || c->finds_header || c->options->inputs.n > 0) return;
    if (!are_numbers(c->inputs.word, c->inputs.n)) return;
    const bool steps = dt__csv_is_progression(c->inputs.word, c->inputs.n);
    list_names(r->name, r->n, list);
    dt__say(r->ctx,
            "%s'%s': the first row, %s, is read as names of columns%s; "
            "data.columns.header: false reads it as %s",
            steps ? "" : "warning: ", r->path, list, steps ? "" : ", but consists of numbers",
            steps ? "data" : "the data that it seems to be");
}

static dt_status no_key(const dt__csv_reader *r, const dt__csv *c, const char *name)
{
    char all[DT__CSV_LIST], shown[DT__SHOWN];
    return dt_fail(r->ctx, DT_ERR_CONFIG,
                   "'%s': '%s' is not a column, but %s; its columns are %s%s", r->path,
                   dt__shown(name, shown),
                   c->names_given ? "the model's rows are told apart or ordered by it (data.series)"
                                  : "data.split or data.series names it",
                   list_names(r->name, r->n, all), dt__csv_advice(r));
}

dt_status dt__csv_begin_keys(dt__csv *c)
{
    if (c->keys.n == 0) return DT_OK;
    c->key_words = dt__alloc_zero(c->ctx, (size_t)c->keys.n * sizeof *c->key_words);
    c->key_form = dt__alloc_zero(c->ctx, (size_t)c->keys.n * sizeof *c->key_form);
    if (c->key_words == NULL || c->key_form == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < c->keys.n; i++) {
        const dt_column_rule *rule = dt__csv_rule_of(c, c->keys.word[i]);
        if (rule != NULL) c->key_form[i] = rule->format;
    }
    return DT_OK;
}

/* Refuses missing key columns, and makes an empty set of words for each. */
static dt_status begin_keys(const dt__csv_reader *r, dt__csv *c)
{
    for (int64_t i = 0; i < c->keys.n; i++) {
        int64_t k = 0;
        while (k < r->n && strcmp(r->name[k], c->keys.word[i]) != 0) k++;
        if (k == r->n) return no_key(r, c, c->keys.word[i]);
    }
    return dt__csv_begin_keys(c);
}

static dt_status check_twice(const dt__csv_reader *r, const char *key, const dt_strings *names)
{
    for (int i = 1; i < names->n; i++) {
        int k = 0;
        while (k < i && strcmp(names->v[k], names->v[i]) != 0) k++;
        if (k == i) continue;
        return dt_fail(r->ctx, DT_ERR_CONFIG, "data.columns.%s: '%s' is named twice", key,
                       names->v[i]);
    }
    return DT_OK;
}

/* Chooses the columns, by the first file. */
static dt_status choose_columns(dt__csv_reader *r, dt__csv *c)
{
    const dt_csv_options *o = c->options;
    DT__TRY(check_twice(r, "inputs", &o->inputs));
    DT__TRY(check_twice(r, "target", &o->target));
    DT__TRY(check_excluded(r, c));
    DT__TRY(begin_keys(r, c));
    for (int i = 0; i < o->target.n; i++) {
        DT__TRY(choose(r, c, "target", o->target.v[i], &c->targets));
    }
    for (int i = 0; i < o->inputs.n; i++) {
        DT__TRY(choose(r, c, "inputs", o->inputs.v[i], &c->inputs));
    }
    if (o->inputs.n == 0) DT__TRY(choose(r, c, "inputs", "*", &c->inputs));
    say_numbers(r, c);
    if (c->target != DT_TARGET_CLASS || c->targets.n <= 1) return DT_OK;
    return dt_fail(r->ctx, DT_ERR_CONFIG,
                   "data.columns.target: %lld columns; a class is in one (data.task: regression or "
                   "multi_label takes several)",
                   (long long)c->targets.n);
}

static dt_status add_place(dt__csv_reader *r, const dt__csv_place *p)
{
    DT__TRY(DT__RESERVE(r->ctx, r->place, r->n_places, r->places_room));
    r->place[r->n_places++] = *p;
    return DT_OK;
}

static const dt__words *names_of(const dt__csv *c, dt__csv_role role)
{
    return role == DT__CSV_INPUT ? &c->inputs : role == DT__CSV_TARGET ? &c->targets : &c->keys;
}

static int64_t count_wanted(const dt__csv *c) { return c->inputs.n + c->targets.n + c->keys.n; }

/* Refuses a file that lacks columns; seen[i] is 0 for those. */
static dt_status lack_columns(const dt__csv_reader *r, const dt__csv *c, const int64_t *seen)
{
    char lacking[DT__CSV_LIST], all[DT__CSV_LIST];
    const int64_t wanted = count_wanted(c);
    int64_t n = 0;
    char **name = dt__alloc_array(r->ctx, wanted, sizeof *name);
    if (name == NULL) return DT_ERR_NOMEM;
    for (int role = DT__CSV_INPUT; role <= DT__CSV_KEY; role++) {
        const dt__words *names = names_of(c, (dt__csv_role)role);
        for (int64_t i = 0; i < names->n; i++) {
            if (*seen++ == 0) name[n++] = names->word[i];
        }
    }
    dt_fail(r->ctx, DT_ERR_FORMAT, "'%s' lacks %lld %s that %s: %s; its columns are %s%s", r->path,
            (long long)n, n == 1 ? "column" : "columns",
            c->names_given ? "the model reads" : "the first file of the training data has",
            list_names(name, n, lacking), list_names(r->name, r->n, all), dt__csv_advice(r));
    dt__release(r->ctx, name);
    return DT_ERR_FORMAT;
}

/* Finds the file's columns with a role in reading k; `seen` counts each. */
static dt_status find_places(dt__csv_reader *r, int k, dt__csv_role role, int64_t *seen)
{
    const dt__csv *c = r->c[k];
    const bool shared =
        (role == DT__CSV_INPUT && c->x_of != NULL) || (role == DT__CSV_TARGET && c->y_of != NULL);
    for (int64_t i = 0; i < r->n; i++) {
        const int64_t at = dt__words_find(names_of(c, role), r->name[i], strlen(r->name[i]));
        if (at < 0) continue;
        if (seen[at] > 0) {
            char shown[DT__SHOWN];
            return dt_fail(r->ctx, DT_ERR_FORMAT,
                           "'%s': columns %lld and %lld have the same name, '%s'", r->path,
                           (long long)seen[at], (long long)i + 1, dt__shown(r->name[i], shown));
        }
        seen[at] = i + 1;
        if (shared) continue;
        const dt__csv_place place = { .column = i, .number = at, .table = k, .role = role };
        DT__TRY(add_place(r, &place));
    }
    return DT_OK;
}

static dt_status take_places(dt__csv_reader *r, int k)
{
    const int64_t wanted = count_wanted(r->c[k]);
    int64_t *seen = dt__alloc_zero(r->ctx, (size_t)wanted * sizeof *seen), *at = seen, lacking = 0;
    if (seen == NULL) return DT_ERR_NOMEM;
    dt_status status = DT_OK;
    for (int role = DT__CSV_INPUT; role <= DT__CSV_KEY && status == DT_OK; role++) {
        status = find_places(r, k, (dt__csv_role)role, at);
        at += names_of(r->c[k], (dt__csv_role)role)->n;
    }
    for (int64_t i = 0; i < wanted; i++) lacking += seen[i] == 0;
    if (status == DT_OK && lacking > 0) status = lack_columns(r, r->c[k], seen);
    dt__release(r->ctx, seen);
    return status;
}

/* Sorts by column, then by reading. */
static int by_column(const void *a, const void *b)
{
    const dt__csv_place *x = a, *y = b;
    if (x->column != y->column) return x->column < y->column ? -1 : 1;
    return x->table - y->table;
}

/* Chooses columns whose texts are kept: by name, or by a pattern for columns that are not inputs,
 * which must be known by then. */
static dt_status choose_kept(dt__csv_reader *r, dt__csv *c)
{
    const dt_strings *keep = &c->options->keep;
    for (int k = 0; k < keep->n; k++) {
        bool found = strcmp(keep->v[k], "*") == 0; /* * may match none */
        for (int64_t i = 0; i < r->n; i++) {
            const size_t n = strlen(r->name[i]);
            const bool same = strcmp(keep->v[k], r->name[i]) == 0;
            const bool other = c->inputs.n > 0 && dt__words_find(&c->inputs, r->name[i], n) < 0;
            if (!same && (!other || !dt__csv_means(c, keep->v[k], r->name[i]))) continue;
            if (dt__words_add(r->ctx, &c->keys, r->name[i], n) < 0) return DT_ERR_NOMEM;
            found = true;
        }
        if (!found) {
            char all[DT__CSV_LIST], shown[DT__SHOWN];
            return dt_fail(r->ctx, DT_ERR_CONFIG, "'%s' has no column '%s' to keep%s; it has %s",
                           r->path, dt__shown(keep->v[k], shown),
                           strpbrk(keep->v[k], "*?") != NULL ? " that the model does not read" : "",
                           list_names(r->name, r->n, all));
        }
    }
    return c->inputs.n > 0 && c->key_words == NULL ? begin_keys(r, c) : DT_OK;
}

static bool needs_text(const dt__csv_reader *r, const dt__csv_place *p)
{
    const dt__csv *c = r->c[p->table];
    return p->role == DT__CSV_KEY || (p->role == DT__CSV_INPUT && c->types != NULL) ||
           (p->role == DT__CSV_TARGET && c->target == DT_TARGET_CLASS);
}

static void count_same(dt__csv_reader *r)
{
    for (int64_t i = 0, past; i < r->n_places; i = past) {
        dt__csv_place *first = &r->place[i];
        for (past = i; past < r->n_places && r->place[past].column == first->column; past++) {
            first->is_text = first->is_text || needs_text(r, &r->place[past]);
        }
        first->same = (int)(past - i);
    }
}

dt_status dt__csv_take_columns(dt__csv_reader *r)
{
    DT__TRY(dt__csv_read_names(r));
    const bool first = r->c[0]->inputs.n == 0;
    for (int k = 0; k < r->n_c; k++) {
        DT__TRY(choose_kept(r, r->c[k]));
        if (r->c[k]->inputs.n == 0) DT__TRY(choose_columns(r, r->c[k]));
    }
    if (first) DT__TRY(check_rules(r));
    for (int k = 0; k < r->n_c; k++) {
        if (r->c[k]->x_of == NULL) DT__TRY(dt__csv_types_begin(r->c[k]));
        DT__TRY(take_places(r, k));
    }
    if (r->n_places > 0) {
        qsort(r->place, (size_t)r->n_places, sizeof *r->place, by_column);
    }
    count_same(r);
    return DT_OK;
}
