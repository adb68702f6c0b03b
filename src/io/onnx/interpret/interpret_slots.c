/* Lists the values of an ONNX graph: each name once. */
#include "core/block_list.h"
#include "core/comparisons.h"
#include "core/text/json.h"
#include "io/onnx/interpret/interpret_graph.h"

#include <stdlib.h>
#include <string.h>

int64_t dt__verify_find(const dt__verify *v, const char *name)
{
    if (*name == 0) return DT__VERIFY_ABSENT;
    const dt__verify_slot key = { .name = name };
    const dt__verify_slot *s = bsearch(&key, v->slot, (size_t)v->n_slots, sizeof key, dt__by_text);
    return s == NULL ? DT__VERIFY_ABSENT : s - v->slot;
}

static void add(dt__verify *v, dt__verify_slot s)
{
    if (*s.name != 0) v->slot[v->n_slots++] = s;
}

/* Names that nodes of a body read but do not compute belong to the outer graph. */
static void add_outer(dt__verify *v)
{
    const DtOnnx__Graph *g = v->graph;
    for (size_t i = 0; i < g->n_node && v->around != NULL; i++) {
        for (size_t k = 0; k < g->node[i]->n_input; k++) {
            add(v, (dt__verify_slot){ .name = g->node[i]->input[k],
                                      .maker = -1,
                                      .last = INT64_MAX,
                                      .constant = true,
                                      .outer = true });
        }
    }
}

/* Merges `s` into `before`, which has the same name; false if a name has two definitions. */
static bool joins(dt__verify_slot *before, const dt__verify_slot *s)
{
    if (s->outer) return true;
    if (before->outer) {
        *before = *s;
        return true;
    }
    if (before->maker >= 0 || s->maker >= 0 || before->input == s->input) return false;
    before->constant = true; /* an input with a default value, which is used */
    before->input = false;
    return true;
}

/* Merges sorted slots with equal names. */
static dt_status merge(dt__verify *v)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < v->n_slots; i++) {
        dt__verify_slot *before = kept == 0 ? NULL : &v->slot[kept - 1], *s = &v->slot[i];
        if (before == NULL || strcmp(before->name, s->name) != 0) {
            v->slot[kept++] = *s;
        } else if (!joins(before, s)) {
            char shown[DT__SHOWN];
            return dt_fail(v->ctx, DT_ERR_FORMAT, "%s: the value '%s' is made twice", v->path,
                           dt__shown(s->name, shown));
        }
    }
    v->n_slots = kept;
    for (int64_t i = 0; i < kept; i++) {
        if (v->slot[i].constant) v->slot[i].last = INT64_MAX;
    }
    return DT_OK;
}

/* Lists all names of the graph; an initializer may be an input as well. */
static dt_status list_slots(dt__verify *v)
{
    const DtOnnx__Graph *g = v->graph;
    size_t n = g->n_initializer + g->n_input;
    for (size_t i = 0; i < g->n_node; i++) n += g->node[i]->n_output + g->node[i]->n_input;
    v->slot = dt__block_list_add(v->ctx, &v->blocks, (n + 1) * sizeof *v->slot);
    if (v->slot == NULL) return DT_ERR_NOMEM;
    for (size_t i = 0; i < g->n_input; i++) {
        add(v, (dt__verify_slot){
                   .name = g->input[i]->name, .maker = -1, .last = INT64_MAX, .input = true });
    }
    for (size_t i = 0; i < g->n_initializer; i++) {
        add(v, (dt__verify_slot){ .name = g->initializer[i]->name, .maker = -1, .constant = true });
    }
    for (size_t i = 0; i < g->n_node; i++) {
        for (size_t k = 0; k < g->node[i]->n_output; k++) {
            add(v, (dt__verify_slot){
                       .name = g->node[i]->output[k], .maker = (int64_t)i, .last = -1 });
        }
    }
    add_outer(v);
    qsort(v->slot, (size_t)v->n_slots, sizeof *v->slot, dt__by_text);
    return merge(v);
}

static dt_status list_inputs(dt__verify *v)
{
    const DtOnnx__Graph *g = v->graph;
    v->input = dt__block_list_add(v->ctx, &v->blocks, (g->n_input + 1) * sizeof(void *));
    if (v->input == NULL) return DT_ERR_NOMEM;
    for (size_t i = 0; i < g->n_input; i++) {
        const int64_t k = dt__verify_find(v, g->input[i]->name);
        if (k == DT__VERIFY_ABSENT) {
            return dt_fail(v->ctx, DT_ERR_FORMAT, "%s: an input has no name", v->path);
        }
        if (v->slot[k].input) v->input[v->n_inputs++] = g->input[i];
    }
    return DT_OK;
}

dt_status dt__verify_list_slots(dt__verify *v)
{
    DT__TRY(list_slots(v));
    return list_inputs(v);
}
