/* Format c: a model as C99 without libraries (docs/export.md). The trace is translated to
 * statements (c_emit_<topic>.c), memory is planned (c_places.c, c_program.c), repeated statements
 * are folded into loops (c_fold.c); then the files are written (c_write.c, c_write_test.c), all or
 * none. */
#include "autograd/kind.h"
#include "core/system/atomic_file.h"
#include "core/text/utf8.h"
#include "data/text/tokenizer.h"
#include "export/c/c_device.h"
#include "export/c/c_emit.h"
#include "export/c/c_write.h"
#include "export/exporters.h"
#include "io/model/new_folder.h"
#include "nn/layers/embedding.h"

#include <detent/nn.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#define EXAMPLES 2       /* of the self-test */
#define PIECE (1u << 20) /* bytes of a file that are written at a time */

static bool expresses(const dt_trace *t, const dt_trace_call *c, const dt_export_options *options,
                      char *why, size_t size)
{
    (void)options;
    const dt__c_emitter *e = dt__c_emitter_of(c->op->name);
    if (e == NULL) return false;
    if (dt__c_is_device(t)) {
        return dt__c_takes_device(t, c, why, size) &&
               (e->takes == NULL || e->takes(t, c, why, size));
    }
    if (dt_trace_has_length(t)) {
        return dt__c_takes_token(t, c, why, size) &&
               (e->takes == NULL || e->takes(t, c, why, size));
    }
    for (int i = 0; i < c->n_in; i++) {
        const int64_t v = c->in[i].value;
        if (v < 0 || dt_trace_value_at(t, v)->dtype == DT_F32) continue;
        if (dt_trace_value_at(t, v)->kind == DT_VALUE_PARAMETER) continue;
        snprintf(why, size, "operand %s is not of f32", c->op->in_name[i]);
        return false;
    }
    return e->takes == NULL || e->takes(t, c, why, size);
}

/* ---- the self-test's results ----------------------------------------------------------------- */

/* Fills a tensor with values whose codes are those of an example. */
static dt_status make_codes(const dt__c_about *a, uint32_t *state, int64_t value, dt_tensor *x)
{
    const dt_trace_value *v = dt__c_device_codes(a->p->trace, value);
    int8_t *codes = dt__alloc_array(a->call->ctx, 2 * x->count + 1, 1), *planes = codes + x->count;
    float *to = dt__values_mut(x);
    if (codes == NULL) return DT_ERR_NOMEM;
    dt__c_example_codes(state, x->count, codes);
    dt__c_device_turn(a->p, value, true, codes, planes);
    for (int64_t i = 0; i < x->count; i++) to[i] = (float)(planes[i] - v->zero_point) * v->scale;
    dt__release(a->call->ctx, codes);
    return DT_OK;
}

static dt_status make_inputs(const dt__c_about *a, uint32_t example, dt_tensor **x)
{
    const int64_t *in;
    const int n = dt_trace_inputs(a->p->trace, &in);
    const int64_t rows = dt__embedding_rows(a->call->m);
    uint32_t state = dt__c_seed(example);
    for (int i = 0; i < n; i++) {
        int64_t dims[DT_MAX_RANK];
        const int rank = dt__c_rank(a->p, in[i]);
        for (int d = 0; d < rank; d++) dims[d] = dt__c_dim(a->p, in[i], d);
        DT__TRY(dt_tensor_create(a->call->ctx, DT_F32, rank, dims, &x[i]));
        if (a->p->device) DT__TRY(make_codes(a, &state, in[i], x[i]));
        else dt__c_example(&state, rows, x[i]->count, dt__values_mut(x[i]));
    }
    return DT_OK;
}

/* Copies the values of x in order; codes are dequantized. */
static dt_status copy_values(dt_tape *t, dt_tensor *x, float *to)
{
    dt_tensor *value = NULL, *dense = NULL;
    dt__codes *codes = NULL;
    dt_status s = dt__kind_of(x)->value(t, x, &value, &codes);
    if (s == DT_OK) s = dt__tensor_create_raw(x->ctx, x->dtype, x->rank, x->dims, &dense);
    if (s == DT_OK) {
        dt__copy_tensor(value, dense);
        memcpy(to, dt__values(dense), (size_t)dense->count * sizeof(float));
    }
    dt__codes_release(codes);
    DT__TENSORS_FREE(value, dense);
    return s;
}

/* Quantizes an output to codes, as floats, in the export's order. */
static dt_status to_codes(const dt__c_about *a, int64_t value, float *y)
{
    const dt_trace_value *v = dt__c_device_codes(a->p->trace, value);
    const int64_t n = dt__c_count(a->p, value);
    int8_t *codes = dt__alloc_array(a->call->ctx, 2 * n + 1, 1), *turned = codes + n;
    if (codes == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < n; i++) {
        codes[i] = (int8_t)(int)(roundf(y[i] / v->scale) + (float)v->zero_point);
    }
    dt__c_device_turn(a->p, value, false, codes, turned);
    for (int64_t i = 0; i < n; i++) y[i] = turned[i];
    dt__release(a->call->ctx, codes);
    return DT_OK;
}

static dt_status run_example(dt__c_about *a, int example, dt_tape *t)
{
    const int64_t *v;
    dt_tensor *x[DT_MAX_IN] = { NULL }, *y[DT_MAX_OUT] = { NULL };
    const int in = dt_trace_inputs(a->p->trace, &v), out = dt_trace_outputs(a->p->trace, &v);
    dt_status s = make_inputs(a, (uint32_t)example, x);
    if (s == DT_OK) s = dt_forward_n(t, a->call->m, x, in, y, out);
    for (int i = 0; i < out && s == DT_OK; i++) {
        float *to = a->expected[i] + example * dt__c_count(a->p, v[i]);
        s = copy_values(t, y[i], to);
        if (s == DT_OK && a->p->device) s = to_codes(a, v[i], to);
    }
    for (int i = 0; i < in; i++) dt_tensor_free(x[i]);
    return s;
}

static dt_status run_examples(dt__c_about *a)
{
    if (dt_trace_has_length(a->p->trace)) return dt__c_language_expected(a);
    const int64_t *v;
    dt_tape *t;
    const int out = dt_trace_outputs(a->p->trace, &v);
    a->examples = EXAMPLES;
    for (int i = 0; i < out; i++) {
        a->expected[i] =
            dt__alloc_array(a->call->ctx, EXAMPLES * dt__c_count(a->p, v[i]), sizeof(float));
        if (a->expected[i] == NULL) return DT_ERR_NOMEM;
    }
    DT__TRY(dt_tape_create(a->call->ctx, &t));
    dt_train(a->call->m, false);
    dt_no_grad(t, true);
    dt_status s = DT_OK;
    for (int i = 0; i < EXAMPLES && s == DT_OK; i++) {
        s = run_example(a, i, t);
        dt_tape_reset(t);
    }
    dt_tape_free(t);
    return s;
}

/* ---- the program ----------------------------------------------------------------------------- */

/* Refuses a given name that is not a valid identifier, as names of files and functions would differ
 * from it. */
static dt_status check_name(const dt_export_call *call)
{
    char name[DT__C_NAME];
    if (call->options->name == NULL) return DT_OK;
    dt__c_identifier(call->options->name, name);
    if (strcmp(name, call->options->name) == 0) return DT_OK;
    return dt_fail(call->ctx, DT_ERR_ARG,
                   "export: names in C cannot begin with '%s', which must be letters, digits and "
                   "single underscores, no word of C or of the program; '%s' would do",
                   call->options->name, name);
}

dt_status dt__c_program_make(const dt_export_call *call, dt__c_program *p)
{
    *p = (dt__c_program){ .ctx = call->ctx,
                          .trace = call->trace,
                          .options = call->options,
                          .device = dt__c_is_device(call->trace),
                          .length = 1,
                          .constants = { .ctx = call->ctx },
                          .functions = { .ctx = call->ctx },
                          .checksum = 2166136261u };
    p->wanted = dt__alloc_zero(call->ctx, (size_t)dt__c_texts_n * sizeof *p->wanted);
    p->tabled = dt__alloc_zero(call->ctx, (size_t)dt_trace_values(call->trace) + 1);
    p->took =
        dt__alloc_zero(call->ctx, ((size_t)dt_trace_calls(call->trace) + 1) * sizeof *p->took);
    if (p->wanted == NULL || p->tabled == NULL || p->took == NULL) return DT_ERR_NOMEM;
    if (call->options->context > 0 && !dt_trace_has_length(call->trace)) {
        return dt_fail(call->ctx, DT_ERR_ARG,
                       "export: a context is of language models; this model reads no tokens");
    }
    if (call->options->context > dt_trace_context(call->trace)) {
        return dt_fail(call->ctx, DT_ERR_ARG,
                       "export: a context of %lld tokens; the model has one of %lld",
                       (long long)call->options->context, (long long)dt_trace_context(call->trace));
    }
    DT__TRY(check_name(call));
    dt__c_want(p, p->device ? "device_quantize" : "check_flags");
    DT__TRY(dt__c_place_values(p));
    DT__TRY(dt__c_emit_calls(p));
    dt__c_copy_outputs(p);
    return dt__c_plan(p);
}

static void name_files(const dt_export_call *call, dt__c_about *a)
{
    char last[256]; /* a part of the path; file systems limit it to 255 bytes */
    const char *from = call->options->name;
    if (from == NULL) {
        size_t end = strlen(call->path);
        while (end > 0 && call->path[end - 1] == '/') end--;
        size_t start = end;
        while (start > 0 && call->path[start - 1] != '/') start--;
        snprintf(last, sizeof last, "%.*s", (int)dt__min_i64((int64_t)(end - start), 255),
                 call->path + start);
        from = last;
    }
    dt__c_identifier(from, a->name);
    for (int i = 0; i < DT__C_NAME; i++) {
        const char c = a->name[i];
        a->upper[i] = (char)(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    }
}

/* ---- files ----------------------------------------------------------------------------------- */

/* A file of the export. */
typedef struct file {
    const char *name; /* "@" is replaced by the model's name */
    void (*put)(const dt__c_about *a, dt__chars *to);
    /* writes the part after the constants; NULL: the file has no constants */
    void (*behind)(const dt__c_about *a, dt__chars *to);
    bool page; /* not code, so its lines are not broken */
    bool left_out;
} file;

static dt_status write_text(const dt__c_about *a, dt__new_file *to, const dt__chars *text)
{
    if (text->failed) return DT_ERR_NOMEM;
    a->call->summary->bytes += text->used;
    return dt__file_write(to, text->bytes, text->used);
}

/* Writes lines of code, breaking those that are too long. */
static dt_status write_code(const dt__c_about *a, dt__new_file *to, const dt__chars *code)
{
    dt__chars lines = { .ctx = a->call->ctx };
    dt_status s = code->failed ? DT_ERR_NOMEM : DT_OK;
    if (s == DT_OK) dt__c_wrap(code, &lines);
    if (s == DT_OK) s = write_text(a, to, &lines);
    dt__release(a->call->ctx, lines.bytes);
    return s;
}

/* Reports that `done` numbers of a table are written. */
static void tell(const dt__c_about *a, const dt__c_table *t, int64_t done)
{
    const dt_export_options *o = a->call->options;
    int64_t all = 0;
    for (int64_t i = 0; i < a->p->n_tables; i++) {
        if (&a->p->table[i] < t) done += a->p->table[i].n;
        all += a->p->table[i].n;
    }
    if (a->p->printed == 0) {
        dt__cut_work(a->call->ctx, DT__PRINT);
        dt__plan_work(a->call->ctx, DT__PRINT, (double)all);
    }
    dt__did_work(a->call->ctx, DT__PRINT, (double)(done - a->p->printed));
    a->p->printed = done;
    if (o->progress != NULL) o->progress(o->user, done, all);
}

/* Writes the rows of a table, a block at a time, as they may have gigabytes. */
static dt_status write_rows(const dt__c_about *a, dt__new_file *to, const dt__c_table *t)
{
    dt__chars piece = { .ctx = a->call->ctx };
    dt_status s = DT_OK;
    for (int64_t i = 0; i < t->n && s == DT_OK;) {
        piece.used = 0;
        i = dt__c_put_rows(t, i, PIECE, &piece);
        s = write_text(a, to, &piece);
        tell(a, t, i);
    }
    dt__release(a->call->ctx, piece.bytes);
    return s;
}

/* Writes the constants, with each table's rows inserted. */
static dt_status write_constants(const dt__c_about *a, dt__new_file *to)
{
    const dt__c_program *p = a->p;
    dt_status s = DT_OK;
    size_t at = 0;
    dt__pass_work(a->call->ctx); /* what came before is not a number */
    for (int64_t i = 0; i <= p->n_tables && s == DT_OK; i++) {
        const size_t end = i < p->n_tables ? p->table[i].at : p->constants.used;
        if (end > at) {
            const dt__chars lines = { .bytes = p->constants.bytes + at, .used = end - at };
            s = write_code(a, to, &lines);
        }
        if (s == DT_OK && i < p->n_tables) s = write_rows(a, to, &p->table[i]);
        at = end;
    }
    return s;
}

static dt_status write_parts(const dt__c_about *a, const file *f, dt__new_file *to)
{
    dt__chars part = { .ctx = a->call->ctx };
    f->put(a, &part);
    dt_status s = f->page ? write_text(a, to, &part) : write_code(a, to, &part);
    if (s == DT_OK && f->behind != NULL) {
        s = write_constants(a, to);
        part.used = 0;
        f->behind(a, &part);
        if (s == DT_OK) s = write_code(a, to, &part);
    }
    dt__release(a->call->ctx, part.bytes);
    return s;
}

static dt_status write_file(const dt__c_about *a, dt__new_folder *folder, const file *f,
                            const char *name)
{
    dt__new_file to;
    const char *path = dt__folder_file(folder, name);
    if (path == NULL) return DT_ERR_IO;
    DT__TRY(dt__file_begin(a->call->ctx, path, &to));
    dt_status s = write_parts(a, f, &to);
    if (s == DT_OK) s = dt__file_commit(&to);
    dt__file_abandon(&to);
    return s;
}

enum { FILES = 9 };

static dt_status write_files(const dt__c_about *a)
{
    dt__new_folder folder;
    const bool language = dt_trace_has_length(a->p->trace), no_text = a->tokenizer == NULL;
    const file files[FILES] = {
        { .name = "@.h", .put = language ? dt__c_put_language_header : dt__c_put_header },
        { .name = "@.c", .put = dt__c_put_source, .behind = dt__c_put_model_source },
        { .name = "@_test.c", .put = language ? dt__c_put_language_test : dt__c_put_test },
        { .name = "README.md",
          .put = language ? dt__c_put_language_readme : dt__c_put_readme,
          .page = true },
        { .name = "Makefile", .put = dt__c_put_makefile, .page = true },
        { .name = "CMakeLists.txt", .put = dt__c_put_cmake, .page = true },
        { .name = "@.json", .put = dt__c_put_data, .page = true, .left_out = a->data == NULL },
        { .name = "@_text.h", .put = dt__c_put_text_header, .left_out = no_text },
        { .name = "@_text.c", .put = dt__c_put_text_source, .left_out = no_text },
    };
    char names[FILES][DT__C_NAME + 16];
    DT__TRY(dt__folder_begin(a->call->ctx, a->call->path, &folder));
    dt_status s = DT_OK;
    for (int i = 0; i < FILES && s == DT_OK; i++) {
        const bool own = files[i].name[0] == '@';
        snprintf(names[i], sizeof names[i], "%s%s", own ? a->name : "", files[i].name + own);
        if (!files[i].left_out) s = write_file(a, &folder, &files[i], names[i]);
    }
    if (s == DT_OK) s = dt__folder_commit(&folder);
    dt__folder_abandon(&folder);
    return s;
}

static dt_status write_all(dt__c_about *a)
{
    const dt_export_call *call = a->call;
    dt_model_data data = { .target = NULL };
    dt_status s = DT_OK;
    if (call->info != NULL && call->info->data != NULL) {
        s = dt_model_data_parse(call->ctx, call->info->data, call->path, &data);
        const bool read = s == DT_OK && data.input.n > 0; /* not of a language model */
        if (read) a->data = &data;
        if (read) s = dt__c_begin_data(a);
    }
    dt__c_put_lines(a->p, &a->body);
    for (int64_t i = 0; i < dt_trace_calls(call->trace); i++) {
        a->multiply_adds +=
            dt_trace_multiply_adds(call->trace, dt_trace_call_at(call->trace, i), 1, a->p->length);
    }
    if (s == DT_OK && (a->body.failed || a->p->constants.failed || a->p->functions.failed)) {
        s = DT_ERR_NOMEM;
    }
    if (s == DT_OK) s = run_examples(a);
    if (s == DT_OK) s = write_files(a);
    dt_features_free(a->features);
    DT__RELEASE(call->ctx, a->frame, a->field, a->cells, a->row_x);
    dt_model_data_free(call->ctx, &data);
    return s;
}

/* Whether a character of a text can become a special token, which the C files cannot represent. */
static bool has_special_character(const dt_tokenizer *k)
{
    bool has = false;
    for (int64_t i = 0; i < k->vocab && k->bpe.pieces && !has; i++) {
        const dt__token *t = &k->token[i];
        const unsigned char *p = (const unsigned char *)k->bytes + t->at;
        has = t->there && t->special && t->n > 0 && dt__utf8_length(p, p + t->n) == (int)t->n;
    }
    return has;
}

/* Refuses tokenizers that the C files do not support: normalizers, other expressions. */
static dt_status check_tokenizer(dt_ctx *ctx, dt_tokenizer **k)
{
    const dt__split *split = dt__bpe_split(*k);
    dt__spaces spaces;
    const bool splits = split != NULL && split->next != dt__split_qwen2 && (*k)->normalizer.n == 0;
    const bool known = splits || (dt__bpe_spaces(*k, &spaces) && !has_special_character(*k));
    if ((*k)->kind != &dt__tokenizer_is_bpe || known) return DT_OK;
    dt_tokenizer_free(*k);
    *k = NULL;
    return dt_fail(ctx, DT_ERR_UNSUPPORTED,
                   "export: format c has the tokenizers bytes and chars, BPE of bytes that splits "
                   "text as GPT-2 or Llama 3 do, without a normalizer, and BPE of sentencepiece "
                   "that changes spaces alone and has no special token of one character; this one "
                   "does something else. Without text the model is written, and runs on ids");
}

/* Opens the model's tokenizer if the options request text. */
static dt_status open_tokenizer(const dt_export_call *call, dt_tokenizer **k)
{
    *k = NULL;
    if (!call->options->text) return DT_OK;
    const char *text = call->info != NULL ? call->info->tokenizer : NULL;
    if (text != NULL && dt_trace_has_length(call->trace)) {
        const dt_tokenizer_texts own = { text, call->info->tokens };
        DT__TRY(dt_tokenizer_of_model(call->ctx, &own, call->path, k));
        return check_tokenizer(call->ctx, k);
    }
    return dt_fail(
        call->ctx, DT_ERR_UNSUPPORTED,
        "export: text was asked for, but the model is not a language model with a tokenizer");
}

/* Refuses a tokenizer with more tokens than the model. */
static dt_status check_vocab(const dt__c_about *a)
{
    const int64_t tokens = a->tokenizer == NULL ? 0 : dt_tokenizer_vocab(a->tokenizer);
    if (tokens == 0 || tokens <= dt__c_vocab(a)) return DT_OK;
    return dt_fail(a->call->ctx, DT_ERR_UNSUPPORTED,
                   "export: the tokenizer has %lld tokens, the model's vocabulary %lld",
                   (long long)tokens, (long long)dt__c_vocab(a));
}

static dt_status write(const dt_export_call *call)
{
    dt_tokenizer *k;
    DT__TRY(open_tokenizer(call, &k));
    dt__c_program p;
    dt__c_about a = { .call = call, .p = &p, .body = { .ctx = call->ctx }, .tokenizer = k };
    name_files(call, &a);
    dt_status s = dt__c_program_make(call, &p);
    if (s == DT_OK) s = check_vocab(&a);
    if (s == DT_OK) s = write_all(&a);
    call->summary->integer_products = p.integer_products;
    call->summary->float_products = p.float_products;
    call->summary->exact = true;
    call->summary->promise =
        p.device ? "the same codes as detent eval, by integers alone, with any C99 compiler"
        : dt_trace_has_length(call->trace)
            ? "the same bits as detent's decoder, token by token, with any C99 compiler"
            : "the same bits as detent eval, with any C99 compiler";
    for (int i = 0; i < DT_MAX_OUT; i++) dt__release(call->ctx, a.expected[i]);
    dt__release(call->ctx, a.body.bytes);
    dt__c_program_free(&p);
    dt_tokenizer_free(k);
    return s;
}

static const char *becomes(const char *op)
{
    const dt__c_emitter *e = dt__c_emitter_of(op);
    if (e == NULL) return NULL;
    return e->text != NULL ? e->text : "C";
}

const dt_exporter dt__exporter_c = {
    .name = "c",
    .text = "C99 without libraries: a folder with NAME.c, NAME.h, a self-test and a page",
    .folder = true,
    .traced = true,
    .expresses = expresses,
    .becomes = becomes,
    .write = write,
};
