/* The exported model under fixed names: compile with -DNAME=... -DHEADER=... -DINPUTS=...
 * -DOUTPUTS=..., and -DSTANDARDIZE where the model has such a function; a language model with
 * -DLANGUAGE -DVOCAB=... -DCONTEXT=... For a language model ARENA_BYTES is the size of its
 * state. */
#ifndef EXPORTED_H
#define EXPORTED_H
#include HEADER

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)
#define MODEL_RUN JOIN(NAME, _run)
#define MODEL_STANDARDIZE JOIN(NAME, _standardize)
#define MODEL_RESET JOIN(NAME, _reset)
#define MODEL_NEXT JOIN(NAME, _next)
#define MODEL_SELFTEST JOIN(NAME, _selftest)
#endif
