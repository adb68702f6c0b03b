/* A table: the first byte says whether its first line names the columns, what is predicted, what
 * the columns hold, and the form of the file. */
#include "fuzz.h"

/* Rules for all columns, or a form of the file. */
static void set_form(dt_csv_options *o, unsigned form)
{
    static const dt_column_rule rules[] = {
        { .columns = { 1, { "*" } },
          .type = DT_COLUMN_CATEGORY,
          .most = 3,
          .missing = DT_MISSING_CODE },
        { .columns = { 1, { "*" } },
          .missing = DT_MISSING_MEDIAN,
          .indicator = true,
          .scale = DT_SCALE_QUANTILE },
        { .columns = { 1, { "*" } },
          .type = DT_COLUMN_TIME,
          .missing = DT_MISSING_LAST,
          .parts = { 2, { "hour", "of_year" } } },
        { .columns = { 1, { "*" } }, .type = DT_COLUMN_BOOLEAN, .missing = DT_MISSING_FREQUENT },
    };
    static const dt_list_item items[] = { { NULL, (void *)(uintptr_t)&rules[0] },
                                          { NULL, (void *)(uintptr_t)&rules[1] },
                                          { NULL, (void *)(uintptr_t)&rules[2] },
                                          { NULL, (void *)(uintptr_t)&rules[3] } };
    if (form >= 1 && form <= 4) {
        o->types = (dt_item_list){ 1, (dt_list_item *)(uintptr_t)&items[form - 1] };
    }
    if (form == 5) o->encoding = DT_CSV_LATIN1;
    if (form == 6) o->encoding = DT_CSV_UTF16BE;
    if (form == 7) o->comment = "#";
    o->rows = form >= 5 ? DT_CSV_ROWS_SKIP : DT_CSV_ROWS_REFUSE;
}

static void run(const uint8_t *data, size_t n)
{
    fuzz_bytes rest = { data, n };
    const unsigned choice = fuzz_choice(&rest, 64), how = choice % 8, form = choice / 8;
    dt_ctx *ctx = fuzz_ctx(DT_CPU_PLAIN);
    dt_data_options o = dt_data_defaults();
    dt_dataset *d = NULL, *validation = NULL, *test = NULL;
    static const int tasks[] = { DT_DATA_CLASSIFICATION, DT_DATA_REGRESSION, DT_DATA_MULTI_LABEL,
                                 DT_DATA_CLASSIFICATION };
    o.format = DT_DATA_TENSORS;
    o.task = tasks[how / 2];
    o.columns.header = how & 1;
    o.columns.target = (dt_strings){ 1, { o.columns.header ? "y" : "0" } };
    o.standardize = how / 2 == 3;
    set_form(&o.columns, form);
    o.train_tensors.given = true;
    o.train_tensors.x = (dt_strings){ 1, { fuzz_file("t.csv", rest.v, rest.n) } };
    if (dt_data_open(ctx, &o, &d, &validation, &test) == DT_OK) {
        fuzz_batches(d);
        fuzz_batches(validation);
        fuzz_batches(test);
    } else {
        fuzz_refused(ctx, d != NULL || validation != NULL || test != NULL);
    }
    fuzz_end(ctx);
}

static void seeds(const fuzz_seeds *s)
{
    fuzz_seed_text(s, "classes", "\1a, b ,y\r\n1,-2.5e3,cat\r\n.5,3,\"a \"\"dog\"\"\"\n4,5,cat\n");
    fuzz_seed_text(s, "values", "\3y,a\n1,2\n3,4\n5,6\n");
    fuzz_seed_text(s, "bits",
                   "\4"
                   "0,1.5,2\n1,3,4\n0,5,6\n");
    fuzz_seed_text(s, "words", "\13y;a;b\n1;x;\n3;?;z\n5;x;z\n");
    fuzz_seed_text(s, "holes", "\23y;a\n1;2,5\n3;\n5;1.006,25\n");
    fuzz_seed_text(s, "times", "\33y,a\n1,2024-01-01T10:00\n3,\n5,2024-02-29\n");
    fuzz_seed_text(s, "booleans", "\43y\ta\n1\tyes\n3\t\n5\tF\n");
    fuzz_seed_text(s, "ragged", "\73# c\ny|a\n1|2\n3|4|5\n6|7\n");
    fuzz_seed_text(s, "labels",
                   "\6"
                   "7,1,2\n2,3,4\n\n7,5,6\n");
}

const fuzz_target fuzz_target_csv = { "csv", "a table", run, seeds };
