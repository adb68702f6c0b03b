/* Functions as C text that an export may contain (c_texts.inc). */
#ifndef DT__EXPORT_C_TEXTS_H
#define DT__EXPORT_C_TEXTS_H

#include "core/core.h"

typedef struct dt__c_text {
    const char *name;
    const char *needs; /* names of the texts that come before it, separated by blanks */
    const char *text;  /* the file, NUL-terminated */
} dt__c_text;

/* All texts, in the order in which an export contains them. */
extern const dt__c_text dt__c_texts[];
extern const int dt__c_texts_n;

/* The index of a text; -1: none. `name` ends at a blank or NUL. */
int dt__c_text_named(const char *name);

/* Marks a text and all that it needs in wanted[dt__c_texts_n]. */
void dt__c_text_want(bool *wanted, int text);

#endif
