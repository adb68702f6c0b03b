/* Maps the tensor names of Hugging Face to ours; marks tensors that are fused or transposed. A row
 * of a class's table names one tensor of its files and the corresponding tensors of the family:
 *
 *     PLAIN    the same
 *     TURNED   [in, out] where the family has [out, in]
 *     parts    rows of the first, then rows of the second, ... (behind the turning)
 *     by head  such parts of the first head, then those of the second, ...
 *
 * A folder's tensors are cut when it is opened, without a copy unless they are turned or by head,
 * and joined when it is saved. */
#include "core/block_list.h"
#include "io/hf/hf_names.h"

#include <stdio.h>
#include <string.h>

static const dt__hf_row phi3_rows[] = {
    { .theirs = "model.layers.*.self_attn.qkv_proj.weight",
      .ours = { "model.layers.*.self_attn.q_proj.weight", "model.layers.*.self_attn.k_proj.weight",
                "model.layers.*.self_attn.v_proj.weight" } },
    { .theirs = "model.layers.*.mlp.gate_up_proj.weight",
      .ours = { "model.layers.*.mlp.gate_proj.weight", "model.layers.*.mlp.up_proj.weight" } },
    { .theirs = NULL },
};

static const dt__hf_row gpt2_rows[] = {
    { .theirs = "transformer.wte.weight", .ours = { "tokens.weight" } },
    { .theirs = "transformer.wpe.weight", .ours = { "positions.weight" } },
    { .theirs = "transformer.h.*.ln_1.weight", .ours = { "blocks.*.norm1.weight" } },
    { .theirs = "transformer.h.*.ln_1.bias", .ours = { "blocks.*.norm1.bias" } },
    { .theirs = "transformer.h.*.attn.c_attn.weight",
      .ours = { "blocks.*.attn.q.weight", "blocks.*.attn.k.weight", "blocks.*.attn.v.weight" },
      .turned = true },
    { .theirs = "transformer.h.*.attn.c_attn.bias",
      .ours = { "blocks.*.attn.q.bias", "blocks.*.attn.k.bias", "blocks.*.attn.v.bias" } },
    { .theirs = "transformer.h.*.attn.c_proj.weight",
      .ours = { "blocks.*.attn.out.weight" },
      .turned = true },
    { .theirs = "transformer.h.*.attn.c_proj.bias", .ours = { "blocks.*.attn.out.bias" } },
    { .theirs = "transformer.h.*.ln_2.weight", .ours = { "blocks.*.norm2.weight" } },
    { .theirs = "transformer.h.*.ln_2.bias", .ours = { "blocks.*.norm2.bias" } },
    { .theirs = "transformer.h.*.mlp.c_fc.weight",
      .ours = { "blocks.*.mlp.up.weight" },
      .turned = true },
    { .theirs = "transformer.h.*.mlp.c_fc.bias", .ours = { "blocks.*.mlp.up.bias" } },
    { .theirs = "transformer.h.*.mlp.c_proj.weight",
      .ours = { "blocks.*.mlp.down.weight" },
      .turned = true },
    { .theirs = "transformer.h.*.mlp.c_proj.bias", .ours = { "blocks.*.mlp.down.bias" } },
    { .theirs = "transformer.ln_f.weight", .ours = { "norm.weight" } },
    { .theirs = "transformer.ln_f.bias", .ours = { "norm.bias" } },
    { .theirs = "lm_head.weight", .ours = { "head.weight" } },
    { .theirs = NULL },
};

/* Buffers in files of old versions: attn.bias is the causal mask. */
static const char *const gpt2_skipped[] = { "transformer.h.*.attn.bias",
                                            "transformer.h.*.attn.masked_bias", NULL };

static const dt__hf_row neox_rows[] = {
    { .theirs = "gpt_neox.embed_in.weight", .ours = { "tokens.weight" } },
    { .theirs = "gpt_neox.layers.*.input_layernorm.weight", .ours = { "blocks.*.norm1.weight" } },
    { .theirs = "gpt_neox.layers.*.input_layernorm.bias", .ours = { "blocks.*.norm1.bias" } },
    { .theirs = "gpt_neox.layers.*.attention.query_key_value.weight",
      .ours = { "blocks.*.attn.q.weight", "blocks.*.attn.k.weight", "blocks.*.attn.v.weight" },
      .by_head = true },
    { .theirs = "gpt_neox.layers.*.attention.query_key_value.bias",
      .ours = { "blocks.*.attn.q.bias", "blocks.*.attn.k.bias", "blocks.*.attn.v.bias" },
      .by_head = true },
    { .theirs = "gpt_neox.layers.*.attention.dense.weight",
      .ours = { "blocks.*.attn.out.weight" } },
    { .theirs = "gpt_neox.layers.*.attention.dense.bias", .ours = { "blocks.*.attn.out.bias" } },
    { .theirs = "gpt_neox.layers.*.post_attention_layernorm.weight",
      .ours = { "blocks.*.norm2.weight" } },
    { .theirs = "gpt_neox.layers.*.post_attention_layernorm.bias",
      .ours = { "blocks.*.norm2.bias" } },
    { .theirs = "gpt_neox.layers.*.mlp.dense_h_to_4h.weight",
      .ours = { "blocks.*.mlp.up.weight" } },
    { .theirs = "gpt_neox.layers.*.mlp.dense_h_to_4h.bias", .ours = { "blocks.*.mlp.up.bias" } },
    { .theirs = "gpt_neox.layers.*.mlp.dense_4h_to_h.weight",
      .ours = { "blocks.*.mlp.down.weight" } },
    { .theirs = "gpt_neox.layers.*.mlp.dense_4h_to_h.bias", .ours = { "blocks.*.mlp.down.bias" } },
    { .theirs = "gpt_neox.final_layer_norm.weight", .ours = { "norm.weight" } },
    { .theirs = "gpt_neox.final_layer_norm.bias", .ours = { "norm.bias" } },
    { .theirs = "embed_out.weight", .ours = { "head.weight" } },
    { .theirs = NULL },
};

static const char *const neox_skipped[] = { "gpt_neox.layers.*.attention.bias",
                                            "gpt_neox.layers.*.attention.masked_bias", NULL };

const dt__hf_names dt__hf_neox_names = { .rows = neox_rows,
                                         .prefix = "gpt_neox.",
                                         .skipped = neox_skipped };
const dt__hf_names dt__hf_phi3_names = { .rows = phi3_rows };
const dt__hf_names dt__hf_gpt2_names = { .rows = gpt2_rows,
                                         .prefix = "transformer.",
                                         .skipped = gpt2_skipped };

/* ---- names ----------------------------------------------------------------------------------- */

/* Whether a name matches the pattern, in which `*` is digits; *digits and *n: where they are and
 * their number (0 without `*`). */
static bool matches(const char *name, const char *pattern, const char **digits, int *n)
{
    const char *star = strchr(pattern, '*');
    *n = 0;
    if (star == NULL) return strcmp(name, pattern) == 0;
    const size_t head = (size_t)(star - pattern);
    if (strncmp(name, pattern, head) != 0) return false;
    *digits = name + head;
    *n = (int)strspn(*digits, "0123456789");
    return *n > 0 && *n < 10 && strcmp(*digits + *n, star + 1) == 0;
}

/* The pattern with these digits in place of `*`. */
static void put_digits(const char *pattern, const char *digits, int n, char text[DT__SHOWN])
{
    const char *star = strchr(pattern, '*');
    const int head = star == NULL ? (int)strlen(pattern) : (int)(star - pattern);
    snprintf(text, DT__SHOWN, "%.*s%.*s%s", head, pattern, n, digits, star == NULL ? "" : star + 1);
}

static int parts_of(const dt__hf_row *r)
{
    int n = 0;
    while (n < DT__HF_PARTS && r->ours[n] != NULL) n++;
    return n;
}

/* The number of rows of part i of n in a tensor of `rows` rows; 0: it cannot be divided. */
static int64_t rows_of(const dt__hf_cutting *c, int i, int n, int64_t rows)
{
    if (n == 1) return rows;
    if (n == 2) return rows % 2 == 0 ? rows / 2 : 0;
    return rows == c->queries + 2 * c->keys ? (i == 0 ? c->queries : c->keys) : 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Memory for a copy of a tensor, which is released while a model reads the copy. NULL: NOMEM. */
static char *keep_copy(dt_file *folder, const dt_file_entry *e)
{
    char *to = dt__block_list_add(folder->ctx, &folder->arena, e->bytes + 1);
    dt__turned *copy = dt__block_list_add(folder->ctx, &folder->arena, sizeof *copy);
    if (to == NULL || copy == NULL) return NULL;
    *copy = (dt__turned){ folder->copies, (unsigned char *)to, e->bytes, false };
    folder->copies = copy;
    return to;
}

/* Transposes an entry x [in, out] to [out, in], in the folder's memory. */
static dt_status turn(dt_file *folder, dt_file_entry *e)
{
    const int64_t in = e->dims[0], out = e->dims[1];
    int64_t *dims = dt__block_list_add(folder->ctx, &folder->arena, 2 * sizeof *dims);
    char *to = keep_copy(folder, e);
    if (dims == NULL || to == NULL) return DT_ERR_NOMEM;
    const size_t each = e->count == 0 ? 0 : e->bytes / (size_t)e->count;
    const char *from = e->data;
    for (int64_t i = 0; i < in && each > 0; i++) {
        for (int64_t o = 0; o < out; o++) {
            memcpy(to + (size_t)(o * in + i) * each, from + (size_t)(i * out + o) * each, each);
        }
    }
    dt__entry_forget(folder, e);
    dims[0] = out;
    dims[1] = in;
    e->dims = dims;
    e->data = to;
    return DT_OK;
}

/* Reorders rows that are sorted by head to rows that are sorted by part, in the folder's memory. */
static dt_status sort_heads(dt_file *folder, dt_file_entry *e, int64_t heads, int parts)
{
    if (e->bytes == 0) return DT_OK;
    char *to = keep_copy(folder, e);
    if (to == NULL) return DT_ERR_NOMEM;
    const size_t bytes = e->bytes / (size_t)(heads * parts);
    const char *from = e->data;
    for (int64_t h = 0; h < heads; h++) {
        for (int i = 0; i < parts; i++) {
            memcpy(to + (size_t)(i * heads + h) * bytes, from, bytes);
            from += bytes;
        }
    }
    dt__entry_forget(folder, e);
    e->data = to;
    return DT_OK;
}

static dt_status add_part(dt_file *folder, const dt_file_entry *e, const char *name, int64_t rows,
                          int64_t first)
{
    char *copy = dt__block_list_text(folder->ctx, &folder->arena, "%s", name);
    int64_t *dims = dt__block_list_add(folder->ctx, &folder->arena, DT_MAX_RANK * sizeof *dims);
    if (copy == NULL || dims == NULL) return DT_ERR_NOMEM;
    dt_file_entry *to = &folder->entry[folder->count++];
    *to = *e;
    to->name = copy;
    if (e->rank == 0 || rows == e->dims[0]) return DT_OK;
    memcpy(dims, e->dims, (size_t)e->rank * sizeof *dims);
    const size_t row = e->bytes / (size_t)e->dims[0];
    dims[0] = rows;
    to->dims = dims;
    to->count = e->count / e->dims[0] * rows;
    to->bytes = row * (size_t)rows;
    to->data = (const char *)e->data + row * (size_t)first;
    return DT_OK;
}

static dt_status cut(dt_file *folder, const dt_file_entry *e, const dt__hf_cutting *c,
                     const dt__hf_row *r, const char *digits, int n_digits)
{
    dt_file_entry whole = *e;
    const int n = parts_of(r);
    int64_t first = 0;
    char name[DT__SHOWN];
    if (r->turned && e->rank == 2) DT__TRY(turn(folder, &whole));
    if (r->by_head && e->rank > 0 && rows_of(c, 0, n, e->dims[0]) > 0) {
        DT__TRY(sort_heads(folder, &whole, c->heads, n));
    }
    for (int i = 0; i < n; i++) {
        const int64_t all = whole.rank == 0 ? 0 : whole.dims[0];
        const int64_t rows = rows_of(c, i, n, all);
        if (n > 1 && rows == 0) {
            return dt_fail(folder->ctx, DT_ERR_FORMAT,
                           "%s: tensor '%s' of %lld rows cannot be cut into %d: %s", folder->path,
                           dt__shown(e->name, name), (long long)all, n,
                           n == 2 ? "expected an even number"
                                  : "queries, keys and values have others by config.json");
        }
        put_digits(r->ours[i], digits, n_digits, name);
        DT__TRY(add_part(folder, &whole, name, rows, first));
        first += rows;
    }
    return DT_OK;
}

dt_status dt__hf_cut(dt_file *folder, const dt_file_entry *e, const dt__hf_cutting *c, bool *taken)
{
    const dt__hf_names *names = c->names;
    const char *digits = "";
    char text[2 * DT__SHOWN];
    int n;
    *taken = false;
    if (names == NULL) return DT_OK;
    const char *prefix = names->prefix == NULL ? "" : names->prefix;
    for (int bare = 0; bare < 2; bare++) { /* files of the base class lack the prefix */
        if (bare == 1 && *prefix == 0) break;
        snprintf(text, sizeof text, "%s%s", bare == 1 ? prefix : "", e->name);
        for (int i = 0; names->skipped != NULL && names->skipped[i] != NULL; i++) {
            if (matches(text, names->skipped[i], &digits, &n)) *taken = true;
        }
        for (const dt__hf_row *r = names->rows; r->theirs != NULL && !*taken; r++) {
            if (!matches(text, r->theirs, &digits, &n)) continue;
            *taken = true;
            DT__TRY(cut(folder, e, c, r, digits, n));
        }
    }
    return DT_OK;
}

/* ---- saving ---------------------------------------------------------------------------------- */

const dt__hf_row *dt__hf_row_of(const dt__hf_names *names, const char *path, int *part,
                                char theirs[DT__SHOWN])
{
    const char *digits = "";
    int n;
    for (const dt__hf_row *r = names == NULL ? NULL : names->rows; r != NULL && r->theirs != NULL;
         r++) {
        for (*part = 0; *part < parts_of(r); ++*part) {
            if (!matches(path, r->ours[*part], &digits, &n)) continue;
            put_digits(r->theirs, digits, n, theirs);
            return r;
        }
    }
    return NULL;
}

void dt__hf_part_name(const dt__hf_row *r, int part, const char *path, int of, char text[DT__SHOWN])
{
    const char *digits = "";
    int n = 0;
    matches(path, r->ours[of], &digits, &n);
    put_digits(r->ours[part], digits, n, text);
}

int dt__hf_row_parts(const dt__hf_row *r) { return parts_of(r); }
