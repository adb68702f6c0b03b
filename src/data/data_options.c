/* `data:` of a recipe: its keys. */
#include "data/data_options.h"

#include "data/features.h"

#define MOST_SHIFT 1024

static const char *const formats[] = { [DT_DATA_IDX] = "idx",
                                       [DT_DATA_DIGITS] = "digits",
                                       [DT_DATA_CIFAR10] = "cifar10",
                                       [DT_DATA_CIFAR100] = "cifar100",
                                       [DT_DATA_PNG] = "png",
                                       [DT_DATA_TEXT] = "text",
                                       [DT_DATA_TOKENS] = "tokens",
                                       [DT_DATA_JSONL] = "jsonl",
                                       [DT_DATA_ADDER] = "adder",
                                       [DT_DATA_SOUNDS] = "sounds",
                                       [DT_DATA_SENSORS] = "sensors",
                                       [DT_DATA_TABLE] = "table",
                                       NULL };
static const char *const labels[] = { [DT_DATA_FINE] = "fine", [DT_DATA_COARSE] = "coarse", NULL };
static const char *const tasks[] = { [DT_DATA_CLASSIFICATION] = "classification",
                                     [DT_DATA_DENOISING] = "denoising",
                                     [DT_DATA_SEGMENTATION] = "segmentation",
                                     [DT_DATA_REGRESSION] = "regression",
                                     [DT_DATA_MULTI_LABEL] = "multi_label",
                                     [DT_DATA_ANOMALY] = "anomaly",
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
      .text =
          "where images come from: IDX files as MNIST has them, digits drawn by detent, binary "
          "files of CIFAR, or folders of PNG files by class; or tokens: files of text, a file of "
          "ids, lines of JSON, or sums of three digits; or arrays drawn by detent: sounds, windows "
          "of motion sensors, a table" },
    { "dir", DT_KEY_PATH, AT(dir), .text = "folder that is put before relative file names" },
    { "train", DT_KEY_STRINGS, AT(train),
      .text = "idx: the training images and their labels, two files, plain or gzip; cifar: its "
              "files, absent: data_batch_1.bin to 5, or train.bin; png: one folder, absent: train; "
              "text and jsonl: "
              "files; tokens: one file, u16, or u32 where its name ends in .u32.bin" },
    { "test", DT_KEY_STRINGS, AT(test),
      .text = "the same for the tests; absent: idx none, else test_batch.bin, test.bin or test, "
              "where it is there" },
    { "labels", DT_KEY_CHOICE, AT(labels), .choices = labels, .fallback = "fine",
      .text = "cifar100: its 100 classes, or the 20 that they belong to" },
    { "channels", DT_KEY_INT, AT(channels), .least = 1, .most = 3, .fallback = "3",
      .text = "png: 1 (grey) or 3 (red, green, blue), whatever the files hold" },
    { "validation", DT_KEY_REAL, AT(validation), .most = DT__MOST_VALIDATION, .fallback = "0",
      .text = "share of the training images or lines, the last ones, or of the text, its end, that "
              "is held "
              "back to validate" },
    { "train_count", DT_KEY_INT, AT(train_count), .most = DT__MOST_IMAGES, .fallback = "0",
      .text = "training images or sums, validation included; 0: drawn data 10000 (sounds "
              "3000), else all" },
    { "test_count", DT_KEY_INT, AT(test_count), .most = DT__MOST_IMAGES, .fallback = "0",
      .text = "test images or sums; 0: drawn data 2000 (sounds 1000), else all" },
    { "seed", DT_KEY_INT, AT(seed), .most = DT_NO_LIMIT, .fallback = "0",
      .text = "drawn data: which examples are drawn; those to test with are always others" },
    { "task", DT_KEY_CHOICE, AT(task), .choices = tasks, .fallback = "classification",
      .text =
          "what a model makes of an example: its class; of an image: the image without the noise "
          "that is added to it, or (digits) the class of each pixel; of numbers: other numbers "
          "(regression), several classes at once (multi_label), or themselves, so that the error "
          "tells examples that are not normal (anomaly)" },
    { "noise", DT_KEY_REAL, AT(noise), .most = DT__MOST_NOISE, .fallback = "0.25",
      .text = "denoising: deviation of the noise that is added to every byte, white being 1" },
    { "mean", DT_KEY_REALS, AT(mean), .least = -1e6, .most = 1e6, .fallback = "0", .fewest = 1,
      .text =
          "a byte p of 0 to 255 becomes (p/255 - mean) / deviation; a list: one for each channel" },
    { "deviation", DT_KEY_REALS, AT(deviation), .least = 1e-6, .most = 1e6, .fallback = "1",
      .fewest = 1, .text = "see mean" },
    { "augment", DT_KEY_MAP, AT(augment), .keys = augment_keys,
      .text = "random changes of the training images" },
    { "features", DT_KEY_MAP, AT(features), .keys = dt__features_keys,
      .text = "signals: what a model sees of them" },
    { "tokenizer", DT_KEY_PATH, AT(tokenizer),
      .text = "text and jsonl: bytes, chars (the characters of the training files), or a file: a "
              "tokenizer.json, or one of detent tokenize; absent: bytes. tokens: the file of the "
              "tokenizer that made the ids; absent: unknown" },
    { "context", DT_KEY_INT, AT(context), .least = 1, .most = DT__MOST_CONTEXT, .fallback = "64",
      .text = "text, tokens: length of the windows that are read; jsonl: tokens of a prompt with "
              "its completion at most, longer ones are left out" },
    { 0 },
};

#define BIT(choice) (1U << (choice))

bool dt__task_fits(int format, int task)
{
    const unsigned images = BIT(DT_DATA_IDX) | BIT(DT_DATA_DIGITS) | BIT(DT_DATA_CIFAR10) |
                            BIT(DT_DATA_CIFAR100) | BIT(DT_DATA_PNG);
    const unsigned fit[] = {
        [DT_DATA_CLASSIFICATION] = ~0U,
        [DT_DATA_DENOISING] = images,
        [DT_DATA_SEGMENTATION] = BIT(DT_DATA_DIGITS),
        [DT_DATA_REGRESSION] = BIT(DT_DATA_TABLE),
        [DT_DATA_MULTI_LABEL] = BIT(DT_DATA_TABLE),
        [DT_DATA_ANOMALY] = BIT(DT_DATA_SENSORS),
    };
    return (fit[task] & BIT(format)) != 0;
}

dt_data_options dt_data_defaults(void)
{
    return (dt_data_options){
        .channels = 3,
        .noise = 0.25,
        .context = 64,
        .mean = { 1, { 0 } },
        .deviation = { 1, { 1 } },
        .features = dt_features_defaults(),
    };
}
