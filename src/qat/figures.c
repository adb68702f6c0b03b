/* Figures of the layers of a model: hooks on inputs and weights measure what one pass in evaluation
 * computes with. */
#include "qat/figures.h"

#include "autograd/tape.h"
#include "nn/module.h"
#include "qat/quantized.h"

typedef struct place {
    struct measuring *of;
    dt_module *module;
    dt_layer_figures *figures;
    uint64_t hook[2];
    int n_hooks;
    bool called; /* its input was measured */
} place;

/* The modules of a model, in their order. */
typedef struct measuring {
    dt_ctx *ctx;
    place *place;
    int64_t n, room;
} measuring;

/* Creates the figures of a layer when its first quantized tensor is found. */
static dt_status measure(place *p, dt_tensor *x, bool input)
{
    if (!dt_is_fake_quant(x) && !dt_is_packed(x)) return DT_OK;
    if (p->figures == NULL) {
        p->figures = dt__alloc_zero(p->of->ctx, sizeof *p->figures);
        if (p->figures == NULL) return DT_ERR_NOMEM;
    }
    dt_layer_figures *f = p->figures;
    dt_quant_figures *to = input ? &f->input : &f->weight;
    dt_quant_spec *quant = input ? &f->input_quant : &f->weight_quant;
    return to->given ? DT_OK : dt__figures_of(x, quant, to);
}

static dt_tensor *measure_input(void *user, dt_tape *t, dt_module *m, dt_tensor *x)
{
    place *p = user;
    (void)m;
    if (p->called) return x;
    p->called = true;
    return dt__tape_adopt(t, measure(p, x, true)) == DT_OK ? x : NULL;
}

static dt_tensor *measure_weight(void *user, dt_tape *t, dt_module *m, dt_tensor *x)
{
    (void)m;
    return dt__tape_adopt(t, measure(user, x, false)) == DT_OK ? x : NULL;
}

static dt_status add_hooks(measuring *all, dt_module *m)
{
    static const struct {
        dt_site site;
        dt_hook call;
    } hooks[] = { { DT_SITE_INPUT, measure_input }, { DT_SITE_WEIGHT, measure_weight } };
    DT__EACH_MODULE(layer, m) {
        if (layer->type->quantizable == DT_NOT_QUANTIZED) continue;
        DT__TRY(DT__RESERVE(all->ctx, all->place, all->n, all->room));
        all->place[all->n++] = (place){ .of = all, .module = layer };
    }
    for (int64_t i = 0; i < all->n; i++) {
        place *p = &all->place[i];
        for (int h = 0; h < DT__COUNT_OF(hooks); h++) {
            DT__TRY(dt_hook_add(p->module, hooks[h].site, hooks[h].call, p, NULL, &p->hook[h]));
            p->n_hooks++;
        }
    }
    return DT_OK;
}

static void close_places(measuring *all)
{
    for (int64_t i = 0; i < all->n; i++) {
        place *p = &all->place[i];
        for (int h = 0; h < p->n_hooks; h++) dt_unhook(p->module, p->hook[h]);
        dt__release(all->ctx, p->figures);
    }
    dt__release(all->ctx, all->place);
}

static dt_status run(dt_module *m, dt_tensor *x)
{
    dt_tape *t;
    const bool was_training = dt_is_training(m);
    DT__TRY(dt_tape_create(dt_module_ctx(m), &t));
    dt_no_grad(t, true);
    dt_train(m, false);
    dt_forward(t, m, x);
    const dt_status s = dt_tape_status(t);
    dt_train(m, was_training);
    dt_tape_free(t);
    return s;
}

static void show(measuring *all, dt_figures_visit visit, void *user)
{
    for (int64_t i = 0; i < all->n; i++) {
        dt_layer_figures *f = all->place[i].figures;
        if (f == NULL || (!f->weight.given && !f->input.given)) continue;
        f->path = all->place[i].module->path;
        f->type = all->place[i].module->type->name;
        if (f->weight.given) {
            dt__quant_text(&f->weight_quant, f->weight_scheme, sizeof f->weight_scheme);
        }
        if (f->input.given) {
            dt__quant_text(&f->input_quant, f->input_scheme, sizeof f->input_scheme);
        }
        visit(user, f);
    }
}

dt_status dt_figures(dt_module *m, dt_tensor *x, dt_figures_visit visit, void *user)
{
    DT__NEED(dt_module_ctx(m), m);
    measuring all = { .ctx = dt_module_ctx(m) };
    if (!dt_is_prepared(m) && !dt_is_converted(m)) {
        return dt_fail(all.ctx, DT_ERR_STATE,
                       "figures: the model is neither prepared nor converted");
    }
    dt_status s = add_hooks(&all, m);
    if (s == DT_OK) s = run(m, x);
    if (s == DT_OK) show(&all, visit, user);
    close_places(&all);
    return s;
}
