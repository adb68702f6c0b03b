/* Selection of rows by computed indices (GATHER). Keras wraps negative indices by `i < 0 ? i + n :
 * i` (LESS, ADD, SELECT_V2); layer embedding reads i itself, and refuses negative ones when the
 * model runs. */
#include "io/tflite/lite_forms.h"

static const dt__vlite_op *maker(const dt__vlite *v, int tensor, int code)
{
    for (int64_t k = 0; k < v->ops; k++) {
        const dt__vlite_op *o = &v->op[k];
        if (o->n_out == 1 && o->out[0] == tensor && o->code == code) return o;
    }
    return NULL;
}

/* Whether a tensor is the constant integer n. */
static bool is_number(const dt__vlite *v, int tensor, int64_t n)
{
    const dt__vlite_tensor *t = tensor < 0 ? NULL : &v->tensor[tensor];
    return t != NULL && t->constant && t->type == DT__VLITE_I32 && t->count == 1 && t->q[0] == n;
}

/* The tensor i of `i < 0 ? i + n : i`, where n is the number of rows; -1: another expression. */
static int wrapped(const dt__vlite *v, int tensor, int64_t n)
{
    const dt__vlite_op *o = maker(v, tensor, DT__VLITE_SELECT_V2);
    const dt__vlite_op *below = o == NULL ? NULL : maker(v, o->in[0], DT__VLITE_LESS);
    const dt__vlite_op *sum = o == NULL ? NULL : maker(v, o->in[1], DT__VLITE_ADD);
    if (below == NULL || sum == NULL || below->in[0] != o->in[2]) return -1;
    const bool first = sum->in[0] == o->in[2] && is_number(v, sum->in[1], n);
    const bool second = sum->in[1] == o->in[2] && is_number(v, sum->in[0], n);
    return is_number(v, below->in[1], 0) && (first || second) ? o->in[2] : -1;
}

/* The number of rows of the constant in a GATHER; 0: another operator, or another axis. */
static int64_t rows_of(const dt__vlite *v, const dt__vlite_op *o)
{
    if (o->code != DT__VLITE_GATHER || o->n_in != 2 || o->in[0] < 0) return 0;
    const dt__vlite_tensor *table = &v->tensor[o->in[0]];
    return table->constant && table->rank == 2 && o->option[0] == 0 ? table->dims[0] : 0;
}

int dt__lite_index_of(const dt__lite_nodes *b)
{
    const int64_t n = rows_of(b->v, b->op);
    const int plain = n > 0 ? wrapped(b->v, b->op->in[1], n) : -1;
    return plain >= 0 ? plain : b->op->in[1];
}

/* Whether an operator reads or computes a part of this expression for a GATHER. */
bool dt__lite_wraps(const dt__lite_nodes *b)
{
    const int made = b->op->n_out == 1 ? b->op->out[0] : -1;
    for (int64_t k = 0; k < b->v->ops; k++) {
        const dt__vlite_op *o = &b->v->op[k];
        const int64_t n = rows_of(b->v, o);
        if (n == 0 || wrapped(b->v, o->in[1], n) < 0) continue;
        const dt__vlite_op *choice = maker(b->v, o->in[1], DT__VLITE_SELECT_V2);
        if (made == o->in[1] || made == choice->in[0] || made == choice->in[1]) return true;
    }
    return false;
}
