/* MatMulInteger; 256 MACs
   x uint8 1x32; w_bytes int8 2x2x4x16; w_totals int32 8; y_sums int32 1x8; y int32 1x8 */
static __attribute__((__noinline__)) void golden_MatMulInteger(const uint8_t x[restrict 1][32],
        const int8_t w_bytes[restrict 2][2][4][16], const int32_t w_totals[restrict 8], int32_t y_sums[restrict 1][8],
        int32_t y[restrict 1][8]) {
    for (int block = 0; block < 2; block++) {
        int32_t c0_0 = 0;
        int32_t c0_1 = 0;
        int32_t c0_2 = 0;
        int32_t c0_3 = 0;
        for (int term = 0; term < 2; term++) {
            const i8x16 a0 = __builtin_convertvector((*(const u8x16 *)&x[0][16 * term] ^ splat_u8_16(128)), i8x16);
            const i8x16 b0 = *(const i8x16 *)&w_bytes[block][term][0][0];
            c0_0 = vmladavaq_s8(c0_0, (int8x16_t)(a0), (int8x16_t)(b0));
            const i8x16 b1 = *(const i8x16 *)&w_bytes[block][term][1][0];
            c0_1 = vmladavaq_s8(c0_1, (int8x16_t)(a0), (int8x16_t)(b1));
            const i8x16 b2 = *(const i8x16 *)&w_bytes[block][term][2][0];
            c0_2 = vmladavaq_s8(c0_2, (int8x16_t)(a0), (int8x16_t)(b2));
            const i8x16 b3 = *(const i8x16 *)&w_bytes[block][term][3][0];
            c0_3 = vmladavaq_s8(c0_3, (int8x16_t)(a0), (int8x16_t)(b3));
        }
        y_sums[0][4 * block] = c0_0;
        y_sums[0][4 * block + 1] = c0_1;
        y_sums[0][4 * block + 2] = c0_2;
        y_sums[0][4 * block + 3] = c0_3;
    }
    for (int n = 0; n < 8; n++) {
        y[0][n] = (int32_t)((uint32_t)y_sums[0][n] - (((uint32_t)0 - (uint32_t)128) * (uint32_t)w_totals[n]));
    }
}
