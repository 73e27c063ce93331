/* MaxPool
   x float32 1x2x30; y float32 1x2x30 */
static __attribute__((__noinline__)) void golden_MaxPool(const float x[restrict 1][2][30], float y[restrict 1][2][30]) {
    for (int c = 0; c < 2; c++) {
        const f32x8 beyond = splat_f32_8(-__builtin_inff());
        const f32x8 edge0 = *(const f32x8 *)&x[0][c][0];
        const f32x8 x0 = _mm256_max_ps(__builtin_shufflevector(edge0, beyond, 8, 8, 8, 8, 0, 1, 2, 3),
                splat_f32_8(-__builtin_inff()));
        const f32x8 x1 = _mm256_max_ps(*(const f32x8 *)&x[0][c][4], splat_f32_8(-__builtin_inff()));
        const f32x8 r4 = _mm256_max_ps(__builtin_shufflevector(x0, x1, 1, 2, 3, 4, 5, 6, 7, 8), x0);
        const f32x8 x2 = _mm256_max_ps(*(const f32x8 *)&x[0][c][12], splat_f32_8(-__builtin_inff()));
        const f32x8 r7 = _mm256_max_ps(__builtin_shufflevector(x1, x2, 1, 2, 3, 4, 5, 6, 7, 8), x1);
        const f32x8 r8 = _mm256_max_ps(__builtin_shufflevector(r4, r7, 2, 3, 4, 5, 6, 7, 8, 9), r4);
        const f32x8 x3 = _mm256_max_ps(*(const f32x8 *)&x[0][c][20], splat_f32_8(-__builtin_inff()));
        const f32x8 r11 = _mm256_max_ps(__builtin_shufflevector(x2, x3, 1, 2, 3, 4, 5, 6, 7, 8), x2);
        const f32x8 r12 = _mm256_max_ps(__builtin_shufflevector(r7, r11, 2, 3, 4, 5, 6, 7, 8, 9), r7);
        const f32x8 r13 = _mm256_max_ps(__builtin_shufflevector(r8, r12, 4, 5, 6, 7, 8, 9, 10, 11), r8);
        const f32x8 edge1 = *(const f32x8 *)&x[0][c][22];
        const f32x8 x4 = _mm256_max_ps(__builtin_shufflevector(edge1, beyond, 6, 7, 8, 8, 8, 8, 8, 8),
                splat_f32_8(-__builtin_inff()));
        const f32x8 r16 = _mm256_max_ps(__builtin_shufflevector(x3, x4, 1, 2, 3, 4, 5, 6, 7, 8), x3);
        const f32x8 r17 = _mm256_max_ps(__builtin_shufflevector(r11, r16, 2, 3, 4, 5, 6, 7, 8, 9), r11);
        const f32x8 r18 = _mm256_max_ps(__builtin_shufflevector(r12, r17, 4, 5, 6, 7, 8, 9, 10, 11), r12);
        const f32x8 c0 = _mm256_max_ps(__builtin_shufflevector(r13, r18, 1, 2, 3, 4, 5, 6, 7, 8), r13);
        *(f32x8 *)&y[0][c][0] = c0;
        const f32x8 r19 = _mm256_max_ps(__builtin_shufflevector(x4, x4, 1, 2, 3, 4, 5, 6, 7, 8), x4);
        const f32x8 r20 = _mm256_max_ps(__builtin_shufflevector(r16, r19, 2, 3, 4, 5, 6, 7, 8, 9), r16);
        const f32x8 r21 = _mm256_max_ps(__builtin_shufflevector(r17, r20, 4, 5, 6, 7, 8, 9, 10, 11), r17);
        const f32x8 c1 = _mm256_max_ps(__builtin_shufflevector(r18, r21, 1, 2, 3, 4, 5, 6, 7, 8), r18);
        *(f32x8 *)&y[0][c][8] = c1;
        const f32x8 r22 = _mm256_max_ps(__builtin_shufflevector(r19, r19, 2, 3, 4, 5, 6, 7, 8, 9), r19);
        const f32x8 r23 = _mm256_max_ps(__builtin_shufflevector(r20, r22, 4, 5, 6, 7, 8, 9, 10, 11), r20);
        const f32x8 c2 = _mm256_max_ps(__builtin_shufflevector(r21, r23, 1, 2, 3, 4, 5, 6, 7, 8), r21);
        *(f32x8 *)&y[0][c][16] = c2;
        const f32x8 c3 = _mm256_max_ps(__builtin_shufflevector(r21, r23, 7, 8, 9, 10, 11, 12, 13, 14),
                __builtin_shufflevector(r21, r23, 6, 7, 8, 9, 10, 11, 12, 13));
        *(f32x8 *)&y[0][c][22] = c3;
    }
}
