/* Identifies the data of a run by numbers of examples and hashes of their content. They are stored
 * in checkpoints, so that a run is not resumed with other data under the same names: split, order,
 * means and deviations would be those of the new data, but weights those of the old. Test data do
 * not affect weights: if they differ, there is only a warning. */
#include "data/content_hash.h"
#include "io/model/model.h"
#include "io/safetensors/safetensors.h"
#include "train/run/run.h"

enum { EXAMPLES, TRAIN_HASH, VALIDATION_HASH, TEST_HASH, CONTENTS };

/* Positive, as all counters are. */
static int64_t hash_of(const dt_dataset *d)
{
    return d == NULL ? 0 : (int64_t)(dt__content_hash(d) >> 2) + 1;
}

static void compute(dt__run *r)
{
    if (r->data.content[TRAIN_HASH] != 0) return;
    r->data.content[EXAMPLES] = dt_dataset_count(r->data.train);
    r->data.content[TRAIN_HASH] = hash_of(r->data.train);
    r->data.content[VALIDATION_HASH] = hash_of(r->data.validation);
    r->data.content[TEST_HASH] = hash_of(r->data.test);
}

void dt__run_set_content(dt__run *r)
{
    compute(r);
    for (int i = 0; i < CONTENTS; i++)
        *dt__run_count(r, DT__COUNT_EXAMPLES + i) = r->data.content[i];
}

/* Other names of classes, targets or columns are other data, too. */
static dt_status check_names(const dt__run *r, const dt_file *checkpoint)
{
    const char *text = dt_file_meta(checkpoint, DT__KEY_DATA);
    dt_model_data was = { .target = NULL }, now = { .target = NULL };
    if (text == NULL || r->files.data == NULL) return DT_OK;
    dt_status s = dt_model_data_parse(r->ctx, text, checkpoint->path, &was);
    if (s == DT_OK) s = dt_model_data_parse(r->ctx, r->files.data, "the data", &now);
    if (s == DT_OK) {
        s = dt__compare_reading(r->ctx, checkpoint->path, &was, &now, DT__READ_TO_RESUME);
    }
    dt_model_data_free(r->ctx, &was);
    dt_model_data_free(r->ctx, &now);
    return s;
}

dt_status dt__run_check_content(dt__run *r, const dt_file *checkpoint)
{
    static const char go_on[] = "; restore the files, or begin a new run, which may take the "
                                "weights of this one by model.init";
    int64_t was[CONTENTS] = { 0 };
    for (int i = 0; i < CONTENTS; i++) {
        const char *name = dt__run_counter_name(DT__COUNT_EXAMPLES + i);
        DT__TRY(dt_checkpoint_count(checkpoint, name, &was[i]));
    }
    if (was[TRAIN_HASH] == 0) return DT_OK; /* an older checkpoint */
    compute(r);
    if (was[EXAMPLES] != r->data.content[EXAMPLES]) {
        return dt_fail(r->ctx, DT_ERR_FORMAT,
                       "%s: the training data have changed: it was trained on %lld %s, and now "
                       "there are %lld%s",
                       checkpoint->path, (long long)was[EXAMPLES],
                       dt__dataset_examples(r->data.train), (long long)r->data.content[EXAMPLES],
                       go_on);
    }
    if (was[TRAIN_HASH] != r->data.content[TRAIN_HASH]) {
        return dt_fail(r->ctx, DT_ERR_FORMAT,
                       "%s: the training data have changed: there are %lld %s as before, but with "
                       "other content, or in another order%s",
                       checkpoint->path, (long long)was[EXAMPLES],
                       dt__dataset_examples(r->data.train), go_on);
    }
    if (was[TEST_HASH] != 0 && was[TEST_HASH] != r->data.content[TEST_HASH]) {
        dt__say(r->ctx,
                "the test data have changed since this run began: what it said of them before is "
                "of the old ones");
    }
    if (was[VALIDATION_HASH] == r->data.content[VALIDATION_HASH]) {
        return check_names(r, checkpoint);
    }
    return dt_fail(r->ctx, DT_ERR_FORMAT,
                   "%s: the validation data have changed, with which the best evaluation is "
                   "found%s",
                   checkpoint->path, go_on);
}
