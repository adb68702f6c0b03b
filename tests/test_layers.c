/* Runs every check on every case of every layer of nn.inc. The suite prints a table of layers,
 * cases and checks, and fails on gaps: a layer without known values, whose gradient is never
 * checked, or that refuses nothing. src/nn/lists/layer_cases.h describes cases. */
#include "layers_run.h"

#include "io/model/model.h"

#include <detent/experimental/ptq.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define DT__NN(name) extern const dt__layer_cases dt__cases_of_layer_##name;
#include "nn/nn.inc"
#undef DT__NN

static const dt__layer_cases *const all[] = {
#define DT__NN(name) &dt__cases_of_layer_##name,
#include "nn/nn.inc"
#undef DT__NN
};

static const char *layer_name(int i) { return all[i]->name; }

typedef enum mark { NONE, GOOD, BAD } mark;

/* A check of one case. NONE where it does not apply. */
typedef struct check {
    const char *name;
    mark (*run)(const dt__layer_cases *l, const dt__layer_case *k);
} check;

static mark complain(const dt__layer_cases *l, const dt__layer_case *k, const char *format, ...)
    DT_PRINTF(3, 4);
static mark complain(const dt__layer_cases *l, const dt__layer_case *k, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("layers: %s, case '%s': ", l->name, k->name);
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
    return BAD;
}

/* Two runs that must give the same bits. */
static mark alike(const dt__layer_cases *l, const dt__layer_case *k, const layers_setup *a,
                  const layers_setup *b, const char *what)
{
    layers_outcome one, other;
    layers_run(a, &one);
    layers_run(b, &other);
    const char *differs = layers_difference(&one, &other);
    mark m = GOOD;
    if (one.status != DT_OK) m = complain(l, k, "%s: %s", what, one.message);
    else if (differs != NULL) m = complain(l, k, "%s: other %s %s", what, differs, other.message);
    layers_free(&one);
    layers_free(&other);
    return m;
}

/* ---- values --------------------------------------------------------------------------------- */

static bool near_plain(layers_scene *o, const dt__layer_case *k, const dt_tensor *y)
{
    const bool narrow = y->dtype == DT_F32;
    dt_tensor *want = k->plain(o->t, o->layer, o->in);
    if (want == NULL) return false;
    ops_values a = ops_read(y), b = ops_read(want);
    const bool near = ops_near(a, b, narrow ? 1e-5 : 1e-12, narrow ? 1e-6 : 1e-12);
    free(a.v);
    free(b.v);
    return near;
}

static mark values(const dt__layer_cases *l, const dt__layer_case *k)
{
    if (k->n_y == 0 && k->plain == NULL) return NONE;
    mark m = GOOD;
    for (int real = DT_F32; real <= DT_F64; real++) {
        layers_setup s = { .k = k, .real = (dt_dtype)real, .training = k->training };
        layers_scene o;
        dt_tensor *y[DT_MAX_OUT];
        layers_open(&o, &s);
        bool fits = layers_forward(&o, y) == DT_OK;
        const double near = real == DT_F32 ? 1e-5 : 1e-13;
        if (fits && k->n_y > 0) {
            const ops_values got = ops_read(y[0]);
            fits = got.n == k->n_y;
            for (int i = 0; i < k->n_y && fits; i++) {
                fits = test_near(got.v[i], k->y[i], near, near);
                if (!fits) complain(l, k, "value %d is %.17g, not %.17g", i, got.v[i], k->y[i]);
            }
            free(got.v);
        }
        if (fits && k->plain != NULL) fits = near_plain(&o, k, y[0]);
        if (!fits) {
            m = complain(l, k, "%s: expected not the values %s", dt_dtype_name((dt_dtype)real),
                         dt_tape_status(o.t) == DT_OK ? "" : dt_error(o.ctx));
        }
        layers_close(&o);
    }
    return m;
}

static mark refused(const dt__layer_cases *l, const dt__layer_case *k)
{
    const layers_setup s = { .k = k };
    layers_scene o;
    dt_ctx *ctx;
    dt_tensor *y[DT_MAX_OUT];
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    dt_status status = layers_make(&o, &s, ctx);
    if (status == DT_OK && o.n_in > 0) status = layers_forward(&o, y);
    const bool right = status == k->fails && strstr(dt_error(ctx), k->says) != NULL;
    mark m = GOOD;
    if (!right) m = complain(l, k, "%s: %s", dt_status_name(status), dt_error(ctx));
    layers_unmake(&o);
    if (dt_memory_of(ctx).used != 0) m = complain(l, k, "memory is left");
    dt_ctx_free(ctx);
    return m;
}

/* ---- gradients ------------------------------------------------------------------------------ */

static double loss_of(layers_scene *o)
{
    dt_tensor *y[DT_MAX_OUT];
    dt_tape_reset(o->t);
    dt_seed(o->ctx, 1);
    TEST_OK(o->ctx, layers_forward(o, y));
    const dt_tensor *loss = layers_loss(o, y);
    TEST_OK(o->ctx, dt_tape_status(o->t));
    return ops_at(loss, 0);
}

typedef struct probe {
    const dt__layer_cases *l;
    const dt__layer_case *k;
    layers_scene *o;
    mark m;
    int tensors; /* compared so far */
} probe;

/* One of so many elements of large tensors is checked, another for each tensor. */
static const test_draws element_steps = { .usual = 1, .sanitized = 7 };

/* Central differences; a step of 1e-5 leaves an error of about 1e-10. */
static void compare_gradient(probe *p, const char *name, dt_tensor *x)
{
    const double h = 1e-5;
    if (dt_grad(x) == NULL) {
        p->m = complain(p->l, p->k, "%s gets no gradient", name);
        return;
    }
    if (p->m == NONE) p->m = GOOD;
    const ops_values got = ops_read(dt_grad(x));
    const int64_t step = test_count(element_steps);
    const int64_t first = x->count < step ? 0 : p->tensors++ % step;
    for (int64_t e = first; e < x->count && p->m != BAD; e += step) {
        const double before = ((const double *)dt_data(x))[e];
        dt_tape_reset(p->o->t);
        ((double *)dt_data_mut(x))[e] = before + h;
        const double above = loss_of(p->o);
        dt_tape_reset(p->o->t);
        ((double *)dt_data_mut(x))[e] = before - h;
        const double want = (above - loss_of(p->o)) / (2 * h);
        dt_tape_reset(p->o->t);
        ((double *)dt_data_mut(x))[e] = before;
        if (test_near(got.v[e], want, 1e-7, 1e-6)) continue;
        p->m = complain(p->l, p->k, "gradient of %s at %lld: %.12g, differences say %.12g", name,
                        (long long)e, got.v[e], want);
    }
    free(got.v);
}

static dt_status compare_param(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    if (kind == DT_PARAM) compare_gradient(user, path, x);
    return DT_OK;
}

static mark gradient(const dt__layer_cases *l, const dt__layer_case *k)
{
    if (k->rough) return NONE;
    const layers_setup s = { .k = k, .real = DT_F64, .threads = 1, .training = true };
    layers_scene o;
    dt_tensor *y[DT_MAX_OUT];
    probe p = { l, k, &o, NONE, 0 };
    layers_open(&o, &s);
    dt_seed(o.ctx, 1);
    TEST_OK(o.ctx, layers_forward(&o, y));
    TEST_OK(o.ctx, dt_backward(o.t, layers_loss(&o, y), NULL));
    dt_tape_reset(o.t);
    for (int i = 0; i < o.n_in; i++) {
        if (dt__is_float(o.in[i]->dtype) && !k->indices) compare_gradient(&p, "the input", o.in[i]);
    }
    dt_module_visit(o.layer, compare_param, &p);
    layers_close(&o);
    return p.m;
}

/* ---- state ---------------------------------------------------------------------------------- */

static dt_status join_path(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    char *text = user;
    const size_t n = strlen(text);
    (void)x;
    ck_assert_uint_lt(n + strlen(path) + 3, 1000);
    sprintf(text + n, "%s%s%s", n == 0 ? "" : " ", kind == DT_BUFFER ? "!" : "", path);
    return DT_OK;
}

static bool begins_so(const dt_tensor *x, const dt__layer_first *f)
{
    double low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; i < x->count; i++) {
        low = fmin(low, ops_at(x, i));
        high = fmax(high, ops_at(x, i));
    }
    const double quarter = (f->high - f->low) / 4;
    const bool spread = low <= f->low + quarter && high >= f->high - quarter;
    return low >= f->low && high <= f->high && (x->count < 32 || spread);
}

static mark check_first(const dt__layer_cases *l, const dt__layer_case *k, dt_ctx *ctx)
{
    dt_module *m;
    mark result = GOOD;
    dt_seed(ctx, 7);
    TEST_OK(ctx, k->create(ctx, &m));
    for (int i = 0; i < DT__LAYER_PARAMS && k->first[i].path != NULL; i++) {
        const dt_tensor *x = dt_param(m, k->first[i].path);
        if (x != NULL && begins_so(x, &k->first[i])) continue;
        result = complain(l, k, "%s does not begin with %g ... %g", k->first[i].path,
                          k->first[i].low, k->first[i].high);
    }
    dt_module_free(m);
    return result;
}

/* Another layer of the case, with other initial values, gets those of `from`. */
static mark check_copy(const dt__layer_cases *l, const dt__layer_case *k, layers_scene *from)
{
    const layers_setup s = { .k = k };
    layers_scene to;
    mark m = GOOD;
    dt_tensor *a[DT_MAX_OUT], *b[DT_MAX_OUT];
    dt_seed(from->ctx, 99);
    TEST_OK(from->ctx, layers_make(&to, &s, from->ctx));
    TEST_OK(from->ctx, dt_module_copy_state(to.holder, from->holder));
    dt_seed(from->ctx, 1);
    TEST_OK(from->ctx, layers_forward(from, a));
    dt_seed(from->ctx, 1);
    TEST_OK(from->ctx, layers_forward(&to, b));
    ops_values one = ops_read(a[0]), other = ops_read(b[0]);
    if (!ops_near(one, other, 0, 0)) m = complain(l, k, "a copy of the state gives other values");
    free(one.v);
    free(other.v);
    layers_unmake(&to);
    return m;
}

static mark state(const dt__layer_cases *l, const dt__layer_case *k)
{
    const layers_setup s = { .k = k };
    const char *want = k->state == NULL ? "" : k->state;
    layers_scene o;
    char text[1000] = "";
    layers_open(&o, &s);
    dt_module_visit(o.layer, join_path, text);
    mark m = check_first(l, k, o.ctx);
    if (strcmp(text, want) != 0) m = complain(l, k, "the state is '%s', not '%s'", text, want);
    if (check_copy(l, k, &o) == BAD) m = BAD;
    layers_close(&o);
    return m;
}

/* ---- modes ---------------------------------------------------------------------------------- */

static bool has_buffers(const dt__layer_case *k)
{
    return k->state != NULL && strchr(k->state, '!') != NULL;
}

static bool same_state(const layers_outcome *a, const layers_outcome *b)
{
    bool equal = a->n == b->n;
    for (int i = 0; i < a->n && equal; i++) equal = ops_near(a->state[i], b->state[i], 0, 0);
    return equal;
}

/* Evaluation draws nothing and changes no state, so two runs are equal. So are two runs in
 * training, except for layers that draw or have buffers. */
static mark modes(const dt__layer_cases *l, const dt__layer_case *k)
{
    layers_setup training = { .k = k, .training = true }, evaluation = { .k = k };
    layers_outcome a, b;
    layers_scene o;
    dt_tensor *y[DT_MAX_OUT], *again[DT_MAX_OUT];
    mark m = alike(l, k, &training, &training, "trained twice");
    layers_run(&training, &a);
    layers_run(&evaluation, &b);
    if (b.drew) m = complain(l, k, "evaluation draws random numbers");
    if (a.drew != k->random) m = complain(l, k, ".random is wrong of training");
    const bool differs = !ops_near(a.y[0], b.y[0], 0, 0);
    if (differs && !k->random && !has_buffers(k))
        m = complain(l, k, "training is not an evaluation");
    if (same_state(&a, &b) == (has_buffers(k) && !k->fixed))
        m = complain(l, k, "buffers change in evaluation");
    layers_free(&a);
    layers_free(&b);
    layers_open(&o, &evaluation);
    dt_no_grad(o.t, true);
    TEST_OK(o.ctx, layers_forward(&o, y));
    TEST_OK(o.ctx, layers_forward(&o, again));
    for (int i = 0; i < o.n_out; i++) {
        ops_values one = ops_read(y[i]), other = ops_read(again[i]);
        if (!ops_near(one, other, 0, 0)) m = complain(l, k, "evaluated twice: other outputs");
        free(one.v);
        free(other.v);
    }
    layers_close(&o);
    return m;
}

/* ---- quantization --------------------------------------------------------------------------- */

/* Names of presets, as recipes know them, in their order. */
static const char *const *preset_names(void)
{
    const dt_key *key = dt_qat_keys;
    while (strcmp(key->name, "preset") != 0) key++;
    return key->choices;
}

static dt_status count_quantizable(void *user, const char *path, dt_module *m)
{
    (void)path;
    *(int *)user += m->type->quantizable == DT_QUANTIZED_BY_PRESET;
    return DT_OK;
}

static int quantizable(dt_module *m)
{
    int n = 0;
    dt_module_visit_modules(m, count_quantizable, &n);
    return n;
}

static dt_shape example_of(const dt_tensor *x)
{
    dt_shape s = { .rank = x->rank - 1 };
    for (int i = 1; i < x->rank; i++) s.dims[i - 1] = x->dims[i];
    return s;
}

/* A prepared layer that has seen a batch: static ranges are calibrated, learned ones initialized.
 * False where a preset for devices refuses the layer. */
static bool open_prepared(layers_scene *o, const layers_setup *s, int preset)
{
    dt_qat_options options = dt_qat_defaults();
    dt_tensor *y[DT_MAX_OUT];
    dt_shape in[DT_MAX_IN];
    options.preset = preset;
    layers_open(o, s);
    for (int i = 0; i < o->n_in; i++) in[i] = example_of(o->in[i]);
    options.inputs = in;
    options.n_inputs = o->n_in;
    const dt_status prepared = dt_prepare(o->holder, &options);
    if (dt_is_device_preset(preset) && prepared == DT_ERR_UNSUPPORTED) { /* floats for ever */
        ck_assert_ptr_nonnull(strstr(dt_error(o->ctx), "cannot be computed by integers alone"));
        layers_close(o);
        return false;
    }
    TEST_OK(o->ctx, prepared);
    dt_train(o->holder, true);
    const bool observed = dt_is_observed(o->holder);
    if (observed) TEST_OK(o->ctx, dt_observe(o->holder, true));
    TEST_OK(o->ctx, layers_forward(o, y));
    if (observed) TEST_OK(o->ctx, dt_observe(o->holder, false));
    dt_tape_reset(o->t);
    dt_train(o->holder, false);
    return true;
}

/* The layer's outputs in evaluation. */
static void answers(layers_scene *o, ops_values *y)
{
    dt_tensor *out[DT_MAX_OUT];
    dt_tape_reset(o->t);
    TEST_OK(o->ctx, layers_forward(o, out));
    for (int i = 0; i < o->n_out; i++) y[i] = ops_read(out[i]);
    dt_tape_reset(o->t);
}

static void free_answers(ops_values *y, int n)
{
    for (int i = 0; i < n; i++) free(y[i].v);
}

static bool same_answers(const ops_values *a, layers_scene *o)
{
    ops_values b[DT_MAX_OUT];
    bool same = true;
    answers(o, b);
    for (int i = 0; i < o->n_out; i++) same = same && ops_near(a[i], b[i], 0, 0);
    free_answers(b, o->n_out);
    return same;
}

/* Saves the layer of `o` and loads it into a new layer of the case, whose outputs must be the
 * same. */
static bool comes_back(layers_scene *o, const layers_setup *s, const ops_values *y)
{
    char folder[TEST_PATH], path[TEST_PATH];
    dt_file *file;
    layers_scene loaded;
    test_folder(folder);
    test_join(path, folder, "layer.safetensors");
    TEST_OK(o->ctx, dt_model_save(o->holder, NULL, path));
    layers_open(&loaded, s);
    TEST_OK(loaded.ctx, dt_file_open(loaded.ctx, path, &file));
    const dt__restoring r = { .file = file, .m = loaded.holder, .quantized = true };
    TEST_OK(loaded.ctx, dt__restore(&r));
    dt_file_close(file);
    dt_train(loaded.holder, false);
    const bool same = same_answers(y, &loaded);
    layers_close(&loaded);
    return same;
}

static mark presets(const dt__layer_cases *l, const dt__layer_case *k)
{
    const char *const *name = preset_names();
    const layers_setup s = { .k = k };
    mark m = NONE;
    for (int preset = 0; name[preset] != NULL; preset++) {
        layers_scene o;
        ops_values y[DT_MAX_OUT];
        layers_open(&o, &s);
        const bool none = quantizable(o.layer) == 0;
        layers_close(&o);
        if (none) return NONE;
        if (!open_prepared(&o, &s, preset)) continue;
        if (m == NONE) m = GOOD;
        answers(&o, y);
        if (!comes_back(&o, &s, y)) m = complain(l, k, "%s: prepared, loaded", name[preset]);
        TEST_OK(o.ctx, dt_convert(o.holder, NULL, NULL));
        if (!same_answers(y, &o)) m = complain(l, k, "%s: converted", name[preset]);
        if (!comes_back(&o, &s, y)) m = complain(l, k, "%s: converted, loaded", name[preset]);
        free_answers(y, o.n_out);
        layers_close(&o);
    }
    return m;
}

/* ---- calibration ---------------------------------------------------------------------------- */

typedef struct calibrating {
    const dt__layer_cases *l;
    const dt__layer_case *k;
    layers_scene *o;
    int rounded;
    mark m;
} calibrating;

static dt_status same_batch(void *user, int64_t i, dt_tensor **x)
{
    const calibrating *c = user;
    (void)i;
    *x = c->o->in[0];
    return DT_OK;
}

static dt_status note(void *user, const char *path, const dt_round_report *report)
{
    calibrating *c = user;
    c->rounded++;
    if (report->samples > 0 && strcmp(report->method, "nearest") != 0) return DT_OK;
    c->m = complain(c->l, c->k, "%s: calibration has not reached it (%s, %lld samples)", path,
                    report->method, (long long)report->samples);
    return DT_OK;
}

/* A rounder that needs data sees the inputs of every weight that a preset quantizes; its result is
 * saved and loaded with the same bits. */
static mark calibrated(const dt__layer_cases *l, const dt__layer_case *k)
{
    const layers_setup s = { .k = k };
    layers_scene o;
    ops_values y[DT_MAX_OUT];
    calibrating c = { l, k, &o, 0, GOOD };
    dt_ptq_options options = dt_ptq_defaults();
    dt_ptq_report report;
    layers_open(&o, &s);
    const int wanted = quantizable(o.layer);
    layers_close(&o);
    if (wanted == 0) return NONE;
    ck_assert(open_prepared(&o, &s, DT_INT8_DYNAMIC_INT4_WEIGHT));
    options.rounding.rounder = DT_ROUND_GPTQ;
    options.rounding.rounding.least_rows = 1;
    options.done = note;
    options.user = &c;
    const dt_calibration data = { .batches = 2, .batch = same_batch, .user = &c };
    TEST_OK(o.ctx, dt_ptq(o.holder, NULL, &data, &options, &report));
    if (c.rounded != wanted) c.m = complain(l, k, "%d of %d weights rounded", c.rounded, wanted);
    if (report.unreached > 0) c.m = complain(l, k, "the report counts unreached weights");
    answers(&o, y);
    if (!comes_back(&o, &s, y)) c.m = complain(l, k, "rounded by gptq, loaded");
    free_answers(y, o.n_out);
    layers_close(&o);
    return c.m;
}

/* ---- activation checkpointing, threads, memory ---------------------------------------------- */

static mark checkpointed(const dt__layer_cases *l, const dt__layer_case *k)
{
    layers_setup kept = { .k = k, .training = true }, again = kept;
    layers_scene o;
    again.checkpointed = true;
    mark m = alike(l, k, &kept, &again, "run again by backward");
    layers_open(&o, &kept);
    const bool prepares = quantizable(o.layer) > 0;
    if (dt_recompute(o.layer, true) < l->type->block)
        m = complain(l, k, "no block to dt_recompute");
    layers_close(&o);
    if (!prepares) return m;
    kept.prepared = again.prepared = true;
    return alike(l, k, &kept, &again, "prepared, run again by backward") == BAD ? BAD : m;
}

static mark threads(const dt__layer_cases *l, const dt__layer_case *k)
{
    mark m = GOOD;
    for (int training = 0; training < 2; training++) {
        layers_setup one = { .k = k, .threads = 1, .training = training == 1 }, two = one;
        two.threads = 2;
        if (alike(l, k, &one, &two, "two threads") == BAD) m = BAD;
    }
    return m;
}

/* Everything that can be done with a layer, as a scenario of test_every_allocation. */
static dt_status live(dt_ctx *ctx, void *user)
{
    const layers_setup s = { .k = user, .training = true };
    layers_scene o;
    dt_tensor *y[DT_MAX_OUT];
    dt_status status = layers_make(&o, &s, ctx);
    if (status == DT_OK) status = layers_forward(&o, y);
    if (status == DT_OK) status = dt_backward(o.t, layers_loss(&o, y), NULL);
    const bool prepares = status == DT_OK && quantizable(o.layer) > 0;
    if (prepares) {
        dt_tape_reset(o.t);
        status = dt_prepare(o.holder, NULL);
        if (status == DT_OK) status = layers_forward(&o, y);
        dt_tape_reset(o.t);
        if (status == DT_OK) status = dt_convert(o.holder, NULL, NULL);
        if (status == DT_OK) status = layers_forward(&o, y);
    }
    layers_unmake(&o);
    return status;
}

static mark memory(const dt__layer_cases *l, const dt__layer_case *k)
{
    (void)l;
    dt__layer_case copy = *k;
    test_every_allocation(live, &copy);
    return GOOD;
}

/* ---- the table ------------------------------------------------------------------------------ */

static const check checks[] = {
    { "values", values },
    { "gradient", gradient },
    { "state", state },
    { "modes", modes },
    { "presets", presets },
    { "calibrated", calibrated },
    { "checkpoint", checkpointed },
    { "threads", threads },
    { "memory", memory },
};

#define CHECKS DT__COUNT_OF(checks)
static const char *const mark_text[] = { "-", "ok", "FAIL" };

typedef struct tally {
    int cases, checks, failures, holes;
} tally;

static void count(tally *total, mark m)
{
    total->checks += m != NONE;
    total->failures += m == BAD;
}

/* What all cases of one layer show together. */
typedef struct shown {
    bool values, gradient, refused;
} shown;

static void run_case(const dt__layer_cases *l, const dt__layer_case *k, shown *so_far, tally *total)
{
    mark m[CHECKS];
    if (k->fails != DT_OK) {
        const mark r = refused(l, k);
        printf("%-18s %-24s refused: %s\n", l->name, k->name, mark_text[r]);
        so_far->refused = true;
        count(total, r);
        return;
    }
    for (int i = 0; i < CHECKS; i++) {
        m[i] = checks[i].run(l, k);
        count(total, m[i]);
    }
    so_far->values = so_far->values || m[0] != NONE;
    so_far->gradient = so_far->gradient || m[1] != NONE;
    printf("%-18s %-24s", l->name, k->name);
    for (int i = 0; i < CHECKS; i++) printf(" %-10s", mark_text[m[i]]);
    printf("\n");
}

static void find_holes(const dt__layer_cases *l, const shown *s, tally *total)
{
    const struct {
        bool there;
        const char *add;
    } wanted[] = {
        { s->values || l->type->forward == NULL, "a case with known values: .y or .plain" },
        { s->gradient || l->type->forward == NULL, "a case that is not .rough, for the gradient" },
        { s->refused, "a case that is refused: .fails and .says" },
    };
    for (int i = 0; i < DT__COUNT_OF(wanted); i++) {
        if (wanted[i].there) continue;
        printf("layers: HOLE: add to nn_%s.c %s\n", l->name, wanted[i].add);
        total->holes++;
    }
}

START_TEST(every_layer_every_case_every_check)
{
    const dt__layer_cases *l = all[_i];
    tally total = { .cases = l->n };
    shown so_far = { 0 };
    printf("%-18s %-24s", "layer", "case");
    for (int i = 0; i < CHECKS; i++) printf(" %-10s", checks[i].name);
    printf("\n");
    for (int c = 0; c < l->n; c++) run_case(l, &l->cases[c], &so_far, &total);
    find_holes(l, &so_far, &total);
    printf("%s: %d cases, %d checks; %d failures, %d holes\n", l->name, total.cases, total.checks,
           total.failures, total.holes);
    ck_assert_int_eq(total.failures + total.holes, 0);
}
END_TEST

Suite *test_layers_suite(void)
{
    Suite *s = suite_create("layers");
    TCase *c = tcase_create("table");
    tcase_add_named_test(c, every_layer_every_case_every_check, DT__COUNT_OF(all), layer_name);
    suite_add_tcase(s, c);
    return s;
}
