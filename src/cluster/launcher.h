/* The module of a launcher's MPI. */
#ifndef DT__CLUSTER_LAUNCHER_H
#define DT__CLUSTER_LAUNCHER_H

#include "core/core.h"

/* Finds the module of dt__launcher_mpi(): in the folder of DETENT_MODULES, beside the program, in
 * ../lib/detent. */
bool dt__launcher_module(const char *mpi, char *path, size_t room);

#endif
