/* MatMulInteger; 256 MACs
   x uint8 1x32; w_bytes int8 2x8x4x4; y_sums int32 1x8; y int32 1x8 */
static __attribute__((__noinline__)) void golden_MatMulInteger(const uint8_t x[restrict 1][32],
        const int8_t w_bytes[restrict 2][8][4][4], int32_t y_sums[restrict 1][8], int32_t y[restrict 1][8]) {
    for (int block = 0; block < 2; block++) {
        int32_t c0_0 = 0;
        int32_t c0_1 = 0;
        int32_t c0_2 = 0;
        int32_t c0_3 = 0;
        for (int term = 0; term < 8; term++) {
            const u8x4 a0 = *(const u8x4 *)&x[0][4 * term];
            const i16x2 a0_0 = (i16x2)__builtin_arm_uxtb16((int32_t)(a0));
            const i16x2 a0_1 = (i16x2)__builtin_arm_uxtb16((int32_t)((uint32_t)(a0) >> 8 | (uint32_t)(a0) << 24));
            const i8x4 b0 = *(const i8x4 *)&w_bytes[block][term][0][0];
            const i16x2 b0_0 = (i16x2)__builtin_arm_sxtb16((int32_t)(b0));
            const i16x2 b0_1 = (i16x2)__builtin_arm_sxtb16((int32_t)((uint32_t)(b0) >> 8 | (uint32_t)(b0) << 24));
            c0_0 = __builtin_arm_smlad((int32_t)(a0_0), (int32_t)(b0_0), c0_0);
            c0_0 = __builtin_arm_smlad((int32_t)(a0_1), (int32_t)(b0_1), c0_0);
            const i8x4 b1 = *(const i8x4 *)&w_bytes[block][term][1][0];
            const i16x2 b1_0 = (i16x2)__builtin_arm_sxtb16((int32_t)(b1));
            const i16x2 b1_1 = (i16x2)__builtin_arm_sxtb16((int32_t)((uint32_t)(b1) >> 8 | (uint32_t)(b1) << 24));
            c0_1 = __builtin_arm_smlad((int32_t)(a0_0), (int32_t)(b1_0), c0_1);
            c0_1 = __builtin_arm_smlad((int32_t)(a0_1), (int32_t)(b1_1), c0_1);
            const i8x4 b2 = *(const i8x4 *)&w_bytes[block][term][2][0];
            const i16x2 b2_0 = (i16x2)__builtin_arm_sxtb16((int32_t)(b2));
            const i16x2 b2_1 = (i16x2)__builtin_arm_sxtb16((int32_t)((uint32_t)(b2) >> 8 | (uint32_t)(b2) << 24));
            c0_2 = __builtin_arm_smlad((int32_t)(a0_0), (int32_t)(b2_0), c0_2);
            c0_2 = __builtin_arm_smlad((int32_t)(a0_1), (int32_t)(b2_1), c0_2);
            const i8x4 b3 = *(const i8x4 *)&w_bytes[block][term][3][0];
            const i16x2 b3_0 = (i16x2)__builtin_arm_sxtb16((int32_t)(b3));
            const i16x2 b3_1 = (i16x2)__builtin_arm_sxtb16((int32_t)((uint32_t)(b3) >> 8 | (uint32_t)(b3) << 24));
            c0_3 = __builtin_arm_smlad((int32_t)(a0_0), (int32_t)(b3_0), c0_3);
            c0_3 = __builtin_arm_smlad((int32_t)(a0_1), (int32_t)(b3_1), c0_3);
            __asm__ volatile("" ::: "memory");
        }
        y_sums[0][4 * block] = c0_0;
        y_sums[0][4 * block + 1] = c0_1;
        y_sums[0][4 * block + 2] = c0_2;
        y_sums[0][4 * block + 3] = c0_3;
    }
    for (int n = 0; n < 8; n++) {
        y[0][n] = y_sums[0][n];
    }
}
