/* Gemm + Relu; 384 MACs
   w float32 1x12x16; x float32 2x12; b float32 16; y float32 2x16 */
static __attribute__((__noinline__)) void golden_Gemm(const float w[restrict 1][12][16], const float x[restrict 2][12],
        const float b[restrict 16], float y[restrict 2][16]) {
    f32x16 c0_0 = splat_f32_16(0.0f);
    f32x16 c1_0 = splat_f32_16(0.0f);
    for (int k = 0; k < 12; k++) {
        const f32x16 b0 = *(const f32x16 *)&w[0][k][0];
        const float a0 = x[0][k];
        c0_0 = _mm512_fmadd_ps(splat_f32_16(a0), b0, c0_0);
        const float a1 = x[1][k];
        c1_0 = _mm512_fmadd_ps(splat_f32_16(a1), b0, c1_0);
    }
    *(f32x16 *)&y[0][0] = _mm512_max_ps(splat_f32_16(0.0f), c0_0 + *(const f32x16 *)&b[0]);
    *(f32x16 *)&y[1][0] = _mm512_max_ps(splat_f32_16(0.0f), c1_0 + *(const f32x16 *)&b[0]);
}
