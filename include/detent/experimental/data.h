/* experimental/data.h: datasets of images, sounds, tables and tokens, features of signals, several
 * inputs and outputs, `data:` of a recipe. */
#ifndef DETENT_EXPERIMENTAL_DATA_H
#define DETENT_EXPERIMENTAL_DATA_H

#include <detent/data.h>
#include <detent/experimental/columns.h>
#include <detent/experimental/detent.h>
#include <detent/experimental/keys.h>
#include <detent/experimental/text.h>

#ifdef __cplusplus
extern "C" {
#endif

DT_API int64_t dt_dataset_channels(const dt_dataset *d); /* bytes per pixel; 0: not images */
DT_API int64_t dt_dataset_height(const dt_dataset *d);   /* rows of an image; else 0 */
DT_API int64_t dt_dataset_width(const dt_dataset *d);    /* columns of an image; else 0 */
DT_API dt_target dt_dataset_target(const dt_dataset *d); /* the type of its targets */
/* The number of classes: as declared, or the largest label + 1; for tokens the size of the
 * vocabulary; 0 if targets are images, numbers, bits or anomalies. */
DT_API int64_t dt_dataset_classes(const dt_dataset *d);

/* The numbers that a model outputs for each target: the number of classes for labels, masks and
 * tokens, k for numbers and bits, 0 if targets are images or the examples themselves. */
DT_API int64_t dt_dataset_outputs(const dt_dataset *d);

/* The name of class i, or of number i of a target, lent; NULL if it has none. */
DT_API const char *dt_dataset_class_name(const dt_dataset *d, int64_t i);

/* The number of columns that dt_csv_options.keep selects. */
DT_API int64_t dt_dataset_kept(const dt_dataset *d);
/* The name of such a column; NULL if i is out of range. */
DT_API const char *dt_dataset_kept_name(const dt_dataset *d, int64_t column);
/* The text of that column in the row of an example; NULL if i is out of range. */
DT_API const char *dt_dataset_kept_text(const dt_dataset *d, int64_t column, int64_t example);

/* Image i, lent: channels * height * width bytes. NULL with ARG if there is none. */
DT_API const uint8_t *dt_dataset_image(const dt_dataset *d, int64_t i);

/* The label of example i, an image or an array; -1 with ARG if there is none, or targets are not
 * labels. */
DT_API int dt_dataset_label(const dt_dataset *d, int64_t i);

/* The target image or mask of example i, lent: channels * height * width or height * width bytes.
 * NULL with ARG if there is none, or targets are labels. */
DT_API const uint8_t *dt_dataset_target_image(const dt_dataset *d, int64_t i);

/* The largest number of tokens of an example; 0 for images. */
DT_API int64_t dt_dataset_context(const dt_dataset *d);

/* The tokenizer of the dataset, lent; NULL if unknown. */
DT_API const dt_tokenizer *dt_dataset_tokenizer(const dt_dataset *d);

/* Whether examples are pairs of prompt and completion, or chats, instead of windows of running
 * text. */
DT_API bool dt_dataset_is_prompted(const dt_dataset *d);

/* Images and targets in the caller's memory. */
typedef struct dt_images {
    int64_t count, channels, height, width;
    dt_target target;
    int64_t classes;       /* 1 to 256; ignored if targets are images */
    const uint8_t *pixels; /* [count, channels, height, width] */
    /* [count] labels, [count, channels, height, width] images, or [count, height, width] masks */
    const uint8_t *targets;
} dt_images;

/* A dataset that holds a copy of `images`. Errors: ARG (extents, a class out of range), NOMEM. */
DT_API dt_status dt_dataset_create(dt_ctx *ctx, const dt_images *images, dt_dataset **out);

/* ---- arrays --------------------------------------------------------------------------------- */

/* What is found out about the targets of arrays, for choosing a task. */
typedef struct dt_target_look {
    int64_t columns, different; /* numbers per target; how many different numbers occur */
    bool is_integer, is_bits;   /* true for all numbers */
    bool is_one_hot;            /* several bits, exactly one of which is set in every example */
    double least, most;
    const char *time; /* a named column of x that seems to be a time and never falls; NULL: none */
    dt_strings index; /* columns of a table that only number its rows */
} dt_target_look;

/* Looks at the targets of arrays, of type DT_TARGET_VALUES (of other types *out has no numbers),
 * and at the names and order of a table's columns, which *out borrows. Errors: ARG for other data,
 * NOMEM. */
DT_API dt_status dt_dataset_look(const dt_dataset *d, dt_target_look *out);

/* Samples per second of recordings from .wav files; 0 if unknown. */
DT_API int64_t dt_dataset_rate(const dt_dataset *d);

/* Number of channels of arrays: the extent of the channel axis; else 0. */
DT_API int64_t dt_dataset_array_channels(const dt_dataset *d);

/* Finds mean and standard deviation (of the population) of every channel over all examples, before
 * dt_dataset_standardize. Sums are in double, in an order that does not depend on the number of
 * threads. The deviation of a constant channel is 1, and the context's log names it. The arrays
 * have dt_dataset_array_channels numbers. Errors: ARG (no examples), FORMAT, NOMEM. */
DT_API dt_status dt_dataset_measure(const dt_dataset *d, double *mean, double *deviation);

/* The means and deviations that a loader uses, dt_dataset_array_channels of them, lent until the
 * next dt_dataset_standardize. False if none are set. */
DT_API bool dt_dataset_standard(const dt_dataset *d, const double **mean, const double **deviation);

/* Declares that labels 0 and 1 of arrays mean normal and anomalous: a model learns to reconstruct
 * x, and its error distinguishes them. Anomalous examples are not trained on. Errors: ARG (no
 * arrays, or other labels). */
DT_API dt_status dt_dataset_anomaly(dt_dataset *d);

/* ---- several inputs and outputs -------------------------------------------------------------- */

#define DT_MAX_JOINED 4 /* outputs, at most; inputs: DT_MAX_SHAPES */
#define DT_MAX_NAME 200 /* bytes of a name of an input, an output or a program's metric */
/* Room for the longest name of a metric in files: "validation_OUTPUT.average_precision". */
#define DT_MAX_METRIC_NAME (DT_MAX_NAME + 64)

/* For the number of class weights: there are none. */
#define DT_WEIGHTS_NONE (-1)
/* For the number of class weights: the inverse frequencies of the classes. */
#define DT_WEIGHTS_BALANCED (-2)

/* An input of a network, and the arrays whose x it reads. */
typedef struct dt_joined_input {
    const char *name;
    const dt_dataset *data;
} dt_joined_input;

/* An output of a network, the arrays whose targets belong to it, and its part in the loss
 *     loss = sum over outputs of weight * loss of the output
 * where the loss of an output is the mean over its labels; with class weights it is the sum of the
 * weighted losses divided by the number of examples. */
typedef struct dt_joined_output {
    const char *name;
    const dt_dataset *data;
    double weight; /* above 0 */
    /* like train.loss of a recipe; NULL: the default for the type of targets */
    const char *loss;
    double huber_delta;     /* for the loss huber */
    dt_reals class_weights; /* for classes and bits; n is their number or DT_WEIGHTS_... */
} dt_joined_output;

typedef struct dt_join {
    int n_inputs, n_outputs;
    dt_joined_input input[DT_MAX_SHAPES];
    dt_joined_output output[DT_MAX_JOINED];
} dt_join;

/* Joins arrays of equal counts to examples with several inputs, several outputs, or both. Example i
 * consists of the x of example i of each input and of the target of example i of each output. The
 * same arrays may be an input and an output. Names are copied. The caller keeps the arrays, whose
 * data are shared.
 *
 * Several inputs are packed, as dt_forward takes them: x is [numbers of all inputs], one input
 * after the other, in fp32. With several outputs targets are of type DT_TARGET_SEVERAL: i32
 * [cells], a cell for each label, and one with the bits of the f32 for each value or bit. A run
 * reorders inputs and outputs by name to match the model. Errors: ARG (no input or output, too
 * many, a name that is missing, too long or given twice, datasets that are not arrays, counts or
 * recordings that differ, anomalies, a weight that is not above 0), NOMEM. */
DT_API dt_status dt_dataset_join(dt_ctx *ctx, const dt_join *join, dt_dataset **out);

/* Form of a CSV file; 0: detected from its first rows. */
typedef enum dt_csv_separator {
    DT_CSV_SEPARATOR_AUTO,
    DT_CSV_COMMA,
    DT_CSV_SEMICOLON,
    DT_CSV_TAB,
    DT_CSV_BAR
} dt_csv_separator;
typedef enum dt_csv_decimal {
    DT_CSV_DECIMAL_AUTO,
    DT_CSV_POINT,
    DT_CSV_DECIMAL_COMMA
} dt_csv_decimal;
/* The sign between thousands of a number. */
typedef enum dt_csv_thousands {
    DT_CSV_THOUSANDS_AUTO,
    DT_CSV_THOUSANDS_NONE,
    DT_CSV_THOUSANDS_COMMA,
    DT_CSV_THOUSANDS_POINT,
    DT_CSV_THOUSANDS_QUOTE,
    DT_CSV_THOUSANDS_SPACE
} dt_csv_thousands;
/* How letters are stored. */
typedef enum dt_csv_encoding { /* auto: by the byte order mark, else UTF-8 */
                               DT_CSV_ENCODING_AUTO,
                               DT_CSV_UTF8,
                               DT_CSV_LATIN1,
                               DT_CSV_UTF16LE,
                               DT_CSV_UTF16BE
} dt_csv_encoding;
/* What happens to rows with a different number of fields. */
typedef enum dt_csv_rows { DT_CSV_ROWS_REFUSE, DT_CSV_ROWS_SKIP } dt_csv_rows;

/* A rule of data.columns.types: how the columns that it names are encoded (dt_column). */
typedef struct dt_column_rule {
    dt_strings columns; /* names or patterns */
    int type;           /* dt_column_type */
    int missing;        /* dt_column_missing */
    const char *fill;   /* missing: constant; NULL: none */
    bool indicator, embedded;
    int scale;          /* dt_column_scale */
    int64_t most;       /* most categories; 0: all */
    const char *format; /* times: the format */
    dt_strings parts;   /* times: parts; none: seconds */
    dt_strings words;   /* words that mean missing, besides those that always do */
} dt_column_rule;

/* How texts of a table become values: settings of dt_csv_options, and what was detected in the
 * files that were read. A model keeps it, since 1.234 may be a thousand. */
typedef struct dt_csv_form {
    int decimal, thousands, encoding; /* as in dt_csv_options; AUTO: neither given nor detected */
    const char *comment;              /* NULL: none */
} dt_csv_form;

/* Which columns of a CSV file are read. */
typedef struct dt_csv_options {
    bool header;        /* the first line names the columns; else their names are 0, 1, ... */
    dt_strings inputs;  /* names, or patterns with * and ?; none: all columns except the targets */
    dt_strings target;  /* one column of classes, or several of numbers or bits */
    dt_strings exclude; /* names or patterns: columns that are not inputs */
    /* For dt_model_data_open: names, or patterns, of columns that the model does not read and whose
     * texts the dataset keeps. Not a key of recipes. */
    dt_strings keep;
    int separator; /* dt_csv_separator, and so on */
    /* AUTO settings are detected in the first file that shows them and hold for all files; a file
     * that contradicts is an error. */
    int decimal, thousands, encoding;
    int rows;            /* dt_csv_rows: what happens to rows with a different number of fields */
    const char *comment; /* lines that begin with it are skipped; NULL: there are none */
    dt_item_list types;  /* dt_column_rule: the first rule that matches a column applies */
    /* The columns of a model, lent, in place of `types`, which are fitted to data. Not a key of
     * recipes: evaluation sets it. NULL: none */
    const dt_columns *fitted;
} dt_csv_options;

/* What the first row of a table seems to be. */
typedef enum dt_first_row {
    DT_ROW_NAMES,
    DT_ROW_UNSURE, /* numbers in equal steps, or unlike those below: 400, 405, 410 may be names */
    DT_ROW_DATA    /* numbers in every column of numbers: there is no header */
} dt_first_row;

/* Looks at the first rows of a .csv file, plain or gzip. place[i], i < names->n, becomes the
 * column, counted from 0, whose name in the first row is names->v[i], or -1. *columns becomes the
 * number of columns. Errors: IO, FORMAT, NOMEM. */
DT_API dt_status dt_csv_look(dt_ctx *ctx, const char *path, const dt_strings *names, int64_t *place,
                             int64_t *columns, dt_first_row *out);

/* ---- images --------------------------------------------------------------------------------- */

/* Sets how a loader normalizes a byte p of channel c:
 *     x = (p/255 - mean[c]) / deviation[c]
 * A list has one number for all channels or one per channel; the defaults are 0 and 1. Errors: ARG
 * (other lengths, a number that is not finite, a deviation <= 0). */
DT_API dt_status dt_dataset_normalize(dt_dataset *d, const dt_reals *mean,
                                      const dt_reals *deviation);

/* Makes a denoising task: each image becomes its own target in place of the old one, and a loader
 * adds noise of standard deviation `noise` (white being 1) to every byte of x:
 *     x = (p/255 - mean) / deviation + noise / deviation z
 * z is the sum of eight uniform bytes, scaled to deviation 1: nearly normal, within +-4.9, and
 * computed by + and * alone. Every epoch draws new noise. Errors: ARG (noise negative or not
 * finite). */
DT_API dt_status dt_dataset_denoise(dt_dataset *d, double noise);

/* Reads IDX files, plain or gzip (detected by content, not by name): images u8 of rank 3, labels u8
 * of rank 1. A file may hold no images, but images must have pixels. `classes` 0: the largest label
 * + 1; otherwise a label out of range is an error. Errors, naming the file and what would be valid:
 * ARG (classes outside 0...256), IO (missing, unreadable), FORMAT (magic, type, rank, truncation,
 * trailing bytes, damaged gzip, different counts, labels), NOMEM. */
DT_API dt_status dt_idx_read(dt_ctx *ctx, const char *images, const char *labels, int64_t classes,
                             dt_dataset **out);

/* Which data set. */
typedef enum dt_cifar {
    DT_CIFAR10,
    DT_CIFAR100_FINE,  /* 100 classes */
    DT_CIFAR100_COARSE /* 20 classes */
} dt_cifar;

/* Reads binary files of CIFAR-10 or CIFAR-100, plain or gzip, and concatenates them to one dataset
 * of 3 x 32 x 32 images. Errors, naming the file and what would be valid: ARG (no file), IO, FORMAT
 * (a size that is not a multiple of a record's, no images, labels out of range, damaged gzip, more
 * than 2^22 images), NOMEM. */
DT_API dt_status dt_cifar_read(dt_ctx *ctx, dt_cifar kind, const dt_strings *paths,
                               dt_dataset **out);

typedef struct dt_png_options {
    int64_t channels; /* 1: grey, 3: red, green, blue; default 3 */
    int64_t count;    /* at most this many images, taken in proportion from each class; default 0:
                       * all */
    /* a folder whose subfolders are the classes (for test images: the training folder); default
     * NULL: the folder itself */
    const char *classes;
    /* images are resized to this size; default 0: they are not, and must have the same size */
    int64_t height, width;
} dt_png_options;

/* The defaults of dt_png_read. */
DT_API dt_png_options dt_png_defaults(void);

/* Reads folder/<class>/<name>.png: each subfolder is a class; classes, and images within a class,
 * are in byte order of their names. The dataset interleaves the classes in proportion, so that any
 * first or last part of it holds all of them. All images must have one size. Grey, palette and
 * colour images of any depth are converted to bytes of the wanted channels: 16 bits are rounded to
 * 8, colour becomes grey by 0.299 r + 0.587 g + 0.114 b, transparency is dropped. Names that begin
 * with a dot, and other files, are ignored. Errors, naming the file and what would be valid: ARG
 * (channels, count), IO, FORMAT (no PNG file, a damaged one, another size, no class, more than 256,
 * a class that `classes` lacks, a class without images), NOMEM. */
DT_API dt_status dt_png_read(dt_ctx *ctx, const char *folder, const dt_png_options *options,
                             dt_dataset **out);

/* The same of PNG and of JPEG files (.jpg, .jpeg), baseline or progressive, grey or colour (YCbCr
 * or RGB). JPEG files are decoded by libjpeg's slow integer transform, with its smooth upsampling,
 * so that every machine gives the same bytes; colour becomes grey as in PNG files. */
DT_API dt_status dt_folder_read(dt_ctx *ctx, const char *folder, const dt_png_options *options,
                                dt_dataset **out);

/* An image in the caller's memory: [channels, height, width], 1 or 3 channels. */
typedef struct dt_png_image {
    int64_t channels, height, width;
    const uint8_t *pixels;
} dt_png_image;

/* Writes a PNG file of 8 bits, whole or not at all. Errors: ARG (extents), IO, NOMEM. */
DT_API dt_status dt_png_write(dt_ctx *ctx, const char *path, const dt_png_image *image);

/* Writes grey images and their labels as two IDX files, with gzip if the name ends in .gz. Equal
 * datasets give equal bytes. Both files are written under temporary names, synced, then renamed; if
 * anything fails, existing files are unchanged. Errors: ARG (other images, the same name twice),
 * IO, NOMEM. */
DT_API dt_status dt_idx_write(const dt_dataset *d, const char *images, const char *labels);

/* Splits off the last `count` examples: *out receives them, `d` keeps the others. Both share the
 * data; either may be freed first. Errors: ARG (count outside 0...the dataset's), NOMEM. */
DT_API dt_status dt_dataset_split(dt_dataset *d, int64_t count, dt_dataset **out);

/* ---- tokens --------------------------------------------------------------------------------- */

/* Running text: a copy of `n` ids in [0, vocab), read in windows of T = `context` tokens. In order,
 * window w begins at token w T, and the last one may be shorter: every token but the first is
 * predicted once. Shuffled, the windows of epoch e begin at an offset in [0, T) drawn from (seed,
 * e), and the remainders at both ends are not read; so all windows have the same length. Errors:
 * ARG (an id outside, n below 2, context below 1), NOMEM. */
DT_API dt_status dt_text_create(dt_ctx *ctx, const int32_t *ids, int64_t n, int64_t vocab,
                                int64_t context, dt_dataset **out);

/* Sums of three digits: the prompt is "123+456=", the completion the four digits of the sum, lowest
 * first: "9750". `seed` permutes the million pairs; the dataset holds those at positions first ...
 * first + count - 1 of the permutation. The tokenizer has the characters + 0 to 9 =. Errors: ARG
 * (positions outside 0...999,999), NOMEM. */
DT_API dt_status dt_adder_create(dt_ctx *ctx, int64_t first, int64_t count, uint64_t seed,
                                 dt_dataset **out);

/* ---- features of signals --------------------------------------------------------------------- */

enum { DT_FEATURES_NONE, DT_FEATURES_LOG_MEL, DT_FEATURES_MFCC };

typedef struct dt_features_options {
    int kind;               /* DT_FEATURES_... */
    double rate;            /* samples a second; default 16000 */
    double frame_ms;        /* length of a frame; default 40 */
    double step_ms;         /* distance of frames; default 20 */
    int64_t bins;           /* mel filters; default 40 */
    int64_t coefficients;   /* mfcc: number of coefficients, at most bins; default 10 */
    double low_hz, high_hz; /* range of the filters; defaults 20, and 0: rate / 2 */
    double floor;           /* least energy before the logarithm; default 1e-6 */
} dt_features_options;

/* The defaults; kind is DT_FEATURES_NONE. */
DT_API dt_features_options dt_features_defaults(void);

/* Computes log mel energies or mel-frequency cepstral coefficients. docs/data.md has the formula.
 * Only one thread at a time may use it; it runs on the context's threads. */
typedef struct dt_features dt_features;

/* Errors: ARG (an option, naming it; kind none; a filter without a frequency), NOMEM. */
DT_API dt_status dt_features_create(dt_ctx *ctx, const dt_features_options *options,
                                    dt_features **out);
DT_API void dt_features_free(dt_features *f); /* NULL is allowed */

/* Frames of a signal of n samples: floor((n - frame) / step) + 1; 0 if it is shorter than one. */
DT_API int64_t dt_features_frames(const dt_features *f, int64_t n);
/* Numbers per frame: bins, or coefficients. */
DT_API int64_t dt_features_width(const dt_features *f);

/* out [count, frames, width] from samples [count, n], f32. The same bits on any number of threads.
 * Allocates nothing. Errors: ARG (signals shorter than a frame, count below 0). */
DT_API dt_status dt_features_run(dt_features *f, const float *samples, int64_t count, int64_t n,
                                 float *out);

/* Replaces signals of arrays, [samples] or [samples, channels], by their features [channels,
 * frames, width], which are computed immediately; samples of type i16 are first divided by 32768.
 * The channels of dt_dataset_standardize are then those of the last dimension. Datasets split off
 * earlier keep the signals. Errors: ARG (other arrays, standardized ones, signals shorter than a
 * frame), those of dt_features_create, FORMAT (features that are not finite), NOMEM. */
DT_API dt_status dt_dataset_features(dt_dataset *d, const dt_features_options *options);

/* ---- drawn arrays ---------------------------------------------------------------------------- */

/* Options of generated data. Example i and its target depend on (seed, i) alone and are the same on
 * every machine. */
typedef struct dt_drawn {
    int64_t count;
    uint64_t seed;
    dt_target target;
    bool anomalies; /* DT_TARGET_ANOMALY: half of the examples are anomalous; false: none are */
} dt_drawn;

#define DT_SOUNDS 12 /* classes */
/* Samples per second of the generated sounds. */
#define DT_SOUNDS_RATE 8000

/* Sounds of one second, f32 [8000, 1], -1 to 1 in steps of 2^-15, for keyword spotting: classes
 * background, tone, chord, rise, fall, siren, vibrato, tremolo, twice, thrice, hiss, clicks; with
 * noise and hum. Errors: ARG (count, targets that are not classes), NOMEM. */
DT_API dt_status dt_sounds_create(dt_ctx *ctx, const dt_drawn *o, dt_dataset **out);

/* Windows of a motion sensor, f32 [128, 6]: accelerations and turning rates of three axes, 2.56
 * s at 50 Hz. Classes rest, walk, run, shake, rotate, tap; of DT_TARGET_ANOMALY rest, walk and
 * rotate are normal. Errors: ARG (count, other targets), NOMEM. */
DT_API dt_status dt_sensors_create(dt_ctx *ctx, const dt_drawn *o, dt_dataset **out);

/* A table of twelve columns f32 in different units: 4 classes, 2 values or 3 bits, which depend on
 * products, squares and a switch. Errors: ARG (count, other targets), NOMEM. */
DT_API dt_status dt_table_create(dt_ctx *ctx, const dt_drawn *o, dt_dataset **out);

/* ---- `data:` of a recipe -------------------------------------------------------------------- */

/* Formats of data that a recipe can name. */
typedef enum dt_data_format {
    DT_DATA_IDX,
    DT_DATA_DIGITS,
    DT_DATA_CIFAR10,
    DT_DATA_CIFAR100,
    DT_DATA_PNG,
    DT_DATA_TEXT,    /* files of plain text, as running text */
    DT_DATA_TOKENS,  /* a file of ids, as running text */
    DT_DATA_JSONL,   /* lines of JSON: running text, prompts with completions, or chats */
    DT_DATA_ADDER,   /* dt_adder_create */
    DT_DATA_GIVEN,   /* datasets that a program gives to dt_run (train.h) */
    DT_DATA_TENSORS, /* arrays in files .npy, .npz, .safetensors, .wav and .csv */
    DT_DATA_SOUNDS,  /* dt_sounds_create */
    DT_DATA_SENSORS, /* dt_sensors_create */
    DT_DATA_TABLE,   /* dt_table_create */
    DT_DATA_FOLDER   /* dt_folder_read */
} dt_data_format;

/* Which labels of CIFAR-100. */
typedef enum dt_data_labels { DT_DATA_FINE, DT_DATA_COARSE } dt_data_labels;

/* What is learned from the data: it determines loss and metrics. */
typedef enum dt_data_task {
    DT_DATA_CLASSIFICATION,
    DT_DATA_DENOISING,    /* dt_dataset_denoise, with any format of images */
    DT_DATA_SEGMENTATION, /* digits only */
    DT_DATA_REGRESSION,   /* arrays: DT_TARGET_VALUES */
    DT_DATA_MULTI_LABEL,  /* arrays: DT_TARGET_BITS */
    /* arrays: dt_dataset_anomaly; `normal` translates labels that are words */
    DT_DATA_ANOMALY
} dt_data_task;

/* Files of a part of the data. A name may contain the wildcards * and ?, and end in ":NAME" after
 * .npz and .safetensors. */
typedef struct dt_tensor_files {
    bool given;
    dt_strings x;  /* arrays, joined along their first dimension; or recordings, one per file */
    const char *y; /* an array with the targets; NULL: they are columns of the CSV file */
} dt_tensor_files;

/* How signals [time, channels] are cut into examples. */
typedef struct dt_window {
    bool given;
    int64_t length; /* time steps of an example; 0: given by `seconds` */
    int64_t stride; /* distance between the beginnings of examples; 0: length */
    double seconds; /* duration of an example, if a column has the times of rows */
} dt_window;

/* The label of a window whose rows all have labels. */
typedef enum dt_series_label {
    DT_SERIES_LAST,     /* that of the last row */
    DT_SERIES_MAJORITY, /* the most frequent one; of equally frequent ones that which occurs last */
    DT_SERIES_PURE      /* only windows whose rows have the same label are examples */
} dt_series_label;

/* The value of a column at a moment between two rows. */
typedef enum dt_series_method {
    DT_SERIES_LINEAR,  /* interpolated between the values around it; for words the earlier one */
    DT_SERIES_NEAREST, /* the nearest value, of two the earlier one */
    DT_SERIES_BEFORE   /* the last value before it */
} dt_series_method;

/* A table in long form: each row is one moment of a series. Examples are windows of `dt_window`,
 * each within one series. */
typedef struct dt_series_options {
    bool given;
    dt_strings by;      /* columns whose values distinguish series; none: a file is a series */
    const char *time;   /* a column that orders the rows of a series; NULL: the order of the file */
    const char *format; /* of times, as in strptime; NULL: numbers, or the forms of ISO 8601 */
    double gap;         /* the longest time step inside a window; 0: three times the median step */
    int label;          /* dt_series_label */
    double rate;        /* resampled rows per second (for numbers: per unit); 0: no resampling */
    int method;         /* dt_series_method: values of resampled rows */
} dt_series_options;

/* DT_AXIS_AUTO: the last dimension of examples of rank 1 and 2, else the first. */
typedef enum dt_axis { DT_AXIS_AUTO, DT_AXIS_FIRST, DT_AXIS_LAST } dt_axis;

/* Arguments of dt_dataset_standardize; without numbers they are measured on the training
 * examples. */
typedef struct dt_standard {
    bool given;
    dt_reals mean, deviation; /* one number, or one for each channel */
    int axis;                 /* dt_axis */
} dt_standard;

/* How training files are split. AUTO: by class if examples are independent, else the last examples
 * are held back (dt_data_order). FILE: whole recordings, or files of a table. */
typedef enum dt_data_split {
    DT_SPLIT_AUTO,
    DT_SPLIT_FILE,
    DT_SPLIT_ROWS,       /* drawn, regardless of classes */
    DT_SPLIT_STRATIFIED, /* drawn, in proportion from every class */
    DT_SPLIT_GROUP,      /* whole groups, drawn */
    DT_SPLIT_TIME        /* the newest rows are held back, the very newest as test data */
} dt_data_split;

typedef struct dt_split_options {
    bool given;         /* the recipe has this map */
    int by;             /* dt_data_split */
    const char *column; /* tables: the column of groups, or the one that orders rows; NULL: none */
    double test;        /* share of the training data that becomes test data */
    int64_t folds;      /* 0: none; else the training data are divided into this many parts */
    int64_t fold;       /* the part, from 0, that becomes the test data */
} dt_split_options;

/* NHWC: the last dimension of an example in a file is its channels; it is moved to the front. */
typedef enum dt_data_layout { DT_LAYOUT_NCHW, DT_LAYOUT_NHWC } dt_data_layout;

/* Which examples a validation share of tensors holds back. AUTO: DRAWN for rows, and for whole
 * recordings that a file labels; else TIME. DRAWN: random by data.seed, in proportion from every
 * class. TIME: the last ones. */
typedef enum dt_data_order {
    DT_DATA_ORDER_AUTO,
    DT_DATA_ORDER_DRAWN,
    DT_DATA_ORDER_TIME
} dt_data_order;

/* An input of a model, in the files of data.train, data.validation and data.test. */
typedef struct dt_data_input {
    const char *name;   /* name of the model's input */
    const char *tensor; /* .npz, .safetensors: the array's name; NULL: the input's name */
    dt_strings columns; /* .csv: columns or patterns; none: the column with the input's name */
} dt_data_input;

/* The classes of a model: how many (0: unknown), and their names (NULL: none). */
typedef struct dt_class_names {
    int64_t n;
    const char *const *names;
} dt_class_names;

/* An output of a model: its targets, and its part in the loss (dt_joined_output). */
typedef struct dt_data_output {
    const char *name;
    const char *tensor;
    dt_strings columns;
    int task; /* DT_DATA_CLASSIFICATION, DT_DATA_REGRESSION or DT_DATA_MULTI_LABEL */
    double weight;
    const char *loss;
    double huber_delta;
    dt_reals class_weights;
    dt_class_names classes; /* as in dt_data_options */
} dt_data_output;

typedef struct dt_data_options {
    int format;         /* dt_data_format */
    const char *source; /* given: the name of a registered source; NULL: dt_run gets the datasets */
    const char *dir;
    /* idx: images, labels; cifar, text, jsonl: files; png: a folder; tokens: a file; none: the
     * usual names */
    dt_strings train, test;
    int labels;       /* cifar100: dt_data_labels */
    int64_t channels; /* png, folder: 1 or 3 */
    int64_t size[2];  /* png, folder: height and width to resize to; 0: no resizing */
    double
        /* fraction of the training data; tensors: see validation_order; others: its end */
        validation;
    /* use only the first images or sums; 0: generated data 10,000 (sounds 3,000), else all */
    int64_t train_count;
    int64_t test_count;       /* likewise; 0: generated data 2,000 (sounds 1,000), else all */
    int64_t seed;             /* for generated data */
    int task;                 /* dt_data_task */
    dt_strings normal;        /* anomaly: labels of normal examples; none: 0, normal, good */
    double noise;             /* denoising: standard deviation of the noise, white being 1 */
    dt_reals mean, deviation; /* for dt_dataset_normalize; empty: 0 and 1 */
    dt_augment_options augment;
    dt_features_options features; /* for signals; their rate replaces features.rate */
    const char *tokenizer; /* text, jsonl: "bytes", "chars" or a file; tokens: a file or NULL */
    /* text of dt_tokenizer_text, used in place of `tokenizer`; NULL: none. Not a key of recipes:
     * evaluation sets the model's own tokenizer */
    const char *given;
    /* text of the model's special tokens (dt_text_tokens_parse), for a model without its own
     * tokenizer; NULL: none */
    const char *given_tokens;
    int64_t context; /* text, tokens and jsonl: tokens of an example */
    /* jsonl: formats (dt_prompt_fill) that combine the fields of a line; NULL: the fields "prompt"
     * and "completion" unchanged, or "text" */
    const char *prompt, *completion;
    /* jsonl, lines of messages: how they become text (dt_chat_template), and the system message for
     * lines that have none; NULL: none. */
    int chat;
    const char *system;
    /* The model's own chat template, as Jinja; NULL: none. Not a key of recipes:
     * dt_recipe_open_data sets it */
    const char *given_template;
    /* tensors; files in `train` and `test` are recordings, labelled by their folders */
    dt_tensor_files train_tensors, validation_tensors, test_tensors;
    dt_strings validation_files; /* recordings, like `train` and `test` */
    /* Several inputs and outputs: the parts of the data are joined (dt_dataset_join). */
    dt_data_input inputs[DT_MAX_SHAPES];
    int64_t n_inputs;
    dt_data_output outputs[DT_MAX_JOINED];
    int64_t n_outputs;
    dt_csv_options columns; /* for CSV files */
    /* Where the numbers of CSV files are cached: a folder, "no", or "auto" and NULL: those of large
     * files in the folder cache_beside, if it is set. cache_beside is not a key of recipes: recipes
     * set it to the folder `detent-cache` beside that of the run. */
    const char *cache, *cache_beside;
    dt_window window;
    dt_series_options series;
    bool standardize; /* like `standard` with all defaults */
    dt_standard standard;
    dt_split_options split;
    /* tensors: the parts of file names, such as "{label}_{group}_{index}.wav"; NULL: names are not
     * parsed */
    const char *file_names;
    int validation_order; /* dt_data_order, if split.by is AUTO or FILE */
    int layout;           /* dt_data_layout */
    /* tensors: the classes of the model, if there is one. With names, labels are these names.
     * Without names, integers below n are class numbers; other labels name classes, in their order.
     * Not a key of recipes: dt_recipe_open_data sets it. */
    dt_class_names classes;
} dt_data_options;

/* A source of datasets of a program's own: `data: {format: given, source: NAME}`. */
typedef struct dt_data_source {
    const char *name;
    const char *text; /* one sentence */
    /* Makes the datasets, which become the caller's. *train is required; *validation and *test are
     * NULL initially and may remain NULL. On an error returns its status (with the message in ctx)
     * and frees what it made. */
    dt_status (*open)(dt_ctx *ctx, const dt_data_options *options, void *user, dt_dataset **train,
                      dt_dataset **validation, dt_dataset **test);
    void *user;
} dt_data_source;

/* Makes a source known to recipes of this context. It must stay valid until the context is freed.
 * Errors: ARG (no name or function, a name that is taken), NOMEM. */
DT_API dt_status dt_dataset_register(dt_ctx *ctx, const dt_data_source *source);

/* The defaults of `data:`. */
DT_API dt_data_options dt_data_defaults(void);

/* The keys of dt_data_options. */
extern DT_API const dt_key dt_data_keys[];

/* Opens the datasets that the options name. `dir` is the base of relative file names. Test digits
 * use the seed ~seed, with which no recipe can train; test images in files must have the size and
 * classes of the training images. Test sums are the last of the adder's permutation. Text is split
 * for validation at a character, JSON lines between two lines; examples longer than the context are
 * left out, and their number is logged. *validation and *test are NULL if there is none, *train if
 * only test text is named. Errors: CONFIG (options, naming the key first: "data.context is ...";
 * also empty files and characters that the tokenizer lacks), those of dt_idx_read. */
DT_API dt_status dt_data_open(dt_ctx *ctx, const dt_data_options *options, dt_dataset **train,
                              dt_dataset **validation, dt_dataset **test);

/* ---- batches -------------------------------------------------------------------------------- */

DT_API int64_t dt_loader_examples(const dt_loader *l); /* examples in an epoch */

/* The number of labels that count in the next `batches` batches, at most to the end of the epoch:
 * for images every value of a target, for tokens those other than -100. */
DT_API int64_t dt_loader_labels(dt_loader *l, int64_t batches);

/* The weight w of the latest batch's targets: 1 or, with augment.mixup or cutmix, as below. *other,
 * also lent, gets the targets with weight 1 - w, or NULL. With example i and its partner n-1-i of a
 * batch of n, and s ~ Beta(alpha, alpha):
 *     mixup   x_i = s x_i + (1-s) x_{n-1-i}, with weight s        [Zhang et al. 2018]
 *     cutmix  a rectangle of x_{n-1-i}, floor(H r) high and floor(W r) wide with r = sqrt(1-s),
 *             at a uniform place inside of x_i; the weight is 1 - its share of the pixels
 *             [Yun et al. 2019] */
DT_API double dt_loader_mixed(const dt_loader *l, dt_tensor **other);

#ifdef __cplusplus
}
#endif
#endif
