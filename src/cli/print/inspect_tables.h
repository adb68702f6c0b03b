/* What `detent inspect` prints of a model. */
#ifndef CLI_INSPECT_TABLES_H
#define CLI_INSPECT_TABLES_H

#include "cli/cli.h"

#include <detent/experimental/export.h>
#include <detent/experimental/io.h>

/* ---- its layers (layer_table.c) -------------------------------------------------------------- */

/* Prints layer, output shape, parameters, multiply-adds, bits per parameter and bytes as a table or
 * a JSON list. For families whose shapes are not known prints nothing (JSON: null). */
dt_status cli_print_layers(dt_module *m, const dt_family *family, const void *options, bool json);
/* Prints this for the model of a recipe, prepared as its `qat` says. */
dt_status cli_print_recipe_layers(dt_ctx *ctx, dt_recipe *recipe, bool json);

/* ---- the ops that it runs, from its trace (graph_table.c) ------------------------------------ */

/* Prints a table of calls with shapes, forms, multiply-adds and memory; `dot`: the graph in
 * Graphviz's language. Errors: those of dt_trace_model. */
dt_status cli_print_graph(dt_module *m, const dt_model_info *info, bool dot);

/* ---- what it takes on a device (device_table.c) ---------------------------------------------- */

/* Prints flash and RAM of each layer as C, by dt_export_costs, and the layer with the peak, as text
 * or JSON. If `clock` (MHz) is not 0, also estimates of instructions, cycles and milliseconds on a
 * Cortex-M4. Errors: those of dt_export_costs. */
dt_status cli_print_device(dt_module *m, const dt_model_info *info, int clock, bool json);

/* ---- a graph of another program (graph_file.c) ----------------------------------------------- */

/* Prints operators, inputs and outputs of an ONNX file, and what import refuses in it. */
void cli_print_graph_file(const dt_graph_info *info, bool json);

#endif
