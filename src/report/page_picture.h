/* Pictures of a page: PNG files within it. */
#ifndef DT__REPORT_PAGE_PICTURE_H
#define DT__REPORT_PAGE_PICTURE_H

#include "report/page_text.h"
#include "report/page_tree.h"

/* An <img> of a picture as examples.json has it; `text` describes it, and is escaped. A dash in its
 * place if `v` is not a picture. */
void dt__put_image(dt__chars *t, const dt__branch *v, const char *text);

#endif
