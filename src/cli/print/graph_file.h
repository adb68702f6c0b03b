/* A graph of another program, for `inspect`. */
#ifndef GRAPH_FILE_H
#define GRAPH_FILE_H

#include <detent/experimental/io.h>

/* Prints operators, inputs and outputs of an ONNX file, and what import refuses in it. */
void cli_print_graph_file(const dt_graph_info *info, bool json);

#endif
