/* Gemm_0; 224 MACs
   x float32 2x28; h float32 4x28; y float32 2x4 */
static __attribute__((__noinline__)) void golden_Gemm_0(const float x[restrict 2][28], const float h[restrict 4][28],
        float y[restrict 2][4]) {
    f32x8 c0_0 = splat_f32_8(0.0f);
    f32x8 c0_1 = splat_f32_8(0.0f);
    f32x8 c0_2 = splat_f32_8(0.0f);
    f32x8 c0_3 = splat_f32_8(0.0f);
    f32x8 c1_0 = splat_f32_8(0.0f);
    f32x8 c1_1 = splat_f32_8(0.0f);
    f32x8 c1_2 = splat_f32_8(0.0f);
    f32x8 c1_3 = splat_f32_8(0.0f);
    const f32x8 none = splat_f32_8(0.0f);
    for (int k = 0; k < 24; k += 8) {
        const f32x8 b0 = *(const f32x8 *)&x[0][k];
        const f32x8 b1 = *(const f32x8 *)&x[1][k];
        const f32x8 a0 = *(const f32x8 *)&h[0][k];
        c0_0 = _mm256_fmadd_ps(a0, b0, c0_0);
        c1_0 = _mm256_fmadd_ps(a0, b1, c1_0);
        const f32x8 a1 = *(const f32x8 *)&h[1][k];
        c0_1 = _mm256_fmadd_ps(a1, b0, c0_1);
        c1_1 = _mm256_fmadd_ps(a1, b1, c1_1);
        const f32x8 a2 = *(const f32x8 *)&h[2][k];
        c0_2 = _mm256_fmadd_ps(a2, b0, c0_2);
        c1_2 = _mm256_fmadd_ps(a2, b1, c1_2);
        const f32x8 a3 = *(const f32x8 *)&h[3][k];
        c0_3 = _mm256_fmadd_ps(a3, b0, c0_3);
        c1_3 = _mm256_fmadd_ps(a3, b1, c1_3);
    }
    const f32x8 b0_rest_all = *(const f32x8 *)&x[0][20];
    const f32x8 b0_rest = __builtin_shufflevector(b0_rest_all, none, 8, 9, 10, 11, 4, 5, 6, 7);
    const f32x8 b1_rest_all = *(const f32x8 *)&x[1][20];
    const f32x8 b1_rest = __builtin_shufflevector(b1_rest_all, none, 8, 9, 10, 11, 4, 5, 6, 7);
    const f32x8 a0_rest_all = *(const f32x8 *)&h[0][20];
    const f32x8 a0_rest = __builtin_shufflevector(a0_rest_all, none, 8, 9, 10, 11, 4, 5, 6, 7);
    c0_0 = _mm256_fmadd_ps(a0_rest, b0_rest, c0_0);
    c1_0 = _mm256_fmadd_ps(a0_rest, b1_rest, c1_0);
    const f32x8 a1_rest_all = *(const f32x8 *)&h[1][20];
    const f32x8 a1_rest = __builtin_shufflevector(a1_rest_all, none, 8, 9, 10, 11, 4, 5, 6, 7);
    c0_1 = _mm256_fmadd_ps(a1_rest, b0_rest, c0_1);
    c1_1 = _mm256_fmadd_ps(a1_rest, b1_rest, c1_1);
    const f32x8 a2_rest_all = *(const f32x8 *)&h[2][20];
    const f32x8 a2_rest = __builtin_shufflevector(a2_rest_all, none, 8, 9, 10, 11, 4, 5, 6, 7);
    c0_2 = _mm256_fmadd_ps(a2_rest, b0_rest, c0_2);
    c1_2 = _mm256_fmadd_ps(a2_rest, b1_rest, c1_2);
    const f32x8 a3_rest_all = *(const f32x8 *)&h[3][20];
    const f32x8 a3_rest = __builtin_shufflevector(a3_rest_all, none, 8, 9, 10, 11, 4, 5, 6, 7);
    c0_3 = _mm256_fmadd_ps(a3_rest, b0_rest, c0_3);
    c1_3 = _mm256_fmadd_ps(a3_rest, b1_rest, c1_3);
    const f32x8 p0_8_0 = __builtin_shufflevector(c0_0, c0_1, 0, 1, 2, 3, 8, 9, 10, 11) + __builtin_shufflevector(c0_0,
            c0_1, 4, 5, 6, 7, 12, 13, 14, 15);
    const f32x8 p0_8_1 = __builtin_shufflevector(c0_2, c0_3, 0, 1, 2, 3, 8, 9, 10, 11) + __builtin_shufflevector(c0_2,
            c0_3, 4, 5, 6, 7, 12, 13, 14, 15);
    const f32x8 p0_4_0 = __builtin_shufflevector(p0_8_0, p0_8_1, 0, 1, 4, 5, 8, 9, 12, 13) +
            __builtin_shufflevector(p0_8_0, p0_8_1, 2, 3, 6, 7, 10, 11, 14, 15);
    const f32x4 sum0 = __builtin_shufflevector(p0_4_0, p0_4_0, 0, 2, 4, 6) + __builtin_shufflevector(p0_4_0, p0_4_0, 1,
            3, 5, 7);
    *(f32x4 *)&y[0][0] = sum0;
    const f32x8 p1_8_0 = __builtin_shufflevector(c1_0, c1_1, 0, 1, 2, 3, 8, 9, 10, 11) + __builtin_shufflevector(c1_0,
            c1_1, 4, 5, 6, 7, 12, 13, 14, 15);
    const f32x8 p1_8_1 = __builtin_shufflevector(c1_2, c1_3, 0, 1, 2, 3, 8, 9, 10, 11) + __builtin_shufflevector(c1_2,
            c1_3, 4, 5, 6, 7, 12, 13, 14, 15);
    const f32x8 p1_4_0 = __builtin_shufflevector(p1_8_0, p1_8_1, 0, 1, 4, 5, 8, 9, 12, 13) +
            __builtin_shufflevector(p1_8_0, p1_8_1, 2, 3, 6, 7, 10, 11, 14, 15);
    const f32x4 sum1 = __builtin_shufflevector(p1_4_0, p1_4_0, 0, 2, 4, 6) + __builtin_shufflevector(p1_4_0, p1_4_0, 1,
            3, 5, 7);
    *(f32x4 *)&y[1][0] = sum1;
}
