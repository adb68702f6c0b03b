/* Names of a model's inputs and outputs in exported files. */
#include "export/trace/trace.h"
#include "nn/lists/graph.h"

#include <stdio.h>
#include <string.h>

/* Replaces all but letters, digits and _ - . /; a name is never empty. */
static void clean(const char *from, dt__end_name *to)
{
    snprintf(to->text, sizeof to->text - 16, "%s", *from == 0 ? "_" : from);
    for (char *c = to->text; *c != 0; c++) {
        const bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z');
        if (!letter && !(*c >= '0' && *c <= '9') && strchr("_-./", *c) == NULL) *c = '_';
    }
}

/* Whether one of the n names before name[n] is equal to it. */
static bool is_taken(const dt__end_name *name, int n)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(name[i].text, name[n].text) == 0) return true;
    }
    return false;
}

/* Sets name[n] to `own`, or to `base` with the number i (none for 0). */
static void set(dt__end_name *name, int n, const char *own, const char *base, int i)
{
    char numbered[32];
    snprintf(numbered, sizeof numbered, i == 0 ? "%s" : "%s%d", base, i);
    clean(own != NULL ? own : numbered, &name[n]);
    const size_t used = strlen(name[n].text);
    for (int k = n; is_taken(name, n); k++) {
        snprintf(name[n].text + used, sizeof name[n].text - used, "_%d", k);
    }
}

void dt__trace_names(const dt_module *m, const dt_trace_options *o, dt__end_name *out)
{
    const char *const *in_name = NULL, *const *out_name = NULL;
    int n = 0;
    const int inputs = o->n_inputs, outputs = o->n_outputs > 0 ? o->n_outputs : 1;
    const bool named = dt__graph_names(m, &n, &in_name, &out_name) && n == inputs;
    bool tokens = false;
    for (int i = 0; i < inputs; i++) {
        const char *own = named && inputs > 1 && i < DT_MAX_SHAPES ? in_name[i] : NULL;
        set(out, i, o->input[i].name != NULL ? o->input[i].name : own, "input", i);
        tokens = tokens || o->input[i].tokens;
    }
    for (int i = 0; i < outputs; i++) {
        const char *own = named && outputs > 1 ? out_name[i] : NULL;
        set(out, inputs + i, own, tokens ? "logits" : "output", i);
    }
}
