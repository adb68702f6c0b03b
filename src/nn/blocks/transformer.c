/* A decoder-only transformer around its blocks, and its dt_language.
 *     x = dropout(scale tokens[ids] + positions[p])      x = norm(block_n(... block_1(x)))
 *     logits = head(x)
 * A tied head uses the weight of the token embedding: one parameter under two paths. The positions
 * p are 0 ... T-1; with a key-value cache they start at its length. */
#include "nn/blocks/transformer.h"
#include "nn/blocks/blocks.h"
#include "nn/cache/cache.h"
#include "nn/blocks/experts.h"
#include "nn/layers/scalar.h"

#include <stdio.h>

typedef struct transformer {
    dt_module *tokens, *positions, *blocks, *norm, *head; /* positions NULL: none are learned */
    int64_t vocab, context, near_tokens;
    bool rotates;
    double dropout, scale_tokens; /* scale 0: none */
    dt_moe_options moe;
} transformer;

static bool check_ids(dt_tape *t, const dt_module *m, const transformer *s, const dt_tensor *ids)
{
    if (t->status != DT_OK || ids == NULL) return false;
    if (ids->rank != 2) {
        char has[160];
        dt_describe(ids, has, sizeof has);
        dt_tape_fail(t, DT_ERR_SHAPE, "%s: token ids are [batch, tokens], not %s", m->type->name,
                     has);
        return false;
    }
    const int64_t n = dt__cache_start(t) + ids->dims[1];
    if (n <= s->context) return true;
    dt_tape_fail(t, DT_ERR_SHAPE, "%s: %lld tokens do not fit its context of %lld", m->type->name,
                 (long long)n, (long long)s->context);
    return false;
}

static dt_tensor *embed(dt_tape *t, dt_module *m, dt_tensor *ids, dt_tensor *position)
{
    const transformer *s = dt_module_state(m);
    dt_tensor *x = dt_forward(t, s->tokens, ids);
    if (s->scale_tokens != 0) x = dt__then(t, x, dt__times(t, x, s->scale_tokens));
    if (s->positions != NULL) {
        dt_tensor *at = dt_forward(t, s->positions, position);
        x = dt__then(t, x, dt_add(t, x, at));
        dt__drop_step(t, at, x);
    }
    if (dt_is_training(m) && s->dropout > 0.0) x = dt__then(t, x, dt_dropout(t, x, s->dropout));
    return x;
}

static bool has_auxiliary_loss(const transformer *s)
{
    return s->moe.given && (s->moe.balance > 0 || s->moe.z > 0);
}

static dt_tensor *hidden(dt_tape *t, dt_module *m, dt_tensor *ids, dt_tensor **extra)
{
    const transformer *s = dt_module_state(m);
    const bool routed = extra != NULL && has_auxiliary_loss(s);
    dt__routed logits = { .n = 0 };
    if (extra != NULL) *extra = NULL;
    if (!check_ids(t, m, s, ids)) return NULL;
    dt_tensor *position = dt__cache_positions(t, ids->dims[1]);
    dt_tensor *x = embed(t, m, ids, position);
    for (int64_t i = 0; i < s->blocks->n_children; i++) {
        dt_tensor *in[2] = { x, position }, *out[2];
        dt_forward_n(t, s->blocks->children[i], in, s->rotates ? 2 : 1, out, routed ? 2 : 1);
        x = dt__then(t, x, out[0]);
        if (routed) dt__routed_add(t, &logits, out[1]);
    }
    dt__drop_step(t, position, x);
    if (routed) *extra = dt__routed_loss(t, &logits, &s->moe);
    return dt__then(t, x, dt_forward(t, s->norm, x));
}

void dt__transformer_forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in,
                             dt_tensor **out, int n_out)
{
    const transformer *s = dt_module_state(m);
    (void)n_in;
    (void)n_out;
    dt_tensor *x = hidden(t, m, in[0], NULL);
    out[0] = dt__then(t, x, dt_forward(t, s->head, x));
}

static dt_module *head_of(dt_module *m) { return ((transformer *)m->state)->head; }
static int64_t vocab_of(const dt_module *m) { return ((const transformer *)m->state)->vocab; }
static int64_t context_of(const dt_module *m) { return ((const transformer *)m->state)->context; }
static int64_t near_of(const dt_module *m) { return ((const transformer *)m->state)->near_tokens; }

const dt_language dt__transformer_language = { hidden, head_of, vocab_of, context_of, near_of };

static dt_status add_table(dt_module *m, const char *name, int64_t count,
                           const dt__transformer_plan *p, dt_module **lent)
{
    dt_tensor *x;
    DT__TRY(dt__add_child(m, name, &dt__nn_embedding, 0, lent));
    DT__TRY(
        dt__new_param(*lent, "weight", 2, (const int64_t[]){ count, p->block.attend.width }, &x));
    return dt__draw_normal(x, DT__FOR_INIT, 0.0, p->deviation);
}

/* A head that uses another module's weight. */
static dt_status add_tied(dt_module *m, const char *name, const dt_module *table, dt_module **lent)
{
    dt_tensor *weight = dt__entry_find(table, "weight")->x;
    DT__TRY(dt__add_child(m, name, &dt__nn_linear, 0, lent));
    dt__retain(weight);
    return dt_module_add_param(*lent, "weight", weight);
}

static bool is_every(int64_t n, int64_t i) { return n > 0 && (i + 1) % n == 0; }

/* The attention plan of block i. */
static dt__block_plan block_at(const dt__transformer_plan *p, int64_t i)
{
    dt__block_plan b = p->block;
    if (is_every(p->unrotated, i)) b.attend.rotates = false;
    if (is_every(p->full_every, i)) {
        b.attend.window = 0;
        b.attend.rotary = p->full_rotary;
    }
    return b;
}

static dt_status build_body(dt_module *body, transformer *s, const dt__transformer_plan *p)
{
    const dt__block_plan *block = &p->block;
    dt_ctx *ctx = dt_module_ctx(body);
    dt_module *part = NULL;
    DT__TRY(add_table(body, p->tokens, p->vocab, p, &s->tokens));
    if (p->positions != NULL) {
        DT__TRY(add_table(body, p->positions, p->context, p, &s->positions));
    }
    DT__TRY(dt__add_child(body, p->blocks, &dt__nn_list, 0, &s->blocks));
    for (int64_t i = 0; i < p->layers; i++) {
        char name[24];
        snprintf(name, sizeof name, "%lld", (long long)i);
        const dt__block_plan own = block_at(p, i);
        const dt_status made = dt__transformer_block_create(ctx, &own, &part);
        DT__TRY(dt__add_made(s->blocks, name, made, part, &part));
    }
    const dt_status made = block->create_norm(ctx, block->attend.width, block->eps, &part);
    return dt__add_made(body, p->norm, made, part, &s->norm);
}

static dt_status build(dt_module *m, const dt__transformer_plan *p)
{
    transformer *s = dt_module_state(m);
    dt_module *body = m;
    s->vocab = p->vocab;
    s->context = p->context;
    s->rotates = p->block.attend.rotates;
    s->near_tokens = p->block.attend.near_tokens;
    s->dropout = p->block.dropout;
    s->scale_tokens = p->scale_tokens;
    if (p->block.feed.moe != NULL) s->moe = *p->block.feed.moe;
    if (p->body != NULL) DT__TRY(dt__add_child(m, p->body, &dt__nn_list, 0, &body));
    DT__TRY(build_body(body, s, p));
    if (p->tied) return add_tied(m, p->head, s->tokens, &s->head);
    const dt__linear_plan head = { p->block.attend.width, p->vocab, false, p->deviation };
    return dt__add_linear(m, p->head, &head, &s->head);
}

static dt_status check_heads(dt_ctx *ctx, const char *family, const dt__attention_plan *p)
{
    if (p->heads % p->kv_heads != 0) {
        return dt_fail(ctx, DT_ERR_ARG,
                       "%s: %lld heads of keys and values do not divide %lld heads of queries",
                       family, (long long)p->kv_heads, (long long)p->heads);
    }
    if (!p->rotates || p->rotary.rotary_dim > 0 || p->head_width % 2 == 0) return DT_OK;
    return dt_fail(ctx, DT_ERR_ARG, "%s: a head width of %lld is odd and cannot be rotated", family,
                   (long long)p->head_width);
}

static dt_status check(dt_ctx *ctx, const dt__transformer_plan *p)
{
    const dt__attention_plan *a = &p->block.attend;
    const struct {
        const char *what;
        int64_t extent;
    } wanted[] = {
        { "the vocabulary", p->vocab },           { "the context", p->context },
        { "the number of layers", p->layers },    { "the width", a->width },
        { "the number of heads", a->heads },      { "the number of heads of keys", a->kv_heads },
        { "the width of a head", a->head_width }, { "the hidden width", p->block.feed.hidden },
    };
    for (int i = 0; i < DT__COUNT_OF(wanted); i++) {
        DT__TRY(dt__want_extent(ctx, p->family, wanted[i].what, wanted[i].extent));
    }
    DT__TRY(dt__want_share(ctx, p->family, "dropout", p->block.dropout));
    return check_heads(ctx, p->family, a);
}

dt_status dt__transformer_create(dt_ctx *ctx, const dt_module_type *type,
                                 const dt__transformer_plan *plan, dt_module **out)
{
    dt_module *m;
    *out = NULL;
    DT__TRY(check(ctx, plan));
    DT__TRY(dt_module_create(ctx, type, sizeof(transformer), &m));
    return dt__layer_done(build(m, plan), m, out);
}
