/* Conv + Relu; 1536 MACs
   w float32 1x6x16; x_padded float32 1x4x12; b float32 16; y_channels_last float32 1x4x4x16 */
static __attribute__((__noinline__)) void golden_Conv(const float w[restrict 1][6][16],
        const float x_padded[restrict 1][4][12], const float b[restrict 16],
        float y_channels_last[restrict 1][4][4][16]) {
    for (int oh = 0; oh < 4; oh++) {
        f32x8 c0_0 = splat_f32_8(0.0f);
        f32x8 c0_1 = splat_f32_8(0.0f);
        f32x8 c1_0 = splat_f32_8(0.0f);
        f32x8 c1_1 = splat_f32_8(0.0f);
        f32x8 c2_0 = splat_f32_8(0.0f);
        f32x8 c2_1 = splat_f32_8(0.0f);
        f32x8 c3_0 = splat_f32_8(0.0f);
        f32x8 c3_1 = splat_f32_8(0.0f);
        for (int kwic = 0; kwic < 6; kwic++) {
            const f32x8 b0 = *(const f32x8 *)&w[0][kwic][0];
            const f32x8 b1 = *(const f32x8 *)&w[0][kwic][8];
            const float a0 = x_padded[0][oh][kwic];
            c0_0 = _mm256_fmadd_ps(splat_f32_8(a0), b0, c0_0);
            c0_1 = _mm256_fmadd_ps(splat_f32_8(a0), b1, c0_1);
            const float a1 = x_padded[0][oh][kwic + 2];
            c1_0 = _mm256_fmadd_ps(splat_f32_8(a1), b0, c1_0);
            c1_1 = _mm256_fmadd_ps(splat_f32_8(a1), b1, c1_1);
            const float a2 = x_padded[0][oh][kwic + 4];
            c2_0 = _mm256_fmadd_ps(splat_f32_8(a2), b0, c2_0);
            c2_1 = _mm256_fmadd_ps(splat_f32_8(a2), b1, c2_1);
            const float a3 = x_padded[0][oh][kwic + 6];
            c3_0 = _mm256_fmadd_ps(splat_f32_8(a3), b0, c3_0);
            c3_1 = _mm256_fmadd_ps(splat_f32_8(a3), b1, c3_1);
        }
        *(f32x8 *)&y_channels_last[0][oh][0][0] = _mm256_max_ps(splat_f32_8(0.0f), c0_0 + *(const f32x8 *)&b[0]);
        *(f32x8 *)&y_channels_last[0][oh][1][0] = _mm256_max_ps(splat_f32_8(0.0f), c1_0 + *(const f32x8 *)&b[0]);
        *(f32x8 *)&y_channels_last[0][oh][2][0] = _mm256_max_ps(splat_f32_8(0.0f), c2_0 + *(const f32x8 *)&b[0]);
        *(f32x8 *)&y_channels_last[0][oh][3][0] = _mm256_max_ps(splat_f32_8(0.0f), c3_0 + *(const f32x8 *)&b[0]);
        *(f32x8 *)&y_channels_last[0][oh][0][8] = _mm256_max_ps(splat_f32_8(0.0f), c0_1 + *(const f32x8 *)&b[8]);
        *(f32x8 *)&y_channels_last[0][oh][1][8] = _mm256_max_ps(splat_f32_8(0.0f), c1_1 + *(const f32x8 *)&b[8]);
        *(f32x8 *)&y_channels_last[0][oh][2][8] = _mm256_max_ps(splat_f32_8(0.0f), c2_1 + *(const f32x8 *)&b[8]);
        *(f32x8 *)&y_channels_last[0][oh][3][8] = _mm256_max_ps(splat_f32_8(0.0f), c3_1 + *(const f32x8 *)&b[8]);
    }
}
