/* Figures of the layers of a prepared model (dt_figures), of the first training examples without
 * augmentation: lines of metrics.jsonl during QAT, and two files that the report shows:
 *     layers-begin.json  after the first update of QAT
 *     layers-end.json    before the model is converted
 * A model with values that are not finite has no figures; what becomes of it is train.nonfinite's
 * business. */
#include "core/tensor.h"
#include "train/run.h"

#include <detent/figures.h>
#include <math.h>

#define EXAMPLES 32
#define TOKENS 1024 /* in a batch */

/* ---- figures as JSON ------------------------------------------------------------------------ */

typedef struct writing {
    dt__run *r;
    dt__chars *t;
    bool first;
    bool whole; /* settings and counts, too */
} writing;

/* Five digits behind the point are enough for people. */
static void put_rounded(dt__chars *t, const char *name, double value)
{
    dt__put_text(t, ", \"");
    dt__put_text(t, name);
    dt__put_text(t, "\": ");
    if (isfinite(value)) dt__put_real(t, round(value * 1e5) / 1e5);
    else dt__put_text(t, "null");
}

static void put_counts(dt__chars *t, const char *name, const int64_t *count, int64_t n)
{
    dt__put_text(t, ", \"");
    dt__put_text(t, name);
    dt__put_text(t, "\": [");
    for (int64_t i = 0; i < n; i++) {
        if (i > 0) dt__put_text(t, ",");
        dt__put_integer(t, count[i]);
    }
    dt__put_text(t, "]");
}

static void put_whole(dt__chars *t, const dt_quant_figures *f, const char *scheme)
{
    dt__put_text(t, ", \"scheme\": ");
    dt__put_quoted(t, scheme);
    dt__put_text(t, ", \"elements\": ");
    dt__put_integer(t, f->elements);
    dt__put_text(t, ", \"bound\": ");
    dt__put_real(t, f->bound);
    put_counts(t, "codes", f->code, f->codes);
    put_counts(t, "bins", f->bin, DT_FIGURE_BINS);
}

static void put_tensor(const writing *w, const char *name, const dt_quant_figures *f,
                       const dt_quant_spec *quant, const char *scheme)
{
    dt__chars *t = w->t;
    if (!f->given) return;
    dt__put_text(t, ", \"");
    dt__put_text(t, name);
    dt__put_text(t, "\": {\"bits\": ");
    dt__put_integer(t, quant->bits);
    if (f->compared) put_rounded(t, "snr", f->snr);
    if (f->compared) put_rounded(t, "clipped", f->clipped);
    put_rounded(t, "dead", f->dead);
    if (isfinite(f->least_scale) && isfinite(f->most_scale)) {
        dt__put_text(t, ", \"scales\": [");
        dt__put_real(t, f->least_scale);
        dt__put_text(t, ", ");
        dt__put_real(t, f->most_scale);
        dt__put_text(t, "]");
    }
    if (w->whole) put_whole(t, f, scheme);
    dt__put_text(t, "}");
}

static void put_layer(void *user, const dt_layer_figures *layer)
{
    writing *w = user;
    dt__put_text(w->t, w->first ? "" : w->whole ? ",\n  " : ", ");
    w->first = false;
    dt__put_text(w->t, "{\"path\": ");
    dt__put_quoted(w->t, layer->path);
    if (w->whole) {
        dt__put_text(w->t, ", \"type\": ");
        dt__put_quoted(w->t, layer->type);
        dt__put_text(w->t, ", \"bytes\": ");
        dt__put_integer(w->t, dt__bytes_below(w->r->model, layer->path, true));
        dt__put_text(w->t, ", \"float_bytes\": ");
        dt__put_integer(w->t, dt__bytes_below(w->r->model, layer->path, false));
    }
    put_tensor(w, "weight", &layer->weight, &layer->weight_quant, layer->weight_scheme);
    put_tensor(w, "input", &layer->input, &layer->input_quant, layer->input_scheme);
    dt__put_text(w->t, "}");
}

/* ---- the batch ------------------------------------------------------------------------------ */

static int64_t batch_size(const dt_dataset *d)
{
    const int64_t context = dt_dataset_context(d), all = dt_dataset_count(d);
    const int64_t most = context > 0 ? dt__max_i64(1, TOKENS / context) : EXAMPLES;
    return dt__min_i64(dt__min_i64(most, EXAMPLES), dt__max_i64(all, 1));
}

static dt_status put_layers(writing *w, int64_t *examples)
{
    dt_loader *loader;
    dt_tensor *x, *target;
    *examples = batch_size(w->r->train);
    const dt_loader_options batches = { .batch_size = *examples };
    dt_tape_reset(w->r->tape);
    DT__TRY(dt_loader_create(w->r->train, &batches, &loader));
    dt_status s = dt_loader_next(loader, &x, &target);
    if (s == DT_OK) s = dt_figures(w->r->model, x, put_layer, w);
    dt_loader_free(loader);
    return s;
}

/* ---- a line, a file ------------------------------------------------------------------------- */

static dt_status write_line(dt__run *r)
{
    dt__chars t;
    int64_t examples;
    writing w = { .r = r, .t = &t, .first = true };
    dt__run_begin_line(r, &t);
    dt__put_text(&t, ", \"layers\": [");
    const dt_status s = put_layers(&w, &examples);
    dt__put_text(&t, "]");
    if (s == DT_OK) return dt__run_end_line(r, &t);
    dt__release(r->ctx, t.bytes);
    return s == DT_ERR_NUMERIC ? DT_OK : s;
}

dt_status dt__run_write_layers(dt__run *r, const char *name)
{
    dt__chars t = { .ctx = r->ctx };
    int64_t examples;
    writing w = { .r = r, .t = &t, .first = true, .whole = true };
    if (!r->o->run.report) return DT_OK;
    dt__put_text(&t, "{\"step\": ");
    dt__put_integer(&t, *dt__run_count(r, DT__COUNT_STEP));
    dt__put_text(&t, ", \"layers\": [\n  ");
    dt_status s = put_layers(&w, &examples);
    dt__put_text(&t, "\n ],\n \"examples\": ");
    dt__put_integer(&t, examples);
    dt__put_text(&t, "}\n");
    if (s == DT_OK) s = dt__run_write_shown(r, name, &t);
    dt__release(r->ctx, t.bytes);
    return s == DT_ERR_NUMERIC ? DT_OK : s;
}

dt_status dt__run_log_layers(dt__run *r)
{
    const int64_t every = r->o->train.log.layers_every_steps;
    const int64_t step = *dt__run_count(r, DT__COUNT_STEP), since = step - r->start;
    if (*dt__run_count(r, DT__COUNT_PREPARED) == 0) return DT_OK;
    if (since == 1) DT__TRY(dt__run_write_layers(r, "layers-begin.json"));
    const bool due = since == 1 || step == r->steps || (every > 0 && since % every == 0);
    return every > 0 && due ? write_line(r) : DT_OK;
}
