/* Width, columns of characters, colours and bars (screen.h). Widths of characters are those of
 * utf8proc, which follow Unicode's East Asian Width. */
#include "cli/print/screen.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utf8proc.h>

static int clamp(long columns)
{
    if (columns < SCREEN_LEAST) return SCREEN_LEAST;
    return columns > SCREEN_MOST ? SCREEN_MOST : (int)columns;
}

int screen_width(FILE *to)
{
    const char *given = getenv("COLUMNS");
    struct winsize size;
    char *end;
    const long columns = given == NULL ? 0 : strtol(given, &end, 10);
    if (columns > 0 && *end == 0) return clamp(columns);
    const bool known = ioctl(fileno(to), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return known ? clamp(size.ws_col) : SCREEN_USUAL;
}

bool screen_wraps(FILE *to) { return getenv("COLUMNS") != NULL || isatty(fileno(to)) != 0; }

/* Bytes of the character at `text`, and its columns; an escape sequence for a style counts as one
 * character of 0 columns. */
static size_t next(const char *text, size_t bytes, int *columns)
{
    if (bytes > 2 && text[0] == '\033' && text[1] == '[') {
        const char *end = memchr(text, 'm', bytes);
        *columns = 0;
        if (end != NULL) return (size_t)(end - text) + 1;
    }
    utf8proc_int32_t code;
    const utf8proc_ssize_t n =
        utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)bytes, &code);
    *columns = n > 0 ? utf8proc_charwidth(code) : 1;
    return n > 0 ? (size_t)n : 1;
}

int screen_columns(const char *text, size_t bytes)
{
    int sum = 0, columns;
    for (size_t i = 0; i < bytes; sum += columns) i += next(text + i, bytes - i, &columns);
    return sum;
}

size_t screen_fitting(const char *text, int columns)
{
    const size_t bytes = strlen(text);
    size_t i = 0;
    for (int used = 0, wide; i < bytes; used += wide) {
        const size_t n = next(text + i, bytes - i, &wide);
        if (used + wide > columns) break;
        i += n;
    }
    return i;
}

const char *screen_style_of(FILE *to, screen_style style)
{
    static const char *const sequences[] = { [SCREEN_PLAIN] = "\033[0m",
                                             [SCREEN_BOLD] = "\033[1m",
                                             [SCREEN_DIM] = "\033[2m",
                                             [SCREEN_RED] = "\033[31m",
                                             [SCREEN_GREEN] = "\033[32m" };
    const char *refused = getenv("NO_COLOR"), *kind = getenv("TERM");
    if (refused != NULL && *refused != 0) return "";
    if (kind == NULL || strcmp(kind, "dumb") == 0 || !isatty(fileno(to))) return "";
    return sequences[style];
}

/* Whether the locale of the environment says UTF-8. */
static bool has_blocks(void)
{
    static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };
    const char *locale = NULL;
    for (int i = 0; i < 3 && (locale == NULL || *locale == 0); i++) locale = getenv(names[i]);
    if (locale == NULL) return false;
    return strstr(locale, "UTF-8") != NULL || strstr(locale, "utf8") != NULL;
}

void screen_bar(char text[SCREEN_BAR], int width, double share)
{
    const bool blocks = has_blocks();
    const char *const full = blocks ? "\u2588" : "#", *const empty = blocks ? "\u2591" : "-";
    const double part = share > 0 ? share < 1 ? share : 1 : 0;
    const int filled = (int)(part * width + 0.5);
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < width && used + 4 < SCREEN_BAR; i++) {
        used += (size_t)snprintf(text + used, SCREEN_BAR - used, "%s", i < filled ? full : empty);
    }
}

void screen_time(char text[32], double seconds)
{
    const long s = seconds > 0 && seconds < 1e9 ? (long)(seconds + 0.5) : 0;
    if (s >= 3600) snprintf(text, 32, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else snprintf(text, 32, "%ld:%02ld", s / 60, s % 60);
}
