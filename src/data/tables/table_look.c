/* Examines the columns of a table (dt_table_look_at): every text is tried as a number, as a
 * boolean, and as a time in each format that all earlier texts had. */
#include "core/block_list.h"
#include "core/comparisons.h"
#include "data/tables/csv_types.h"
#include "core/text/ending.h"
#include "core/text/utf8.h"
#include "data/tables/tensor_names.h"

#include <detent/experimental/tables.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const forms[] = {
    NULL, /* ISO 8601 */
    "%d.%m.%Y", "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S", "%d/%m/%Y",
    "%m/%d/%Y", "%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M",    "%Y/%m/%d",
    "%b %d %Y", "%d %b %Y",       "%Y/%m/%d %H:%M",    "%Y/%m/%d %H:%M:%S"
};
enum { FORMS = sizeof forms / sizeof forms[0], STEPS = 63 };

typedef struct looking {
    dt_column_look *out;
    dt__words words;
    uint8_t *rows; /* [words.n]: rows with each word, up to DT_LOOK_FREQUENT */
    int64_t room;
    bool numbers, booleans;
    unsigned times;       /* bit set of possible `forms` */
    double before[FORMS]; /* the latest time in each form, */
    double least[FORMS], most[FORMS];
    double number; /* and the latest number */
    int64_t fell[FORMS], number_fell;
    double step[STEPS]; /* ascending steps of numbers, or of times in the first form */
    int steps;
    int64_t word;             /* the latest text; -1: none */
    int64_t odd[DT_LOOK_ODD]; /* the first words that are not numbers */
    int n_odd;
} looking;

static bool parses(dt_ctx *ctx, int type, const char *form, const dt__csv_field *f, double *out)
{
    const dt_column c = { .name = "", .type = type, .format = form };
    dt_field value = { (double)NAN };
    const dt_status s = dt_column_parse(ctx, &c, f->text, f->n, &value);
    *out = value.number;
    return s == DT_OK && !isnan(*out);
}

static void take_step(looking *k, double step)
{
    if (step > 0 && k->steps < STEPS) k->step[k->steps++] = step;
}

static void take_number(const dt__csv_reader *r, looking *k, const dt__csv_field *f)
{
    double v;
    const bool is_number = dt__csv_is_number(r, f, &v);
    k->out->numbers += is_number;
    k->numbers = k->numbers && is_number;
    if (!k->numbers) return;
    const bool first = k->words.n == 0;
    k->number_fell += !first && v < k->number;
    if (!first) take_step(k, v - k->number);
    k->out->is_integer = k->out->is_integer && v == floor(v);
    k->out->least = first ? v : fmin(v, k->out->least);
    k->out->most = first ? v : fmax(v, k->out->most);
    k->number = v;
}

static void take_time(dt_ctx *ctx, looking *k, const dt__csv_field *f)
{
    for (int i = 0; i < FORMS && !k->numbers; i++) {
        double v;
        if ((k->times >> i & 1) == 0) continue;
        if (!parses(ctx, DT_COLUMN_TIME, forms[i], f, &v)) {
            k->times &= ~(1U << i);
            k->steps = 0;
            continue;
        }
        k->fell[i] += v < k->before[i];
        if ((k->times & ((1U << i) - 1)) == 0 && isfinite(k->before[i])) {
            take_step(k, v - k->before[i]);
        }
        k->least[i] = fmin(v, k->least[i]);
        k->most[i] = fmax(v, k->most[i]);
        k->before[i] = v;
    }
}

static dt_status take(const dt__csv_reader *r, looking *k, const dt__csv_field *f)
{
    double v;
    const int64_t before = k->words.n, numbers = k->out->numbers;
    const bool counts = before < DT_LOOK_DIFFERENT;
    take_number(r, k, f);
    if (k->words.n == 0 && k->numbers) k->times = 0;
    if (k->times != 0) take_time(r->ctx, k, f);
    k->booleans = k->booleans && parses(r->ctx, DT_COLUMN_BOOLEAN, NULL, f, &v);
    const int64_t word = counts ? dt__words_add(r->ctx, &k->words, f->text, f->n)
                                : dt__words_find(&k->words, f->text, f->n);
    k->out->blocks += word != k->word || word < 0;
    k->word = word;
    if (counts && word < 0) return DT_ERR_NOMEM;
    if (k->words.n > before) {
        DT__TRY(DT__RESERVE(r->ctx, k->rows, before, k->room));
        k->rows[before] = 0;
        if (k->out->numbers == numbers && k->n_odd < DT_LOOK_ODD) k->odd[k->n_odd++] = word;
    }
    if (word >= 0 && k->rows[word] < DT_LOOK_FREQUENT) {
        k->out->frequent += ++k->rows[word] == DT_LOOK_FREQUENT;
    }
    return DT_OK;
}

static dt_status read_rows(dt__csv_reader *r, looking *column, int64_t *rows)
{
    static const dt_column none = { .name = "" };
    while (dt__csv_has_row(r)) {
        const char *at = r->at;
        const bool fits = dt__csv_count_fields(r, r->separator, &at) == r->n;
        if (!fits) { /* such rows are skipped or refused by the reader */
            r->at += at - r->at;
            r->line++;
            continue;
        }
        bool last = false;
        for (r->column = 0; !last && r->column < r->n; r->column++) {
            dt__csv_field f;
            looking *k = &column[r->column];
            DT__TRY(dt__csv_take_field(r, &f));
            dt__csv_trim(&f);
            if (!dt__is_utf8_of(f.text, f.n)) return dt__csv_refuse(r, &f, dt__csv_not_utf8);
            if (dt__column_is_missing(&none, f.text, f.n)) k->out->missing++;
            else DT__TRY(take(r, k, &f));
            last = dt__csv_is_last(r);
        }
        r->line++;
        ++*rows;
    }
    return r->status;
}

/* For a category that has numbers among its texts: lists the other texts. */
static dt_status keep_odd(dt_ctx *ctx, const looking *k, dt_table_look *out)
{
    const bool mixed = k->out->type == DT_COLUMN_CATEGORY && k->out->numbers > 0;
    for (int i = 0; mixed && i < k->n_odd; i++) {
        const char *word = k->words.word[k->odd[i]];
        k->out->odd[i] = dt__block_list_text(ctx, &out->memory, "%s", word);
        if (k->out->odd[i] == NULL) return DT_ERR_NOMEM;
    }
    return DT_OK;
}

/* Decides the type that fits all texts. */
static void decide(looking *k)
{
    dt_column_look *out = k->out;
    int form = 0;
    out->different = k->words.n;
    while (form < FORMS && (k->times >> form & 1) == 0) form++;
    if (out->different == 0) out->type = DT_COLUMN_IGNORE;
    else if (k->numbers) out->type = DT_COLUMN_NUMBER;
    else if (k->booleans) out->type = DT_COLUMN_BOOLEAN;
    else if (form < FORMS) out->type = DT_COLUMN_TIME;
    else out->type = DT_COLUMN_CATEGORY;
    out->is_integer = out->is_integer && k->numbers;
    out->rises = k->numbers && k->number_fell == 0;
    out->falls = k->number_fell;
    if (k->steps > 0) qsort(k->step, (size_t)k->steps, sizeof *k->step, dt__by_double);
    if (k->numbers || out->type == DT_COLUMN_TIME)
        out->step = k->steps == 0 ? 0 : k->step[k->steps / 2];
    if (out->step > 0) {
        out->spread = (k->step[k->steps - 1 - k->steps / 20] - k->step[k->steps / 20]) / out->step;
    }
    if (out->type != DT_COLUMN_TIME) return;
    out->format = forms[form];
    out->is_unsure = (k->times & ~(1U << form)) != 0;
    out->rises = k->fell[form] == 0;
    out->falls = k->fell[form];
    out->least = k->least[form];
    out->most = k->most[form];
}

static dt_status look(dt__csv_reader *r, dt_table_look *out)
{
    dt_ctx *ctx = r->ctx;
    if (!dt__csv_has_row(r)) return dt__csv_no_row(r);
    DT__TRY(dt__csv_read_names(r));
    const size_t n = (size_t)r->n;
    dt_column_look *columns = dt__block_list_add(ctx, &out->memory, n * sizeof *columns);
    looking *all = dt__alloc_zero(ctx, n * sizeof *all);
    dt_status s = columns == NULL || all == NULL ? DT_ERR_NOMEM : DT_OK;
    for (int64_t i = 0; s == DT_OK && i < r->n; i++) {
        char *name = dt__block_list_text(ctx, &out->memory, "%s", r->name[i]);
        if (name == NULL) s = DT_ERR_NOMEM;
        columns[i] = (dt_column_look){ .name = name, .is_integer = true };
        all[i] = (looking){ &columns[i], .numbers = true, .booleans = true,
                            .times = (1U << FORMS) - 1, .word = -1 };
        for (int k = 0; k < FORMS; k++) {
            all[i].before[k] = all[i].most[k] = -INFINITY;
            all[i].least[k] = INFINITY;
        }
    }
    if (s == DT_OK) s = read_rows(r, all, &out->rows);
    for (int64_t i = 0; all != NULL && columns != NULL && i < r->n; i++) {
        if (s == DT_OK) decide(&all[i]);
        if (s == DT_OK) s = keep_odd(ctx, &all[i], out);
        dt__words_free(ctx, &all[i].words);
        dt__release(ctx, all[i].rows);
    }
    dt__release(ctx, all);
    out->n = r->n;
    out->column = columns;
    return s;
}

dt_status dt__table_first(dt_ctx *ctx, const char *name, char **out, int64_t *files)
{
    dt__tensor_names all = { 0 };
    const dt_strings list = { 1, { name } };
    *files = 1;
    *out = NULL;
    const bool pattern = dt__database_length(name) == 0 && strpbrk(name, "*?") != NULL;
    dt_status s = pattern ? dt__tensor_names_add(ctx, "data.train", NULL, &list, &all) : DT_OK;
    if (s == DT_OK) {
        const char *first = pattern ? all.v[0].path : name;
        const size_t n = dt__join_length(first);
        *out = dt__format_string(ctx, "%.*s", (int)(n > 0 ? n : strlen(first)), first);
        if (*out == NULL) s = DT_ERR_NOMEM;
        if (pattern) *files = all.n;
    }
    dt__tensor_names_free(ctx, &all);
    return s;
}

dt_status dt_table_look_at(dt_ctx *ctx, const char *path, const dt_csv_options *options,
                           dt_table_look *out)
{
    DT__NEED4(ctx, ctx, path, options, out);
    char *first;
    dt__csv csv = { .ctx = ctx, .options = options }, *one = &csv;
    *out = (dt_table_look){ .n = 0 };
    DT__TRY(dt__table_first(ctx, path, &first, &out->files));
    dt__csv_reader r = { .c = &one, .n_c = 1, .ctx = ctx, .path = first };
    dt_status s = dt__csv_open(&r);
    if (s == DT_OK) s = look(&r, out);
    dt__csv_close_reader(&r);
    dt__csv_free(&csv);
    dt__release(ctx, first);
    if (s != DT_OK) dt_table_look_free(ctx, out);
    return s;
}

bool dt_is_table(const char *name)
{
    static const char *const endings[] = { ".csv", ".csv.gz", ".csv.zst" };
    if (name == NULL) return false;
    int i = 0;
    while (i < DT__COUNT_OF(endings) && !dt__ends_in(name, endings[i])) i++;
    return i < DT__COUNT_OF(endings) || dt__database_length(name) > 0;
}

void dt_table_look_free(dt_ctx *ctx, dt_table_look *look_at)
{
    if (ctx == NULL || look_at == NULL) return;
    dt__block_list_free(ctx, &look_at->memory);
    *look_at = (dt_table_look){ .n = 0 };
}
