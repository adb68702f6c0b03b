/* Reading an image, for targets png and jpeg. */
#ifndef FUZZ_TARGET_IMAGE_H
#define FUZZ_TARGET_IMAGE_H

/* Bit 0 of `how`: one channel in place of three; bit 1: resized. */
void fuzz_image(const char *path, unsigned how);

#endif
