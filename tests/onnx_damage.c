/* Changes nodes, one at a time. Memory for a change is static: a model is serialized before the
 * next one is made. */
#include "onnx_damage.h"

#include "testing.h"

#include "core/text/byte_order.h"
#include "core/core.h"

#include <math.h>
#include <stdio.h>

#define BIG ((int64_t)1 << 40)

const onnx_case onnx_cases[] = {
#include "onnx_cases.inc"
};
const int onnx_case_count = sizeof onnx_cases / sizeof *onnx_cases;

/* Counts changes down to the one that is wanted. */
typedef struct change {
    int64_t left;
    bool done;
} change;

static bool turn(change *c)
{
    if (c->done || c->left < 0 || c->left-- > 0) return false;
    c->done = true;
    return true;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static const struct {
    int type, bits;
} types[] = {
    { 1, 32 },  { 2, 8 },  { 3, 8 },  { 6, 32 }, { 7, 64 }, { 9, 8 },
    { 11, 64 }, { 21, 4 }, { 22, 4 }, { 25, 2 }, { 26, 2 },
};

static int bits_of(int type)
{
    for (int i = 0; i < DT__COUNT_OF(types); i++) {
        if (types[i].type == type) return types[i].bits;
    }
    return 0;
}

/* Data of a tensor's new type and extents: its bytes again, or zeros. */
static void fill(DtOnnx__Tensor *t)
{
    static unsigned char room[1 << 16];
    size_t n = 1;
    for (size_t d = 0; d < t->n_dims; d++) n *= (size_t)t->dims[d];
    const size_t bytes = (n * (size_t)bits_of(t->data_type) + 7) / 8;
    if (bytes > sizeof room) return;
    memset(room, 0, bytes);
    memcpy(room, t->raw_data.data, bytes < t->raw_data.len ? bytes : t->raw_data.len);
    t->raw_data = (ProtobufCBinaryData){ bytes, room };
}

static void set_numbers(DtOnnx__Tensor *t, double value)
{
    const int bits = bits_of(t->data_type);
    const float narrow = (float)value;
    const int64_t whole = isfinite(value) ? (int64_t)value : INT64_MIN;
    const size_t n = t->raw_data.len * 8 / (size_t)bits;
    for (size_t i = 0; i < n && bits >= 8; i++) {
        unsigned char *to = t->raw_data.data + i * (size_t)bits / 8;
        const bool is_real = t->data_type == 1 || t->data_type == 11;
        if (t->data_type == 1) dt__copy_little(to, &narrow, sizeof narrow);
        if (t->data_type == 11) dt__copy_little(to, &value, sizeof value);
        for (int b = 0; b < bits / 8 && !is_real; b++) to[b] = (unsigned char)(whole >> (8 * b));
    }
}

static void change_extents(DtOnnx__Tensor *t, change *c)
{
    static int64_t dims[16];
    const size_t n = t->n_dims;
    memset(dims, 0, sizeof dims);
    memcpy(dims, t->dims, n * sizeof *dims);
    t->dims = dims;
    for (size_t d = 0; d < n; d++) {
        const int64_t others[] = { 0, dims[d] + 1, 2 * dims[d], dims[d] - 1 };
        for (int k = 0; k < DT__COUNT_OF(others) && !c->done; k++) {
            if (others[k] < 0 || !turn(c)) continue;
            dims[d] = others[k];
            fill(t);
            return;
        }
    }
    for (size_t more = 1; more <= 8 && !c->done; more += 7) { /* dimensions of 1 in front */
        if (!turn(c)) continue;
        memmove(dims + more, dims, n * sizeof *dims);
        for (size_t d = 0; d < more; d++) dims[d] = 1;
        t->n_dims = n + more;
        return;
    }
    if (n > 0 && turn(c)) { /* one fewer */
        if (n > 1) dims[1] *= dims[0];
        memmove(dims, dims + 1, (n - 1) * sizeof *dims);
        t->n_dims = n - 1;
        fill(t);
    }
    if (turn(c)) {
        t->n_dims = 0;
        fill(t);
    }
}

static void change_tensor(DtOnnx__Tensor *t, change *c)
{
    static const double numbers[] = { 0, -1, 1, 2, -9, 100, 1e12, -1e12, NAN };
    for (int i = 0; i < DT__COUNT_OF(types) && !c->done; i++) {
        if (!turn(c)) continue;
        t->data_type = types[i].type;
        fill(t);
    }
    for (int i = 0; i < DT__COUNT_OF(numbers) && !c->done; i++) {
        if (turn(c)) set_numbers(t, numbers[i]);
    }
    if (!c->done) change_extents(t, c);
}

static void change_inputs(DtOnnx__Graph *g, change *c)
{
    DtOnnx__Node *node = g->node[0];
    for (size_t i = 0; i < node->n_input && !c->done; i++) {
        if (turn(c)) node->input[i] = "";
    }
    for (size_t i = 0; i < node->n_input && !c->done; i++) {
        if (turn(c)) node->n_input = i;
    }
    for (size_t i = 0; i < g->n_initializer && !c->done; i++) change_tensor(g->initializer[i], c);
}

/* ---- attributes ------------------------------------------------------------------------------ */

static void change_list(DtOnnx__Attribute *a, change *c)
{
    static const int64_t numbers[] = { -9, -1, 0, 1, 2, 3, BIG };
    static int64_t longer[20];
    const size_t n = a->n_ints, lengths[] = { 0, n - 1, n + 1, 20 };
    memset(longer, 0, sizeof longer);
    memcpy(longer, a->ints, n * sizeof *longer);
    a->ints = longer;
    for (int i = 0; i < DT__COUNT_OF(lengths) && n > 0 && !c->done; i++) {
        if (turn(c)) a->n_ints = lengths[i];
    }
    for (size_t i = 0; i < n && !c->done; i++) {
        for (int k = 0; k < DT__COUNT_OF(numbers) && !c->done; k++) {
            if (turn(c)) longer[i] = numbers[k];
        }
    }
}

static void change_value(DtOnnx__Attribute *a, change *c)
{
    static const int64_t wholes[] = { -9, -2, -1, 0, 1, 2, 3, 4, 5, 16, 100, BIG };
    static const float reals[] = { 0, -1, 1e30f, NAN };
    static char text[400];
    static const size_t lengths[] = { 0, 1, 300 };
    memset(text, 'x', sizeof text);
    for (int i = 0; i < DT__COUNT_OF(wholes) && a->type == 2 && !c->done; i++) {
        if (turn(c)) a->i = wholes[i];
    }
    for (int i = 0; i < DT__COUNT_OF(reals) && a->type == 1 && !c->done; i++) {
        if (turn(c)) a->f = reals[i];
    }
    for (int i = 0; i < DT__COUNT_OF(lengths) && a->type == 3 && !c->done; i++) {
        if (turn(c)) a->s = (ProtobufCBinaryData){ lengths[i], (unsigned char *)text };
    }
    if (a->type == 7) change_list(a, c);
    if (a->type == 4) change_tensor(a->t, c);
    for (int type = 1; type <= 8 && !c->done; type++) {
        if (!turn(c)) continue;
        a->type = type;
        a->t = NULL;
    }
}

static void change_attributes(DtOnnx__Node *node, change *c)
{
    for (size_t i = 0; i < node->n_attribute && !c->done; i++) {
        if (turn(c)) {
            node->attribute[i] = node->attribute[--node->n_attribute];
            return;
        }
        change_value(node->attribute[i], c);
    }
}

/* Attributes that can be added to a node: an integer, or a text. */
static const struct {
    const char *name, *text;
    int64_t whole;
} more[] = {
    { "axis", NULL, -9 },
    { "axis", NULL, -1 },
    { "axis", NULL, 1 },
    { "axis", NULL, 9 },
    { "keepdims", NULL, 0 },
    { "noop_with_empty_axes", NULL, 1 },
    { "allowzero", NULL, 1 },
    { "group", NULL, 0 },
    { "group", NULL, 2 },
    { "auto_pad", "SAME_UPPER", 0 },
    { "auto_pad", "SAME_LOWER", 0 },
    { "auto_pad", "VALID", 0 },
    { "auto_pad", "NOTSET", 0 },
    { "auto_pad", "OTHER", 0 },
    { "ceil_mode", NULL, 1 },
    { "count_include_pad", NULL, 1 },
    { "mode", "linear", 0 },
    { "mode", "nearest", 0 },
    { "mode", "cubic", 0 },
    { "mode", "edge", 0 },
    { "mode", "reflect", 0 },
    { "mode", "wrap", 0 },
    { "nearest_mode", "floor", 0 },
    { "nearest_mode", "ceil", 0 },
    { "nearest_mode", "round_prefer_ceil", 0 },
    { "nearest_mode", "round_prefer_floor", 0 },
    { "coordinate_transformation_mode", "align_corners", 0 },
    { "coordinate_transformation_mode", "asymmetric", 0 },
    { "coordinate_transformation_mode", "pytorch_half_pixel", 0 },
    { "coordinate_transformation_mode", "half_pixel", 0 },
    { "coordinate_transformation_mode", "tf_crop_and_resize", 0 },
    { "select_last_index", NULL, 1 },
    { "largest", NULL, 0 },
    { "sorted", NULL, 0 },
    { "exclusive", NULL, 1 },
    { "reverse", NULL, 1 },
    { "transA", NULL, 1 },
    { "transB", NULL, 1 },
    { "batch_dims", NULL, -9 },
    { "batch_dims", NULL, 1 },
    { "batch_dims", NULL, 9 },
    { "reduction", "add", 0 },
    { "reduction", "other", 0 },
    { "num_outputs", NULL, 2 },
    { "num_outputs", NULL, 0 },
    { "training_mode", NULL, 1 },
    { "stash_type", NULL, 9 },
    { "block_size", NULL, 2 },
    { "block_size", NULL, 3 },
    { "output_dtype", NULL, 3 },
    { "saturate", NULL, 0 },
    { "direction", "reverse", 0 },
    { "direction", "bidirectional", 0 },
    { "layout", NULL, 1 },
    { "upper", NULL, 0 },
    { "fmod", NULL, 1 },
    { "approximate", "tanh", 0 },
    { "approximate", "other", 0 },
    { "start", NULL, 1 },
    { "end", NULL, -1 },
    { "an attribute that nobody knows", NULL, 1 },
};

static void add_attribute(DtOnnx__Node *node, change *c)
{
    static DtOnnx__Attribute a;
    for (int i = 0; i < DT__COUNT_OF(more) && node->n_attribute < 15 && !c->done; i++) {
        if (!turn(c)) continue;
        a = (DtOnnx__Attribute)DT_ONNX__ATTRIBUTE__INIT;
        a.name = (char *)(uintptr_t)more[i].name;
        a.type = more[i].text == NULL ? 2 : 3;
        a.i = more[i].whole;
        if (more[i].text != NULL) {
            a.s = (ProtobufCBinaryData){ strlen(more[i].text),
                                         (unsigned char *)(uintptr_t)more[i].text };
        }
        node->attribute[node->n_attribute++] = &a;
    }
}

/* ---- outputs --------------------------------------------------------------------------------- */

static void change_outputs(DtOnnx__Graph *g, change *c)
{
    DtOnnx__Node *node = g->node[0];
    static char *names[4];
    if (turn(c)) node->n_output = 0;
    for (size_t n = 1; n <= 3 && !c->done; n++) {
        if (!turn(c)) continue;
        names[0] = node->output[0];
        names[1] = "y one";
        names[2] = "y two";
        node->output = names;
        node->n_output = n;
    }
    for (size_t i = 0; i < node->n_output && !c->done; i++) {
        if (turn(c)) node->output[i] = "";
    }
}

DtOnnx__Model *onnx_damaged(const onnx_case *c, int constant, int64_t k)
{
    static char text[ONNX_VALUES][1 << 13];
    change of = { .left = k };
    onnx_case copy = *c;
    for (int i = constant; i < ONNX_VALUES && c->in[i] != NULL; i++) {
        if (*c->in[i] == '=' || *c->in[i] == '-') continue;
        snprintf(text[i], sizeof text[i], "=%s", c->in[i]);
        copy.in[i] = text[i];
    }
    DtOnnx__Model *m = onnx_model(&copy);
    change_inputs(m->graph, &of);
    if (!of.done) change_attributes(m->graph->node[0], &of);
    if (!of.done) add_attribute(m->graph->node[0], &of);
    if (!of.done) change_outputs(m->graph, &of);
    return of.done || k < 0 ? m : NULL;
}
