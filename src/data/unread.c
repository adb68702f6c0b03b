/* Describes entries of folders that a reader leaves out (unread.h). */
#include "data/unread.h"

#include "core/text/ending.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool dt__unread_is_silent(const char *name)
{
    static const char *const made[] = { "thumbs.db", "desktop.ini", "ehthumbs.db", "icon\r" };
    const size_t n = strlen(name);
    if (name[0] == '.') return true;
    for (int i = 0; i < DT__COUNT_OF(made); i++) {
        if (strlen(made[i]) == n && dt__is_ending(name, made[i], n)) return true;
    }
    return false;
}

void dt__unread_add(dt__unread *u, const char *name)
{
    char small[DT__UNREAD_BYTES] = "";
    const char *dot = strrchr(name, '.');
    const size_t n = dot == NULL ? 0 : strlen(dot);
    const bool is_long = n >= sizeof small;
    for (size_t i = 0; i < n && !is_long; i++) small[i] = dt__small_letter(dot[i]);
    int i = 0;
    while (i < u->n && strcmp(u->ending[i].text, small) != 0) i++;
    u->files++;
    if (is_long || i == DT__UNREAD_ENDINGS) {
        u->others++;
        return;
    }
    if (i == u->n) strcpy(u->ending[u->n++].text, small);
    u->ending[i].n++;
}

static void put(char *text, size_t size, const char *format, ...) DT_PRINTF(3, 4);
static void put(char *text, size_t size, const char *format, ...)
{
    const size_t used = strlen(text);
    DT__FORMAT(text + used, size - used, format);
}

void dt__unread_text(const dt__unread *u, char *text, size_t size)
{
    text[0] = 0;
    if (u->files > 0) put(text, size, "%lld file%s (", (long long)u->files, &"s"[u->files == 1]);
    for (int i = 0; i < u->n; i++) {
        const char *name = u->ending[i].text;
        put(text, size, "%s%lld %s", i == 0 ? "" : ", ", (long long)u->ending[i].n,
            *name == 0 ? "without ending" : name);
    }
    if (u->others > 0) {
        put(text, size, "%s%lld others", u->n == 0 ? "" : ", ", (long long)u->others);
    }
    if (u->files > 0) put(text, size, ")");
    if (u->folders > 0) {
        put(text, size, "%s%lld folder%s", u->files > 0 ? " and " : "", (long long)u->folders,
            &"s"[u->folders == 1]);
    }
}
