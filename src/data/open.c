/* Opens the datasets that `data:` of a recipe names. */
#include "data/data_options.h"
#include "core/system/open_file.h"

#include <stdio.h>
#include <string.h>

#define DRAWN_TRAIN 10000 /* default numbers of digits and sums */
#define DRAWN_TEST 2000
#define SUMS 1000000

/* ---- names -------------------------------------------------------------------------------- */

char *dt__data_path(dt_ctx *ctx, const char *dir, const char *name)
{
    if (dir == NULL || dir[0] == '\0' || name[0] == '/') return dt__copy_string(ctx, name);
    const bool ends = dir[strlen(dir) - 1] == '/';
    return dt__format_string(ctx, "%s%s%s", dir, ends ? "" : "/", name);
}

/* The training or the test part of the data. */
typedef struct part {
    const char *key; /* "train" or "test" */
    const dt_strings *names;
    int64_t count; /* number of images to use; 0: all */
    /* for the test part: the training data, whose size and classes it must have */
    const dt_dataset *train;
} part;

/* Keeps the first `count` images. `from` names their source in messages. */
static dt_status cut(const part *s, const char *from, dt_dataset *d)
{
    if (d->count == 0) return dt_fail(d->ctx, DT_ERR_FORMAT, "'%s' holds no images", from);
    if (s->count > d->count) {
        return dt_fail(d->ctx, DT_ERR_CONFIG, "data.%s_count is %lld, but '%s' holds %lld image%s",
                       s->key, (long long)s->count, from, (long long)d->count, DT__S(d->count));
    }
    if (s->count > 0) d->count = s->count;
    return DT_OK;
}

/* ---- formats: each opens one part --------------------------------------------------------- */

static dt_status open_idx(dt_ctx *ctx, const dt_data_options *o, const part *s, dt_dataset **out)
{
    if (s->names->n == 0 && s->train != NULL) return DT_OK;
    if (s->names->n != 2) {
        return dt_fail(ctx, DT_ERR_CONFIG, "data.%s names %d files; expected two, [images, labels]",
                       s->key, s->names->n);
    }
    const int64_t classes = s->train == NULL ? 0 : s->train->classes;
    char *images = dt__data_path(ctx, o->dir, s->names->v[0]);
    char *labels = dt__data_path(ctx, o->dir, s->names->v[1]);
    dt_status status = DT_ERR_NOMEM;
    if (images != NULL && labels != NULL) status = dt_idx_read(ctx, images, labels, classes, out);
    if (status == DT_OK) status = cut(s, images, *out);
    DT__RELEASE(ctx, images, labels);
    return status;
}

static dt_status open_digits(dt_ctx *ctx, const dt_data_options *o, const part *s, dt_dataset **out)
{
    static const dt_target targets[] = { [DT_DATA_CLASSIFICATION] = DT_TARGET_CLASS,
                                         [DT_DATA_DENOISING] = DT_TARGET_IMAGE,
                                         [DT_DATA_SEGMENTATION] = DT_TARGET_MASK };
    const bool test = s->train != NULL;
    const int64_t count = s->count > 0 ? s->count : test ? DRAWN_TEST : DRAWN_TRAIN;
    const uint64_t seed = (uint64_t)o->seed;
    return dt_digits_create(ctx, count, test ? ~seed : seed, targets[o->task], out);
}

/* Test data are the last sums of the permutation, training data the first. */
static dt_status open_adder(dt_ctx *ctx, const dt_data_options *o, const part *s, dt_dataset **out)
{
    const bool test = s->train != NULL;
    const int64_t count = s->count > 0 ? s->count : test ? DRAWN_TEST : DRAWN_TRAIN;
    const int64_t first = test ? SUMS - count : 0, others = test ? s->train->count : 0;
    if (count > SUMS - others) {
        return dt_fail(ctx, DT_ERR_CONFIG, "data.%s_count is %lld, but of %d sums %lld are left",
                       s->key, (long long)count, SUMS, (long long)(SUMS - others));
    }
    return dt_adder_create(ctx, first, count, (uint64_t)o->seed, out);
}

/* Sounds, sensors, table. */
static dt_status open_drawn(dt_ctx *ctx, const dt_data_options *o, const part *s, dt_dataset **out)
{
    typedef dt_status creator(dt_ctx *, const dt_drawn *, dt_dataset **);
    static creator *const creators[] = { [DT_DATA_SOUNDS] = dt_sounds_create,
                                         [DT_DATA_SENSORS] = dt_sensors_create,
                                         [DT_DATA_TABLE] = dt_table_create };
    static const dt_target targets[] = { [DT_DATA_CLASSIFICATION] = DT_TARGET_CLASS,
                                         [DT_DATA_REGRESSION] = DT_TARGET_VALUES,
                                         [DT_DATA_MULTI_LABEL] = DT_TARGET_BITS,
                                         [DT_DATA_ANOMALY] = DT_TARGET_ANOMALY };
    const bool test = s->train != NULL, sounds = o->format == DT_DATA_SOUNDS;
    const int64_t usual = sounds ? (test ? 1000 : 3000) : test ? DRAWN_TEST : DRAWN_TRAIN;
    const dt_drawn drawn = { .count = s->count > 0 ? s->count : usual,
                             .seed = test ? ~(uint64_t)o->seed : (uint64_t)o->seed,
                             .target = targets[o->task],
                             .anomalies = test };
    return creators[o->format](ctx, &drawn, out);
}

/* Default file names: [CIFAR-100 or not][test or not]. */
static const dt_strings usual_files[2][2] = {
    { { 5,
        { "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
          "data_batch_5.bin" } },
      { 1, { "test_batch.bin" } } },
    { { 1, { "train.bin" } }, { 1, { "test.bin" } } },
};

/* The path of a file, or of the same name with .gz if only that exists; NULL: NOMEM. */
static char *path_of_usual(dt_ctx *ctx, const char *dir, const char *name)
{
    char *path = dt__data_path(ctx, dir, name);
    if (path == NULL || dt__exists(path)) return path;
    char *packed = dt__format_string(ctx, "%s.gz", path);
    char *chosen = packed == NULL ? NULL : dt__exists(packed) ? packed : path;
    if (chosen != path) dt__release(ctx, path);
    if (chosen != packed) dt__release(ctx, packed);
    return chosen;
}

static dt_status read_cifar(dt_ctx *ctx, const dt_data_options *o, const part *s,
                            const dt_strings *paths, dt_dataset **out)
{
    const dt_cifar kind = o->format == DT_DATA_CIFAR10  ? DT_CIFAR10
                          : o->labels == DT_DATA_COARSE ? DT_CIFAR100_COARSE
                                                        : DT_CIFAR100_FINE;
    const bool usual = s->names->n == 0;
    if (usual && s->train != NULL && !dt__exists(paths->v[0])) return DT_OK;
    DT__TRY(dt_cifar_read(ctx, kind, paths, out));
    return cut(s, paths->v[0], *out);
}

static dt_status open_cifar(dt_ctx *ctx, const dt_data_options *o, const part *s, dt_dataset **out)
{
    const bool usual = s->names->n == 0;
    const dt_strings *names =
        usual ? &usual_files[o->format == DT_DATA_CIFAR100][s->train != NULL] : s->names;
    char *path[DT_MAX_LIST] = { NULL };
    dt_strings paths = { .n = names->n };
    dt_status status = DT_OK;
    for (int i = 0; i < names->n && status == DT_OK; i++) {
        path[i] = (usual ? path_of_usual : dt__data_path)(ctx, o->dir, names->v[i]);
        paths.v[i] = path[i];
        if (path[i] == NULL) status = DT_ERR_NOMEM;
    }
    if (status == DT_OK) status = read_cifar(ctx, o, s, &paths, out);
    for (int i = 0; i < names->n; i++) dt__release(ctx, path[i]);
    return status;
}

static dt_status read_folder(dt_ctx *ctx, const dt_data_options *o, const part *s,
                             const char *folder, const char *classes, dt_dataset **out)
{
    const dt_png_options options = { o->channels, s->count, classes, o->size[0], o->size[1] };
    const bool usual = s->names->n == 0;
    if (usual && s->train != NULL && !dt__exists(folder)) return DT_OK;
    DT__TRY((o->format == DT_DATA_PNG ? dt_png_read : dt_folder_read)(ctx, folder, &options, out));
    return cut(s, folder, *out);
}

static dt_status open_folder(dt_ctx *ctx, const dt_data_options *o, const part *s, dt_dataset **out)
{
    const bool test = s->train != NULL;
    if (s->names->n > 1) {
        return dt_fail(ctx, DT_ERR_CONFIG, "data.%s names %d folders; expected one", s->key,
                       s->names->n);
    }
    const char *train = o->train.n > 0 ? o->train.v[0] : "train";
    char *folder = dt__data_path(ctx, o->dir,
                                 s->names->n > 0 ? s->names->v[0]
                                 : test          ? "test"
                                                 : train);
    char *classes = test ? dt__data_path(ctx, o->dir, train) : NULL;
    dt_status status = DT_ERR_NOMEM;
    if (folder != NULL && (classes != NULL || !test)) {
        status = read_folder(ctx, o, s, folder, classes, out);
    }
    DT__RELEASE(ctx, folder, classes);
    return status;
}

/* ---- both parts --------------------------------------------------------------------------- */

static dt_status same_size(dt_ctx *ctx, const dt_dataset *train, const dt_dataset *test)
{
    if (train->height == test->height && train->width == test->width) return DT_OK;
    return dt_fail(ctx, DT_ERR_FORMAT,
                   "data.test holds images of %lld x %lld pixels, data.train of %lld x %lld; "
                   "expected the same size",
                   (long long)test->height, (long long)test->width, (long long)train->height,
                   (long long)train->width);
}

static dt_status open_parts(dt_ctx *ctx, const dt_data_options *o, dt_dataset **train,
                            dt_dataset **test)
{
    typedef dt_status opener(dt_ctx *, const dt_data_options *, const part *, dt_dataset **);
    static opener *const openers[] = {
        [DT_DATA_IDX] = open_idx,       [DT_DATA_DIGITS] = open_digits,
        [DT_DATA_CIFAR10] = open_cifar, [DT_DATA_CIFAR100] = open_cifar,
        [DT_DATA_PNG] = open_folder,    [DT_DATA_ADDER] = open_adder,
        [DT_DATA_SOUNDS] = open_drawn,  [DT_DATA_SENSORS] = open_drawn,
        [DT_DATA_TABLE] = open_drawn,   [DT_DATA_FOLDER] = open_folder,
    };
    const part first = { "train", &o->train, o->train_count, NULL };
    DT__TRY(openers[o->format](ctx, o, &first, train));
    const part second = { "test", &o->test, o->test_count, *train };
    DT__TRY(openers[o->format](ctx, o, &second, test));
    return *test == NULL ? DT_OK : same_size(ctx, *train, *test);
}

/* Applies the task to the images. */
static dt_status finish(dt_ctx *ctx, const dt_data_options *o, dt_dataset *d)
{
    if (d == NULL || d->kind != &dt__data_images) return DT_OK;
    if (o->task == DT_DATA_DENOISING) DT__TRY(dt_dataset_denoise(d, o->noise));
    if (dt_dataset_normalize(d, &o->mean, &o->deviation) == DT_OK) return DT_OK;
    char words[DT__MESSAGE_SIZE];
    strcpy(words, dt_error(ctx));
    return dt_fail(ctx, DT_ERR_CONFIG, "data.%s", words);
}

static dt_status hold_back(dt_ctx *ctx, const dt_data_options *o, dt_dataset *train,
                           dt_dataset **validation)
{
    if (o->validation == 0) return DT_OK;
    const int64_t count = (int64_t)(o->validation * (double)train->count);
    if (count < 1) {
        return dt_fail(ctx, DT_ERR_CONFIG,
                       "data.validation: %g of %lld %s is none; expected a larger share",
                       o->validation, (long long)train->count, dt__dataset_examples(train));
    }
    return dt_dataset_split(train, count, validation);
}

static bool is_text(int format)
{
    return format == DT_DATA_TEXT || format == DT_DATA_TOKENS || format == DT_DATA_JSONL;
}

/* Ranges of a recipe's values are checked by its schema, but options may come from a program. */
static dt_status check_options(dt_ctx *ctx, const dt_data_options *o)
{
    const struct {
        const char *key;
        bool good;
    } checks[] = {
        { "format", o->format >= 0 && o->format <= DT_DATA_FOLDER },
        { "task", o->task >= 0 && o->task <= DT_DATA_ANOMALY },
        { "labels", o->labels >= 0 && o->labels <= DT_DATA_COARSE },
        { "channels", o->channels == 1 || o->channels == 3 },
        { "validation", o->validation >= 0 && o->validation <= DT__MOST_VALIDATION },
        { "train_count", o->train_count >= 0 && o->train_count <= (int64_t)DT__MOST_IMAGES },
        { "test_count", o->test_count >= 0 && o->test_count <= (int64_t)DT__MOST_IMAGES },
        { "size", (o->size[0] == 0) == (o->size[1] == 0) },
        { "size", o->size[0] >= 0 && o->size[1] >= 0 },
        { "seed", o->seed >= 0 },
        { "noise", o->noise >= 0 && o->noise <= DT__MOST_NOISE },
        { "context", !is_text(o->format) || o->context >= 1 },
        { "context", o->context <= (int64_t)DT__MOST_CONTEXT },
        { "split.by", o->split.by >= 0 && o->split.by <= DT_SPLIT_TIME },
        { "split.test", o->split.test >= 0 && o->split.test <= DT__MOST_VALIDATION },
        { "split.folds", o->split.folds >= 0 && o->split.folds <= DT__MOST_FOLDS },
        { "split.folds", o->split.folds != 1 },
        { "split.fold", o->split.fold >= 0 && o->split.fold <= dt__max_i64(0, o->split.folds - 1) },
        { "layout", o->layout >= 0 && o->layout <= DT_LAYOUT_NHWC },
        { "layout", o->layout == DT_LAYOUT_NCHW || !o->window.given },
        { "validation_order",
          o->validation_order >= 0 && o->validation_order <= DT_DATA_ORDER_TIME },
        { "standardize.axis", o->standard.axis >= 0 && o->standard.axis <= DT_AXIS_LAST },
        { "standardize", (o->standard.mean.n == 0) == (o->standard.deviation.n == 0) },
        { "window.length", !o->window.given || (o->window.length > 0) != (o->window.seconds > 0) },
        { "window.length", o->window.length >= 0 && o->window.length <= (int64_t)DT__MOST_CONTEXT },
        { "window.stride", o->window.stride >= 0 },
        { "window.stride", o->window.stride <= (int64_t)DT__MOST_CONTEXT },
        { "window.seconds", o->window.seconds >= 0 },
        { "window.seconds", o->window.seconds == 0 || o->series.time != NULL },
        { "series", !o->series.given || (o->window.given && o->n_inputs + o->n_outputs == 0) },
        { "series", !o->series.given || o->features.kind == DT_FEATURES_NONE },
        { "series.gap", o->series.gap >= 0 },
        { "series.label", o->series.label >= 0 && o->series.label <= DT_SERIES_PURE },
        { "inputs", o->n_inputs >= 0 && o->n_inputs <= DT_MAX_SHAPES },
        { "outputs", o->n_outputs >= 0 && o->n_outputs <= DT_MAX_JOINED },
        { "inputs", o->n_inputs + o->n_outputs == 0 || o->format == DT_DATA_TENSORS },
        { "features.kind", o->features.kind >= 0 && o->features.kind <= DT_FEATURES_MFCC },
    };
    for (int i = 0; i < DT__COUNT_OF(checks); i++) {
        if (checks[i].good) continue;
        return dt_fail(ctx, DT_ERR_CONFIG, "data.%s is out of its range, which docs/recipe.md has",
                       checks[i].key);
    }
    if (o->format == DT_DATA_GIVEN && o->source == NULL) {
        return dt_fail(ctx, DT_ERR_CONFIG,
                       "data.format given: only dt_run takes datasets of a program");
    }
    if (o->source != NULL) return DT_OK;
    if (dt__task_fits(o->format, o->task)) return DT_OK;
    return dt_fail(ctx, DT_ERR_CONFIG,
                   "data.task is none of the tasks of data.format; "
                   "classification fits all formats");
}

static dt_status open_drawn_or_images(dt_ctx *ctx, const dt_data_options *o,
                                      dt_dataset **const out[3])
{
    DT__TRY(open_parts(ctx, o, out[0], out[2]));
    DT__TRY(finish(ctx, o, *out[0]));
    DT__TRY(finish(ctx, o, *out[2]));
    DT__TRY(hold_back(ctx, o, *out[0], out[1]));
    return (*out[0])->arrays == NULL ? DT_OK : dt__arrays_finish(o, out);
}

/* ---- sources of the program ----------------------------------------------------------------- */

dt_status dt_dataset_register(dt_ctx *ctx, const dt_data_source *source)
{
    DT__NEED(NULL, ctx);
    if (source == NULL || source->name == NULL || source->name[0] == 0 || source->open == NULL) {
        return dt_fail(ctx, DT_ERR_ARG, "source: a name and a function must be given");
    }
    if (dt__registered_named(ctx, DT__SOURCES, source->name) != NULL) {
        return dt_fail(ctx, DT_ERR_ARG, "source: there is a source '%s' already", source->name);
    }
    return dt__register(ctx, DT__SOURCES, source);
}

static dt_status open_source(dt_ctx *ctx, const dt_data_options *o, dt_dataset **const out[3])
{
    const dt_data_source *source = dt__registered_named(ctx, DT__SOURCES, o->source);
    if (source == NULL) {
        const dt__registry *all = &ctx->registry[DT__SOURCES];
        char names[DT__MESSAGE_SIZE / 2] = "none";
        for (int64_t i = 0; i < all->n; i++) {
            const size_t n = i == 0 ? 0 : strlen(names);
            snprintf(names + n, sizeof names - n, "%s%s", i > 0 ? ", " : "",
                     ((const dt_data_source *)all->item[i])->name);
        }
        return dt_fail(ctx, DT_ERR_CONFIG,
                       "data.source: no source '%s' is registered; those that are: "
                       "%s" DT__PLUGIN_ADDS,
                       o->source, names);
    }
    DT__TRY(source->open(ctx, o, source->user, out[0], out[1], out[2]));
    if (*out[0] == NULL) {
        return dt_fail(ctx, DT_ERR_CONFIG, "data.source: '%s' has made no training data",
                       o->source);
    }
    return *out[1] == NULL ? hold_back(ctx, o, *out[0], out[1]) : DT_OK;
}

dt_status dt_data_open(dt_ctx *ctx, const dt_data_options *options, dt_dataset **train,
                       dt_dataset **validation, dt_dataset **test)
{
    DT__NEED4(ctx, ctx, train, validation, test);
    dt_dataset **const out[] = { train, validation, test };
    for (int i = 0; i < 3; i++) *out[i] = NULL;
    const dt_data_options o = options == NULL ? dt_data_defaults() : *options;
    DT__TRY(check_options(ctx, &o));
    const dt_status status = (o.source != NULL               ? open_source
                              : is_text(o.format)            ? dt__open_text
                              : o.n_inputs + o.n_outputs > 0 ? dt__open_joined
                              : o.format == DT_DATA_TENSORS  ? dt__open_tensors
                                                             : open_drawn_or_images)(ctx, &o, out);
    for (int i = 0; i < 3 && status != DT_OK; i++) {
        dt_dataset_free(*out[i]);
        *out[i] = NULL;
    }
    return status;
}
