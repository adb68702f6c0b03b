/* BATCH_MATMUL of TFLite, of floats. Extents in front of the matrices broadcast. */
#include "io/tflite/lite.h"

/* Which matrix of x belongs to matrix `image` of the result. */
static int64_t matrix_of(const dt__vlite_tensor *x, const int64_t *dims, int64_t image)
{
    int64_t at = 0, step = 1;
    for (int d = x->rank - 3; d >= 0; d--) {
        at += x->dims[d] == 1 ? 0 : image % dims[d] * step;
        step *= x->dims[d];
        image /= dims[d];
    }
    return at;
}

static dt_status check(dt__vlite_call *c, int64_t dims[DT__VLITE_RANK])
{
    const dt__vlite_tensor *a = c->in[0], *b = c->in[1], *y = c->y;
    if (a->rank < 2 || a->rank != b->rank || a->rank != y->rank || c->op->option[0] != 0 ||
        c->op->option[1] != 0) {
        return dt__vlite_refuse(c, "its operands are not matrices of the same rank");
    }
    const int r = a->rank;
    bool fit = b->dims[r - 2] == a->dims[r - 1];
    for (int d = 0; d < r - 2; d++) {
        dims[d] = a->dims[d] == 1 ? b->dims[d] : a->dims[d];
        fit = fit && (b->dims[d] == dims[d] || b->dims[d] == 1);
    }
    dims[r - 2] = a->dims[r - 2];
    dims[r - 1] = b->dims[r - 1];
    return fit ? dt__vlite_wants(c, r, dims) : dt__vlite_refuse(c, "its operands do not fit");
}

dt_status dt__vlite_matmul(dt__vlite_call *c)
{
    const dt__vlite_tensor *a = c->in[0], *b = c->in[1], *y = c->y;
    int64_t dims[DT__VLITE_RANK];
    DT__TRY(dt__vlite_floats(c));
    DT__TRY(check(c, dims));
    const int64_t m = dims[a->rank - 2], k = a->dims[a->rank - 1], n = dims[a->rank - 1];
    DT__TRY(dt__vlite_work(c, (double)y->count * (double)k));
    for (int64_t i = 0; i < y->count; i++) {
        const int64_t image = i / (m * n), row = i / n % m, column = i % n;
        const int64_t from = matrix_of(a, dims, image), other = matrix_of(b, dims, image);
        double sum = 0;
        for (int64_t j = 0; j < k; j++) {
            sum +=
                (double)a->f[(from * m + row) * k + j] * (double)b->f[(other * k + j) * n + column];
        }
        y->f[i] = (float)sum;
        dt__vlite_did(c, (double)k);
    }
    return DT_OK;
}
