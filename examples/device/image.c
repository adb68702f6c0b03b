/* A three. */
#include "image.h"

#include <string.h>

/* clang-format off */
const char image[IMAGE_SIDE][IMAGE_SIDE + 1] = {
    "                            ",
    "                            ",
    "                            ",
    "                            ",
    "         :+#@@@@#+.         ",
    "       .*@@@@@@@@@@+        ",
    "       #@@#=-..:+@@@+       ",
    "      .@@*        #@@.      ",
    "       :-         =@@:      ",
    "                  *@@.      ",
    "                .*@@*       ",
    "          .::-+%@@%=        ",
    "          #@@@@@@*.         ",
    "          *%@@@@@@%=        ",
    "           ....:=#@@#.      ",
    "                  +@@*      ",
    "                   %@@      ",
    "                   #@@      ",
    "      -*-          %@@      ",
    "      *@@+        *@@*      ",
    "      .%@@%=:..:=#@@%.      ",
    "       .*@@@@@@@@@@*.       ",
    "         .=*%@@%*=.         ",
    "                            ",
    "                            ",
    "                            ",
    "                            ",
    "                            ",
};
/* clang-format on */

void image_read(float *x)
{
    static const char shades[] = " .:-=+*#%@";
    for (int i = 0; i < IMAGE_SIDE; i++) {
        for (int j = 0; j < IMAGE_SIDE; j++) {
            const char *shade = strchr(shades, image[i][j]);
            *x++ = (float)(shade - shades) / 9.0f;
        }
    }
}
