#if defined(DEVICE_CMSIS_NN)
#include <arm_nnfunctions.h>
#endif
