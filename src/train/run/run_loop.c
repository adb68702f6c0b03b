/* The training loop: updates, lines of metrics.jsonl, checkpoints, progress, stopping. */
#include "core/clock.h"
#include "core/text/json.h"
#include "train/run/run.h"

#include <math.h>

/* Defaults of log.every_steps: the least number of lines in metrics.jsonl, if there are enough
 * updates, and updates between lines in longer runs. */
#define LEAST_LINES 50
#define MOST_BETWEEN 50

/* ---- lines --------------------------------------------------------------------------------- */

void dt__run_begin_line(dt__run *r, dt__chars *t)
{
    const int64_t step = *dt__run_count(r, DT__COUNT_STEP);
    *t = (dt__chars){ .ctx = r->ctx };
    dt__put_text(t, "{\"step\": ");
    dt__put_integer(t, step);
    dt__put_field(t, "epoch", (double)step / (double)r->data.per_epoch);
    DT__PUT_ALL(t, ", \"phase\": ", DT__QUOTED(dt__run_phase(r)));
}

dt_status dt__run_end_line(dt__run *r, dt__chars *t)
{
    dt__put_text(t, "}\n");
    dt_status status = t->failed ? DT_ERR_NOMEM : dt__run_append(r, t->bytes, t->used);
    if (status == DT_OK) status = dt__run_mirror(r, t->bytes, t->used);
    dt__release(r->ctx, t->bytes);
    if (status == DT_OK) ++*dt__run_count(r, DT__COUNT_LINES);
    return status;
}

/* With several ranks: mean costs of communication per update, since the latest line. */
static void put_communication(dt__run *r, dt__chars *t)
{
    const dt__cluster_costs now = dt__cluster_costs_of(r->ranks.cluster),
                            *before = &r->pace.line_costs;
    const double n = (double)(r->pace.trained - r->pace.line_trained);
    if (r->ranks.cluster != NULL && n > 0) {
        dt__put_field(t, "communication_ms", 1e3 * (now.busy - before->busy) / n);
        dt__put_field(t, "exposed_ms", 1e3 * (now.waited - before->waited) / n);
        dt__put_field(t, "sent_bytes", (now.sent - before->sent) / n);
    }
    r->pace.line_costs = now;
    r->pace.line_trained = r->pace.trained;
}

/* Writes a line with means over the updates since the latest line. */
static dt_status write_line(dt__run *r, const dt__update_result *u)
{
    const double now = dt__seconds();
    const double since = (double)*dt__run_count(r, DT__COUNT_SINCE);
    dt__chars t;
    dt__run_begin_line(r, &t);
    if (since > 0) { /* otherwise all updates were skipped */
        dt__put_field(&t, "loss", *dt__run_value(r, DT__VALUE_LOSS_SUM) / since);
        dt__put_field(&t, "grad_norm", *dt__run_value(r, DT__VALUE_NORM_SUM) / since);
        dt__put_field(&t, "clipped", (double)*dt__run_count(r, DT__COUNT_LIMITED) / since);
    }
    dt__put_field(&t, "lr", u->lr);
    dt__put_field(&t, "skipped", (double)*dt__run_count(r, DT__COUNT_SKIPPED));
    const double seconds = now - r->pace.line_clock;
    const double speed = seconds > 0 ? (double)r->pace.line_samples / seconds : 0;
    const int64_t context = dt_dataset_context(r->data.train);
    if (r->o->train.spikes.policy != DT_SPIKES_IGNORE) {
        dt__put_field(&t, "spikes", (double)*dt__run_count(r, DT__COUNT_SPIKES));
    }
    dt__put_field(&t, "samples_per_s", speed);
    if (context > 0) dt__put_field(&t, "tokens_per_s", speed * (double)context);
    put_communication(r, &t);
    *dt__run_count(r, DT__COUNT_SINCE) = *dt__run_count(r, DT__COUNT_LIMITED) = 0;
    *dt__run_value(r, DT__VALUE_LOSS_SUM) = *dt__run_value(r, DT__VALUE_NORM_SUM) = 0;
    r->pace.line_clock = now;
    r->pace.line_samples = 0;
    return dt__run_end_line(r, &t);
}

/* ---- progress -------------------------------------------------------------------------------- */

dt_progress dt__run_progress(const dt__run *r)
{
    const int64_t step = r->stage.count[DT__COUNT_STEP].value;
    const double seconds = dt__seconds() - r->pace.began;
    const double speed = (double)r->pace.samples / (seconds > 1e-9 ? seconds : 1e-9);
    const dt__cluster_costs costs = dt__cluster_costs_of(r->ranks.cluster);
    const double n = r->pace.trained == 0 ? 1 : (double)r->pace.trained;
    return (dt_progress){
        .phase = dt__run_phase(r),
        .step = step,
        .steps = r->data.steps,
        .loss = r->pace.latest.loss,
        .lr = r->pace.latest.lr,
        .validation_loss = r->pace.validated,
        .metric = isnan(r->pace.validated) || r->data.n_metrics < 2 ? NULL : r->data.metric[0],
        .metric_value = r->pace.first_metric,
        .busiest_expert = r->pace.experts.any ? r->pace.experts.busiest : 0,
        .idlest_expert = r->pace.experts.any ? r->pace.experts.idlest : 0,
        .samples_per_s = speed,
        .tokens_per_s = speed * (double)dt_dataset_context(r->data.train),
        .seconds_left = dt__ledger_left(&r->ctx->work),
        .memory = dt_memory_of(r->ctx).held,
        .communication_ms = 1e3 * costs.busy / n,
        .exposed_ms = 1e3 * costs.waited / n,
        .sent = costs.sent / n,
    };
}

static void report(dt__run *r, const dt__update_result *u)
{
    r->pace.latest = *u;
    if (r->control.progress == NULL) return;
    const dt_progress p = dt__run_progress(r);
    r->control.progress(r->control.user, &p);
}

static void count(dt__run *r, const dt__update_result *u)
{
    const double limit = r->o->train.clip_grad_norm;
    r->pace.trained++;
    r->pace.samples += u->samples;
    r->pace.line_samples += u->samples;
    ++*dt__run_count(r, DT__COUNT_STEP);
    if (u->skipped) {
        ++*dt__run_count(r, DT__COUNT_SKIPPED);
        return;
    }
    ++*dt__run_count(r, DT__COUNT_SINCE);
    *dt__run_count(r, DT__COUNT_LIMITED) += limit > 0 && limit / (u->norm + 1e-6) < 1;
    *dt__run_value(r, DT__VALUE_LOSS_SUM) += u->loss;
    *dt__run_value(r, DT__VALUE_NORM_SUM) += u->norm;
}

bool dt__run_is_late(const dt__run *r)
{
    const double minutes = r->o->train.checkpoint.every_minutes;
    return minutes > 0 && dt__seconds() - r->pace.saved_clock >= 60 * minutes;
}

/* Whether a checkpoint is due after the latest update. */
static bool is_due(dt__run *r)
{
    const dt_checkpoint_options *o = &r->o->train.checkpoint;
    const bool by_time = r->ranks.cluster == NULL ? dt__run_is_late(r) : r->ranks.asked_to_save;
    return by_time ||
           (o->every_steps > 0 && *dt__run_count(r, DT__COUNT_STEP) % o->every_steps == 0);
}

/* ---- the loop -------------------------------------------------------------------------------- */

static dt_status stop(dt__run *r)
{
    DT__TRY(dt__run_save(r));
    r->ranks.together = true;
    return dt_fail(r->ctx, DT_ERR_INTERRUPTED,
                   "interrupted at step %lld of %lld (%s); a checkpoint was saved in %s",
                   (long long)*dt__run_count(r, DT__COUNT_STEP), (long long)r->data.steps,
                   dt__run_phase(r), r->o->run.dir);
}

/* Updates between two lines of metrics.jsonl; short runs have more lines, so that curves have
 * enough points. */
static int64_t line_every(const dt__run *r)
{
    const int64_t own = r->o->train.log.every_steps;
    return own > 0 ? own : dt__min_i64(MOST_BETWEEN, dt__max_i64(1, r->data.steps / LEAST_LINES));
}

dt_status dt__run_until(dt__run *r, int64_t end)
{
    dt__update_result u;
    while (*dt__run_count(r, DT__COUNT_STEP) < end && !*dt__run_count(r, DT__COUNT_STOPPED)) {
        if (r->ranks.cluster == NULL ? dt__run_wants_to_stop(r) : r->ranks.asked_to_stop)
            return stop(r);
        DT__TRY(dt__run_update_ranges(r));
        DT__TRY(dt__run_update(r, &u));
        count(r, &u);
        DT__TRY(dt__run_average(r));
        DT__TRY(dt__run_compare_ranks(r));
        const int64_t step = *dt__run_count(r, DT__COUNT_STEP);
        const bool logged = step % line_every(r) == 0 || step == r->data.steps;
        if (logged) DT__TRY(write_line(r, &u));
        DT__TRY(dt__run_log_layers(r));
        dt__run_time_update(r, u.samples);
        DT__TRY(dt__run_validate(r));
        if (!logged && *dt__run_count(r, DT__COUNT_STOPPED)) DT__TRY(write_line(r, &u));
        report(r, &u);
        if (is_due(r)) DT__TRY(dt__run_save(r));
    }
    return DT_OK;
}
