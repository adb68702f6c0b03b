/* Compares ops with reference values. Their settings are read through the op's own table of
 * keys. */
#include "ops_run.h"

#include <detent/experimental/io.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct golden {
    const dt_op *op;
    dt_ctx *ctx;
    dt_tape *t;
    dt_file *file;
    const char *c; /* the case: "c0" */
    dt_dtype real;
    union { /* aligned for any options */
        double align;
        char bytes[4096];
    } options;
    dt_tensor *in[DT_MAX_IN];
    int n;
    double most_up; /* max |upstream gradient| */
    int compared, failures;
} golden;

static const char *setting(const golden *g, const char *name)
{
    char key[128];
    snprintf(key, sizeof key, "%s.%s", g->c, name);
    return dt_file_meta(g->file, key);
}

static void complain(golden *g, const char *what)
{
    printf("ops: %s golden %s %s: %s\n", g->op->name, g->c, dt_dtype_name(g->real), what);
    g->failures++;
}

/* The optimizers' files hold several steps a case. */
static bool is_step(const dt_op *op) { return strstr(op->name, "_step_") != NULL; }

/* ---- settings -------------------------------------------------------------------------------- */

static void read_ints(const char *text, dt_ints *out)
{
    out->n = 0;
    for (char *end; *text != '\0' && strcmp(text, "all") != 0; text = *end == ',' ? end + 1 : end) {
        out->v[out->n++] = strtoll(text, &end, 10);
    }
}

/* One number for an op of one dimension. */
static void read_pair(const char *text, int64_t *out)
{
    dt_ints list;
    read_ints(text, &list);
    for (int i = 0; i < list.n && i < 2; i++) out[i] = list.v[i];
}

static bool fill(const dt_key *key, const char *text, char *options)
{
    void *field = options + key->offset;
    int choice = 0;
    switch (key->type) {
    case DT_KEY_BOOL: *(bool *)field = strcmp(text, "true") == 0; return true;
    case DT_KEY_INT: *(int64_t *)field = strtoll(text, NULL, 10); return true;
    case DT_KEY_REAL: *(double *)field = strtod(text, NULL); return true;
    case DT_KEY_INTS: read_ints(text, field); return true;
    case DT_KEY_PAIR: read_pair(text, field); return true;
    case DT_KEY_CHOICE:
        while (key->choices[choice] != NULL && strcmp(key->choices[choice], text) != 0) choice++;
        *(int *)field = choice;
        return key->choices[choice] != NULL;
    default: return false;
    }
}

static void read_options(golden *g)
{
    const size_t prefix = strlen(g->c) + 1;
    memset(g->options.bytes, 0, sizeof g->options.bytes);
    if (g->op->options_size > 0) {
        memcpy(g->options.bytes, g->op->defaults, g->op->options_size);
    }
    const char *name, *value;
    for (int64_t i = 0; dt_file_meta_at(g->file, i, &name, &value); i++) {
        if (strncmp(name, g->c, prefix - 1) != 0 || name[prefix - 1] != '.') continue;
        name += prefix;
        if (strcmp(name, "note") == 0 || (is_step(g->op) && strcmp(name, "steps") == 0)) continue;
        const dt_key *key = g->op->keys;
        while (key != NULL && key->name != NULL && strcmp(key->name, name) != 0) key++;
        if (key == NULL || key->name == NULL || !fill(key, value, g->options.bytes)) {
            complain(g, name);
        }
    }
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* "c0.<part>.<name><number>"; a number below 0 is left out. NULL where the file has none. */
static dt_tensor *load(const golden *g, const char *part, const char *name, int number)
{
    char path[128], digits[12] = "";
    if (number >= 0) snprintf(digits, sizeof digits, "%d", number);
    snprintf(path, sizeof path, "%s.%s.%s%s", g->c, part, name, digits);
    const dt_file_entry *e = dt_file_find(g->file, path);
    if (e == NULL) return NULL;
    dt_tensor *x;
    const bool reference = part[0] != 'i' && part[0] != 'u'; /* the expected values stay exact */
    const dt_dtype integer = strcmp(e->dtype, "U8") == 0 ? DT_U8 : DT_I32;
    const dt_dtype dtype = strcmp(e->dtype, "F64") != 0 ? integer : reference ? DT_F64 : g->real;
    TEST_OK(g->ctx, dt_file_load(g->file, path, dtype, &x));
    return x;
}

static double most_of(const dt_tensor *x)
{
    double most = 0;
    for (int64_t e = 0; e < x->count; e++) most = fmax(most, fabs(ops_at(x, e)));
    return most;
}

/* The tolerances of the README; two cases are deliberately ill-conditioned in f32. */
static void compare(golden *g, const char *what, const dt_tensor *got, dt_tensor *want)
{
    double relative = 1e-10, absolute = 1e-13 * fmax(1, g->most_up);
    if (g->real == DT_F32) {
        const bool hard = (strcmp(g->op->name, "layer_norm") == 0 && strcmp(g->c, "c3") == 0) ||
                          (strcmp(g->op->name, "attention") == 0 && strcmp(g->c, "c6") == 0);
        relative = hard ? 1e-3 : what[0] == 'g' ? 1e-4 : 1e-5;
        absolute = 1e-6;
    }
    bool near = got != NULL && dt__same_dims(got, want);
    if (near) {
        const ops_values a = ops_read(got), b = ops_read(want);
        near = ops_near(a, b, relative, absolute);
        free(a.v);
        free(b.v);
    }
    if (!near) complain(g, what);
    g->compared++;
    dt_tensor_free(want);
}

static void compare_gradients(golden *g)
{
    for (int i = 0; i < g->n; i++) {
        const char *name = g->op->in_name[i];
        dt_tensor *want = load(g, "alt", name, -1); /* clamp passes gradients on its bounds */
        dt_tensor *other = load(g, "grad", name, -1);
        if (want == NULL) want = other;
        else dt_tensor_free(other);
        if (want != NULL) compare(g, "gradient", dt_grad(g->in[i]), want);
    }
}

static void load_operands(golden *g)
{
    g->n = 0;
    for (int i = 0; i < DT_MAX_IN && g->op->in_name[i] != NULL; i++) {
        dt_tensor *x = load(g, "in", g->op->in_name[i], -1);
        if (x == NULL && !g->op->optional[i]) break;
        if (x != NULL && dt__is_float(x->dtype) && g->op->role[i] != DT_WRITE &&
            g->op->backward != NULL && !g->op->undifferentiable[i]) {
            TEST_OK(g->ctx, dt_set_requires_grad(x, true));
        }
        g->in[g->n++] = x;
    }
}

/* A result that the op makes only if a key of its name says so. */
static void ask_for(golden *g, const char *result)
{
    const dt_key *key = g->op->keys;
    while (key != NULL && key->name != NULL && strcmp(key->name, result) != 0) key++;
    if (key != NULL && key->name != NULL) *(bool *)(void *)(g->options.bytes + key->offset) = true;
}

static void compare_others(golden *g, dt_tensor *const *out)
{
    for (int i = 1; i < DT_MAX_OUT && g->op->out_name[i] != NULL; i++) {
        dt_tensor *want = load(g, "out", g->op->out_name[i], -1);
        if (want != NULL) compare(g, g->op->out_name[i], out[i], want);
    }
}

static void run_plain(golden *g)
{
    load_operands(g);
    const char *result = g->op->out_name[0];
    for (int i = 1; i < DT_MAX_OUT && g->op->out_name[i] != NULL; i++) {
        ask_for(g, g->op->out_name[i]);
    }
    dt_tensor *out[DT_MAX_OUT] = { NULL };
    dt_apply_n(g->t, g->op, g->in, g->n, g->options.bytes, out, DT_MAX_OUT);
    dt_tensor *y = out[0];
    dt_tensor *want = load(g, "out", result, -1), *up = load(g, "up", result, -1);
    if (y == NULL || want == NULL) {
        complain(g, y == NULL ? dt_error(g->ctx) : "no result in the file");
        dt_tensor_free(want);
    } else {
        g->most_up = up != NULL ? most_of(up) : 0;
        compare(g, "output", y, want);
        compare_others(g, out);
        for (int i = 0; i < g->n; i++) {
            want = load(g, "out", g->op->in_name[i], -1);
            if (want != NULL) compare(g, "operand", g->in[i], want);
        }
        if (up != NULL && dt_requires_grad(y)) {
            if (dt_backward(g->t, y, up) != DT_OK) complain(g, dt_error(g->ctx));
            compare_gradients(g);
        }
    }
    dt_tensor_free(up);
}

/* The optimizers' steps: each step continues with p and the states of the one before. */
static void run_steps(golden *g)
{
    const int steps = atoi(setting(g, "steps"));
    const dt_key *key = g->op->keys;
    while (strcmp(key->name, "step") != 0) key++;
    dt_tensor *p = load(g, "in", "p", -1);
    while (g->op->in_name[g->n] != NULL) {
        TEST_OK(g->ctx, dt_tensor_create(g->ctx, g->real, p->rank, p->dims, &g->in[g->n++]));
    }
    dt_copy_(g->t, g->in[0], p);
    dt_tensor_free(p);
    for (int step = 1; step <= steps; step++) {
        *(int64_t *)(void *)(g->options.bytes + key->offset) = step;
        dt_tensor_free(g->in[1]);
        g->in[1] = load(g, "in", "g", step - 1);
        if (dt_apply(g->t, g->op, g->in, g->n, g->options.bytes) == NULL) {
            complain(g, dt_error(g->ctx));
            return;
        }
        for (int i = 0; i < g->n; i++) {
            const char *name = g->op->in_name[i];
            dt_tensor *want = load(g, "out", strcmp(name, "buffer") == 0 ? "buf" : name, step);
            if (want != NULL) compare(g, name, g->in[i], want);
        }
    }
}

static void run_case(golden *g)
{
    TEST_OK(g->ctx, dt_tape_create(g->ctx, &g->t));
    g->n = 0;
    g->most_up = 0;
    read_options(g);
    if (is_step(g->op)) run_steps(g);
    else run_plain(g);
    for (int i = 0; i < g->n; i++) dt_tensor_free(g->in[i]);
    dt_tape_free(g->t);
}

/* A missing file is not a skip: the op's cases must then have values. */
static bool find_file(char path[TEST_PATH], const char *name)
{
    if (!test_golden(path, "ops")) return false;
    test_join(path, path, name);
    if (test_file_exists(path)) return true;
    test_join(path, DETENT_SOURCE_DIR "/tests/golden/ops", name);
    return test_file_exists(path);
}

int ops_golden(const dt_op *op, int *cases, int *compared)
{
    char name[64], path[TEST_PATH], list[512];
    const size_t length = strlen(op->name) - is_step(op);
    golden g = { .op = op };
    if (op->random || (!is_step(op) && op->backward == NULL)) return 0;
    snprintf(name, sizeof name, "%.*s.safetensors", (int)length, op->name);
    if (!find_file(path, name)) return 0;
    TEST_OK(NULL, dt_ctx_create(&g.ctx, NULL));
    TEST_OK(g.ctx, dt_file_open(g.ctx, path, &g.file));
    snprintf(list, sizeof list, "%s", dt_file_meta(g.file, "cases"));
    for (g.c = strtok(list, ","); g.c != NULL; g.c = strtok(NULL, ",")) {
        const int before = g.failures, had = g.compared;
        for (int real = DT_F32; real <= DT_F64; real++) {
            g.real = (dt_dtype)real;
            run_case(&g);
        }
        printf("%-14s golden %-16s %3d values  %s\n", op->name, g.c, g.compared - had,
               g.failures == before ? "ok" : "FAIL");
        ++*cases;
    }
    dt_file_close(g.file);
    dt_ctx_free(g.ctx);
    *compared += g.compared;
    return g.failures;
}
