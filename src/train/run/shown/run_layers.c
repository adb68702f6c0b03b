/* Figures of the layers of a prepared model (dt_figures), of the first training examples without
 * augmentation: lines of metrics.jsonl during QAT, and two files that the report shows:
 *     layers-begin.json  after the first update of QAT
 *     layers-end.json    before the model is converted
 * A model with non-finite values has no figures; train.nonfinite decides how the run continues. */
#include "core/tensor.h"
#include "train/run/run.h"

#include <detent/experimental/figures.h>
#include <math.h>

#define EXAMPLES 32
#define TOKENS 1024 /* per batch */

/* ---- figures as JSON ------------------------------------------------------------------------ */

/* The text to which figures are written. */
typedef struct output {
    dt__chars t;
    bool wanted, first;
    bool whole; /* also settings and counts */
} output;

enum { LINE, FILE_OF_ALL, OUTPUTS };

typedef struct writing {
    dt__run *r;
    output to[OUTPUTS];
} writing;

/* Five decimals are enough for display. */
static void put_rounded(dt__chars *t, const char *name, double value)
{
    DT__PUT_ALL(t, ", \"", name, "\": ");
    if (isfinite(value)) dt__put_real(t, round(value * 1e5) / 1e5);
    else dt__put_text(t, "null");
}

static void put_counts(dt__chars *t, const char *name, const int64_t *count, int64_t n)
{
    DT__PUT_ALL(t, ", \"", name);
    dt__put_text(t, "\": [");
    for (int64_t i = 0; i < n; i++) {
        if (i > 0) dt__put_text(t, ",");
        dt__put_integer(t, count[i]);
    }
    dt__put_text(t, "]");
}

static void put_whole(dt__chars *t, const dt_quant_figures *f, const char *scheme)
{
    DT__PUT_ALL(t, ", \"scheme\": ", DT__QUOTED(scheme), ", \"elements\": ", f->elements,
                ", \"bound\": ", f->bound);
    put_counts(t, "codes", f->code, f->codes);
    put_counts(t, "bins", f->bin, DT_FIGURE_BINS);
}

static void put_tensor(output *o, const char *name, const dt_quant_figures *f,
                       const dt_quant_spec *quant, const char *scheme)
{
    dt__chars *t = &o->t;
    if (!f->given) return;
    DT__PUT_ALL(t, ", \"", name);
    dt__put_text(t, "\": {\"bits\": ");
    dt__put_integer(t, quant->bits);
    if (f->compared) put_rounded(t, "snr", f->snr);
    if (f->compared) put_rounded(t, "clipped", f->clipped);
    put_rounded(t, "dead", f->dead);
    if (isfinite(f->least_scale) && isfinite(f->most_scale)) {
        dt__put_text(t, ", \"scales\": [");
        DT__PUT_ALL(t, f->least_scale, ", ", f->most_scale);
        dt__put_text(t, "]");
    }
    if (o->whole) put_whole(t, f, scheme);
    dt__put_text(t, "}");
}

static void put_layer_to(const dt__run *r, output *o, const dt_layer_figures *layer)
{
    dt__chars *t = &o->t;
    dt__put_text(t, o->first ? "" : o->whole ? ",\n  " : ", ");
    o->first = false;
    dt__put_text(t, "{\"path\": ");
    dt__put_quoted(t, layer->path);
    if (o->whole) {
        DT__PUT_ALL(t, ", \"type\": ", DT__QUOTED(layer->type),
                    ", \"bytes\": ", dt__bytes_below(r->stage.model, layer->path, true),
                    ", \"float_bytes\": ", dt__bytes_below(r->stage.model, layer->path, false));
    }
    put_tensor(o, "weight", &layer->weight, &layer->weight_quant, layer->weight_scheme);
    put_tensor(o, "input", &layer->input, &layer->input_quant, layer->input_scheme);
    dt__put_text(t, "}");
}

static void put_layer(void *user, const dt_layer_figures *layer)
{
    writing *w = user;
    for (int i = 0; i < OUTPUTS; i++) {
        if (w->to[i].wanted) put_layer_to(w->r, &w->to[i], layer);
    }
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
    *examples = batch_size(w->r->data.train);
    const dt_loader_options batches = { .batch_size = *examples };
    dt_tape_reset(w->r->stage.tape);
    DT__TRY(dt_loader_create(w->r->data.train, &batches, &loader));
    dt_status s = dt_loader_next(loader, &x, &target);
    if (s == DT_OK) s = dt_figures(w->r->stage.model, x, put_layer, w);
    dt_loader_free(loader);
    return s;
}

/* ---- a line, a file ------------------------------------------------------------------------- */

static void begin_file(dt__run *r, dt__chars *t)
{
    *t = (dt__chars){ .ctx = r->ctx };
    dt__put_text(t, "{\"step\": ");
    dt__put_integer(t, *dt__run_count(r, DT__COUNT_STEP));
    dt__put_text(t, ", \"layers\": [\n  ");
}

static dt_status end_file(dt__run *r, const char *name, int64_t examples, dt__chars *t)
{
    dt__put_text(t, "\n ],\n \"examples\": ");
    dt__put_integer(t, examples);
    dt__put_text(t, "}\n");
    return dt__run_write_shown(r, name, t);
}

/* Measures figures once, for a line of metrics.jsonl and the file of this name; NULL: no file. */
static dt_status write_figures(dt__run *r, bool line, const char *name)
{
    writing w = { .r = r,
                  .to = {
                      [LINE] = { .wanted = line, .first = true },
                      [FILE_OF_ALL] = { .wanted = name != NULL, .first = true, .whole = true } } };
    dt__chars *in_line = &w.to[LINE].t, *all = &w.to[FILE_OF_ALL].t;
    int64_t examples;
    if (!line && name == NULL) return DT_OK;
    *in_line = (dt__chars){ .ctx = r->ctx };
    if (line) {
        dt__run_begin_line(r, in_line);
        dt__put_text(in_line, ", \"layers\": [");
    }
    if (name != NULL) begin_file(r, all);
    dt_status s = put_layers(&w, &examples);
    if (s == DT_OK && name != NULL) s = end_file(r, name, examples, all);
    dt__release(r->ctx, all->bytes);
    if (line) dt__put_text(in_line, "]");
    if (s == DT_OK && line) return dt__run_end_line(r, in_line);
    dt__release(r->ctx, in_line->bytes);
    return s == DT_ERR_NUMERIC ? DT_OK : s;
}

dt_status dt__run_write_layers(dt__run *r, const char *name)
{
    return write_figures(r, false, r->o->run.report && dt__run_writes(r) ? name : NULL);
}

dt_status dt__run_log_layers(dt__run *r)
{
    const int64_t every = r->o->train.log.layers_every_steps;
    const int64_t step = *dt__run_count(r, DT__COUNT_STEP), since = step - r->data.start;
    if (*dt__run_count(r, DT__COUNT_PREPARED) == 0) return DT_OK;
    const bool begins = since == 1, due = begins || step == r->data.steps;
    const bool line = every > 0 && (due || since % every == 0), file = begins && r->o->run.report;
    if (!line && !file) return DT_OK;
    DT__TRY(dt__run_join_experts(r));
    if (dt__run_writes(r)) DT__TRY(write_figures(r, line, file ? "layers-begin.json" : NULL));
    return dt__run_cut_experts(r);
}
