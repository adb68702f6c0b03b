/* The strided copy, of elements of any size. */
#include "kernels/kernels.h"

#include <string.h>

dt__copy dt__copy_merged(const dt__copy *c)
{
    dt__copy out = { .rank = 0, .x = c->x, .y = c->y };
    for (int d = 0; d < c->rank; d++) {
        if (c->dims[d] == 1) continue;
        const int last = out.rank - 1;
        if (last >= 0 && out.x_strides[last] == c->x_strides[d] * c->dims[d] &&
            out.y_strides[last] == c->y_strides[d] * c->dims[d]) {
            out.dims[last] *= c->dims[d];
            out.x_strides[last] = c->x_strides[d];
            out.y_strides[last] = c->y_strides[d];
            continue;
        }
        out.dims[out.rank] = c->dims[d];
        out.x_strides[out.rank] = c->x_strides[d];
        out.y_strides[out.rank] = c->y_strides[d];
        out.rank++;
    }
    return out;
}

/* Copies by memcpy of a constant size, since the elements' type is unknown here. */
#define COPY_LINE(bytes)                                                                           \
    for (int64_t i = 0; i < l->n; i++) {                                                           \
        memcpy(y + i * l->y_stride * (bytes), x + i * l->x_stride * (bytes), bytes);               \
    }

typedef struct line {
    int64_t n, x_stride, y_stride;
    size_t element;
} line;

static void copy_line(const line *l, const char *x, char *y)
{
    if (l->x_stride == 1 && l->y_stride == 1) {
        memcpy(y, x, (size_t)l->n * l->element);
    } else if (l->element == 8) {
        COPY_LINE(8)
    } else if (l->element == 4) {
        COPY_LINE(4)
    } else if (l->element == 2) {
        COPY_LINE(2)
    } else {
        COPY_LINE(1)
    }
}

DT__EACH(copy_bytes, i, size_t element; int outer; const dt__copy *c; const line *l;)
{
    int64_t rest = i, from = 0, to = 0;
    for (int d = a.outer - 1; d >= 0; d--) {
        const int64_t index = rest % a.c->dims[d];
        rest /= a.c->dims[d];
        from += index * a.c->x_strides[d];
        to += index * a.c->y_strides[d];
    }
    const int64_t bytes = (int64_t)a.element;
    copy_line(a.l, (const char *)a.c->x + from * bytes, (char *)a.c->y + to * bytes);
}

void dt__copy_bytes(const dt__copy *copy, size_t element)
{
    for (int d = 0; d < copy->rank; d++) {
        if (copy->dims[d] == 0) return;
    }
    const dt__copy c = dt__copy_merged(copy);
    const int outer = c.rank > 0 ? c.rank - 1 : 0;
    const line l = { c.rank > 0 ? c.dims[outer] : 1, c.rank > 0 ? c.x_strides[outer] : 1,
                     c.rank > 0 ? c.y_strides[outer] : 1, element };
    int64_t lines = 1;
    for (int d = 0; d < outer; d++) lines *= c.dims[d];
    dt__parallel(lines, l.n, copy_bytes_share, &(copy_bytes_args){ element, outer, &c, &l });
}
