/* A GGUF file of llama.cpp as a file of detent: its tensors under the model's names, in their own
 * types, and detent.model from its keys. A key of the architecture that is not known here is
 * refused, as it may change what the model computes. */
#include "core/system_calls.h"
#include "io/gguf_keys.h"
#include "io/hf.h"
#include "io/model.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST 1073741824

typedef struct reading {
    dt__gguf_file raw;
    dt__gguf_model g;
    int64_t room; /* of file->entry */
    int64_t window;
    bool biased; /* of gpt2: attention and mlps have biases */
} reading;

static const char *const archs[] = { "llama", "qwen2", "qwen3", "gpt2", NULL };

static dt_status refuse(const reading *r, const char *format, ...) DT_PRINTF(2, 3);

static dt_status refuse(const reading *r, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return dt_fail(r->raw.ctx, DT_ERR_UNSUPPORTED, "%s: %s", r->raw.file->path, text);
}

/* ---- keys ----------------------------------------------------------------------------------- */

static dt_status find_arch(reading *r)
{
    const char *text;
    size_t n;
    char shown[DT__SHOWN], name[DT__SHOWN] = "";
    DT__TRY(dt__gguf_text(&r->raw, "general.architecture", &text, &n));
    if (text == NULL) return dt__gguf_fail(&r->raw, "key 'general.architecture' is missing");
    for (int i = 0; archs[i] != NULL; i++) {
        if (dt__gguf_is(text, n, archs[i])) r->g.arch = archs[i];
    }
    if (r->g.arch == NULL) {
        snprintf(name, sizeof name, "%.*s", (int)dt__min_i64((int64_t)n, DT__SHOWN - 1), text);
        return refuse(r, "architecture '%s' is not supported; llama, qwen2, qwen3 and gpt2 are",
                      dt__shown(name, shown));
    }
    r->g.is_gpt = strcmp(r->g.arch, "gpt2") == 0;
    r->g.pairs = strcmp(r->g.arch, "llama") == 0;
    return DT_OK;
}

/* Keys of the architecture that are read, or change nothing. */
static const char *const known[] = { "vocab_size",
                                     "context_length",
                                     "embedding_length",
                                     "block_count",
                                     "feed_forward_length",
                                     "attention.head_count",
                                     "attention.head_count_kv",
                                     "attention.key_length",
                                     "attention.value_length",
                                     "attention.layer_norm_epsilon",
                                     "attention.layer_norm_rms_epsilon",
                                     "attention.sliding_window",
                                     "rope.dimension_count",
                                     "rope.freq_base",
                                     "rope.scaling.type",
                                     "rope.scaling.factor",
                                     "rope.scaling.original_context_length",
                                     "rope.scaling.finetuned",
                                     "expert_count",
                                     "expert_used_count",
                                     NULL };

static dt_status check_known(const reading *r)
{
    const size_t n = strlen(r->g.arch);
    for (int64_t i = 0; i < r->raw.n_keys; i++) {
        const dt__gguf_key *k = &r->raw.key[i];
        bool found = k->bytes <= n || memcmp(k->name, r->g.arch, n) != 0 || k->name[n] != '.';
        for (int j = 0; known[j] != NULL && !found; j++) {
            found = dt__gguf_is(k->name + n + 1, k->bytes - n - 1, known[j]);
        }
        if (found) continue;
        return refuse(r, "key '%.*s' is not known here, and may change what the model computes",
                      (int)dt__min_i64((int64_t)k->bytes, 100), k->name);
    }
    return DT_OK;
}

/* -1 for `missing`: the key must be there. */
static dt_status read_int(const reading *r, const char *key, int64_t missing, int64_t *out)
{
    char name[96];
    snprintf(name, sizeof name, "%s.%s", r->g.arch, key);
    DT__TRY(dt__gguf_int(&r->raw, name, missing, out));
    if (*out < 0) return dt__gguf_fail(&r->raw, "key '%s' is missing", name);
    if (*out <= MOST) return DT_OK;
    return dt__gguf_fail(&r->raw, "key '%s' is %lld; %d is the most", name, (long long)*out, MOST);
}

static dt_status read_real(const reading *r, const char *key, double missing, double *out)
{
    char name[96];
    snprintf(name, sizeof name, "%s.%s", r->g.arch, key);
    DT__TRY(dt__gguf_real(&r->raw, name, missing, out));
    if (*out >= 0) return DT_OK;
    return dt__gguf_fail(&r->raw, "key '%s' is missing, or negative", name);
}

static dt_status read_sizes(reading *r)
{
    dt__gguf_model *g = &r->g;
    DT__TRY(read_int(r, "context_length", -1, &g->context));
    DT__TRY(read_int(r, "embedding_length", -1, &g->width));
    DT__TRY(read_int(r, "block_count", -1, &g->layers));
    DT__TRY(read_int(r, "feed_forward_length", -1, &g->hidden));
    DT__TRY(read_int(r, "attention.head_count", -1, &g->heads));
    DT__TRY(read_int(r, "attention.head_count_kv", g->heads, &g->kv_heads));
    DT__TRY(read_int(r, "expert_count", 0, &g->experts));
    DT__TRY(read_int(r, "expert_used_count", g->experts > 0 ? -1 : 0, &g->top_k));
    if (g->heads < 1 || g->kv_heads < 1 || g->width < 1 || g->heads % g->kv_heads != 0) {
        return dt__gguf_fail(&r->raw, "%lld heads with %lld of keys and values, of width %lld",
                             (long long)g->heads, (long long)g->kv_heads, (long long)g->width);
    }
    DT__TRY(read_int(r, "attention.key_length", g->width / g->heads, &g->head_width));
    if (g->head_width >= 1 && g->head_width % 2 == 0) return DT_OK;
    return dt__gguf_fail(&r->raw, "heads of width %lld", (long long)g->head_width);
}

/* Settings that must be as detent has them. */
static dt_status check_settings(reading *r)
{
    const dt__gguf_model *g = &r->g;
    int64_t values, rotated, window;
    DT__TRY(read_int(r, "attention.value_length", g->head_width, &values));
    DT__TRY(read_int(r, "rope.dimension_count", g->head_width, &rotated));
    DT__TRY(read_int(r, "attention.sliding_window", g->context, &window));
    if (values != g->head_width) return refuse(r, "heads of values are as wide as those of keys");
    if (!g->is_gpt && rotated != g->head_width) {
        return refuse(r, "%lld of a head's %lld values are rotated; all of them can be",
                      (long long)rotated, (long long)g->head_width);
    }
    if (window == 0 || window >= g->context) return DT_OK;
    return refuse(r, "attention.sliding_window %lld is smaller than the context",
                  (long long)window);
}

/* ---- rotation ------------------------------------------------------------------------------- */

/* llama3's scaling, known by its divisors. The context before scaling and the bounds are not in the
 * file: those of every Llama 3 are tried. */
static dt_status read_divisors(reading *r, const dt__gguf_raw *t)
{
    dt_rope_options *o = &r->g.rope;
    const int64_t n = r->g.head_width / 2;
    float x;
    *o = (dt_rope_options){ DT_ROPE_LLAMA3, 1, 1, 4, 8192 };
    if (t->type->id != DT__GGUF_F32 || t->count != n) {
        return dt__gguf_fail(&r->raw, "tensor 'rope_freqs.weight' must be F32[%lld]", (long long)n);
    }
    for (int64_t i = 0; i < n; i++) {
        memcpy(&x, t->data + (size_t)i * sizeof x, sizeof x);
        if (!(x >= 1 && x <= 1e6F)) {
            return dt__gguf_fail(&r->raw, "tensor 'rope_freqs.weight': element %lld is %g",
                                 (long long)i, (double)x);
        }
        o->factor = fmax(o->factor, (double)x);
    }
    for (; o->original_context > 16; o->original_context /= 2) {
        int64_t same = 0;
        for (int64_t i = 0; i < n; i++) {
            memcpy(&x, t->data + (size_t)i * sizeof x, sizeof x);
            same += fabs((double)x / dt__gguf_rope_factor(&r->g, i) - 1) < 1e-4;
        }
        if (same == n) return DT_OK;
    }
    return refuse(r, "the divisors of rope_freqs.weight are not those of Llama 3");
}

static dt_status read_rotation(reading *r)
{
    const char *text;
    size_t n;
    char name[96];
    dt_rope_options *o = &r->g.rope;
    *o = (dt_rope_options){ DT_ROPE_PLAIN, 1, 1, 4, 8192 };
    if (r->g.is_gpt) return DT_OK;
    DT__TRY(read_real(r, "rope.freq_base", 10000, &r->g.theta));
    snprintf(name, sizeof name, "%s.rope.scaling.type", r->g.arch);
    DT__TRY(dt__gguf_text(&r->raw, name, &text, &n));
    dt__gguf_raw *divisors = dt__gguf_tensor_of(&r->raw, "rope_freqs.weight");
    if (divisors != NULL) {
        divisors->used = true;
        if (text == NULL || dt__gguf_is(text, n, "none")) return read_divisors(r, divisors);
        return refuse(r, "rope.scaling.type and rope_freqs.weight together");
    }
    if (text == NULL || dt__gguf_is(text, n, "none")) return DT_OK;
    if (!dt__gguf_is(text, n, "linear")) {
        return refuse(r, "key '%s': linear is supported, and none", name);
    }
    o->scaling = DT_ROPE_LINEAR;
    return read_real(r, "rope.scaling.factor", -1, &o->factor);
}

/* ---- the model ------------------------------------------------------------------------------ */

static bool has(const reading *r, const char *name)
{
    return dt__gguf_tensor_of(&r->raw, name) != NULL;
}

static dt_status describe(reading *r)
{
    dt__gguf_model *g = &r->g;
    DT__TRY(find_arch(r));
    DT__TRY(check_known(r));
    DT__TRY(read_sizes(r));
    DT__TRY(check_settings(r));
    DT__TRY(read_rotation(r));
    DT__TRY(read_real(
        r, g->is_gpt ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", -1,
        &g->eps));
    const dt__gguf_raw *tokens = dt__gguf_tensor_of(&r->raw, "token_embd.weight");
    if (tokens == NULL || tokens->rank != 2) {
        return dt__gguf_fail(&r->raw, "tensor 'token_embd.weight' is missing, or no matrix");
    }
    g->vocab = tokens->dims[0];
    g->tied = !has(r, "output.weight");
    g->qkv_bias = has(r, "blk.0.attn_q.bias");
    g->out_bias = has(r, "blk.0.attn_output.bias");
    g->mlp_bias = has(r, "blk.0.ffn_up.bias");
    g->qk_norm = has(r, "blk.0.attn_q_norm.weight");
    r->biased = g->is_gpt && (has(r, "blk.0.attn_qkv.bias") || g->mlp_bias);
    return DT_OK;
}

static void put_options(const reading *r, dt__chars *t)
{
    const dt__gguf_model *g = &r->g;
    const dt_gpt_options gpt = { .vocab = g->vocab,
                                 .context = g->context,
                                 .layers = g->layers,
                                 .heads = g->heads,
                                 .width = g->width,
                                 .hidden = g->hidden,
                                 .bias = r->biased,
                                 .tied = g->tied,
                                 .eps = g->eps,
                                 .theta = 1e4 };
    const dt_llama_options llama = {
        .vocab = g->vocab,
        .context = g->context,
        .layers = g->layers,
        .heads = g->heads,
        .width = g->width,
        .hidden = g->hidden,
        .kv_heads = g->kv_heads,
        .head_width = g->head_width,
        .tied = g->tied,
        .qkv_bias = g->qkv_bias,
        .out_bias = g->out_bias,
        .mlp_bias = g->mlp_bias,
        .qk_norm = g->qk_norm,
        .theta = g->theta,
        .eps = g->eps,
        .rope = g->rope,
        .moe = { .given = g->experts > 0,
                 .experts = g->experts,
                 .top_k = g->top_k,
                 .normalize = true,
                 .balance = 0.01 },
    };
    dt__put_text(t, g->is_gpt ? "{\"gpt\":" : "{\"llama\":");
    dt__put_options(t, g->is_gpt ? dt_gpt_keys : dt_llama_keys,
                    g->is_gpt ? (const void *)&gpt : &llama);
    dt__put_text(t, "}");
}

/* ---- tensors -------------------------------------------------------------------------------- */

static dt_status add_entry(reading *r, const char *name, const dt_file_entry *e)
{
    dt_file *file = r->raw.file;
    DT__TRY(DT__RESERVE(file->ctx, file->entry, file->count, r->room));
    char *copy = dt__keep(file->ctx, &file->kept, strlen(name) + 1);
    if (copy == NULL) return DT_ERR_NOMEM;
    strcpy(copy, name);
    file->entry[file->count] = *e;
    file->entry[file->count++].name = copy;
    return DT_OK;
}

static dt_file_entry entry_of(const dt__gguf_raw *t)
{
    return (dt_file_entry){ .dtype = t->type->name,
                            .rank = t->rank,
                            .dims = t->dims,
                            .count = t->count,
                            .bytes = t->bytes,
                            .data = t->data };
}

/* Rows in the model's order, in new memory. */
static dt_status order_rows(reading *r, const dt__gguf_name *n, const dt__gguf_raw *t,
                            dt_file_entry *e)
{
    const int64_t rows = t->dims[0];
    if (!r->g.pairs || n->heads == DT__GGUF_NO_HEADS || t->bytes == 0) return DT_OK;
    if (rows % r->g.head_width != 0) {
        char shown[DT__SHOWN];
        return dt__gguf_fail(&r->raw, "tensor '%s' has %lld rows, which heads of %lld do not make",
                             dt__shown(t->name, shown), (long long)rows,
                             (long long)r->g.head_width);
    }
    const size_t bytes = t->bytes / (size_t)rows;
    unsigned char *to = dt__keep(r->raw.ctx, &r->raw.file->kept, t->bytes);
    if (to == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t row = dt__gguf_row(&r->g, n, i);
        memcpy(to + (size_t)row * bytes, t->data + (size_t)i * bytes, bytes);
    }
    e->data = to;
    return DT_OK;
}

/* One of several parts of equal size: queries, keys, values. */
static dt_status add_share(reading *r, const dt__gguf_raw *t, int i, int parts, const char *path)
{
    char shown[DT__SHOWN];
    dt_file_entry e = entry_of(t);
    if (t->dims[0] % parts != 0) {
        return dt__gguf_fail(&r->raw, "tensor '%s' is not queries, keys and values",
                             dt__shown(t->name, shown));
    }
    int64_t *dims = dt__keep(r->raw.ctx, &r->raw.file->kept, sizeof t->dims);
    if (dims == NULL) return DT_ERR_NOMEM;
    memcpy(dims, t->dims, sizeof t->dims);
    dims[0] /= parts;
    e.dims = dims;
    e.count /= parts;
    e.bytes /= (size_t)parts;
    if (e.bytes > 0) e.data = t->data + (size_t)i * e.bytes;
    return add_entry(r, path, &e);
}

static dt_status take(reading *r, const dt__gguf_name *n, int64_t layer)
{
    char label[64], path[128], prefix[40] = "";
    int parts = 0;
    snprintf(label, sizeof label, "%s", n->theirs);
    if (layer >= 0) {
        snprintf(label, sizeof label, "blk.%lld.%s", (long long)layer, n->theirs);
        snprintf(prefix, sizeof prefix, "%s%lld.", dt__gguf_names_of(&r->g)->blocks,
                 (long long)layer);
    }
    dt__gguf_raw *t = dt__gguf_tensor_of(&r->raw, label);
    if (t == NULL) return DT_OK; /* found missing when the model is built */
    t->used = true;
    while (parts < 3 && n->ours[parts] != NULL) parts++;
    for (int i = 0; i < parts; i++) {
        dt_file_entry e = entry_of(t);
        snprintf(path, sizeof path, "%s%s", prefix, n->ours[i]);
        if (parts > 1) {
            DT__TRY(add_share(r, t, i, parts, path));
            continue;
        }
        DT__TRY(order_rows(r, n, t, &e));
        DT__TRY(add_entry(r, path, &e));
    }
    return DT_OK;
}

static dt_status take_all(reading *r)
{
    dt_file *file = r->raw.file;
    char shown[DT__SHOWN];
    const dt__gguf_names *n = dt__gguf_names_of(&r->g);
    for (const dt__gguf_name *w = n->whole; w->theirs != NULL; w++) DT__TRY(take(r, w, -1));
    for (int64_t i = 0; i < dt__min_i64(r->g.layers, r->raw.n_raw); i++) {
        for (const dt__gguf_name *b = n->block; b->theirs != NULL; b++) DT__TRY(take(r, b, i));
    }
    for (int64_t i = 0; i < r->raw.n_raw; i++) {
        const dt__gguf_raw *t = &r->raw.raw[i];
        if (t->used) continue;
        return refuse(r, "tensor '%s' is none of architecture %s that is known here",
                      dt__shown(t->name, shown), r->g.arch);
    }
    file->by_name = dt__alloc_array(file->ctx, file->count, sizeof *file->by_name);
    if (file->by_name == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < file->count; i++) file->by_name[i] = &file->entry[i];
    if (file->count > 0) {
        qsort(file->by_name, (size_t)file->count, sizeof *file->by_name, dt__by_entry_name);
    }
    return DT_OK;
}

/* Extents outlive the list of raw tensors. */
static dt_status keep_dims(reading *r)
{
    dt_file *file = r->raw.file;
    for (int64_t i = 0; i < file->count; i++) {
        dt_file_entry *e = &file->entry[i];
        int64_t *dims = dt__keep(file->ctx, &file->kept, (size_t)e->rank * sizeof *dims);
        if (dims == NULL) return DT_ERR_NOMEM;
        memcpy(dims, e->dims, (size_t)e->rank * sizeof *dims);
        e->dims = dims;
    }
    return DT_OK;
}

/* ---- the whole ------------------------------------------------------------------------------ */

/* detent.model and detent.tokenizer, one after the other in one text. */
static dt_status make_metas(reading *r, dt__chars *t)
{
    dt_file *file = r->raw.file;
    bool tokenizer;
    put_options(r, t);
    dt__put(t, "", 1);
    const size_t second = t->used;
    DT__TRY(dt__gguf_put_tokenizer(&r->raw, t, &tokenizer));
    dt__put(t, "", 1);
    file->meta = dt__alloc_array(file->ctx, 2, sizeof *file->meta);
    if (file->meta == NULL || t->failed) return DT_ERR_NOMEM;
    file->strings = t->bytes;
    t->bytes = NULL;
    file->meta[0] = (dt__meta){ DT__KEY_MODEL, file->strings };
    file->meta[1] = (dt__meta){ DT__KEY_TOKENIZER, file->strings + second };
    file->meta_count = tokenizer ? 2 : 1;
    return DT_OK;
}

static dt_status read_all(reading *r)
{
    dt__chars t = { .ctx = r->raw.ctx };
    DT__TRY(dt__gguf_scan(&r->raw));
    DT__TRY(describe(r));
    DT__TRY(take_all(r));
    DT__TRY(keep_dims(r));
    const dt_status s = make_metas(r, &t);
    dt__release(t.ctx, t.bytes);
    return s;
}

bool dt__is_gguf(const char *path)
{
    char begin[sizeof DT__GGUF_MAGIC] = "";
    const int descriptor = dt__sys_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return false;
    size_t n = 0;
    ssize_t more = 1;
    for (; more > 0 && n < sizeof begin - 1; n += (size_t)(more > 0 ? more : 0)) {
        more = dt__sys_read(descriptor, begin + n, sizeof begin - 1 - n);
    }
    dt__sys_close(descriptor);
    return strcmp(begin, DT__GGUF_MAGIC) == 0;
}

dt_status dt__gguf_read(dt_file *file)
{
    reading r = { .raw = { .ctx = file->ctx, .file = file } };
    const dt_status s = read_all(&r);
    dt__release(file->ctx, r.raw.key);
    dt__release(file->ctx, r.raw.raw);
    return s;
}
