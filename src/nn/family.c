/* The model families that a recipe can name. */
#include "nn/family.h"

#define DT__FAMILY(name) &dt__family_##name,
static const dt_family *const families[] = {
#include "nn/families.inc"
};
#undef DT__FAMILY

const dt_family *dt_family_at(int i)
{
    return i >= 0 && i < DT__COUNT_OF(families) ? families[i] : NULL;
}
