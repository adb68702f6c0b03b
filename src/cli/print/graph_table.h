/* The ops that a model runs, from its trace. */
#ifndef CLI_GRAPH_TABLE_H
#define CLI_GRAPH_TABLE_H

#include <detent/experimental/export.h>

/* Prints a table of calls with shapes, forms, multiply-adds and memory; `dot`: the graph in the
 * language of Graphviz. Errors: those of dt_trace_model. */
dt_status cli_print_graph(dt_module *m, const dt_model_info *info, bool dot);

#endif
