/* Checks of `data`, and of files that must exist. */
#include "core/text/ending.h"
#include "core/system/open_file.h"
#include "data/data_options.h"
#include "data/splits/name_pattern.h"
#include "io/gguf/gguf.h"
#include "train/recipe/choices.h"
#include "data/tables/database.h"
#include "data/tables/table_join.h"
#include "train/recipe/recipe.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* Checks the task of tensors and of images. */
static void check_task(dt_recipe *r)
{
    const dt_data_options *d = &r->options.data;
    dt__node *node = dt__given(r, "data.task");
    if (node == NULL || dt__is_bad(r, "data.format") ||
        !((DT__IMAGES | DT__ARRAYS) & DT__BIT(d->format)) || dt__task_fits(d->format, d->task)) {
        return;
    }
    if (d->format == DT_DATA_TENSORS) {
        dt__complain(r, node,
                     "'data.task' %s is for images; tensors have classification, regression, "
                     "multi_label and anomaly",
                     node->text);
        return;
    }
    const dt_key *format = dt_data_keys;
    while (strcmp(format->name, "format") != 0) format++;
    const char *list = "";
    for (int i = 0; format->choices[i] != NULL; i++) {
        if (!dt__task_fits(i, d->task)) continue;
        list = dt__recipe_format(r, "%s%s%s", list, *list == 0 ? "" : " or ", format->choices[i]);
    }
    dt__complain(r, node, "'data.task' %s needs 'data.format' %s", node->text, list);
}

/* Maps of files, and files for validation, are only for tensors. */
static void check_forms(dt_recipe *r)
{
    const dt_data_options *d = &r->options.data;
    static const char *const paths[] = { "data.train", "data.validation", "data.test" };
    if (dt__is_bad(r, "data.format") || d->format == DT_DATA_TENSORS) return;
    for (int i = 0; i < DT__COUNT_OF(paths); i++) {
        dt__node *node = dt__given(r, paths[i]);
        if (node == NULL || (node->kind != DT__MAP && (i != 1 || node->kind == DT__SCALAR)))
            continue;
        dt__complain(r, node, "'%s' names arrays, which are 'data.format' tensors", paths[i]);
    }
}

/* Lists of mean and std must both be given; keys of a share need a share. */
static void check_tensors(dt_recipe *r)
{
    const dt_data_options *d = &r->options.data;
    dt__node *map = dt__given(r, "data.standardize"), *split = dt__given(r, "data.split");
    if (map != NULL && d->standard.given && !dt__has_bad(r, "data.standardize") &&
        (d->standard.mean.n == 0) != (d->standard.deviation.n == 0)) {
        dt__complain(r, map, "'data.standardize' has %s alone; expected both, or neither",
                     d->standard.mean.n == 0 ? "a deviation" : "a mean");
    }
    dt__node *layout = dt__given(r, "data.layout");
    if (layout != NULL && d->layout == DT_LAYOUT_NHWC && d->window.given) {
        dt__complain(r, layout,
                     "'data.layout' nhwc is of whole examples, and 'data.window' cuts "
                     "signals [time, channels]");
    }
    if (split != NULL && d->split.by != DT_SPLIT_AUTO && d->validation == 0 && d->split.test == 0 &&
        d->split.folds == 0 && !dt__has_bad(r, "data")) {
        dt__complain(r, split,
                     "'data.split' cuts a share, but 'data.validation' and 'data.split.test' are "
                     "none");
    }
}

/* Checks lengths of windows, and other requirements of series of rows. */
static void check_series(dt_recipe *r)
{
    const dt_data_options *d = &r->options.data;
    const dt_series_options *s = &d->series;
    dt__node *window = dt__given(r, "data.window"), *series = dt__given(r, "data.series");
    dt__node *seconds = dt__given(r, "data.window.seconds");
    dt__node *label = dt__given(r, "data.series.label");
    if (dt__has_bad(r, "data")) return;
    if (window != NULL && (d->window.length > 0) == (d->window.seconds > 0)) {
        dt__complain(r, window, "'data.window' requires a length, in time steps%s",
                     d->window.length > 0 ? ", or in seconds; expected one of them"
                                          : " (or in seconds, of 'data.series' with a time)");
    }
    if (seconds != NULL && d->window.seconds > 0 && s->time == NULL) {
        dt__complain(r, seconds, "'data.window.seconds' requires 'data.series.time'");
    }
    if (series == NULL) return;
    if (window == NULL) dt__complain(r, series, "'data.series' requires 'data.window'");
    dt__node *method = dt__given(r, "data.series.method");
    if (s->time == NULL && (s->gap > 0 || s->format != NULL || s->rate > 0)) {
        dt__complain(r, series, "'data.series.%s' requires 'data.series.time'",
                     s->gap > 0    ? "gap"
                     : s->rate > 0 ? "rate"
                                   : "format");
    }
    if (method != NULL && s->method != DT_SERIES_LINEAR && s->rate == 0) {
        dt__complain(r, method, "'data.series.method' requires 'data.series.rate'");
    }
    const bool words = d->task == DT_DATA_CLASSIFICATION || d->task == DT_DATA_ANOMALY;
    if (label != NULL && s->label != DT_SERIES_LAST && !words) {
        dt__complain(r, label,
                     "'data.series.label' %s is of classes; numbers are those of the "
                     "last row",
                     label->text);
    }
    if (!dt__recipe_has_tables(r)) {
        dt__complain(r, series, "'data.series' is of rows of tables in .csv files");
    }
    if (d->n_inputs + d->n_outputs > 0 || d->features.kind != DT_FEATURES_NONE) {
        dt__complain(r, series,
                     "'data.series' makes one input and one output of numbers, without "
                     "'data.inputs', 'data.outputs' and 'data.features'");
    }
    if (d->split.by == DT_SPLIT_ROWS || d->split.by == DT_SPLIT_STRATIFIED) {
        dt__complain(r, series,
                     "'data.series' is split by group, file, time or auto: drawn rows "
                     "would be beside rows of the same window");
    }
}

/* Checks what data.split needs, and which keys it replaces. */
static void check_split(dt_recipe *r)
{
    const dt_split_options *s = &r->options.data.split;
    const bool keyed = s->by == DT_SPLIT_GROUP || s->by == DT_SPLIT_TIME;
    dt__node *column = dt__given(r, "data.split.column"), *folds = dt__given(r, "data.split.folds");
    dt__node *fold = dt__given(r, "data.split.fold"), *names = dt__given(r, "data.file_names");
    dt__node *order = dt__given(r, "data.validation_order"), *test = dt__given(r, "data.test");
    if (dt__has_bad(r, "data.split")) return;
    const bool ordered = r->options.data.validation_order != DT_DATA_ORDER_AUTO;
    if (order != NULL && ordered && s->by != DT_SPLIT_AUTO && s->by != DT_SPLIT_FILE) {
        dt__complain(r, order, "'data.validation_order' is of 'data.split' auto and file");
    }
    if (column != NULL && !keyed) {
        dt__complain(r, column, "'data.split.column' is of 'data.split.by' group and time");
    }
    dt__node *runs = dt__given(r, "run.folds");
    if (runs != NULL && r->options.run.folds == 1) {
        dt__complain(r, runs, "'run.folds' must be 0, or at least 2");
    }
    if (folds != NULL && s->folds == 1) {
        dt__complain(r, folds, "'data.split.folds' must be 0, or at least 2");
    }
    if (fold != NULL && s->fold >= dt__max_i64(1, s->folds)) {
        dt__complain(r, fold, "'data.split.fold' must be below 'data.split.folds', %lld",
                     (long long)s->folds);
    }
    if (s->folds > 0 && s->test > 0) {
        dt__complain(r, folds, "'data.split' has folds and a test share; expected one of them");
    }
    if (test != NULL && (s->folds > 0 || s->test > 0)) {
        dt__complain(r, test,
                     "'data.test' names test data, and 'data.split' takes them from "
                     "'data.train'; expected one of them");
    }
    const char *fault = names == NULL ? NULL : dt__name_pattern_fault(r->options.data.file_names);
    if (fault != NULL) dt__complain(r, names, "'data.file_names': the pattern %s", fault);
}

static bool is_folder_format(int format) { return (DT__FOLDERS & DT__BIT(format)) != 0; }

/* Number of files per part of the data in this format; 0: any number. */
static int names_wanted(int format)
{
    return format == DT_DATA_IDX ? 2 : is_folder_format(format) || format == DT_DATA_TOKENS ? 1 : 0;
}

static void check_source(dt_recipe *r)
{
    const dt_data_options *d = &r->options.data;
    if (!dt__recipe_reads(r, "data") || dt__node_at(r, "data.train", NULL) != NULL) return;
    if (dt__node_at(r, "data", NULL) == NULL) {
        dt_recipe_refuse(r, "data",
                         "missing 'data', which says what is read: its format and files");
        return;
    }
    const bool only_test = r->needs_data && dt__node_at(r, "data.test", NULL) != NULL;
    if (only_test && ((DT__TEXTS & DT__BIT(d->format)) != 0 || d->format == DT_DATA_IDX)) return;
    if (d->format == DT_DATA_TENSORS) {
        dt_recipe_refuse(r, "data",
                         "format tensors needs 'data.train': {x: FILE, y: FILE}, or a list of "
                         "recordings");
    } else if (DT__TEXTS & DT__BIT(d->format)) {
        dt_recipe_refuse(r, "data", "this format needs 'data.train', a list of files");
    } else if (d->format == DT_DATA_IDX) {
        dt_recipe_refuse(r, "data",
                         "format idx needs 'data.train', a list of two files, images "
                         "and labels");
    } else if (dt__node_at(r, "data.dir", NULL) == NULL) {
        dt_recipe_refuse(r, "data", "format %s needs 'data.dir', the folder of its %s",
                         d->format == DT_DATA_CIFAR10    ? "cifar10"
                         : d->format == DT_DATA_CIFAR100 ? "cifar100"
                                                         : "png",
                         is_folder_format(d->format) ? "folders train and test" : "files");
    }
}

static void check_data(dt_recipe *r)
{
    const dt_data_options *d = &r->options.data;
    const char *const paths[] = { "data.train", "data.test" };
    const dt_strings *const lists[] = { &d->train, &d->test };
    if (dt__is_bad(r, "data") || dt__is_bad(r, "data.format")) return;
    if ((DT__DRAWN | DT__GIVEN) & DT__BIT(d->format)) return;
    if (r->only_quantizes && !r->needs_data && dt__node_at(r, "data", NULL) == NULL) return;
    check_source(r);
    const int wanted = names_wanted(d->format);
    const bool chosen = dt__given(r, "data.format") != NULL;
    for (int i = 0; i < 2; i++) {
        dt__node *node = dt__given(r, paths[i]);
        if (node == NULL || wanted == 0 || lists[i]->n == wanted) continue;
        if (i == 0 && r->needs_data && d->test.n > 0) continue; /* evaluation does not read it */
        dt__complain(r, node, "'%s' requires %s, not %d%s", paths[i],
                     wanted == 2                   ? "two files, images and labels"
                     : d->format == DT_DATA_TOKENS ? "one file"
                                                   : "one folder",
                     lists[i]->n, chosen ? "" : "; data.format is missing: idx");
    }
    dt__node *channels = dt__given(r, "data.channels");
    if (channels == NULL || !is_folder_format(d->format) || d->channels != 2) return;
    dt__complain(r, channels, "'data.channels' must be 1 (grey) or 3 (red, green, blue), not 2");
}

/* Files of ids need no tokenizer; if one is given, it must be a file. */
static void check_tokenizer(dt_recipe *r)
{
    const dt_data_options *d = &r->options.data;
    dt__node *node = dt__given(r, "data.tokenizer");
    if (node == NULL || d->format != DT_DATA_TOKENS || dt__is_bad(r, "data.format")) return;
    if (r->needs_data) return; /* the checks below are about training text */
    if (strcmp(d->tokenizer, "bytes") != 0 && strcmp(d->tokenizer, "chars") != 0) return;
    dt__complain(r, node, "'data.tokenizer' of format tokens is a file, not %s", d->tokenizer);
}

/* Complains unless `name` exists and is a file or folder as wanted. Other errors are found when it
 * is opened. */
static void check_exists(dt_recipe *r, const char *path, const char *name, bool is_folder)
{
    struct stat found;
    dt__node *node = dt__given(r, path);
    if (node == NULL || r->leave_files) return;
    const char *shown = dt__recipe_quote_text(r, name, strlen(name));
    if (stat(name, &found) != 0) {
        if (errno != ENOENT && errno != ENOTDIR) return;
        dt__complain(r, node, "'%s': no such %s: %s", path, is_folder ? "folder" : "file", shown);
    } else if (S_ISDIR(found.st_mode) != is_folder) {
        dt__complain(r, node, "'%s': %s is %s", path, shown,
                     is_folder ? "a file, not a folder" : "a folder, not a file");
    }
}

/* The file of FILE or FILE:NAME. */
static const char *without_part(dt_recipe *r, const char *name)
{
    const size_t database = dt__database_length(name);
    if (database > 0) return dt__recipe_format(r, "%.*s", (int)database, name);
    const char *colon = strchr(name, ':');
    for (; colon != NULL; colon = strchr(colon + 1, ':')) {
        const size_t n = (size_t)(colon - name);
        if (!dt__ends_in_of(name, n, ".npz") && !dt__ends_in_of(name, n, ".safetensors")) continue;
        return dt__recipe_format(r, "%.*s", (int)n, name);
    }
    return name;
}

static void check_data_files(dt_recipe *r, const char *path, const dt_strings *names);

/* FILE+FILE as two names. */
static void check_joined(dt_recipe *r, const char *path, const char *name, size_t n)
{
    const dt_strings both = { 2, { dt__recipe_format(r, "%.*s", (int)n, name), name + n + 1 } };
    if (!r->out_of_memory) check_data_files(r, path, &both);
    if (r->options.data.series.rate > 0 || dt__has_bad(r, "data.series")) return;
    dt__complain(r, dt__given(r, path),
                 "'%s': several files are joined by the times of their rows; expected "
                 "'data.series' with a rate",
                 path);
}

static void check_data_files(dt_recipe *r, const char *path, const dt_strings *names)
{
    const char *dir = r->options.data.dir;
    for (int i = 0; i < names->n && !r->out_of_memory; i++) {
        const char *name = names->v[i];
        if (name == NULL) continue;
        const size_t joined = dt__join_length(name);
        if (joined > 0 && r->options.data.format == DT_DATA_TENSORS) {
            check_joined(r, path, name, joined);
            continue;
        }
        if (r->options.data.format == DT_DATA_TENSORS) {
            name = without_part(r, name);
            if (strpbrk(name, "*?") != NULL) continue;
        }
        if (dir != NULL && *dir != 0 && *name != '/') {
            const char *between = dir[strlen(dir) - 1] == '/' ? "" : "/";
            name = dt__recipe_format(r, "%s%s%s", dir, between, name);
        }
        const char *at = dt__recipe_format(r, "%s.%d", path, i);
        check_exists(r, dt__node_at(r, at, NULL) == NULL ? path : at, name,
                     is_folder_format(r->options.data.format));
    }
}

static void check_tensor_files(dt_recipe *r, const char *path, const dt_tensor_files *files)
{
    const dt_strings y = { files->y != NULL, { files->y } };
    if (!files->given || dt__has_bad(r, path)) return;
    check_data_files(r, dt__recipe_join(r, path, "x"), &files->x);
    check_data_files(r, dt__recipe_join(r, path, "y"), &y);
}

/* Checks that data.dir contains the first of the default file names. */
static void check_usual(dt_recipe *r)
{
    struct stat found;
    const dt_data_options *d = &r->options.data;
    const char *name = is_folder_format(d->format)     ? "train"
                       : d->format == DT_DATA_CIFAR10  ? "data_batch_1.bin"
                       : d->format == DT_DATA_CIFAR100 ? "train.bin"
                                                       : NULL;
    dt__node *node = dt__given(r, "data.dir");
    if (name == NULL || node == NULL || r->leave_files || d->train.n > 0) return;
    if (dt__has_bad(r, "data")) return;
    const char *between = d->dir[strlen(d->dir) - 1] == '/' ? "" : "/";
    const char *path = dt__recipe_format(r, "%s%s%s", d->dir, between, name);
    if (stat(path, &found) == 0 || (errno != ENOENT && errno != ENOTDIR)) return;
    if (stat(dt__recipe_format(r, "%s.gz", path), &found) == 0) return;
    dt__complain(r, node, "'data.dir': no such %s: %s",
                 is_folder_format(d->format) ? "folder" : "file",
                 dt__recipe_quote_text(r, path, strlen(path)));
}

/* data.mean and data.std are statistics of bytes, before scaling. */
static void check_scaling(dt_recipe *r)
{
    const dt_data_options *d = &r->options.data;
    const char *const paths[] = { "data.mean", "data.deviation" };
    const dt_reals *const lists[] = { &d->mean, &d->deviation };
    for (int i = 0; i < 2; i++) {
        dt__node *node = dt__given(r, paths[i]);
        for (int k = 0; node != NULL && k < lists[i]->n; k++) {
            const double value = lists[i]->v[k];
            if (value <= (i == 0 ? 1 : 2)) continue;
            dt__remark(r, node, "'%s' is %g, but bytes are 0 to 1 before it: %g/255 is %.4g",
                       paths[i], value, value, value / 255);
            break;
        }
    }
}

static void check_files(dt_recipe *r)
{
    const dt_data_options *d = &r->options.data;
    if (r->options.model.init != NULL) {
        check_exists(r, "model.init", r->options.model.init,
                     r->init_options != NULL && !dt__is_gguf(r->options.model.init));
    }
    if (r->options.train.distill.teacher != NULL) {
        const char *teacher = r->options.train.distill.teacher;
        check_exists(r, "train.distill.teacher", teacher, dt__is_folder(teacher));
    }
    if (dt__is_bad(r, "data.format") || ((DT__DRAWN | DT__GIVEN) & DT__BIT(d->format))) return;
    if (d->tokenizer != NULL && strcmp(d->tokenizer, "bytes") != 0 &&
        strcmp(d->tokenizer, "chars") != 0) {
        check_exists(r, "data.tokenizer", d->tokenizer, false);
    }
    if (d->dir != NULL) check_exists(r, "data.dir", d->dir, true);
    if (dt__is_bad(r, "data.dir")) return;
    check_usual(r);
    check_data_files(r, "data.train", &d->train);
    check_data_files(r, "data.test", &d->test);
    check_data_files(r, "data.validation", &d->validation_files);
    check_tensor_files(r, "data.train", &d->train_tensors);
    check_tensor_files(r, "data.test", &d->test_tensors);
    check_tensor_files(r, "data.validation", &d->validation_tensors);
}

void dt__recipe_check_data(dt_recipe *r)
{
    check_task(r);
    check_forms(r);
    check_tensors(r);
    check_series(r);
    check_split(r);
    dt__recipe_check_columns(r);
    check_data(r);
    check_scaling(r);
    check_tokenizer(r);
    check_files(r);
}
