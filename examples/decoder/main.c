/* SPDX-License-Identifier: 0BSD
 * main() for systems with a C library. */
#include <stdio.h>

#include "generate.h"

static void put(const char *text) {
    fputs(text, stdout);
    fflush(stdout);
}

int main(int argc, char **argv) {
    const char *wrong = "usage: sums 'two and three is'";
    if (argc == 2) wrong = generate(argv[1], put);
    if (wrong) fprintf(stderr, "%s\n", wrong);
    return wrong != NULL;
}
