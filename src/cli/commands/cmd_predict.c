/* detent predict: prints a model's predictions for files: classes, numbers, bits, errors, images,
 * or the next token of a text. Inputs are prepared as the model's file says (detent.data). */
#include "cli/cli.h"
#include "cli/input_files.h"
#include "cli/print/meter.h"
#include "cli/print/predicted.h"
#include "cli/print/text_stream.h"

#include <detent/experimental/layers.h>
#include <detent/ops.h>
#include <detent/experimental/text.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JSON, TOP, COLUMNS, KEEP, PROBABILITIES, FORMAT, OUTPUT, QUIET }; /* options, as in main.c */

#define AT_ONCE 64 /* examples per pass */

/* ---- columns of a table --------------------------------------------------------------------- */

/* Splits "a,b,c" into names; the caller frees *memory. */
static int read_names(const cli_args *args, int option, const char *what, dt_strings *out,
                      char **memory)
{
    const char *text = args->option[option];
    *memory = NULL;
    if (text == NULL) return CLI_DONE;
    char *at = *memory = strdup(text);
    if (at == NULL) return cli_fail(args, CLI_FAILED, "out of memory");
    for (;; at++) {
        if (out->n == DT_MAX_LIST) {
            return cli_fail(args, CLI_USAGE, "%s has more than %d names; use * and ?", what,
                            DT_MAX_LIST);
        }
        out->v[out->n++] = at;
        at += strcspn(at, ",");
        if (*at == 0) return CLI_DONE;
        *at = 0;
    }
}

static bool is_csv(const char *output)
{
    const size_t n = output == NULL ? 0 : strlen(output);
    return n > 0 && (strcmp(output, "-") == 0 || (n > 4 && strcmp(output + n - 4, ".csv") == 0));
}

/* Reads which columns of a table are inputs, and which are written in front of predictions:
 * --keep, by default all that are not inputs. */
static int read_columns(const cli_args *args, dt_csv_options *out, char *memory[2])
{
    *out = (dt_csv_options){ .header = true };
    memory[1] = NULL;
    int status = read_names(args, COLUMNS, "--columns", &out->inputs, &memory[0]);
    if (status == CLI_DONE) status = read_names(args, KEEP, "--keep", &out->keep, &memory[1]);
    const bool csv = is_csv(args->option[OUTPUT]);
    if (status == CLI_DONE && !csv && (out->keep.n > 0 || args->option[PROBABILITIES] != NULL)) {
        return cli_fail(args, CLI_USAGE,
                        "--keep and --probabilities require -o FILE.csv, or -o - for standard "
                        "output");
    }
    if (csv && out->keep.n == 0) out->keep.v[out->keep.n++] = "*";
    return status;
}

static int read_top(const cli_args *args, int *out)
{
    const char *text = args->option[TOP];
    *out = 3;
    if (text == NULL) return CLI_DONE;
    char *end;
    const long n = strtol(text, &end, 10);
    if (end == text || *end != 0 || n < 1 || n > PREDICTED_TOP) {
        return cli_fail(args, CLI_USAGE, "--top is '%s', and should be 1 to %d", text,
                        PREDICTED_TOP);
    }
    *out = (int)n;
    return CLI_DONE;
}

/* ---- files ---------------------------------------------------------------------------------- */

/* Prints the predictions for one batch. */
static dt_status answer(predicted *p, dt_module *m, dt_tape *t, dt_tensor *x, int64_t *done)
{
    dt_ctx *ctx = dt_module_ctx(m);
    dt_tape_reset(t);
    const dt_tensor *y = dt_contiguous(t, dt_forward(t, m, x));
    if (dt_tape_status(t) != DT_OK) return dt_tape_status(t);
    for (int64_t i = 0; i < dt_dim(x, 0); i++) {
        const predicted_example e = { x, y, i, *done };
        const dt_status s = predicted_add(ctx, p, &e);
        if (s != DT_OK) return s;
        ++*done;
    }
    return DT_OK;
}

static dt_status answer_all(predicted *p, dt_module *m, dt_dataset *d)
{
    dt_ctx *ctx = dt_module_ctx(m);
    dt_loader_options order = dt_loader_defaults();
    dt_loader *l = NULL;
    dt_tape *t = NULL;
    int64_t done = 0;
    order.batch_size = AT_ONCE;
    order.shuffle = false;
    dt_status s = dt_loader_create(d, &order, &l);
    if (s == DT_OK) s = dt_tape_create(ctx, &t);
    if (s == DT_OK) dt_no_grad(t, true);
    for (int64_t i = 0; s == DT_OK && i < dt_loader_batches(l); i++) {
        dt_tensor *x, *target;
        s = dt_loader_next(l, &x, &target);
        if (s == DT_OK) s = answer(p, m, t, x, &done);
        if (dt_dataset_count(d) > AT_ONCE) meter_at(done, dt_dataset_count(d), p->path);
    }
    dt_tape_free(t);
    dt_loader_free(l);
    return s;
}

/* Says once how pixels are given to a model whose file does not say how it reads them. */
static void say_assumed(const cli_args *args, predicted *p, const dt_dataset *d)
{
    const dt_model_data *data = p->data;
    if (p->assumed || dt_dataset_channels(d) == 0 || data->pixels || data->channels > 0) return;
    p->assumed = true;
    meter_remove();
    cli_tell(stderr,
             "detent predict: %s does not say what numbers it reads: pixels are given to it as v = "
             "p/255 (detent import has --mean and --deviation)",
             args->words[0]);
}

static int predict_file(const cli_args *args, predicted *p, dt_module *m,
                        const dt_csv_options *columns, const char *path)
{
    dt_ctx *ctx = dt_module_ctx(m);
    dt_dataset *d = NULL;
    dt_status s = dt_model_data_open(ctx, p->data, path, columns, &d);
    if (s == DT_OK) say_assumed(args, p, d);
    p->data_at_hand = d;
    if (s == DT_OK) s = predicted_file(ctx, p, path, dt_dataset_count(d));
    if (s == DT_OK) s = answer_all(p, m, d);
    dt_dataset_free(d);
    return s == DT_OK ? CLI_DONE : cli_fail_file(args, ctx);
}

static int predict_files(const cli_args *args, dt_module *m, const dt_model_data *data, int top)
{
    dt_ctx *ctx = dt_module_ctx(m);
    dt_csv_options columns;
    char *memory[2];
    int status = read_columns(args, &columns, memory);
    input_files files = { .n = 0 };
    if (status == CLI_DONE) status = cli_check_apart(args, args->option[OUTPUT]);
    if (status == CLI_DONE) status = input_files_find(args, data, &files);
    predicted p = { .data = data,
                    .json = args->option[JSON] != NULL,
                    .top = top,
                    .output = args->option[OUTPUT],
                    .csv = is_csv(args->option[OUTPUT]),
                    .probabilities = args->option[PROBABILITIES] != NULL };
    if (status == CLI_DONE && predicted_begin(ctx, &p) != DT_OK) status = cli_fail_by(args, ctx);
    const bool begun = status == CLI_DONE;
    meter_begin("predict", args->option[QUIET] != NULL);
    for (int i = 0; i < files.n && status == CLI_DONE; i++) {
        meter_at(i, files.n, files.path[i]);
        status = predict_file(args, &p, m, &columns, files.path[i]);
    }
    meter_end();
    input_files_free(&files);
    if (begun && predicted_end(ctx, &p, status == CLI_DONE) != DT_OK) {
        status = cli_fail_by(args, ctx);
    }
    free(memory[0]);
    free(memory[1]);
    return status;
}

/* ---- text ----------------------------------------------------------------------------------- */

typedef struct text_job {
    const cli_args *args;
    dt_ctx *ctx;
    const dt_tokenizer *k;
    cli_prompts format; /* --format */
    int64_t context;
    int top;
    dt_decoder *d;
    cli_table table;
} text_job;

/* Prints a token as a JSON string or as a word in a table. */
static dt_status token_text(const text_job *j, int32_t id, cli_text *out)
{
    text_stream s = { .to = NULL };
    const dt_status status = dt_tokenizer_decode_on(j->k, &id, 1, false, text_stream_add, &s);
    const bool json = j->args->option[JSON] != NULL;
    for (size_t i = 0; i < s.n && status == DT_OK; i++) {
        if (s.text[i] == '\n' && !json) cli_text_add(out, "\\n");
        else cli_text_add(out, "%c", s.text[i]);
    }
    text_stream_free(&s);
    return status;
}

static dt_status show_tokens(text_job *j, const char *path, const dt_tensor *logits, bool first)
{
    const float *v = dt_data(logits);
    const int64_t n = dt_count(logits);
    int64_t place[PREDICTED_TOP];
    const bool json = j->args->option[JSON] != NULL;
    if (v == NULL) return dt_error_status(j->ctx);
    const int found = predicted_largest(v, n, j->top, place);
    if (json) {
        fputs(first ? "\n  {\"input\": " : ",\n  {\"input\": ", stdout);
        cli_json_string(path);
        fputs(", \"next\": [", stdout);
    }
    for (int i = 0; i < found; i++) {
        cli_text token = { .used = 0 };
        const double share = predicted_share(v, n, place[i]);
        const dt_status s = token_text(j, (int32_t)place[i], &token);
        if (s != DT_OK) return s;
        if (json) {
            printf("%s{\"id\": %lld, \"text\": ", i > 0 ? ", " : "", (long long)place[i]);
            cli_json_text(token.text, token.used);
            fputs(", \"probability\": ", stdout);
            cli_json_number(share);
            fputs("}", stdout);
        } else {
            cli_table_put(&j->table, i == 0 ? path : "");
            cli_table_format(&j->table, "'%s'", token.text);
            cli_table_format(&j->table, "%.1f %%", 100 * share);
        }
    }
    if (json) fputs("]}", stdout);
    return DT_OK;
}

/* Predicts the token after the text of a file. Of a long text only the end that fits the context is
 * read. */
static int predict_text(text_job *j, const char *path, bool first)
{
    const dt_encoding how = { .special = false, .wrap = j->format.given };
    dt_ids ids = { .ctx = j->ctx };
    dt_tensor *logits;
    char *text = NULL;
    size_t bytes = 0;
    dt_status s = dt_text_read(j->ctx, path, &text, &bytes);
    const dt_message message = { DT_ROLE_USER, text, bytes };
    if (s == DT_OK) s = cli_prompt_encode(&j->format, j->k, &message, &how, &ids);
    if (s == DT_OK && ids.n == 0)
        s = dt_fail(j->ctx, DT_ERR_FORMAT,
                    "no text in it; expected one, which the model goes on with");
    const int64_t n = ids.n < j->context ? ids.n : j->context;
    if (s == DT_OK) s = dt_decoder_rewind(j->d, 0);
    if (s == DT_OK) s = dt_decoder_feed(j->d, ids.id + ids.n - n, n, &logits);
    if (s == DT_OK) s = show_tokens(j, path, logits, first);
    dt_ids_free(&ids);
    if (text != NULL) dt_text_free(j->ctx, text);
    if (s == DT_OK) return CLI_DONE;
    const char *words = dt_error(j->ctx);
    if (strstr(words, path) != NULL) return cli_fail_file(j->args, j->ctx);
    return cli_fail(j->args, cli_exit_by(j->ctx), "%s: %s", path, words);
}

static int predict_texts(const cli_args *args, dt_module *m, const dt_model_info *info, int top)
{
    dt_ctx *ctx = dt_module_ctx(m);
    dt_tokenizer *k = NULL;
    text_job j = { .args = args, .ctx = ctx, .top = top, .table = { .form = "llr" } };
    const bool json = args->option[JSON] != NULL;
    if (info->tokenizer == NULL) {
        return cli_fail(args, CLI_BAD_FILE, "%s has no tokenizer, so it cannot read text",
                        args->words[0]);
    }
    j.context = dt_module_type_of(m)->language->context(m);
    dt_status s =
        dt_tokenizer_parse(ctx, info->tokenizer, strlen(info->tokenizer), args->words[0], &k);
    if (s == DT_OK) s = dt_decoder_create(m, NULL, &j.d);
    int status = s == DT_OK ? CLI_DONE : cli_fail_file(args, ctx);
    if (status == CLI_DONE && args->option[FORMAT] != NULL) {
        status = cli_prompts_read(args, ctx, info, &j.format);
    } else if (status == CLI_DONE) {
        cli_prompts_advise(args, ctx, info);
    }
    j.k = k;
    if (status == CLI_DONE && json) putchar('[');
    const bool begun = status == CLI_DONE;
    cli_table_put(&j.table, "input");
    cli_table_put(&j.table, "next");
    cli_table_put(&j.table, "probability");
    for (int i = 1; i < args->n_words && status == CLI_DONE; i++) {
        status = predict_text(&j, args->words[i], i == 1);
    }
    if (begun && json) puts("\n]");
    if (begun && !json) cli_table_print(&j.table);
    else cli_table_free(&j.table);
    cli_prompts_free(&j.format);
    dt_decoder_free(j.d);
    dt_tokenizer_free(k);
    return status;
}

/* ---- models without detent.data ------------------------------------------------------------- */

/* Describes the data of a model that was imported, or built in C: input shapes of a list of layers;
 * numbers are neither scaled nor named. */
static bool describe(const dt_model_info *info, cli_text *out)
{
    const dt_layers_options *o = info->options;
    if (info->family == NULL || strcmp(info->family->name, "layers") != 0) return false;
    if (o->output.n > 1 || o->input.n < 1) return false;
    dt_ints all = { .n = 1, .v = { 0 } };
    for (int i = 0; i < o->input.n; i++) {
        int64_t count = 1;
        for (int k = 0; k < o->input.shape[i].n; k++) count *= o->input.shape[i].v[k];
        all.v[0] += count;
    }
    cli_text_add(out, "{\"target\": \"values\", ");
    const dt_ints *dims = o->input.n == 1 ? &o->input.shape[0] : &all;
    cli_text_add(out, "\"input\": %s", cli_dims_of(dims->n, dims->v).text);
    for (int i = 0; i < o->input.n && o->input.n > 1; i++) {
        cli_text_add(out, i == 0 ? ", \"inputs\": [{\"name\": \"%s\", " : ", {\"name\": \"%s\", ",
                     o->input.name[i]);
        cli_text_add(out, "\"input\": %s",
                     cli_dims_of(o->input.shape[i].n, o->input.shape[i].v).text);
        cli_text_add(out, i + 1 < o->input.n ? "}" : "}]");
    }
    cli_text_add(out, "}");
    return true;
}

/* ---- the command ---------------------------------------------------------------------------- */

static int predict(const cli_args *args, dt_module *m, const dt_model_info *info, int top)
{
    dt_ctx *ctx = dt_module_ctx(m);
    dt_model_data data;
    if (dt_module_type_of(m)->language != NULL) return predict_texts(args, m, info, top);
    if (args->option[FORMAT] != NULL) {
        return cli_fail(args, CLI_USAGE, "--format is for texts; %s is not a language model",
                        args->words[0]);
    }
    cli_text known = { .used = 0 };
    if (info->data == NULL && !describe(info, &known)) {
        return cli_fail(args, CLI_BAD_FILE,
                        "%s does not say what it reads and what its answers mean (detent.data): a "
                        "run of `detent train` writes that into its files",
                        args->words[0]);
    }
    const char *text = info->data != NULL ? info->data : known.text;
    if (dt_model_data_parse(ctx, text, args->words[0], &data) != DT_OK) {
        return cli_fail_file(args, ctx);
    }
    const int status = predict_files(args, m, &data, top);
    dt_model_data_free(ctx, &data);
    return status;
}

int cli_predict(const cli_args *args, dt_ctx *ctx)
{
    int top = 0, status = read_top(args, &top);
    if (status != CLI_DONE) return status;
    dt_module *m = NULL;
    dt_model_info info;
    if (dt_model_load(ctx, args->words[0], &m, &info) != DT_OK) {
        status = cli_fail_file(args, ctx);
    } else {
        dt_train(m, false);
        status = predict(args, m, &info, top);
        dt_model_info_free(ctx, &info);
        dt_module_free(m);
    }
    return status;
}
