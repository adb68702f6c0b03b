/* Graphs inside of an ONNX node: the bodies of Scans. */
#include "export/onnx/onnx_put.h"

void dt__put_body_begin(dt__put *p, dt__put_body *around)
{
    *around = (dt__put_body){ .node = p->node,
                              .input = p->input,
                              .output = p->output,
                              .nodes = p->nodes,
                              .room_nodes = p->room_nodes,
                              .inputs = p->inputs,
                              .room_inputs = p->room_inputs,
                              .outputs = p->outputs,
                              .room_outputs = p->room_outputs };
    p->node = NULL;
    p->input = p->output = NULL;
    p->nodes = p->room_nodes = 0;
    p->inputs = p->room_inputs = p->outputs = p->room_outputs = 0;
}

static ProtobufCBinaryData pack(dt__put *p)
{
    DtOnnx__Graph graph;
    dt_onnx__graph__init(&graph);
    graph.name = (char *)(uintptr_t) "step";
    graph.node = p->node;
    graph.n_node = (size_t)p->nodes;
    graph.input = p->input;
    graph.n_input = (size_t)p->inputs;
    graph.output = p->output;
    graph.n_output = (size_t)p->outputs;
    ProtobufCBinaryData body = { 0, NULL };
    if (!p->failed) body.len = dt_onnx__graph__get_packed_size(&graph);
    body.data = dt__put_memory(p, (int64_t)body.len, 1);
    if (body.data != NULL) dt_onnx__graph__pack(&graph, body.data);
    return body;
}

ProtobufCBinaryData dt__put_body_end(dt__put *p, const dt__put_body *around)
{
    const ProtobufCBinaryData body = pack(p);
    DT__RELEASE(p->ctx, p->node, p->input, p->output);
    p->node = around->node;
    p->input = around->input;
    p->output = around->output;
    p->nodes = around->nodes;
    p->room_nodes = around->room_nodes;
    p->inputs = around->inputs;
    p->room_inputs = around->room_inputs;
    p->outputs = around->outputs;
    p->room_outputs = around->room_outputs;
    return body;
}
