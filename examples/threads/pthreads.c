/* SPDX-License-Identifier: 0BSD
 * A pool of POSIX threads. Loops come a few microseconds apart during an inference and then not for long:
 * a thread without work looks for the next loop for a while, then sleeps until it is woken.
 */
#include "parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { LOOKS = 20000 }; /* before a thread gives up its processor */

struct pool {
    void (*task)(void *context, int i);
    void *context;
    int n, threads, started, ending;
    atomic_int loop;      /* counts the loops: a change is new work */
    atomic_int next;      /* the task to take */
    atomic_int finished;  /* threads that are through with the loop */
    atomic_int sleepers;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t *thread;
};

static void take(struct pool *pool) {
    for (int i; (i = atomic_fetch_add(&pool->next, 1)) < pool->n;) pool->task(pool->context, i);
}

/* the number of the next loop after `seen` */
static int wait_for_loop(struct pool *pool, int seen) {
    for (int look = 0; look < LOOKS; look++)
        if (atomic_load(&pool->loop) != seen) return atomic_load(&pool->loop);
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->sleepers, 1);
    while (atomic_load(&pool->loop) == seen) pthread_cond_wait(&pool->wake, &pool->lock);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->lock);
    return atomic_load(&pool->loop);
}

static void *work(void *argument) {
    struct pool *pool = argument;
    for (int seen = 0;;) {
        seen = wait_for_loop(pool, seen);
        if (pool->ending) return NULL;
        take(pool);
        atomic_fetch_add(&pool->finished, 1);
    }
}

static void announce(struct pool *pool) {
    atomic_fetch_add(&pool->loop, 1);
    if (atomic_load(&pool->sleepers) == 0) return;
    pthread_mutex_lock(&pool->lock); /* whoever is about to sleep sees the new loop, or is asleep by now */
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
}

void parallel_pthreads(void *user, int n, void (*task)(void *context, int i), void *context) {
    struct pool *pool = user;
    if (n < 2 || pool->threads < 2) {
        for (int i = 0; i < n; i++) task(context, i);
        return;
    }
    pool->task = task;
    pool->context = context;
    pool->n = n;
    atomic_store(&pool->next, 0);
    atomic_store(&pool->finished, 0);
    announce(pool);
    take(pool);
    for (int look = 0; atomic_load(&pool->finished) < pool->threads - 1; look++)
        if (look > LOOKS) sched_yield(); /* somebody who has still to leave the loop may want this processor */
}

void pool_stop(struct pool *pool) {
    pool->ending = 1;
    announce(pool);
    for (int i = 0; i < pool->started; i++) pthread_join(pool->thread[i], NULL);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    free(pool->thread);
    free(pool);
}

struct pool *pool_start(int threads) {
    struct pool *pool = calloc(1, sizeof *pool);
    if (!pool) return NULL;
    pool->threads = threads;
    pool->thread = calloc((size_t)(threads > 1 ? threads : 1), sizeof *pool->thread);
    if (!pool->thread) {
        free(pool);
        return NULL;
    }
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    for (; pool->started < threads - 1; pool->started++)
        if (pthread_create(&pool->thread[pool->started], NULL, work, pool) != 0) {
            pool_stop(pool);
            return NULL;
        }
    return pool;
}
