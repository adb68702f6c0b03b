/* `data:` of a recipe: its keys, and the datasets that it names. */
#include "data/dataset.h"

#include <string.h>

#define DIGITS_TRAIN 10000
#define DIGITS_TEST 2000
#define MOST_VALIDATION 0.9
#define MOST_SHIFT 1024
#define MOST_NOISE 10.0
#define MOST_IMAGES 4294967295.0 /* an IDX header's */

static const char *const formats[] = { [DT_DATA_IDX] = "idx", [DT_DATA_DIGITS] = "digits", NULL };
static const char *const tasks[] = { [DT_DATA_CLASSIFICATION] = "classification",
                                     [DT_DATA_DENOISING] = "denoising",
                                     [DT_DATA_SEGMENTATION] = "segmentation",
                                     NULL };

#define AT(field) .offset = offsetof(dt_augment_options, field)

static const dt_key augment_keys[] = {
    { "shift", DT_KEY_INT, AT(shift), .most = MOST_SHIFT, .fallback = "0",
      .text = "training images move by up to so many pixels each way, zeros come in" },
    { "crop", DT_KEY_INT, AT(crop), .most = MOST_SHIFT, .fallback = "0",
      .text =
          "the same by its other name: so many zeros around, then a window of the image's size" },
    { "flip", DT_KEY_BOOL, AT(flip), .fallback = "false",
      .text = "half of the training images, drawn anew each time, are mirrored left to right" },
    { 0 },
};

#undef AT
#define AT(field) .offset = offsetof(dt_data_options, field)

const dt_key dt_data_keys[] = {
    { "format", DT_KEY_CHOICE, AT(format), .choices = formats, .fallback = "idx",
      .text = "where images come from: IDX files as MNIST has them, or digits drawn by detent" },
    { "dir", DT_KEY_PATH, AT(dir), .text = "idx: folder that is put before relative file names" },
    { "train", DT_KEY_STRINGS, AT(train),
      .text = "idx: the training images and their labels, two files, plain or gzip" },
    { "test", DT_KEY_STRINGS, AT(test),
      .text = "idx: the test images and their labels; absent: no test" },
    { "validation", DT_KEY_REAL, AT(validation), .most = MOST_VALIDATION, .fallback = "0",
      .text = "share of the training images, the last ones, that is held back to validate" },
    { "train_count", DT_KEY_INT, AT(train_count), .most = MOST_IMAGES, .fallback = "0",
      .text = "training images, validation included; 0: digits 10000, idx all of the file" },
    { "test_count", DT_KEY_INT, AT(test_count), .most = MOST_IMAGES, .fallback = "0",
      .text = "test images; 0: digits 2000, idx all of the file" },
    { "seed", DT_KEY_INT, AT(seed), .most = DT_NO_LIMIT, .fallback = "0",
      .text = "digits: which ones are drawn; the test images are always others" },
    { "task", DT_KEY_CHOICE, AT(task), .choices = tasks, .fallback = "classification",
      .text =
          "what a model makes of an image: its class, the image without the noise that is added "
          "to it, or (digits) the class of each pixel" },
    { "noise", DT_KEY_REAL, AT(noise), .most = MOST_NOISE, .fallback = "0.25",
      .text = "denoising: deviation of the noise that is added to every byte, white being 1" },
    { "mean", DT_KEY_REALS, AT(mean), .least = -1e6, .most = 1e6, .fallback = "0", .fewest = 1,
      .text =
          "a byte p of 0 to 255 becomes (p/255 - mean) / deviation; a list: one for each channel" },
    { "deviation", DT_KEY_REALS, AT(deviation), .least = 1e-6, .most = 1e6, .fallback = "1",
      .fewest = 1, .text = "see mean" },
    { "augment", DT_KEY_MAP, AT(augment), .keys = augment_keys,
      .text = "random changes of the training images" },
    { 0 },
};

dt_data_options dt_data_defaults(void)
{
    return (dt_data_options){ .noise = 0.25, .mean = { 1, { 0 } }, .deviation = { 1, { 1 } } };
}

/* ---- opening ------------------------------------------------------------------------------ */

/* The path of a name, to be released; NULL: NOMEM. */
static char *path_of(dt_ctx *ctx, const char *dir, const char *name)
{
    if (dir == NULL || dir[0] == '\0' || name[0] == '/') return dt__copy_string(ctx, name);
    const bool ends = dir[strlen(dir) - 1] == '/';
    return dt__format_string(ctx, "%s%s%s", dir, ends ? "" : "/", name);
}

typedef struct source {
    const char *key; /* "train" or "test" */
    const dt_strings *files;
    int64_t count;
} source;

static dt_status read_files(dt_ctx *ctx, const dt_data_options *o, const source *s, int64_t classes,
                            dt_dataset **out)
{
    if (s->files->n != 2) {
        return dt_fail(ctx, DT_ERR_CONFIG,
                       "data.%s names %d files; two are wanted, [images, labels]", s->key,
                       s->files->n);
    }
    char *images = path_of(ctx, o->dir, s->files->v[0]);
    char *labels = path_of(ctx, o->dir, s->files->v[1]);
    dt_status status = DT_ERR_NOMEM;
    if (images != NULL && labels != NULL) status = dt_idx_read(ctx, images, labels, classes, out);
    if (status == DT_OK && (*out)->count == 0) {
        status = dt_fail(ctx, DT_ERR_FORMAT, "'%s' holds no images", images);
    }
    if (status == DT_OK && s->count > (*out)->count) {
        status = dt_fail(ctx, DT_ERR_CONFIG, "data.%s_count is %lld, but '%s' holds %lld images",
                         s->key, (long long)s->count, images, (long long)(*out)->count);
    }
    if (status == DT_OK && s->count > 0) (*out)->count = s->count;
    dt__release(ctx, images);
    dt__release(ctx, labels);
    return status;
}

static dt_status same_size(dt_ctx *ctx, const dt_dataset *train, const dt_dataset *test)
{
    if (train->channels == test->channels && train->height == test->height &&
        train->width == test->width)
        return DT_OK;
    return dt_fail(ctx, DT_ERR_FORMAT,
                   "data.test holds images of %lld x %lld pixels, data.train of %lld x %lld; the "
                   "same size is wanted",
                   (long long)test->height, (long long)test->width, (long long)train->height,
                   (long long)train->width);
}

static dt_status open_files(dt_ctx *ctx, const dt_data_options *o, dt_dataset **train,
                            dt_dataset **test)
{
    const source first = { "train", &o->train, o->train_count };
    const source second = { "test", &o->test, o->test_count };
    DT__TRY(read_files(ctx, o, &first, 0, train));
    if (o->test.n == 0) return DT_OK;
    DT__TRY(read_files(ctx, o, &second, (*train)->classes, test));
    return same_size(ctx, *train, *test);
}

static dt_status open_digits(dt_ctx *ctx, const dt_data_options *o, dt_dataset **train,
                             dt_dataset **test)
{
    const int64_t train_count = o->train_count > 0 ? o->train_count : DIGITS_TRAIN;
    const int64_t test_count = o->test_count > 0 ? o->test_count : DIGITS_TEST;
    static const dt_target targets[] = { [DT_DATA_CLASSIFICATION] = DT_TARGET_CLASS,
                                         [DT_DATA_DENOISING] = DT_TARGET_IMAGE,
                                         [DT_DATA_SEGMENTATION] = DT_TARGET_MASK };
    const dt_target target = targets[o->task];
    DT__TRY(dt_digits_create(ctx, train_count, (uint64_t)o->seed, target, train));
    return dt_digits_create(ctx, test_count, ~(uint64_t)o->seed, target, test);
}

/* What is to be made of the images. */
static dt_status finish(dt_ctx *ctx, const dt_data_options *o, dt_dataset *d)
{
    if (d == NULL) return DT_OK;
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
        return dt_fail(ctx, DT_ERR_CONFIG, "data.validation: %g of %lld images is none",
                       o->validation, (long long)train->count);
    }
    return dt_dataset_split(train, count, validation);
}

/* A recipe's values are in range by the keys; those of a program may not be. */
static dt_status check_options(dt_ctx *ctx, const dt_data_options *o)
{
    const struct {
        const char *key;
        bool good;
    } checks[] = {
        { "format", o->format >= 0 && o->format <= DT_DATA_DIGITS },
        { "task", o->task >= 0 && o->task <= DT_DATA_SEGMENTATION },
        { "validation", o->validation >= 0 && o->validation <= MOST_VALIDATION },
        { "train_count", o->train_count >= 0 && o->train_count <= (int64_t)MOST_IMAGES },
        { "test_count", o->test_count >= 0 && o->test_count <= (int64_t)MOST_IMAGES },
        { "seed", o->seed >= 0 },
        { "noise", o->noise >= 0 && o->noise <= MOST_NOISE },
    };
    for (int i = 0; i < DT__COUNT_OF(checks); i++) {
        if (checks[i].good) continue;
        return dt_fail(ctx, DT_ERR_CONFIG, "data.%s is out of its range", checks[i].key);
    }
    if (o->task != DT_DATA_SEGMENTATION || o->format == DT_DATA_DIGITS) return DT_OK;
    return dt_fail(ctx, DT_ERR_CONFIG, "data.task segmentation needs data.format digits");
}

dt_status dt_data_open(dt_ctx *ctx, const dt_data_options *options, dt_dataset **train,
                       dt_dataset **validation, dt_dataset **test)
{
    *train = *validation = *test = NULL;
    const dt_data_options o = options == NULL ? dt_data_defaults() : *options;
    DT__TRY(check_options(ctx, &o));
    dt_status status = (o.format == DT_DATA_IDX ? open_files : open_digits)(ctx, &o, train, test);
    if (status == DT_OK) status = finish(ctx, &o, *train);
    if (status == DT_OK) status = finish(ctx, &o, *test);
    if (status == DT_OK) status = hold_back(ctx, &o, *train, validation);
    if (status == DT_OK) return DT_OK;
    dt_dataset_free(*train);
    dt_dataset_free(*test);
    *train = *test = NULL;
    return status;
}
