/* Format c: what is computed from raw data before NAME_run. Features of signals: the tables of
 * dt_features as constants, and functions that compute the same bits. */
#include "data/signals/features.h"
#include "export/c/c_write.h"

/* Checks that the metadata describe the model's input. */
static dt_status check_example(const dt__c_about *a)
{
    const dt_model_data *d = a->data;
    const int64_t *in;
    int64_t all;
    const int n = dt_trace_inputs(a->p->trace, &in);
    if (n == 1 && dt__product(d->input.n, d->input.v, &all) && all == dt__c_count(a->p, in[0])) {
        return DT_OK;
    }
    return dt_fail(a->p->ctx, DT_ERR_FORMAT,
                   "export: the model's data (detent.data) has examples of another size than the "
                   "model reads");
}

static dt_status check_shape(const dt__c_about *a)
{
    const dt_ints *shape = &a->data->input;
    if (shape->n == 3 && shape->v[2] == dt_features_width(a->features)) return DT_OK;
    return dt_fail(a->p->ctx, DT_ERR_FORMAT,
                   "export: the model has features of signals, but reads no [channels, frames, "
                   "%lld]",
                   (long long)dt_features_width(a->features));
}

/* Samples per signal: the fewest that give the number of frames. */
static int64_t c_samples(const dt__c_about *a)
{
    const dt__features_tables *t = dt__features_tables_of(a->features);
    return (a->data->input.v[1] - 1) * t->step + t->frame;
}

static dt_status put_tables(const dt__c_about *a)
{
    dt__c_program *p = a->p;
    const dt__features_tables *t = dt__features_tables_of(a->features);
    const int64_t bins = a->data->features.bins;
    uint16_t *filters = dt__alloc_array(p->ctx, 2 * bins, sizeof *filters);
    if (filters == NULL) return DT_ERR_NOMEM;
    for (int64_t b = 0; b < bins; b++) {
        filters[2 * b] = (uint16_t)t->filters[b].first;
        filters[2 * b + 1] = (uint16_t)t->filters[b].n;
    }
    dt__c_floats(p, "features_window", "window of a frame", t->window, t->frame);
    dt__c_floats(p, "features_turns", "of the Fourier transform", t->turns, t->size);
    dt__c_floats(p, "features_joins", "", t->joins, dt__max_i64(t->size / 2, 2));
    dt__c_shorts(p, "features_filters", "mel filters: the first power, and how many", filters,
                 2 * bins);
    dt__c_floats(p, "features_weights", "", t->weights, t->n_weights);
    if (t->cosines != NULL) {
        dt__c_floats(p, "features_cosines", "", t->cosines, dt_features_width(a->features) * bins);
    }
    dt__release(p->ctx, filters);
    return p->status;
}

/* Computes the results that the self-test expects for one frame. */
static dt_status run_frame(dt__c_about *a)
{
    const int64_t n = dt__features_tables_of(a->features)->frame;
    float *x = dt__alloc_array(a->p->ctx, n, sizeof *x);
    uint32_t state = dt__c_seed(0);
    a->frame = dt__alloc_array(a->p->ctx, dt_features_width(a->features), sizeof *a->frame);
    dt_status s = x != NULL && a->frame != NULL ? DT_OK : DT_ERR_NOMEM;
    if (s == DT_OK) {
        dt__c_example(&state, 0, n, x);
        s = dt_features_run(a->features, x, 1, n, a->frame);
    }
    dt__release(a->p->ctx, x);
    return s;
}

dt_status dt__c_begin_data(dt__c_about *a)
{
    dt__c_program *p = a->p;
    a->row = a->data->n_inputs == 1 ? &a->data->inputs[0] : a->data;
    if (a->data->channels > 0 || a->data->features.kind != DT_FEATURES_NONE ||
        a->row->table != NULL) {
        DT__TRY(check_example(a));
    }
    DT__TRY(dt__c_begin_columns(a));
    if (a->data->features.kind == DT_FEATURES_NONE || p->device) return DT_OK; /* no floats */
    DT__TRY(dt_features_create(p->ctx, &a->data->features, &a->features));
    DT__TRY(check_shape(a));
    const dt__features_tables *t = dt__features_tables_of(a->features);
    const size_t scratch = (size_t)(t->size + a->data->features.bins) * sizeof(float);
    if (p->arena < scratch) p->arena = scratch;
    dt__c_want(p, "features_frame");
    DT__TRY(put_tables(a));
    return run_frame(a);
}

static const char macros[] =
    "/* The model sees features of a signal, $_SAMPLES numbers of each of\n"
    " * $_CHANNELS channels; samples of 16 bits are divided by 32768. */\n";

static const char prototypes[] =
    "/* Features of one channel from $_FRAME samples; frames begin\n"
    " * $_STEP samples apart. The arena is that of @_run. */\n"
    "void @_frame(const float *samples, float *y, void *arena);\n\n"
    "/* x [$_CHANNELS][$_FRAMES][$_FRAME_FEATURES]\n"
    " * of a signal [$_SAMPLES][$_CHANNELS]. */\n"
    "void @_features(const float *samples, float *x, void *arena);\n\n";

void dt__c_put_features_header(const dt__c_about *a, dt__chars *to)
{
    if (a->features == NULL) return;
    const dt__features_tables *t = dt__features_tables_of(a->features);
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = { { "SAMPLES", c_samples(a) },
                  { "CHANNELS", a->data->input.v[0] },
                  { "FRAME", t->frame },
                  { "STEP", t->step },
                  { "FRAMES", a->data->input.v[1] },
                  { "FRAME_FEATURES", a->data->input.v[2] } };
    dt__c_put_named(a, to, macros);
    for (int i = 0; i < DT__COUNT_OF(sizes); i++) {
        dt__c_printf(to, "#define %s_%s %lld\n", a->upper, sizes[i].name,
                     (long long)sizes[i].value);
    }
    dt__put_text(to, "\n");
    dt__c_put_named(a, to, prototypes);
}

static const char functions[] =
    "\nvoid @_frame(const float *samples, float *y, void *arena)\n{\n"
    "    features_frame(&features, samples, 1, (float *)arena, y);\n}\n"
    "\nvoid @_features(const float *samples, float *x, void *arena)\n{\n"
    "    int32_t c, k;\n"
    "    for (c = 0; c < $_CHANNELS; c++) {\n"
    "        const float *from = samples + c;\n"
    "        for (k = 0; k < $_FRAMES; k++) {\n"
    "            features_frame(&features, from, $_CHANNELS, (float *)arena, x);\n"
    "            from += $_STEP * $_CHANNELS;\n"
    "            x += $_FRAME_FEATURES;\n"
    "        }\n"
    "    }\n"
    "}\n";

void dt__c_put_features_source(const dt__c_about *a, dt__chars *to)
{
    if (a->features == NULL) return;
    const dt__features_tables *t = dt__features_tables_of(a->features);
    const dt_features_options *o = &a->data->features;
    dt__c_printf(to,
                 "\nstatic const features_tables features = {\n"
                 "    %lld, %d, %lld, %lld, %s,\n"
                 "    features_window, features_turns, features_joins,\n"
                 "    features_filters, features_weights, %s\n};\n",
                 (long long)t->frame, t->size, (long long)o->bins,
                 (long long)dt_features_width(a->features), dt__c_float((float)o->floor).text,
                 t->cosines != NULL ? "features_cosines" : "0");
    dt__c_put_named(a, to, functions);
}

void dt__c_put_features_test(const dt__c_about *a, dt__chars *to)
{
    if (a->features == NULL) return;
    dt__c_put_expected(to, "features", a->frame, dt_features_width(a->features));
}

void dt__c_put_features_check(const dt__c_about *a, dt__chars *to)
{
    static const char text[] =
        "    {\n"
        "        static float samples[$_FRAME], features[$_FRAME_FEATURES];\n"
        "        uint32_t state = 1;\n"
        "        make_example(&state, samples, $_FRAME);\n"
        "        @_frame(samples, features, arena);\n"
        "        wrong += differing(features, expected_features, $_FRAME_FEATURES);\n"
        "    }\n";
    if (a->features != NULL) dt__c_put_named(a, to, text);
}
