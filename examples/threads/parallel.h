/* SPDX-License-Identifier: 0BSD
 * Two ways to run the tasks of a bundle that was compiled with --threads. Pass one of the functions and, as
 * `user`, what its comment says:
 *
 *     net(x, y, parallel_openmp, NULL, arena);
 */
#ifndef PARALLEL_H
#define PARALLEL_H

/* OpenMP: `user` is ignored; OMP_NUM_THREADS or omp_set_num_threads say how many run. */
void parallel_openmp(void *user, int n, void (*task)(void *context, int i), void *context);

/* POSIX threads: `user` is a pool. One inference at a time may use a pool. */
struct pool;
struct pool *pool_start(int threads); /* the caller is one of them; NULL if they cannot be had */
void pool_stop(struct pool *pool);
void parallel_pthreads(void *user, int n, void (*task)(void *context, int i), void *context);

#endif
