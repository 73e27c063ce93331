/* Softmax
   x float32 3x20; y float32 3x20 */
static __attribute__((__noinline__)) void golden_Softmax(const float x[restrict 3][20], float y[restrict 3][20]) {
    for (int i0 = 0; i0 < 3; i0++) {
        const f32x16 x0_0 = *(const f32x16 *)&x[i0][0];
        f32x16 p0_0 = x0_0;
        const f32x4 x0_1 = *(const f32x4 *)&x[i0][16];
        f32x4 p0_of4 = x0_1;
        const f32x8 t0_8 = _mm256_max_ps(__builtin_shufflevector(p0_0, p0_0, 0, 1, 2, 3, 4, 5, 6, 7),
                __builtin_shufflevector(p0_0, p0_0, 8, 9, 10, 11, 12, 13, 14, 15));
        const f32x4 t0_4 = _mm_max_ps(_mm_max_ps(__builtin_shufflevector(t0_8, t0_8, 0, 1, 2, 3),
                __builtin_shufflevector(t0_8, t0_8, 4, 5, 6, 7)), p0_of4);
        const f32x2 t0_2 = larger_f32_2(__builtin_shufflevector(t0_4, t0_4, 0, 1), __builtin_shufflevector(t0_4, t0_4,
                2, 3));
        const float acc0 = larger_f32(t0_2[0], t0_2[1]);
        const f32x16 e1_0 = exp_f32_16(x0_0 - splat_f32_16(acc0));
        f32x16 p2_0 = e1_0;
        const f32x4 e1_1 = exp_f32_4(x0_1 - splat_f32_4(acc0));
        f32x4 p2_of4 = e1_1;
        const f32x8 t2_8 = __builtin_shufflevector(p2_0, p2_0, 0, 1, 2, 3, 4, 5, 6, 7) + __builtin_shufflevector(p2_0,
                p2_0, 8, 9, 10, 11, 12, 13, 14, 15);
        const f32x4 t2_4 = (__builtin_shufflevector(t2_8, t2_8, 0, 1, 2, 3) + __builtin_shufflevector(t2_8, t2_8, 4, 5,
                6, 7)) + p2_of4;
        const f32x2 t2_2 = __builtin_shufflevector(t2_4, t2_4, 0, 1) + __builtin_shufflevector(t2_4, t2_4, 2, 3);
        const float acc2 = t2_2[0] + t2_2[1];
        const float number2 = 1.0f / acc2;
        *(f32x16 *)&y[i0][0] = e1_0 * splat_f32_16(number2);
        *(f32x4 *)&y[i0][16] = e1_1 * splat_f32_4(number2);
    }
}
