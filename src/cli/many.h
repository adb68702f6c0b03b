/* Progress and results of commands with many runs. */
#ifndef MANY_H
#define MANY_H

#include "cli/print/text.h"
#include "cli/print/watch.h"

#include <detent/experimental/sweep.h>

typedef struct many {
    watch w;
    bool quiet;
    int64_t n;             /* runs of this process */
    dt_sweep_turn turn;    /* the latest run */
    double began;          /* when the latest run began */
    double seconds, share; /* of the earlier runs: their time, and their share of all work */
} many;

/* A control that draws the progress of every run and stops on a signal. `m` must outlive it. */
dt_sweep_control many_begin(many *m, bool quiet);

/* A cell "98.30 ± 0.12 %"; a dash without results. */
void many_put_spread(cli_table *t, const dt_sweep_metric *m, dt_spread s);
/* A cell of bytes; a dash of 0. */
void many_put_bytes(cli_table *t, int64_t bytes);

#endif
