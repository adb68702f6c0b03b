/* Checks the numbers of inputs and outputs of a node, and its attributes with their types and
 * values, by the table of onnx_operators.inc. Whatever the table lacks is refused, so that no
 * attribute with an effect is ignored. */
#include "core/text/json.h"
#include "io/onnx/onnx.h"

#include <stdio.h>
#include <string.h>

/* AttributeProto.AttributeType */
enum { FLOAT = 1, INT, STRING, TENSOR, GRAPH, FLOATS, INTS, STRINGS, SPARSE = 11 };

static const char *const type_names[] = {
    [FLOAT] = "a float", [INT] = "an integer", [STRING] = "a text",          [TENSOR] = "a tensor",
    [GRAPH] = "a graph", [FLOATS] = "floats",  [INTS] = "integers",          [STRINGS] = "texts",
    [9] = "tensors",     [10] = "graphs",      [SPARSE] = "a sparse tensor",
};

static const char *type_name(int type)
{
    const bool known = type > 0 && type < DT__COUNT_OF(type_names) && type_names[type] != NULL;
    return known ? type_names[type] : "without a type";
}

#define DT__ONNX(op, compute, fold, ...) { #op, __VA_ARGS__ },
#define DT__ONNX_COMPUTED(op, compute, ...) { #op, __VA_ARGS__ },
#define DT__ONNX_CONSTANT(op, fold, ...) { #op, __VA_ARGS__ },
#define DT__ONNX_VERSION(op, ...) { #op, __VA_ARGS__ },
static const dt__onnx_version versions[] = {
#include "io/onnx/onnx_operators.inc"
    { .op = NULL },
};

#define DT__ONNX_READ(op, name, ...) { #op, #name, __VA_ARGS__, true },
#define DT__ONNX_NEUTRAL(op, name, ...) { #op, #name, __VA_ARGS__, false },
const dt__onnx_attribute_row dt__onnx_attributes[] = {
#include "io/onnx/onnx_operators.inc"
    { .op = NULL },
};

#define MOST_TEXT 80

/* Writes element i of an attribute's value in the table's form; returns the number of elements. */
static size_t element(const DtOnnx__Attribute *a, size_t i, char text[MOST_TEXT])
{
    const ProtobufCBinaryData *s = a->type == STRINGS && i < a->n_strings ? &a->strings[i] : &a->s;
    const size_t length = s->len < MOST_TEXT - 1 ? s->len : MOST_TEXT - 1;
    *text = 0;
    switch (a->type) {
    case FLOAT: snprintf(text, MOST_TEXT, "%.9g", (double)a->f); return 1;
    case INT: snprintf(text, MOST_TEXT, "%lld", (long long)a->i); return 1;
    case INTS:
        if (i < a->n_ints) snprintf(text, MOST_TEXT, "%lld", (long long)a->ints[i]);
        return a->n_ints;
    case FLOATS:
        if (i < a->n_floats) snprintf(text, MOST_TEXT, "%.9g", (double)a->floats[i]);
        return a->n_floats;
    case STRING:
    case STRINGS:
        if (length > 0) memcpy(text, s->data, length);
        text[length] = 0;
        return a->type == STRING ? 1 : a->n_strings;
    default: return 1;
    }
}

/* Whether a word is among those of a list. */
static bool is_among(const char *word, const char *list)
{
    const size_t n = strlen(word);
    for (const char *at = list; n > 0 && (at = strstr(at, word)) != NULL; at += n) {
        if ((at == list || at[-1] == ' ') && (at[n] == 0 || at[n] == ' ')) return true;
    }
    return false;
}

/* The whole value, for messages. */
static void put_value(const DtOnnx__Attribute *a, char *to, size_t room)
{
    char text[MOST_TEXT], shown[DT__SHOWN];
    size_t used = 0;
    const size_t n = element(a, 0, text);
    for (size_t i = 0; i < n && used + 1 < room; i++) {
        element(a, i, text);
        const int length =
            snprintf(to + used, room - used, "%s%s", i == 0 ? "" : ",", dt__shown(text, shown));
        used += length < 0 ? 0 : (size_t)length;
    }
    if (n == 0) snprintf(to, room, "an empty list");
}

static dt_status check_value(dt__onnx *g, const DtOnnx__Attribute *a,
                             const dt__onnx_attribute_row *row)
{
    char text[MOST_TEXT], value[160] = "";
    bool good = *row->values != 0;
    if (strcmp(row->values, "*") == 0) return DT_OK;
    for (size_t i = 0; good && i < element(a, i, text); i++) good = is_among(text, row->values);
    if (good) return DT_OK;
    if (a->type == TENSOR || a->type == SPARSE)
        return dt__onnx_refuse(g, "it has %s, which is not read", row->name);
    put_value(a, value, sizeof value);
    return dt__onnx_refuse(g, "%s is %s; %s%s known", row->name, value,
                           *row->values == 0 ? "no value of it is" : row->values,
                           *row->values == 0          ? ""
                           : strchr(row->values, ' ') ? " are"
                                                      : " is");
}

static dt_status check_attribute(dt__onnx *g, const DtOnnx__Attribute *a)
{
    char shown[DT__SHOWN];
    const dt__onnx_attribute_row *row = dt__onnx_attributes;
    const int64_t opset = g->file->opset;
    while (row->op != NULL &&
           (strcmp(row->op, g->node->op_type) != 0 || strcmp(row->name, a->name) != 0)) {
        row++;
    }
    if (row->op == NULL) {
        return dt__onnx_refuse(g, "the attribute '%s' is not known", dt__shown(a->name, shown));
    }
    if (opset < row->since || (row->until != 0 && opset > row->until)) {
        return dt__onnx_refuse(g, "the attribute '%s' is not of version %lld", row->name,
                               (long long)opset);
    }
    if (*a->ref_attr_name != 0) {
        return dt__onnx_refuse(g, "%s refers to an attribute of a function", row->name);
    }
    if (a->type != row->type) {
        return dt__onnx_refuse(g, "the attribute '%s' is %s; it must be %s", row->name,
                               type_name(a->type), type_name(row->type));
    }
    return check_value(g, a, row);
}

const dt__onnx_version *dt__onnx_version_of(const char *op, int64_t opset)
{
    const dt__onnx_version *found = NULL;
    for (const dt__onnx_version *v = versions; v->op != NULL; v++) {
        if (strcmp(v->op, op) == 0 && v->since <= opset) found = v;
    }
    return found != NULL && found->most_in >= 0 ? found : NULL;
}

dt_status dt__onnx_check_node(dt__onnx *g)
{
    const dt__onnx_node *n = g->node;
    const dt__onnx_version *v = dt__onnx_version_of(n->op_type, g->file->opset);
    if (v == NULL) {
        return dt__onnx_refuse(g, "it is not an operator of version %lld",
                               (long long)g->file->opset);
    }
    if (n->n_input < (size_t)v->least_in || (v->most_in > 0 && n->n_input > (size_t)v->most_in)) {
        return dt__onnx_refuse(g, "%zu inputs; expected %d%s%.0d", n->n_input, v->least_in,
                               v->most_in == v->least_in ? ""
                               : v->most_in == 0         ? " or more"
                                                         : " to ",
                               v->most_in == v->least_in ? 0 : v->most_in);
    }
    if (v->most_out > 0 && n->n_output > (size_t)v->most_out) {
        return dt__onnx_refuse(g, "%zu outputs; %d are the most", n->n_output, v->most_out);
    }
    for (size_t i = 0; i < n->n_attribute; i++) {
        for (size_t k = 0; k < i; k++) {
            if (strcmp(n->attribute[i]->name, n->attribute[k]->name) != 0) continue;
            return dt__onnx_refuse(g, "an attribute occurs twice");
        }
        DT__TRY(check_attribute(g, n->attribute[i]));
    }
    return DT_OK;
}
