/* Runs the program on several ranks, under the launchers of the MPIs that detent was built with. */
#ifndef RANKS_H
#define RANKS_H

#include "testing.h"

/* A launcher, the module that it needs, and its options to start several ranks on few
 * processors. */
typedef struct launcher {
    const char *module, *program, *command;
} launcher;

#define LAUNCHERS 2

/* Lists the launchers that are installed; without any the test is skipped. */
int ranks_launchers(const launcher *found[LAUNCHERS]);

/* Runs `words` of detent in the folder, on `ranks` ranks (l NULL: without a launcher). Returns the
 * exit status; *said, to be freed, what it wrote. */
int ranks_run(const launcher *l, int ranks, const char *folder, const char *words, char **said);

/* Sets how ranks exchange from now on: 0: as they choose, by shared memory; 1: by messages. */
void ranks_choose_way(int way);
/* A teardown: the next test begins without a choice. */
void ranks_choose_no_way(void);
#define RANKS_WAYS 2

/* Trains by a recipe of configs/ and its overrides. */
void ranks_train(const launcher *l, int ranks, const char *folder, const char *recipe);

/* Fails unless two runs, in the folders `run`, have the same files, except for times, costs of
 * communication, and machine.json. */
void ranks_compare(const char *a, const char *b, const char *what);

/* Writes rank.sh: it runs detent and, on one rank, sends it a signal some seconds after the first
 * checkpoint. */
void ranks_write_script(const char *folder);

#define RANKS_PROGRAM DETENT_BINARY_DIR "/detent"
#define RANKS_RECIPES DETENT_SOURCE_DIR "/configs/"

/* What all recipes share, and some of a few updates. */
#define RANKS_COMMON                                                                               \
    "run.dir=run run.threads=1 run.report=false train.log.layers_every_steps=0 "                   \
    "cluster.check_steps=2 cluster.timeout=100 "
#define RANKS_DIGITS                                                                               \
    "digits-mlp.yaml " RANKS_COMMON                                                                \
    "model.sizes=[784,24,10] data.train_count=90 data.test_count=20 train.epochs=2 "               \
    "train.batch_size=30 qat.start_step=3 train.schedule.warmup_steps=1 train.shards=4 "

#endif
