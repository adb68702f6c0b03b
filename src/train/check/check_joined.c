/* Checks that a model can read joined arrays, and sorts these by the names of its inputs and
 * outputs. */
#include "core/tensor.h"
#include "data/joined.h"
#include "train/run/run.h"

#include <stdio.h>
#include <string.h>

/* The first extent is the number of classes, which may exceed the labels'. */
static bool fits_output(const dt_example *e, const dt_dataset *d)
{
    const int64_t wanted = dt_dataset_outputs(d);
    return e->rank == 1 && (dt__has_label(d) ? e->dims[0] >= wanted : e->dims[0] == wanted);
}

static bool fits_input(const dt_example *e, const dt__array_store *s)
{
    return e->rank == s->rank && memcmp(e->dims, s->dims, (size_t)s->rank * sizeof *s->dims) == 0;
}

static dt_status refuse_shape(const dt_dataset *d, const char *side, const char *name,
                              const dt_example *model, const char *data)
{
    char text[160];
    return dt_fail(d->ctx, DT_ERR_FORMAT, "%s '%s' of the model is %s, the data's %s", side, name,
                   dt__dims_text(model->rank, model->dims, text, sizeof text), data);
}

static dt_status check_shapes(const dt_dataset *d, const dt_model_sides *m)
{
    const dt__joined *j = d->joined;
    for (int i = 0; i < j->n_inputs; i++) {
        const dt__array_store *s = j->input[i].data.arrays;
        char text[160];
        if (fits_input(&m->in[i], s)) continue;
        return refuse_shape(d, "input", j->input[i].name, &m->in[i],
                            dt__dims_text(s->rank, s->dims, text, sizeof text));
    }
    for (int i = 0; i < j->n_outputs; i++) {
        const dt_dataset *out = &j->output[i].data;
        char text[80];
        if (fits_output(&m->out[i], out)) continue;
        snprintf(text, sizeof text, "[%lld]%s", (long long)dt_dataset_outputs(out),
                 dt__has_label(out) ? ", its number of classes" : "");
        return refuse_shape(d, "output", j->output[i].name, &m->out[i], text);
    }
    return DT_OK;
}

dt_status dt__check_joined(const dt_family *family, const void *options, const dt_dataset *d)
{
    dt_model_sides m = { .n_in = 1, .n_out = 1 };
    dt__joined *j = d->joined;
    const char *missing;
    const int n_in = j == NULL ? 1 : j->n_inputs, n_out = j == NULL ? 1 : j->n_outputs;
    if (family->sides != NULL) DT__TRY(family->sides(d->ctx, options, &m));
    if (m.n_in != n_in || m.n_out != n_out) {
        return dt_fail(d->ctx, DT_ERR_FORMAT,
                       "the model has %d input%s and %d output%s, the data %d and %d; data.inputs "
                       "and data.outputs name those of the model",
                       m.n_in, m.n_in > 1 ? "s" : "", m.n_out, m.n_out > 1 ? "s" : "", n_in, n_out);
    }
    if (j == NULL || family->sides == NULL) return DT_OK;
    const dt__joined_order order = { m.n_in, m.n_out, m.in_name, m.out_name };
    if (!dt__joined_arrange(j, &order, &missing)) {
        return dt_fail(d->ctx, DT_ERR_FORMAT,
                       "the model has '%s', but no input or output of the data has this name",
                       missing);
    }
    return check_shapes(d, &m);
}
