/* The exporters of src/io/export_<name>.c. */
#ifndef DT__IO_EXPORT_H
#define DT__IO_EXPORT_H

#include <detent/io.h>

#define DT__EXPORTER(name) extern const dt_exporter dt__exporter_##name;
#include "io/exporters.inc"
#undef DT__EXPORTER

#endif
