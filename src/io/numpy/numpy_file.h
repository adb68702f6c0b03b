/* Opens files of NumPy as dt_file. */
#ifndef DT__IO_NUMPY_FILE_H
#define DT__IO_NUMPY_FILE_H

#include "io/safetensors/safetensors.h"

/* Whether a mapped file is an .npy file, or a zip archive whose first entry is one. */
bool dt__is_numpy(const dt_file *file);
/* Sets the entries of a mapped file: the arrays of an .npz file by their names; of an .npy file one
 * array, which numpy.savez would call "arr_0". Their numbers are copied. Errors: FORMAT (damaged, a
 * name that is not UTF-8 or occurs twice), UNSUPPORTED (a dtype, or Fortran order), NOMEM. */
dt_status dt__numpy_read(dt_file *file);

#endif
