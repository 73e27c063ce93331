/* Gemm + Relu; 384 MACs
   w float32 4x12x4; x float32 2x12; b float32 16; y float32 2x16 */
static __attribute__((__noinline__)) void golden_Gemm(const float w[restrict 4][12][4], const float x[restrict 2][12],
        const float b[restrict 16], float y[restrict 2][16]) {
    for (int n = 0; n < 16; n += 4) {
        float c0_0 = 0.0f;
        float c0_1 = 0.0f;
        float c0_2 = 0.0f;
        float c0_3 = 0.0f;
        float c1_0 = 0.0f;
        float c1_1 = 0.0f;
        float c1_2 = 0.0f;
        float c1_3 = 0.0f;
        for (int k = 0; k < 12; k++) {
            const float b0 = w[n / 4][k][0];
            const float b1 = w[n / 4][k][1];
            const float b2 = w[n / 4][k][2];
            const float b3 = w[n / 4][k][3];
            const float a0 = x[0][k];
            c0_0 = c0_0 + a0 * b0;
            c0_1 = c0_1 + a0 * b1;
            c0_2 = c0_2 + a0 * b2;
            c0_3 = c0_3 + a0 * b3;
            const float a1 = x[1][k];
            c1_0 = c1_0 + a1 * b0;
            c1_1 = c1_1 + a1 * b1;
            c1_2 = c1_2 + a1 * b2;
            c1_3 = c1_3 + a1 * b3;
        }
        y[0][n] = max_f32(c0_0 + b[n], 0.0f);
        y[1][n] = max_f32(c1_0 + b[n], 0.0f);
        y[0][n + 1] = max_f32(c0_1 + b[n + 1], 0.0f);
        y[1][n + 1] = max_f32(c1_1 + b[n + 1], 0.0f);
        y[0][n + 2] = max_f32(c0_2 + b[n + 2], 0.0f);
        y[1][n + 2] = max_f32(c1_2 + b[n + 2], 0.0f);
        y[0][n + 3] = max_f32(c0_3 + b[n + 3], 0.0f);
        y[1][n + 3] = max_f32(c1_3 + b[n + 3], 0.0f);
    }
}
