/* Runs: the files that they write, the rows of their tables, that the bits depend only on the
 * recipe, and failing allocations. */
#include "run_jobs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

START_TEST(a_run_writes_its_files)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job j = { .dir = job_path(folder, "deep/er/run"),
              .overrides = { "convert.output=out/m.safetensors" } };
    job_run(&j);
    ck_assert_int_eq(j.updates, 20);
    ck_assert_double_gt(j.summary.seconds, 0);
    ck_assert_double_gt(j.seconds_left, 0);
    ck_assert(j.summary.same_bits_as_qat);
    ck_assert_str_eq(j.summary.evaluated_on, "test");
    json_t *root = json_load_file(job_path(j.dir, "summary.json"), 0, NULL);
    ck_assert_ptr_nonnull(root);
    ck_assert_uint_eq(json_object_size(root), 5);
    ck_assert_str_eq(json_string_value(json_object_get(root, "evaluated_on")), "test");
    const char *const rows[] = { "float", "ptq", "qat", "converted" };
    const char *const keys[] = { "accuracy", "loss", "bytes", "bits_per_weight", "samples_per_s" };
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 5; k++) job_number(root, rows[i], keys[k]);
    }
    ck_assert(
        json_is_true(json_object_get(json_object_get(root, "converted"), "same_bits_as_qat")));
    ck_assert_double_eq(job_number(root, "qat", "loss"), job_number(root, "converted", "loss"));
    ck_assert_double_eq(job_number(root, "float", "bits_per_weight"), 32);
    json_decref(root);
    char *metrics = job_metrics(j.dir);
    int lines = 0;
    for (const char *c = metrics; *c != 0; c++) lines += *c == '\n';
    ck_assert_int_eq(lines, 9); /* 3, 6, ... 18, and 20; of layers 9 and 20 */
    ck_assert_ptr_nonnull(strstr(metrics, "\"phase\": \"float\""));
    ck_assert_ptr_nonnull(strstr(metrics, "\"phase\": \"qat\""));
    free(metrics);
    char checkpoints[TEST_PATH];
    test_join(checkpoints, j.dir, "checkpoints");
    ck_assert_int_eq(sample_entries(checkpoints), 2);
    ck_assert(test_file_exists(job_path(j.dir, job_last)));
    ck_assert_int_eq(sample_entries(j.dir), 13);
}
END_TEST

/* The bytes in the table are those of the files. */
START_TEST(bytes_are_those_of_the_files)
{
    char folder[TEST_PATH];
    test_folder(folder);
    const char *const presets[] = { "qat.preset=int8-dynamic-int4-weight",
                                    "qat.preset=int4-weight",
                                    "qat.preset=int8-dynamic-int8-weight",
                                    "qat.preset=int8-static-int8-weight",
                                    "qat.preset=int4-int4",
                                    "qat.preset=device-int8" };
    for (int i = 0; i < 12; i++) {
        const char *names[] = { "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l" };
        job j = { .dir = job_path(folder, names[i]),
                  .overrides = { presets[i % 6], "train.epochs=2",
                                 i < 6 ? NULL : "adapters={rank: 3}" } };
        job_run(&j);
        dt_ctx *ctx = sample_context(1);
        const char *const files[] = { "float.safetensors", "model.safetensors" };
        const dt_contender rows[] = { DT_RUN_FLOAT, DT_RUN_CONVERTED };
        for (int k = 0; k < 2; k++) {
            ck_assert_int_eq(job_bytes(ctx, job_path(j.dir, files[k])),
                             j.summary.result[rows[k]].bytes);
        }
        dt_ctx_free(ctx);
    }
}
END_TEST

/* Memory and written files are those of training adapters; the baseline has them too. */
START_TEST(adapters_alone_are_trained)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job j = { .dir = job_path(folder, "run"),
              .overrides = { "adapters={rank: 4, alpha: 8}", "train.float_baseline=true" } };
    job_run(&j);
    ck_assert_int_eq(j.updates, 40);
    const dt_run_summary *s = &j.summary;
    ck_assert_int_eq(s->parameters, 785 * 24 + 25 * 16 + 17 * 10);
    ck_assert_int_eq(s->trained, 4 * (784 + 24) + 4 * (24 + 16));
    ck_assert(s->same_bits_as_qat);
    json_t *root = json_load_file(job_path(j.dir, "summary.json"), 0, NULL);
    ck_assert_int_eq(json_integer_value(json_object_get(root, "trained_parameters")), s->trained);
    json_decref(root);
    dt_ctx *ctx = sample_context(1);
    dt_module *m;
    TEST_OK(ctx, dt_model_load(ctx, job_path(j.dir, "float.safetensors"), &m, NULL));
    ck_assert(dt_has_lora(m) && !dt_is_prepared(m));
    TEST_OK(ctx, dt_lora_merge(m));
    TEST_OK(ctx, dt_model_save(m, NULL, job_path(folder, "merged.safetensors")));
    dt_module_free(m);
    TEST_OK(ctx, dt_model_load(ctx, job_path(j.dir, "model.safetensors"), &m, NULL));
    ck_assert(!dt_has_lora(m) && dt_is_converted(m));
    dt_module_free(m);
    dt_ctx_free(ctx);
    char init[TEST_PATH + 32];
    snprintf(init, sizeof init, "model.init=%s", job_path(folder, "merged.safetensors"));
    job further = { .dir = job_path(folder, "further"),
                    .overrides = { init, "adapters={rank: 2}" } };
    job_run(&further);
}
END_TEST

START_TEST(invalid_adapters_are_refused)
{
    static const char *const wrong[][2] = {
        { "adapters={rank: 17}", "rank 17 is above the shorter side of layers.1" },
        { "adapters={match: [layers.0, tail]}", "'tail' selects no linear layer" },
        { "train.recompute=true", "made of blocks" },
    };
    char folder[TEST_PATH];
    test_folder(folder);
    for (int i = 0; i < 3; i++) {
        job j = { .dir = job_path(folder, "run"),
                  .overrides = { wrong[i][0] },
                  .wanted = DT_ERR_CONFIG,
                  .words = wrong[i][1] };
        job_run(&j);
        ck_assert(!test_file_exists(j.dir));
    }
}
END_TEST

/* Blocks of convolutions and batch norms, folded in the second half. */
START_TEST(recomputing_changes_no_bit)
{
    static const char net[] = "model={family: resnet, image: [1, 28, 28], depth: 8, widths: [4, 6, "
                              "8], outputs: 10}";
    char folder[TEST_PATH];
    test_folder(folder);
    for (int i = 0; i < 2; i++) {
        const char *const preset =
            i == 0 ? "qat.preset=int8-dynamic-int4-weight" : "qat.preset=int8-static-int8-weight";
        job kept = { .dir = job_path(folder, i == 0 ? "a" : "c"),
                     .overrides = { net, preset, "train.steps=12" } };
        job again = { .dir = job_path(folder, i == 0 ? "b" : "d"),
                      .overrides = { net, preset, "train.steps=12", "train.recompute=true" } };
        dt_ctx *ctx = job_counted = sample_context(2); /* which keeps plans of convolutions */
        TEST_OK(ctx, job_try(ctx, &kept));
        TEST_OK(ctx, job_try(ctx, &again));
        dt_ctx_free(ctx);
        job_same_files(kept.dir, again.dir, "float.safetensors");
        job_same_files(kept.dir, again.dir, "model.safetensors");
    }
}
END_TEST

START_TEST(a_baseline_is_a_row_of_the_table)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job plain = { .dir = job_path(folder, "plain") };
    job compared = { .dir = job_path(folder, "compared"),
                     .overrides = { "train.float_baseline=true" } };
    job longer = { .dir = job_path(folder, "longer"), .overrides = { "~qat" } };
    job_run(&plain);
    job_run(&compared);
    job_run(&longer);
    ck_assert_int_eq(compared.updates, 40);
    job_same_files(plain.dir, compared.dir, "model.safetensors");
    job_same_files(plain.dir, compared.dir, "float.safetensors");
    const dt_run_result *a = compared.summary.result, *b = longer.summary.result;
    ck_assert_double_eq(a[DT_RUN_FLOAT].metrics.loss, b[DT_RUN_FLOAT].metrics.loss);
    ck_assert_double_ne(a[DT_RUN_FLOAT].metrics.loss,
                        plain.summary.result[DT_RUN_FLOAT].metrics.loss);
    ck_assert_double_eq(a[DT_RUN_QAT].metrics.loss, plain.summary.result[DT_RUN_QAT].metrics.loss);
    ck_assert(b[DT_RUN_FLOAT].given && !b[DT_RUN_PTQ].given && !b[DT_RUN_CONVERTED].given);
    ck_assert(!test_file_exists(job_path(longer.dir, "model.safetensors")));
    ck_assert_int_eq(plain.summary.float_weights, DT_FLOAT_AT_START);
    ck_assert_int_eq(compared.summary.float_weights, DT_FLOAT_BASELINE);
    ck_assert_int_eq(longer.summary.float_weights, DT_FLOAT_TRAINED);
    ck_assert(!test_file_exists(job_path(plain.dir, "baseline.safetensors")));
    size_t n, m; /* the baseline's weights are kept: those of a run in float */
    char *x = test_read_file(job_path(compared.dir, "baseline.safetensors"), &n);
    char *y = test_read_file(job_path(longer.dir, "float.safetensors"), &m);
    ck_assert(n == m && memcmp(x, y, n) == 0);
    free(x);
    free(y);
}
END_TEST

/* Where QAT begins at once with given weights, the comparison is with these. */
START_TEST(weights_that_were_given_are_rows_of_the_table)
{
    char folder[TEST_PATH], init[TEST_PATH + 16];
    test_folder(folder);
    job given = { .dir = job_path(folder, "given"), .overrides = { "~qat" } };
    job_run(&given);
    snprintf(init, sizeof init, "model.init=%s", job_path(given.dir, "float.safetensors"));
    job tuned = { .dir = job_path(folder, "tuned"),
                  .overrides = { init, "qat.start_step=0", "train.steps=5" } };
    job_run(&tuned);
    const dt_run_result *a = given.summary.result, *b = tuned.summary.result;
    ck_assert_int_eq(tuned.summary.float_weights, DT_FLOAT_INIT);
    ck_assert(b[DT_RUN_FLOAT].given && b[DT_RUN_PTQ].given);
    ck_assert_double_eq(a[DT_RUN_FLOAT].metrics.loss, b[DT_RUN_FLOAT].metrics.loss);
    ck_assert_double_ne(b[DT_RUN_FLOAT].metrics.loss, b[DT_RUN_PTQ].metrics.loss);
    json_t *root = json_load_file(job_path(tuned.dir, "summary.json"), 0, NULL);
    const json_t *row = json_object_get(root, "ptq");
    ck_assert_str_eq(json_string_value(json_object_get(row, "weights")), "init");
    json_decref(root);
}
END_TEST

START_TEST(without_float_steps_there_is_no_float_row)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job j = { .dir = job_path(folder, "run"),
              .overrides = { "qat.start_step=0", "train.steps=5" } };
    job_run(&j);
    ck_assert_int_eq(j.updates, 5);
    ck_assert(!j.summary.result[DT_RUN_FLOAT].given && j.summary.result[DT_RUN_QAT].given);
    ck_assert(!test_file_exists(job_path(j.dir, "float.safetensors")));
    json_t *root = json_load_file(job_path(j.dir, "summary.json"), 0, NULL);
    ck_assert(json_is_null(json_object_get(root, "float")));
    ck_assert(json_is_null(json_object_get(root, "ptq")));
    json_decref(root);
}
END_TEST

/* A start beyond the end never prepares: 20 updates give the bits of a recipe without qat. */
START_TEST(disabled_qat_trains_as_float_does)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job with = { .dir = job_path(folder, "with"), .overrides = { "qat.start_step=1000" } };
    job without = { .dir = job_path(folder, "without"), .overrides = { "~qat" } };
    job_run(&with);
    job_run(&without);
    job_same_files(with.dir, without.dir, "float.safetensors");
    ck_assert(with.summary.same_bits_as_qat);
    ck_assert_double_eq(with.summary.result[DT_RUN_PTQ].metrics.loss,
                        with.summary.result[DT_RUN_CONVERTED].metrics.loss);
}
END_TEST

START_TEST(validation_is_reported_every_epoch)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job j = { .dir = job_path(folder, "run"), .overrides = { "data.validation=0.2" } };
    job_run(&j);
    char *metrics = job_metrics(j.dir);
    int found = 0;
    for (const char *c = metrics; (c = strstr(c, "validation_accuracy")) != NULL; c++) found++;
    ck_assert_int_eq(found, 4);
    free(metrics);
}
END_TEST

/* Numbers called `key` in the lines of metrics.jsonl; returns their count. */
static int numbers_of(const char *dir, const char *key, double *out, int most)
{
    char words[40], *metrics = job_metrics(dir);
    int n = 0;
    snprintf(words, sizeof words, "\"%s\":", key);
    for (const char *at = metrics; (at = strstr(at, words)) != NULL && n < most; n++) {
        at += strlen(words);
        out[n] = strtod(at, NULL);
    }
    free(metrics);
    return n;
}

/* `clipped` is the share of the line's updates whose norm is beyond the limit. A line for each
 * update tells the norms, on which a limit between them is chosen; limits do not change the first
 * norm, and lines for several updates change nothing. */
START_TEST(clipped_updates_are_counted)
{
    char folder[TEST_PATH], limit[60];
    double norm[24], each[24], share[24], least = INFINITY, most = 0;
    test_folder(folder);
    job free_run = { .dir = job_path(folder, "free"),
                     .overrides = { "~qat", "train.log.every_steps=1",
                                    "train.clip_grad_norm=1e9" } };
    job_run(&free_run);
    const int n = numbers_of(free_run.dir, "grad_norm", norm, 24);
    ck_assert_int_eq(n, 20);
    ck_assert_int_eq(numbers_of(free_run.dir, "clipped", each, 24), n);
    for (int i = 0; i < n; i++) {
        ck_assert_double_eq(each[i], 0);
        least = fmin(least, norm[i]);
        most = fmax(most, norm[i]);
    }
    const double between = sqrt(least * most);
    snprintf(limit, sizeof limit, "train.clip_grad_norm=%.17g", between);
    job single = { .dir = job_path(folder, "single"),
                   .overrides = { "~qat", "train.log.every_steps=1", limit } };
    job several = { .dir = job_path(folder, "several"),
                    .overrides = { "~qat", "train.log.every_steps=4", limit } };
    job_run(&single);
    job_run(&several);
    ck_assert_int_eq(numbers_of(single.dir, "grad_norm", norm, 24), n);
    ck_assert_int_eq(numbers_of(single.dir, "clipped", each, 24), n);
    ck_assert_int_eq(numbers_of(several.dir, "clipped", share, 24), n / 4);
    double clipped = 0;
    for (int i = 0; i < n; i++) {
        ck_assert_msg(each[i] == (norm[i] + 1e-6 > between), "update %d: %g of a norm of %g", i,
                      each[i], norm[i]);
        clipped += each[i];
        if (i % 4 < 3) continue;
        ck_assert_double_eq(share[i / 4], (each[i - 3] + each[i - 2] + each[i - 1] + each[i]) / 4);
    }
    ck_assert(clipped > 0 && clipped < n);
}
END_TEST

/* A share of the updates, rounded, at least one, has the bits of as many updates. */
START_TEST(a_share_of_the_updates_is_in_float)
{
    static const struct {
        const char *share, *step;
        int64_t start;
    } starts[] = {
        { "qat.start_share=0.29", "qat.start_step=6", 6 },
        { "qat.start_share=0.001", "qat.start_step=1", 1 },
    };
    char folder[TEST_PATH];
    test_folder(folder);
    for (int i = 0; i < 2; i++) {
        job share = { .dir = job_path(folder, i == 0 ? "share" : "least"),
                      .overrides = { "~qat.start_step", starts[i].share } };
        job step = { .dir = job_path(folder, i == 0 ? "step" : "one"),
                     .overrides = { starts[i].step } };
        job_run(&share);
        job_run(&step);
        ck_assert_int_eq(share.summary.start_step, starts[i].start);
        ck_assert_int_eq(step.summary.start_step, starts[i].start);
        job_same_files(share.dir, step.dir, "float.safetensors");
        job_same_runs(share.dir, step.dir);
        ck_assert_double_eq(share.summary.result[DT_RUN_CONVERTED].metrics.loss,
                            step.summary.result[DT_RUN_CONVERTED].metrics.loss);
    }
}
END_TEST

/* qat.rate is reached after a tenth of the updates behind start_step, in equal steps from 1; rates
 * of groups are factors on it. */
START_TEST(the_rate_of_qat_is_a_factor)
{
    static const double rates[] = { 6, 0.25 };
    char folder[TEST_PATH];
    test_folder(folder);
    for (int i = 0; i < 2; i++) {
        char rate[40];
        double lr[64];
        snprintf(rate, sizeof rate, "qat.rate=%g", rates[i]);
        job j = { .dir = job_path(folder, i == 0 ? "more" : "less"),
                  .overrides = { "train.log.every_steps=1", "train.steps=60", "qat.start_step=20",
                                 "train.schedule={name: constant}", "train.optimizer.lr=1e-3",
                                 rate } };
        job_run(&j);
        ck_assert_int_eq(numbers_of(j.dir, "lr", lr, 64), 60);
        for (int u = 0; u < 60; u++) {
            const double share = u < 20 ? 0 : fmin(1, (u - 20) / 3.9);
            TEST_NEAR(lr[u], 1e-3 * (1 + (rates[i] - 1) * share), 1e-12, 1e-9);
        }
    }
}
END_TEST

/* Frozen parameters keep their first bits. */
START_TEST(frozen_parameters_do_not_change)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job none = { .dir = job_path(folder, "none"), .overrides = { "~qat", "train.epochs=1" } };
    none.overrides[2] = "train.optimizer.groups=[{match: '*', frozen: true}, {match: "
                        "'head.bias', rate: 2}]";
    job some = { .dir = job_path(folder, "some"), .overrides = { "~qat" } };
    some.overrides[1] = "train.optimizer.groups=[{match: 'layers.*', frozen: true}]";
    job_run(&none);
    job_run(&some);
    ck_assert_int_eq(none.summary.trained, 10);
    ck_assert_int_eq(some.summary.trained, 17 * 10);
    dt_ctx *ctx = sample_context(1);
    dt_file *a, *b;
    TEST_OK(ctx, dt_file_open(ctx, job_path(none.dir, "float.safetensors"), &a));
    TEST_OK(ctx, dt_file_open(ctx, job_path(some.dir, "float.safetensors"), &b));
    for (int64_t i = 0; i < dt_file_count(a); i++) {
        const dt_file_entry *x = dt_file_at(a, i), *y = dt_file_find(b, x->name);
        const bool frozen = strncmp(x->name, "layers.", 7) == 0;
        ck_assert_msg((memcmp(x->data, y->data, x->bytes) == 0) == frozen, "%s", x->name);
    }
    dt_file_close(a);
    dt_file_close(b);
    dt_ctx_free(ctx);
}
END_TEST

/* One of so many starts is tried with each schedule, since a dry run also measures a large
 * product. */
static const test_draws start_steps = { .usual = 1, .quick = 4, .sanitized = 4 };

/* Whatever depends on the updates after the start of QAT is the same in a dry run as in the run. */
START_TEST(a_dry_run_begins_qat_where_the_run_does)
{
    static const char *const starts[] = { "qat.start_step=0", "qat.start_step=8",
                                          "qat.start_step=19", "qat.start_step=1000" };
    static const char *const schedules[] = {
        "{name: constant}",       "{name: cosine}",
        "{name: linear}",         "{name: polynomial, power: 2}",
        "{name: one_cycle}",      "{name: warmup_stable_decay, decay_steps: 6}",
        "{name: step, every: 3}", "{name: cosine_restarts, every: 3}",
    };
    char folder[TEST_PATH];
    test_folder(folder);
    for (int i = 0; i < 32; i++) {
        char schedule[80];
        if ((i + i / 4) % test_count(start_steps) != 0) continue;
        snprintf(schedule, sizeof schedule, "train.schedule=%s", schedules[i / 4]);
        job j = { .dir = job_path(folder, "run"),
                  .dry_run = true,
                  .overrides = { starts[i % 4], schedule, "qat.rate=6", "qat.damping=1e-3",
                                 "qat.freeze=0.05", "qat.layer_steps=1", "qat.estimator=dsq",
                                 "qat.estimator_end=6", "qat.weight={bits: 2, range: static}",
                                 "model.sizes=[784, 8, 8, 10]", "data.test_count=10" } };
        if (i % 4 > 1) j.overrides[5] = "qat.layer_steps=0";
        job_run(&j);
    }
}
END_TEST

START_TEST(a_dry_run_writes_nothing)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job j = { .dir = job_path(folder, "run"), .dry_run = true };
    job_run(&j);
    ck_assert_int_eq(sample_entries(folder), 0);
    ck_assert_int_eq(j.summary.parameters, 784 * 24 + 24 + 24 * 16 + 16 + 16 * 10 + 10);
    ck_assert_int_eq(j.summary.multiply_adds, 784 * 24 + 24 * 16 + 16 * 10);
    ck_assert_int_eq(j.summary.float_bytes, 4 * j.summary.parameters);
    ck_assert_int_lt(j.summary.quantized_bytes, j.summary.float_bytes / 5);
    ck_assert_uint_gt(j.summary.activation_bytes[0], 0);
    ck_assert_uint_gt(j.summary.activation_bytes[1], 0);
    for (int phase = 0; phase < 2; phase++) {
        const dt_step_part *part = j.summary.step_part[phase];
        double sum = 0;
        ck_assert_ptr_nonnull(part[0].op);
        for (int i = 0; i < DT_STEP_PARTS && part[i].op != NULL; i++) {
            ck_assert_double_gt(part[i].share, 0);
            if (i > 0) ck_assert_double_le(part[i].share, part[i - 1].share);
            sum += part[i].share;
        }
        ck_assert_double_le(sum, 1);
        ck_assert_double_gt(j.summary.step_speed[phase], 0);
    }
    ck_assert_double_gt(j.summary.product_speed, 0);
}
END_TEST

/* ---- bits ----------------------------------------------------------------------------------- */

START_TEST(threads_change_no_bit)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job one = { .dir = job_path(folder, "1"), .threads = 1 },
        three = { .dir = job_path(folder, "3") };
    three.overrides[0] = "run.threads=3";
    job_run(&one);
    job_run(&three);
    job_same_runs(one.dir, three.dir);
}
END_TEST

START_TEST(the_seed_changes_them)
{
    char folder[TEST_PATH];
    size_t n, m;
    test_folder(folder);
    job a = { .dir = job_path(folder, "a") };
    job b = { .dir = job_path(folder, "b"), .overrides = { "run.seed=4" } };
    job_run(&a);
    job_run(&b);
    char *x = test_read_file(job_path(a.dir, "float.safetensors"), &n);
    char *y = test_read_file(job_path(b.dir, "float.safetensors"), &m);
    ck_assert(n == m && memcmp(x, y, n) != 0);
    free(x);
    free(y);
}
END_TEST

/* Gradients of two halves, weighed by their labels, are those of the whole: the same training but
 * for the rounding of sums. 150 images make a short last batch. */
START_TEST(accumulation_is_the_whole_batch)
{
    char folder[TEST_PATH];
    test_folder(folder);
    job whole = { .dir = job_path(folder, "whole"), .overrides = { "~qat", "model.dropout=0" } };
    job halves = { .dir = job_path(folder, "halves"),
                   .overrides = { "~qat", "model.dropout=0", "train.batch_size=16",
                                  "train.accumulate=2" } };
    job_run(&whole);
    job_run(&halves);
    ck_assert_int_eq(whole.updates, halves.updates);
    TEST_NEAR(whole.summary.result[DT_RUN_FLOAT].metrics.loss,
              halves.summary.result[DT_RUN_FLOAT].metrics.loss, 1e-4, 1e-4);
}
END_TEST

/* From the second update of a phase on, updates call the allocator only where a shape is new: the
 * short last batch, once. */
START_TEST(updates_allocate_nothing)
{
    char folder[TEST_PATH];
    const char *const presets[] = { "qat.preset=int8-dynamic-int4-weight",
                                    "qat.preset=int8-static-int8-weight", "qat.preset=int4-int4",
                                    "qat.preset=device-int8" };
    test_folder(folder);
    job j = { .dir = job_path(folder, "run"),
              .overrides = { "train.log.every_steps=100", "train.checkpoint.every_steps=0",
                             "qat.start_step=10", presets[_i] } };
    job_run(&j);
    ck_assert_int_eq(j.updates, 20);
    for (int phase = 0; phase < 2; phase++) {
        int calls = 0;
        for (int i = 10 * phase + 1; i < 10 * phase + (phase == 0 ? 10 : 9); i++) {
            if (j.allocations[i] == j.allocations[i - 1]) continue;
            ck_assert_msg(i == 10 * phase + 4, "update %d allocates", i + 1);
            calls++;
        }
        ck_assert_int_le(calls, 1);
    }
}
END_TEST

/* ---- memory --------------------------------------------------------------------------------- */

/* Other models, data and settings, in place of those of the first. */
#define SCARCE                                                                                     \
    "train.batch_size=4", "train.epochs=1", "qat.start_step=1", "train.schedule.warmup_steps=0",   \
        "train.clip_grad_norm=0.5"
#define FEW "data={format: digits, train_count: 8, test_count: 3}"

static const char *const scarce_runs[][JOB_OVERRIDES] = {
    { "data.train_count=8", "data.test_count=3", "model.sizes=[784, 8, 10]", "train.batch_size=4",
      "train.epochs=1", "qat.start_step=1", "train.float_baseline=true", "data.validation=0.2",
      "train.average={name: ema}", "data.augment={mixup: 1}", "train.distill={weight: 0.5}" },
    /* from here on with DETENT_FAILURES=all alone */
    { SCARCE, FEW, "model={family: mlp, sizes: [784, 8, 10], norm: batch}", "train.shards=2",
      "cluster.sync_norm=true",
      "qat={preset: int8-static-int8-weight, activation: {observer: percentile}}" },
    { SCARCE, FEW, "model={family: mlp, sizes: [784, 8, 8, 10]}", "train.backward=int8-all",
      "train.accumulate=2", "run.report=true" },
    { SCARCE, FEW, "model={family: mlp, sizes: [784, 8, 10]}", "adapters={rank: 2}",
      "qat={preset: int4-int4, weight: {range: learned}}", "train.nonfinite=skip",
      "convert={rounder: gptq, calibration: {samples: 4}}" },
    { SCARCE, FEW, "model={family: mlp, sizes: [784, 8, 10]}",
      "qat={preset: device-int8, activation: {range: learned}}" },
    { SCARCE,
      "data={format: sensors, task: anomaly, train_count: 8, test_count: 4, standardize: "
      "true, validation: 0.2}",
      "model={family: layers, input: [128, 6], layers: [flatten, {linear: e, out: 4}, {linear: d, "
      "out: 768}, {reshape: copy, shape: [128, 6]}]}" },
    { SCARCE,
      "data={format: table, task: regression, train_count: 8, test_count: 4, standardize: true}",
      "model={family: mlp, sizes: [12, 4, 2]}", "train.loss=huber" },
    { SCARCE,
      "data={format: digits, task: denoising, train_count: 8, test_count: 3, validation: 0.3}",
      "model={family: unet, image: [1, 28, 28], widths: [4, 6], norm: none, outputs: 1}",
      "train.finish_with=best", "train.evaluate.every_steps=1" },
    { SCARCE, "data={format: adder, train_count: 8, test_count: 4, validation: 0.3}",
      "model={family: llama, vocab: 12, context: 11, layers: 1, heads: 2, width: 16, hidden: 16, "
      "moe: {experts: 2, top_k: 1}}",
      "train.shards=2", "train.spikes={policy: skip, deviations: 1, window: 2}" },
};

typedef struct scarce {
    char folder[TEST_PATH];
    int runs;
    const char *const *overrides;
} scarce;

static dt_status scarce_run(dt_ctx *ctx, void *user)
{
    scarce *s = user;
    char dir[TEST_PATH + 32];
    snprintf(dir, sizeof dir, "%s/%d", s->folder, s->runs++);
    job j = { .dir = dir };
    memcpy(j.overrides, s->overrides, sizeof j.overrides);
    job_counted = ctx;
    return job_try(ctx, &j);
}

START_TEST(every_allocation_may_fail)
{
    scarce s = { .overrides = scarce_runs[_i] };
    test_folder(s.folder);
    if (_i > 0) test_new_sites(scarce_run, &s);
    else printf("run: %d allocations failed in turn\n", (int)test_every_allocation(scarce_run, &s));
}
END_TEST

Suite *test_run_suite(void)
{
    Suite *suite = suite_create("run");
    TCase *all = tcase_create("run");
    tcase_set_timeout(all, 300);
    tcase_add_test(all, a_run_writes_its_files);
    tcase_add_test(all, bytes_are_those_of_the_files);
    tcase_add_test(all, adapters_alone_are_trained);
    tcase_add_test(all, invalid_adapters_are_refused);
    tcase_add_test(all, recomputing_changes_no_bit);
    tcase_add_test(all, a_baseline_is_a_row_of_the_table);
    tcase_add_test(all, weights_that_were_given_are_rows_of_the_table);
    tcase_add_test(all, without_float_steps_there_is_no_float_row);
    tcase_add_test(all, disabled_qat_trains_as_float_does);
    tcase_add_test(all, validation_is_reported_every_epoch);
    tcase_add_test(all, clipped_updates_are_counted);
    tcase_add_test(all, a_share_of_the_updates_is_in_float);
    tcase_add_test(all, the_rate_of_qat_is_a_factor);
    tcase_add_test(all, frozen_parameters_do_not_change);
    tcase_add_test(all, a_dry_run_begins_qat_where_the_run_does);
    tcase_add_test(all, a_dry_run_writes_nothing);
    tcase_add_test(all, threads_change_no_bit);
    tcase_add_test(all, the_seed_changes_them);
    tcase_add_test(all, accumulation_is_the_whole_batch);
    tcase_add_loop_test(all, updates_allocate_nothing, 0, 4);
    tcase_add_loop_test(all, every_allocation_may_fail, 0,
                        (int)(sizeof scarce_runs / sizeof scarce_runs[0]));
    suite_add_tcase(suite, all);
    return suite;
}
