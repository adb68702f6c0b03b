/* Einsum of one operand, or of two as a product of matrices:
 *
 *     batch letters    in both operands and the result
 *     k                in both operands, not in the result
 *     m, n             in the first, in the second operand and the result
 *     others           are summed before the product
 *
 *     y[batch, m, n] = sum over k of a[batch, m, k] b[batch, k, n]
 *
 * A constant operand has no batch letters: it is the weight of a layer linear. */
#include "core/block_list.h"
#include "core/text/ending.h"
#include "io/onnx/onnx.h"

#include <string.h>

#define LETTERS 128

/* An operand, later the product: its letters and their extents; 0: the batch. */
typedef struct term {
    char letter[DT_MAX_RANK];
    int64_t extent[DT_MAX_RANK];
    int rank;
    dt__onnx_layer *l; /* layer with these dimensions, the batch first; NULL: constant `c` */
    const dt__onnx_value *c;
} term;

typedef struct equation {
    const char *operand[2]; /* "bij" */
    char result[DT_MAX_RANK + 1];
    int operands;
} equation;

static int place_in(const char *letters, int n, char letter)
{
    for (int i = 0; i < n; i++) {
        if (letters[i] == letter) return i;
    }
    return -1;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The result if the equation has none: letters that occur once in all operands, in alphabetical
 * order. */
static bool implied_result(const char *text, char *result)
{
    int n = 0;
    for (char c = 'A'; c <= 'z'; c++) {
        const char *first = dt__is_letter(c) ? strchr(text, c) : NULL;
        if (first == NULL || strchr(first + 1, c) != NULL) continue;
        if (n == DT_MAX_RANK) return false;
        result[n++] = c;
    }
    return true;
}

/* Splits an equation without blanks into operands and result; false: unsupported. */
static bool split(char *text, equation *e)
{
    char *arrow = strstr(text, "->");
    const char *result = arrow == NULL ? "" : arrow + 2;
    if (arrow != NULL) *arrow = 0;
    if (strlen(result) > DT_MAX_RANK) return false;
    strcpy(e->result, result);
    if (arrow == NULL && !implied_result(text, e->result)) return false;
    for (char *at = text; at != NULL && e->operands < 2; e->operands++) {
        e->operand[e->operands] = at;
        at = strchr(at, ',');
        if (at != NULL) *at++ = 0;
        if (at != NULL && e->operands == 1) return false;
    }
    for (int i = 0; i <= e->operands; i++) {
        const char *of = i < e->operands ? e->operand[i] : e->result;
        for (const char *c = of; *c != 0; c++) {
            if (!dt__is_letter(*c) || strchr(c + 1, *c) != NULL) return false;
        }
    }
    return true;
}

static dt_status read_equation(dt__onnx *g, equation *e)
{
    const DtOnnx__Attribute *a = dt__onnx_attribute_of(g->node, "equation");
    const size_t length = a == NULL ? 0 : a->s.len;
    char *text = dt__onnx_memory(g, (int64_t)length + 1, 1);
    if (text == NULL) return DT_ERR_NOMEM;
    for (size_t i = 0, n = 0; i < length; i++) {
        if (a->s.data[i] != ' ') text[n++] = (char)a->s.data[i];
    }
    *e = (equation){ .operands = 0 };
    const char *whole = dt__block_list_text(g->ctx, g->arena, "%s", text);
    if (whole == NULL) return DT_ERR_NOMEM;
    if (split(text, e) && (size_t)e->operands == g->node->n_input) return DT_OK;
    return dt__onnx_refuse(g,
                           "its equation is '%.60s'; expected one or two operands of letters, each "
                           "letter once in an operand",
                           whole);
}

static dt_status read_term(dt__onnx *g, const equation *e, int i, term *t)
{
    const dt__onnx_value *v = dt__onnx_in(g, i);
    *t = (term){ .rank = (int)strlen(e->operand[i]), .c = v };
    if (t->rank != v->rank) {
        return dt__onnx_refuse(g,
                               "its operand '%s' has %d dimensions; expected one for each letter",
                               e->operand[i], v->rank);
    }
    memcpy(t->letter, e->operand[i], (size_t)t->rank);
    if (v->kind == DT__ONNX_COMPUTED) DT__TRY(dt__onnx_plain(g, v, &t->l));
    for (int k = 0; k < t->rank; k++) {
        t->extent[k] = t->l == NULL ? v->dims[k] : k == 0 ? 0 : t->l->shape.dims[k - 1];
    }
    return DT_OK;
}

/* ---- terms ----------------------------------------------------------------------------------- */

/* Permutes the dimensions to the order `letters`, which has all of them. */
static dt_status arrange(dt__onnx *g, term *t, const char *letters)
{
    const term old = *t;
    int order[DT_MAX_RANK];
    for (int i = 0; i < t->rank; i++) {
        order[i] = place_in(old.letter, old.rank, letters[i]);
        t->letter[i] = letters[i];
        t->extent[i] = old.extent[order[i]];
    }
    if (t->l != NULL) return dt__onnx_permuted(g, t->l, order, &t->l);
    dt__onnx_value *turned = dt__onnx_memory(g, 1, sizeof *turned);
    if (turned == NULL) return DT_ERR_NOMEM;
    DT__TRY(dt__onnx_transposed(g, t->c, order, turned));
    t->c = turned;
    return DT_OK;
}

/* Sums over the letters that are neither in the result nor in the other term. */
static dt_status sum_rest(dt__onnx *g, term *t, const char *result, const term *other)
{
    dt__onnx_layer *l;
    term left = { .c = t->c };
    dt_ints over = { .n = 0 };
    for (int i = 0; i < t->rank; i++) {
        const bool used =
            strchr(result, t->letter[i]) != NULL ||
            (other != NULL && place_in(other->letter, other->rank, t->letter[i]) >= 0);
        if (!used) over.v[over.n++] = i;
        else left.letter[left.rank] = t->letter[i], left.extent[left.rank++] = t->extent[i];
    }
    if (over.n == 0) return DT_OK;
    if (t->l == NULL || over.v[0] == 0) {
        return dt__onnx_refuse(g, "it sums over the batch dimension, or in a constant");
    }
    DT__TRY(dt__onnx_new(g, "sum", &l));
    ((dt_reduce_layer *)l->options)->reduce.dims = over;
    DT__TRY(dt__onnx_add_on(g, l, t->l));
    left.l = l;
    *t = left;
    return DT_OK;
}

/* ---- two operands ---------------------------------------------------------------------------- */

/* Letters by their role in a product. */
typedef struct parts {
    char batch[DT_MAX_RANK + 1], m[DT_MAX_RANK + 1], k[DT_MAX_RANK + 1], n[DT_MAX_RANK + 1];
} parts;

static void append(char *to, char c)
{
    const size_t n = strlen(to);
    to[n] = c;
    to[n + 1] = 0;
}

static dt_status find_parts(dt__onnx *g, const term *a, const term *b, const char *result, parts *p)
{
    memset(p, 0, sizeof *p);
    for (int i = 0; i < a->rank; i++) {
        const char c = a->letter[i];
        const int at = place_in(b->letter, b->rank, c);
        if (at >= 0 && a->extent[i] != b->extent[at]) {
            return dt__onnx_refuse(g, "its letter '%c' has two extents; expected one", c);
        }
        const bool stays = strchr(result, c) != NULL;
        append(at < 0 ? p->m : stays ? p->batch : p->k, c);
    }
    for (int i = 0; i < b->rank; i++) {
        if (place_in(a->letter, a->rank, b->letter[i]) < 0) append(p->n, b->letter[i]);
    }
    if (b->l != NULL ? place_in(p->batch, (int)strlen(p->batch), a->letter[0]) >= 0
                     : *p->batch == 0) {
        return DT_OK;
    }
    return dt__onnx_refuse(g, b->l != NULL ? "it mixes the examples of a batch"
                                           : "its constant has letters of the batch");
}

/* The product of the extents of letters. */
static int64_t extent_of(const term *t, const char *letters)
{
    int64_t n = 1;
    for (; *letters != 0; letters++) n *= t->extent[place_in(t->letter, t->rank, *letters)];
    return n;
}

/* Reshapes t to [batch, rows, columns], with all `rows` letters in one dimension, and all `columns`
 * letters in one. */
static dt_status as_matrix(dt__onnx *g, term *t, const char *batch, const char *rows,
                           const char *columns)
{
    char all[3 * DT_MAX_RANK + 3] = "";
    dt_shape shape = { .rank = 0 };
    strcat(strcat(strcat(all, batch), rows), columns);
    DT__TRY(arrange(g, t, all));
    for (int i = 1; batch[i] != 0; i++) shape.dims[shape.rank++] = t->extent[i];
    if (shape.rank + 3 > DT_MAX_RANK) return dt__onnx_refuse(g, "it has too many letters");
    shape.dims[shape.rank++] = extent_of(t, rows);
    shape.dims[shape.rank++] = extent_of(t, columns);
    return dt__onnx_reshaped(g, t->l, &shape, &t->l);
}

/* Multiplies a [m, k] by a linear layer with weight b [n, k]. */
static dt_status times_constant(dt__onnx *g, term *a, term *b, const parts *p)
{
    char all[2 * DT_MAX_RANK + 2] = "";
    dt_shape shape = { .rank = 0 };
    strcat(strcat(all, p->m), p->k);
    DT__TRY(arrange(g, a, all));
    for (int i = 1; p->m[i] != 0; i++) shape.dims[shape.rank++] = a->extent[i];
    shape.dims[shape.rank++] = extent_of(a, p->k);
    DT__TRY(dt__onnx_reshaped(g, a->l, &shape, &a->l));
    *all = 0;
    strcat(strcat(all, p->n), p->k);
    DT__TRY(arrange(g, b, all));
    DT__TRY(dt__onnx_new(g, "linear", &b->l));
    dt_linear_layer *o = b->l->options;
    o->out = extent_of(b, p->n);
    o->has_bias = true;
    o->bias = false;
    DT__TRY(dt__onnx_weigh(g, b->l, "weight", b->c));
    dt__onnx_read_from(b->l, a->l);
    return dt__onnx_add(g, b->l);
}

static dt_status multiply(dt__onnx *g, term *a, term *b, const char *result, term *y)
{
    parts p;
    DT__TRY(sum_rest(g, a, result, b));
    DT__TRY(sum_rest(g, b, result, a));
    DT__TRY(find_parts(g, a, b, result, &p));
    if (b->l == NULL && place_in(p.m, (int)strlen(p.m), a->letter[0]) < 0) {
        return dt__onnx_refuse(g, "it sums over the batch dimension; expected others");
    }
    dt__onnx_layer *l;
    if (b->l == NULL) {
        DT__TRY(times_constant(g, a, b, &p));
        l = b->l;
    } else {
        DT__TRY(as_matrix(g, a, p.batch, p.m, p.k));
        DT__TRY(as_matrix(g, b, p.batch, p.k, p.n));
        DT__TRY(dt__onnx_new(g, "matmul", &l));
        dt__onnx_read_from(l, a->l);
        DT__TRY(dt__onnx_add_on(g, l, b->l));
    }
    *y = (term){ .l = l };
    dt_shape shape = { .rank = 0 };
    const char *const order[] = { p.batch, p.m, p.n };
    for (int i = 0; i < 3; i++) {
        for (const char *c = order[i]; *c != 0; c++) {
            const term *of = i < 2 ? a : b;
            if (y->rank == DT_MAX_RANK) return dt__onnx_refuse(g, "it has too many letters");
            y->extent[y->rank] = of->extent[place_in(of->letter, of->rank, *c)];
            if (y->rank > 0) shape.dims[shape.rank++] = y->extent[y->rank];
            y->letter[y->rank++] = *c;
        }
    }
    return dt__onnx_reshaped(g, l, &shape, &y->l);
}

dt_status dt__onnx_einsum(dt__onnx *g)
{
    equation e;
    term t[2], y;
    DT__TRY(read_equation(g, &e));
    if (g->front > 0)
        return dt__onnx_refuse(
            g, "the file is read without a batch (--batch none); expected one with a batch");
    for (int i = 0; i < e.operands; i++) DT__TRY(read_term(g, &e, i, &t[i]));
    if (e.operands == 1) {
        y = t[0];
        DT__TRY(sum_rest(g, &y, e.result, NULL));
    } else {
        const int first = t[0].l == NULL; /* 1: operand 0 is the constant */
        DT__TRY(multiply(g, &t[first], &t[1 - first], e.result, &y));
    }
    if ((size_t)y.rank != strlen(e.result))
        return dt__onnx_refuse(g, "its result has letters that no operand has");
    dt__onnx_result(g, 0, y.l);
    dt__onnx_value *out = dt__onnx_out(g, 0);
    for (int i = 0; i < y.rank; i++) {
        out->axis[i] = place_in(y.letter, y.rank, e.result[i]);
        if (out->axis[i] < 0)
            return dt__onnx_refuse(g, "its result has letters that no operand has");
        if (out->axis[i] != i) out->plain = -1;
    }
    return DT_OK;
}
