/* SPDX-License-Identifier: 0BSD */
#include "parallel.h"

void parallel_openmp(void *user, int n, void (*task)(void *context, int i), void *context) {
    (void)user;
#pragma omp parallel for schedule(dynamic, 1)
    for (int i = 0; i < n; i++) task(context, i);
}
