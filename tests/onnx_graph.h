/* Small models of ONNX from text, for suites that run them. */
#ifndef ONNX_GRAPH_H
#define ONNX_GRAPH_H

#include "io/onnx.pb-c.h"

#include <stdbool.h>
#include <stddef.h>

#define ONNX_VALUES 9

/* A node with its inputs. A tensor is its type, its extents, and numbers: "f32 2 3: 1 2 3 4 5 6",
 * "i64 1: -1", a scalar "f32: 1"; "-" is an omitted one. With "=" in front it is an initializer,
 * else an input of the graph. Attributes: "axis=1 alpha=0.5f pads=[0,1] mode=edge value={i64 1: 7}
 * body=(a b > c | c=Add a b)"; a body is inputs > outputs | nodes. */
typedef struct onnx_case {
    const char *op, *attributes; /* "com.microsoft:MatMulNBits" names a domain */
    const char *in[ONNX_VALUES], *out[ONNX_VALUES];
    const char *fails; /* part of the error message, in place of results */
    double near;       /* relative closeness of results; 0: equal bits */
} onnx_case;

/* A tensor. It and models live until onnx_forget. */
DtOnnx__Tensor *onnx_tensor(const char *text, char *name);
/* The model of one node with inputs x0, x1, ... and outputs y0, y1, ... */
DtOnnx__Model *onnx_model(const onnx_case *c);
/* A model that begins with h = relu(x0), for x0 [batch, 4], where `out` has two dimensions; its
 * output is y, of the extents of `out`, whose first one is the batch. */
DtOnnx__Model *onnx_start(const char *out);
/* Adds a node with blank-separated inputs and one output, which becomes the graph's output 0. */
void onnx_node(DtOnnx__Model *m, const char *op, const char *attributes, const char *in,
               const char *out);
/* Adds an initializer. */
void onnx_weight(DtOnnx__Model *m, const char *name, const char *tensor);
/* Its bytes; they live until onnx_forget. */
unsigned char *onnx_pack(const DtOnnx__Model *m, size_t *n);
void onnx_forget(void);

#endif
