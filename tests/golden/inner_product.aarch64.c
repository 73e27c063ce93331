/* Gemm_0; 224 MACs
   x float32 2x28; h float32 4x28; y float32 2x4 */
static __attribute__((__noinline__)) void golden_Gemm_0(const float x[restrict 2][28], const float h[restrict 4][28],
        float y[restrict 2][4]) {
    f32x4 c0_0 = splat_f32_4(0.0f);
    f32x4 c0_1 = splat_f32_4(0.0f);
    f32x4 c0_2 = splat_f32_4(0.0f);
    f32x4 c0_3 = splat_f32_4(0.0f);
    f32x4 c1_0 = splat_f32_4(0.0f);
    f32x4 c1_1 = splat_f32_4(0.0f);
    f32x4 c1_2 = splat_f32_4(0.0f);
    f32x4 c1_3 = splat_f32_4(0.0f);
    for (int k = 0; k < 28; k += 4) {
        const f32x4 b0 = *(const f32x4 *)&x[0][k];
        const f32x4 b1 = *(const f32x4 *)&x[1][k];
        const f32x4 a0 = *(const f32x4 *)&h[0][k];
        c0_0 = vfmaq_f32(c0_0, a0, b0);
        c1_0 = vfmaq_f32(c1_0, a0, b1);
        const f32x4 a1 = *(const f32x4 *)&h[1][k];
        c0_1 = vfmaq_f32(c0_1, a1, b0);
        c1_1 = vfmaq_f32(c1_1, a1, b1);
        const f32x4 a2 = *(const f32x4 *)&h[2][k];
        c0_2 = vfmaq_f32(c0_2, a2, b0);
        c1_2 = vfmaq_f32(c1_2, a2, b1);
        const f32x4 a3 = *(const f32x4 *)&h[3][k];
        c0_3 = vfmaq_f32(c0_3, a3, b0);
        c1_3 = vfmaq_f32(c1_3, a3, b1);
    }
    const f32x4 p0_4_0 = __builtin_shufflevector(c0_0, c0_1, 0, 1, 4, 5) + __builtin_shufflevector(c0_0, c0_1, 2, 3, 6,
            7);
    const f32x4 p0_4_1 = __builtin_shufflevector(c0_2, c0_3, 0, 1, 4, 5) + __builtin_shufflevector(c0_2, c0_3, 2, 3, 6,
            7);
    const f32x4 p0_2_0 = __builtin_shufflevector(p0_4_0, p0_4_1, 0, 2, 4, 6) + __builtin_shufflevector(p0_4_0, p0_4_1,
            1, 3, 5, 7);
    const f32x4 sum0 = p0_2_0;
    *(f32x4 *)&y[0][0] = sum0;
    const f32x4 p1_4_0 = __builtin_shufflevector(c1_0, c1_1, 0, 1, 4, 5) + __builtin_shufflevector(c1_0, c1_1, 2, 3, 6,
            7);
    const f32x4 p1_4_1 = __builtin_shufflevector(c1_2, c1_3, 0, 1, 4, 5) + __builtin_shufflevector(c1_2, c1_3, 2, 3, 6,
            7);
    const f32x4 p1_2_0 = __builtin_shufflevector(p1_4_0, p1_4_1, 0, 2, 4, 6) + __builtin_shufflevector(p1_4_0, p1_4_1,
            1, 3, 5, 7);
    const f32x4 sum1 = p1_2_0;
    *(f32x4 *)&y[1][0] = sum1;
}
