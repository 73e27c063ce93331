/* MatMulInteger; 256 MACs
   x uint8 1x32; w int8 32x8; y int32 1x8 */
static __attribute__((__noinline__)) void golden_MatMulInteger(const uint8_t x[restrict 1][32],
        const int8_t w[restrict 32][8], int32_t y[restrict 1][8]) {
    for (int n = 0; n < 8; n++) {
        int32_t acc = 0;
        for (int k = 0; k < 32; k++) {
            acc = (int32_t)((uint32_t)acc + ((uint32_t)(int32_t)x[0][k] * (uint32_t)(int32_t)w[k][n]));
        }
        y[0][n] = acc;
    }
}
