/*
 * SPDX-License-Identifier: 0BSD
 *
 */
#ifndef GOLDEN_H
#define GOLDEN_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdint.h>
#endif

#define GOLDEN_ABI 1
#define GOLDEN_MODEL_SHA256 ""
#define GOLDEN_ARENA_SIZE 0u
#define GOLDEN_ARENA_ALIGN 64u
#define GOLDEN_WEIGHTS_SIZE 896u
#define GOLDEN_WEIGHTS_ALIGN 64u
#define GOLDEN_X_COUNT 24u /* float32, 2x12 */
#define GOLDEN_Y_COUNT 32u /* float32, 2x16 */

enum {
    GOLDEN_OK = 0,
    GOLDEN_ERR_NULL = -1,
    GOLDEN_ERR_ALIGN = -2,
    GOLDEN_ERR_INDEX = -3,
    GOLDEN_ERR_CAPACITY = -4,
    GOLDEN_ERR_WEIGHTS = -5
};

typedef char golden_assert_int_is_32_bits[sizeof(int) == 4 ? 1 : -1];
typedef char golden_assert_float_is_32_bits[sizeof(float) == 4 ? 1 : -1];

#ifdef __cplusplus
extern "C" {
#endif

/* One inference: GOLDEN_OK or an error. weights: the bytes of golden.weights.bin, aligned to 64; arena: may be NULL. */
int golden(const void *weights, const float *x, float *y, void *arena);

#ifdef __cplusplus
}
#endif

#endif /* GOLDEN_H */

/*
 * SPDX-License-Identifier: 0BSD
 *
 */

#include "golden.h"

struct golden_weights {
    uint32_t tag[2] __attribute__((aligned(64)));
    float w[4][12][4] __attribute__((aligned(64)));
    float b[16] __attribute__((aligned(64)));
};
typedef char golden_assert_weights_size
    [sizeof(struct golden_weights) == GOLDEN_WEIGHTS_SIZE ? 1 : -1];

static inline float max_f32(float x, float y) { if (x < y) x = y; return y != y ? y : x; }

/* Gemm + Relu; 384 MACs
   w float32 4x12x4; x float32 2x12; b float32 16; y float32 2x16 */
static __attribute__((__noinline__)) void golden_Gemm(const float w[restrict 4][12][4], const float x[restrict 2][12],
        const float b[restrict 16], float y[restrict 2][16]) {
    for (int n = 0; n < 16; n += 4) {
        float c0_0 = 0.0f;
        float c0_1 = 0.0f;
        float c0_2 = 0.0f;
        float c0_3 = 0.0f;
        float c1_0 = 0.0f;
        float c1_1 = 0.0f;
        float c1_2 = 0.0f;
        float c1_3 = 0.0f;
        for (int k = 0; k < 12; k++) {
            const float b0 = w[n / 4][k][0];
            const float b1 = w[n / 4][k][1];
            const float b2 = w[n / 4][k][2];
            const float b3 = w[n / 4][k][3];
            const float a0 = x[0][k];
            c0_0 = c0_0 + a0 * b0;
            c0_1 = c0_1 + a0 * b1;
            c0_2 = c0_2 + a0 * b2;
            c0_3 = c0_3 + a0 * b3;
            const float a1 = x[1][k];
            c1_0 = c1_0 + a1 * b0;
            c1_1 = c1_1 + a1 * b1;
            c1_2 = c1_2 + a1 * b2;
            c1_3 = c1_3 + a1 * b3;
        }
        y[0][n] = max_f32(c0_0 + b[n], 0.0f);
        y[1][n] = max_f32(c1_0 + b[n], 0.0f);
        y[0][n + 1] = max_f32(c0_1 + b[n + 1], 0.0f);
        y[1][n + 1] = max_f32(c1_1 + b[n + 1], 0.0f);
        y[0][n + 2] = max_f32(c0_2 + b[n + 2], 0.0f);
        y[1][n + 2] = max_f32(c1_2 + b[n + 2], 0.0f);
        y[0][n + 3] = max_f32(c0_3 + b[n + 3], 0.0f);
        y[1][n + 3] = max_f32(c1_3 + b[n + 3], 0.0f);
    }
}

int golden(const void *weights, const float *x, float *y, void *arena) {
    const struct golden_weights *const w = weights;
    if (!weights || !x || !y) return GOLDEN_ERR_NULL;
    if ((uintptr_t)weights % GOLDEN_WEIGHTS_ALIGN != 0) return GOLDEN_ERR_ALIGN;
    if (w->tag[0] != 0xf145a527u || w->tag[1] != 0x2991fa02u) return GOLDEN_ERR_WEIGHTS;
    (void)arena; /* nothing to keep between kernels: may be NULL */
    golden_Gemm(w->w, (const float (*)[12])x, w->b, (float (*)[16])y);
    return GOLDEN_OK;
}

/* weights: 896 bytes, SHA-256 626392fe7140fdb528218ae9b7aae74410b94af157dac2a1160fd0491be279dc */
