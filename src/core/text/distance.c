#include "core/text/distance.h"

#include <string.h>

static int min3(int a, int b, int c) { return a < b ? (a < c ? a : c) : (b < c ? b : c); }

static int fold(char c) { return c == '-' ? '_' : c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; }

static int same(char a, char b) { return fold(a) == fold(b); }

int dt__distance(const char *a, const char *b)
{
    int row[3][DT__LONGEST_WORD + 1];
    if (strlen(a) > DT__LONGEST_WORD || strlen(b) > DT__LONGEST_WORD) return DT__LONGEST_WORD;
    const int n = (int)strlen(a), m = (int)strlen(b);
    for (int j = 0; j <= m; j++) row[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= m; j++) {
            const int differs = !same(a[i - 1], b[j - 1]);
            now[j] = min3(last[j] + 1, now[j - 1] + 1, last[j - 1] + differs);
            if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]) &&
                before[j - 2] + 1 < now[j]) {
                now[j] = before[j - 2] + 1;
            }
        }
    }
    return row[n % 3][m];
}
