/* SPDX-License-Identifier: 0BSD
 * One inference by one thread, by a pool of POSIX threads and by OpenMP: the same bytes, how many times as
 * fast. Usage: threads [NUMBER OF THREADS [RUNS]]
 */
#define _POSIX_C_SOURCE 200809L
#include "net.h"
#include "parallel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef _OPENMP
#include <omp.h>
#endif

static float x[NET_X_COUNT], y[NET_Y_COUNT], wanted[NET_Y_COUNT];
static unsigned char arena[NET_ARENA_SIZE] __attribute__((aligned(NET_ARENA_ALIGN)));

static double milliseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* the best of some runs */
static double measure(net_parallel_for parallel_for, void *user, int runs) {
    double best = 1e30;
    for (int i = 0; i < runs; i++) {
        const double begin = milliseconds();
        if (net(x, y, parallel_for, user, arena) != NET_OK) exit(2);
        const double spent = milliseconds() - begin;
        if (spent < best) best = spent;
    }
    return best;
}

static int report(const char *how, double one, double many) {
    const int same = memcmp(y, wanted, sizeof y) == 0;
    printf("%-10s %10.3f ms  %5.2f times as fast%s\n", how, many, one / many, same ? "" : "  OTHER VALUES");
    return same;
}

int main(int argc, char **argv) {
    const int threads = argc > 1 ? atoi(argv[1]) : 2, runs = argc > 2 ? atoi(argv[2]) : 20;
    for (size_t i = 0; i < NET_X_COUNT; i++) x[i] = (float)(i * 31 % 997) / 500 - 1;
    const double one = measure(NULL, NULL, runs);
    memcpy(wanted, y, sizeof y);
    printf("%-10s %10.3f ms\n", "one thread", one);
    struct pool *pool = pool_start(threads);
    if (!pool) return 2;
    int same = report("pthreads", one, measure(parallel_pthreads, pool, runs));
    pool_stop(pool);
#ifdef _OPENMP
    omp_set_num_threads(threads);
    same &= report("OpenMP", one, measure(parallel_openmp, NULL, runs));
#endif
    return same ? 0 : 1;
}
