/* Progress and results of many runs. */
#include "cli/many.h"

#include "cli/cli.h"
#include "cli/print/meter.h"

#include <stdio.h>

#define FIRST_SECONDS 0.5 /* the first updates of a sweep say little about all runs */

static void begins(void *user, const dt_sweep_turn *turn)
{
    many *m = user;
    const double now = cli_seconds();
    if (m->n > 0) { /* the previous run has ended */
        m->seconds += now - m->began;
        m->share += m->turn.own;
    }
    m->began = now;
    m->turn = *turn;
    m->n++;
    if (m->quiet) return;
    meter_keep();
    cli_tell(stderr, "run %lld of %lld: %s", (long long)turn->i + 1, (long long)turn->n, turn->dir);
    m->w = watch_begin(false);
}

/* Seconds until the end of all runs. Later runs are assumed to take as long, for their share of the
 * work, as the earlier ones and this one; this one, until a quarter of that time has passed, as
 * long as the earlier ones. 0: not known yet. */
static double left_of_all(const many *m, const dt_progress *p)
{
    const double behind = 1 - m->turn.done - m->turn.own, since = cli_seconds() - m->began;
    if (m->seconds + since < FIRST_SECONDS || p->seconds_left < 0) return 0;
    const double as_before = m->share > 0 ? m->turn.own * m->seconds / m->share : 0;
    const double own = since < as_before / 4 ? as_before : since + p->seconds_left;
    const double each = (m->seconds + own) / (m->share + m->turn.own);
    return own - since + (behind > 0 ? behind * each : 0);
}

static void progress(void *user, const dt_progress *p)
{
    many *m = user;
    m->w.all_left = left_of_all(m, p);
    watch_step(&m->w, p);
}

dt_sweep_control many_begin(many *m, bool quiet)
{
    *m = (many){ .w = watch_begin(quiet), .quiet = quiet };
    cli_catch_signals();
    return (dt_sweep_control){ .stop = cli_stopped,
                               .progress = quiet ? NULL : progress,
                               .doing = quiet ? NULL : progress,
                               .begins = begins,
                               .user = m };
}

void many_put_spread(cli_table *t, const dt_sweep_metric *m, dt_spread s)
{
    const char *unit = m->unit, *gap = *unit != 0 ? " " : "";
    if (s.n == 0) {
        cli_table_put(t, "-");
    } else if (s.n == 1) {
        cli_table_format(t, "%.*f%s%s", m->decimals, m->scale * s.mean, gap, unit);
    } else {
        cli_table_format(t, "%.*f ± %.*f%s%s", m->decimals, m->scale * s.mean, m->decimals,
                         m->scale * s.deviation, gap, unit);
    }
}

void many_put_bytes(cli_table *t, int64_t bytes)
{
    if (bytes > 0) cli_table_format(t, "%lld", (long long)bytes);
    else cli_table_put(t, "-");
}
