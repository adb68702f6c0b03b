/* Reads golden/rounding and compares as its README describes. */
#include "rounding_golden.h"

#include "core/tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- settings ------------------------------------------------------------------------------- */

/* Behind "key=" in the words of `text`; NULL. */
static const char *find(const char *text, const char *key)
{
    const size_t n = strlen(key);
    for (const char *at = text; at != NULL && *at != '\0';) {
        if (strncmp(at, key, n) == 0 && at[n] == '=') return at + n + 1;
        at = strchr(at, ' ');
        if (at != NULL) at++;
    }
    return NULL;
}

static int64_t integer(const char *text, const char *key)
{
    const char *at = find(text, key);
    return at == NULL ? 0 : strtoll(at, NULL, 10);
}

static void pair(const char *text, const char *key, int64_t out[2])
{
    char *end;
    const char *at = find(text, key);
    out[0] = strtoll(at, &end, 10);
    out[1] = strtoll(end + 1, NULL, 10);
}

static bool is(const char *text, const char *key, const char *value)
{
    const char *at = find(text, key);
    const size_t n = strlen(value);
    return at != NULL && strncmp(at, value, n) == 0 && (at[n] == ' ' || at[n] == '\0');
}

/* The index of the setting among names; 0 where it is not given. */
static int choice(const char *text, const char *key, const char *const *names)
{
    for (int i = 0; names[i] != NULL; i++) {
        if (is(text, key, names[i])) return i;
    }
    ck_assert_msg(find(text, key) == NULL, "%s: no %s that is known", text, key);
    return 0;
}

double rounding_number(const rounding_case *c, const char *key)
{
    const char *at = find(c->text, key);
    double most = NAN;
    for (char *end; at != NULL && *at != ' ' && *at != '\0'; at = *end == ',' ? end + 1 : end) {
        most = fmax(most, strtod(at, &end)); /* NaN gives way */
        if (end == at) break;
    }
    return most;
}

bool rounding_is(const rounding_case *c, const char *key, const char *value)
{
    return is(c->text, key, value);
}

/* ---- a layer -------------------------------------------------------------------------------- */

static void *copy_entry(const dt_file *file, const char *name)
{
    const dt_file_entry *e = dt_file_find(file, name);
    if (e == NULL) return NULL;
    void *copy = malloc(e->bytes + 1);
    ck_assert(copy != NULL);
    memcpy(copy, e->data, e->bytes);
    return copy;
}

static dt_tensor *load(const rounding_layer *l, const char *name)
{
    dt_tensor *x = NULL;
    if (dt_file_find(l->file, name) != NULL) {
        TEST_OK(l->ctx, dt_file_load(l->file, name, DT_F32, &x));
    }
    return x;
}

static dt_weight_op op_of(const char *text)
{
    dt_weight_op op = { .kind = DT_WEIGHT_LINEAR, .conv = dt_conv_defaults() };
    if (is(text, "kind", "linear")) return op;
    op.kind = is(text, "kind", "conv") ? DT_WEIGHT_CONV2D : DT_WEIGHT_CONV_TRANSPOSE2D;
    op.conv.groups = integer(text, "groups");
    pair(text, "stride", op.conv.stride);
    pair(text, "pad", op.conv.padding);
    pair(text, "dil", op.conv.dilation);
    pair(text, "outpad", op.conv.output_padding);
    return op;
}

/* Column k of group g and sample s of the float model's inputs. */
static double input(const rounding_layer *l, const float *unfolded, int64_t at, int64_t s)
{
    return unfolded != NULL ? unfolded[at * l->n + s]
                            : ((const float *)dt_data(l->x))[s * l->columns + at];
}

/* Sums of x x^T, which the file lacks. */
static void add_up(rounding_layer *l)
{
    const int64_t packed = l->columns * (l->columns + 1) / 2;
    float *unfolded = copy_entry(l->file, "X");
    double *to = l->c = calloc((size_t)(l->groups * packed), sizeof *l->c);
    for (int64_t g = 0; g < l->groups; g++) {
        for (int64_t i = 0; i < l->columns; i++) {
            for (int64_t j = 0; j <= i; j++, to++) {
                for (int64_t s = 0; s < l->n; s++) {
                    *to += input(l, unfolded, g * l->columns + i, s) *
                           input(l, unfolded, g * l->columns + j, s);
                }
            }
        }
    }
    free(unfolded);
}

bool rounding_open(dt_ctx *ctx, const char *name, rounding_layer *l)
{
    char path[TEST_PATH], file[64];
    snprintf(file, sizeof file, "rounding/%s.safetensors", name);
    *l = (rounding_layer){ .ctx = ctx, .name = name };
    if (!test_golden(path, file)) return false;
    TEST_OK(ctx, dt_file_open(ctx, path, &l->file));
    l->w = load(l, "w");
    if (l->w == NULL) { /* helpers: none of a layer */
        dt_file_close(l->file);
        return false;
    }
    l->x = load(l, "x");
    l->xq = load(l, "xq");
    const char *text = dt_file_meta(l->file, "layer");
    l->n = 2;
    l->groups = 1;
    l->rows = dt_dim(l->w, 0);
    l->columns = l->w->count / l->rows;
    if (text == NULL) return true; /* not_positive */
    l->op = op_of(text);
    l->n = integer(text, "n");
    l->rows = integer(text, "rows");
    l->columns = integer(text, "K");
    l->groups = integer(text, "groups");
    l->h = copy_entry(l->file, "H");
    l->g = copy_entry(l->file, "G");
    add_up(l);
    return true;
}

void rounding_close(rounding_layer *l)
{
    dt_tensor_free(l->w);
    dt_tensor_free(l->x);
    dt_tensor_free(l->xq);
    free(l->h);
    free(l->g);
    free(l->c);
    dt_file_close(l->file);
}

/* ---- a case --------------------------------------------------------------------------------- */

static dt_quant_spec quant_of(const char *text)
{
    static const char *const rules[] = { "symmetric", "symmetric_no_clip", "asymmetric", NULL };
    static const char *const grans[] = { "tensor", "channel", "group", NULL };
    dt_quant_spec q = dt_weight_quant_defaults();
    q.scheme = choice(text, "rule", rules);
    q.granularity = choice(text, "gran", grans);
    q.bits = integer(text, "bits");
    q.group_size = integer(text, "group");
    return q;
}

static dt_rounding_options options_of(const char *text)
{
    static const char *const rounders[] = { "nearest", "gptq",   "gpfq",     "qronos",
                                            "a2gptq",  "a2gpfq", "a2qronos", NULL };
    static const char *const orders[] = { "none", "weight", "group", NULL };
    static const char *const means[] = { "live", "all", NULL };
    dt_rounding_options o = dt_rounding_defaults();
    o.rounder = choice(text, "alg", rounders);
    o.rounding.order = choice(text, "order", orders);
    o.rounding.damping_mean = choice(text, "mean", means);
    o.rounding.block = integer(text, "block");
    o.rounding.keep_better = false;
    o.rounding.keep_zeros = integer(text, "keep_zeros") != 0;
    o.rounding.group_scales = (int)integer(text, "refresh");
    if (find(text, "lam") != NULL) o.rounding.damping = strtod(find(text, "lam"), NULL);
    if (find(text, "alpha") != NULL) o.rounding.alpha = strtod(find(text, "alpha"), NULL);
    if (find(text, "P") == NULL) return o;
    o.accumulator.bits = integer(text, "P");
    o.accumulator.tile = integer(text, "tile");
    o.accumulator.input = (dt_ints){ 2, { integer(text, "a"), integer(text, "b") } };
    o.accumulator.soft_threshold = integer(text, "soft") != 0;
    return o;
}

static void *part(const rounding_case *c, const char *name)
{
    char path[32];
    snprintf(path, sizeof path, "%s.%s", c->name, name);
    return copy_entry(c->layer->file, path);
}

bool rounding_case_at(const rounding_layer *l, int i, rounding_case *c)
{
    char path[32];
    *c = (rounding_case){ .layer = l };
    snprintf(c->name, sizeof c->name, "c%03d", i);
    c->text = dt_file_meta(l->file, c->name);
    if (c->text == NULL) return false;
    c->quant = quant_of(c->text);
    c->options = options_of(c->text);
    c->codes = part(c, "codes");
    c->zero = part(c, "zp");
    c->scale = part(c, "scale");
    c->theta = part(c, "theta");
    c->near = part(c, "near");
    c->perm = part(c, "perm");
    c->g_idx = part(c, "g_idx");
    c->h = part(c, "H");
    snprintf(path, sizeof path, "%s.scale", c->name);
    c->scales = dt_file_find(l->file, path)->dims[1];
    return true;
}

void rounding_case_free(rounding_case *c)
{
    free(c->codes);
    free(c->zero);
    free(c->scale);
    free(c->theta);
    free(c->near);
    free(c->perm);
    free(c->g_idx);
    free(c->h);
}

static double *copy_sums(const double *from, int64_t n)
{
    double *to = malloc((size_t)n * sizeof *to);
    ck_assert(to != NULL);
    memcpy(to, from, (size_t)n * sizeof *to);
    return to;
}

void rounding_statistics(const rounding_case *c, bool differ, dt_statistics *s)
{
    const rounding_layer *l = c->layer;
    const int64_t size = l->columns, square = size * size, packed = size * (size + 1) / 2;
    *s = (dt_statistics){ .ctx = l->ctx };
    TEST_OK(l->ctx, dt__unfolding_of(l->ctx, &l->op, l->w->rank, l->w->dims, &s->layer));
    s->moments = calloc((size_t)l->groups, sizeof *s->moments);
    for (int64_t g = 0; g < l->groups; g++) {
        dt__moments *m = &s->moments[g];
        m->size = size;
        m->n = l->n;
        m->h = copy_sums(c->h != NULL ? c->h : l->h + g * square, square);
        if (!differ) continue;
        m->g = copy_sums(l->g + g * square, square);
        m->c = copy_sums(l->c + g * packed, packed);
    }
}

void rounding_statistics_free(dt_statistics *s)
{
    for (int64_t g = 0; g < s->layer.groups; g++) {
        free(s->moments[g].h);
        free(s->moments[g].g);
        free(s->moments[g].c);
    }
    free(s->moments);
}

dt_status rounding_run(const rounding_case *c, dt_rounded **out, dt_round_report *report)
{
    dt_statistics s = { .ctx = NULL };
    const bool data = c->options.rounder != DT_ROUND_NEAREST;
    if (data) rounding_statistics(c, c->h == NULL, &s);
    const dt_round_work work = { .name = c->layer->name,
                                 .weight = c->layer->w,
                                 .op = &c->layer->op,
                                 .quant = &c->quant,
                                 .options = &c->options,
                                 .statistics = data ? &s : NULL };
    const dt_status status = dt_round(c->layer->ctx, &work, out, report);
    rounding_statistics_free(&s);
    return status;
}

/* The first difference of a row in processing order, as a column; -1. */
static int64_t first_difference(const rounding_case *c, const int8_t *codes, int64_t row)
{
    const int64_t columns = c->layer->columns, of_group = c->layer->rows / c->layer->groups;
    const int32_t *perm = c->perm == NULL ? NULL : c->perm + row / of_group * columns;
    for (int64_t j = 0; j < columns; j++) {
        const int64_t column = perm == NULL ? j : perm[j];
        if (codes[row * columns + column] != c->codes[row * columns + column]) return column;
    }
    return -1;
}

void rounding_compare(const rounding_case *c, const dt_rounded *got, int near,
                      rounding_tally *tally)
{
    const rounding_layer *l = c->layer;
    ck_assert_int_eq(got->rows, l->rows);
    ck_assert_int_eq(got->columns, l->columns);
    ck_assert_int_eq(got->groups, c->scales);
    const size_t scales = (size_t)(l->rows * c->scales);
    TEST_EACH(memcmp(got->scale, c->scale, scales * sizeof(float)) == 0, "%s %s: other scales",
              l->name, c->name);
    TEST_EACH((got->zero_point == NULL) == (c->zero == NULL), "%s %s: zero points", l->name,
              c->name);
    TEST_EACH(c->zero == NULL || memcmp(got->zero_point, c->zero, scales) == 0,
              "%s %s: other zero points", l->name, c->name);
    TEST_EACH((got->group_of == NULL) == (c->g_idx == NULL), "%s %s: g_idx", l->name, c->name);
    TEST_EACH(c->g_idx == NULL || memcmp(got->group_of, c->g_idx,
                                         (size_t)(l->groups * l->columns) * sizeof(int32_t)) == 0,
              "%s %s: another g_idx", l->name, c->name);
    for (int64_t row = 0; row < l->rows; row++) {
        const int64_t column = first_difference(c, got->codes, row);
        tally->rows++;
        if (column < 0) continue;
        const bool tie = c->near != NULL && c->near[row * l->columns + column] >= near;
        tally->ties += tie;
        tally->wrong += !tie;
        if (!tie) {
            printf("rounding: %s %s: row %lld, column %lld: %d, not %d\n", l->name, c->name,
                   (long long)row, (long long)column, got->codes[row * l->columns + column],
                   c->codes[row * l->columns + column]);
        }
    }
}
