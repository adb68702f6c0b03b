/* Replaces src/cluster in a library that is built without it: there is always one process. */
#include "core/ranks.h"

dt_status dt__cluster_open(dt_ctx *ctx, double timeout, dt__cluster **out)
{
    const char *mpi = dt__launcher_mpi();
    (void)timeout;
    *out = NULL;
    if (mpi == NULL) return DT_OK;
    return dt_fail(ctx, DT_ERR_UNSUPPORTED,
                   "a launcher of %s started this process as one of several ranks, but detent was "
                   "built without them (DETENT_CLUSTER)",
                   mpi);
}
