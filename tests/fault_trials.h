/* Commands of the program in one prepared folder, for suites about faults, power failures and
 * kills: what is in the folder before and after them, and what may be there when they did not
 * end. */
#ifndef FAULT_TRIALS_H
#define FAULT_TRIALS_H

#include "fault_runs.h"

typedef struct fault_command {
    const char *arguments;
    const char *run, *resume; /* the folder of a run, and the command that goes on; NULL: the
                                 command again, also where there is no such folder */
    bool says_it;             /* the same words on both streams, where it succeeds */
} fault_command;

typedef struct fault_trial {
    const fault_command *c;
    const char *what;  /* in complaints: what is tried */
    tree start, after; /* before the command, and after it without a fault */
    fault_run clean, run;
    int wrong; /* complaints so far */
} fault_trial;

/* Makes the folder, once for all tests of a suite, in an unchecked fixture. */
void fault_folder_make(void);
/* Takes what the suite has added to the folder as what is there at first. */
void fault_folder_keep(void);
void fault_folder_free(void);
extern char fault_folder[TEST_PATH];

/* Makes the folder what it was at first, runs the command without a fault, and makes the folder
 * again what it was. */
void fault_trial_begin(fault_trial *t, const fault_command *c);
void fault_trial_end(fault_trial *t);

/* Prints what is wrong; the test fails at its end where t->wrong is above 0. */
void fault_complain(fault_trial *t, const char *what, const char *which);

/* Every file of `now` must have the bytes of before or after, and none may be missing that is in
 * both; metrics.jsonl may be a begin. `killed`: temporary files may be left. */
void fault_check_files(fault_trial *t, const tree *now, bool killed);
/* The folder must be what the command makes of it, also without temporary files. */
void fault_check_done(fault_trial *t, const tree *now, const char *when);
bool fault_is_done(const fault_trial *t, const tree *now);
/* Every byte is that of before the command, which then would do what it does without a fault. */
bool fault_is_untouched(const fault_trial *t, const tree *now);

/* Runs the command again, or lets the run go on; then fault_check_done. */
void fault_go_on(fault_trial *t);
/* Makes the folder what it was at first. */
void fault_folder_reset(void);
/* Makes the folder what it was before the command. */
void fault_restore(const fault_trial *t);

bool fault_ends_in(const char *text, const char *end);

#endif
