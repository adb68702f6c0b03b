/* detent new: writes a commented recipe for the user's data. Options that are not given become
 * questions on a terminal. The data are opened to choose a network that fits them. */
#include "cli/new_data.h"

#include "cli/print/meter.h"
#include "cli/print/text_stream.h"

#include <detent/io.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    DATA,
    TASK,
    TARGET,
    BITS,
    FLOAT,
    INPUTS,
    IGNORE,
    TEST,
    GROUP,
    ROWS,
    INIT
}; /* options, as in main.c */

#define ANSWER 512
#define CONTEXT 64   /* tokens of running text */
#define LONGEST 4096 /* tokens of an example, at most */
#define PROBE "detent new"
#define PRESET "int8-dynamic-int%d-weight"
#define UPDATES 1500 /* of the proposed training, about */

/* Answers to the questions, or values of options. */
typedef struct answers {
    char data[ANSWER], task[ANSWER], target[ANSWER], bits[ANSWER], file[ANSWER];
} answers;

/* The weight bits in the preset's name. */
static int preset_bits(const answers *a) { return a->bits[0] == '8' ? 8 : 4; }

/* ---- questions ------------------------------------------------------------------------------ */

/* Sets an answer: the option's value, else the answer to the question, else `usual` (after an empty
 * answer, or without a terminal). False: there is none. */
static bool ask(const char *given, const char *question, const char *usual, char answer[ANSWER])
{
    snprintf(answer, ANSWER, "%s", given != NULL ? given : "");
    if (given == NULL && isatty(STDIN_FILENO)) {
        fprintf(stderr, "%s%s%s%s ", question, usual != NULL ? " [" : "",
                usual != NULL ? usual : "", usual != NULL ? "]" : "");
        fflush(stderr);
        if (fgets(answer, ANSWER, stdin) == NULL) answer[0] = 0;
        answer[strcspn(answer, "\r\n")] = 0;
    }
    if (answer[0] == 0 && usual != NULL) snprintf(answer, ANSWER, "%s", usual);
    return answer[0] != 0;
}

/* Refuses NAME where the inputs are arrays in an archive: it has to be FILE:NAME. */
static int check_target(const cli_args *args, const new_data *d, const char *target)
{
    const char *end = strstr(d->path, ".npz");
    if (end == NULL) end = strstr(d->path, ".safetensors");
    if (end == NULL || strpbrk(target, ".:/") != NULL || access(target, F_OK) == 0) return CLI_DONE;
    const int n = (int)(end - d->path) + (int)strcspn(end, ":");
    return cli_fail(args, CLI_USAGE,
                    "--target: '%s' is not a file; array '%s' of %.*s is written %.*s:%s", target,
                    target, n, d->path, n, d->path, target);
}

static int read_task(const cli_args *args, const new_data *d, const char *usual, answers *a)
{
    static const char *const tasks[] = { "classification", "regression", "multi_label", "anomaly",
                                         "denoising",      "language",   NULL };
    ask(args->option[TASK], "Task (classification, regression, multi_label, anomaly, denoising)?",
        usual, a->task);
    int i = 0;
    while (tasks[i] != NULL && strcmp(tasks[i], a->task) != 0) i++;
    if (tasks[i] == NULL) {
        const char *meant = dt_nearest(tasks, a->task);
        return cli_fail(args, CLI_USAGE, "--task: no task '%s'%s%s%s", a->task,
                        meant == NULL ? "" : " (did you mean '", meant == NULL ? "" : meant,
                        meant == NULL ? "" : "'?)");
    }
    if (d->language == (strcmp(a->task, "language") == 0)) return CLI_DONE;
    return cli_fail(args, CLI_USAGE, "--task %s: %s is %s", a->task, d->path, d->kind);
}

/* ---- a trained model ------------------------------------------------------------------------ */

/* --init: the model, and its settings that decide how texts are read. */
typedef struct trained {
    dt_module *m; /* NULL: none */
    dt_model_info info, texts;
    int64_t context; /* of a language model; else 0 */
} trained;

static int read_trained(const cli_args *args, dt_ctx *ctx, trained *out)
{
    char path[CLI_PATH];
    const char *word[] = { args->option[INIT] };
    if (word[0] == NULL) return CLI_DONE;
    cli_command command = *args->command;
    command.model = CLI_FLOAT_MODEL;
    cli_args as_word = *args;
    as_word.command = &command;
    as_word.words = word;
    as_word.n_words = 1;
    const int found = cli_find_model(&as_word, path);
    if (found != CLI_DONE) return found;
    if (dt_model_load(ctx, path, &out->m, &out->info) != DT_OK) return cli_fail_file(args, ctx);
    const dt_language *language = dt_module_type_of(out->m)->language;
    if (language == NULL) return CLI_DONE;
    out->context = language->context(out->m);
    out->texts = (dt_model_info){ .tokenizer = out->info.tokenizer,
                                  .tokens = out->info.tokens,
                                  .hf = out->info.hf,
                                  .data = out->info.data };
    return CLI_DONE;
}

static int read_data(const cli_args *args, answers *a, const trained *from, new_data *d)
{
    static const char question[] = "Data (a folder of images or sounds; .csv, .db, .npy, .txt, "
                                   ".jsonl; digits, sounds, sensors, "
                                   "table)?";
    if (!ask(args->option[DATA], question, NULL, a->data)) {
        return cli_fail(args, CLI_USAGE, "--data PATH is missing: a folder, a file, or digits");
    }
    *d = (new_data){
        .path = a->data,
        .task = a->task,
        .context = CONTEXT,
        .group = args->option[GROUP],
        .init = args->option[INIT],
        .own = from->context > 0 ? &from->texts : NULL,
        .most_context = from->context,
    };
    if (!new_data_find(d)) {
        cli_text holds = { .used = 0 };
        new_data_holds(a->data, &holds);
        return cli_fail(args, CLI_BAD_FILE,
                        "%s: not data of a known kind%s; these are known: folders train/CLASS/ or "
                        "CLASS/ of .png or .jpg, CLASS/*.wav or .flac, files .csv or a folder of "
                        "them, .db, .db:TABLE, .npy, .npz, "
                        ".npz:NAME, .safetensors, "
                        ".txt or .jsonl, IDX, CIFAR-10, or digits, sounds, sensors, table",
                        a->data, holds.text);
    }
    if (d->init != NULL && d->language != (from->context > 0)) {
        return cli_fail(args, CLI_USAGE, "--init: %s is %s language model, but %s is %s", d->init,
                        from->context > 0 ? "a" : "no", d->path, d->kind);
    }
    if (d->columns && !ask(args->option[TARGET],
                           "What is predicted (columns a,b; of arrays a file)?", NULL, a->target)) {
        return cli_fail(args, CLI_USAGE,
                        "--target is missing: columns of the table, or a file of targets");
    }
    if (!d->columns && args->option[TARGET] != NULL) {
        return cli_fail(args, CLI_USAGE, "--target: %s is %s, which has no columns", d->path,
                        d->kind);
    }
    if (d->columns && check_target(args, d, a->target) != CLI_DONE) return CLI_USAGE;
    d->target = d->columns ? a->target : NULL;
    d->order = d->columns ? "drawn" : NULL;
    return CLI_DONE;
}

static int read_bits(const cli_args *args, answers *a)
{
    if (args->option[FLOAT] != NULL && args->option[BITS] != NULL) {
        return cli_fail(args, CLI_USAGE, "--float and --bits exclude each other");
    }
    ask(args->option[BITS], "Bits of a weight (2, 3, 4, 8)?", "4", a->bits);
    if (strlen(a->bits) == 1 && strchr("2348", a->bits[0]) != NULL) return CLI_DONE;
    return cli_fail(args, CLI_USAGE, "--bits is '%s', and should be 2, 3, 4 or 8", a->bits);
}

/* Reads the name of the recipe's file, which must not exist. */
static int read_file(const cli_args *args, answers *a)
{
    ask(args->n_words > 0 ? args->words[0] : NULL, "The recipe's file?", "my.yaml", a->file);
    for (const char *c = a->file; *c != 0; c++) {
        if ((unsigned char)*c >= ' ' && *c != 127) continue;
        return cli_fail(args, CLI_USAGE, "%s: the name of a recipe has no control characters",
                        a->file);
    }
    if (access(a->file, F_OK) == 0) {
        return cli_fail(args, CLI_BAD_FILE, "%s exists; give another name, or remove it", a->file);
    }
    return CLI_DONE;
}

/* ---- the recipe ----------------------------------------------------------------------------- */

/* Opens the training data by a recipe whose model does not matter; prints nothing. */
static dt_status open_data(dt_ctx *ctx, const new_data *d, dt_dataset **train)
{
    cli_text probe = { .used = 0 }, data = { .used = 0 };
    dt_recipe *recipe = NULL;
    dt_dataset *validation = NULL, *test = NULL;
    new_data_block(d, &data);
    cli_text_add(&probe, "run: {dir: x}\nmodel: {family: mlp, sizes: [1, 1]}\n%s", data.text);
    const dt_recipe_source source = {
        .path = PROBE, .text = probe.text, .bytes = probe.used, .use = DT_RECIPE_TO_TRAIN
    };
    dt_status s = dt_recipe_read(ctx, &source, &recipe);
    meter_begin("reading the data", false);
    if (s == DT_OK) s = dt_recipe_open_data(recipe, d->own, train, &validation, &test);
    meter_end();
    dt_dataset_free(validation);
    dt_dataset_free(test);
    dt_recipe_free(recipe);
    return s;
}

/* Reports why data cannot be opened, without the position in PROBE, a text that the user has not
 * seen. */
static int fail_open(const cli_args *args, const dt_ctx *ctx)
{
    static const char mark[] = ": error: ";
    const char *text = dt_error(ctx), *after = strstr(text, mark);
    if (strncmp(text, PROBE, sizeof PROBE - 1) != 0 || after == NULL) {
        return cli_fail_file(args, ctx);
    }
    return cli_fail(args, CLI_USAGE, "%s", after + sizeof mark - 1);
}

static bool is_number(const char *text)
{
    char *end;
    strtod(text, &end);
    return end != text && *end == 0;
}

/* Whether text is a number such as 3,14. */
static bool has_decimal_comma(const char *text)
{
    char copy[40];
    snprintf(copy, sizeof copy, "%s", text);
    char *comma = strchr(copy, ',');
    if (comma == NULL || comma == copy || comma[1] == 0 || strchr(text, '.') != NULL) return false;
    *comma = '.';
    return is_number(copy);
}

/* Looks at targets that cannot be opened as numbers. If most words are no numbers, they are
 * classes; otherwise the error about the numbers is reported. */
static int look_at_words(const cli_args *args, dt_ctx *ctx, const new_data *d, const char *name,
                         cli_text *why)
{
    char wrong[1024];
    new_data probe = *d;
    dt_dataset *classes = NULL;
    snprintf(wrong, sizeof wrong, "%s", dt_error(ctx));
    probe.task = "classification";
    const dt_status s = open_data(ctx, &probe, &classes);
    const char *word = NULL;
    int64_t numbers = 0, commas = 0, n = s == DT_OK ? dt_dataset_classes(classes) : 0;
    for (int64_t c = 0; c < n; c++) {
        const char *text = dt_dataset_class_name(classes, c);
        const bool number = text == NULL || is_number(text);
        numbers += number;
        commas += !number && has_decimal_comma(text);
        if (!number && word == NULL) word = text;
    }
    if (word != NULL) {
        cli_text_add(why, "%s has words, such as '", name);
        cli_text_add_name(why, word);
        cli_text_add(why, "': each is a class");
    }
    dt_dataset_free(classes);
    if (2 * commas > n) {
        return cli_fail(args, CLI_USAGE,
                        "%s has numbers with a decimal comma; write them with a point (--task "
                        "classification: each of %lld words is a class)",
                        name, (long long)n);
    }
    if (2 * numbers < n) return CLI_DONE;
    if (s != DT_OK) return fail_open(args, ctx);
    const char *after = strstr(wrong, ": error: ");
    return cli_fail(args, CLI_USAGE, "%s (--task classification: each of %lld words is a class)",
                    after == NULL ? wrong : after + strlen(": error: "), (long long)n);
}

/* ---- tables --------------------------------------------------------------------------------- */

/* What was found in a table. */
typedef struct table {
    char target[ANSWER];
    cli_text exclude, header, index; /* exclude: a list in YAML; the others: lines of output */
    new_columns columns;
} table;

/* Replaces targets by the numbers of their columns, where a table has no header: a target is given
 * by its text in the first row. */
static int number_targets(const cli_args *args, new_data *d, const dt_strings *names,
                          const int64_t *place, int64_t columns, table *t)
{
    size_t used = 0;
    for (int i = 0; i < names->n; i++) {
        char *end;
        const long number = strtol(names->v[i], &end, 10);
        const bool is_place = end != names->v[i] && *end == 0 && number >= 0 && number < columns;
        if (!is_place && place[i] < 0) {
            return cli_fail(args, CLI_USAGE,
                            "--target: '%s' is not a column: the first row of %s consists of "
                            "numbers, so it is not a header, and the columns are 0 to %lld",
                            names->v[i], d->path, (long long)columns - 1);
        }
        const long long at = is_place ? number : (long long)place[i];
        const int n = snprintf(t->target + used, ANSWER - used, "%s%lld", i > 0 ? "," : "", at);
        used += n > 0 ? (size_t)n : 0;
        if (!is_place) {
            cli_text_add(&t->header, "%s'%s' is column %lld", i > 0 ? ", " : "; ", names->v[i], at);
        }
    }
    d->target = t->target;
    return CLI_DONE;
}

/* Finds out whether a table has a header. Errors of the file are reported when it is read. */
static int look_at_header(const cli_args *args, dt_ctx *ctx, new_data *d, table *t)
{
    char copy[ANSWER];
    dt_strings names = { .n = 0 };
    int64_t place[DT_MAX_LIST], columns;
    dt_first_row row;
    if (!new_data_is_table(d)) return CLI_DONE;
    snprintf(copy, sizeof copy, "%s", d->target);
    for (char *at = copy; at != NULL && names.n < DT_MAX_LIST;) {
        char *comma = strchr(at, ',');
        if (comma != NULL) *comma = 0;
        names.v[names.n++] = at;
        at = comma == NULL ? NULL : comma + 1;
    }
    if (dt_csv_look(ctx, d->path, &names, place, &columns, &row) != DT_OK) return CLI_DONE;
    if (row != DT_ROW_DATA) return CLI_DONE;
    d->no_header = true;
    cli_text_add(&t->header,
                 "header: none, since the first row consists of numbers (data.columns.header); the "
                 "columns are 0 to %lld",
                 (long long)columns - 1);
    return number_targets(args, d, &names, place, columns, t);
}

/* Checks --group, and splits the table by it. */
static int look_at_groups(const cli_args *args, new_data *d, const new_columns *c)
{
    const char *name = d->group;
    if (name == NULL) return CLI_DONE;
    if (c->groups == 0) {
        return cli_fail(args, CLI_USAGE, "--group: '%s' is not a column of %s", name, d->path);
    }
    if (new_columns_has(d->target, name) || new_columns_has(d->inputs, name)) {
        return cli_fail(args, CLI_USAGE, "--group: '%s' is a column of %s, and cannot tell groups",
                        name, new_columns_has(d->target, name) ? "--target" : "--inputs");
    }
    if (c->groups < 2) {
        return cli_fail(args, CLI_USAGE, "--group: '%s' has one value; groups are two or more",
                        name);
    }
    new_data_split(d, name, c->groups);
    d->validation = c->groups < NEW_GROUPS ? 0.3 : 0.2;
    return CLI_DONE;
}

/* Finds out what the columns contain. */
static int look_at_columns(const cli_args *args, dt_ctx *ctx, new_data *d, table *t)
{
    const bool is_table = new_data_is_table(d);
    static const int own[] = { INPUTS, IGNORE, TEST, ROWS };
    static const char *const names[] = { "--inputs", "--ignore", "--test", "--rows" };
    for (int i = 0; i < 4 && !is_table; i++) {
        if (args->option[own[i]] == NULL) continue;
        return cli_fail(args, CLI_USAGE, "%s: %s is %s, not a CSV file%s", names[i], d->path,
                        d->kind, own[i] == TEST ? "; data.test of the recipe names others" : "");
    }
    if (d->group != NULL && !is_table && !d->sounds) {
        return cli_fail(args, CLI_USAGE, "--group: %s is %s, which has no columns", d->path,
                        d->kind);
    }
    if (!is_table) return CLI_DONE;
    d->inputs = args->option[INPUTS];
    d->test = args->option[TEST];
    d->rows = args->option[ROWS] != NULL;
    new_columns *c = &t->columns;
    c->ignore = args->option[IGNORE];
    const dt_status s = new_columns_decide(ctx, d, c);
    if (s == DT_ERR_NOMEM) return cli_fail(args, CLI_FAILED, "out of memory");
    if (s != DT_OK) return cli_fail_file(args, ctx);
    if (c->unknown != NULL) {
        return cli_fail(args, CLI_USAGE, "--ignore: '%.*s' is not a column of %s",
                        (int)strcspn(c->unknown, ","), c->unknown, d->path);
    }
    if (c->rows < 2) {
        return cli_fail(args, CLI_BAD_FILE, "%s: %s; expected at least 2 rows, to learn from",
                        d->path, c->rows == 0 ? "a head without rows" : "one row");
    }
    if (c->kept == 0) {
        return cli_fail(args, CLI_USAGE,
                        "%s: no input is left: each column is a target, has one value or none, "
                        "names its rows, or is left out by an option",
                        d->path);
    }
    if (d->joined && d->series.used == 0) {
        return cli_fail(
            args, CLI_USAGE,
            "%s: the files are joined by time, but the first one has no column of times "
            "or numbers that rises, or its target is not the same for %d rows and more",
            d->path, NEW_SHORTEST);
    }
    const int grouped = look_at_groups(args, d, c);
    if (grouped != CLI_DONE) return grouped;
    if (c->types.used + 1 >= sizeof c->types.text) {
        return cli_fail(args, CLI_USAGE,
                        "%s: too many columns have types; --inputs chooses some of them", d->path);
    }
    if (c->types.used > 0) d->types = c->types.text;
    if (c->in_time) d->order = "time";
    if (d->split.used > 0) d->order = NULL;
    return CLI_DONE;
}

/* Excludes columns that number the rows. */
static void leave_out_index(const dt_target_look *look, new_data *d, table *t)
{
    if (look->index.n == 0 || d->inputs != NULL) return;
    for (int i = 0; i < look->index.n; i++) {
        new_columns_drop(&t->columns, look->index.v[i]);
        cli_text_add(&t->exclude, i == 0 ? "[" : ", ");
        new_data_quote(&t->exclude, look->index.v[i], strlen(look->index.v[i]));
        cli_text_add(&t->index, "%s'", i == 0 ? "index: " : ", ");
        cli_text_add_name(&t->index, look->index.v[i]);
        cli_text_add(&t->index, "'");
    }
    cli_text_add(&t->exclude, "]");
    cli_text_add(&t->index, " number%s the rows and %s no input (data.columns.exclude)",
                 look->index.n == 1 ? "s" : "", look->index.n == 1 ? "is" : "are");
    d->exclude = t->exclude.text;
}

/* ---- the task ------------------------------------------------------------------------------- */

/* Sets *usual to the task that the targets of a table or of arrays suggest, and says why. */
static int look_at_targets(const cli_args *args, dt_ctx *ctx, new_data *d, const char **usual,
                           cli_text *why)
{
    new_data probe = *d;
    dt_dataset *values = NULL;
    dt_target_look look;
    cli_text name = { .used = 0 };
    probe.task = "regression";
    dt_status s = open_data(ctx, &probe, &values);
    cli_text_add(&name, "'");
    cli_text_add_name(&name, d->target);
    cli_text_add(&name, "'");
    if (s == DT_ERR_FORMAT || s == DT_ERR_CONFIG || s == DT_ERR_UNSUPPORTED) {
        return look_at_words(args, ctx, d, name.text, why);
    }
    if (s == DT_OK) s = dt_dataset_look(values, &look);
    if (s == DT_OK) {
        *usual = new_data_task(&look, dt_dataset_count(values), name.text, why);
    }
    dt_dataset_free(values);
    return s == DT_OK ? CLI_DONE : cli_fail_by(args, ctx);
}

/* *out: whether examples are chats, from the text about the data that a model file would have. */
static dt_status find_chats(dt_ctx *ctx, const dt_dataset *train, bool *out)
{
    text_stream text = { .to = NULL };
    dt_model_data about = { .target = NULL };
    dt_status s = dt_model_data_text(train, text_stream_add, &text);
    const bool said = text.n > 0;
    if (s == DT_OK && said) s = text_stream_add(&text, "", 1);
    if (s == DT_OK && said) s = dt_model_data_parse(ctx, text.text, "the data", &about);
    *out = about.chat != DT_CHAT_AUTO;
    dt_model_data_free(ctx, &about);
    text_stream_free(&text);
    return s;
}

/* Whether the error is one of data.chat, such as an unknown template. */
static bool is_of_chats(const dt_ctx *ctx) { return strstr(dt_error(ctx), "data.chat") != NULL; }

/* Whether another context or validation share may avoid the error. */
static bool depends_on_cut(const dt_ctx *ctx)
{
    static const char *const words[] = { "data.context", "data.validation", "tokens; expected" };
    bool depends = false;
    for (int i = 0; i < 3; i++) depends = depends || strstr(dt_error(ctx), words[i]) != NULL;
    return depends;
}

/* Opens texts with the longest example as context; running text with the largest context that it
 * fills. */
static dt_status open_texts(dt_ctx *ctx, new_data *d, dt_dataset **train)
{
    static const int contexts[] = { LONGEST, CONTEXT, 32, 16, 8, 4 };
    static const double shares[] = { 0.1, 0.5, 0 };
    dt_status s = DT_ERR_CONFIG;
    for (size_t i = 0; i < 3 * (sizeof contexts / sizeof contexts[0]); i++) {
        if (s != DT_ERR_CONFIG && s != DT_ERR_FORMAT) break;
        d->context = contexts[i / 3];
        d->validation = shares[i % 3];
        dt_dataset_free(*train);
        *train = NULL;
        if (d->most_context > 0 && d->context > d->most_context) d->context = d->most_context;
        s = open_data(ctx, d, train);
        if (s == DT_ERR_CONFIG && d->chats && is_of_chats(ctx) && strcmp(d->form, "auto") == 0) {
            d->form = "plain";
            s = open_data(ctx, d, train);
        }
        if (s == DT_ERR_CONFIG && !depends_on_cut(ctx)) break;
        if (s != DT_OK || d->context != LONGEST) continue;
        const int64_t longest = dt_dataset_context(*train);
        d->context = longest < CONTEXT ? CONTEXT : longest;
        if (longest == LONGEST) s = DT_ERR_CONFIG; /* running text, cut at the limit */
    }
    return s == DT_OK ? find_chats(ctx, *train, &d->chats) : s;
}

/* Whether examples are [height, width, channels]. */
static bool is_channels_last(const dt_dataset *train)
{
    int64_t dims[DT_MAX_RANK - 1];
    const int rank = dt_dataset_input_shape(train, dims);
    return rank == 3 && dims[2] <= 4 && dims[0] > 4 && dims[1] > 4;
}

/* Opens the data, and chooses validation share, context and layout to fit them. */
static int open_fitting(const cli_args *args, dt_ctx *ctx, new_data *d, table *t,
                        dt_dataset **train)
{
    dt_status s = d->language ? open_texts(ctx, d, train) : open_data(ctx, d, train);
    if (s == DT_OK && d->columns && is_channels_last(*train)) {
        d->channels_last = true;
        dt_dataset_free(*train);
        *train = NULL;
        s = open_data(ctx, d, train);
    }
    dt_target_look look = { .time = NULL };
    if (s == DT_OK && d->order != NULL) s = dt_dataset_look(*train, &look);
    if (s == DT_OK && look.time != NULL) d->order = "time";
    leave_out_index(&look, d, t);
    if (s == DT_OK && d->exclude != NULL) {
        dt_dataset_free(*train);
        *train = NULL;
        s = open_data(ctx, d, train);
    }
    if (s != DT_OK) return fail_open(args, ctx);
    if (!d->language && d->validation == 0) {
        d->validation = new_data_share(dt_dataset_count(*train), dt_dataset_classes(*train));
    }
    return CLI_DONE;
}

/* Number of examples to train on: all but the validation examples. */
static int64_t count_trained(const new_data *d, const dt_dataset *train)
{
    const int64_t all = dt_dataset_count(train);
    /* left out already when the data were opened */
    const bool held = new_data_is_table(d) && d->group != NULL;
    return all - (held ? 0 : (int64_t)(d->validation * (double)all));
}

/* A batch size with which no batch has a single example: batch norm has no variance for it. */
static int batch_size(const new_data *d, const dt_dataset *train)
{
    static const int sizes[] = { 64, 48, 60, 56 };
    const int64_t n = count_trained(d, train);
    int i = 0;
    while (i < 3 && n > sizes[i] && (n - 1) % sizes[i] == 0) i++;
    return d->language ? 16 : sizes[i];
}

/* A trained model gets a smaller one. */
static const char *learning_rate(const new_data *d)
{
    if (d->init != NULL) return d->language ? "1e-4" : "5e-4";
    return d->language ? "1e-3" : "2e-3";
}

/* Writes the blocks train, qat and convert, for about UPDATES updates. */
static void add_training(const new_data *d, const dt_dataset *train, bool quantized,
                         const answers *a, cli_text *out)
{
    const int bits = a->bits[0] - '0';
    const int64_t size = batch_size(d, train);
    const int64_t batches = (count_trained(d, train) + size - 1) / size;
    int64_t epochs = batches > 0 ? (UPDATES + batches - 1) / batches : 1;
    if (epochs > 100) epochs = 100;
    const int64_t updates = d->language ? UPDATES : epochs * batches;
    cli_text_add(out, "train:\n");
    if (d->language) cli_text_add(out, "  steps: %d                  # updates\n", UPDATES);
    else
        cli_text_add(out, "  epochs: %-21lld# %lld update%s\n", (long long)epochs,
                     (long long)updates, CLI_S(updates));
    cli_text_add(out,
                 "  batch_size: %d\n"
                 "  optimizer: {name: adamw, lr: %s, weight_decay: %s}\n"
                 "  schedule: {name: cosine, warmup_steps: %lld}\n"
                 "  clip_grad_norm: 1.0\n",
                 (int)size, learning_rate(d), d->init != NULL ? "0.01" : new_weight_decay(train),
                 (long long)(updates / 20 + 1));
    if (!quantized) return;
    cli_text_add(out,
                 "  float_baseline: true         # a float model beside it, to compare\n\n"
                 "qat:\n"
                 "  preset: " PRESET "   # activations of 8 bits\n",
                 preset_bits(a));
    if (bits < 8) cli_text_add(out, "  weight: {bits: %d}            # of a weight\n", bits);
    if (d->language && bits < 8 && d->init == NULL) {
        cli_text_add(out, "  rules:\n    - {match: head, weight: {bits: 8}}   # tied: the token "
                          "embedding too\n");
    }
    cli_text_add(out,
                 "  start_step: %-17lld# before it in float, from it on for integers\n\n"
                 "convert:\n"
                 "  output: model.safetensors    # in run.dir\n",
                 (long long)(updates / 3));
}

static void add_head(const answers *a, const new_data *d, cli_text *out)
{
    char dir[ANSWER + 8];
    const char *slash = strrchr(a->file, '/'), *name = slash == NULL ? a->file : slash + 1;
    const size_t n = strcspn(name, ".");
    snprintf(dir, sizeof dir, "runs/%.*s", n > 0 ? (int)n : 3, n > 0 ? name : "new");
    cli_text_add(out,
                 "# %s, %s. detent train %s trains by it;\n"
                 "# detent config keys lists what else can be set.\n"
                 "run:\n  dir: ",
                 d->kind, d->task, a->file);
    new_data_quote(out, dir, strlen(dir));
    cli_text_add(out, "\n  seed: 1\n\n");
}

/* Makes all checks of `detent train` before its first update, and prints its warnings. */
static int check_recipe(const cli_args *args, const answers *a, const cli_text *text)
{
    dt_ctx *ctx;
    const int opened = cli_open(args, 0, &ctx);
    if (opened != CLI_DONE) return opened;
    dt_recipe *recipe = NULL;
    const dt_run_control control = { .check_only = true };
    const dt_recipe_source source = { .path = a->file, .text = text->text, .bytes = text->used };
    dt_status s = dt_recipe_read(ctx, &source, &recipe);
    if (s == DT_OK) s = dt_run(ctx, recipe, &control, NULL);
    const int status = s == DT_OK ? CLI_DONE : cli_fail_recipe(args, ctx, recipe);
    dt_recipe_free(recipe);
    dt_ctx_free(ctx);
    return status;
}

/* ---- what is said --------------------------------------------------------------------------- */

/* What the model predicts. */
static const char *predicted(const new_data *d)
{
    if (d->target != NULL) return d->target;
    if (d->language) return "the next token";
    if (strcmp(d->task, "denoising") == 0) return "the input without noise";
    return strcmp(d->task, "anomaly") == 0 ? "the input itself" : "what comes with the data";
}

/* Prints all that the recipe assumes, chosen by options or not. */
static void say_assumed(const cli_args *args, const answers *a, const new_data *d,
                        const dt_dataset *train)
{
    cli_table t = { .form = "ll" };
    cli_table_put(&t, "assumed");
    cli_table_put(&t, "");
    cli_table_put(&t, "target");
    cli_table_put(&t, predicted(d));
    cli_table_put(&t, "task");
    cli_table_put(&t, a->task);
    cli_table_put(&t, "validation");
    if (d->validation > 0) cli_table_format(&t, "%g of the training data", d->validation);
    else cli_table_put(&t, "none");
    cli_table_put(&t, "preset");
    if (args->option[FLOAT] != NULL) cli_table_put(&t, "none, floats");
    else cli_table_format(&t, PRESET ", weights of %s bits", preset_bits(a), a->bits);
    cli_table_put(&t, d->language ? "context" : d->series.used > 0 ? "windows" : "examples");
    if (d->language) cli_table_format(&t, "%lld tokens", (long long)d->context);
    else cli_table_format(&t, "%lld", (long long)dt_dataset_count(train));
    if (d->chats) {
        cli_table_put(&t, "chats");
        cli_table_format(&t, "messages as %s (data.chat); answers are learned",
                         strcmp(d->form, "plain") == 0 ? "plain text" : "the model has them");
    }
    cli_table_print(&t);
    cli_table_free(&t);
}

/* Prints what was decided, and the settings that change it. */
static void say_choices(const answers *a, const new_data *d, table *t, const cli_text *why)
{
    cli_say("%s: %s, %s", a->file, d->kind, a->task);
    if (why->used > 0) cli_say("%s", why->text);
    for (int i = 0; i < 2; i++) {
        if (d->about[i].used > 0) cli_say("%s", d->about[i].text);
    }
    if (t->header.used > 0) cli_say("%s", t->header.text);
    if (t->index.used > 0) cli_say("%s", t->index.text);
    if (t->columns.types.used > 0) cli_table_print(&t->columns.table);
    cli_text unread = { .used = 0 };
    new_data_unread(d, &unread);
    if (unread.used > 0 && d->images) {
        cli_say("%s: %s is not read; data.test: [%s] reads it as test data", d->path, unread.text,
                unread.text);
    } else if (unread.used > 0) {
        cli_say("%s: recordings in %s are not read", d->path, unread.text);
    }
    if (d->order != NULL && d->validation > 0) {
        const bool last = strcmp(d->order, "time") == 0;
        cli_say("validation: %s (data.validation_order: %s)",
                last ? "the last rows, since they are in the order of time"
                : strcmp(d->task, "classification") == 0
                    ? "examples drawn by data.seed, classes in proportion"
                    : "examples drawn by data.seed",
                last ? "drawn draws them" : "time takes the last ones");
    }
    if (d->channels_last) {
        cli_say(
            "layout: [height, width, channels] becomes [channels, height, width] (data.layout)");
    }
}

/* Writes the block `model`. The number of categories of a table depends on the rows that are held
 * back, so the data are opened once more. */
static int add_model(const cli_args *args, dt_ctx *ctx, const new_data *d, const dt_dataset *train,
                     cli_text *out)
{
    dt_dataset *own = NULL;
    if (d->types != NULL && open_data(ctx, d, &own) != DT_OK) return fail_open(args, ctx);
    new_model_block(d, own != NULL ? own : train, out);
    dt_dataset_free(own);
    return CLI_DONE;
}

static int make(const cli_args *args, dt_ctx *ctx, answers *a, new_data *d, table *t,
                const cli_text *why)
{
    cli_text data = { .used = 0 }, out = { .used = 0 };
    dt_dataset *train = NULL;
    int status = open_fitting(args, ctx, d, t, &train);
    if (status == CLI_DONE) {
        new_data_block(d, &data);
        add_head(a, d, &out);
        status = add_model(args, ctx, d, train, &out);
    }
    if (status == CLI_DONE) {
        cli_text_add(&out, "\n%s\n", data.text);
        add_training(d, train, args->option[FLOAT] == NULL, a, &out);
    }
    if (status == CLI_DONE && out.used + 1 >= sizeof out.text) {
        status = cli_fail(args, CLI_USAGE,
                          "%s: too many columns for a recipe; --inputs chooses "
                          "some of them",
                          d->path);
    }
    if (status == CLI_DONE) status = check_recipe(args, a, &out);
    if (status == CLI_DONE) status = cli_write_new(args, a->file, out.text, out.used);
    if (status == CLI_DONE) {
        say_choices(a, d, t, why);
        say_assumed(args, a, d, train);
        fflush(stdout); /* keeps the order of lines, where both streams go to one file */
        cli_tell(stderr, "detent train %s", a->file);
    }
    dt_dataset_free(train);
    return status;
}

static int answer_all(const cli_args *args, dt_ctx *ctx, answers *a)
{
    new_data d = { .path = NULL };
    table t = { .target = "" };
    cli_text why = { .used = 0 };
    trained from = { .m = NULL };
    int status = read_trained(args, ctx, &from);
    if (status == CLI_DONE) status = read_data(args, a, &from, &d);
    if (status == CLI_DONE && d.columns) status = look_at_header(args, ctx, &d, &t);
    if (status == CLI_DONE) status = look_at_columns(args, ctx, &d, &t);
    if (status == CLI_DONE && d.sounds) status = new_sounds_measure(args, ctx, &d);
    const char *usual = status == CLI_DONE && d.language ? "language" : "classification";
    if (status == CLI_DONE && d.columns && args->option[TASK] == NULL) {
        status = look_at_targets(args, ctx, &d, &usual, &why);
    }
    if (status == CLI_DONE) status = read_task(args, &d, usual, a);
    if (strcmp(a->task, usual) != 0) why.used = 0; /* `why` is about another task */
    if (status == CLI_DONE) status = read_bits(args, a);
    if (status == CLI_DONE) status = read_file(args, a);
    if (status == CLI_DONE) status = make(args, ctx, a, &d, &t, &why);
    cli_table_free(&t.columns.table);
    dt_model_info_free(ctx, &from.info);
    dt_module_free(from.m);
    return status;
}

int cli_new(const cli_args *args)
{
    answers a = { .data = "" };
    dt_ctx *ctx;
    const int opened = cli_open_quiet(args, &ctx);
    if (opened != CLI_DONE) return opened;
    const int status = answer_all(args, ctx, &a);
    dt_ctx_free(ctx);
    return status;
}
