/* The internals of src/cluster; its users include core/ranks.h. Each rank has a communication
 * thread, which alone calls MPI and runs jobs in the order in which they were posted: the same
 * order on every rank. */
#ifndef DT__CLUSTER_CLUSTER_H
#define DT__CLUSTER_CLUSTER_H

#include "cluster/transport.h"
#include "core/ranks.h"

/* ---- functions of the table dt__cluster_hooks ------------------------------------------------ */

/* share.c */
dt_status dt__ranks_gather(dt__cluster *c, const char *what, const void *own, size_t bytes,
                           void *all);
dt_status dt__ranks_gather_parts(dt__cluster *c, const char *what, const dt__segment *part, int to);
dt_status dt__ranks_tell(dt__cluster *c, const char *what, void *data, size_t bytes);
dt_status dt__ranks_meet(dt__cluster *c, dt__meeting which, dt_status status);
/* tensor_lists.c */
dt_status dt__ranks_tensors(dt__cluster *c, const dt__tensor_post *post, dt__tensor_list *all);
void dt__ranks_tensor_lists_free(dt__cluster *c, dt__tensor_list *all);
/* buckets.c, bucket.c */
dt_status dt__ranks_buckets_make(dt__buckets *b);
void dt__ranks_buckets_free(dt__buckets *b);
void dt__ranks_bucket_post(dt__bucket *b, dt__bucket_task task);
/* agreement.c */
dt_status dt__ranks_agree(const struct dt__agreement *a, dt_status status);
/* rounding/statistics_ranks.c */
dt_status dt__ranks_join_statistics(struct dt_statistics *s);

/* ---- buckets --------------------------------------------------------------------------------- */

/* Elements from ... from+n-1 of a tensor. */
typedef struct dt__bucket_piece {
    int64_t tensor, from, n;
} dt__bucket_piece;

/* The part of span i that belongs to rank k. */
dt__bucket_piece dt__bucket_piece_of(const dt__bucket *b, int i, int k);

/* launcher.c */
/* Finds the module of dt__launcher_mpi(): in the folder of DETENT_MODULES, beside the program, or
 * in ../lib/detent. */
bool dt__launcher_module(const char *mpi, char *path, size_t room);

#endif
