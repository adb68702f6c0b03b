/* A table: the first byte says whether its first line names the columns, and what is predicted. */
#include "fuzz.h"

static void run(const uint8_t *data, size_t n)
{
    fuzz_bytes rest = { data, n };
    const unsigned how = fuzz_choice(&rest, 8);
    dt_ctx *ctx = fuzz_ctx(0);
    dt_data_options o = dt_data_defaults();
    dt_dataset *d = NULL, *validation = NULL, *test = NULL;
    static const int tasks[] = { DT_DATA_CLASSIFICATION, DT_DATA_REGRESSION, DT_DATA_MULTI_LABEL,
                                 DT_DATA_CLASSIFICATION };
    o.format = DT_DATA_TENSORS;
    o.task = tasks[how / 2];
    o.columns.header = how & 1;
    o.columns.target = (dt_strings){ 1, { o.columns.header ? "y" : "0" } };
    o.standardize = how / 2 == 3;
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
    fuzz_seed_text(s, "labels",
                   "\6"
                   "7,1,2\n2,3,4\n\n7,5,6\n");
}

const fuzz_target fuzz_target_csv = { "csv", "a table", run, seeds };
