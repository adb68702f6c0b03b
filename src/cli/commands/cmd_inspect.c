/* detent inspect: lists the contents of a safetensors file. All tensors of a quantized weight are
 * one row; the state of a training run is one line. */
#include "cli/cli.h"
#include "cli/print/inspect_tables.h"
#include "cli/print/text.h"

#include <detent/experimental/export.h>

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { JSON, LAYERS, GRAPH, DEVICE, CLOCK }; /* options, as in main.c */

#define OWN "detent." /* prefix of tensors that do not belong to the model */

typedef struct row {
    const char *name, *form; /* a scheme, or a dtype */
    const char *state;       /* of a quantized weight; "" for others */
    bool g_idx;
    int64_t experts; /* of a grouped weight; 0 for others */
    int rank;
    const int64_t *dims;
    int64_t count;
    size_t bytes;
} row;

typedef struct totals {
    int64_t rows, values, weights, run_tensors;
    size_t bytes, weight_bytes, run_bytes;
} totals;

typedef struct look {
    const dt_file *file;
    const dt_file_weights *weights;
    cli_table text;
    void (*each)(struct look *l, const row *r);
    totals sum;
} look;

static double bits_of(size_t bytes, int64_t count)
{
    return count == 0 ? 0 : 8 * (double)bytes / (double)count;
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* For a grouped weight stored expert by expert: the part of the name behind the expert's ".3". */
static const char *skip_expert(const dt_file_weight *w, const char *rest)
{
    const size_t n = *rest == '.' && w->experts > 0 ? strspn(rest + 1, "0123456789") : 0;
    return n == 0 ? rest : rest + 1 + n;
}

/* Whether a tensor is a listed weight or a part of one. */
static bool is_listed(const look *l, const char *name)
{
    static const char *const parts[] = { ".codes", ".scale", ".zero_point", ".g_idx" };
    for (int64_t i = 0; i < dt_file_weights_count(l->weights); i++) {
        const dt_file_weight *w = dt_file_weights_at(l->weights, i);
        const size_t n = strlen(w->name);
        if (strncmp(w->name, name, n) != 0) continue;
        const char *rest = skip_expert(w, name + n);
        if (!w->packed && *rest == 0) return true;
        for (int k = 0; k < 4 && w->packed; k++) {
            if (strcmp(rest, parts[k]) == 0) return true;
        }
    }
    return false;
}

static void visit_weights(look *l)
{
    for (int64_t i = 0; i < dt_file_weights_count(l->weights); i++) {
        const dt_file_weight *w = dt_file_weights_at(l->weights, i);
        const char *state = *w->rounder != 0 ? w->rounder
                            : w->packed      ? "packed"
                            : w->enabled     ? "enabled"
                                             : "disabled";
        l->sum.weights += w->count;
        l->sum.weight_bytes += w->bytes;
        const row of = { w->name, w->scheme, state,    w->g_idx, w->experts,
                         w->rank, w->dims,   w->count, w->bytes };
        l->each(l, &of);
    }
}

static void visit_tensors(look *l)
{
    for (int64_t i = 0; i < dt_file_count(l->file); i++) {
        const dt_file_entry *e = dt_file_at(l->file, i);
        if (strncmp(e->name, OWN, strlen(OWN)) == 0) {
            l->sum.run_tensors++;
            l->sum.run_bytes += e->bytes;
        } else if (!is_listed(l, e->name)) {
            const row of = {
                e->name, e->dtype, "", false, 0, e->rank, e->dims, e->count, e->bytes
            };
            l->each(l, &of);
        }
    }
}

static void visit(look *l, void (*each)(look *l, const row *r))
{
    l->sum = (totals){ .rows = 0 };
    l->each = each;
    visit_weights(l);
    visit_tensors(l);
}

static void count_row(look *l, const row *r)
{
    l->sum.rows++;
    l->sum.values += r->count;
    l->sum.bytes += r->bytes;
}

/* ---- for people ----------------------------------------------------------------------------- */

static void shape_text(const row *r, char text[160])
{
    const int first = r->experts > 0; /* "8 x [96,64]" */
    size_t used = first ? (size_t)snprintf(text, 160, "%lld x [", (long long)r->experts)
                        : (size_t)snprintf(text, 160, "[");
    for (int i = first; i < r->rank && used < 130; i++) {
        used += (size_t)snprintf(text + used, 160 - used, i == first ? "%lld" : ",%lld",
                                 (long long)r->dims[i]);
    }
    snprintf(text + used, 160 - used, "]");
}

static void form_text(const row *r, char text[112])
{
    snprintf(text, 112, "%s%s%s%s", r->form, *r->state == 0 ? "" : ", ", r->state,
             r->g_idx ? ", g_idx" : "");
}

static void put_row(look *l, const row *r)
{
    char shape[160], form[112];
    count_row(l, r);
    shape_text(r, shape);
    form_text(r, form);
    cli_table_put(&l->text, r->name);
    cli_table_put(&l->text, shape);
    cli_table_put(&l->text, form);
    cli_table_format(&l->text, "%.2f", bits_of(r->bytes, r->count));
    cli_table_format(&l->text, "%zu", r->bytes);
}

/* ---- what the metadata say ------------------------------------------------------------------ */

#define META_COLUMN 16

static void print_entry(const char *name, const char *text)
{
    char head[META_COLUMN + 1];
    snprintf(head, sizeof head, "%s", name);
    cli_entry(stdout, head, META_COLUMN, text);
}

/* Prints kind and size of a model's tokenizer; its full text is long. */
static void print_tokenizer(dt_ctx *ctx, const char *text)
{
    dt_tokenizer *k = NULL;
    cli_text p = { .used = 0 };
    if (text == NULL) return;
    if (dt_tokenizer_parse(ctx, text, strlen(text), "detent.tokenizer", &k) == DT_OK) {
        cli_text_add(&p, "%s, %lld token%s", dt_tokenizer_kind(k), (long long)dt_tokenizer_vocab(k),
                     CLI_S(dt_tokenizer_vocab(k)));
    } else {
        cli_text_add(&p, "damaged");
    }
    print_entry("tokenizer", p.text);
    dt_tokenizer_free(k);
}

static dt_status add_bytes(void *text, const char *bytes, size_t n)
{
    cli_text_add(text, "%.*s", (int)n, bytes);
    return DT_OK;
}

/* Prints a token's id and, if there is a tokenizer, its text. */
static void add_token(cli_text *p, const dt_tokenizer *k, const char *name, int32_t id)
{
    cli_text token = { .used = 0 };
    cli_text_add(p, "%s%s%d", p->used == 0 ? "" : ", ", name, (int)id);
    if (k == NULL || dt_tokenizer_decode(k, &id, 1, false, add_bytes, &token) != DT_OK) return;
    dt_text_clean(token.text);
    if (token.text[0] != 0) cli_text_add(p, " '%s'", token.text);
}

/* Prints the tokens that begin, end and pad texts. */
static void print_tokens(dt_ctx *ctx, const dt_file *file)
{
    const char *text = dt_file_meta(file, "detent.tokens");
    const char *tokenizer = dt_file_meta(file, "detent.tokenizer");
    dt_text_tokens t;
    dt_tokenizer *k = NULL;
    cli_text p = { .used = 0 };
    if (text == NULL) return;
    if (dt_text_tokens_parse(ctx, text, "detent.tokens", &t) != DT_OK) {
        print_entry("tokens", "damaged");
        return;
    }
    if (tokenizer != NULL &&
        dt_tokenizer_parse(ctx, tokenizer, strlen(tokenizer), "", &k) != DT_OK) {
        k = NULL;
    }
    if (t.begin >= 0) add_token(&p, k, "begin ", t.begin);
    for (int i = 0; i < t.n_end; i++) add_token(&p, k, i == 0 ? "end " : "", t.end[i]);
    if (t.pad >= 0) add_token(&p, k, "pad ", t.pad);
    print_entry("tokens", p.used == 0 ? "none" : p.text);
    dt_tokenizer_free(k);
}

static void add_numbers(cli_text *p, const double *v, int64_t n)
{
    const int64_t shown = n < 4 ? n : 4;
    for (int64_t i = 0; i < shown; i++) cli_text_add(p, "%s%.5g", i == 0 ? "" : ", ", v[i]);
    if (n > shown) cli_text_add(p, ", ...");
}

static void print_standard(const dt_model_data *d)
{
    cli_text p = { .used = 0 };
    cli_text_add(&p, "(v - mean) / deviation, mean ");
    add_numbers(&p, d->mean, d->channels);
    cli_text_add(&p, ", deviation ");
    add_numbers(&p, d->deviation, d->channels);
    print_entry("standardized", p.text);
}

/* Prints the format of prompts or completions on one line. */
static void print_format(const char *what, const char *format)
{
    cli_text p = { .used = 0 };
    if (format == NULL) return;
    cli_text_add_name(&p, format);
    print_entry(what, p.text);
}

static void print_chat(const dt_model_data *d)
{
    static const char *const names[] = {
        [DT_CHAT_CHATML] = "chatml", [DT_CHAT_LLAMA3] = "llama3", [DT_CHAT_PLAIN] = "plain"
    };
    if (d->chat == DT_CHAT_AUTO) return;
    print_entry("chats", names[d->chat]);
    print_format("system", d->system);
}

/* Prints the typed columns of a table. */
static void print_columns(const dt_columns *c)
{
    cli_table t = { .form = "llll" };
    if (c == NULL) return;
    static const char *const heads[] = { "column", "type", "becomes", "missing" };
    for (int i = 0; i < 4; i++) cli_table_put(&t, heads[i]);
    for (int64_t i = 0; i < c->n; i++) {
        cli_text name = { .used = 0 };
        cli_text_add_name(&name, c->column[i].name);
        cli_table_put(&t, name.text);
        for (int about = DT_COLUMN_ITS_TYPE; about <= DT_COLUMN_IF_MISSING; about++) {
            char words[DT_COLUMN_TEXT];
            cli_text cell = { .used = 0 };
            cli_text_add_name(&cell,
                              dt_column_describe(&c->column[i], (dt_column_about)about, words));
            cli_table_put(&t, cell.text);
        }
    }
    puts("");
    cli_table_print(&t);
}

/* Prints windows of a table, and how its numbers are written. */
static void print_reading(const dt_model_data *d)
{
    cli_text series = { .used = 0 }, form = { .used = 0 };
    const dt_series_options *s = &d->series;
    if (s->given) {
        cli_text_add(&series, "windows of %lld rows, %lld apart", (long long)d->input.v[0],
                     (long long)d->stride);
        for (int i = 0; i < s->by.n; i++) {
            cli_text_add(&series, i == 0 ? ", of one " : " and ");
            cli_text_add_name(&series, s->by.v[i]);
        }
        if (s->time != NULL) {
            cli_text_add(&series, ", in the order of ");
            cli_text_add_name(&series, s->time);
            cli_text_add(&series, ", ended by steps beyond %.6g", s->gap);
        }
        if (s->rate > 0) {
            static const char *const methods[] = { "linear", "nearest", "last" };
            cli_text_add(&series, "; rows made at %.6g to a second or unit, by %s", s->rate,
                         methods[s->method]);
        }
        print_entry("series", series.text);
    }
    if (d->csv.decimal != DT_CSV_DECIMAL_COMMA) return;
    cli_text_add(&form, "decimal commas%s",
                 d->csv.thousands == DT_CSV_THOUSANDS_POINT ? ", points between thousands" : "");
    print_entry("numbers", form.text);
}

/* Prints decision thresholds: which output 1 - output 0, or each bit's logit, must exceed. */
static void print_levels(const char *what, int64_t n, const double *level)
{
    cli_text text = { .used = 0 };
    for (int64_t i = 0; i < n; i++) cli_text_add(&text, i == 0 ? "%.6g" : ", %.6g", level[i]);
    if (n > 0) print_entry(what, text.text);
}

/* Prints what the model reads, and what its outputs mean. */
static void print_data(dt_ctx *ctx, const char *text)
{
    dt_model_data d;
    cli_text in = { .used = 0 }, out = { .used = 0 };
    if (text == NULL) return;
    if (dt_model_data_parse(ctx, text, "detent.data", &d) != DT_OK) {
        print_entry("data", "damaged");
        return;
    }
    if (d.input.n == 0) {
        print_format("prompts", d.prompt);
        print_format("completions", d.completion);
        print_chat(&d);
        dt_model_data_free(ctx, &d);
        return;
    }
    for (int i = 0; i < d.input.n; i++) {
        cli_text_add(&in, i == 0 ? "[%lld" : ", %lld", (long long)d.input.v[i]);
    }
    cli_text_add(&in, d.input.n > 0 ? "]" : "[]");
    for (int i = 0; i < d.n_inputs && d.n_inputs > 1; i++) {
        cli_text_add(&in, i == 0 ? ": " : ", ");
        cli_text_add_name(&in, d.inputs[i].name);
        for (int k = 0; k < d.inputs[i].input.n; k++) {
            cli_text_add(&in, k == 0 ? " [%lld" : ", %lld", (long long)d.inputs[i].input.v[k]);
        }
        cli_text_add(&in, "]");
    }
    if (d.resized) cli_text_add(&in, ", images resized to it");
    print_entry("input", in.text);
    if (d.channels > 0) print_standard(&d);
    cli_text_add(&out, "%s", d.target);
    for (int64_t i = 0; i < d.n_names && i < 32; i++) {
        cli_text_add(&out, i == 0 ? ": " : ", ");
        cli_text_add_name(&out, d.names[i]);
    }
    if (d.n_names > 32) cli_text_add(&out, ", ...");
    for (int i = 0; i < d.n_outputs && d.n_outputs > 1; i++) {
        cli_text_add(&out, i == 0 ? ": " : ", ");
        cli_text_add_name(&out, d.outputs[i].name);
        cli_text_add(&out, " (%s)", d.outputs[i].target);
    }
    print_entry("output", out.text);
    print_levels("thresholds", d.n_thresholds, d.thresholds);
    print_levels("quantiles", d.n_quantiles, d.quantiles);
    print_reading(d.n_inputs == 1 ? &d.inputs[0] : &d);
    print_columns(d.n_inputs == 1 ? d.inputs[0].table : d.table);
    dt_model_data_free(ctx, &d);
}

/* Prints JSON text with a space behind each comma outside of strings, where lines may wrap. */
static void add_json(cli_text *p, const char *json)
{
    const size_t first = p->used;
    bool inside = false, escaped = false;
    for (; *json != 0; json++) {
        cli_text_add(p, "%c%s", *json, *json == ',' && !inside ? " " : "");
        if (*json == '"' && !escaped) inside = !inside;
        escaped = *json == '\\' && !escaped;
    }
    dt_text_clean(p->text + first);
    p->used = first + strlen(p->text + first);
}

static void print_meta(dt_ctx *ctx, const dt_file *file)
{
    static const char *const keys[] = { "detent.version", "detent.model" };
    for (int i = 0; i < 2; i++) {
        const char *value = dt_file_meta(file, keys[i]);
        cli_text p = { .used = 0 };
        if (value == NULL) continue;
        add_json(&p, value);
        print_entry(keys[i], p.text);
    }
    print_tokenizer(ctx, dt_file_meta(file, "detent.tokenizer"));
    print_tokens(ctx, file);
    print_data(ctx, dt_file_meta(file, "detent.data"));
    const char *base = dt_file_meta(file, "detent.base");
    cli_text p = { .used = 0 };
    if (base == NULL) return;
    add_json(&p, base);
    print_entry("adapters of", p.text);
}

static void print_text(look *l, dt_ctx *ctx)
{
    static const char *const heads[] = { "tensor", "shape", "form", "bits", "bytes" };
    l->text.form = "lllrr";
    for (int i = 0; i < 5; i++) cli_table_put(&l->text, heads[i]);
    print_meta(ctx, l->file);
    visit(l, put_row);
    cli_table_print(&l->text);
    const totals *t = &l->sum;
    cli_say("%lld tensor%s, %lld value%s, %zu bytes, %.2f bits a value", (long long)t->rows,
            CLI_S(t->rows), (long long)t->values, CLI_S(t->values), t->bytes,
            bits_of(t->bytes, t->values));
    if (t->weights > 0) {
        cli_say("quantized: %lld weight%s, %zu bytes, %.2f bits a weight", (long long)t->weights,
                CLI_S(t->weights), t->weight_bytes, bits_of(t->weight_bytes, t->weights));
    }
    if (t->run_tensors > 0) {
        cli_say("state of a run: %lld tensor%s, %zu bytes", (long long)t->run_tensors,
                CLI_S(t->run_tensors), t->run_bytes);
    }
}

/* ---- for programs --------------------------------------------------------------------------- */

static void print_json_row(look *l, const row *r)
{
    fputs(l->sum.rows == 0 ? "\n    {\"name\": " : ",\n    {\"name\": ", stdout);
    count_row(l, r);
    cli_json_string(r->name);
    fputs(*r->state == 0 ? ", \"dtype\": " : ", \"scheme\": ", stdout);
    cli_json_string(r->form);
    if (*r->state != 0) printf(", \"state\": \"%s\"", r->state);
    if (r->g_idx) fputs(", \"g_idx\": true", stdout);
    if (r->experts > 0) printf(", \"experts\": %lld", (long long)r->experts);
    printf(", \"shape\": %s, \"count\": %lld, \"bytes\": %zu, \"bits\": ",
           cli_dims_of(r->rank, r->dims).text, (long long)r->count, r->bytes);
    cli_json_number(bits_of(r->bytes, r->count));
    fputs("}", stdout);
}

static void print_json(look *l)
{
    const char *key, *value;
    fputs("{\n  \"metadata\": {", stdout);
    for (int64_t i = 0; dt_file_meta_at(l->file, i, &key, &value); i++) {
        fputs(i == 0 ? "\n    " : ",\n    ", stdout);
        cli_json_string(key);
        fputs(": ", stdout);
        cli_json_string(value);
    }
    fputs("},\n  \"tensors\": [", stdout);
    visit(l, print_json_row);
    const totals *t = &l->sum;
    printf("],\n  \"total\": {\"tensors\": %lld, \"values\": %lld, \"bytes\": %zu},\n"
           "  \"quantized\": {\"weights\": %lld, \"bytes\": %zu, \"bits\": ",
           (long long)t->rows, (long long)t->values, t->bytes, (long long)t->weights,
           t->weight_bytes);
    cli_json_number(bits_of(t->weight_bytes, t->weights));
    printf("},\n  \"run\": {\"tensors\": %lld, \"bytes\": %zu}\n}\n", (long long)t->run_tensors,
           t->run_bytes);
}

#define CLOCK_MHZ 64 /* usual for microcontrollers with radio that have this core */

/* The clock in MHz of the core that --device names; 0: none. */
static int read_clock(const cli_args *args, int *mhz)
{
    const char *core = args->option[DEVICE];
    const bool named = core != NULL && *core != 0;
    *mhz = named ? CLOCK_MHZ : 0;
    if (named && strcmp(core, "cortex-m4") != 0) {
        return cli_fail(args, CLI_USAGE, "--device: no estimate for '%s'; there is cortex-m4",
                        core);
    }
    if (args->option[CLOCK] != NULL && !named) {
        return cli_fail(args, CLI_USAGE, "--clock requires --device cortex-m4");
    }
    return cli_read_count(args, CLOCK, 2000, mhz);
}

static dt_status print_part(const cli_args *args, dt_module *m, const dt_model_info *info,
                            int clock)
{
    const char *graph = args->option[GRAPH];
    const bool json = args->option[JSON] != NULL;
    if (args->option[DEVICE] != NULL) return cli_print_device(m, info, clock, json);
    return graph != NULL ? cli_print_graph(m, info, strcmp(graph, "dot") == 0)
                         : cli_print_layers(m, info->family, info->options, json);
}

/* Prints the layers of the model in the file, the ops that it runs, or its costs on a device. */
static int print_model(const cli_args *args, dt_ctx *ctx)
{
    dt_module *m = NULL;
    dt_model_info info;
    const char *graph = args->option[GRAPH];
    if ((args->option[LAYERS] != NULL) + (graph != NULL) + (args->option[DEVICE] != NULL) > 1) {
        return cli_fail(args, CLI_USAGE, "--layers, --graph and --device exclude each other");
    }
    if (graph != NULL && strcmp(graph, "table") != 0 && strcmp(graph, "dot") != 0) {
        return cli_fail(args, CLI_USAGE, "--graph must be table or dot, not '%s'", graph);
    }
    int clock;
    const int status = read_clock(args, &clock);
    if (status != CLI_DONE) return status;
    if (dt_model_load(ctx, args->words[0], &m, &info) != DT_OK) return cli_fail_file(args, ctx);
    const dt_status s = print_part(args, m, &info, clock);
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    return s == DT_OK ? CLI_DONE : cli_fail_by(args, ctx);
}

static bool is_graph(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot != NULL && (strcasecmp(dot, ".onnx") == 0 || strcasecmp(dot, ".tflite") == 0);
}

static int print_graph_file(const cli_args *args, dt_ctx *ctx)
{
    dt_graph_info info;
    if (dt_graph_inspect(ctx, args->words[0], &info) != DT_OK) return cli_fail_file(args, ctx);
    cli_print_graph_file(&info, args->option[JSON] != NULL);
    dt_graph_info_free(ctx, &info);
    return CLI_DONE;
}

static int print_file(const cli_args *args, dt_ctx *ctx)
{
    dt_file *file = NULL;
    dt_file_weights *weights = NULL;
    int status = CLI_DONE;
    if (dt_file_open(ctx, args->words[0], &file) != DT_OK ||
        dt_file_weights_read(file, &weights) != DT_OK) {
        status = cli_fail_file(args, ctx);
    } else {
        look l = { .file = file, .weights = weights };
        if (args->option[JSON] == NULL) print_text(&l, ctx);
        else print_json(&l);
    }
    dt_file_weights_free(weights);
    dt_file_close(file);
    return status;
}

static bool is_c_folder(const char *path) { return !is_graph(path) && dt_export_is_file(path); }

int cli_inspect(const cli_args *args, dt_ctx *ctx)
{
    if (is_c_folder(args->words[0])) {
        return cli_fail(args, CLI_BAD_FILE,
                        "%s: an export of format c; its README.md says what it holds, and 'detent "
                        "eval' measures it",
                        args->words[0]);
    }
    const bool graph = is_graph(args->words[0]);
    const bool of_model = args->option[LAYERS] != NULL || args->option[GRAPH] != NULL ||
                          args->option[DEVICE] != NULL || args->option[CLOCK] != NULL;
    if (graph && of_model) {
        return cli_fail(args, CLI_USAGE,
                        "--layers, --graph and --device are for a model of detent; 'detent import' "
                        "makes one");
    }
    return graph      ? print_graph_file(args, ctx)
           : of_model ? print_model(args, ctx)
                      : print_file(args, ctx);
}
