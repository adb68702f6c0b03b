/* Lists of numbers or strings in JSON, of any length up to a limit. */
#include "core/block_list.h"
#include "core/text/json.h"
#include "core/text/number.h"

#include <string.h>

dt_status dt__json_values(dt__json *j, void **blocks, bool strings, int64_t *n, const void **out)
{
    int64_t room = 0;
    char *v = NULL;
    const size_t size = strings ? sizeof(char *) : sizeof(double);
    *n = 0;
    for (bool more = dt__json_open(j, '['); more; more = dt__json_more(j, ']'), ++*n) {
        if (*n == DT__JSON_LIST) return dt__json_fail(j, "more than %d entries", DT__JSON_LIST);
        if (*n == room) {
            room = room == 0 ? 16 : 2 * room;
            char *larger = dt__block_list_add(j->ctx, blocks, (size_t)room * size);
            if (larger == NULL) return DT_ERR_NOMEM;
            if (*n > 0) memcpy(larger, v, (size_t)*n * size);
            v = larger;
        }
        char *place = v + (size_t)*n * size, text[DT__NUMBER_TEXT];
        if (strings) {
            DT__TRY(dt__json_string(j, (const char **)(void *)place));
        } else {
            DT__TRY(dt__json_number(j, text));
            if (dt__parse_real(text, (double *)(void *)place) != DT__NUMBER) {
                return dt__json_fail(j, "the number %s is too large", text);
            }
        }
    }
    DT__TRY(j->status);
    *out = v;
    return DT_OK;
}
