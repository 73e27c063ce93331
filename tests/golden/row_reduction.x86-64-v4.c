/* Softmax
   x float32 3x20; y float32 3x20 */
static __attribute__((__noinline__)) void golden_Softmax(const float x[restrict 3][20], float y[restrict 3][20]) {
    for (int i0 = 0; i0 < 3; i0++) {
        const f32x16 x0_1 = *(const f32x16 *)&x[i0][4];
        f32x16 p0_0 = x0_1;
        const f32x16 x0_0 = *(const f32x16 *)&x[i0][0];
        f32x16 p0_1 = x0_0;
        const f32x16 t0_16 = _mm512_max_ps(p0_0, p0_1);
        const f32x8 t0_8 = _mm256_max_ps(__builtin_shufflevector(t0_16, t0_16, 0, 1, 2, 3, 4, 5, 6, 7),
                __builtin_shufflevector(t0_16, t0_16, 8, 9, 10, 11, 12, 13, 14, 15));
        const f32x4 t0_4 = _mm_max_ps(__builtin_shufflevector(t0_8, t0_8, 0, 1, 2, 3), __builtin_shufflevector(t0_8,
                t0_8, 4, 5, 6, 7));
        const f32x2 t0_2 = larger_f32_2(__builtin_shufflevector(t0_4, t0_4, 0, 1), __builtin_shufflevector(t0_4, t0_4,
                2, 3));
        const float acc0 = larger_f32(t0_2[0], t0_2[1]);
        const f32x16 e1_1 = exp_f32_16(x0_1 - splat_f32_16(acc0));
        const f32x16 zero2_1 = splat_f32_16(0.0f);
        f32x16 p2_0 = __builtin_shufflevector(zero2_1, e1_1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 28, 29, 30, 31);
        const f32x16 e1_0 = exp_f32_16(x0_0 - splat_f32_16(acc0));
        f32x16 p2_1 = e1_0;
        const f32x16 t2_16 = p2_0 + p2_1;
        const f32x8 t2_8 = __builtin_shufflevector(t2_16, t2_16, 0, 1, 2, 3, 4, 5, 6, 7) +
                __builtin_shufflevector(t2_16, t2_16, 8, 9, 10, 11, 12, 13, 14, 15);
        const f32x4 t2_4 = __builtin_shufflevector(t2_8, t2_8, 0, 1, 2, 3) + __builtin_shufflevector(t2_8, t2_8, 4, 5,
                6, 7);
        const f32x2 t2_2 = __builtin_shufflevector(t2_4, t2_4, 0, 1) + __builtin_shufflevector(t2_4, t2_4, 2, 3);
        const float acc2 = t2_2[0] + t2_2[1];
        const float number2 = 1.0f / acc2;
        const f32x16 e3_1 = e1_1 * splat_f32_16(number2);
        *(f32x16 *)&y[i0][0] = e1_0 * splat_f32_16(number2);
        *(f32x16 *)&y[i0][4] = e3_1;
    }
}
