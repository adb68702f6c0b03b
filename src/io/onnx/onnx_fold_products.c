/* Products of constant matrices, such as those of a first state that is 0:
 *     MatMul  y = a b      Gemm  y = alpha a' b' + beta c, where a' and b' may be transposed */
#include "io/onnx/onnx.h"

#define MOST_PRODUCTS ((int64_t)1 << 26)

/* A constant of two dimensions, perhaps transposed. */
typedef struct matrix {
    const float *data;
    int64_t rows, columns, down, across; /* extents, and distances along them */
} matrix;

static dt_status read_matrix(dt__onnx *g, int i, bool turned, matrix *m)
{
    const dt__onnx_value *v = dt__onnx_in(g, i);
    if (v->rank != 2) return dt__onnx_refuse(g, "its constants must have 2 dimensions");
    DT__TRY(dt__onnx_floats_of(g, v, "a matrix", &m->data));
    m->rows = v->dims[turned ? 1 : 0];
    m->columns = v->dims[turned ? 0 : 1];
    m->down = turned ? 1 : v->dims[1];
    m->across = turned ? v->dims[1] : 1;
    return DT_OK;
}

/* *y = factor a b */
static dt_status product(dt__onnx *g, const matrix *a, const matrix *b, double factor, float **y)
{
    const int64_t dims[] = { a->rows, b->columns };
    int64_t count;
    if (a->columns != b->rows) return dt__onnx_refuse(g, "its matrices do not fit together");
    if (!dt__product(3, (const int64_t[]){ a->rows, b->columns, b->rows }, &count) ||
        count > MOST_PRODUCTS) {
        return dt__onnx_refuse(g, "its constants have more than %lld products",
                               (long long)MOST_PRODUCTS);
    }
    DT__TRY(dt__onnx_constant(g, dt__onnx_out(g, 0), 2, dims, y, NULL));
    for (int64_t i = 0; i < a->rows; i++) {
        for (int64_t k = 0; k < b->columns; k++) {
            double sum = 0;
            for (int64_t j = 0; j < b->rows; j++) {
                sum += (double)a->data[i * a->down + j * a->across] *
                       (double)b->data[j * b->down + k * b->across];
            }
            (*y)[i * b->columns + k] = (float)(factor * sum);
        }
    }
    return DT_OK;
}

dt_status dt__onnx_fold_matmul(dt__onnx *g)
{
    matrix a, b;
    float *y;
    DT__TRY(read_matrix(g, 0, false, &a));
    DT__TRY(read_matrix(g, 1, false, &b));
    return product(g, &a, &b, 1, &y);
}

dt_status dt__onnx_fold_gemm(dt__onnx *g)
{
    const dt__onnx_value *c = dt__onnx_in(g, 2);
    const double beta = dt__onnx_real(g, "beta", 1);
    const float *data = NULL;
    matrix a, b;
    float *y;
    DT__TRY(read_matrix(g, 0, dt__onnx_int(g, "transA", 0) != 0, &a));
    DT__TRY(read_matrix(g, 1, dt__onnx_int(g, "transB", 0) != 0, &b));
    if (c != NULL) DT__TRY(dt__onnx_floats_of(g, c, "the addend", &data));
    const int64_t rows = c == NULL || c->rank < 2 ? 1 : c->dims[c->rank - 2];
    const int64_t columns = c == NULL || c->rank < 1 ? 1 : c->dims[c->rank - 1];
    if (c != NULL &&
        (c->rank > 2 || (rows != 1 && rows != a.rows) || (columns != 1 && columns != b.columns))) {
        return dt__onnx_refuse(g, "its addend does not fit the product");
    }
    DT__TRY(product(g, &a, &b, dt__onnx_real(g, "alpha", 1), &y));
    for (int64_t i = 0; c != NULL && i < a.rows * b.columns; i++) {
        const int64_t row = i / b.columns, column = i % b.columns;
        const int64_t at = (rows == 1 ? 0 : row * columns) + (columns == 1 ? 0 : column);
        y[i] = (float)((double)y[i] + beta * (double)data[at]);
    }
    return DT_OK;
}
