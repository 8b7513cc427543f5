/* picture.h - Writing a PNG file. */
#ifndef SL_EXAMPLES_PICTURE_H
#define SL_EXAMPLES_PICTURE_H
#include <png.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Writes rows of RGB bytes from the top; returns 0 on success. */
static int write_picture(const char *path, uint32_t width, uint32_t height, const uint8_t *rgb) {
    png_image image;
    memset(&image, 0, sizeof image);
    image.version = PNG_IMAGE_VERSION;
    image.width = width;
    image.height = height;
    image.format = PNG_FORMAT_RGB;
    if (png_image_write_to_file(&image, path, 0, rgb, 0, NULL)) {
        (void)printf("%s: %u x %u\n", path, width, height);
        return 0;
    }
    (void)fprintf(stderr, "%s: %s\n", path, image.message);
    return 1;
}
#endif
