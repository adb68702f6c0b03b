/* Metadata in a model's file about the form of its tables (dt_csv_form). */
#include "data/data_options.h"
#include "data/tables/csv.h"

const char *const dt__csv_decimals[] = { "auto", ".", ",", NULL };
const char *const dt__csv_thousands[] = { "auto", "none", ",", ".", "'", "space", NULL };
const char *const dt__csv_encodings[] = {
    "auto", "utf-8", "latin-1", "utf-16le", "utf-16be", NULL
};

#define CHOICE(field, names)                                                                       \
    {                                                                                              \
#field, DT_KEY_CHOICE, .offset = offsetof(dt_csv_form, field), .choices = names,           \
                               .fallback = "auto"                                                  \
    }

const dt_key dt__csv_form_keys[] = {
    CHOICE(decimal, dt__csv_decimals),
    CHOICE(thousands, dt__csv_thousands),
    CHOICE(encoding, dt__csv_encodings),
    { "comment", DT_KEY_STRING, .offset = offsetof(dt_csv_form, comment) },
    { 0 },
};

void dt__csv_take_form(dt_csv_options *o, const dt_csv_form *form)
{
    if (o->decimal == DT_CSV_DECIMAL_AUTO) o->decimal = form->decimal;
    if (o->thousands == DT_CSV_THOUSANDS_AUTO) o->thousands = form->thousands;
    if (o->encoding == DT_CSV_ENCODING_AUTO) o->encoding = form->encoding;
    if (o->comment == NULL) o->comment = form->comment;
}
