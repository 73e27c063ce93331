/* Conv + Relu; 1536 MACs
   w float32 4x6x4; x_padded float32 1x4x12; b float32 16; y float32 1x16x4x4 */
static __attribute__((__noinline__)) void golden_Conv(const float w[restrict 4][6][4],
        const float x_padded[restrict 1][4][12], const float b[restrict 16], float y[restrict 1][16][4][4]) {
    for (int oc = 0; oc < 16; oc += 4) {
        for (int oh = 0; oh < 4; oh++) {
            for (int ow = 0; ow < 4; ow += 2) {
                float c0_0 = 0.0f;
                float c0_1 = 0.0f;
                float c0_2 = 0.0f;
                float c0_3 = 0.0f;
                float c1_0 = 0.0f;
                float c1_1 = 0.0f;
                float c1_2 = 0.0f;
                float c1_3 = 0.0f;
                for (int kwic = 0; kwic < 6; kwic++) {
                    const float b0 = w[oc / 4][kwic][0];
                    const float b1 = w[oc / 4][kwic][1];
                    const float b2 = w[oc / 4][kwic][2];
                    const float b3 = w[oc / 4][kwic][3];
                    const float a0 = x_padded[0][oh][2 * ow + kwic];
                    c0_0 = c0_0 + a0 * b0;
                    c0_1 = c0_1 + a0 * b1;
                    c0_2 = c0_2 + a0 * b2;
                    c0_3 = c0_3 + a0 * b3;
                    const float a1 = x_padded[0][oh][2 * ow + kwic + 2];
                    c1_0 = c1_0 + a1 * b0;
                    c1_1 = c1_1 + a1 * b1;
                    c1_2 = c1_2 + a1 * b2;
                    c1_3 = c1_3 + a1 * b3;
                }
                y[0][oc][oh][ow] = max_f32(c0_0 + b[oc], 0.0f);
                y[0][oc][oh][ow + 1] = max_f32(c1_0 + b[oc], 0.0f);
                y[0][oc + 1][oh][ow] = max_f32(c0_1 + b[oc + 1], 0.0f);
                y[0][oc + 1][oh][ow + 1] = max_f32(c1_1 + b[oc + 1], 0.0f);
                y[0][oc + 2][oh][ow] = max_f32(c0_2 + b[oc + 2], 0.0f);
                y[0][oc + 2][oh][ow + 1] = max_f32(c1_2 + b[oc + 2], 0.0f);
                y[0][oc + 3][oh][ow] = max_f32(c0_3 + b[oc + 3], 0.0f);
                y[0][oc + 3][oh][ow + 1] = max_f32(c1_3 + b[oc + 3], 0.0f);
            }
        }
    }
}
