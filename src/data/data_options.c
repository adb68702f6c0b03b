/* `data:` of a recipe: its keys. */
#include "data/data_options.h"

#include "data/columns/columns.h"
#include "data/signals/features.h"

#define MOST_SHIFT 1024
#define MOST_SCALE 0.99

static const char *const formats[] = {
    [DT_DATA_IDX] = "idx",         [DT_DATA_DIGITS] = "digits",
    [DT_DATA_CIFAR10] = "cifar10", [DT_DATA_CIFAR100] = "cifar100",
    [DT_DATA_PNG] = "png",         [DT_DATA_TEXT] = "text",
    [DT_DATA_TOKENS] = "tokens",   [DT_DATA_JSONL] = "jsonl",
    [DT_DATA_ADDER] = "adder",     [DT_DATA_GIVEN] = "given",
    [DT_DATA_TENSORS] = "tensors", [DT_DATA_SOUNDS] = "sounds",
    [DT_DATA_SENSORS] = "sensors", [DT_DATA_TABLE] = "table",
    [DT_DATA_FOLDER] = "folder",   NULL
};
static const char *const labels[] = { [DT_DATA_FINE] = "fine", [DT_DATA_COARSE] = "coarse", NULL };
static const char *const tasks[] = { [DT_DATA_CLASSIFICATION] = "classification",
                                     [DT_DATA_DENOISING] = "denoising",
                                     [DT_DATA_SEGMENTATION] = "segmentation",
                                     [DT_DATA_REGRESSION] = "regression",
                                     [DT_DATA_MULTI_LABEL] = "multi_label",
                                     [DT_DATA_ANOMALY] = "anomaly",
                                     NULL };
static const char *const axes[] = {
    [DT_AXIS_AUTO] = "auto", [DT_AXIS_FIRST] = "first", [DT_AXIS_LAST] = "last", NULL
};
static const char *const splits[] = { [DT_SPLIT_AUTO] = "auto",
                                      [DT_SPLIT_FILE] = "file",
                                      [DT_SPLIT_ROWS] = "rows",
                                      [DT_SPLIT_STRATIFIED] = "stratified",
                                      [DT_SPLIT_GROUP] = "group",
                                      [DT_SPLIT_TIME] = "time",
                                      NULL };
static const char *const splits_were[] = { "example", "auto", "recording", "file", NULL };

static const char *const layouts[] = { [DT_LAYOUT_NCHW] = "nchw", [DT_LAYOUT_NHWC] = "nhwc", NULL };
static const char *const orders[] = { [DT_DATA_ORDER_AUTO] = "auto",
                                      [DT_DATA_ORDER_DRAWN] = "drawn",
                                      [DT_DATA_ORDER_TIME] = "time",
                                      NULL };

#define AT(field) .offset = offsetof(dt_augment_options, field)

static const dt_key augment_keys[] = {
    { "shift", DT_KEY_INT, AT(shift), .most = MOST_SHIFT, .fallback = "0",
      .text = "most pixels, of signals time steps, by which examples are shifted; zeros fill up" },
    { "crop", DT_KEY_INT, AT(crop), .most = MOST_SHIFT, .fallback = "0",
      .text = "another name of `shift`" },
    { "flip", DT_KEY_BOOL, AT(flip), .fallback = "false",
      .text = "half of the images are mirrored left to right" },
    { "rotation", DT_KEY_REAL, AT(rotation), .most = 180, .fallback = "0",
      .text = "most degrees by which images are turned, each way" },
    { "brightness", DT_KEY_REAL, AT(brightness), .most = 1, .fallback = "0",
      .text = "most that is added to an image's pixels, or subtracted" },
    { "contrast", DT_KEY_REAL, AT(contrast), .most = 1, .fallback = "0",
      .text = "share by which an image's pixels move away from 0.5, or towards it" },
    { "erasing", DT_KEY_REAL, AT(erasing), .most = 1, .fallback = "0",
      .text = "share of images that get a black rectangle, up to half as high and wide" },
    { "mixup", DT_KEY_REAL, AT(mixup), .most = 2, .fallback = "0",
      .text = "classification of images: alpha of mixup; 0: not" },
    { "cutmix", DT_KEY_REAL, AT(cutmix), .most = 2, .fallback = "0",
      .text = "likewise of cutmix; with mixup, each batch draws one of the two" },
    { "scale", DT_KEY_REAL, AT(scale), .most = MOST_SCALE, .fallback = "0",
      .text = "tensors: examples are multiplied by 1 - scale to 1 + scale" },
    { "jitter", DT_KEY_REAL, AT(jitter), .most = DT__MOST_NOISE, .fallback = "0",
      .text = "tensors: deviation of noise added to standardized numbers" },
    { "time_mask", DT_KEY_INT, AT(time_mask), .most = DT__MOST_CONTEXT, .fallback = "0",
      .text = "signals: most time steps in a row that become 0" },
    { 0 },
};

#undef AT
#define AT(field) .offset = offsetof(dt_tensor_files, field)

static const dt_key files_keys[] = {
    { "x", DT_KEY_STRINGS, AT(x), .fallback = "!", .fewest = 1,
      .text = "arrays, tables, data bases or recordings, or patterns such as run*.npy, joined" },
    { "y", DT_KEY_PATH, AT(y),
      .text = "targets of the examples or recordings; absent: a column of the .csv" },
    { 0 },
};

#undef AT
#define AT(field) .offset = offsetof(dt_column_rule, field)

static const char *const missing[] = {
    [DT_MISSING_REFUSED] = "error",     [DT_MISSING_MEAN] = "mean",
    [DT_MISSING_MEDIAN] = "median",     [DT_MISSING_FREQUENT] = "frequent",
    [DT_MISSING_CONSTANT] = "constant", [DT_MISSING_LAST] = "last",
    [DT_MISSING_CODE] = "code",         NULL
};
static const char *const types[] = {
    [DT_COLUMN_NUMBER] = "number",   [DT_COLUMN_CATEGORY] = "category",
    [DT_COLUMN_BOOLEAN] = "boolean", [DT_COLUMN_TIME] = "time",
    [DT_COLUMN_IGNORE] = "ignore",   NULL
};
static const char *const scales[] = { [DT_SCALE_NONE] = "none",
                                      [DT_SCALE_LOG] = "log",
                                      [DT_SCALE_ROBUST] = "robust",
                                      [DT_SCALE_QUANTILE] = "quantile",
                                      NULL };

const dt_key dt__rule_keys[] = {
    { "columns", DT_KEY_STRINGS, AT(columns), .fallback = "!", .fewest = 1,
      .text = "columns, or patterns such as acc_*" },
    { "type", DT_KEY_CHOICE, AT(type), .choices = types, .fallback = "number",
      .text = "what the columns hold" },
    { "missing", DT_KEY_CHOICE, AT(missing), .choices = missing, .fallback = "error",
      .text = "what a missing field becomes" },
    { "fill", DT_KEY_STRING, AT(fill),
      .text = "missing: constant: the value, with a decimal point" },
    { "indicator", DT_KEY_BOOL, AT(indicator), .fallback = "false",
      .text = "one more number: 1 where the field is missing" },
    { "scale", DT_KEY_CHOICE, AT(scale), .choices = scales, .fallback = "none",
      .text = "how numbers are scaled" },
    { "most", DT_KEY_INT, AT(most), .most = 65535, .fallback = "0",
      .text = "category: most words, of the most frequent; 0: all" },
    { "embedded", DT_KEY_BOOL, AT(embedded), .fallback = "false",
      .text = "category: one number, its code, not one-hot" },
    { "format", DT_KEY_STRING, AT(format),
      .text = "time: its form, as \"%d.%m.%Y %H:%M\"; absent: the forms of ISO 8601" },
    { "parts", DT_KEY_STRINGS, AT(parts),
      .text = "time: seconds since the first training row (default), hour, weekday, day, month, "
              "year; sine and cosine: of_day, of_week, of_year" },
    { "words", DT_KEY_STRINGS, AT(words), .text = "further texts that mean missing" },
    { 0 },
};

static const dt_item_kind *rule_kind(int i)
{
    static const dt_item_kind kind = { "columns", "the type of columns", dt__rule_keys,
                                       sizeof(dt_column_rule) };
    return i == 0 ? &kind : NULL;
}

static const char *const separators[] = { "auto", ",", ";", "tab", "|", NULL };
static const char *const rows[] = { "refuse", "skip", NULL };

#undef AT
#define AT(field) .offset = offsetof(dt_csv_options, field)

const dt_key dt__columns_keys[] = {
    { "header", DT_KEY_BOOL, AT(header), .fallback = "true",
      .text = "the first line has names; false: columns are 0, 1, 2 and so on" },
    { "inputs", DT_KEY_STRINGS, AT(inputs),
      .text = "columns for the model, in this order, or patterns; absent: all but the targets" },
    { "target", DT_KEY_STRINGS, AT(target),
      .text = "the predicted column; regression, multi_label: one or several" },
    { "exclude", DT_KEY_STRINGS, AT(exclude), .text = "columns or patterns to leave out" },
    { "types", DT_KEY_ITEMS, AT(types), .kinds = rule_kind,
      .text = "types of columns (docs/data.md#columns); the first match applies; others are "
              "numbers" },
    { "separator", DT_KEY_CHOICE, AT(separator), .choices = separators, .fallback = "auto",
      .text = "what separates fields" },
    { "decimal", DT_KEY_CHOICE, AT(decimal), .choices = dt__csv_decimals, .fallback = "auto",
      .text = "decimal sign of all files" },
    { "thousands", DT_KEY_CHOICE, AT(thousands), .choices = dt__csv_thousands, .fallback = "auto",
      .text = "what separates thousands in all files" },
    { "encoding", DT_KEY_CHOICE, AT(encoding), .choices = dt__csv_encodings, .fallback = "auto",
      .text = "auto: utf-8, or utf-16 by its byte order mark" },
    { "comment", DT_KEY_STRING, AT(comment),
      .text = "lines that begin with this sign, such as #, are skipped" },
    { "rows", DT_KEY_CHOICE, AT(rows), .choices = rows, .fallback = "refuse",
      .text = "whether rows with another number of fields are skipped" },
    { 0 },
};

#undef AT
#define AT(field) .offset = offsetof(dt_data_input, field)

static const dt_key input_keys[] = {
    { "name", DT_KEY_STRING, AT(name), .fallback = "!", .text = "the model's input" },
    { "tensor", DT_KEY_STRING, AT(tensor),
      .text = ".npz, .safetensors: the array; absent: that of this name" },
    { "columns", DT_KEY_STRINGS, AT(columns),
      .text = ".csv: columns or patterns; absent: that of this name" },
    { 0 },
};

#undef AT
#define AT(field) .offset = offsetof(dt_data_output, field)

const char *const dt__weights_names[] = { "none", "balanced", NULL };

static const dt_key output_keys[] = {
    { "name", DT_KEY_STRING, AT(name), .fallback = "!", .text = "the model's output" },
    { "tensor", DT_KEY_STRING, AT(tensor), .text = "as in data.inputs" },
    { "columns", DT_KEY_STRINGS, AT(columns), .text = "as in data.inputs" },
    { "task", DT_KEY_CHOICE, AT(task), .choices = tasks, .fallback = "classification",
      .text = "what its targets are: classification, regression or multi_label" },
    { "weight", DT_KEY_REAL, AT(weight), .least = 1e-30, .most = 1e30, .fallback = "1",
      .text = "factor of its loss in the sum" },
    { "loss", DT_KEY_STRING, AT(loss), .text = "as train.loss" },
    { "huber_delta", DT_KEY_REAL, AT(huber_delta), .least = 1e-30, .most = 1e30, .fallback = "1",
      .text = "as train.huber_delta" },
    { "class_weights", DT_KEY_REALS, AT(class_weights), .choices = dt__weights_names, .most = 1e30,
      .fallback = "none", .fewest = 1, .text = "as train.class_weights" },
    { 0 },
};

#undef AT
#define AT(field) .offset = offsetof(dt_window, field)

static const dt_key window_keys[] = {
    { "length", DT_KEY_INT, AT(length), .most = DT__MOST_CONTEXT, .fallback = "0",
      .text = "time steps of an example; shorter recordings get zeros; 0: by `seconds`" },
    { "stride", DT_KEY_INT, AT(stride), .most = DT__MOST_CONTEXT, .fallback = "0",
      .text = "time steps from one example to the next; 0: `length`" },
    { "seconds", DT_KEY_REAL, AT(seconds), .most = 1e9, .fallback = "0",
      .text = "of series with a time: in place of `length`" },
    { 0 },
};

#undef AT
#define AT(field) .offset = offsetof(dt_standard, field)

static const dt_key standard_keys[] = {
    { "mean", DT_KEY_REALS, AT(mean), .least = -1e30, .most = 1e30,
      .text = "one number, or one for each channel; absent: measured" },
    { "deviation", DT_KEY_REALS, AT(deviation), .least = 1e-30, .most = 1e30,
      .text = "see mean; both are given, or neither" },
    { "axis", DT_KEY_CHOICE, AT(axis), .choices = axes, .fallback = "auto",
      .text = "dimension of channels; auto: the last of tables and signals, else the first" },
    { 0 },
};

#undef AT
#define AT(field) .offset = offsetof(dt_split_options, field)
#define BY_KEY DT_KEY_CHOICE, .choices = splits, .choices_were = splits_were, .fallback = "auto"

static const dt_key split_keys[] = {
    { "by", BY_KEY, AT(by), .text = "as data.split, where that is a word" },
    { "column", DT_KEY_STRING, AT(column),
      .text = "group, time: a column, no input unless columns.inputs has it" },
    { "test", DT_KEY_REAL, AT(test), .most = DT__MOST_VALIDATION, .fallback = "0",
      .text = "share of the training data to test" },
    { "folds", DT_KEY_INT, AT(folds), .most = DT__MOST_FOLDS, .fallback = "0",
      .text = "parts of the training data, one of which is tested; 0: not" },
    { "fold", DT_KEY_INT, AT(fold), .most = DT__MOST_FOLDS - 1, .fallback = "0",
      .text = "which of them, from 0" },
    { 0 },
};

#undef AT
#define AT(field) .offset = offsetof(dt_data_options, field)
#define FILES_OF(field)                                                                            \
    DT_KEY_MAP, AT(field), .keys = files_keys, .other_form = true,                                 \
                           .given = offsetof(dt_data_options, field.given)

const dt_key dt_data_keys[] = {
    { "format", DT_KEY_CHOICE, AT(format), .choices = formats, .fallback = "idx",
      .text = "form of the files (docs/data.md); given: datasets of a C program" },
    { "source", DT_KEY_STRING, AT(source),
      .text = "given: the registered source; absent: the program's datasets" },
    { "dir", DT_KEY_PATH, AT(dir), .text = "folder that is put before relative file names" },
    { "train", DT_KEY_STRINGS, AT(train),
      .text = "training files; absent: the usual names; idx: images, labels; tensors: recordings "
              "labelled by their folders, or patterns such as walk/*.wav" },
    { "train", FILES_OF(train_tensors), .text = "tensors: files with arrays" },
    { "test", DT_KEY_STRINGS, AT(test),
      .text = "likewise to test; absent: none of idx, else the usual names" },
    { "test", FILES_OF(test_tensors), .text = "tensors: the same of the test data" },
    { "labels", DT_KEY_CHOICE, AT(labels), .choices = labels, .fallback = "fine",
      .text = "cifar100: its 100 classes, or 20 coarse ones" },
    { "channels", DT_KEY_INT, AT(channels), .least = 1, .most = 3, .fallback = "3",
      .text = "png, folder: 1 (grey) or 3 (red, green, blue)" },
    { "size", DT_KEY_PAIR, AT(size), .least = 1, .most = 65535,
      .text = "png, folder: height and width; absent: all have one size" },
    { "validation", DT_KEY_REAL, AT(validation), .most = DT__MOST_VALIDATION, .fallback = "0",
      .text = "share of the training data; the last, or (tensors) by data.split" },
    { "validation", DT_KEY_STRINGS, AT(validation_files), .other_form = true,
      .text = "tensors: recordings of their own, as in train" },
    { "validation", FILES_OF(validation_tensors), .text = "tensors: files of their own" },
    { "split", BY_KEY, AT(split.by),
      .text = "tensors: how validation and test examples are chosen "
              "(docs/data.md#validation-and-test)" },
    { "split", DT_KEY_MAP, AT(split), .keys = split_keys, .other_form = true,
      .given = offsetof(dt_data_options, split.given), .text = "tensors: the same, with settings" },
    { "file_names", DT_KEY_STRING, AT(file_names),
      .text = "tensors: form of file names, such as '{label}_{group}_{index}.wav'" },
    { "layout", DT_KEY_CHOICE, AT(layout), .choices = layouts, .fallback = "nchw",
      .choices_were = (const char *const[]){ "as_it_is", "nchw", NULL },
      .text = "tensors: nhwc: channels are the last dimension of examples, and become the first" },
    { "validation_order", DT_KEY_CHOICE, AT(validation_order), .choices = orders,
      .fallback = "auto",
      .text = "tensors, data.split auto and file: examples drawn, every class in proportion, or "
              "the last (time); auto: drawn if independent" },
    { "columns", DT_KEY_MAP, AT(columns), .keys = dt__columns_keys,
      .text = "tensors: columns of .csv files" },
    { "cache", DT_KEY_STRING, AT(cache), .fallback = "auto", .resumable = true,
      .text = "tensors: folder of the cache of large .csv files; auto: detent-cache beside "
              "run.dir; no: none" },
    { "inputs", DT_KEY_LIST, AT(inputs), .most = DT_MAX_SHAPES, .keys = input_keys,
      .size = sizeof(dt_data_input), .count = offsetof(dt_data_options, n_inputs),
      .text = "tensors: inputs of a model that has several" },
    { "outputs", DT_KEY_LIST, AT(outputs), .most = DT_MAX_JOINED, .keys = output_keys,
      .size = sizeof(dt_data_output), .count = offsetof(dt_data_options, n_outputs),
      .text = "tensors: outputs of a model that has several" },
    { "window", DT_KEY_MAP, AT(window), .keys = window_keys,
      .given = offsetof(dt_data_options, window.given),
      .text = "tensors: cuts recordings [time, channels] into examples" },
    { "series", DT_KEY_MAP, AT(series), .keys = dt__series_keys,
      .given = offsetof(dt_data_options, series.given),
      .text = "tensors: a .csv has a row for each moment; windows of rows are examples" },
    { "standardize", DT_KEY_BOOL, AT(standardize), .fallback = "false",
      .text = "arrays: (v - mean) / deviation of each channel of the training examples" },
    { "standardize", DT_KEY_MAP, AT(standard), .keys = standard_keys, .other_form = true,
      .given = offsetof(dt_data_options, standard.given),
      .text = "arrays: the same, with settings" },
    { "train_count", DT_KEY_INT, AT(train_count), .most = DT__MOST_IMAGES, .fallback = "0",
      .text =
          "training examples, validation included; 0: drawn data 10000 (sounds 3000), else all" },
    { "test_count", DT_KEY_INT, AT(test_count), .most = DT__MOST_IMAGES, .fallback = "0",
      .text = "test examples; 0: drawn data 2000 (sounds 1000), else all" },
    { "seed", DT_KEY_INT, AT(seed), .most = DT_NO_LIMIT, .fallback = "0",
      .text = "drawn data: which examples are drawn; tensors: which are held back" },
    { "task", DT_KEY_CHOICE, AT(task), .choices = tasks, .fallback = "classification",
      .text = "what the model predicts; anomaly: its input, whose error is the score" },
    { "normal", DT_KEY_STRINGS, AT(normal),
      .text = "anomaly: labels of normal examples; absent: 0, normal and good" },
    { "noise", DT_KEY_REAL, AT(noise), .most = DT__MOST_NOISE, .fallback = "0.25",
      .text = "denoising: deviation of a pixel's noise, where white is 1" },
    { "mean", DT_KEY_REALS, AT(mean), .least = -1e6, .most = 1e6, .fallback = "0", .fewest = 1,
      .text = "a byte p becomes (p/255 - mean) / deviation; a list: one for each channel" },
    { "deviation", DT_KEY_REALS, AT(deviation), .least = 1e-6, .most = 1e6, .fallback = "1",
      .fewest = 1, .text = "see mean" },
    { "augment", DT_KEY_MAP, AT(augment), .keys = augment_keys,
      .text = "random changes of the training images or signals" },
    { "features", DT_KEY_MAP, AT(features), .keys = dt__features_keys,
      .text = "sounds, tensors: what a model sees of signals [time, channels]" },
    { "tokenizer", DT_KEY_PATH, AT(tokenizer),
      .text = "bytes, chars (those of the training files), or a file; absent: bytes, of tokens "
              "unknown" },
    { "context", DT_KEY_INT, AT(context), .least = 1, .most = DT__MOST_CONTEXT, .fallback = "64",
      .text = "length of windows; jsonl: most tokens of an example, others are left out" },
    { "prompt", DT_KEY_STRING, AT(prompt),
      .text = "jsonl: form of prompts (docs/data.md#prompt-formats); absent: the field prompt, "
              "or running text" },
    { "completion", DT_KEY_STRING, AT(completion),
      .text = "jsonl: likewise of the completions; absent: the field completion" },
    { "chat", DT_KEY_CHOICE, AT(chat), .choices = dt__chat_names, .fallback = "auto",
      .text = "jsonl: form of chats (docs/data.md#chats)" },
    { "system", DT_KEY_STRING, AT(system),
      .text = "jsonl: system message of chats that have none" },
    { 0 },
};

#define BIT(choice) (1U << (choice))

bool dt__task_fits(int format, int task)
{
    const unsigned images = BIT(DT_DATA_IDX) | BIT(DT_DATA_DIGITS) | BIT(DT_DATA_CIFAR10) |
                            BIT(DT_DATA_CIFAR100) | BIT(DT_DATA_PNG) | BIT(DT_DATA_FOLDER);
    const unsigned fit[] = {
        [DT_DATA_CLASSIFICATION] = ~0U,
        [DT_DATA_DENOISING] = images,
        [DT_DATA_SEGMENTATION] = BIT(DT_DATA_DIGITS),
        [DT_DATA_REGRESSION] = BIT(DT_DATA_TABLE) | BIT(DT_DATA_TENSORS),
        [DT_DATA_MULTI_LABEL] = BIT(DT_DATA_TABLE) | BIT(DT_DATA_TENSORS),
        [DT_DATA_ANOMALY] = BIT(DT_DATA_SENSORS) | BIT(DT_DATA_TENSORS),
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
        .columns.header = true,
    };
}
