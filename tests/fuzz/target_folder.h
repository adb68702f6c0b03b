/* Folders of other programs' models, for targets hf and compressed. */
#ifndef FUZZ_TARGET_FOLDER_H
#define FUZZ_TARGET_FOLDER_H

#include "fuzz.h"

/* Loads the model of a folder, and saves what is loaded. */
void fuzz_load_folder(const char *folder);
/* Writes a folder as a seed of target hf. */
void fuzz_seed_folder(const fuzz_seeds *s, const char *name, const char *folder);

#endif
