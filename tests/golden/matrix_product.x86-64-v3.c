/* Gemm + Relu; 384 MACs
   w float32 1x12x16; x float32 2x12; b float32 16; y float32 2x16 */
static __attribute__((__noinline__)) void golden_Gemm(const float w[restrict 1][12][16], const float x[restrict 2][12],
        const float b[restrict 16], float y[restrict 2][16]) {
    f32x8 c0_0 = splat_f32_8(0.0f);
    f32x8 c0_1 = splat_f32_8(0.0f);
    f32x8 c1_0 = splat_f32_8(0.0f);
    f32x8 c1_1 = splat_f32_8(0.0f);
    for (int k = 0; k < 12; k++) {
        const f32x8 b0 = *(const f32x8 *)&w[0][k][0];
        const f32x8 b1 = *(const f32x8 *)&w[0][k][8];
        const float a0 = x[0][k];
        c0_0 = _mm256_fmadd_ps(splat_f32_8(a0), b0, c0_0);
        c0_1 = _mm256_fmadd_ps(splat_f32_8(a0), b1, c0_1);
        const float a1 = x[1][k];
        c1_0 = _mm256_fmadd_ps(splat_f32_8(a1), b0, c1_0);
        c1_1 = _mm256_fmadd_ps(splat_f32_8(a1), b1, c1_1);
    }
    *(f32x8 *)&y[0][0] = _mm256_max_ps(splat_f32_8(0.0f), c0_0 + *(const f32x8 *)&b[0]);
    *(f32x8 *)&y[1][0] = _mm256_max_ps(splat_f32_8(0.0f), c1_0 + *(const f32x8 *)&b[0]);
    *(f32x8 *)&y[0][8] = _mm256_max_ps(splat_f32_8(0.0f), c0_1 + *(const f32x8 *)&b[8]);
    *(f32x8 *)&y[1][8] = _mm256_max_ps(splat_f32_8(0.0f), c1_1 + *(const f32x8 *)&b[8]);
}
