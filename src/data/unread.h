/* Counts the entries of folders that a reader leaves out, by suffix. */
#ifndef DT__DATA_UNREAD_H
#define DT__DATA_UNREAD_H

#include "core/core.h"

#define DT__UNREAD_ENDINGS 6 /* counted by name; further ones are counted together */
#define DT__UNREAD_BYTES 12  /* of an ending, with its NUL */

typedef struct dt__unread {
    struct {
        char text[DT__UNREAD_BYTES]; /* in lower case, with the dot; "": none */
        int64_t n;
    } ending[DT__UNREAD_ENDINGS];
    int n;
    int64_t files, others, folders;
} dt__unread;

/* Whether an entry is skipped silently: hidden, or made by a file manager. */
bool dt__unread_is_silent(const char *name);
void dt__unread_add(dt__unread *u, const char *name);
/* Formats the counts and u->folders: "9 files (7 .jpg, 1 .bmp, 1 without ending) and 2 folders";
 * "": none. Suffixes are from untrusted names, so a caller must escape them. */
void dt__unread_text(const dt__unread *u, char *text, size_t size);

#endif
