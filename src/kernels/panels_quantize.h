/* Extents of panels_quantize.inc. */
#ifndef DT__KERNELS_PANELS_QUANTIZE_H
#define DT__KERNELS_PANELS_QUANTIZE_H

#include "kernels/panels.h"

#define EIGHT 8
#define COLUMNS 2048 /* of a row at a time: a multiple of DT__STEP that divides DT__PIECE */
#define GROUPS (COLUMNS / DT__STEP)
#define CODES (COLUMNS + DT__LANES) /* room for zeros behind them */

#endif
