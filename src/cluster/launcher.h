/* Who started this process, and the module of that launcher's MPI. */
#ifndef DT__CLUSTER_LAUNCHER_H
#define DT__CLUSTER_LAUNCHER_H

#include "core/core.h"

/* The name of the module for the launcher's MPI, "openmpi" or "mpich"; NULL: no launcher started
 * this process, or it is the only one. By environment variables alone: OMPI_COMM_WORLD_SIZE (Open
 * MPI's mpirun), PMIX_RANK with SLURM_STEP_NUM_TASKS (srun --mpi=pmix), PMI_SIZE (MPICH's mpirun,
 * srun --mpi=pmi2). */
const char *dt__launcher_mpi(void);

/* Finds the module: in the folder of DETENT_MODULES, beside the program, in ../lib/detent. */
bool dt__launcher_module(const char *mpi, char *path, size_t room);

#endif
