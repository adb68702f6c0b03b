/* The list of texts: c_texts.inc, with the files themselves, which CMake turns into arrays. */
#include "export/c/c_texts.h"

#include <string.h>

#define DT__C_TEXT(name, needs) extern const char dt__c_text_##name[];
#include "export/c/c_texts.inc"
#undef DT__C_TEXT

const dt__c_text dt__c_texts[] = {
#define DT__C_TEXT(name, needs) { #name, needs, dt__c_text_##name },
#include "export/c/c_texts.inc"
#undef DT__C_TEXT
};

const int dt__c_texts_n = DT__COUNT_OF(dt__c_texts);

int dt__c_text_named(const char *name)
{
    const size_t length = strcspn(name, " ");
    for (int i = 0; i < dt__c_texts_n; i++) {
        const char *other = dt__c_texts[i].name;
        if (strncmp(other, name, length) == 0 && other[length] == '\0') return i;
    }
    return -1;
}

/* What a text needs stands above it, so one pass from the last to the first finds all. */
void dt__c_text_want(bool *wanted, int text)
{
    wanted[text] = true;
    for (int i = text; i >= 0; i--) {
        if (!wanted[i]) continue;
        for (const char *need = dt__c_texts[i].needs; *need != '\0';) {
            wanted[dt__c_text_named(need)] = true;
            need += strcspn(need, " ");
            need += strspn(need, " ");
        }
    }
}
