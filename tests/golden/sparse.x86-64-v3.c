/* Gemm; 2048 MACs
   w float32 1x64x32; x float32 1x64; y float32 1x32 */
static __attribute__((__noinline__)) void golden_Gemm(const float w[restrict 1][64][32], const float x[restrict 1][64],
        float y[restrict 1][32]) {
    f32x8 c0_0 = splat_f32_8(0.0f);
    f32x8 c0_1 = splat_f32_8(0.0f);
    f32x8 c0_2 = splat_f32_8(0.0f);
    f32x8 c0_3 = splat_f32_8(0.0f);
    f32x8 c0_0_1 = splat_f32_8(0.0f);
    f32x8 c0_1_1 = splat_f32_8(0.0f);
    f32x8 c0_2_1 = splat_f32_8(0.0f);
    f32x8 c0_3_1 = splat_f32_8(0.0f);
    for (int k = 0; k < 64; k += 2) {
        const f32x8 b0 = *(const f32x8 *)&w[0][k][0];
        const f32x8 b1 = *(const f32x8 *)&w[0][k][8];
        const f32x8 b2 = *(const f32x8 *)&w[0][k][16];
        const f32x8 b3 = *(const f32x8 *)&w[0][k][24];
        const float a0 = x[0][k];
        c0_0 = _mm256_fmadd_ps(splat_f32_8(a0), b0, c0_0);
        c0_1 = _mm256_fmadd_ps(splat_f32_8(a0), b1, c0_1);
        c0_2 = _mm256_fmadd_ps(splat_f32_8(a0), b2, c0_2);
        c0_3 = _mm256_fmadd_ps(splat_f32_8(a0), b3, c0_3);
        const f32x8 b0_1 = *(const f32x8 *)&w[0][k + 1][0];
        const f32x8 b1_1 = *(const f32x8 *)&w[0][k + 1][8];
        const f32x8 b2_1 = *(const f32x8 *)&w[0][k + 1][16];
        const f32x8 b3_1 = *(const f32x8 *)&w[0][k + 1][24];
        const float a0_1 = x[0][k + 1];
        c0_0_1 = _mm256_fmadd_ps(splat_f32_8(a0_1), b0_1, c0_0_1);
        c0_1_1 = _mm256_fmadd_ps(splat_f32_8(a0_1), b1_1, c0_1_1);
        c0_2_1 = _mm256_fmadd_ps(splat_f32_8(a0_1), b2_1, c0_2_1);
        c0_3_1 = _mm256_fmadd_ps(splat_f32_8(a0_1), b3_1, c0_3_1);
    }
    c0_0 = c0_0 + c0_0_1;
    c0_1 = c0_1 + c0_1_1;
    c0_2 = c0_2 + c0_2_1;
    c0_3 = c0_3 + c0_3_1;
    *(f32x8 *)&y[0][0] = c0_0;
    *(f32x8 *)&y[0][8] = c0_1;
    *(f32x8 *)&y[0][16] = c0_2;
    *(f32x8 *)&y[0][24] = c0_3;
}
