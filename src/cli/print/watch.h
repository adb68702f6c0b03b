/* Display of a run: the line of progress, the table of results. */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H

#include <detent/experimental/train.h>

typedef struct watch {
    bool quiet, moving; /* moving: stderr is a terminal */
    double shown;       /* time of the latest output; 0: none yet */
    const char *phase;  /* of the latest step */
    dt_progress latest;
    double all_left; /* seconds left for all of several runs; 0: there is one run */
    bool stale;      /* the latest progress is not shown yet */
} watch;

watch watch_begin(bool quiet);
void watch_step(watch *w, const dt_progress *p);

/* Print results to stdout. */
void print_table(const dt_recipe_options *o, const dt_run_summary *s);
void print_model(const dt_run_summary *s, bool json);

#endif
