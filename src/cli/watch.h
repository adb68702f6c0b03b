/* A run as a person sees it: the line that moves, the table of the end. */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H

#include <detent/train.h>

typedef struct watch {
    bool quiet, moving; /* moving: stderr is a terminal */
    bool drawn;         /* a line without its newline stands there */
    double shown;       /* the clock when something was shown last; 0: never */
    const char *phase;  /* of the latest step */
} watch;

watch watch_begin(bool quiet);
void watch_step(watch *w, const dt_progress *p);
/* Ends the line that moves. */
void watch_end(watch *w);

/* Both to stdout. */
void print_table(const dt_recipe_options *o, const dt_run_summary *s);
void print_model(const dt_run_summary *s, bool json);

#endif
