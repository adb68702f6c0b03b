/* What a process can determine about its ranks without communication: whether a launcher started
 * several, and which part each rank has. */
#include "core/ranks.h"

#include <stdlib.h>

/* An environment variable with the number of ranks; and, if other programs set it too, a second one
 * that only this MPI sets. */
static const struct {
    const char *size, *besides, *mpi;
} launchers[] = {
    { "OMPI_COMM_WORLD_SIZE", NULL, "openmpi" },
    { "PMI_SIZE", "PMI_RANK", "mpich" },
    { "SLURM_STEP_NUM_TASKS", "PMIX_RANK", "openmpi" },
};

const char *dt__launcher_mpi(void)
{
    for (int i = 0; i < DT__COUNT_OF(launchers); i++) {
        const char *size = getenv(launchers[i].size);
        if (size == NULL) continue;
        if (launchers[i].besides != NULL && getenv(launchers[i].besides) == NULL) continue;
        return strtol(size, NULL, 10) > 1 ? launchers[i].mpi : NULL;
    }
    return NULL;
}

static int count_parts(int64_t a, int64_t b, int64_t own, int k)
{
    const int64_t first = k * own, past = first + own;
    if (b <= first || a >= past) return 0;
    if (dt__is_of_one_rank(a, b, own)) return 1;
    const int64_t m = dt__middle(a, b);
    return count_parts(a, m, own, k) + count_parts(m, b, own, k);
}

int dt__parts_of_rank(int k, int64_t shards, int64_t shards_of_rank)
{
    return count_parts(0, shards, shards_of_rank, k);
}

void dt__range_of_rank(const dt__bucket_tensor *x, int rank, int ranks, int64_t range[2])
{
    const int64_t cuts = dt__ceil_div(x->count, DT__CUT);
    const int64_t k = (int64_t)(((uint64_t)rank + x->turn % (uint64_t)ranks) % (uint64_t)ranks);
    range[0] = dt__min_i64(x->count, k * cuts / ranks * DT__CUT);
    range[1] = dt__min_i64(x->count, (k + 1) * cuts / ranks * DT__CUT);
}
