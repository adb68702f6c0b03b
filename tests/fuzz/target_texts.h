/* Texts as data, for targets text, jsonl and tokens. */
#ifndef FUZZ_TARGET_TEXTS_H
#define FUZZ_TARGET_TEXTS_H

#include "fuzz.h"

/* Opens the file as data of this format: `how` chooses tokenizer and validation share. */
void fuzz_open_text(dt_data_format format, const char *path, unsigned how);

#endif
