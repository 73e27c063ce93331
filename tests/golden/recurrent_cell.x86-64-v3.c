/* LSTM_0; 512 MACs
   h float32 1x1x8; c float32 1x1x8; w0 float32 1x8x32; x float32 1x1x8; w2 float32 1x64; w1 float32 1x8x4x8;
           state float32 1x8; state_2 (state) float32 1x8; gates_x float32 1x1x32; h_out float32 1x1x8;
           c_out float32 1x1x8 */
static __attribute__((__noinline__)) void golden_LSTM_0(const float h[restrict 1][1][8],
        const float c[restrict 1][1][8], const float w0[restrict 1][8][32], const float x[restrict 1][1][8],
        const float w2[restrict 1][64], const float w1[restrict 1][8][4][8], float state[restrict 1][8],
        float state_2[restrict 1][8], float gates_x[restrict 1][1][32], float h_out[restrict 1][1][8],
        float c_out[restrict 1][1][8]) {
    *(f32x8 *)&state[0][0] = *(const f32x8 *)&h[0][0][0];
    *(f32x8 *)&state_2[0][0] = *(const f32x8 *)&c[0][0][0];
    for (int g = 0; g < 32; g += 32) {
        f32x8 c0_0 = splat_f32_8(0.0f);
        f32x8 c0_1 = splat_f32_8(0.0f);
        f32x8 c0_2 = splat_f32_8(0.0f);
        f32x8 c0_3 = splat_f32_8(0.0f);
        for (int i = 0; i < 8; i++) {
            const f32x8 b0 = *(const f32x8 *)&w0[0][i][0];
            const f32x8 b1 = *(const f32x8 *)&w0[0][i][8];
            const f32x8 b2 = *(const f32x8 *)&w0[0][i][16];
            const f32x8 b3 = *(const f32x8 *)&w0[0][i][24];
            const float a0 = x[0][0][i];
            c0_0 = _mm256_fmadd_ps(splat_f32_8(a0), b0, c0_0);
            c0_1 = _mm256_fmadd_ps(splat_f32_8(a0), b1, c0_1);
            c0_2 = _mm256_fmadd_ps(splat_f32_8(a0), b2, c0_2);
            c0_3 = _mm256_fmadd_ps(splat_f32_8(a0), b3, c0_3);
        }
        *(f32x8 *)&gates_x[0][0][0] = (c0_0 + *(const f32x8 *)&w2[0][0]) + *(const f32x8 *)&w2[0][32];
        *(f32x8 *)&gates_x[0][0][8] = (c0_1 + *(const f32x8 *)&w2[0][8]) + *(const f32x8 *)&w2[0][40];
        *(f32x8 *)&gates_x[0][0][16] = (c0_2 + *(const f32x8 *)&w2[0][16]) + *(const f32x8 *)&w2[0][48];
        *(f32x8 *)&gates_x[0][0][24] = (c0_3 + *(const f32x8 *)&w2[0][24]) + *(const f32x8 *)&w2[0][56];
    }
    for (int s = 0; s < 1; s++) {
        f32x8 c0_0_0 = splat_f32_8(0.0f);
        f32x8 c0_1_0 = splat_f32_8(0.0f);
        f32x8 c0_2_0 = splat_f32_8(0.0f);
        f32x8 c0_3_0 = splat_f32_8(0.0f);
        f32x8 c0_0_0_1 = splat_f32_8(0.0f);
        f32x8 c0_1_0_1 = splat_f32_8(0.0f);
        f32x8 c0_2_0_1 = splat_f32_8(0.0f);
        f32x8 c0_3_0_1 = splat_f32_8(0.0f);
        for (int k = 0; k < 8; k += 2) {
            const float a0 = state[0][k];
            const f32x8 r0_0 = *(const f32x8 *)&w1[0][k][0][0];
            c0_0_0 = _mm256_fmadd_ps(splat_f32_8(a0), r0_0, c0_0_0);
            const f32x8 r1_0 = *(const f32x8 *)&w1[0][k][1][0];
            c0_1_0 = _mm256_fmadd_ps(splat_f32_8(a0), r1_0, c0_1_0);
            const f32x8 r2_0 = *(const f32x8 *)&w1[0][k][2][0];
            c0_2_0 = _mm256_fmadd_ps(splat_f32_8(a0), r2_0, c0_2_0);
            const f32x8 r3_0 = *(const f32x8 *)&w1[0][k][3][0];
            c0_3_0 = _mm256_fmadd_ps(splat_f32_8(a0), r3_0, c0_3_0);
            const float a0_1 = state[0][k + 1];
            const f32x8 r0_0_1 = *(const f32x8 *)&w1[0][k + 1][0][0];
            c0_0_0_1 = _mm256_fmadd_ps(splat_f32_8(a0_1), r0_0_1, c0_0_0_1);
            const f32x8 r1_0_1 = *(const f32x8 *)&w1[0][k + 1][1][0];
            c0_1_0_1 = _mm256_fmadd_ps(splat_f32_8(a0_1), r1_0_1, c0_1_0_1);
            const f32x8 r2_0_1 = *(const f32x8 *)&w1[0][k + 1][2][0];
            c0_2_0_1 = _mm256_fmadd_ps(splat_f32_8(a0_1), r2_0_1, c0_2_0_1);
            const f32x8 r3_0_1 = *(const f32x8 *)&w1[0][k + 1][3][0];
            c0_3_0_1 = _mm256_fmadd_ps(splat_f32_8(a0_1), r3_0_1, c0_3_0_1);
        }
        c0_0_0 = c0_0_0 + c0_0_0_1;
        c0_1_0 = c0_1_0 + c0_1_0_1;
        c0_2_0 = c0_2_0 + c0_2_0_1;
        c0_3_0 = c0_3_0 + c0_3_0_1;
        const f32x8 v0_0_0_0 = exp_f32_8(_mm256_min_ps(splat_f32_8(20.0f), -(*(const f32x8 *)&gates_x[0][0][0] +
                c0_0_0)));
        const f32x8 v0_0_0_1 = exp_f32_8(_mm256_min_ps(splat_f32_8(20.0f), (*(const f32x8 *)&gates_x[0][0][24] +
                c0_3_0) * splat_f32_8(-2.0f)));
        const f32x8 v0_0_0_2 = exp_f32_8(_mm256_min_ps(splat_f32_8(20.0f), -(*(const f32x8 *)&gates_x[0][0][16] +
                c0_2_0)));
        const f32x8 v0_0_0 = ((*(const f32x8 *)&state_2[0][0] * ((v0_0_0_0 + splat_f32_8(1.0f)) * (v0_0_0_1 +
                splat_f32_8(1.0f)))) + ((splat_f32_8(1.0f) - v0_0_0_1) * (v0_0_0_2 + splat_f32_8(1.0f)))) / ((v0_0_0_2 +
                splat_f32_8(1.0f)) * ((v0_0_0_0 + splat_f32_8(1.0f)) * (v0_0_0_1 + splat_f32_8(1.0f))));
        *(f32x8 *)&state_2[0][0] = v0_0_0;
        const f32x8 v0_1_0_0 = exp_f32_8(_mm256_min_ps(splat_f32_8(20.0f), v0_0_0 * splat_f32_8(-2.0f)));
        const f32x8 v0_1_0 = (splat_f32_8(1.0f) - v0_1_0_0) / ((exp_f32_8(_mm256_min_ps(splat_f32_8(20.0f),
                -(*(const f32x8 *)&gates_x[0][0][8] + c0_1_0))) + splat_f32_8(1.0f)) * (v0_1_0_0 + splat_f32_8(1.0f)));
        *(f32x8 *)&state[0][0] = v0_1_0;
    }
    *(f32x8 *)&h_out[0][0][0] = *(const f32x8 *)&state[0][0];
    *(f32x8 *)&c_out[0][0][0] = *(const f32x8 *)&state_2[0][0];
}
