/* Texts of functions that an export of format c may hold (c_texts.inc). */
#ifndef DT__EXPORT_C_TEXTS_H
#define DT__EXPORT_C_TEXTS_H

#include "core/core.h"

typedef struct dt__c_text {
    const char *name;
    const char *needs; /* names of others, which come before it; blanks between them */
    const char *text;  /* the file, NUL-terminated */
} dt__c_text;

/* All of them, in the order in which an export holds them. */
extern const dt__c_text dt__c_texts[];
extern const int dt__c_texts_n;

/* The number of a text; -1: no text has this name. `name` ends at a blank or NUL. */
int dt__c_text_named(const char *name);

/* Marks a text and all that it needs in wanted[dt__c_texts_n]. */
void dt__c_text_want(bool *wanted, int text);

#endif
