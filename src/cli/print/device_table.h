/* What a model takes on a device. */
#ifndef CLI_DEVICE_TABLE_H
#define CLI_DEVICE_TABLE_H

#include "cli/cli.h"

/* Prints flash and RAM of each layer as C, by dt_export_costs, and which layer sets the peak; or
 * the same as JSON. With a clock in MHz, not 0, also instructions of a Cortex-M4, cycles and
 * milliseconds, which are estimates. Errors: those of dt_export_costs. */
dt_status cli_print_device(dt_module *m, const dt_model_info *info, int clock, bool json);

#endif
