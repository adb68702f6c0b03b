/* Nodes of ONNX that are wrong: a case of tests/onnx_cases.inc with one thing changed. */
#ifndef ONNX_DAMAGE_H
#define ONNX_DAMAGE_H

#include "onnx_graph.h"

#include <stdint.h>

/* The model of a case whose inputs from `constant` on are initializers, with change number k: of an
 * input its presence, type, rank, extents or numbers, of an attribute its presence, type or value,
 * an attribute more, or outputs. Some of them are right as well. NULL: there are fewer; -1: as it
 * is. It lives until onnx_forget. */
DtOnnx__Model *onnx_damaged(const onnx_case *c, int constant, int64_t k);

/* All cases of onnx_cases.inc. */
extern const onnx_case onnx_cases[];
extern const int onnx_case_count;

#endif
