/* A picture of a digit: 28 rows of 28 characters, from ' ' for 0 to '@' for 1. */
#ifndef IMAGE_H
#define IMAGE_H

enum { IMAGE_SIDE = 28 };
extern const char image[IMAGE_SIDE][IMAGE_SIDE + 1];

/* The pixels as the model takes them: 0 ... 1, row by row. */
void image_read(float *x);

#endif
