/* Conv + Relu; 768 MACs
   w float32 1x3x4; x_padded float32 1x8x10x1; b float32 4; y float32 1x4x8x8 */
static __attribute__((__noinline__)) void golden_Conv(const float w[restrict 1][3][4],
        const float x_padded[restrict 1][8][10][1], const float b[restrict 4], float y[restrict 1][4][8][8]) {
    for (int oh = 0; oh < 8; oh++) {
        f32x4 c0_0 = splat_f32_4(0.0f);
        f32x4 c1_0 = splat_f32_4(0.0f);
        f32x4 c2_0 = splat_f32_4(0.0f);
        f32x4 c3_0 = splat_f32_4(0.0f);
        f32x4 c4_0 = splat_f32_4(0.0f);
        f32x4 c5_0 = splat_f32_4(0.0f);
        f32x4 c6_0 = splat_f32_4(0.0f);
        f32x4 c7_0 = splat_f32_4(0.0f);
        for (int kw = 0; kw < 3; kw++) {
            const f32x4 b0 = *(const f32x4 *)&w[0][kw][0];
            const float a0 = x_padded[0][oh][kw][0];
            c0_0 = _mm_fmadd_ps(splat_f32_4(a0), b0, c0_0);
            const float a1 = x_padded[0][oh][kw + 1][0];
            c1_0 = _mm_fmadd_ps(splat_f32_4(a1), b0, c1_0);
            const float a2 = x_padded[0][oh][kw + 2][0];
            c2_0 = _mm_fmadd_ps(splat_f32_4(a2), b0, c2_0);
            const float a3 = x_padded[0][oh][kw + 3][0];
            c3_0 = _mm_fmadd_ps(splat_f32_4(a3), b0, c3_0);
            const float a4 = x_padded[0][oh][kw + 4][0];
            c4_0 = _mm_fmadd_ps(splat_f32_4(a4), b0, c4_0);
            const float a5 = x_padded[0][oh][kw + 5][0];
            c5_0 = _mm_fmadd_ps(splat_f32_4(a5), b0, c5_0);
            const float a6 = x_padded[0][oh][kw + 6][0];
            c6_0 = _mm_fmadd_ps(splat_f32_4(a6), b0, c6_0);
            const float a7 = x_padded[0][oh][kw + 7][0];
            c7_0 = _mm_fmadd_ps(splat_f32_4(a7), b0, c7_0);
        }
        y[0][0][oh][0] = max_f32(c0_0[0] + b[0], 0.0f);
        y[0][1][oh][0] = max_f32(c0_0[1] + b[1], 0.0f);
        y[0][2][oh][0] = max_f32(c0_0[2] + b[2], 0.0f);
        y[0][3][oh][0] = max_f32(c0_0[3] + b[3], 0.0f);
        y[0][0][oh][1] = max_f32(c1_0[0] + b[0], 0.0f);
        y[0][1][oh][1] = max_f32(c1_0[1] + b[1], 0.0f);
        y[0][2][oh][1] = max_f32(c1_0[2] + b[2], 0.0f);
        y[0][3][oh][1] = max_f32(c1_0[3] + b[3], 0.0f);
        y[0][0][oh][2] = max_f32(c2_0[0] + b[0], 0.0f);
        y[0][1][oh][2] = max_f32(c2_0[1] + b[1], 0.0f);
        y[0][2][oh][2] = max_f32(c2_0[2] + b[2], 0.0f);
        y[0][3][oh][2] = max_f32(c2_0[3] + b[3], 0.0f);
        y[0][0][oh][3] = max_f32(c3_0[0] + b[0], 0.0f);
        y[0][1][oh][3] = max_f32(c3_0[1] + b[1], 0.0f);
        y[0][2][oh][3] = max_f32(c3_0[2] + b[2], 0.0f);
        y[0][3][oh][3] = max_f32(c3_0[3] + b[3], 0.0f);
        y[0][0][oh][4] = max_f32(c4_0[0] + b[0], 0.0f);
        y[0][1][oh][4] = max_f32(c4_0[1] + b[1], 0.0f);
        y[0][2][oh][4] = max_f32(c4_0[2] + b[2], 0.0f);
        y[0][3][oh][4] = max_f32(c4_0[3] + b[3], 0.0f);
        y[0][0][oh][5] = max_f32(c5_0[0] + b[0], 0.0f);
        y[0][1][oh][5] = max_f32(c5_0[1] + b[1], 0.0f);
        y[0][2][oh][5] = max_f32(c5_0[2] + b[2], 0.0f);
        y[0][3][oh][5] = max_f32(c5_0[3] + b[3], 0.0f);
        y[0][0][oh][6] = max_f32(c6_0[0] + b[0], 0.0f);
        y[0][1][oh][6] = max_f32(c6_0[1] + b[1], 0.0f);
        y[0][2][oh][6] = max_f32(c6_0[2] + b[2], 0.0f);
        y[0][3][oh][6] = max_f32(c6_0[3] + b[3], 0.0f);
        y[0][0][oh][7] = max_f32(c7_0[0] + b[0], 0.0f);
        y[0][1][oh][7] = max_f32(c7_0[1] + b[1], 0.0f);
        y[0][2][oh][7] = max_f32(c7_0[2] + b[2], 0.0f);
        y[0][3][oh][7] = max_f32(c7_0[3] + b[3], 0.0f);
    }
}
