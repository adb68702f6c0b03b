/* The line at the bottom of the terminal that moves while a command works. It is written to stderr.
 * Where that is not a terminal, work that takes long has lines: after 5 seconds, then each time it
 * has taken twice as long. The program has one. */
#ifndef METER_H
#define METER_H

#include <detent/experimental/detent.h>

/* Whether stderr is a terminal, on which a line can move. */
bool meter_can_move(void);

/* Rewrites the line. `text` must take less than the terminal's width. */
void meter_draw(const char *text);
/* Ends the line, so that something else can be printed: it stays, or is removed. Nothing if there
 * is none. */
void meter_keep(void);
void meter_remove(void);

/* From half a second on shows that `what` (lent) is under way and for how long, redrawn by a thread
 * until meter_end; nothing with `quiet`. */
void meter_begin(const char *what, bool quiet);
/* Another part of the same work. */
void meter_name(const char *what);
/* How much of it is done, of `all` (0: unknown), and what comes now (copied; NULL: nothing). */
void meter_at(int64_t done, int64_t all, const char *detail);
/* Those numbers alone: how far the work is says meter_told. */
void meter_count(int64_t done, int64_t all, const char *detail);
/* For dt_set_progress: how far work is whose parts do not take equal times. */
void meter_told(void *user, const dt_work_state *state);
void meter_end(void);

#endif
