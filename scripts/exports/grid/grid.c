/* Makes a grid of exports, which scripts/exports/grid/run.py runs in their runtimes.
 *
 *   detent-grid FOLDER FIRST STEP COUNT SEED    networks FIRST, FIRST + STEP, ... below COUNT
 *   detent-grid count                           how many networks there are in a round
 *
 * A network has a kind of layer of the program's list, or is of another family, and a preset or
 * target of the program's list, or floats: all pairs are one round, and further rounds draw other
 * options. Language models are of the architectures of language.c. A network is trained for two
 * updates, converted, and written in every format that has a runtime here, in each of its forms.
 * FOLDER/FIRST.jsonl has a line for each network, with its recipe, and one for each file, or for
 * the reason why there is none. */
#include "draw.h"

#include <detent/experimental/export.h>
#include <detent/experimental/io.h>
#include <detent/experimental/layers.h>
#include <detent/optim.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST 100       /* examples of the largest batch */
#define MOST_VALUES 20000 /* of an example's inputs and of its outputs */
#define NOISES 3
#define ATTEMPTS 12       /* attempts for a network until a refused one is accepted */
#define MOST_ATTEMPTS 300 /* attempts until a network can be created */

static const int64_t batches[] = { 1, 2, 7 };

typedef struct net {
    dt_ctx *ctx;
    dt_module *m;
    dt_model_info info;
    grid_random *random;
    dt_trace_value in[DT_MAX_IN], out[DT_MAX_OUT]; /* extents of one example */
    const char *name[DT_MAX_IN];
    dt_tensor *x[DT_MAX_IN];
    float *y[DT_MAX_OUT]; /* of LARGEST examples */
    int n_in, n_out;
    int64_t below, tokens; /* of a language model; else 0 */
    double bits;           /* of activations; 0: floats */
} net;

static void die(const char *what)
{
    fprintf(stderr, "detent-grid: %s\n", what);
    exit(2);
}

/* ---- lists of the program -------------------------------------------------------------------- */

/* A key of a recipe with choices, by its name in a table. */
static const char *const *choices_of(const dt_key *keys, const char *name)
{
    for (const dt_key *k = keys; k->name != NULL; k++) {
        if (strcmp(k->name, name) == 0 && k->choices != NULL) return k->choices;
    }
    die(name);
    return NULL;
}

static const dt_key *qat_keys(void)
{
    for (const dt_key *k = dt_recipe_keys; k->name != NULL; k++) {
        if (strcmp(k->name, "qat") == 0) return k->keys;
    }
    die("a recipe has no block qat");
    return NULL;
}

static int length_of(const char *const *list)
{
    int n = 0;
    while (list[n] != NULL) n++;
    return n;
}

/* Kinds of layers, then families but `layers`, then architectures of language models in place of
 * their families. */
static bool subject_of(int i, grid_subject *out)
{
    int layers = 0;
    while (dt_layer_kind_at(layers) != NULL) layers++;
    *out = (grid_subject){ .layer = NULL };
    for (int k = 0; k < layers; k++) { /* `repeat` holds other layers */
        if (strcmp(dt_layer_kind_at(k)->name, "repeat") == 0) continue;
        out->layer = dt_layer_kind_at(k);
        if (i-- == 0) return true;
    }
    out->layer = NULL;
    for (int k = 0; dt_family_at(k) != NULL; k++) {
        out->family = dt_family_at(k);
        const char *name = out->family->name;
        if (strcmp(name, "layers") != 0 && !grid_is_base(name) && i-- == 0) return true;
    }
    for (int k = 0; (out->base = grid_base_at(k)) != NULL; k++) {
        for (int f = 0; (out->family = dt_family_at(f)) != NULL; f++) {
            if (strcmp(out->family->name, out->base->family) == 0) break;
        }
        if (i-- == 0) return true;
    }
    return false;
}

static int subjects(void)
{
    grid_subject s;
    int n = 0;
    while (subject_of(n, &s)) n++;
    return n;
}

/* Floats, each preset, each target but detent. */
static int arithmetics(void)
{
    return length_of(choices_of(qat_keys(), "preset")) +
           length_of(choices_of(qat_keys(), "target"));
}

static void set_arithmetic(grid_subject *s, int i)
{
    const char *const *presets = choices_of(qat_keys(), "preset");
    const char *const *targets = choices_of(qat_keys(), "target");
    const int n = length_of(presets);
    s->key = i == 0 ? NULL : i <= n ? "preset" : "target";
    if (i > 0) s->value = i <= n ? presets[i - 1] : targets[i - n]; /* targets[0] is detent */
}

/* ---- the network ----------------------------------------------------------------------------- */

static int64_t count_of(const dt_trace_value *v, int64_t batch, int64_t tokens)
{
    return dt_trace_count(v, batch, tokens);
}

static dt_status describe(net *n)
{
    dt_trace *t;
    const int64_t *id;
    const dt_status s = dt_trace_model(n->m, &n->info, true, &t);
    if (s != DT_OK) return s;
    n->n_in = dt_trace_inputs(t, &id);
    for (int i = 0; i < n->n_in; i++) {
        n->in[i] = *dt_trace_value_at(t, id[i]);
        n->name[i] = strdup(n->in[i].name);
        if (n->in[i].dtype == DT_I32) {
            dt_example x, y;
            if (n->info.family->shapes(n->ctx, n->info.options, &x, &y) != DT_OK) die("tokens");
            n->below = x.dims[0];
            n->tokens = x.dims[1] < 6 ? x.dims[1] : 6;
        }
    }
    n->n_out = dt_trace_outputs(t, &id);
    for (int i = 0; i < n->n_out; i++) n->out[i] = *dt_trace_value_at(t, id[i]);
    dt_trace_free(t);
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        const dt_trace_value *v = i < n->n_in ? &n->in[i] : &n->out[i - n->n_in];
        if (count_of(v, 1, n->tokens) > MOST_VALUES)
            return dt_fail(n->ctx, DT_ERR_ARG, "too large");
    }
    return DT_OK;
}

/* Examples of several sizes: noise, zeros, nearly equal numbers, a few large ones. */
static void fill(net *n, int i)
{
    float *x = dt_data_mut(n->x[i]);
    const int64_t each = count_of(&n->in[i], 1, n->tokens);
    if (n->below > 0) {
        int32_t *id = dt_data_mut(n->x[i]);
        for (int64_t k = 0; k < LARGEST * each; k++) {
            id[k] = (int32_t)grid_pick(n->random, 0, n->below - 1);
        }
        return;
    }
    for (int64_t k = 0; k < LARGEST * each; k++) {
        const int kind = (int)(k / each % 8);
        const double z = grid_normal(n->random);
        x[k] = (float)(kind == 1   ? 0
                       : kind == 2 ? 1 + 1e-3 * z
                       : kind == 3 ? (grid_chance(n->random, 0.1) ? 4 * z : 0)
                       : kind == 4 ? 0.1 * z
                                   : z);
    }
}

static dt_status make_inputs(net *n)
{
    for (int i = 0; i < n->n_in; i++) {
        int64_t dims[DT_MAX_RANK];
        const dt_trace_value *v = &n->in[i];
        for (int d = 0; d < v->rank; d++) dims[d] = dt_extent_at(v->extent[d], LARGEST, n->tokens);
        if (dt_tensor_create(n->ctx, v->dtype, v->rank, dims, &n->x[i]) != DT_OK)
            return DT_ERR_NOMEM;
        fill(n, i);
    }
    return DT_OK;
}

/* The first `batch` examples through the model; to[i] gets the values of output i. */
static dt_status run(net *n, int64_t batch, bool training, float *const *to)
{
    dt_tensor *x[DT_MAX_IN] = { NULL }, *y[DT_MAX_OUT] = { NULL };
    dt_tape *t;
    if (dt_tape_create(n->ctx, &t) != DT_OK) return DT_ERR_NOMEM;
    dt_train(n->m, training);
    dt_no_grad(t, !training);
    dt_optimizer *o = NULL;
    if (training && dt_optimizer_create(n->m, NULL, &o) != DT_OK) die(dt_error(n->ctx));
    for (int i = 0; i < n->n_in; i++) {
        int64_t dims[DT_MAX_RANK];
        for (int d = 0; d < n->in[i].rank; d++) {
            dims[d] = dt_extent_at(n->in[i].extent[d], batch, n->tokens);
        }
        if (dt_tensor_from(n->ctx, n->in[i].dtype, n->in[i].rank, dims, dt_data(n->x[i]), &x[i]) !=
            DT_OK) {
            die(dt_error(n->ctx));
        }
    }
    dt_status s = dt_forward_n(t, n->m, x, n->n_in, y, n->n_out);
    dt_tensor *loss = NULL;
    for (int i = 0; i < n->n_out && s == DT_OK; i++) {
        const int64_t all = count_of(&n->out[i], batch, n->tokens);
        dt_tensor *flat = dt_reshape(t, y[i], 1, &all); /* contiguous */
        if (flat != NULL && to != NULL) memcpy(to[i], dt_data(flat), (size_t)all * sizeof(float));
        if (training) {
            dt_tensor *part = dt_mean(t, dt_mul(t, flat, flat), NULL);
            loss = loss == NULL ? part : dt_add(t, loss, part);
        }
    }
    if (s == DT_OK && training) s = dt_backward(t, loss, NULL);
    if (s == DT_OK && training) s = dt_optimizer_step(o, t, 0.01);
    if (s == DT_OK) s = dt_tape_status(t);
    if (training) dt_zero_grad(n->m);
    dt_optimizer_free(o);
    dt_tape_free(t);
    for (int i = 0; i < n->n_in; i++) dt_tensor_free(x[i]);
    return s;
}

/* Whether the model has parameters to train. */
static bool has_parameters(dt_module *m) { return dt_param_count(m) > 0; }

static dt_status train(net *n, const dt_recipe *recipe)
{
    const dt_recipe_options *o = dt_recipe_get(recipe);
    dt_status s = DT_OK;
    if (has_parameters(n->m)) s = run(n, 16, true, NULL);
    if (s == DT_OK && o->qat.given) s = dt_prepare(n->m, &o->qat);
    if (s == DT_OK && (has_parameters(n->m) || o->qat.given)) s = run(n, 16, true, NULL);
    if (s == DT_OK && dt_is_prepared(n->m)) s = dt_convert(n->m, NULL, NULL);
    return s;
}

/* ---- what is written about it ---------------------------------------------------------------- */

static void put_text(FILE *f, const char *name, const char *text)
{
    fprintf(f, ", \"%s\": \"", name);
    for (; *text != 0; text++) {
        if (*text == '\n') fputs("\\n", f);
        else if (*text == '"' || *text == '\\') fprintf(f, "\\%c", *text);
        else if ((unsigned char)*text >= ' ') fputc(*text, f);
    }
    fputc('"', f);
}

static void put_dims(FILE *f, const dt_trace_value *v, int64_t tokens)
{
    fputc('[', f);
    for (int d = 1; d < v->rank; d++) {
        fprintf(f, "%s%lld", d > 1 ? ", " : "", (long long)dt_extent_at(v->extent[d], 1, tokens));
    }
    fputc(']', f);
}

static void put_ends(FILE *f, const net *n)
{
    fputs(", \"inputs\": [", f);
    for (int i = 0; i < n->n_in; i++) {
        fprintf(f, "%s{\"name\": \"%s\", \"int\": %s, \"shape\": ", i > 0 ? ", " : "", n->name[i],
                n->below > 0 ? "true" : "false");
        put_dims(f, &n->in[i], n->tokens);
        fputc('}', f);
    }
    fputs("], \"outputs\": [", f);
    for (int i = 0; i < n->n_out; i++) {
        fputs(i > 0 ? ", " : "", f);
        put_dims(f, &n->out[i], n->tokens);
    }
    fprintf(f, "], \"batches\": [1, 2, 7, %d]", LARGEST);
}

static void save(const char *folder, int number, const char *what, int i, const void *data,
                 size_t bytes)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%d.%s%d", folder, number, what, i);
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(data, 1, bytes, f) != bytes || fclose(f) != 0) die(path);
}

/* ---- outputs, and how far noise of the input moves them -------------------------------------- */

static void add_noise(net *n, int i, const float *own, double share)
{
    float *x = dt_data_mut(n->x[i]);
    const int64_t each = count_of(&n->in[i], 1, n->tokens);
    for (int64_t e = 0; e < LARGEST; e++) {
        double least = 0, most = 0;
        for (int64_t k = 0; k < each; k++) {
            least = fmin(least, (double)own[e * each + k]);
            most = fmax(most, (double)own[e * each + k]);
        }
        for (int64_t k = 0; k < each; k++) {
            const double up = (double)grid_pick(n->random, -1000, 1000) / 1000;
            x[e * each + k] = (float)((double)own[e * each + k] + up * share * (most - least));
        }
    }
}

/* The largest difference that noise makes, `share` of an example's range. */
static double moved_by(net *n, double share)
{
    float *own[DT_MAX_IN] = { NULL }, *y[DT_MAX_OUT] = { NULL };
    double moved = 0;
    for (int i = 0; i < n->n_out; i++) y[i] = malloc((size_t)count_of(&n->out[i], LARGEST, 1) * 4);
    for (int i = 0; i < n->n_in; i++) {
        const size_t bytes = (size_t)count_of(&n->in[i], LARGEST, 1) * 4;
        own[i] = malloc(bytes);
        memcpy(own[i], dt_data(n->x[i]), bytes);
    }
    for (int k = 0; k < NOISES; k++) {
        for (int i = 0; i < n->n_in; i++) add_noise(n, i, own[i], share);
        if (run(n, LARGEST, false, y) != DT_OK) die(dt_error(n->ctx));
        for (int i = 0; i < n->n_out; i++) {
            for (int64_t j = 0; j < count_of(&n->out[i], LARGEST, 1); j++) {
                moved = fmax(moved, fabs((double)y[i][j] - (double)n->y[i][j]));
            }
        }
    }
    for (int i = 0; i < n->n_in; i++) {
        memcpy(dt_data_mut(n->x[i]), own[i], (size_t)count_of(&n->in[i], LARGEST, 1) * 4);
        free(own[i]);
    }
    for (int i = 0; i < n->n_out; i++) free(y[i]);
    return moved;
}

static bool compute(net *n)
{
    bool finite = true;
    for (int i = 0; i < n->n_out; i++) {
        n->y[i] = calloc((size_t)count_of(&n->out[i], LARGEST, n->tokens) + 1, sizeof(float));
    }
    if (run(n, LARGEST, false, n->y) != DT_OK) return false;
    for (int i = 0; i < n->n_out; i++) {
        for (int64_t j = 0; j < count_of(&n->out[i], LARGEST, n->tokens); j++) {
            finite = finite && isfinite(n->y[i][j]);
        }
    }
    return finite;
}

/* Whether each batch size gives the same bits. */
static bool same_in_batches(net *n)
{
    bool same = true;
    for (size_t b = 0; b < sizeof batches / sizeof batches[0]; b++) {
        float *y[DT_MAX_OUT];
        for (int i = 0; i < n->n_out; i++) {
            y[i] = malloc((size_t)count_of(&n->out[i], batches[b], n->tokens) * 4 + 4);
        }
        if (run(n, batches[b], false, y) != DT_OK) die(dt_error(n->ctx));
        for (int i = 0; i < n->n_out; i++) {
            const size_t bytes = (size_t)count_of(&n->out[i], batches[b], n->tokens) * 4;
            same = same && memcmp(y[i], n->y[i], bytes) == 0;
            free(y[i]);
        }
    }
    return same;
}

/* ---- files ----------------------------------------------------------------------------------- */

typedef struct notes {
    char text[4096];
} notes;

static void take_note(void *user, const char *line)
{
    notes *n = user;
    const size_t used = strlen(n->text);
    snprintf(n->text + used, sizeof n->text - used, "%s\n", line);
}

static void put_verified(FILE *f, net *n, const char *path, const char *format)
{
    dt_export_difference d[DT_MAX_OUT];
    int outs = 0;
    int64_t equal = 0, all = 0;
    double apart = 0;
    if (strcmp(format, "onnx") != 0 && strcmp(format, "tflite") != 0) return;
    if (dt_export_verify(n->m, &n->info, path, d, &outs) != DT_OK) {
        put_text(f, "unverified", dt_error(n->ctx));
        return;
    }
    for (int i = 0; i < outs; i++) {
        equal += d[i].equal;
        all += d[i].values;
        apart = fmax(apart, d[i].absolute);
    }
    fprintf(f, ", \"verified\": [%lld, %lld, %g]", (long long)equal, (long long)all, apart);
}

/* What the program reads of a file it wrote: FOLDER/NUMBER.FILE-y0 are its outputs. */
static void put_read(FILE *f, net *n, int number, const char *format, const char *path,
                     const char *folder)
{
    net read = *n;
    dt_model_info info = { 0 };
    char name[64];
    const char *kind = strrchr(path, '/') + 1;
    snprintf(name, sizeof name, "%s-y", kind);
    const bool folder_of_floats = strcmp(format, "hf") == 0;
    if ((folder_of_floats ? dt_hf_load(n->ctx, path, &read.m, &info)
                          : dt_model_load(n->ctx, path, &read.m, &info)) != DT_OK) {
        put_text(f, "unread", dt_error(n->ctx));
        return;
    }
    if (compute(&read)) {
        save(folder, number, name, 0, read.y[0],
             (size_t)count_of(&n->out[0], LARGEST, n->tokens) * sizeof(float));
        put_text(f, "read", name);
    } else {
        put_text(f, "unread", "its outputs are not finite");
    }
    free(read.y[0]);
    dt_module_free(read.m);
    dt_model_info_free(n->ctx, &info);
}

static void export_as(FILE *f, net *n, int number, const char *format, const char *form,
                      dt_export_options *o, const char *folder)
{
    dt_export_summary summary = { 0 };
    char path[4096];
    notes said = { "" };
    o->note = take_note;
    o->user = &said;
    snprintf(path, sizeof path, "%s/%d-%s%s%s.%s", folder, number, format, *form != 0 ? "-" : "",
             form, format);
    fprintf(f, "{\"net\": %d", number);
    put_text(f, "format", format);
    put_text(f, "form", form);
    if (dt_export(n->m, &n->info, format, o, path, &summary) != DT_OK) {
        put_text(f, "refused", dt_error(n->ctx));
        if (dt_error_status(n->ctx) != DT_ERR_UNSUPPORTED &&
            dt_error_status(n->ctx) != DT_ERR_ARG) {
            put_text(f, "broken", "the refusal is neither UNSUPPORTED nor ARG");
        }
    } else {
        put_text(f, "file", path);
        put_text(f, "promise", summary.promise == NULL ? "" : summary.promise);
        put_text(f, "notes", said.text);
        fprintf(f, ", \"exact\": %s, \"floats\": %s, \"changed\": %s",
                summary.exact ? "true" : "false", summary.integer_products == 0 ? "true" : "false",
                summary.changed ? "true" : "false");
        put_verified(f, n, path, format);
        if (strcmp(format, "gguf") == 0 || strcmp(format, "hf") == 0) {
            put_read(f, n, number, format, path, folder);
        }
    }
    fputs("}\n", f);
}

/* What transformers reads. */
static bool is_folder(const char *name)
{
    return strcmp(name, "hf") == 0 || strcmp(name, "compressed-tensors") == 0 ||
           strcmp(name, "torchao") == 0;
}

/* Each exporter that has a runtime here, in each form. */
static void export_all(FILE *f, net *n, int number, const char *folder)
{
    const dt_exporter *e;
    for (int i = 0; (e = dt_exporter_at(i)) != NULL; i++) {
        dt_export_options o = dt_export_defaults();
        if (strcmp(e->name, "onnx") == 0) {
            for (o.onnx_ops = 0; dt_onnx_ops[o.onnx_ops] != NULL; o.onnx_ops++) {
                export_as(f, n, number, e->name, dt_onnx_ops[o.onnx_ops], &o, folder);
            }
            o.onnx_ops = DT_ONNX_NBITS;
            o.accuracy = 4;
            export_as(f, n, number, e->name, "nbits-4", &o, folder);
        } else if (strcmp(e->name, "gguf") == 0 && n->below > 0) {
            for (o.gguf_type = 0; dt_gguf_types[o.gguf_type] != NULL; o.gguf_type++) {
                export_as(f, n, number, e->name, dt_gguf_types[o.gguf_type], &o, folder);
            }
        } else if (strcmp(e->name, "tflite") == 0 || (n->below > 0 && is_folder(e->name))) {
            export_as(f, n, number, e->name, "", &o, folder);
        }
    }
}

/* ---- a network ------------------------------------------------------------------------------- */

static void release(net *n, dt_recipe *recipe)
{
    for (int i = 0; i < n->n_in; i++) {
        free((void *)(uintptr_t)n->name[i]);
        dt_tensor_free(n->x[i]);
    }
    for (int i = 0; i < n->n_out; i++) free(n->y[i]);
    dt_module_free(n->m);
    dt_recipe_free(recipe);
}

/* Creates and trains the network; false: it must be drawn again, with the reason as the context's
 * error. */
static bool make(net *n, const dt_recipe *recipe)
{
    const dt_recipe_options *o = dt_recipe_get(recipe);
    n->info = (dt_model_info){ .family = o->model.family, .options = o->model.options };
    if (o->model.family->create(n->ctx, o->model.options, &n->m) != DT_OK) return false;
    return true;
}

static double activation_bits(const dt_recipe *recipe)
{
    dt_quant_spec w, a;
    const dt_recipe_options *o = dt_recipe_get(recipe);
    if (!o->qat.given || !dt_qat_preset(o->qat.preset, &w, &a)) return 0;
    dt_quant_apply(&a, &o->qat.activation);
    return (double)a.bits;
}

static void put_network(FILE *f, net *n, int number, const char *text, double bits)
{
    fprintf(f, "{\"net\": %d", number);
    put_text(f, "recipe", text);
    put_ends(f, n);
    fprintf(f, ", \"bits\": %g, \"same\": %s", bits, same_in_batches(n) ? "true" : "false");
    if (n->below == 0) {
        fprintf(f, ", \"last_bits\": %g", moved_by(n, 1e-6));
        fprintf(f, ", \"step\": %g", moved_by(n, 1 / (exp2(bits > 0 ? bits : 8) - 1)));
    }
    fputs("}\n", f);
}

static void save_values(const net *n, int number, const char *folder)
{
    for (int i = 0; i < n->n_in; i++) {
        save(folder, number, "x", i, dt_data(n->x[i]),
             (size_t)count_of(&n->in[i], LARGEST, n->tokens) * 4);
    }
    for (int i = 0; i < n->n_out; i++) {
        save(folder, number, "y", i, n->y[i], (size_t)count_of(&n->out[i], LARGEST, n->tokens) * 4);
    }
}

/* Whether an attempt is a result: a network whose outputs are finite or, with `last`, one that is
 * refused. */
static bool attempt(FILE *f, dt_ctx *ctx, grid_random *r, const grid_subject *of, int number,
                    const char *folder, bool last)
{
    char text[GRID_TEXT];
    dt_recipe *recipe = NULL;
    net n = { .ctx = ctx, .random = r };
    if (!grid_draw(ctx, r, of, text, &recipe)) {
        fprintf(f, "{\"net\": %d", number);
        put_text(f, "undrawn", text);
        fputs("}\n", f);
        return true;
    }
    bool done = make(&n, recipe);
    const dt_status s = !done ? DT_OK : describe(&n);
    if (done && s == DT_ERR_ARG) done = false; /* too large */
    else if (done && (s != DT_OK || make_inputs(&n) != DT_OK || train(&n, recipe) != DT_OK)) {
        if (last) {
            fprintf(f, "{\"net\": %d", number);
            put_text(f, "recipe", text);
            put_text(f, "refused", dt_error(ctx));
            fputs("}\n", f);
        }
        done = last;
    } else if (done && (done = compute(&n))) {
        put_network(f, &n, number, text, activation_bits(recipe));
        save_values(&n, number, folder);
        export_all(f, &n, number, folder);
    }
    release(&n, recipe);
    return done;
}

static void make_one(FILE *f, int number, uint64_t seed, const char *folder)
{
    dt_ctx_options options = dt_ctx_defaults();
    dt_ctx *ctx;
    grid_subject s;
    const int all = subjects();
    grid_random r = { seed * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)number };
    options.seed = seed + (uint64_t)number;
    options.threads = 1;
    if (dt_ctx_create(&ctx, &options) != DT_OK) die("no context");
    subject_of(number % all, &s);
    set_arithmetic(&s, number / all % arithmetics());
    fprintf(f, "{\"net\": %d, \"subject\": \"%s\", \"arithmetic\": \"%s\"}\n", number,
            s.layer != NULL  ? s.layer->name
            : s.base != NULL ? s.base->name
                             : s.family->name,
            s.key == NULL ? "float" : s.value);
    bool done = false;
    for (int i = 0; i < MOST_ATTEMPTS && !done; i++) {
        done = attempt(f, ctx, &r, &s, number, folder, i >= ATTEMPTS);
    }
    if (!done) {
        fprintf(f, "{\"net\": %d", number);
        put_text(f, "undrawn", dt_error(ctx));
        fputs("}\n", f);
    }
    fflush(f);
    dt_ctx_free(ctx);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "count") == 0) {
        printf("%d\n", subjects() * arithmetics());
        return 0;
    }
    if (argc != 6) die("FOLDER FIRST STEP COUNT SEED");
    char path[4096];
    const int first = atoi(argv[2]), step = atoi(argv[3]), count = atoi(argv[4]);
    snprintf(path, sizeof path, "%s/%d.jsonl", argv[1], first);
    FILE *f = fopen(path, "w");
    if (f == NULL || step < 1) die(path);
    for (int i = first; i < count; i += step) make_one(f, i, strtoull(argv[5], NULL, 10), argv[1]);
    return fclose(f) == 0 ? 0 : 2;
}
