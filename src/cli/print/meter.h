/* The progress line at the bottom of the terminal, on stderr. Where stderr is not a terminal, long
 * work prints lines: after 5 seconds, then each time the work has taken twice as long. There is one
 * line for the program. */
#ifndef METER_H
#define METER_H

#include <detent/experimental/detent.h>

/* Whether stderr is a terminal, where a line can be redrawn. */
bool meter_can_move(void);

/* Redraws the line. `text` must be narrower than the terminal. */
void meter_draw(const char *text);
/* Ends the line, so that something else can be printed: keeps or removes it. Does nothing if there
 * is none. */
void meter_keep(void);
void meter_remove(void);

/* From half a second on, shows that `what` (lent) is under way and for how long, redrawn by a
 * thread until meter_end; nothing with `quiet`. */
void meter_begin(const char *what, bool quiet);
/* Names another part of the same work. */
void meter_name(const char *what);
/* Sets how much is done, of `all` (0: unknown), and what comes next (copied; NULL: nothing). */
void meter_at(int64_t done, int64_t all, const char *detail);
/* Sets these numbers only; meter_told estimates the time left. */
void meter_count(int64_t done, int64_t all, const char *detail);
/* A function for dt_set_progress: the progress of work whose parts take different times. */
void meter_told(void *user, const dt_work_state *state);
void meter_end(void);

#endif
