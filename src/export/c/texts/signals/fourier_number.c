/* A complex number. */
typedef struct fourier_number {
    float r, i;
} fourier_number;
