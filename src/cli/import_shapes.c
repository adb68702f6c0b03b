/* --shape: the dimensions of inputs, as trtexec and onnxsim take them. */
#include "cli/import_parts.h"

#include <stdlib.h>
#include <string.h>

/* Reads "1x3x?x320". */
static bool read_dims(const char *at, dt_ints *out)
{
    out->n = 0;
    for (bool more = true; more; at++) {
        char *end = (char *)(uintptr_t)(at + 1);
        int64_t extent = 0;
        if (out->n == DT_MAX_RANK || *at < '0' || (*at > '9' && *at != '?')) return false;
        if (*at != '?') extent = strtoll(at, &end, 10);
        if ((*at != '?' && extent < 1) || extent > INT32_MAX) return false;
        if (*end != 'x' && *end != 0) return false;
        out->v[out->n++] = extent;
        more = *end == 'x';
        at = end;
    }
    return true;
}

int import_shapes_read(const cli_args *args, const char *option, import_shapes *out)
{
    *out = (import_shapes){ .text = option == NULL ? NULL : strdup(option) };
    if (option != NULL && out->text == NULL) return cli_fail(args, CLI_FAILED, "out of memory");
    for (char *at = out->text, *next; at != NULL; at = next) {
        next = strchr(at, ',');
        if (next != NULL) *next++ = 0;
        char *dims = strrchr(at, ':'); /* names of TensorFlow contain colons */
        if (dims != NULL) *dims++ = 0;
        const bool room = out->n < CLI_MOST_SHAPES;
        if (!room || !read_dims(dims == NULL ? at : dims, &out->shape[out->n].dims)) {
            return cli_fail(args, CLI_USAGE,
                            "--shape is '%s'; expected NAME:1x3x48x320, for several inputs between "
                            "commas, with ? for a dimension that stays open",
                            option);
        }
        out->shape[out->n++].input = dims == NULL ? NULL : at;
    }
    return CLI_DONE;
}
