/* Tokens: the label of a position is the next token; labels of -100 do not count.
 *     loss        = -log softmax(y)[label], the mean over the labels that count
 *     perplexity  = e^loss
 *     accuracy    = share of them with the largest logit, the first of equal ones
 *     exact_match = of prompts with completions, the share whose labels are all predicted so;
 *                   an example without a label does not match
 * Logits of all tokens exist only if outputs are requested. */
#include "core/tensor.h"
#include "data/dataset.h"
#include "train/task/task.h"

#include <math.h>

enum { RIGHT, COST, EXACT };

static dt_tensor *loss(const dt__pass *p)
{
    dt_token_loss_options options = dt_token_loss_defaults();
    options.head.reduction = DT_REDUCE_SUM;
    options.head.label_smoothing = p->smoothing;
    if (p->teacher != NULL) {
        options.teacher = p->teacher;
        options.head.distill = p->distill->weight;
        options.head.temperature = p->distill->temperature;
    }
    return dt_token_loss(p->t, p->m, p->x, p->target, &options, NULL);
}

static void count(dt__tally *s, const float *cost, const int32_t *best, const int32_t *label)
{
    int64_t labels = 0, right = 0;
    for (int64_t t = 0; t < s->places; t++) {
        if (label[t] == DT__NO_LABEL) continue;
        labels++;
        right += best[t] == label[t];
        s->sum[COST] += (double)cost[t];
    }
    s->labels += labels;
    s->sum[RIGHT] += (double)right;
    s->sum[EXACT] += labels > 0 && right == labels;
}

static dt_status run(const dt__pass *p, dt_tensor **of)
{
    dt_token_rows rows;
    dt_token_loss_options options = dt_token_loss_defaults();
    options.head.reduction = DT_REDUCE_SUM;
    if (dt_token_loss(p->t, p->m, p->x, p->target, &options, &rows) == NULL) {
        return dt_tape_status(p->t);
    }
    const int64_t n = p->x->dims[0], dims[] = { n, p->x->count / n };
    of[DT__ANSWER] = dt_reshape(p->t, rows.loss, 2, dims);
    of[DT__ANSWER_BEST] = rows.best;
    return dt_tape_status(p->t);
}

static dt_status add(dt__tally *s, dt_tensor *const *of)
{
    const float *cost = dt_data(of[DT__ANSWER]);
    const int32_t *best = dt_data(of[DT__ANSWER_BEST]), *label = dt_data(of[DT__ANSWER_TARGET]);
    if (cost == NULL || best == NULL || label == NULL) return dt_error_status(s->ctx);
    const int64_t n = of[DT__ANSWER]->dims[0];
    for (int64_t i = 0; i < n; i++) {
        count(s, cost + i * s->places, best + i * s->places, label + i * s->places);
    }
    s->examples += n;
    return DT_OK;
}

static dt_tensor *outputs(const dt__pass *p) { return dt_forward(p->t, p->m, p->x); }

static double mean_loss(const dt__tally *s) { return s->sum[COST] / (double)s->labels; }

static double perplexity(const dt__tally *s) { return exp(mean_loss(s)); }

static double accuracy(const dt__tally *s) { return s->sum[RIGHT] / (double)s->labels; }

static double exact_match(const dt__tally *s) { return s->sum[EXACT] / (double)s->examples; }

#define PERCENT .unit = "%", .scale = 100, .decimals = 2, .larger_is_better = true

const dt__task dt__task_tokens = {
    .has_labels = true,
    .measure = { { { "exact_match", "exact", PERCENT }, exact_match, .prompted = true },
                 { { "accuracy", "accuracy", PERCENT }, accuracy, 0 },
                 { { "perplexity", "perplexity", .scale = 1, .decimals = 4 }, perplexity, 0 },
                 { { "loss", "loss", .scale = 1, .decimals = 4 }, mean_loss, 0 } },
    .loss = loss,
    .run = run,
    .add = add,
    .outputs = outputs,
};
