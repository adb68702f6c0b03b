/* Reports: what they show of a run, that names and texts from outside cannot become markup, and
 * that they handle damaged and unfinished runs, and other folders. */
#include "testing.h"

#include "core/text/base64.h"
#include "core/text/byte_order.h"
#include "data/images/png.h"
#include "report/page_run.h"
#include "report/page_text.h"
#include "train/run/mirror.h"

#include <detent/experimental/report.h>
#include <detent/train.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static dt_ctx *ctx;
static char folder[TEST_PATH], run[TEST_PATH];

static void setup(void)
{
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    test_folder(folder);
    test_join(run, folder, "run");
}

static void teardown(void) { dt_ctx_free(ctx); }

static void save(const char *name, const char *text)
{
    char path[TEST_PATH];
    mkdir(run, 0777);
    test_join(path, run, name);
    test_write_text(path, text);
}

static char *page_of(const char *dir)
{
    char path[TEST_PATH];
    TEST_OK(ctx, dt_report_write(ctx, &dir, 1, NULL));
    test_join(path, dir, "report.html");
    return test_read_file(path, NULL);
}

static void check_has(const char *page, const char *text)
{
    ck_assert_msg(strstr(page, text) != NULL, "the page lacks \"%s\"", text);
}

static void check_lacks(const char *page, const char *text)
{
    ck_assert_msg(strstr(page, text) == NULL, "the page has \"%s\"", text);
}

/* ---- a run's own files ----------------------------------------------------------------------- */

static const char small[] =
    "run: {dir: unset, seed: 3}\n"
    "model: {family: mlp, sizes: [784, 24, 10]}\n"
    "data: {format: digits, train_count: 160, test_count: 70, validation: 0.1}\n"
    "train: {epochs: 6, batch_size: 32, log: {every_steps: 3}}\n"
    "qat: {preset: int8-dynamic-int4-weight, start_step: 10}\n";

static dt_status train(const char *more)
{
    char dir[TEST_PATH + 16];
    const char *overrides[] = { dir, more };
    dt_recipe *recipe = NULL;
    snprintf(dir, sizeof dir, "run.dir=%s", run);
    const dt_recipe_source source = { .path = "small.yaml",
                                      .text = small,
                                      .bytes = strlen(small),
                                      .overrides = overrides,
                                      .n_overrides = more == NULL ? 1 : 2 };
    dt_status s = dt_recipe_read(ctx, &source, &recipe);
    if (s == DT_OK) s = dt_run(ctx, recipe, NULL, NULL);
    dt_recipe_free(recipe);
    return s;
}

static char *run_file(const char *name)
{
    char path[TEST_PATH];
    test_join(path, run, name);
    return test_read_file(path, NULL);
}

static bool exists(const char *name)
{
    char path[TEST_PATH];
    test_join(path, run, name);
    return test_file_exists(path);
}

START_TEST(a_run_ends_with_its_report)
{
    static const char *const parts[] = { "id=\"curves\"",       "id=\"layers\"",
                                         "id=\"sensitivity\"",  "id=\"histograms\"",
                                         "id=\"examples\"",     "id=\"confusion\"",
                                         "id=\"recipe\"",       "times smaller than float",
                                         "prefers-color-scheme" };
    TEST_OK(ctx, train(NULL));
    char *page = run_file("report.html");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) check_has(page, parts[i]);
    check_has(page, "<code>layers.0</code>");
    check_has(page, "Learning rate over updates");
    check_has(page, "data:image/png;base64,iVBORw0KGgo"); /* the worst mistakes */
    check_has(page, "Learning rate");
    check_lacks(page, "http://"); /* no network */
    check_lacks(page, "https://");
    check_lacks(page, "nan");
    check_has(page, "<p><span>−8</span><span>codes</span><span>7</span></p>");
    free(page);
    char *lines = run_file("metrics.jsonl"); /* of images */
    check_has(lines, "\"samples_per_s\": ");
    check_lacks(lines, "tokens_per_s");
    free(lines);
}
END_TEST

/* Bars of the last update, and a line of the first, also where all weights have one code. */
START_TEST(a_histogram_of_one_bar)
{
    static const char layers[] = "{\"layers\": [{\"path\": \"a\", \"weight\": {\"bits\": 4, "
                                 "\"bins\": [4], \"codes\": [4]}}]}";
    save("recipe.yaml", "run:\n  dir: x\n");
    save("layers-begin.json", layers);
    save("layers-end.json", layers);
    char *page = page_of(run);
    check_has(page, "<path class=\"bars\" d=\"M0 56V0H167V56Z\"/>"
                    "<path class=\"steps\" d=\"M0 56V0H168V56\"/>");
    free(page);
}
END_TEST

START_TEST(codes_of_8_bits_have_a_scale)
{
    TEST_OK(ctx, train("qat.preset=int8-dynamic-int8-weight"));
    char *page = run_file("report.html");
    check_has(page, "<p><span>−128</span><span>codes</span><span>127</span></p>");
    free(page);
}
END_TEST

START_TEST(report_false_writes_none_of_it)
{
    TEST_OK(ctx, train("run.report=false"));
    ck_assert(exists("summary.json"));
    ck_assert(!exists("report.html"));
    ck_assert(!exists("layers-begin.json"));
    ck_assert(!exists("layers-end.json"));
    ck_assert(!exists("sensitivity.json"));
    ck_assert(!exists("examples.json"));
    ck_assert(!exists("machine.json"));
    char *page = page_of(run);
    check_has(page, "examples were not written when this run ended");
    check_has(page, "class=\"results\"");
    check_lacks(page, "id=\"layers\"");
    free(page);
}
END_TEST

static int64_t count_lines(const char *text, const char *word)
{
    int64_t n = 0;
    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word)) n++;
    return n;
}

/* 30 updates, QAT from 10 on: figures after updates 11, 15, 20, 25 and 30. */
START_TEST(figures_of_layers_come_at_their_interval)
{
    TEST_OK(ctx, train("train.log.layers_every_steps=5"));
    char *metrics = run_file("metrics.jsonl");
    ck_assert_int_eq(count_lines(metrics, "\"layers\": [{\"path\": \"layers.0\""), 5);
    check_has(metrics, "\"step\": 11, ");
    dt__page_run r;
    TEST_OK(ctx, dt__page_run_open(ctx, run, &r));
    const dt__series *s = dt__page_series(&r, "weight.snr", "layers.0", DT__PAGE_QAT);
    ck_assert_ptr_nonnull(s);
    ck_assert_int_eq(s->n, 5);
    ck_assert(s->y[0] > 10 && s->y[0] < 60);
    TEST_NEAR(dt__page_qat_step(&r), 10, 0, 0);
    dt__page_run_close(&r);
    free(metrics);
}
END_TEST

START_TEST(no_figures_of_layers_with_0)
{
    TEST_OK(ctx, train("train.log.layers_every_steps=0"));
    char *metrics = run_file("metrics.jsonl");
    ck_assert_int_eq(count_lines(metrics, "\"layers\""), 0);
    free(metrics);
}
END_TEST

/* The loss of sensitivity.json is that of the model, and the model is as it was afterwards:
 * converting found the same bits, else the run had failed. */
START_TEST(sensitivity_is_of_the_whole_model)
{
    TEST_OK(ctx, train(NULL));
    dt__page_run r;
    TEST_OK(ctx, dt__page_run_open(ctx, run, &r));
    const dt__branch *root = r.sensitivity.root;
    const double examples = dt__field_number(root, "examples");
    ck_assert(examples >= 16 && examples <= 70);
    ck_assert(isfinite(dt__field_number(root, "loss")));
    const dt__branch *layers = dt__field(root, "layers");
    ck_assert_int_eq(layers->n, 2);
    ck_assert_str_eq(dt__field_text(layers->first, "path"), "layers.0");
    TEST_NEAR(dt__field_number(layers->first, "bits"), 4, 0, 0);
    ck_assert(isfinite(dt__field_number(layers->first, "gain")));
    ck_assert(dt__field_number(layers->first, "gain") != 0);
    dt__page_run_close(&r);
}
END_TEST

/* Of the layers below 8 bits the most expensive, at most three, and of each the part that costs
 * more: weight or input. */
START_TEST(suggestions_are_the_dearest_layers)
{
    static const char layer[] = "%s{\"path\": \"%s\", \"bits\": %d, \"input_bits\": 8, "
                                "\"elements\": 4, \"gain\": %d, \"weight_gain\": %d}";
    char text[2048];
    int n = snprintf(text, sizeof text,
                     "{\"evaluated_on\": \"test\", \"examples\": 2, \"loss\": 1, \"layers\": [");
    n += snprintf(text + n, sizeof text - (size_t)n, layer, "", "first", 4, 1, 1);
    n += snprintf(text + n, sizeof text - (size_t)n, layer, ", ", "whole", 8, 9, 9);
    n += snprintf(text + n, sizeof text - (size_t)n, layer, ", ", "last", 4, 2, 2);
    snprintf(text + n, sizeof text - (size_t)n, "]}");
    save("recipe.yaml", "run:\n  dir: x\n");
    save("sensitivity.json", text);
    char *page = page_of(run);
    const char *last = strstr(page, "{match: &quot;last&quot;, weight: {bits: 8}}");
    const char *first = strstr(page, "{match: &quot;first&quot;, weight: {bits: 8}}");
    ck_assert(last != NULL && first != NULL && last < first);
    check_lacks(page, "{match: &quot;whole&quot;");
    free(page);
}
END_TEST

/* ---- hostile texts --------------------------------------------------------------------------- */

#define EVIL "<script>alert(1)</script>"
#define EVIL_JSON "<script>alert(1)</script>\\\" onload=\\\"x\\\" &amp;'"

START_TEST(texts_from_outside_are_no_markup)
{
    test_join(run, folder, "<img src=x onerror=alert(1)>");
    save("recipe.yaml", "model:\n  family: " EVIL "  # x\nqat:\n  preset: \"'>" EVIL "\n");
    save("metrics.jsonl", "{\"step\": 1, \"phase\": \"" EVIL_JSON "\", \"loss\": 2}\n"
                          "{\"step\": 2, \"phase\": \"qat\", \"loss\": 1, \"layers\": [{\"path\": "
                          "\"" EVIL_JSON "\", \"weight\": {\"snr\": 2}}]}\n"
                          "{\"step\": 3, \"phase\": \"qat\", \"loss\": 1, \"layers\": [{\"path\": "
                          "\"" EVIL_JSON "\", \"weight\": {\"snr\": 3}}]}\n");
    save("summary.json", "{\"float\": {\"" EVIL_JSON "\": 1, \"bytes\": 10},\n"
                         " \"converted\": {\"" EVIL_JSON "\": 1, \"bytes\": 5}}");
    save("machine.json", "{\"version\": \"" EVIL_JSON "\", \"processor\": \"" EVIL_JSON "\"}");
    save("confusion.json", "{\"evaluated_on\": \"" EVIL_JSON "\", \"classes\": [\"" EVIL_JSON
                           "\", \"b\"], \"matrix\": [[1, 2], [3, 4]]}");
    save("layers-end.json",
         "{\"step\": 3, \"examples\": 2, \"layers\": [{\"path\": \"" EVIL_JSON
         "\", \"type\": \"" EVIL_JSON "\", \"weight\": {\"bits\": 4, \"scheme\": \"" EVIL_JSON
         "\", \"codes\": [1, 2], \"bins\": [1, 2]}}]}");
    save("sensitivity.json", "{\"evaluated_on\": \"" EVIL_JSON
                             "\", \"examples\": 2, \"loss\": 1, \"layers\": [{\"path\": "
                             "\"" EVIL_JSON "\", \"bits\": 4, \"input_bits\": 8, \"elements\": 4, "
                             "\"gain\": 1, \"weight_gain\": 1}]}");
    save("examples.json", "{\"kind\": \"classes\", \"examples\": 2, \"mistakes\": 1, \"worst\": ["
                          "{\"label\": \"" EVIL_JSON "\", \"found\": \"" EVIL_JSON
                          "\", \"picture\": {\"width\": 1, \"height\": 1, \"channels\": 1, "
                          "\"bytes\": \"AA==\"}}]}");
    char *page = page_of(run);
    check_lacks(page, "<script>alert");
    check_lacks(page, "<img src=x");
    check_lacks(page, "\" onload=\"");
    check_has(page, "&lt;script&gt;alert(1)&lt;/script&gt;&quot; onload=");
    check_has(page, "&lt;img src=x onerror=alert(1)&gt;");
    ck_assert_int_eq(count_lines(page, "<script>"), 1); /* our own */
    free(page);
}
END_TEST

/* Neither recall of a class without examples nor precision of one that was never found is 0. */
START_TEST(shares_of_nothing_are_dashes)
{
    save("recipe.yaml", "run:\n  dir: x\n");
    save("confusion.json", "{\"evaluated_on\": \"test\", \"classes\": [0, 1], "
                           "\"matrix\": [[0, 0], [4, 0]]}");
    char *page = page_of(run);
    check_has(page, "<td>–</td><td>0.0 %</td></tr>");
    check_has(page, "<td>0.0 %</td><td>–</td></tr>");
    free(page);
}
END_TEST

START_TEST(texts_of_models_are_no_markup)
{
    save("recipe.yaml", "run:\n  dir: x\n");
    save("examples.json", "{\"kind\": \"tokens\", \"temperature\": 0, \"texts\": [{\"prompt\": "
                          "\"" EVIL_JSON "\", \"made\": \"" EVIL_JSON "\", \"wanted\": \"</pre>"
                          "\"}]}");
    char *page = page_of(run);
    check_lacks(page, "<script>alert");
    check_has(page, "expected: &lt;/pre&gt;");
    free(page);
}
END_TEST

/* Histograms of one bar are drawn, too, with what was before. */
START_TEST(a_histogram_may_have_one_bar)
{
    static const char layer[] = "{\"step\": 3, \"examples\": 2, \"layers\": [{\"path\": \"a\", "
                                "\"type\": \"linear\", \"weight\": {\"bits\": 4, \"codes\": "
                                "[2], \"bins\": [2]}}]}";
    save("recipe.yaml", "run:\n  dir: x\n");
    save("layers-begin.json", layer);
    save("layers-end.json", layer);
    char *page = page_of(run);
    check_has(page, "<path class=\"steps\"");
    free(page);
}
END_TEST

/* Grey and coloured pictures of an examples.json stand in the page with their pixels. */
START_TEST(pictures_have_their_pixels)
{
    static const char *const of[] = { "1, \"bytes\": \"/wA=\"", "3, \"bytes\": \"/wCAAf4C\"" };
    static const uint8_t wanted[2][6] = { { 255, 0 }, { 255, 1, 0, 254, 128, 2 } }; /* planes */
    static const char head[] = "src=\"data:image/png;base64,";
    for (int i = 0; i < 2; i++) {
        char text[400], path[TEST_PATH];
        uint8_t png[400], pixels[6] = { 0 };
        dt__png p;
        snprintf(text, sizeof text,
                 "{\"kind\": \"classes\", \"examples\": 2, \"mistakes\": 1, \"worst\": "
                 "[{\"label\": \"a\", \"found\": \"b\", \"picture\": {\"width\": 2, "
                 "\"height\": 1, \"channels\": %s}}]}",
                 of[i]);
        save("recipe.yaml", "run:\n  dir: x\n");
        save("examples.json", text);
        char *page = page_of(run), *at = strstr(page, head);
        ck_assert_msg(at != NULL, "there is no picture of %d bytes", i == 0 ? 2 : 6);
        at += strlen(head);
        at[strcspn(at, "\"")] = 0;
        ck_assert_uint_lt(strlen(at), sizeof png);
        const int64_t bytes = dt__base64_read(at, png);
        ck_assert_int_gt(bytes, 0);
        test_join(path, folder, "shown.png");
        test_write_file(path, png, (size_t)bytes);
        TEST_OK(ctx, dt__png_open(ctx, path, &p));
        TEST_OK(ctx, dt__png_read(&p, i == 0 ? 1 : 3, pixels));
        dt__png_close(&p);
        ck_assert_mem_eq(pixels, wanted[i], sizeof pixels);
        free(page);
    }
}
END_TEST

/* ---- what is missing or damaged -------------------------------------------------------------- */

START_TEST(a_run_without_figures_is_shown)
{
    save("recipe.yaml", "run:\n  dir: x\n");
    char *page = page_of(run);
    check_has(page, "This run has no figures yet.");
    check_lacks(page, "id=\"layers\"");
    free(page);
}
END_TEST

START_TEST(a_run_under_way_is_shown)
{
    save("recipe.yaml", "run:\n  dir: x\n");
    save("metrics.jsonl", "{\"step\": 50, \"phase\": \"float\", \"loss\": 2}\n"
                          "{\"step\": 100, \"phase\": \"float\", \"loss\": 1}\n{\"step\": 15");
    char *page = page_of(run);
    check_has(page, "This run has not ended: update 100, in float training.");
    check_lacks(page, "Not readable");
    check_has(page, "Loss over updates");
    free(page);
}
END_TEST

/* Multi-label runs show counts of labels, anomaly runs quantiles of errors. */
START_TEST(labels_and_errors_are_shown)
{
    save("recipe.yaml", "run:\n  dir: x\n");
    save("examples.json", "{\"kind\": \"bits\", \"examples\": 80, \"labels\": [{\"name\": "
                          "\"<wet>\", \"wanted\": 20, \"found\": 40, \"both\": 10}, {\"name\": "
                          "\"dry\", \"wanted\": 8, \"found\": 0, \"both\": 0}, {}]}");
    char *page = page_of(run);
    check_has(page, "<td>&lt;wet&gt;</td><td>20</td><td>40</td><td>25.0 %</td><td>50.0 %</td>");
    check_has(page, "<td>dry</td><td>8</td><td>0</td><td>–</td><td>0.0 %</td>");
    free(page);
    save("examples.json",
         "{\"kind\": \"anomaly\", \"examples\": 9, \"found\": 0.5, \"errors\": [{\"label\": "
         "\"normal\", \"count\": 7, \"quantiles\": [0.5, 1, 2, 3, 4, 5]}, {\"label\": "
         "\"anomalous\", \"count\": 2, \"quantiles\": []}]}");
    page = page_of(run);
    check_has(page, "99 % of the normal ones finds 50.0 % of the anomalous ones");
    check_has(page, "<td>normal</td><td>7</td><td>0.5</td><td>1</td>");
    free(page);
}
END_TEST

/* Axes of huge and of nearly equal values end. */
START_TEST(extreme_numbers_are_drawn)
{
    save("recipe.yaml", "run:\n  dir: x\n");
    save("metrics.jsonl",
         "{\"step\": 1e300, \"phase\": \"float\", \"loss\": 1e20, \"lr\": -1e308}\n"
         "{\"step\": 1.0000000000000002e300, \"phase\": \"float\", \"loss\": "
         "100000000000000016384, \"lr\": 1e308}\n");
    save("examples.json", "{\"kind\": \"values\", \"outputs\": [\"a\"], \"points\": [[0, 1e20, "
                          "100000000000000016384], [0, -1e308, 1e308], [0, 5e-324, 0]]}");
    char *page = page_of(run);
    check_has(page, "</html>");
    free(page);
}
END_TEST

START_TEST(damaged_files_are_named)
{
    static const char *const bad[] = { "",
                                       "{",
                                       "[1, 2",
                                       "null",
                                       "7",
                                       "{\"layers\": {\"a\": 1}}",
                                       "{\"layers\": [null, 3, []], \"matrix\": [[]]}",
                                       ("{\"kind\": \"images\", \"shown\": [{\"input\": "
                                        "{\"width\": 1e9, \"height\": 1e9, \"channels\": 3, "
                                        "\"bytes\": \"\"}}]}"),
                                       "{\"float\": 3, \"converted\": {\"accuracy\": null}}" };
    static const char *const names[] = { "summary.json",      "machine.json",    "confusion.json",
                                         "layers-begin.json", "layers-end.json", "sensitivity.json",
                                         "examples.json" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        save("recipe.yaml", "run:\n  dir: x\n");
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) save(names[k], bad[i]);
        char *page = page_of(run);
        if (i < 3) check_has(page, "Not readable, and left out: summary.json, machine.json");
        check_has(page, "</html>");
        free(page);
    }
    save("summary.json", "{\"float\": [1], \"converted\": [2]}");
    static const char *const lines[] = { "nonsense", "[1]", "2" };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char text[64];
        snprintf(text, sizeof text, "{\"step\": 1}\n%s\n{\"step\": 2}\n", lines[i]);
        save("metrics.jsonl", text);
        char *page = page_of(run);
        check_has(page, "left out: metrics.jsonl");
        free(page);
    }
}
END_TEST

START_TEST(what_is_no_run_is_refused)
{
    const char *const none = folder;
    TEST_FAILS(ctx, DT_ERR_IO, "has no recipe.yaml", dt_report_write(ctx, &none, 1, NULL));
    TEST_FAILS(ctx, DT_ERR_ARG, "expected a run", dt_report_write(ctx, &none, 0, NULL));
    save("recipe.yaml", "run:\n  dir: x\n");
    const char *const one = run;
    const dt_report_options o = { .output = "/nowhere/at/all.html" };
    TEST_FAILS(ctx, DT_ERR_IO, "/nowhere/at", dt_report_write(ctx, &one, 1, &o));
}
END_TEST

/* ---- several runs ---------------------------------------------------------------------------- */

/* Shares end at 0 and 100 %, whatever the deviation of few runs is. */
START_TEST(axes_of_shares_end)
{
    static const double accuracy[] = { 0.01, 0.3, 0.7, 0.99 };
    char sweep[TEST_PATH], name[16], text[200], path[TEST_PATH];
    test_join(sweep, folder, "sweep");
    mkdir(sweep, 0777);
    test_join(path, sweep, "plan.json");
    test_write_text(path, "{}");
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "00%d-seed%d", i / 2, i % 2);
        test_join(run, sweep, name);
        snprintf(text, sizeof text, "run:\n  seed: %d\nqat:\n  weight:\n    bits: %d\n", i % 2,
                 i / 2 + 2);
        save("recipe.yaml", text);
        snprintf(text, sizeof text, "{\"converted\": {\"accuracy\": %g, \"bytes\": %d}}",
                 accuracy[i], 100 + i / 2);
        save("summary.json", text);
    }
    char *page = page_of(sweep);
    check_has(page, "over bits of a weight");
    check_has(page, "text-anchor=\"end\">0</text>");
    check_has(page, "text-anchor=\"end\">100</text>");
    check_lacks(page, "text-anchor=\"end\">120</text>");
    check_lacks(page, "text-anchor=\"end\">-20</text>");
    check_lacks(page, "text-anchor=\"end\">−20</text>");
    free(page);
}
END_TEST

/* A plot says what it does not draw. */
START_TEST(recipes_beyond_the_lines_are_counted)
{
    char sweep[TEST_PATH], name[16], text[200], path[TEST_PATH];
    test_join(sweep, folder, "sweep");
    mkdir(sweep, 0777);
    test_join(path, sweep, "plan.json");
    test_write_text(path, "{}");
    for (int i = 0; i < 43; i++) {
        snprintf(name, sizeof name, "%03d", i);
        test_join(run, sweep, name);
        snprintf(text, sizeof text, "train:\n  epochs: %d\n", i + 1);
        save("recipe.yaml", text);
        snprintf(text, sizeof text, "{\"converted\": {\"accuracy\": 0.5, \"bytes\": %d}}", 100 + i);
        save("summary.json", text);
    }
    char *page = page_of(sweep);
    check_has(page, "Not drawn, beside 40 lines: 3 recipes of the table.");
    free(page);
}
END_TEST

/* Layers of which the ends are alike are told apart by their numbers. */
START_TEST(labels_of_layers_differ)
{
    char lines[2048] = "";
    for (int step = 1; step < 4; step++) {
        const size_t n = strlen(lines);
        snprintf(lines + n, sizeof lines - n,
                 "{\"step\": %d, \"phase\": \"qat\", \"loss\": 1, \"layers\": ["
                 "{\"path\": \"model.layers.0.self_attn.q_proj\", \"weight\": {\"snr\": 2}}, "
                 "{\"path\": \"model.layers.11.mlp.down_projection\", \"weight\": {\"snr\": 3}}, "
                 "{\"path\": \"a.long.path.of.words\", \"weight\": {\"snr\": 4}}, "
                 "{\"path\": \"head\", \"weight\": {\"snr\": 5}}]}\n",
                 step);
    }
    save("recipe.yaml", "run:\n  dir: x\n");
    save("metrics.jsonl", lines);
    char *page = page_of(run);
    check_has(page, "<title>model.layers.0.self_attn.q_proj</title>0…q_proj</text>");
    check_has(page, ">11…projection</text>");
    check_has(page, ">…ath.of.words</text>");
    check_has(page, ">head</text>");
    check_lacks(page, "the first 12");
    free(page);
}
END_TEST

/* A chart of layers says how many it leaves out. */
START_TEST(layers_beyond_the_lines_are_counted)
{
    char lines[2048] = "";
    for (int step = 1; step < 3; step++) {
        size_t n = strlen(lines);
        n +=
            (size_t)snprintf(lines + n, sizeof lines - n,
                             "{\"step\": %d, \"phase\": \"qat\", \"loss\": 1, \"layers\": [", step);
        for (int i = 0; i < 14; i++) {
            n += (size_t)snprintf(lines + n, sizeof lines - n,
                                  "%s{\"path\": \"l%d\", \"weight\": {\"snr\": %d}}",
                                  i > 0 ? ", " : "", i, i);
        }
        snprintf(lines + n, sizeof lines - n, "]}\n");
    }
    save("recipe.yaml", "run:\n  dir: x\n");
    save("metrics.jsonl", lines);
    char *page = page_of(run);
    check_has(page, "the first 12 of 14 layers");
    free(page);
}
END_TEST

START_TEST(several_runs_share_their_curves)
{
    char other[TEST_PATH], path[TEST_PATH];
    save("recipe.yaml", "model:\n  family: mlp  # default\ntrain:\n  epochs: 3  # line 4\n");
    save("metrics.jsonl", "{\"step\": 1, \"phase\": \"float\", \"loss\": 2}\n"
                          "{\"step\": 2, \"phase\": \"float\", \"loss\": 1}\n");
    snprintf(other, sizeof other, "%s", run);
    test_join(run, folder, "second");
    save("recipe.yaml", "model:\n  family: mlp  # line 2\ntrain:\n  epochs: 5  # default\n");
    save("metrics.jsonl", "{\"step\": 1, \"phase\": \"float\", \"loss\": 3}\n"
                          "{\"step\": 2, \"phase\": \"float\", \"loss\": 2}\n");
    const char *const both[] = { other, run };
    test_join(path, folder, "page.html");
    TEST_OK(ctx, dt_report_write(ctx, both, 2, &(dt_report_options){ .output = path }));
    char *page = test_read_file(path, NULL);
    check_has(page, "<h1>2 runs</h1>");
    check_has(page, "<code>train.epochs</code></th><td>3</td><td>5</td>");
    check_lacks(page, "<code>model.family</code>");
    ck_assert_int_eq(count_lines(page, "Loss over updates"), 1);
    free(page);
}
END_TEST

START_TEST(a_live_page_reads_itself_again)
{
    const char *const one = run;
    save("recipe.yaml", "run:\n  dir: x\n");
    TEST_OK(ctx, dt_report_write(ctx, &one, 1, &(dt_report_options){ .live = true }));
    char *page = run_file("report.html");
    check_has(page, "http-equiv=\"refresh\"");
    free(page);
}
END_TEST

/* ---- in the terminal ------------------------------------------------------------------------- */

static dt_status collect(void *user, const char *text, size_t bytes)
{
    ck_assert_uint_lt(bytes, 4096);
    memcpy(user, text, bytes);
    ((char *)user)[bytes] = 0;
    return DT_OK;
}

START_TEST(compare_shows_what_differs)
{
    static const dt_compare_options narrow = { .columns = 60 };
    char other[TEST_PATH], text[4096];
    save("recipe.yaml", "model:\n  family: mlp\ntrain:\n  epochs: 3\nqat:\n  rules:\n"
                        "    - match: head\n      weight:\n        bits: 8\n");
    save("summary.json", "{\"float\": {\"accuracy\": 0.9, \"bytes\": 4000},\n"
                         "\"converted\": {\"accuracy\": 0.875, \"bytes\": 500}}");
    snprintf(other, sizeof other, "%s", run);
    test_join(run, folder, "another\x1b[31m run of a very long name that has no end");
    save("recipe.yaml", "model:\n  family: mlp\ntrain:\n  epochs: 5\n");
    const char *const both[] = { other, run };
    TEST_OK(ctx, dt_report_compare(ctx, both, 2, &narrow, collect, text));
    check_has(text, "train.epochs");
    check_has(text, "qat.rules.0.weight.bits");
    check_has(text, "another?[31m");
    check_has(text, "87.50 %");
    check_lacks(text, "model.family");
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        int columns = 0;
        for (const char *c = line; *c != 0; c++) columns += ((unsigned char)*c & 0xc0) != 0x80;
        ck_assert_msg(columns <= 60, "%d columns: %s", columns, line);
    }
    TEST_FAILS(ctx, DT_ERR_ARG, "at least 2 runs",
               dt_report_compare(ctx, both, 1, NULL, collect, text));
}
END_TEST

/* Folders of the same name are distinguished by their parent folders; names that are cut keep their
 * ends. */
START_TEST(names_of_runs_differ)
{
    static const char *const names[] = { "left/run", "right/run", "alone",
                                         "a-name-of-which-the-end-tells-more-1",
                                         "a-name-of-which-the-end-tells-more-2" };
    static const dt_compare_options narrow = { .columns = 40 };
    char dirs[5][TEST_PATH + 2], part[2 * TEST_PATH], text[8192];
    const char *runs[5];
    for (int i = 0; i < 2; i++) {
        snprintf(part, sizeof part, "%s/%.*s", folder, (int)strcspn(names[i], "/"), names[i]);
        mkdir(part, 0777);
    }
    for (int i = 0; i < 5; i++) {
        test_join(run, folder, names[i]);
        save("recipe.yaml", "model:\n  family: mlp  # default\n");
        snprintf(dirs[i], sizeof dirs[i], "%s%s", run, i == 2 ? "//" : "");
        runs[i] = dirs[i];
    }
    TEST_OK(ctx, dt_report_compare(ctx, runs, 3, NULL, collect, text));
    check_has(text, "left/run");
    check_has(text, "right/run");
    check_has(text, " alone\n");
    TEST_OK(ctx, dt_report_compare(ctx, runs + 3, 2, &narrow, collect, text));
    check_has(text, "…s-more-1");
    check_has(text, "…s-more-2");
}
END_TEST

/* A value ends before its comment, however long it is; a dash says that a recipe has none. */
START_TEST(values_of_recipes_are_compared_whole)
{
    char long_one[400], recipe[1000], other[TEST_PATH], text[8192];
    memset(long_one, 'x', sizeof long_one - 1);
    long_one[sizeof long_one - 1] = 0;
    snprintf(recipe, sizeof recipe,
             "data:\n  train: [\"%s \\\" # 1\"] # command line\n  validation: [%s, 1] # a.yaml:3\n",
             long_one, long_one);
    save("recipe.yaml", recipe);
    snprintf(other, sizeof other, "%s", run);
    test_join(run, folder, "other");
    snprintf(recipe, sizeof recipe,
             "data:\n  train: [\"%s \\\" # 1\"] # a.yaml:2\n  validation: [%s, 2] # a.yaml:3\n"
             "  seed: 1   # default\n",
             long_one, long_one);
    save("recipe.yaml", recipe);
    const char *const both[] = { other, run };
    TEST_OK(ctx, dt_report_compare(ctx, both, 2, NULL, collect, text));
    check_has(text, "data.validation");
    check_has(text, "data.seed           -  ");
    check_has(text, "-: not in this recipe");
    check_lacks(text, "data.train");
}
END_TEST

/* ---- metrics in other forms ------------------------------------------------------------------ */

static size_t size_of_file(const char *name)
{
    size_t n;
    char path[TEST_PATH];
    test_join(path, run, name);
    free(test_read_file(path, &n));
    return n;
}

START_TEST(crc32c_is_that_of_rfc_3720)
{
    uint8_t bytes[32];
    memset(bytes, 0, 32);
    ck_assert_uint_eq(dt__crc32c(bytes, 32), 0x8a9136aa);
    memset(bytes, 0xff, 32);
    ck_assert_uint_eq(dt__crc32c(bytes, 32), 0x62a8ab43);
    for (int i = 0; i < 32; i++) bytes[i] = (uint8_t)i;
    ck_assert_uint_eq(dt__crc32c(bytes, 32), 0x46dd794e);
}
END_TEST

START_TEST(metrics_become_rows)
{
    TEST_OK(ctx, train("train.log={every_steps: 3, csv: true}"));
    char *csv = run_file("metrics.csv"), *lines = run_file("metrics.jsonl");
    ck_assert_msg(strncmp(csv, "step,epoch,phase,loss,", 22) == 0, "%.60s", csv);
    check_has(csv, ",validation_accuracy,");
    check_has(csv, "\r\n3,0.6,float,");
    ck_assert_int_eq(count_lines(csv, "\n"),
                     1 + count_lines(lines, "\n") - count_lines(lines, "\"layers\""));
    ck_assert(!exists("events.out.tfevents.detent"));
    free(csv);
    free(lines);
}
END_TEST

/* Length, crc of it, data, crc of them: whole records, to the file's end. */
static int64_t count_records(const char *bytes, size_t n)
{
    int64_t records = 0;
    for (size_t at = 0; at < n; records++) {
        uint64_t length;
        uint32_t stored;
        ck_assert_uint_le(at + 16, n);
        dt__copy_little(&length, bytes + at, 8);
        dt__copy_little(&stored, bytes + at + 8, 4);
        uint32_t crc = dt__crc32c(bytes + at, 8);
        ck_assert_uint_eq(stored, (crc >> 15 | crc << 17) + 0xa282ead8);
        ck_assert_uint_le(length, n - at - 16);
        const size_t body = (size_t)length;
        crc = dt__crc32c(bytes + at + 12, body);
        dt__copy_little(&stored, bytes + at + 12 + body, 4);
        ck_assert_uint_eq(stored, (crc >> 15 | crc << 17) + 0xa282ead8);
        at += 16 + body;
    }
    return records;
}

START_TEST(metrics_become_events)
{
    TEST_OK(ctx, train("train.log={every_steps: 3, tensorboard: true}"));
    const size_t n = size_of_file("events.out.tfevents.detent");
    char *events = run_file("events.out.tfevents.detent");
    ck_assert_mem_eq(events + 12 + 11, "brain.Event:2", 13);
    ck_assert_int_gt(count_records(events, n), 60);
    free(events);
}
END_TEST

/* ---- numbers, base64 ------------------------------------------------------------------------- */

START_TEST(numbers_are_for_people)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = { { 0, "0" },
                  { 1, "1" },
                  { 0.00123456, "0.00123" },
                  { 12.3456, "12.35" },
                  { 1234.6, "1235" },
                  { 1234567, "1,234,567" },
                  { -0.5, "−0.5" },
                  { 2.39e-5, "2.39e-5" },
                  { NAN, "–" },
                  { INFINITY, "–" },
                  { 0.999999, "1" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dt__chars t = { .ctx = ctx };
        dt__page(&t, "%g", cases[i].value);
        ck_assert_str_eq(dt__chars_text(&t), cases[i].text);
        dt__release(ctx, t.bytes);
    }
    dt__chars t = { .ctx = ctx };
    dt__page_fixed(&t, 99.996, 2);
    dt__page(&t, " %b %b %p %% %s", (int64_t)999, (int64_t)20783, 0.0133, "a<b>&\"'");
    ck_assert_str_eq(dt__chars_text(&t),
                     "100.00 999 B 20.3 KiB 1.33 % % a&lt;b&gt;&amp;&quot;&#39;");
    dt__release(ctx, t.bytes);
}
END_TEST

START_TEST(base64_is_that_of_rfc_4648)
{
    static const char *const pairs[][2] = { { "", "" },
                                            { "f", "Zg==" },
                                            { "fo", "Zm8=" },
                                            { "foo", "Zm9v" },
                                            { "foob", "Zm9vYg==" },
                                            { "fooba", "Zm9vYmE=" },
                                            { "foobar", "Zm9vYmFy" } };
    uint8_t bytes[64];
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        dt__chars t = { .ctx = ctx };
        const size_t n = strlen(pairs[i][0]);
        dt__put_base64(&t, (const uint8_t *)pairs[i][0], n);
        ck_assert_str_eq(dt__chars_text(&t), pairs[i][1]);
        ck_assert_int_eq(dt__base64_read(pairs[i][1], bytes), (int64_t)n);
        ck_assert_mem_eq(bytes, pairs[i][0], n);
        dt__release(ctx, t.bytes);
    }
    static const char *const bad[] = { "Z", "Zg=", "Zg=a", "Z===", "Zm9v*m8=", "=m9v" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_int_eq(dt__base64_read(bad[i], bytes), -1);
    }
}
END_TEST

static dt_status report_again(dt_ctx *with, void *user)
{
    const char *const one = user;
    return dt_report_write(with, &one, 1, NULL);
}

START_TEST(every_allocation_may_fail)
{
    TEST_OK(ctx, train(NULL));
    ck_assert_int_gt(test_every_allocation(report_again, run), 10);
}
END_TEST

Suite *test_report_suite(void)
{
    Suite *s = suite_create("report");
    TCase *c = tcase_create("report");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, a_run_ends_with_its_report);
    tcase_add_test(c, report_false_writes_none_of_it);
    tcase_add_test(c, figures_of_layers_come_at_their_interval);
    tcase_add_test(c, no_figures_of_layers_with_0);
    tcase_add_test(c, sensitivity_is_of_the_whole_model);
    tcase_add_test(c, suggestions_are_the_dearest_layers);
    tcase_add_test(c, a_histogram_of_one_bar);
    tcase_add_test(c, codes_of_8_bits_have_a_scale);
    tcase_add_test(c, texts_from_outside_are_no_markup);
    tcase_add_test(c, shares_of_nothing_are_dashes);
    tcase_add_test(c, texts_of_models_are_no_markup);
    tcase_add_test(c, a_histogram_may_have_one_bar);
    tcase_add_test(c, pictures_have_their_pixels);
    tcase_add_test(c, a_run_without_figures_is_shown);
    tcase_add_test(c, a_run_under_way_is_shown);
    tcase_add_test(c, labels_and_errors_are_shown);
    tcase_add_test(c, extreme_numbers_are_drawn);
    tcase_add_test(c, damaged_files_are_named);
    tcase_add_test(c, what_is_no_run_is_refused);
    tcase_add_test(c, axes_of_shares_end);
    tcase_add_test(c, recipes_beyond_the_lines_are_counted);
    tcase_add_test(c, labels_of_layers_differ);
    tcase_add_test(c, layers_beyond_the_lines_are_counted);
    tcase_add_test(c, several_runs_share_their_curves);
    tcase_add_test(c, a_live_page_reads_itself_again);
    tcase_add_test(c, compare_shows_what_differs);
    tcase_add_test(c, names_of_runs_differ);
    tcase_add_test(c, values_of_recipes_are_compared_whole);
    tcase_add_test(c, crc32c_is_that_of_rfc_3720);
    tcase_add_test(c, metrics_become_rows);
    tcase_add_test(c, metrics_become_events);
    tcase_add_test(c, numbers_are_for_people);
    tcase_add_test(c, base64_is_that_of_rfc_4648);
    tcase_add_test(c, every_allocation_may_fail);
    suite_add_tcase(s, c);
    return s;
}
