/* The list of exporters. */
#include "io/export.h"

#include "core/core.h"

#define DT__EXPORTER(name) &dt__exporter_##name,
static const dt_exporter *const exporters[] = {
#include "io/exporters.inc"
};
#undef DT__EXPORTER

const dt_exporter *dt_exporter_at(int i)
{
    return i >= 0 && i < DT__COUNT_OF(exporters) ? exporters[i] : NULL;
}
