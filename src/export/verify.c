/* Running exported files: which interpreter reads a file. */
#include "export/trace.h"

dt_status dt_export_verify(dt_module *m, const dt_model_info *info, const char *path,
                           dt_export_difference out[DT_MAX_OUT], int *n)
{
    (void)info;
    (void)out;
    *n = 0;
    return dt_fail(dt_module_ctx(m), DT_ERR_UNSUPPORTED,
                   "verify: %s has no format that detent runs; a folder of format c tests itself",
                   path);
}
