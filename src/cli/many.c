/* Progress and results of many runs. */
#include "cli/many.h"

#include "cli/cli.h"
#include "cli/print/meter.h"

#include <stdio.h>

static void begins(void *user, const char *dir, int64_t i, int64_t n)
{
    many *m = user;
    if (m->quiet) return;
    meter_keep();
    cli_tell(stderr, "run %lld of %lld: %s", (long long)i + 1, (long long)n, dir);
    m->w = watch_begin(false);
}

static void progress(void *user, const dt_progress *p)
{
    many *m = user;
    watch_step(&m->w, p);
}

dt_sweep_control many_begin(many *m, bool quiet)
{
    *m = (many){ watch_begin(quiet), quiet };
    cli_catch_signals();
    return (
        dt_sweep_control){ .stop = cli_stopped, .progress = progress, .begins = begins, .user = m };
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
