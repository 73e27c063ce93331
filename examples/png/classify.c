/* SPDX-License-Identifier: 0BSD
 * Reads PNG images, and prints the class of each and its score. The bundle is net.h; CMakeLists.txt says how
 * large its images are and how pixels become numbers: x = (pixel - mean) * scale for each channel, channels
 * first. Usage: PROGRAM IMAGE.png...
 */
#include "net.h"

#include <png.h>
#include <stdio.h>
#include <string.h>

static const float means[CHANNELS] = {MEANS}, scales[CHANNELS] = {SCALES};
static png_byte pixels[HEIGHT * WIDTH * CHANNELS];
static float x[CHANNELS * HEIGHT * WIDTH], scores[CLASSES];
static unsigned char arena[NET_ARENA_SIZE] __attribute__((aligned(NET_ARENA_ALIGN)));

/* Fill x from a file; 0, or 1 behind a message. */
static int read_image(const char *path) {
    png_image image;
    memset(&image, 0, sizeof image);
    image.version = PNG_IMAGE_VERSION;
    if (!png_image_begin_read_from_file(&image, path)) {
        fprintf(stderr, "%s: %s\n", path, image.message);
        return 1;
    }
    if (image.width != WIDTH || image.height != HEIGHT) {
        fprintf(stderr, "%s: %u x %u pixels, the model reads %d x %d\n", path, (unsigned)image.width,
                (unsigned)image.height, WIDTH, HEIGHT);
        png_image_free(&image);
        return 1;
    }
    image.format = CHANNELS == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
    if (!png_image_finish_read(&image, NULL, pixels, 0, NULL)) {
        fprintf(stderr, "%s: %s\n", path, image.message);
        return 1;
    }
    for (int i = 0; i < HEIGHT * WIDTH; i++)
        for (int c = 0; c < CHANNELS; c++)
            x[c * HEIGHT * WIDTH + i] = ((float)pixels[i * CHANNELS + c] - means[c]) * scales[c];
    return 0;
}

int main(int count, char **paths) {
    int failed = count < 2;
    if (failed)
        fprintf(stderr, "usage: %s IMAGE.png...\n", paths[0]);
    for (int n = 1; n < count; n++) {
        if (read_image(paths[n])) {
            failed = 1;
            continue;
        }
        const int status = net(x, scores, arena);
        if (status != NET_OK) {
            fprintf(stderr, "%s: error %d of the bundle\n", paths[n], status);
            return 1;
        }
        int best = 0;
        for (int k = 1; k < CLASSES; k++)
            if (scores[k] > scores[best])
                best = k;
        printf("%s: class %d, score %.6g\n", paths[n], best, (double)scores[best]);
    }
    return failed;
}
