/* Format c: ops of language models, one token at a time. Extents are those of one token. The state
 * keeps the keys and values of each attention for later tokens:
 *
 *     keys[..][position] = k      values[..][position] = v
 *     y = attention(q, keys[..][0 ... position], values[..][0 ... position])
 *
 * with the same bits as dt_decoder_feed. Positions 0 ... length-1 of the trace are the variable
 * `position`. */
#include "core/text/row_named.h"
#include "export/c/c_codes.h"
#include "export/c/c_program.h"
#include "export/c/c_views.h"
#include "export/trace/trace.h"

#include "kernels/attention_args.h"
#include "kernels/products/panels.h"
#include "ops/attention/rotary_frequency.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const dt_trace_value *value_at(const dt_trace *t, int64_t value)
{
    return dt_trace_value_at(t, value);
}

static bool refuse(char *why, size_t size, const char *text)
{
    snprintf(why, size, "%s", text);
    return false;
}

/* Text of a C expression that consists of names. */
typedef struct expression {
    char text[160];
} expression;

/* ---- tokens ---------------------------------------------------------------------------------- */

static bool has_length(const dt_trace *t, int64_t value)
{
    bool has = false;
    if (value < 0) return false;
    const dt_trace_value *v = value_at(t, value);
    for (int d = 0; d < v->rank; d++) has = has || v->extent[d].length > 0;
    return has;
}

/* Ops that compute each token independently. Those with option `dim` must not run along the token
 * dimension. */
static const char *const by_token[] = {
    "linear",     "embedding",   "rotary",      "attention",  "grouped_linear",
    "moe_router", "moe_combine", "rms_norm",    "layer_norm", "reshape",
    "flatten",    "softmax",     "log_softmax", "add",        "sub",
    "mul",        "div",         "neg",         "exp",        "log",
    "sqrt",       "square",      "tanh",        "sigmoid",    "silu",
    "swiglu",     "gelu",        "elu",         "relu",       "relu6",
    "leaky_relu", "hardswish",   "hardsigmoid", "clamp",      "maximum",
    "greater",
};

static bool is_by_token(const char *op) { return DT__IS_ONE_OF(op, by_token); }

/* Whether an op runs along the token dimension. */
static bool runs_along_length(const dt_trace *t, const dt_trace_call *c)
{
    const dt_trace_value *x = value_at(t, c->in[0].value);
    int dim = x->rank - 1;
    for (const dt_key *k = c->op->keys; k != NULL && k->name != NULL; k++) {
        if (strcmp(k->name, "dim") == 0) dim = dt__trace_axis(dt__c_int(c, "dim", 0), x->rank);
    }
    if (strcmp(c->op->name, "softmax") != 0 && strcmp(c->op->name, "log_softmax") != 0) {
        return false;
    }
    return x->extent[dim].length > 0;
}

bool dt__c_takes_token(const dt_trace *t, const dt_trace_call *c, char *why, size_t size)
{
    bool length = false;
    for (int i = 0; i < c->n_in; i++) length = length || has_length(t, c->in[i].value);
    if (!length) return true;
    if (is_by_token(c->op->name) && !runs_along_length(t, c)) return true;
    return refuse(why, size, "it joins tokens, and the export computes them one by one");
}

/* ---- embedding ------------------------------------------------------------------------------- */

enum { TABLE, INDEX };

/* The linear layer with the same table as its weight, a tied head; NULL: none. */
static const dt_trace_call *head_of(const dt_trace *t, int64_t table)
{
    for (int64_t i = dt_trace_calls(t) - 1; i >= 0; i--) {
        const dt_trace_call *c = dt_trace_call_at(t, i);
        if (strcmp(c->op->name, "linear") == 0 && c->in[1].value == table) return c;
    }
    return NULL;
}

/* Index i as an expression. */
static expression index_of(dt__c_program *p, const dt_trace_call *c, const char *i)
{
    expression name;
    if (value_at(p->trace, c->in[INDEX].value)->kind == DT_VALUE_POSITIONS) {
        snprintf(name.text, sizeof name.text, "position");
        return name;
    }
    if (dt_trace_has_length(p->trace)) {
        snprintf(name.text, sizeof name.text, "token");
        return name;
    }
    const dt__c_name x = dt__c_value(p, c->in[INDEX].value);
    if (value_at(p->trace, c->in[INDEX].value)->dtype == DT_F32) {
        dt__c_want(p, "embedding_row");
        snprintf(name.text, sizeof name.text, "embedding_row((%s)[%s], %lld)", x.text, i,
                 (long long)dt__c_dim(p, c->in[TABLE].value, 0));
        return name;
    }
    snprintf(name.text, sizeof name.text, "(%s)[%s]", x.text, i);
    return name;
}

static void emit_embedding(dt__c_program *p, const dt_trace_call *c)
{
    const int64_t width = dt__c_dim(p, c->out[0], -1);
    const int64_t n = dt__c_count(p, c->out[0]) / dt__max_i64(1, width);
    const dt_trace_call *head = head_of(p->trace, c->in[TABLE].value);
    const dt__c_weight_operand own = { TABLE, DT_MAX_IN, 0 }, tied = { 1, 2, 0 };
    const dt__c_name y = dt__c_out(p, c, 0);
    const expression index = index_of(p, c, n > 1 ? "i" : "0");
    const char *step = n > 1 ? " + i * " : "";
    char to[128];
    dt__c_weight w;
    if (!dt__c_weight_of(p, head != NULL ? head : c, head != NULL ? &tied : &own, &w)) return;
    if (n > 1) snprintf(to, sizeof to, "%s%s%lld", y.text, step, (long long)width);
    else snprintf(to, sizeof to, "%s", y.text);
    if (n > 1) dt__c_line(p, "for (int32_t i = 0; i < %lld; i++) {", (long long)n);
    if (w.coded) {
        dt__c_want(p, "embedding_codes");
        dt__c_line(p, "embedding_codes(&%s, %d, %s, %s, %s, %s, %s);", w.name.text, w.bits,
                   w.zeros.text, w.order.text, w.places.text, index.text, to);
    } else {
        dt__c_line(p, "memcpy(%s, %s + %s * %lld, %lld * sizeof(float));", to, w.name.text,
                   index.text, (long long)width, (long long)width);
    }
    if (n > 1) dt__c_line(p, "}");
}

static bool takes_embedding(const dt_trace *t, const dt_trace_call *c, char *why, size_t size)
{
    const dt_trace_value *index = value_at(t, c->in[INDEX].value);
    const bool given = index->kind == DT_VALUE_POSITIONS || index->kind == DT_VALUE_INPUT;
    if (!given && index->dtype != DT_F32) {
        return refuse(why, size, "its index is computed; it must be tokens or positions");
    }
    return dt__c_takes_weight(t, c, TABLE, why, size);
}

/* ---- rotary positions ------------------------------------------------------------------------ */

/* The first and the last call with the same rotation. */
static void same_turns(const dt__c_program *p, const dt_trace_call *c, int64_t calls[2])
{
    calls[0] = calls[1] = -1;
    for (int64_t i = 0; i < dt_trace_calls(p->trace); i++) {
        const dt_trace_call *other = dt_trace_call_at(p->trace, i);
        if (other->op != c->op || other->in[1].value != c->in[1].value ||
            memcmp(other->options, c->options, c->op->options_size) != 0 ||
            dt__c_dim(p, other->in[0].value, -1) != dt__c_dim(p, c->in[0].value, -1)) {
            continue;
        }
        if (calls[0] < 0) calls[0] = i;
        calls[1] = i;
    }
}

static void put_frequencies(dt__c_program *p, const dt_rotary_options *o, int64_t pairs)
{
    dt__c_constant(p,
                   "/* radians that a position turns each pair by */\n"
                   "static const double f%lld[%lld] = {\n",
                   (long long)p->at, (long long)pairs);
    for (int64_t i = 0; i < pairs; i++) {
        dt__c_constant(p, "%s%a,%s", i % 4 == 0 ? "    " : " ", dt__rotary_frequency(o, i, pairs),
                       i % 4 == 3 || i + 1 == pairs ? "\n" : "");
    }
    dt__c_constant(p, "};\n");
    p->flash += (size_t)pairs * sizeof(double);
}

/* longrope uses other divisors for longer texts, so earlier keys would have to be recomputed:
 * refuses contexts that long. */
static void check_divisors(dt__c_program *p, const dt_rotary_options *o)
{
    const int64_t context = dt__c_context(p);
    if (o->scaling != DT_ROPE_LONGROPE || context <= o->original_context) return;
    dt__c_fail(p, dt_fail(p->ctx, DT_ERR_UNSUPPORTED,
                          "export: longrope takes other divisors in texts of more than %lld "
                          "tokens, and the context is %lld; --context %lld is the most",
                          (long long)o->original_context, (long long)context,
                          (long long)o->original_context));
}

static void put_turn(dt__c_program *p, const dt_rotary_options *o, int64_t pairs, const char *turn)
{
    const bool plain = o->scaling != DT_ROPE_LONGROPE;
    check_divisors(p, o);
    put_frequencies(p, o, pairs);
    dt__c_want(p, plain ? "rotary_turn" : "rotary_turn_times");
    if (plain) {
        dt__c_line(p, "rotary_turn(position, f%lld, %lld, %s);", (long long)p->at, (long long)pairs,
                   turn);
    } else {
        dt__c_line(p, "rotary_turn_times(position, f%lld, %lld, %a, %s);", (long long)p->at,
                   (long long)pairs, dt__rotary_amplitude(o), turn);
    }
}

/* Sines and cosines of the token's rotation, which layers share. */
static dt__c_name turns_of(dt__c_program *p, const dt_trace_call *c, int64_t pairs)
{
    int64_t calls[2];
    dt__c_name name;
    same_turns(p, c, calls);
    if (calls[0] == p->at) {
        name = dt__c_scratch(p, c, "float", 2 * pairs, sizeof(float));
        if (p->status != DT_OK) return name;
        p->block[p->n_blocks - 1].last = DT__C_WRITES(calls[1]);
        put_turn(p, c->options, pairs, name.text);
        return name;
    }
    int64_t i = 0;
    while (p->block[i].value >= 0 || p->block[i].first != DT__C_READS(calls[0])) i++;
    snprintf(name.text, sizeof name.text, "%c%lld:0%c", DT__C_MARK, (long long)i, DT__C_END);
    return name;
}

static void emit_rotary(dt__c_program *p, const dt_trace_call *c)
{
    const dt_rotary_options *o = c->options;
    const int64_t width = dt__c_dim(p, c->in[0].value, -1);
    const int64_t pairs = (o->rotary_dim > 0 ? o->rotary_dim : width) / 2;
    const dt__c_name x = dt__c_in(p, c, 0), turn = turns_of(p, c, pairs);
    dt__c_want(p, "rotary_pairs");
    dt__c_line(p, "rotary(%s, %lld, %lld, %lld, %d, %s, %s);", x.text,
               (long long)(dt__c_count(p, c->out[0]) / dt__max_i64(1, width)), (long long)width,
               (long long)pairs, o->pairing == DT_ROTARY_INTERLEAVED ? 2 : 1, turn.text,
               dt__c_out(p, c, 0).text);
}

static bool takes_rotary(const dt_trace *t, const dt_trace_call *c, char *why, size_t size)
{
    if (value_at(t, c->in[1].value)->kind == DT_VALUE_POSITIONS) return true;
    return refuse(why, size, "its positions are not those of the tokens");
}

/* ---- attention ------------------------------------------------------------------------------- */

enum { Q, K, V, MASK, DOCUMENT };

static bool takes_attention(const dt_trace *t, const dt_trace_call *c, char *why, size_t size)
{
    const dt_attention_options *o = c->options;
    for (int i = MASK; i < c->n_in; i++) {
        if (c->in[i].value >= 0) return refuse(why, size, "it has a mask");
    }
    if (!o->causal) return refuse(why, size, "it is not causal: a token reads later ones");
    for (int i = Q; i <= V; i++) {
        const dt_trace_value *x = value_at(t, c->in[i].value);
        if (x->rank == 4 && x->extent[1].length > 0) continue;
        return refuse(why, size, "its keys are not those of the tokens so far");
    }
    return true;
}

/* Memory of the state that is kept between tokens. */
static dt__c_name kept(dt__c_program *p, const char *name, int64_t n)
{
    dt__c_name mark = { "" };
    dt__c_block b = { .type = "float",
                      .n = n,
                      .size = sizeof(float),
                      .first = 0,
                      .last = DT__C_WRITES(dt_trace_calls(p->trace)),
                      .value = -1,
                      .output = -1 };
    snprintf(b.name, sizeof b.name, "%s%lld", name, (long long)p->at);
    const int64_t i = dt__c_block_add(p, &b);
    snprintf(mark.text, sizeof mark.text, "%c%lld:0%c", DT__C_MARK, (long long)i, DT__C_END);
    return mark;
}

static void put_shape(dt__c_program *p, const dt_trace_call *c, int64_t capacity)
{
    const dt_attention_options *o = c->options;
    const int64_t heads = dt__c_dim(p, c->in[Q].value, 2), kv = dt__c_dim(p, c->in[K].value, 2);
    const int64_t width = dt__c_dim(p, c->in[Q].value, 3);
    const double scale = o->scale != 0 ? o->scale : 1 / sqrt((double)width);
    dt__c_want(p, "attention_shape");
    dt__c_constant(
        p, "static const attention_shape a%lld = { %lld, %lld, %lld, %lld, %s, %lld };\n",
        (long long)p->at, (long long)heads, (long long)kv, (long long)width, (long long)capacity,
        dt__c_float((float)scale).text, (long long)dt__min_i64(o->window, capacity));
}

static bool is_last(const dt__c_program *p, const dt_trace_call *c)
{
    for (int64_t i = p->at + 1; i < dt_trace_calls(p->trace); i++) {
        if (dt_trace_call_at(p->trace, i)->op == c->op) return false;
    }
    return true;
}

static void emit_attention(dt__c_program *p, const dt_trace_call *c)
{
    const int64_t capacity = dt__c_context(p), width = dt__c_dim(p, c->in[Q].value, 3);
    const int64_t kept_floats = dt__c_dim(p, c->in[K].value, 2) * capacity * width;
    const dt__c_name q = dt__c_in(p, c, Q), k = dt__c_in(p, c, K), v = dt__c_in(p, c, V);
    const dt__c_name keys = kept(p, "keys", kept_floats), values = kept(p, "values", kept_floats);
    const dt__c_name room = dt__c_scratch(p, c, "float", 2 * width, sizeof(float));
    put_shape(p, c, capacity);
    dt__c_want(p, "attention_keep");
    dt__c_want(p, "attention");
    dt__c_line(p, "attention_keep(%s, &a%lld, position, %s);", k.text, (long long)p->at, keys.text);
    dt__c_line(p, "attention_keep(%s, &a%lld, position, %s);", v.text, (long long)p->at,
               values.text);
    if (is_last(p, c)) {
        p->skips = true;
        dt__c_line(p, "if (y) { /* later tokens read keys and values alone */");
    }
    dt__c_line(p, "attention(&a%lld, %s, %s, %s, position + 1, %s, %s);", (long long)p->at, q.text,
               keys.text, values.text, room.text, dt__c_out(p, c, 0).text);
}

/* ---- mixtures of experts --------------------------------------------------------------------- */

static bool takes_router(const dt_trace *t, const dt_trace_call *c, char *why, size_t size)
{
    (void)t;
    if (((const dt_moe_router_options *)c->options)->capacity == 0) return true;
    return refuse(why, size, "a capacity drops tokens by what other tokens choose");
}

/* `name`, or row i of it if there are several rows of n elements. */
static expression row_of(dt__c_name name, int64_t rows, const char *i, int64_t n)
{
    expression row;
    if (rows > 1)
        snprintf(row.text, sizeof row.text, "%s + %.60s * %lld", name.text, i, (long long)n);
    else snprintf(row.text, sizeof row.text, "%s", name.text);
    return row;
}

static void open_rows(dt__c_program *p, const char *i, int64_t rows)
{
    if (rows > 1) {
        dt__c_line(p, "for (int32_t %s = 0; %s < %lld; %s++) {", i, i, (long long)rows, i);
    }
}

static void close_rows(dt__c_program *p, int64_t rows)
{
    if (rows > 1) dt__c_line(p, "}");
}

static void emit_router(dt__c_program *p, const dt_trace_call *c)
{
    const dt_moe_router_options *o = c->options;
    const int64_t n = dt__c_dim(p, c->in[0].value, -1), rows = dt__c_dim(p, c->out[0], 0);
    const dt__c_name x = dt__c_in(p, c, 0);
    dt__c_want(p, "codes_finite");
    dt__c_want(p, "moe_route");
    dt__c_line(p, "bad |= not_finite(%s, %lld);", x.text, (long long)(rows * n));
    open_rows(p, "i", rows);
    dt__c_line(p, "moe_route(%s, %lld, %lld, %d, %s, %s);", row_of(x, rows, "i", n).text,
               (long long)n, (long long)o->top_k, !o->normalize,
               row_of(dt__c_out(p, c, 0), rows, "i", o->top_k).text,
               row_of(dt__c_out(p, c, 1), rows, "i", o->top_k).text);
    close_rows(p, rows);
}

static void emit_combine(dt__c_program *p, const dt_trace_call *c)
{
    const int64_t rows = dt__c_dim(p, c->in[1].value, 0), top_k = dt__c_dim(p, c->in[1].value, 1);
    const int64_t n = dt__c_dim(p, c->out[0], -1);
    const dt__c_name parts = dt__c_in(p, c, 0), weights = dt__c_in(p, c, 1);
    dt__c_want(p, "moe_combine");
    open_rows(p, "i", rows);
    dt__c_line(p, "moe_combine(%s, %s, %lld, %lld, %s);", row_of(parts, rows, "i", top_k * n).text,
               row_of(weights, rows, "i", top_k).text, (long long)top_k, (long long)n,
               row_of(dt__c_out(p, c, 0), rows, "i", n).text);
    close_rows(p, rows);
}

/* ---- grouped linear layers ------------------------------------------------------------------- */

enum { X, WEIGHT, BIAS, OFFSETS, EXPERT };

/* Row r of x is multiplied by experts k = 0 ... each - 1. */
typedef struct grouped {
    dt__c_weight w;
    dt__c_coding k;
    dt__c_room room;
    dt__c_name x, u, y, index, ordered;
    int64_t rows, each, out;
    bool few, scatters;
} grouped;

static bool takes_grouped(const dt_trace *t, const dt_trace_call *c, char *why, size_t size)
{
    if (c->n_in <= EXPERT || c->in[EXPERT].value < 0) {
        return refuse(why, size, "its rows are sorted by expert; expected an index of experts");
    }
    if (dt_trace_count(value_at(t, c->in[EXPERT].value), 1, 1) > DT__FGEMM_ROWS) {
        return refuse(why, size, "too many rows of an example");
    }
    return dt__c_takes_weight(t, c, WEIGHT, why, size);
}

/* The product of row r with its k-th expert: the rows of the weight that belong to it. */
static void put_expert(dt__c_program *p, const grouped *g)
{
    char at[64], expert[128], first[160], order[160];
    const int64_t all = g->rows * g->each;
    const char *i = g->each == 1 ? "r" : g->rows == 1 ? "k" : at;
    snprintf(at, sizeof at, "(r * %lld + k)", (long long)g->each);
    if (all == 1) i = "0";
    snprintf(expert, sizeof expert, "(%s)[%s]", g->index.text, i);
    snprintf(first, sizeof first, "%s * %lld", expert, (long long)g->out);
    snprintf(order, sizeof order, " + %s * %lld", expert, (long long)g->w.columns);
    const expression y = row_of(g->y, all, i, g->out);
    const expression x = row_of(g->x, g->rows, "r", g->w.columns);
    if (!g->few) {
        const dt__c_row row = {
            g->w.integer ? g->u.text : x.text, first, y.text, order, g->out, 1
        };
        dt__c_put_product(p, &g->w, &g->k, &g->room, &row);
        return;
    }
    if (g->scatters) {
        dt__c_want(p, "codes_scatter_floats");
        dt__c_line(p, "scatter_floats(%s, %s%s, %lld, %s);", x.text, g->w.places.text, order,
                   (long long)g->w.columns, g->ordered.text);
    }
    dt__c_want(p, "product_floats_codes");
    dt__c_line(p, "product_floats_codes(&%s, %d, %s, %s, %lld, %s, 1);", g->w.name.text, g->w.bits,
               g->scatters ? g->ordered.text : x.text, first, (long long)g->out, y.text);
}

static void put_row(dt__c_program *p, const dt_trace_call *c, const grouped *g)
{
    const expression x = row_of(g->x, g->rows, "r", g->w.columns);
    if (g->w.integer && g->k.by_row) {
        dt__c_find_grid(p, &g->k, &c->in[X], x.text, g->w.columns);
    }
    if (g->w.integer) {
        dt__c_quantize(p, &g->k, &c->in[X], x.text, g->w.columns, g->u.text);
    }
    open_rows(p, "k", g->each);
    put_expert(p, g);
    close_rows(p, g->each);
}

static void put_grouped(dt__c_program *p, const dt_trace_call *c, const grouped *g)
{
    const bool block = g->w.integer && g->k.dynamic;
    if (block) dt__c_line(p, "{");
    if (block) dt__c_declare_grid(p, &g->k);
    if (g->w.integer && !g->k.by_row) {
        dt__c_find_grid(p, &g->k, &c->in[X], g->x.text, g->rows * g->w.columns);
    }
    open_rows(p, "r", g->rows);
    put_row(p, c, g);
    close_rows(p, g->rows);
    if (block) dt__c_line(p, "}");
}

static void emit_grouped(dt__c_program *p, const dt_trace_call *c)
{
    grouped g = { .y = dt__c_out(p, c, 0), .out = dt__c_dim(p, c->in[WEIGHT].value, 1) };
    const dt_trace_operand *x = &c->in[X];
    if (!dt__c_weight_of(p, c, &(dt__c_weight_operand){ WEIGHT, BIAS, 0 }, &g.w)) return;
    g.w.columns = dt__c_dim(p, c->in[WEIGHT].value, 2);
    g.rows = dt__c_count(p, x->value) / dt__max_i64(1, g.w.columns);
    g.each = dt__c_count(p, c->in[EXPERT].value) / dt__max_i64(1, g.rows);
    g.x = g.w.integer ? dt__c_value(p, x->value) : dt__c_in(p, c, X);
    g.index = dt__c_value(p, c->in[EXPERT].value);
    g.few = g.w.coded && dt__c_reads_values(x) && strcmp(g.w.zeros.text, "0") == 0;
    g.scatters = g.few && strcmp(g.w.places.text, "0") != 0;
    if (g.w.integer) {
        p->integer_products++;
        g.k = dt__c_coding_of(p, c, x);
        g.u = dt__c_codes_room(p, c, &g.k, g.w.columns);
    } else {
        p->float_products++;
    }
    if (g.scatters) g.ordered = dt__c_scratch(p, c, "float", g.w.columns, sizeof(float));
    g.room = dt__c_product_room(p, c, &g.w);
    put_grouped(p, c, &g);
}

const dt__c_emitter dt__c_emit_language[] = {
    { "embedding", NULL, takes_embedding, emit_embedding },
    { "rotary", NULL, takes_rotary, emit_rotary },
    { "attention", NULL, takes_attention, emit_attention },
    { "moe_router", NULL, takes_router, emit_router },
    { "moe_combine", NULL, NULL, emit_combine },
    { "grouped_linear", NULL, takes_grouped, emit_grouped },
    { 0 },
};
