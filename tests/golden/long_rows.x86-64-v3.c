/* Softmax
   x float32 3x133; e_row float32 133; y float32 3x133 */
static __attribute__((__noinline__)) void golden_Softmax(const float x[restrict 3][133], float e_row[restrict 133],
        float y[restrict 3][133]) {
    for (int i0 = 0; i0 < 3; i0++) {
        f32x8 p0_0 = splat_f32_8(-__builtin_inff());
        f32x8 p0_1 = splat_f32_8(-__builtin_inff());
        f32x8 p0_2 = splat_f32_8(-__builtin_inff());
        f32x8 p0_3 = splat_f32_8(-__builtin_inff());
        p0_0 = _mm256_max_ps(*(const f32x8 *)&x[i0][125], p0_0);
        for (int i1 = 0; i1 < 128; i1 += 32) {
            p0_0 = _mm256_max_ps(*(const f32x8 *)&x[i0][i1], p0_0);
            p0_1 = _mm256_max_ps(*(const f32x8 *)&x[i0][i1 + 8], p0_1);
            p0_2 = _mm256_max_ps(*(const f32x8 *)&x[i0][i1 + 16], p0_2);
            p0_3 = _mm256_max_ps(*(const f32x8 *)&x[i0][i1 + 24], p0_3);
        }
        const f32x8 t0_8 = _mm256_max_ps(_mm256_max_ps(p0_3, p0_2), _mm256_max_ps(p0_1, p0_0));
        const f32x4 t0_4 = _mm_max_ps(__builtin_shufflevector(t0_8, t0_8, 0, 1, 2, 3), __builtin_shufflevector(t0_8,
                t0_8, 4, 5, 6, 7));
        const f32x2 t0_2 = larger_f32_2(__builtin_shufflevector(t0_4, t0_4, 0, 1), __builtin_shufflevector(t0_4, t0_4,
                2, 3));
        const float acc0 = larger_f32(t0_2[0], t0_2[1]);
        f32x8 p2_0 = splat_f32_8(0.0f);
        const f32x8 e1_1 = exp_nonpositive_f32_8(*(const f32x8 *)&x[i0][125] - splat_f32_8(acc0));
        const f32x8 zero2_1 = splat_f32_8(0.0f);
        p2_0 = p2_0 + __builtin_shufflevector(zero2_1, e1_1, 0, 1, 2, 11, 12, 13, 14, 15);
        for (int i1 = 0; i1 < 128; i1 += 8) {
            const f32x8 e1_0 = exp_nonpositive_f32_8(*(const f32x8 *)&x[i0][i1] - splat_f32_8(acc0));
            *(f32x8 *)&e_row[i1] = e1_0;
            p2_0 = p2_0 + e1_0;
        }
        *(f32x8 *)&e_row[125] = e1_1;
        const f32x4 t2_4 = __builtin_shufflevector(p2_0, p2_0, 0, 1, 2, 3) + __builtin_shufflevector(p2_0, p2_0, 4, 5,
                6, 7);
        const f32x2 t2_2 = __builtin_shufflevector(t2_4, t2_4, 0, 1) + __builtin_shufflevector(t2_4, t2_4, 2, 3);
        const float acc2 = t2_2[0] + t2_2[1];
        const float number2 = 1.0f / acc2;
        const f32x8 e3_4 = *(const f32x8 *)&e_row[125] * splat_f32_8(number2);
        for (int i1 = 0; i1 < 128; i1 += 32) {
            *(f32x8 *)&y[i0][i1] = *(const f32x8 *)&e_row[i1] * splat_f32_8(number2);
            *(f32x8 *)&y[i0][i1 + 8] = *(const f32x8 *)&e_row[i1 + 8] * splat_f32_8(number2);
            *(f32x8 *)&y[i0][i1 + 16] = *(const f32x8 *)&e_row[i1 + 16] * splat_f32_8(number2);
            *(f32x8 *)&y[i0][i1 + 24] = *(const f32x8 *)&e_row[i1 + 24] * splat_f32_8(number2);
        }
        *(f32x8 *)&y[i0][125] = e3_4;
    }
}
