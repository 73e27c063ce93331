/* Conv; 768 MACs
   a float32 1x4x6x16; w float32 16x1x1x3; b float32 1x4x4x16 */
static __attribute__((__noinline__)) void golden_Conv(const float a[restrict 1][4][6][16],
        const float w[restrict 16][1][1][3], float b[restrict 1][4][4][16]) {
    for (int oh = 0; oh < 4; oh++) {
        for (int ow = 0; ow < 4; ow++) {
            for (int oc = 0; oc < 16; oc++) {
                float acc = 0.0f;
                for (int kw = 0; kw < 3; kw++) {
                    acc = acc + a[0][oh][ow + kw][oc] * w[oc][0][0][kw];
                }
                b[0][oh][ow][oc] = acc;
            }
        }
    }
}
