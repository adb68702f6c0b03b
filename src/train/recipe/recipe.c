/* Reads a recipe: its memory, its list of errors, and the order of the steps. */
#include "core/system/atomic_file.h"
#include "core/text/byte_mark.h"
#include "core/system/open_file.h"
#include "core/system/system_calls.h"
#include "io/file_kind.h"
#include "train/recipe/recipe.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- memory ------------------------------------------------------------------------------- */

#define CHUNK_BYTES 8192

typedef struct dt__chunk {
    struct dt__chunk *next;
    size_t used, size;
    _Alignas(max_align_t) char bytes[];
} dt__chunk;

void *dt__recipe_alloc(dt_recipe *r, size_t bytes)
{
    const size_t need = (bytes + 15) & ~(size_t)15;
    dt__chunk *chunk = r->chunks;
    if (chunk == NULL || chunk->size - chunk->used < need) {
        const size_t size = need > CHUNK_BYTES ? need : CHUNK_BYTES;
        chunk = r->out_of_memory ? NULL : dt__alloc_zero(r->ctx, sizeof *chunk + size);
        if (chunk == NULL) {
            r->out_of_memory = true;
            return NULL;
        }
        chunk->size = size;
        chunk->next = r->chunks;
        r->chunks = chunk;
    }
    void *p = chunk->bytes + chunk->used;
    chunk->used += need;
    return p;
}

char *dt__recipe_copy(dt_recipe *r, const char *text, size_t bytes)
{
    char *copy = dt__recipe_alloc(r, bytes + 1);
    if (copy != NULL && bytes > 0) memcpy(copy, text, bytes);
    return copy;
}

const char *dt__recipe_value(dt_recipe *r, const dt_key *key, const void *options)
{
    dt__chars t = { .ctx = r->ctx };
    if (key->given != 0 && !*((const bool *)options + key->given)) return "";
    dt__put_value(&t, key, options);
    const char *text = t.failed ? NULL : dt__recipe_copy(r, t.bytes, t.used);
    r->out_of_memory |= t.failed;
    dt__release(r->ctx, t.bytes);
    return text == NULL ? "" : text;
}

static const char *format_v(dt_recipe *r, const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    const int length = vsnprintf(NULL, 0, format, arguments);
    char *text = length < 0 ? NULL : dt__recipe_alloc(r, (size_t)length + 1);
    if (text != NULL) vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text == NULL ? "" : text;
}

const char *dt__recipe_format(dt_recipe *r, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *text = format_v(r, format, arguments);
    va_end(arguments);
    return text;
}

const char *dt__recipe_join(dt_recipe *r, const char *prefix, const char *name)
{
    return *prefix == 0 ? name : dt__recipe_format(r, "%s.%s", prefix, name);
}

const char *dt__recipe_quote_text(dt_recipe *r, const char *text, size_t bytes)
{
    const size_t most = 60;
    size_t keep = bytes;
    if (keep > most) {
        keep = most;
        while (keep > 0 && ((unsigned char)text[keep] & 0xC0) == 0x80) keep--;
    }
    char *copy = dt__recipe_alloc(r, keep + 4);
    if (copy == NULL) return "";
    for (size_t i = 0; i < keep; i++) {
        const unsigned char c = (unsigned char)text[i];
        const bool is_c1 = c == 0xC2 && i + 1 < keep && (unsigned char)text[i + 1] < 0xA0;
        copy[i] = (char)(c < 0x20 || c == 0x7F || is_c1 ? '?' : c);
        if (is_c1) copy[++i] = '?';
    }
    if (keep < bytes) memcpy(copy + keep, "...", 3);
    return copy;
}

const char *dt__recipe_quote(dt_recipe *r, const dt__node *node)
{
    if (node->kind == DT__MAP) return "a map";
    if (node->kind == DT__SEQUENCE) return "a list";
    if (node->plain && node->bytes == 0) return "nothing";
    return dt__recipe_format(r, "'%s'", dt__recipe_quote_text(r, node->text, node->bytes));
}

/* ---- errors ------------------------------------------------------------------------------- */

static bool comes_before(const dt__complaint *a, const dt__complaint *b)
{
    if (a->origin != b->origin) return a->origin < b->origin;
    return a->line != b->line ? a->line < b->line : a->column < b->column;
}

/* The line "FILE:LINE:COLUMN: KIND: WORDS" about a node; `kind` is "error" or "warning". */
static const char *line_of(dt_recipe *r, const dt__node *at, const char *kind, const char *words)
{
    if (at->origin == DT__FROM_FILE || at->origin == DT__FROM_SWEEP) {
        const char *file = at->origin == DT__FROM_FILE ? r->file : r->sweep_file;
        return dt__recipe_format(r, "%s:%d:%d: %s: %s", file, at->line, at->column, kind, words);
    }
    if (at->origin == DT__FROM_INIT || at->origin == DT__FROM_TARGET ||
        at->origin == DT__FROM_BEST) {
        const char *key = at->origin == DT__FROM_INIT   ? "model.init"
                          : at->origin == DT__FROM_BEST ? "qat.recipe"
                                                        : "qat.target";
        return dt__recipe_format(r, "%s: %s: %s: %s", r->file, key, kind, words);
    }
    if (r->parsing == NULL) return dt__recipe_format(r, "command line: %s: %s", kind, words);
    return dt__recipe_format(r, "command line: %s: '%s': %s", kind, r->parsing, words);
}

/* The existing error or warning with this line. */
static const char *known_line(const dt_recipe *r, const char *line)
{
    const dt__complaint *c = r->complaints;
    while (c != NULL && (c->text == NULL || strcmp(c->text, line) != 0)) c = c->next;
    return c == NULL ? NULL : c->text;
}

static const char *complain_v(dt_recipe *r, dt__node *at, const char *format, va_list arguments)
{
    at->bad = true;
    if (r->n_complaints >= DT__RECIPE_ERRORS) {
        r->n_complaints++;
        return "";
    }
    const char *line = line_of(r, at, "error", format_v(r, format, arguments));
    const char *known = known_line(r, line);
    if (known != NULL) return known;
    r->n_complaints++;
    dt__complaint *c = dt__recipe_alloc(r, sizeof *c);
    if (c == NULL) return "";
    *c = (dt__complaint){ at->origin, at->line, at->column, line, NULL };
    dt__complaint **place = &r->complaints;
    while (*place != NULL && !comes_before(c, *place)) place = &(*place)->next;
    c->next = *place;
    *place = c;
    return c->text;
}

void dt__complain(dt_recipe *r, dt__node *at, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    complain_v(r, at, format, arguments);
    va_end(arguments);
}

void dt__remark(dt_recipe *r, const dt__node *at, const char *format, ...)
{
    /* nobody edits a recipe that a run saved */
    const bool unread = r->saved && at->origin == DT__FROM_FILE;
    if (r->told || unread) return;
    va_list arguments;
    va_start(arguments, format);
    dt__say(r->ctx, "%s", line_of(r, at, "warning", format_v(r, format, arguments)));
    va_end(arguments);
}

int dt_recipe_error_count(const dt_recipe *r)
{
    if (r == NULL) return 0;
    return r->n_complaints < DT__RECIPE_ERRORS ? r->n_complaints : DT__RECIPE_ERRORS;
}

const char *dt_recipe_error_at(const dt_recipe *r, int i)
{
    if (r == NULL) return NULL;
    const dt__complaint *c = i < 0 ? NULL : r->complaints;
    for (; c != NULL && i > 0; i--) c = c->next;
    return c == NULL ? NULL : c->text;
}

/* The allocation of the file's name may have failed. */
static dt_status fail_memory(const dt_recipe *r)
{
    return dt_fail(r->ctx, DT_ERR_NOMEM, "%s: out of memory", r->file != NULL ? r->file : r->what);
}

dt_status dt_recipe_refuse(dt_recipe *r, const char *path, const char *format, ...)
{
    DT__NEED3(r->ctx, r, path, format);
    dt__node nowhere = { .line = 1, .column = 1 }, *at = &nowhere;
    dt__node_at(r, path, &at);
    va_list arguments;
    va_start(arguments, format);
    const char *line = complain_v(r, at, format, arguments);
    va_end(arguments);
    if (r->out_of_memory) return fail_memory(r);
    return dt_fail(r->ctx, DT_ERR_CONFIG, "%s", line);
}

bool dt_recipe_position(const dt_recipe *r, const char *path, int *line, int *column)
{
    if (r == NULL) return false;
    if (path == NULL) return false;
    const dt__node *node = dt__node_at(r, path, NULL);
    if (node == NULL || node->origin != DT__FROM_FILE) return false;
    *line = node->line;
    *column = node->column;
    return true;
}

/* ---- reading ------------------------------------------------------------------------------ */

/* Complains about a file that is not text: it begins like another kind of file, or contains NUL. */
static bool is_text(dt_recipe *r, const char *text, size_t bytes)
{
    dt__node begin = { .line = 1, .column = 1 };
    const char *foreign = dt__foreign_mark(text, bytes);
    if (foreign != NULL) {
        dt__complain(r, &begin, "it is in %s; expected UTF-8, as `iconv -f %s -t UTF-8` writes it",
                     foreign, foreign);
        return false;
    }
    const char *looks = memchr(text, 0, bytes < 64 ? bytes : 64) != NULL ||
                                (bytes > 0 && ((unsigned char)text[0] & 0xC0) == 0x80)
                            ? dt__file_kind_of(text, bytes)
                            : NULL;
    if (looks == NULL) return true;
    dt__complain(r, &begin, "it looks like %s; a %s is a text of YAML", looks, r->what);
    return false;
}

dt_status dt__recipe_parse_file(dt_recipe *r)
{
    int descriptor;
    int64_t size;
    DT__TRY(dt__open_file(r->ctx, r->file, &descriptor, &size));
    dt_status status = DT_ERR_NOMEM;
    const size_t most = DT__RECIPE_BYTES + 1; /* the parser refuses longer texts */
    char *text = dt__alloc(r->ctx, most);
    if (text != NULL) {
        size_t bytes = 0;
        ssize_t n = 1;
        for (; n > 0 && bytes < most; bytes += (size_t)(n > 0 ? n : 0)) {
            n = dt__sys_read(descriptor, text + bytes, most - bytes);
        }
        status = n < 0 ? dt__file_fail(r->ctx, "read", r->file, errno) : DT_OK;
        if (n >= 0 && is_text(r, text, bytes)) {
            r->root = dt__yaml_parse(r, text, bytes, DT__FROM_FILE);
        }
    }
    dt__release(r->ctx, text);
    dt__sys_close(descriptor);
    return status;
}

static dt_status read_all(dt_recipe *r, const dt_recipe_source *source, const dt__grafts *grafts)
{
    if (source->text == NULL) {
        DT__TRY(dt__recipe_parse_file(r));
    } else {
        r->root = dt__yaml_parse(r, source->text, source->bytes, DT__FROM_FILE);
    }
    if (r->root == NULL || r->out_of_memory) return DT_OK;
    dt__recipe_rename(r);
    const dt__node *format = dt__node_at(r, "data.format", NULL);
    if (format != NULL && format->kind == DT__SCALAR) {
        r->file_format = dt__recipe_copy(r, format->text, format->bytes);
    }
    for (int i = 0; i < source->n_overrides; i++) dt__recipe_override(r, source->overrides[i]);
    for (int i = 0; i < grafts->n; i++) dt__recipe_graft(r, &grafts->graft[i]);
    dt__recipe_rename(r); /* overrides may contain old names too */
    dt__recipe_leave_out(r);
    r->needs_data = source->use == DT_RECIPE_TO_EVALUATE;
    r->only_quantizes = r->needs_data || source->use == DT_RECIPE_TO_QUANTIZE ||
                        (source->use == DT_RECIPE_ANY && dt__node_at(r, "quantize", NULL) != NULL &&
                         dt__node_at(r, "model", NULL) == NULL);
    if (r->root->kind == DT__MAP) DT__TRY(dt__recipe_take_plugins(r));
    if (r->n_complaints > 0 && dt__node_at(r, "run.plugins", NULL) != NULL) return DT_OK;
    if (r->root->kind == DT__MAP) DT__TRY(dt__recipe_take_init(r));
    if (r->root->kind == DT__MAP) dt__recipe_take_target(r);
    if (r->root->kind == DT__MAP) dt__recipe_take_best(r);
    dt__recipe_fill(r);
    /* runs from before this key existed held back the last examples */
    if (r->saved && r->options.data.format == DT_DATA_TENSORS &&
        dt__node_at(r, "data.validation_order", NULL) == NULL) {
        r->options.data.validation_order = DT_DATA_ORDER_TIME;
    }
    dt__recipe_check(r);
    return DT_OK;
}

dt_status dt__recipe_blame(dt_recipe *r, const char *key, dt_status kind, dt_status status)
{
    if (status != kind) return status;
    char words[DT__MESSAGE_SIZE], path[DT__MESSAGE_SIZE];
    strcpy(words, dt_error(r->ctx));
    const size_t n = strlen(key), first = strcspn(words, " :");
    if (strncmp(words, key, n) == 0 && words[n] == '.') snprintf(path, first + 1, "%s", words);
    else strcpy(path, key);
    if (strstr(words, path) != NULL) return dt_recipe_refuse(r, path, "%s", words);
    return dt_recipe_refuse(r, path, "'%s': %s", path, words);
}

/* Finds test files named on the command line: in data.dir if that is given there too, else in the
 * recipe's data.dir if it has such files, else relative to the working directory. */
static void find_tests(dt_recipe *r, dt_data_options *o)
{
    char here[4096];
    const dt__node *dir = dt__node_at(r, "data.dir", NULL),
                   *test = dt__node_at(r, "data.test", NULL);
    if (dir == NULL || dir->origin == DT__FROM_COMMAND_LINE || o->dir == NULL) return;
    if (test == NULL || test->origin != DT__FROM_COMMAND_LINE) return;
    if (getcwd(here, sizeof here) == NULL) return;
    for (int i = 0; i < o->test.n; i++) {
        const char *inside = dt__recipe_format(r, "%s/%s", o->dir, o->test.v[i]);
        if (access(inside, F_OK) == 0) continue;
        if (*o->test.v[i] == '/' || access(o->test.v[i], F_OK) != 0) continue;
        o->test.v[i] = dt__recipe_format(r, "%s/%s", here, o->test.v[i]);
    }
}

/* Adapts `data` of text to an evaluation, possibly of ids or of other text: it uses the model's own
 * tokenizer, and no training data. */
static void adapt_to_evaluate(dt_recipe *r, dt_data_options *o, bool train_wanted)
{
    const bool ids = o->format == DT_DATA_TOKENS;
    const bool text = ids || o->format == DT_DATA_TEXT || o->format == DT_DATA_JSONL;
    const bool chars = o->tokenizer != NULL && strcmp(o->tokenizer, "chars") == 0;
    find_tests(r, o);
    if (text && !train_wanted && o->test.n > 0 && (ids || !chars || o->given != NULL)) {
        o->train.n = 0;
    }
    const bool bytes = o->tokenizer != NULL && strcmp(o->tokenizer, "bytes") == 0;
    if (ids && (chars || bytes || o->given != NULL)) o->tokenizer = NULL;
}

/* IDX files to evaluate on that have no training data beside them are opened like these. */
static bool take_test_alone(dt_data_options *o, bool train_wanted)
{
    if (o->format != DT_DATA_IDX || train_wanted || o->train.n > 0 || o->test.n == 0) return false;
    o->train = o->test;
    o->train_count = o->test_count;
    o->test.n = 0;
    o->validation = 0;
    return true;
}

/* Advice if data of formats that are loaded do not fit into memory. */
#define MAPPED "arrays in .npy or .safetensors (format tensors) are mapped and stay on disk"
#define TOKENIZE "'detent tokenize' writes ids (format tokens), which are mapped and stay on disk"
static const char *const advice[] = {
    [DT_DATA_IDX] = MAPPED,
    [DT_DATA_CIFAR10] = MAPPED,
    [DT_DATA_CIFAR100] = MAPPED,
    [DT_DATA_PNG] = MAPPED,
    [DT_DATA_TEXT] = TOKENIZE,
    [DT_DATA_JSONL] = TOKENIZE,
    [DT_DATA_TENSORS] = "of arrays .csv and compressed .npz are held in memory; others are mapped",
    [DT_DATA_FOLDER] = MAPPED,
};

static dt_status explain_memory(dt_recipe *r, dt_status status)
{
    char words[DT__MESSAGE_SIZE / 2];
    const int format = r->options.data.format;
    if (status != DT_ERR_NOMEM || format >= DT__COUNT_OF(advice) || advice[format] == NULL) {
        return status;
    }
    snprintf(words, sizeof words, "%s", dt_error(r->ctx));
    return dt_fail(r->ctx, DT_ERR_NOMEM, "data: %s: they do not fit into memory; %s", words,
                   advice[format]);
}

/* The folder beside the run's for caches of large tables; NULL: NOMEM. */
static char *cache_beside(const dt_recipe *r)
{
    const char *run = r->options.run.dir == NULL ? "" : r->options.run.dir;
    size_t n = strlen(run);
    while (n > 0 && run[n - 1] == '/') n--;
    while (n > 0 && run[n - 1] != '/') n--;
    return dt__format_string(r->ctx, "%.*sdetent-cache", (int)n, run);
}

dt_status dt__recipe_open_options(dt_recipe *r, dt_data_options *o, dt_dataset **train,
                                  dt_dataset **validation, dt_dataset **test)
{
    dt_dataset *unwanted = NULL;
    if (r->needs_data) adapt_to_evaluate(r, o, train != NULL);
    if (r->out_of_memory) return dt__recipe_verdict(r);
    const bool alone = r->needs_data && take_test_alone(o, train != NULL);
    char *beside = cache_beside(r);
    if (beside == NULL) return DT_ERR_NOMEM;
    o->cache_beside = beside;
    const dt_status s =
        dt_data_open(r->ctx, o, train != NULL ? train : &unwanted, validation, test);
    dt__release(r->ctx, beside);
    o->cache_beside = NULL;
    if (alone && s == DT_OK) *test = unwanted;
    else dt_dataset_free(unwanted);
    return dt__recipe_blame(r, "data", DT_ERR_CONFIG, explain_memory(r, s));
}

dt_status dt__recipe_verdict(dt_recipe *r)
{
    if (r->out_of_memory) return fail_memory(r);
    if (r->n_complaints == 0) return DT_OK;
    if (r->n_complaints == 1) return dt_fail(r->ctx, DT_ERR_CONFIG, "%s", r->complaints->text);
    return dt_fail(r->ctx, DT_ERR_CONFIG, "%s (and %d more)", r->complaints->text,
                   r->n_complaints - 1);
}

dt_recipe *dt__recipe_empty(dt_ctx *ctx, const char *file, const char *what)
{
    dt_recipe *r = dt__alloc_zero(ctx, sizeof *r);
    if (r == NULL) return NULL;
    dt__ctx_retain(ctx);
    r->ctx = ctx;
    r->what = what;
    r->file = dt__recipe_copy(r, file, strlen(file));
    return r;
}

dt_status dt__recipe_read_grafted(dt_ctx *ctx, const dt_recipe_source *source,
                                  const dt__grafts *grafts, dt_recipe **out)
{
    *out = NULL;
    if (source->path == NULL) return dt_fail(ctx, DT_ERR_ARG, "dt_recipe_read: no path");
    dt_recipe *r = dt__recipe_empty(ctx, source->path, "recipe");
    if (r == NULL) return DT_ERR_NOMEM;
    r->leave_files = source->leave_files;
    r->saved = source->saved;
    r->told = source->told;
    r->reads = source->reads;
    r->sweep_file = grafts->file == NULL ? "" : dt__recipe_format(r, "%s", grafts->file);
    dt_status status = r->out_of_memory ? DT_OK : read_all(r, source, grafts);
    if (status == DT_OK) status = dt__recipe_verdict(r);
    if (status == DT_OK || status == DT_ERR_CONFIG) {
        *out = r;
    } else {
        dt_recipe_free(r);
    }
    return status;
}

dt_status dt_recipe_read(dt_ctx *ctx, const dt_recipe_source *source, dt_recipe **out)
{
    DT__NEED3(ctx, ctx, source, out);
    return dt__recipe_read_grafted(ctx, source, &(const dt__grafts){ 0 }, out);
}

void dt_recipe_free(dt_recipe *r)
{
    if (r == NULL) return;
    dt_ctx *ctx = r->ctx;
    dt_model_info_free(ctx, &r->init_info);
    for (dt__chunk *chunk = r->chunks, *next; chunk != NULL; chunk = next) {
        next = chunk->next;
        dt__release(ctx, chunk);
    }
    dt__release(ctx, r);
    dt__ctx_release(ctx);
}

bool dt_recipe_only_quantizes(const dt_recipe *r) { return r == NULL ? false : r->only_quantizes; }

const dt_recipe_options *dt_recipe_get(const dt_recipe *r)
{
    return r == NULL ? NULL : &r->options;
}
