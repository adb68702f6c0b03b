/* Calls of the system that a signal may interrupt, begun again until they are done. They return
 * what the call returns, with the reason in errno. */
#ifndef DT__CORE_SYSTEM_CALLS_H
#define DT__CORE_SYSTEM_CALLS_H

#include <dirent.h>
#include <sys/types.h>

/* New files have the permissions 0666 and the umask's. */
int dt__sys_open(const char *path, int flags);
int dt__sys_open_at(int folder, const char *name, int flags);
DIR *dt__sys_open_folder(const char *path);
/* NULL at the end, where errno is 0, and where the folder cannot be read. */
struct dirent *dt__sys_next_entry(DIR *folder);
ssize_t dt__sys_read(int file, void *to, size_t bytes);
ssize_t dt__sys_read_at(int file, void *to, size_t bytes, off_t from);
ssize_t dt__sys_write(int file, const void *data, size_t bytes);
int dt__sys_sync(int file);
/* Starts writing the `bytes` bytes before `end` of a file to the disk, and waits for as many before
 * them, and from time to time for all: so a file grows as fast as the disk can write it, and the
 * last sync is short. */
void dt__sys_write_behind(int file, off_t end, off_t bytes);
int dt__sys_truncate(int file, off_t size);

/* On Linux an interrupted close has closed the descriptor: it is not repeated, and counts as
 * success. */
int dt__sys_close(int file);

#endif
