/* Commands of the program in one prepared folder, for suites about faults, power failures and
 * kills: the folder before and after a command, and what a command may leave if it does not
 * finish. */
#ifndef FAULT_TRIALS_H
#define FAULT_TRIALS_H

#include "fault_runs.h"

typedef struct fault_command {
    const char *arguments;
    const char *run, *resume; /* the folder of a run, and the command that goes on; NULL: the
                                 command again, also where there is no such folder */
    bool says_it;             /* both streams are the same each time it succeeds */
} fault_command;

typedef struct fault_trial {
    const fault_command *c;
    const char *what;  /* printed in complaints: what is tried */
    tree start, after; /* before the command, and after it without a fault */
    fault_run clean, run;
    int wrong; /* complaints so far */
} fault_trial;

/* Makes the folder, once for all tests of a suite, in an unchecked fixture. */
void fault_folder_make(void);
/* Adds the suite's own files in the folder to its initial state. */
void fault_folder_keep(void);
void fault_folder_free(void);
extern char fault_folder[TEST_PATH];

/* Resets the folder, runs the command without a fault, and resets the folder again. */
void fault_trial_begin(fault_trial *t, const fault_command *c);
void fault_trial_end(fault_trial *t);

/* Prints what is wrong; the test fails at its end where t->wrong is above 0. */
void fault_complain(fault_trial *t, const char *what, const char *which);

/* Every file of `now` must have the bytes of before or after, and none may be missing that is in
 * both; metrics.jsonl may be a begin. `killed`: temporary files may be left. */
void fault_check_files(fault_trial *t, const tree *now, bool killed);
/* The folder must be the complete result of the command, without temporary files. */
void fault_check_done(fault_trial *t, const tree *now, const char *when);
bool fault_is_done(const fault_trial *t, const tree *now);
/* Whether every byte is as before the command, which would then do the same as without a fault. */
bool fault_is_untouched(const fault_trial *t, const tree *now);

/* Runs the command again, or resumes the run; then fault_check_done. */
void fault_go_on(fault_trial *t);
/* Makes the folder what it was at first. */
void fault_folder_reset(void);
/* Makes the folder what it was before the command. */
void fault_restore(const fault_trial *t);

bool fault_ends_in(const char *text, const char *end);

#endif
