/* Reading an array, for targets file, npy, npz and wav. */
#ifndef FUZZ_TARGET_ARRAYS_H
#define FUZZ_TARGET_ARRAYS_H

/* Opens the array of this name, FILE or FILE:PART, and reads all of its bytes. */
void fuzz_array(const char *name);
/* Opens a file of tensors, loads each in several dtypes, and checks it. */
void fuzz_tensors(const char *path);

#endif
