/* MaxPool
   a float32 1x4x4x16; b float32 1x4x4x16 */
static __attribute__((__noinline__)) void golden_MaxPool(const float a[restrict 1][4][4][16],
        float b[restrict 1][4][4][16]) {
    for (int oh = 0; oh < 4; oh++) {
        for (int ow = 0; ow < 4; ow++) {
            for (int c = 0; c < 16; c++) {
                float acc = -__builtin_inff();
                for (int kw = imax(0, 1 - ow); kw < imin(3, 5 - ow); kw++) {
                    acc = larger_f32(a[0][oh][ow + kw - 1][c], acc);
                }
                b[0][oh][ow][c] = acc;
            }
        }
    }
}
