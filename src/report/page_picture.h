/* Pictures of a page: PNG files embedded in it. */
#ifndef DT__REPORT_PAGE_PICTURE_H
#define DT__REPORT_PAGE_PICTURE_H

#include "report/page_text.h"
#include "report/page_tree.h"

/* Writes an <img> of a picture in the form of examples.json; `text` is its description and is
 * escaped. Writes a dash if `v` is not a picture. */
void dt__put_image(dt__chars *t, const dt__branch *v, const char *text);

#endif
