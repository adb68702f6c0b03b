/* Recognizes the data at a path, by names and contents, and chooses small networks for them
 * (new_data.h). */
#include "cli/new_data.h"

#include <detent/experimental/tables.h>

#include <dirent.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* ---- what there is -------------------------------------------------------------------------- */

/* A kind of data. */
typedef struct kind {
    const char *name;   /* of drawn data, or "" */
    const char *ending; /* of a file, or NULL */
    const char *inside; /* a pattern in a folder, or NULL */
    const char *text;
    bool columns, language, images, tested;
} kind;

/* Recordings, in one folder for each class or all in one folder; a folder may have several
 * endings. */
#define SOUNDS(ending)                                                                             \
    {                                                                                              \
        "", NULL, "*/*" ending, "folders of recordings", false, false, false, false                \
    }
#define RECORDINGS(ending)                                                                         \
    {                                                                                              \
        "", NULL, "*" ending, "recordings in one folder", false, false, false, false               \
    }

static const kind kinds[] = {
    { "digits", NULL, NULL, "drawn digits", false, false, true, true },
    { "sounds", NULL, NULL, "drawn sounds", false, false, false, true },
    { "sensors", NULL, NULL, "drawn sensor signals", false, false, false, true },
    { "table", NULL, NULL, "a drawn table", false, false, false, true },
    { "", ".npy", NULL, "arrays", true, false, false, false },
    { "", ".npz", NULL, "arrays", true, false, false, false },
    { "", ".safetensors", NULL, "arrays", true, false, false, false },
    { "", ".txt", NULL, "text", false, true, false, false },
    { "", ".jsonl", NULL, "lines of JSON", false, true, false, false },
    { "", NULL, "train/*/*.jp*g", "folders of images", false, false, true, true },
    { "", NULL, "test/*/*.jp*g", "folders of images", false, false, true, true },
    { "", NULL, "train/*/*.png", "folders of images", false, false, true, true },
    { "", NULL, "*/*.png", "folders of images", false, false, true, false },
    { "", NULL, "*/*.jp*g", "folders of images", false, false, true, false },
    SOUNDS(".wav"),
    SOUNDS(".flac"),
    SOUNDS(".ogg"),
    SOUNDS(".opus"),
    SOUNDS(".aiff"),
    SOUNDS(".aif"),
    RECORDINGS(".wav"),
    RECORDINGS(".flac"),
    RECORDINGS(".ogg"),
    RECORDINGS(".opus"),
    RECORDINGS(".aiff"),
    RECORDINGS(".aif"),
    { "", NULL, "train-images*idx3-ubyte*", "images of IDX files", false, false, true, true },
    { "", NULL, "data_batch_1.bin*", "CIFAR-10", false, false, true, true },
};

/* Whether the model of --init has a tokenizer. */
static bool has_tokenizer(const new_data *d) { return d->own != NULL && d->own->tokenizer != NULL; }

static bool ends_in(const char *path, const char *ending)
{
    const size_t n = strlen(path), m = strlen(ending);
    return n > m && strcasecmp(path + n - m, ending) == 0;
}

/* A glob pattern whose ending matches in any case: *.[pP][nN][gG]. */
static void either_case(const char *pattern, char any[64])
{
    const char *ending = strstr(pattern, "*.");
    char *to = any;
    for (const char *c = pattern; *c != 0 && to < any + 58; c++) {
        const bool both = ending != NULL && c > ending && *c >= 'a' && *c <= 'z';
        if (both) to += sprintf(to, "[%c%c]", *c, *c - 'a' + 'A');
        else *to++ = *c;
    }
    *to = 0;
}

bool new_data_pattern(const char *folder, const char *pattern, char path[CLI_PATH])
{
    size_t n = 0;
    for (const char *c = folder; *c != 0 && n + 2 < CLI_PATH; c++) {
        if (strchr("*?[]\\", *c) != NULL) path[n++] = '\\';
        path[n++] = *c;
    }
    const int more = snprintf(path + n, CLI_PATH - n, "/%s", pattern);
    return more > 0 && (size_t)more < CLI_PATH - n;
}

static bool find_files(const char *folder, const char *pattern, glob_t *found)
{
    char path[CLI_PATH];
    return new_data_pattern(folder, pattern, path) && glob(path, 0, NULL, found) == 0;
}

static bool holds(const char *folder, const char *pattern)
{
    char any[64];
    glob_t found;
    either_case(pattern, any);
    if (!find_files(folder, any, &found)) return false;
    globfree(&found);
    return true;
}

/* Whether a path is a file with this ending; an archive may be followed by an array, FILE:NAME. */
static bool is_file(const char *path, const char *ending)
{
    static const char *const archives[] = { ".npz", ".safetensors" };
    const char *colon = strrchr(path, ':');
    if (ends_in(path, ending)) return true;
    for (size_t i = 0; colon != NULL && i < sizeof archives / sizeof archives[0]; i++) {
        const size_t n = strlen(archives[i]), before = (size_t)(colon - path);
        if (strcmp(ending, archives[i]) != 0 || before <= n) continue;
        if (strncmp(colon - n, archives[i], n) == 0) return true;
    }
    return false;
}

static bool is_kind(const kind *k, const char *path)
{
    if (*k->name != 0) return strcmp(k->name, path) == 0;
    return k->ending != NULL ? is_file(path, k->ending) : holds(path, k->inside);
}

static const kind *find(const char *path)
{
    static const kind table = { "", "", NULL, "a table", true, false, false, false };
    if (dt_is_table(path)) return &table;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (is_kind(&kinds[i], path)) return &kinds[i];
    }
    return NULL;
}

static bool is_sounds(const kind *k)
{
    return k->inside != NULL && k->inside[0] == '*' && !k->images;
}

/* Of all endings that are there. */
const char *new_data_sounds(const new_data *d, int i)
{
    const kind *first = find(d->path);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        if (!is_sounds(&kinds[k]) || kinds[k].text != first->text) continue;
        if (holds(d->path, kinds[k].inside) && i-- == 0) return kinds[k].inside;
    }
    return NULL;
}

/* The first entry of a folder that is a folder, or not; false: there is none. */
static bool first_entry(const char *folder, bool is_folder, char out[CLI_PATH])
{
    struct dirent **entry = NULL;
    const int n = scandir(folder, &entry, NULL, alphasort);
    bool found = false;
    for (int i = 0; i < n; i++) {
        struct stat about;
        char path[CLI_PATH];
        const int bytes = snprintf(path, sizeof path, "%s/%s", folder, entry[i]->d_name);
        if (!found && entry[i]->d_name[0] != '.' && bytes < CLI_PATH && stat(path, &about) == 0 &&
            S_ISDIR(about.st_mode) == is_folder) {
            found = true;
            memcpy(out, path, (size_t)bytes + 1);
        }
        free(entry[i]);
    }
    free(entry);
    return found;
}

void new_data_holds(const char *path, cli_text *out)
{
    char folder[CLI_PATH], file[CLI_PATH];
    struct stat about;
    const bool exists = stat(path, &about) == 0;
    if (!exists) {
        cli_text_add(out, ", and no file or folder");
    } else if (ends_in(path, ".json")) {
        cli_text_add(out,
                     " (of JSON an object a line is read: jq -c '.[]' FILE.json > FILE.jsonl)");
    }
    if (!exists || !S_ISDIR(about.st_mode)) return;
    if (first_entry(path, false, file)) {
        cli_text_add(out, " (it holds files, such as ");
        cli_text_add_name(out, file);
        cli_text_add(out, ")");
        return;
    }
    if (!first_entry(path, true, folder)) {
        cli_text_add(out, " (it is empty)");
        return;
    }
    cli_text_add(out, " (it holds folders, such as ");
    cli_text_add_name(out, folder);
    if (first_entry(folder, true, file)) {
        cli_text_add(out, ", which holds folders)");
    } else if (first_entry(folder, false, file)) {
        cli_text_add(out, ", which holds files, such as ");
        cli_text_add_name(out, file);
        cli_text_add(out, ")");
    } else {
        cli_text_add(out, ", which is empty)");
    }
}

bool new_data_find(new_data *d)
{
    const kind *k = find(d->path);
    if (k == NULL && holds(d->path, "*.csv")) {
        snprintf(d->files, sizeof d->files, "%s/*.csv", d->path);
        k = find(d->path = d->files);
    }
    if (k == NULL) return false;
    const char *plus = dt_is_table(d->path) ? strstr(d->path, ".csv+") : NULL;
    d->joined = plus != NULL;
    d->kind = k->text;
    d->columns = k->columns;
    d->language = k->language;
    d->chats = k->language && ends_in(d->path, ".jsonl");
    d->form = has_tokenizer(d) ? "auto" : "plain";
    d->images = k->images;
    d->tested = k->tested;
    d->sounds = is_sounds(k);
    return true;
}

/* ---- data ----------------------------------------------------------------------------------- */

void new_data_quote(cli_text *out, const char *text, size_t n)
{
    cli_text_add(out, "'");
    for (size_t i = 0; i < n; i++) cli_text_add(out, text[i] == '\'' ? "''" : "%c", text[i]);
    cli_text_add(out, "'");
}

/* Adds "a,b" as ['a', 'b']. */
static void put_list(cli_text *out, const char *text)
{
    cli_text_add(out, "[");
    for (bool first = true; *text != 0; first = false) {
        const size_t n = strcspn(text, ",");
        if (!first) cli_text_add(out, ", ");
        new_data_quote(out, text, n);
        text += n + (text[n] == ',');
    }
    cli_text_add(out, "]");
}

void new_data_split(new_data *d, const char *column, int64_t values)
{
    const bool tested = values >= NEW_GROUPS && d->test == NULL;
    cli_text_add(&d->split, "  split: {by: group, column: ");
    new_data_quote(&d->split, column, strlen(column));
    cli_text_add(&d->split, "%s}\n", tested ? ", test: 0.2" : "");
    cli_text_add(&d->about[1], "split: '");
    cli_text_add_name(&d->about[1], column);
    cli_text_add(&d->about[1], "' has %lld values%s, which are held back whole%s (data.split)",
                 (long long)values, values == DT_LOOK_DIFFERENT ? " and more" : "",
                 tested ? ": a fifth of them to test" : "");
}

bool new_data_is_table(const new_data *d) { return dt_is_table(d->path); }

static void add_columns(const new_data *d, cli_text *out)
{
    const bool block = d->types != NULL || d->inputs != NULL || d->latin1;
    const char *next = block ? "\n    " : ", ";
    cli_text_add(out, block ? "  columns:\n    " : "  columns: {");
    if (d->latin1) cli_text_add(out, "encoding: latin-1%s", next);
    if (d->no_header) cli_text_add(out, "header: false%s", next);
    cli_text_add(out, "target: ");
    put_list(out, d->target);
    if (d->exclude != NULL) cli_text_add(out, "%sexclude: %s", next, d->exclude);
    if (!block) cli_text_add(out, "}           # inputs: [...] chooses others");
    if (d->inputs != NULL) {
        cli_text_add(out, "%sinputs: ", next);
        put_list(out, d->inputs);
    }
    cli_text_add(out, "\n");
    if (d->types != NULL) cli_text_add(out, "    types:\n%s", d->types);
}

static void add_files(const new_data *d, cli_text *out)
{
    const char *path = d->path;
    const bool table = new_data_is_table(d);
    if (d->language) {
        cli_text_add(out, "  format: %s\n  train: [", ends_in(path, ".jsonl") ? "jsonl" : "text");
        new_data_quote(out, path, strlen(path));
        cli_text_add(out, "]\n");
        if (!has_tokenizer(d)) {
            cli_text_add(out, "  tokenizer: chars             # or bytes, or a tokenizer.json\n");
        }
        cli_text_add(out, "  context: %-20lld# tokens that it sees at once\n",
                     (long long)d->context);
        if (d->chats) {
            cli_text_add(out, "  chat: %-23s# plain, or chatml or llama3 with their tokens\n",
                         d->form);
        }
        return;
    }
    cli_text_add(out, "  format: tensors\n  train: {x: [");
    new_data_quote(out, path, strlen(path));
    cli_text_add(out, "]");
    if (!table && d->target != NULL) {
        cli_text_add(out, ", y: ");
        new_data_quote(out, d->target, strlen(d->target));
    }
    cli_text_add(out, "}\n");
    if (d->test != NULL) {
        cli_text_add(out, "  test: {x: [");
        new_data_quote(out, d->test, strlen(d->test));
        cli_text_add(out, "]}\n");
    }
    cli_text_add(out, "%s", d->series.text);
    if (d->series.used > 0 && strcmp(d->task, "classification") == 0) {
        cli_text_add(out, ", label: majority}\n");
    } else if (d->series.used > 0) {
        cli_text_add(out, "}\n");
    }
    cli_text_add(out, "%s", d->split.text);
    if (d->channels_last) {
        cli_text_add(out,
                     "  layout: nhwc                 # [height, width, channels] in the file\n");
    }
    if (table && d->target != NULL) add_columns(d, out);
}

static void add_sounds(const new_data *d, cli_text *out)
{
    cli_text_add(out, "  format: tensors\n  dir: ");
    new_data_quote(out, d->path, strlen(d->path));
    cli_text_add(out, "\n  train: [");
    for (int i = 0; new_data_sounds(d, i) != NULL; i++) {
        cli_text_add(out, "%s'%s'", i == 0 ? "" : ", ", new_data_sounds(d, i));
    }
    cli_text_add(out, "]\n");
    if (d->names[0] != 0) {
        cli_text_add(out, "  file_names: ");
        new_data_quote(out, d->names, strlen(d->names));
        cli_text_add(out, "\n");
    }
    if (d->window > 0) {
        cli_text_add(out, "  window: {length: %lld, stride: %lld}   # samples\n",
                     (long long)d->window, (long long)d->stride);
    }
    if (d->features) cli_text_add(out, "  features: {kind: mfcc}\n");
    if (d->names[0] != 0 || d->window > 0) {
        cli_text_add(out, "  split: {by: %s, test: 0.2}\n", d->groups > 3 ? "group" : "file");
    }
}

/* Adds images and labels in IDX files, under MNIST's names. */
static void add_idx(const new_data *d, cli_text *out)
{
    static const struct {
        const char *key, *images, *labels;
    } parts[] = { { "train", "train-images*idx3-ubyte*", "train-labels*idx1-ubyte*" },
                  { "test", "t10k-images*idx3-ubyte*", "t10k-labels*idx1-ubyte*" } };
    for (int i = 0; i < 2; i++) {
        glob_t images, labels;
        const bool has_images = find_files(d->path, parts[i].images, &images);
        const bool has_labels = find_files(d->path, parts[i].labels, &labels);
        if (has_images && has_labels) {
            const char *const name[] = { strrchr(images.gl_pathv[0], '/') + 1,
                                         strrchr(labels.gl_pathv[0], '/') + 1 };
            cli_text_add(out, "  %s: [", parts[i].key);
            new_data_quote(out, name[0], strlen(name[0]));
            cli_text_add(out, ", ");
            new_data_quote(out, name[1], strlen(name[1]));
            cli_text_add(out, "]\n");
        }
        if (has_images) globfree(&images);
        if (has_labels) globfree(&labels);
    }
}

static void add_folder(const new_data *d, const kind *k, cli_text *out)
{
    static const char *const formats[][2] = {
        { "train/*/*.png", "png" },        { "train/*/*.jp*g", "folder" },
        { "test/*/*.jp*g", "folder" },     { "*/*.png", "folder" },
        { "*/*.jp*g", "folder" },          { "train-images*idx3-ubyte*", "idx" },
        { "data_batch_1.bin*", "cifar10" }
    };
    const bool resized = k->images && (k->inside[0] == '*' || ends_in(k->inside, ".jp*g"));
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (strcmp(formats[i][0], k->inside) == 0) {
            cli_text_add(out, "  format: %s\n  dir: ", formats[i][1]);
        }
    }
    new_data_quote(out, d->path, strlen(d->path));
    cli_text_add(out, "\n");
    if (strncmp(k->inside, "train-images", 12) == 0) add_idx(d, out);
    if (!resized) return;
    if (k->inside[0] == '*') cli_text_add(out, "  train: [.]                   # CLASS/IMAGE\n");
    cli_text_add(out, "  size: 32                     # height and width of all images\n");
}

void new_data_block(const new_data *d, cli_text *out)
{
    const kind *k = find(d->path);
    cli_text_add(out, "data:                          # %s\n", d->kind);
    if (*k->name != 0) cli_text_add(out, "  format: %s\n", k->name);
    else if (k->ending != NULL) add_files(d, out);
    else if (is_sounds(k)) add_sounds(d, out);
    else add_folder(d, k, out);
    if (!d->language && strcmp(d->task, "classification") != 0) {
        cli_text_add(out, "  task: %s\n", d->task);
    }
    if (strcmp(d->task, "denoising") == 0) {
        cli_text_add(out, "  noise: 0.25                  # that is added; white is 1\n");
    }
    if (!d->images && !d->language) {
        cli_text_add(out, "  standardize: true            # inputs to mean 0, deviation 1\n");
    }
    if (d->validation > 0) {
        cli_text_add(out, "  validation: %-17g# held back, to watch training\n", d->validation);
        if (d->order != NULL) {
            cli_text_add(out, "  validation_order: %-11s# %s\n", d->order,
                         strcmp(d->order, "time") == 0 ? "the last rows; drawn: by data.seed"
                                                       : "by data.seed; time: the last rows");
        }
    }
}

/* Lists folders of images beside train/ that are not the test data. */
static void find_parts(const new_data *d, cli_text *out)
{
    static const char *const names[] = { "val", "valid", "validation", "dev", "eval", NULL };
    for (int i = 0; d->tested && names[i] != NULL; i++) {
        char pattern[32];
        snprintf(pattern, sizeof pattern, "%s/*/*", names[i]);
        if (holds(d->path, pattern)) cli_text_add(out, out->used > 0 ? ", %s" : "%s", names[i]);
    }
}

void new_data_unread(const new_data *d, cli_text *out)
{
    if (d->images && find(d->path)->inside != NULL) find_parts(d, out);
    static const char *const sounds[] = { ".mp3", ".m4a", ".aac", ".wma", ".mp4", ".webm",
                                          ".amr", ".caf", ".au",  ".oga", ".w64", NULL };
    const kind *k = find(d->path);
    for (int i = 0; is_sounds(k) && sounds[i] != NULL; i++) {
        char pattern[16];
        snprintf(pattern, sizeof pattern, "*/*%s", sounds[i]);
        if (holds(d->path, pattern)) cli_text_add(out, out->used > 0 ? ", %s" : "%s", sounds[i]);
    }
}

/* ---- what the data say ----------------------------------------------------------------------- */

#define FEW 20 /* at most so many different integers may be classes */

const char *new_data_task(const dt_target_look *look, int64_t rows, const char *name, cli_text *why)
{
    const double range = look->most - look->least + 1;
    const bool dense = range == (double)look->different;
    const bool repeated = look->different <= rows / 2;
    const bool often = look->least == 0 && dense && look->different <= rows / 10;
    const bool classes =
        look->is_integer && (often || (look->different <= FEW && (repeated || dense)));
    if (look->columns > 1) {
        cli_text_add(why, "%s has %lld columns of %s", name, (long long)look->columns,
                     look->is_bits ? "0 and 1: they are classes, several at once (--task "
                                     "regression: values)"
                                   : "numbers: they are values");
        if (look->is_one_hot) {
            cli_text_add(why,
                         ". Every row has one 1: of classes that exclude each other the target "
                         "is one column, the number or name of the class (y.argmax(1))");
        }
        return look->is_bits ? "multi_label" : "regression";
    }
    cli_text_add(why, "%s has %lld different %s in %lld rows: %s", name, (long long)look->different,
                 look->is_integer ? "integers" : "numbers", (long long)rows,
                 classes ? "they are classes (--task regression: values)"
                         : "they are values (--task classification: each is a class)");
    return classes ? "classification" : "regression";
}

double new_data_share(int64_t n, int64_t classes)
{
    static const double shares[] = { 0.1, 0.2, 0.3, 0.5 };
    const int count = (int)(sizeof shares / sizeof shares[0]);
    for (int k = 0; k < 2; k++) { /* first with one example of each class, then with one example */
        for (int i = 0; i < count; i++) {
            const int64_t held = (int64_t)(shares[i] * (double)n);
            if (held >= (k == 0 && classes > 1 ? classes : 1)) return shares[i];
        }
    }
    return 0;
}

/* ---- models --------------------------------------------------------------------------------- */

static void add_input(cli_text *out, int rank, const int64_t *dims)
{
    cli_text_add(out, "  family: layers\n  input: %s\n  layers:\n", cli_dims_of(rank, dims).text);
}

/* Whether a network without batch norm and with strong weight decay suits the data: small tables
 * with numbers or few classes as targets are overfitted otherwise (docs/results.md). */
static bool is_small_table(const dt_dataset *train)
{
    return dt_dataset_count(train) < 1000 && dt_dataset_classes(train) < 4;
}

static void add_dense(cli_text *out, const dt_dataset *train)
{
    const char *norm = is_small_table(train) ? "" : "norm: batch, ";
    for (int i = 1; i <= 2; i++) {
        cli_text_add(out, "    - {linear: l%d, out: 64, %sactivation: relu}\n", i, norm);
    }
}

const char *new_weight_decay(const dt_dataset *train)
{
    int64_t dims[DT_MAX_RANK - 1];
    if (dt_dataset_input_shape(train, dims) != 1) return "0.01";
    return is_small_table(train) ? "5" : "1";
}

static void add_signal(cli_text *out)
{
    static const char line[] = "    - {conv1d: c%d, out: %d, kernel: 5, stride: 2, padding: 2, "
                               "norm: batch,\n       activation: relu}\n";
    cli_text_add(out, "    - {permute: turn, dims: [0, 2, 1]}     # channels first\n");
    for (int i = 1; i <= 3; i++) cli_text_add(out, line, i, 8 + 8 * i);
    cli_text_add(out, "    - global_avg_pool1d\n    - flatten\n");
}

static void add_planes(cli_text *out)
{
    static const char line[] = "    - {conv2d: c%d, out: %d, stride: %d, padding: 1, norm: batch,\n"
                               "       activation: relu}\n";
    for (int i = 1; i <= 4; i++) cli_text_add(out, line, i, 8 + 8 * i, i % 2 == 0 ? 2 : 1);
    cli_text_add(out, "    - global_avg_pool2d\n    - flatten\n");
}

static void add_autoencoder(cli_text *out, int rank, const int64_t *dims)
{
    int64_t all = 1;
    for (int i = 0; i < rank; i++) all *= dims[i];
    if (rank > 1) cli_text_add(out, "    - flatten\n");
    cli_text_add(out,
                 "    - {linear: e1, out: 64, norm: batch, activation: relu}\n"
                 "    - {linear: code, out: 12, activation: relu}\n"
                 "    - {linear: d1, out: 64, norm: batch, activation: relu}\n"
                 "    - {linear: d2, out: %lld}\n",
                 (long long)all);
    if (rank < 2) return;
    cli_text_add(out, "    - {reshape: back, shape: %s}\n", cli_dims_of(rank, dims).text);
}

/* Held-back examples may be longer than those of `train`. */
static void add_language(const new_data *d, const dt_dataset *train, cli_text *out)
{
    cli_text_add(out,
                 "  family: gpt\n  vocab: %lld\n  context: %lld\n  layers: 4\n  heads: 4\n"
                 "  width: 128\n  bias: false\n",
                 (long long)dt_dataset_classes(train), (long long)d->context);
}

/* Widths of a U-Net: up to three levels, as long as they halve the image without remainder. */
static void add_unet(const int64_t *dims, cli_text *out)
{
    int levels = 1;
    while (levels < 3 && dims[1] % (2 << (levels - 1)) == 0 && dims[2] % (2 << (levels - 1)) == 0) {
        levels++;
    }
    cli_text_add(out, "  family: unet\n  image: [%lld, %lld, %lld]\n  widths: [8",
                 (long long)dims[0], (long long)dims[1], (long long)dims[2]);
    for (int i = 1; i < levels; i++) cli_text_add(out, ", %d", 8 << i);
    cli_text_add(out, "]\n  outputs: %lld\n", (long long)dims[0]);
}

void new_model_block(const new_data *d, const dt_dataset *train, cli_text *out)
{
    int64_t dims[DT_MAX_RANK - 1];
    const int rank = dt_dataset_input_shape(train, dims);
    cli_text_add(out, "model:\n");
    if (d->init != NULL) {
        cli_text_add(out, "  init: ");
        new_data_quote(out, d->init, strlen(d->init));
        cli_text_add(out, "   # its layers, and its weights to begin with\n");
        return;
    }
    if (d->language) {
        add_language(d, train, out);
        return;
    }
    if (strcmp(d->task, "denoising") == 0) {
        add_unet(dims, out);
        return;
    }
    add_input(out, rank, dims);
    if (strcmp(d->task, "anomaly") == 0) {
        add_autoencoder(out, rank, dims);
        return;
    }
    if (rank == 2 && dims[0] >= 16) add_signal(out);
    else if (rank == 3 && dims[1] >= 8 && dims[2] >= 8) add_planes(out);
    else if (rank > 1) cli_text_add(out, "    - flatten\n");
    if (rank == 1 || (rank == 2 && dims[0] < 16) || (rank == 3 && (dims[1] < 8 || dims[2] < 8))) {
        add_dense(out, train);
    }
    const long long outputs = (long long)dt_dataset_outputs(train);
    cli_text_add(out, "    - {linear: head, out: %lld}\n", outputs);
    if (strcmp(d->task, "regression") != 0) return;
    cli_text_add(out,
                 "    # y = x deviation + mean of the training targets\n"
                 "    - {affine: unit, shape: [%lld], trained: false, of_targets: true}\n",
                 outputs);
}
