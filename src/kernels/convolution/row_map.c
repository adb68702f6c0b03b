/* Gathers a mapped weight into rows of outputs, and scatters rows back (row_map.h has the map). */
#include "kernels/convolution/row_map.h"

#include <string.h>

bool dt__row_map_of(int64_t groups, int rank, const int64_t *dims, dt__row_map *out)
{
    int64_t kernel, count;
    *out = (dt__row_map){ .groups = 0 };
    if (groups == 0) return true;
    if (groups < 0 || rank < 2 || dims[0] % groups != 0) return false;
    if (!dt__product(rank, dims, &count) || !dt__product(rank - 2, dims + 2, &kernel)) return false;
    if (dims[1] > 0 && groups > INT64_MAX / dims[1]) return false;
    *out = (dt__row_map){ groups, dims[0] / groups, dims[1], kernel, 0 };
    return true;
}

/* Offset in the rows of the n-th kernel of the weight. */
static int64_t place(const dt__row_map *m, int64_t n)
{
    const int64_t o = n % m->out, channel = n / m->out;
    const int64_t g = channel / m->in, i = channel % m->in;
    return ((g * m->out + o) * m->in + i) * m->kernel;
}

static int64_t kernels_of(const dt__row_map *m)
{
    return m->kernel == 0 ? 0 : m->groups * m->in * m->out;
}

void dt__rows_gather(const dt__row_map *m, const float *w, float *rows)
{
    const int64_t kernels = kernels_of(m);
    for (int64_t n = 0; n < kernels; n++) {
        memcpy(rows + place(m, n), w + n * m->kernel, (size_t)m->kernel * sizeof *w);
    }
}

void dt__rows_scatter(const dt__row_map *m, const float *rows, float *w)
{
    const int64_t kernels = kernels_of(m);
    for (int64_t n = 0; n < kernels; n++) {
        memcpy(w + n * m->kernel, rows + place(m, n), (size_t)m->kernel * sizeof *w);
    }
}
