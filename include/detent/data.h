/* data.h: datasets of images with their targets or of tokens, batches, shuffling, augmentation.
 */
#ifndef DETENT_DATA_H
#define DETENT_DATA_H

#include <detent/detent.h>
#include <detent/keys.h>
#include <detent/text.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Examples with a target for each of them: images in memory, pixels u8 [count, channels, height,
 * width], or sequences of tokens. */
typedef struct dt_dataset dt_dataset;

/* What a model is to make of an example. */
typedef enum dt_target {
    DT_TARGET_CLASS, /* of an image: its label, in [0, classes) */
    DT_TARGET_IMAGE, /* another image of its size */
    DT_TARGET_MASK,  /* a class in [0, classes) for each pixel: [height, width] */
    DT_TARGET_TOKENS /* of tokens: behind each the next one */
} dt_target;

/* Gives a dataset up; no loader may use it any more. NULL is allowed. */
DT_API void dt_dataset_free(dt_dataset *d);

DT_API int64_t dt_dataset_count(const dt_dataset *d);    /* examples, in order */
DT_API int64_t dt_dataset_channels(const dt_dataset *d); /* bytes of a pixel; of tokens 0 */
DT_API int64_t dt_dataset_height(const dt_dataset *d);   /* rows of pixels */
DT_API int64_t dt_dataset_width(const dt_dataset *d);    /* pixels in a row */
DT_API dt_target dt_dataset_target(const dt_dataset *d); /* what its targets are */
/* As declared, or the largest label + 1; of tokens the vocabulary; 0 where targets are images. */
DT_API int64_t dt_dataset_classes(const dt_dataset *d);

/* Image i, lent: channels * height * width bytes. NULL with ARG where there is none. */
DT_API const uint8_t *dt_dataset_image(const dt_dataset *d, int64_t i);

/* Its label; -1 with ARG where there is none, or targets are no labels. */
DT_API int dt_dataset_label(const dt_dataset *d, int64_t i);

/* The image or mask that is its target, lent: channels * height * width or height * width bytes.
 * NULL with ARG where there is none, or targets are labels. */
DT_API const uint8_t *dt_dataset_target_image(const dt_dataset *d, int64_t i);

/* Tokens of an example at most; 0 where examples are images. */
DT_API int64_t dt_dataset_context(const dt_dataset *d);

/* What made tokens of text, lent; NULL where nothing did, or nobody said. */
DT_API const dt_tokenizer *dt_dataset_tokenizer(const dt_dataset *d);

/* Whether examples are prompts with their completions, each with a beginning and an end of its
 * own. */
DT_API bool dt_dataset_is_prompted(const dt_dataset *d);

/* Images and targets in the caller's memory. */
typedef struct dt_images {
    int64_t count, channels, height, width;
    dt_target target;
    int64_t classes;        /* 1 to 256; not read where targets are images */
    const uint8_t *pixels;  /* [count, channels, height, width] */
    const uint8_t *targets; /* [count] labels, [count, channels, height, width] images, or [count,
                               height, width] masks */
} dt_images;

/* A dataset that holds a copy of `images`. Errors: ARG (extents, a class out of range), NOMEM. */
DT_API dt_status dt_dataset_create(dt_ctx *ctx, const dt_images *images, dt_dataset **out);

/* What a loader makes of a byte p of channel c:
 *     x = (p/255 - mean[c]) / deviation[c]
 * Either list holds one number for all channels or one for each; before the call they are 0 and 1.
 * Errors: ARG (other lengths; numbers that are not finite, deviations that are not above 0). */
DT_API dt_status dt_dataset_normalize(dt_dataset *d, const dt_reals *mean,
                                      const dt_reals *deviation);

/* Makes the task of denoising: each image becomes its own target, the old targets are given up, and
 * a loader adds noise of deviation `noise`, in units of white, to every byte of x:
 *     x = (p/255 - mean) / deviation + noise / deviation z
 * z is the sum of eight uniform bytes, scaled to deviation 1: nearly normal, within +-4.9, from +
 * and * alone. It is drawn anew in each epoch. Errors: ARG (noise negative or not finite). */
DT_API dt_status dt_dataset_denoise(dt_dataset *d, double noise);

/* Reads IDX files, plain or gzip (known by content, not by name): images u8 of rank 3, labels u8 of
 * rank 1; no images is allowed, images without pixels are not. `classes` 0: found from the labels;
 * else a label outside is an error. Errors, naming the file and what would be right: ARG (classes
 * outside 0...256), IO (missing, unreadable), FORMAT (magic, type, rank, truncation, trailing
 * bytes, damaged gzip, counts that differ, labels), NOMEM. */
DT_API dt_status dt_idx_read(dt_ctx *ctx, const char *images, const char *labels, int64_t classes,
                             dt_dataset **out);

typedef enum dt_cifar {
    DT_CIFAR10,
    DT_CIFAR100_FINE,  /* 100 classes */
    DT_CIFAR100_COARSE /* 20 of them */
} dt_cifar;

/* Reads binary files of CIFAR-10 or CIFAR-100, plain or gzip, one after the other into one dataset
 * of 3 x 32 x 32 images. Errors, naming the file and what would be right: ARG (no file), IO, FORMAT
 * (sizes that are no multiple of an image's, no images, labels out of range, damaged gzip, more
 * than 2^22 images), NOMEM. */
DT_API dt_status dt_cifar_read(dt_ctx *ctx, dt_cifar kind, const dt_strings *paths,
                               dt_dataset **out);

typedef struct dt_png_options {
    int64_t channels; /* 1: grey, 3: red, green, blue; default 3 */
    int64_t count;    /* at most so many images, of every class its share; default 0: all */
    const char
        *classes; /* the folder whose classes count, as for test images; default NULL: itself */
} dt_png_options;

/* The defaults of dt_png_read. */
DT_API dt_png_options dt_png_defaults(void);

/* Reads folder/<class>/<name>.png: one class for each folder that is there, in the order of their
 * names' bytes; in a class, images in that order too. The dataset takes from every class in
 * proportion, so that its first images and its last hold all of them. All images have one size.
 * Grey, palette and colour of any depth become bytes of the channels that are wanted: 16 bits are
 * rounded to 8, colour becomes grey by 0.299 r + 0.587 g + 0.114 b, transparency is left out. Names
 * that begin with a dot and other files are passed over. Errors, naming the file and what would be
 * right: ARG (channels, count), IO, FORMAT (no PNG file, a damaged one, another size, no class,
 * more than 256, a class that `classes` has not, a class without images), NOMEM. */
DT_API dt_status dt_png_read(dt_ctx *ctx, const char *folder, const dt_png_options *options,
                             dt_dataset **out);

/* Writes grey images and their labels as two IDX files, gzip where the name ends in .gz. Equal
 * datasets give equal bytes. Both are written whole under other names, synced, then renamed: a file
 * that stood there before is kept where anything fails. Errors: ARG (other images, the same name
 * twice), IO, NOMEM. */
DT_API dt_status dt_idx_write(const dt_dataset *d, const char *images, const char *labels);

/* `count` grey digits of 28 x 28 drawn from strokes with random slant, thickness, shift, scale and
 * noise; image i and its target depend on (seed, i) alone and are the same on every machine.
 * Targets:
 *     labels  the digit, 0 to 9
 *     masks   digit + 1 where its pen covers at least half of the pixel, else 0: 11 classes
 *     images  the image itself, drawn without noise, for dt_dataset_denoise to add some
 * Errors: ARG (count, no such target), NOMEM. */
DT_API dt_status dt_digits_create(dt_ctx *ctx, int64_t count, uint64_t seed, dt_target target,
                                  dt_dataset **out);

/* Splits off the last `count` examples: *out gets them, `d` keeps the others. Both share the bytes;
 * either may be freed first. Errors: ARG (count outside 0...the dataset's), NOMEM. */
DT_API dt_status dt_dataset_split(dt_dataset *d, int64_t count, dt_dataset **out);

/* ---- tokens --------------------------------------------------------------------------------- */

/* Running text: a copy of `n` ids in [0, vocab), read in windows of T = `context` tokens. In order,
 * window w begins at token w T, and the last one is shorter: every token but the first is predicted
 * once. Shuffled, the windows of epoch e begin at an offset in [0, T) drawn from (seed, e), and
 * what is left at both ends is not read; so neither an epoch nor a batch has windows of another
 * length. Errors: ARG (an id outside, n below 2, context below 1), NOMEM. */
DT_API dt_status dt_text_create(dt_ctx *ctx, const int32_t *ids, int64_t n, int64_t vocab,
                                int64_t context, dt_dataset **out);

/* Sums of three digits: "123+456=" is the prompt, the four digits of the sum, lowest first, the
 * completion: "9750". The million pairs stand in an order that `seed` draws; these are those at
 * places first ... first + count - 1 of it. The tokenizer is the characters + 0 to 9 =. Errors: ARG
 * (places outside 0...999,999), NOMEM. */
DT_API dt_status dt_adder_create(dt_ctx *ctx, int64_t first, int64_t count, uint64_t seed,
                                 dt_dataset **out);

/* ---- `data:` of a recipe -------------------------------------------------------------------- */

typedef struct dt_augment_options {
    int64_t shift; /* each image moves by up to so many pixels each way, zeros come in */
    int64_t
        crop;  /* so many zeros around each image, then its size is cut out at random: the same */
    bool flip; /* every second image, at random, is mirrored left to right */
} dt_augment_options;

typedef enum dt_data_format {
    DT_DATA_IDX,
    DT_DATA_DIGITS,
    DT_DATA_CIFAR10,
    DT_DATA_CIFAR100,
    DT_DATA_PNG,
    DT_DATA_TEXT,   /* files of plain text, running */
    DT_DATA_TOKENS, /* a file of ids, running */
    DT_DATA_JSONL,  /* lines {"text": ...}, running, or {"prompt": ..., "completion": ...} */
    DT_DATA_ADDER   /* dt_adder_create */
} dt_data_format;

typedef enum dt_data_labels { DT_DATA_FINE, DT_DATA_COARSE } dt_data_labels;

typedef enum dt_data_task {
    DT_DATA_CLASSIFICATION,
    DT_DATA_DENOISING,   /* dt_dataset_denoise: of any format */
    DT_DATA_SEGMENTATION /* of digits */
} dt_data_task;

typedef struct dt_data_options {
    int format; /* dt_data_format */
    const char *dir;
    dt_strings train,
        test;          /* idx: images, labels; cifar, text, jsonl: files; png: a folder; tokens:
                               a file; none: the usual */
    int labels;        /* cifar100: dt_data_labels */
    int64_t channels;  /* png: 1 or 3 */
    double validation; /* share of the training data split off at the end */
    int64_t
        train_count;    /* the first so many images or sums; 0: digits and adder 10,000, else all */
    int64_t test_count; /* the same; 0: digits and adder 2,000, else all */
    int64_t seed;       /* digits, adder */
    int task;           /* dt_data_task */
    double noise;       /* denoising: its deviation, white being 1 */
    dt_reals mean, deviation; /* of dt_dataset_normalize; none: 0 and 1 */
    dt_augment_options augment;
    const char *tokenizer; /* text, jsonl: "bytes", "chars" or a file; tokens: a file or NULL */
    const char
        *given; /* text of dt_tokenizer_text that stands in its place; NULL: none. No key: a model's
                          own, where it is evaluated */
    int64_t context; /* of text, tokens and jsonl: tokens of an example */
} dt_data_options;

/* The defaults of `data:`. */
DT_API dt_data_options dt_data_defaults(void);

extern DT_API const dt_key dt_data_keys[];

/* Opens what the options name. `dir` is put before names of data files that are not absolute. The
 * test digits are those of seed ~seed, which no recipe can train on; test images of files must have
 * the size and the classes of the training images. Sums to test with are the last of the adder's
 * order. Text is cut for validation at a character, JSON lines between two of them; examples longer
 * than the context are left out, and the context's log says how many. *validation and *test come
 * back NULL where there is none, *train where test text alone is named. Errors: CONFIG (options,
 * naming their keys first: "data.context is ..."; also files that are empty, characters that the
 * tokenizer has not), those of dt_idx_read. */
DT_API dt_status dt_data_open(dt_ctx *ctx, const dt_data_options *options, dt_dataset **train,
                              dt_dataset **validation, dt_dataset **test);

/* ---- batches -------------------------------------------------------------------------------- */

/* Batches of a dataset, epoch after epoch. The order of epoch e depends on (seed, e) alone, as does
 * where windows of running text begin, and an image's augmentation and noise on (seed, e, its place
 * in that order), so a position in the data is two integers. What moves an image moves a target
 * image or mask with it; class 0 comes in. */
typedef struct dt_loader dt_loader;

typedef struct dt_loader_options {
    int64_t batch_size;         /* default 64 */
    bool shuffle;               /* default true; false: the dataset's order */
    bool drop_last;             /* default false; true: leave a short last batch out */
    uint64_t seed;              /* default 0 */
    dt_augment_options augment; /* default none */
} dt_loader_options;

/* The defaults of a loader. */
DT_API dt_loader_options dt_loader_defaults(void);

typedef struct dt_position {
    int64_t epoch;
    int64_t batch; /* within the epoch: the next one */
} dt_position;

/* The dataset must outlive the loader and not be split meanwhile. The order takes 8 bytes an
 * example. Errors: ARG (an option, a dataset that fills no batch), NOMEM. */
DT_API dt_status dt_loader_create(const dt_dataset *d, const dt_loader_options *options,
                                  dt_loader **out);

/* Gives a loader and its tensors up. NULL is allowed. */
DT_API void dt_loader_free(dt_loader *l);

DT_API int64_t dt_loader_examples(const dt_loader *l);     /* in an epoch */
DT_API int64_t dt_loader_batches(const dt_loader *l);      /* in an epoch, at least 1 */
DT_API dt_position dt_loader_position(const dt_loader *l); /* of the next batch */

/* Goes to a batch; nothing is read before. Errors: ARG where no such batch exists. */
DT_API dt_status dt_loader_seek(dt_loader *l, dt_position position);

/* Labels that count in the next `batches` batches, at most to the end of the epoch: of images every
 * value of a target, of tokens those that are not -100. */
DT_API int64_t dt_loader_labels(dt_loader *l, int64_t batches);

/* The next batch: *x f32 [batch, channels, height, width]; *target, by what the dataset's targets
 * are,
 *     labels  i32 [batch]
 *     images  f32 [batch, channels, height, width], p/255
 *     masks   i32 [batch, height, width]
 *     tokens  i32 [batch, context], as x is: target[t] follows x[t]; -100 where nothing counts, in
 *             prompts and behind the end of what is shorter
 * both lent by the loader and overwritten by the next call. After the last batch of an epoch the
 * next epoch begins. Nothing is allocated. Errors: STATE (somebody froze the tensors). */
DT_API dt_status dt_loader_next(dt_loader *l, dt_tensor **x, dt_tensor **target);

#ifdef __cplusplus
}
#endif
#endif
