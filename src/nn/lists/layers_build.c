/* Builds the module of a list of layers. */
#include "nn/lists/layers_build.h"

#include "nn/lists/graph.h"

#include <stdio.h>
#include <string.h>

#define MOST_MODULES 65536 /* `repeat` can multiply */
#define MOST_DEPTH 16

enum { NORM_NONE, NORM_BATCH, NORM_GROUP, NORM_LAYER }; /* the order of dt_layer_norm_names */

/* A layer that is being added to a list. */
typedef struct layer {
    dt__layers_scope *s;
    const dt_layer_type *type;
    const void *options;
    const char *path; /* path of the item */
    const char *name;
    dt__layers_value *in[DT_MAX_IN];
    dt_shape shape[DT_MAX_IN]; /* shapes of the inputs */
    int64_t number[DT_MAX_IN];
    int n_in;
} layer;

/* ---- modules --------------------------------------------------------------------------------- */

/* The child `name` of m, which is created if it does not exist; NULL if it is a layer. */
static dt_status list_in(dt_module *m, const char *name, dt_module **out)
{
    *out = NULL;
    for (int64_t i = 0; i < m->n_children; i++) {
        dt_module *child = m->children[i];
        if (strcmp(child->name, name) != 0) continue;
        if (child->type == &dt__nn_list) *out = child;
        return DT_OK;
    }
    const dt_status made = dt_module_create(m->ctx, &dt__nn_list, 0, out);
    return dt__add_made(m, name, made, *out, out);
}

/* The module that contains the last part of a dotted name, created as needed; NULL after a
 * fault. */
static dt_status holder_of(const layer *l, dt_module **out, const char **last)
{
    dt_module *at = l->s->m;
    const char *part = l->name;
    for (const char *dot; (dot = strchr(part, '.')) != NULL; part = dot + 1) {
        const char *name = dt__layers_text(l->s->b, "%.*s", (int)(dot - part), part);
        if (name == NULL) return DT_ERR_NOMEM;
        DT__TRY(list_in(at, name, &at));
        if (at != NULL) continue;
        *out = NULL;
        return dt__layers_fault_at(l->s->b, l->path, "the name '%s' lies inside of another layer",
                                   l->name);
    }
    *last = part;
    *out = at;
    return DT_OK;
}

/* Reports the error of a create function or an op, with the input shapes. */
static dt_status refuse(const layer *l, dt_status status)
{
    char error[DT__MESSAGE_SIZE];
    snprintf(error, sizeof error, "%s", dt_error(l->s->b->ctx));
    if (status == DT_ERR_NOMEM) return status;
    const char *inputs = "";
    for (int i = 0; i < l->n_in && inputs != NULL; i++) {
        char text[160];
        const char *name = l->in[i]->name;
        inputs =
            dt__layers_text(l->s->b, "%s%s%s of %s", inputs, i == 0 ? "" : " and ",
                            dt__dims_text(l->shape[i].rank, l->shape[i].dims, text, sizeof text),
                            name == NULL ? "the input" : name);
    }
    if (inputs == NULL) return DT_ERR_NOMEM;
    return dt__layers_fault_at(l->s->b, l->path, "layer '%s' does not fit %s: %s", l->name, inputs,
                               error);
}

/* Adds a module under `name` to `holder` and appends it to the graph; *shape becomes that of its
 * result. */
static dt_status append(const layer *l, dt_module *holder, const char *name, dt_module *part,
                        dt_shape *shape, int64_t *number)
{
    dt__layers_scope *s = l->s;
    const bool first = *number < 0;
    const dt_shape *in = first ? l->shape : shape;
    const int n_in = first ? l->n_in : 1;
    dt__graph_node node = { .m = part, .n_in = n_in, .same_shapes = true };
    dt_shape out;
    DT__TRY(dt__add_made(holder, name, DT_OK, part, &part));
    DT__TRY(dt__layer_shape(s->b->tape, part, in, n_in, &out));
    for (int d = 0; d < out.rank; d++) {
        if (out.dims[d] == 0) return dt_fail(s->b->ctx, DT_ERR_SHAPE, "no element would be left");
    }
    for (int i = 0; i < n_in; i++) {
        node.in[i] = first ? l->number[i] : *number;
        node.same_shapes &= memcmp(&in[i], &out, sizeof out) == 0;
    }
    DT__TRY(dt__graph_append(s->m, &node));
    *shape = out;
    *number = DT__GRAPH_FIRST + s->n_nodes++;
    s->b->modules++;
    return DT_OK;
}

static dt_status norm_create(dt_ctx *ctx, const dt_layer_after *a, const dt_shape *x,
                             dt_module **out)
{
    const int64_t channels = x->rank > 0 ? x->dims[0] : 0;
    if (a->norm == NORM_LAYER) {
        return dt_layer_norm_create(ctx, x->rank > 0 ? x->dims[x->rank - 1] : 0, a->norms.eps, out);
    }
    if (a->norm == NORM_GROUP) {
        return dt_group_norm_create(ctx, a->norms.groups, channels, a->norms.eps, out);
    }
    return (x->rank == 3 ? dt_batch_norm2d_create : dt_batch_norm1d_create)(
        ctx, channels, a->norms.momentum, a->norms.eps, out);
}

/* Adds the layer, its norm and its activation as children of a module with the layer's name. */
static dt_status add_unit(const layer *l, const dt_layer_after *a, dt_module *holder,
                          const char *name, dt_shape *shape, int64_t *number)
{
    dt_ctx *ctx = l->s->b->ctx;
    dt_module *unit, *part = NULL;
    DT__TRY(list_in(holder, name, &unit));
    if (unit == NULL) {
        return dt_fail(ctx, DT_ERR_ARG, "another layer lies at '%s'", l->name);
    }
    DT__TRY(l->type->create(ctx, l->options, l->shape, l->n_in, &part));
    DT__TRY(append(l, unit, l->type->part, part, shape, number));
    if (a->norm != NORM_NONE) {
        DT__TRY(norm_create(ctx, a, shape, &part));
        DT__TRY(append(l, unit, "norm", part, shape, number));
    }
    if (strcmp(dt_activation_names[a->activation], "identity") == 0) return DT_OK;
    DT__TRY(dt_activation_create(ctx, dt_activation_names[a->activation], &part));
    return append(l, unit, "activation", part, shape, number);
}

static dt_status add_modules(const layer *l, dt_module *holder, const char *name, dt_shape *shape,
                             int64_t *number)
{
    const dt_layer_after *a =
        l->type->after == 0 ? NULL : (const void *)((const char *)l->options + l->type->after);
    dt_module *part = NULL;
    const bool is_unit = a != NULL && (a->norm != NORM_NONE ||
                                       strcmp(dt_activation_names[a->activation], "identity") != 0);
    if (is_unit) return add_unit(l, a, holder, name, shape, number);
    DT__TRY(l->type->create(l->s->b->ctx, l->options, l->shape, l->n_in, &part));
    return append(l, holder, name, part, shape, number);
}

/* ---- what a layer reads ---------------------------------------------------------------------- */

/* Adds one input to l; *ready becomes false if the layer that makes it is wrong. */
static void take_input(layer *l, dt__layers_value *value, bool *ready)
{
    value->read = true;
    l->in[l->n_in] = value;
    l->shape[l->n_in] = value->shape;
    l->number[l->n_in++] = value->number;
    *ready &= value->known;
}

static dt_status read_inputs(layer *l, const dt_strings *from, bool *ready)
{
    dt__layers_scope *s = l->s;
    *ready = true;
    if (from->n == 0 && s->last == NULL) {
        *ready = false;
        return dt__layers_fault_at(s->b, l->path,
                                   "there is no layer before it to read; `from` names "
                                   "an input");
    }
    if (from->n > DT_MAX_IN) {
        *ready = false;
        return dt__layers_fault_at(s->b, l->path, "`from` has %d names; a layer reads at most %d",
                                   from->n, DT_MAX_IN);
    }
    for (int i = 0; i < from->n; i++) {
        dt__layers_value *value;
        const char *path = dt__layers_text(s->b, "%s.from.%d", l->path, i);
        if (path == NULL) return DT_ERR_NOMEM;
        DT__TRY(dt__layers_find(s, from->v[i], path, &value));
        if (value == NULL) *ready = false;
        else take_input(l, value, ready);
    }
    if (from->n == 0) take_input(l, s->last, ready);
    return DT_OK;
}

static dt_status check_count(layer *l, bool *ready)
{
    const dt_layer_type *t = l->type;
    if (l->n_in >= t->least_in && l->n_in <= t->most_in) return DT_OK;
    *ready = false;
    return dt__layers_fault_at(
        l->s->b, l->path, "layer '%s' (%s) reads %s%d layer%s, not %d; `from` names them", l->name,
        t->item.name, t->least_in == t->most_in ? "" : "at least ",
        l->n_in < t->least_in ? t->least_in : t->most_in,
        (l->n_in < t->least_in ? t->least_in : t->most_in) == 1 ? "" : "s", l->n_in);
}

/* Options made in C can contain an invalid index. */
static dt_status check_choices(const layer *l, bool *ready)
{
    for (const dt_key *key = l->type->item.keys; key->name != NULL && *ready; key++) {
        if (key->type != DT_KEY_CHOICE) continue;
        const int index = *(const int *)(const void *)((const char *)l->options + key->offset);
        int n = 0;
        while (key->choices[n] != NULL) n++;
        *ready = index >= 0 && index < n;
        if (*ready) continue;
        return dt__layers_fault_at(l->s->b, l->path, "'%s' is choice %d, outside 0...%d", key->name,
                                   index, n - 1);
    }
    return DT_OK;
}

/* ---- an item --------------------------------------------------------------------------------- */

/* Checks a name: dotted, without empty parts, not used already. */
static dt_status check_name(const layer *l, bool *ready)
{
    char shown[DT__SHOWN];
    const char *name = l->name;
    const size_t n = strlen(name);
    bool good = n > 0 && name[0] != '.' && name[n - 1] != '.' && strstr(name, "..") == NULL;
    for (size_t i = 0; i < n; i++) good &= (unsigned char)name[i] > 0x20 && name[i] != 0x7F;
    *ready = good;
    if (!good) {
        return dt__layers_fault_at(
            l->s->b, l->path, "the name '%s' must have letters between its dots, and no blanks",
            dt__shown(name, shown));
    }
    const dt__layers_value *v = dt__layers_own(l->s, name);
    *ready = v == NULL;
    if (v == NULL) return DT_OK;
    return dt__layers_fault_at(l->s->b, l->path, "the name '%s' is taken by '%s'",
                               dt__shown(name, shown), v->path);
}

/* Makes the result of l the input of the next layer. */
static dt_status set_last(const layer *l, bool known, const dt_shape *shape, int64_t number)
{
    const dt__layers_value value = {
        .name = l->name, .path = l->path, .known = known, .shape = *shape, .number = number
    };
    return dt__layers_add(l->s, &value, &l->s->last);
}

static dt_status build_layer(layer *l, const dt_strings *from)
{
    bool ready, named;
    dt_shape shape = { .rank = 0 };
    int64_t number = -1;
    const int64_t faults = l->s->b->faults;
    DT__TRY(check_name(l, &named));
    DT__TRY(read_inputs(l, from, &ready));
    if (ready) DT__TRY(check_count(l, &ready));
    if (ready) DT__TRY(check_choices(l, &ready));
    dt_module *holder = NULL;
    const char *last;
    if (ready && named) DT__TRY(holder_of(l, &holder, &last));
    if (holder != NULL) {
        const dt_status s = add_modules(l, holder, last, &shape, &number);
        if (s != DT_OK) DT__TRY(refuse(l, s));
    }
    return set_last(l, holder != NULL && l->s->b->faults == faults, &shape, number);
}

dt_status dt__layers_check_read(const dt__layers_scope *s)
{
    for (int64_t i = 0; i < s->n; i++) {
        const dt__layers_value *v = s->values[i];
        if (v->read || (v->alias != NULL && v->alias->read)) continue;
        DT__TRY(dt__layers_fault_at(
            s->b, v->path,
            "nothing reads '%s', and it is not an output: name it in a `from`, or leave it out",
            v->name));
    }
    return DT_OK;
}

/* ---- repetitions ----------------------------------------------------------------------------- */

/* Builds one repetition as a graph whose inputs are `first` and the outer values that it names. */
static dt_status build_inside(dt__layers_scope *in, const layer *l, const dt_item_list *layers,
                              dt__layers_value *first)
{
    DT__TRY(dt__layers_capture(in, first, l->path, &in->last));
    /* the input of this repetition */
    if (in->last != NULL) DT__TRY(dt__layers_rename_last(in, "input"));
    DT__TRY(dt__layers_build_list(in, layers));
    if (in->last == NULL || !in->last->known || in->last->number < DT__GRAPH_FIRST) return DT_OK;
    in->last->read = true;
    return dt__graph_finish(in->m, in->n_in, &in->last->number, 1);
}

/* Appends the graph of a repetition to the graph of the outer list. */
static dt_status append_block(const layer *l, const dt__layers_scope *in, int64_t *number)
{
    dt__graph_node node = { .m = in->m, .n_in = in->n_in };
    for (int i = 0; i < in->n_in; i++) node.in[i] = in->captured[i]->number;
    *number = DT__GRAPH_FIRST + l->s->n_nodes++;
    return dt__graph_append(l->s->m, &node);
}

static dt_status build_once(layer *l, dt_module *list, const dt_repeat_layers *o, int64_t i)
{
    dt__layers_scope *outer = l->s;
    dt__layers_scope in = { .b = outer->b, .outer = outer, .depth = outer->depth + 1 };
    dt__layers_value *const before = l->in[0];
    const int64_t faults = in.b->faults;
    int64_t number = -1;
    in.path = dt__layers_text(in.b, "%s.layers", l->path);
    const char *name = dt__layers_text(in.b, "%lld", (long long)i);
    l->name = dt__layers_text(in.b, "%s.%lld", o->name, (long long)i);
    if (in.path == NULL || name == NULL || l->name == NULL) return DT_ERR_NOMEM;
    const dt_status made = dt__graph_create(in.b->ctx, &dt__graph_block, &in.m);
    DT__TRY(dt__add_made(list, name, made, in.m, &in.m));
    dt_status s = build_inside(&in, l, &o->layers, before);
    if (s == DT_OK && in.b->faults == faults) s = dt__layers_check_read(&in);
    const bool known = in.last != NULL && in.last->known && in.b->faults == faults;
    const dt_shape shape = known ? in.last->shape : (dt_shape){ .rank = 0 };
    if (s == DT_OK && known) s = append_block(l, &in, &number);
    dt__release(in.b->ctx, in.values);
    dt__names_free(in.b->ctx, &in.names);
    DT__TRY(s);
    DT__TRY(set_last(l, known, &shape, number));
    l->in[0] = outer->last;
    return DT_OK;
}

static dt_status build_repeat(layer *l, const dt_repeat_layers *o)
{
    bool ready, named;
    dt_module *holder = NULL, *list = NULL;
    const char *last;
    DT__TRY(check_name(l, &named));
    DT__TRY(read_inputs(l, &o->from, &ready));
    if (ready && l->n_in != 1) {
        ready = false;
        DT__TRY(dt__layers_fault_at(l->s->b, l->path,
                                    "`from` has %d names; a repetition reads one "
                                    "layer, those inside of it any",
                                    l->n_in));
    }
    if (o->times < 1) {
        ready = false;
        DT__TRY(dt__layers_fault_at(l->s->b, l->path,
                                    "it is repeated %lld times; at least once "
                                    "must be",
                                    (long long)o->times));
    }
    if (ready && named) DT__TRY(holder_of(l, &holder, &last));
    if (holder == NULL) return set_last(l, false, &(dt_shape){ .rank = 0 }, -1);
    const dt_status made = dt_module_create(l->s->b->ctx, &dt__nn_list, 0, &list);
    DT__TRY(dt__add_made(holder, last, made, list, &list));
    dt__layers_value *value = l->in[0];
    const int64_t faults = l->s->b->faults;
    for (int64_t i = 0; i < o->times && l->s->b->faults == faults; i++) {
        DT__TRY(build_once(l, list, o, i));
        value = l->in[0];
    }
    l->name = o->name; /* the name of `repeat`, too, is one of its last repetition */
    DT__TRY(set_last(l, value->known && l->s->b->faults == faults, &value->shape, value->number));
    l->s->last->alias = value;
    value->alias = l->s->last;
    return DT_OK;
}

/* ---- lists ----------------------------------------------------------------------------------- */

static dt_status build_item(dt__layers_scope *s, const dt_list_item *item, int64_t i)
{
    layer l = { .s = s, .path = dt__layers_text(s->b, "%s.%lld", s->path, (long long)i) };
    if (l.path == NULL) return DT_ERR_NOMEM;
    if (s->b->modules >= MOST_MODULES) {
        return dt__layers_fault_at(s->b, l.path, "more than %d layers", MOST_MODULES);
    }
    if (item->kind == NULL || item->options == NULL) {
        return dt__layers_fault_at(s->b, l.path, "it has no kind or no options");
    }
    if (item->kind == &dt__repeat_kind) {
        const dt_repeat_layers *o = item->options;
        l.name = o->name == NULL ? "" : o->name;
        return build_repeat(&l, o);
    }
    const dt_layer_head *head = item->options;
    l.type = (const dt_layer_type *)(const void *)item->kind;
    l.options = item->options;
    l.name = head->name;
    if (l.name == NULL || *l.name == 0) {
        l.name = dt__layers_text(s->b, "%s_%lld", item->kind->name, (long long)i);
        if (l.name == NULL) return DT_ERR_NOMEM;
    }
    return build_layer(&l, &head->from);
}

dt_status dt__layers_build_list(dt__layers_scope *s, const dt_item_list *layers)
{
    if (s->depth > MOST_DEPTH) {
        return dt__layers_fault_at(s->b, s->path, "it is nested more than %d deep", MOST_DEPTH);
    }
    if (layers->n < 1) return dt__layers_fault_at(s->b, s->path, "it has no layers");
    const int64_t limit = s->b->faults + 100;
    for (int64_t i = 0; i < layers->n && s->b->faults < limit; i++) {
        DT__TRY(build_item(s, &layers->v[i], i));
    }
    return DT_OK;
}
