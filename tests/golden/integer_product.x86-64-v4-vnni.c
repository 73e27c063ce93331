/* MatMulInteger; 256 MACs
   w int8 1x8x32; x uint8 1x32; y int32 1x8 */
static __attribute__((__noinline__)) void golden_MatMulInteger(const int8_t w[restrict 1][8][32],
        const uint8_t x[restrict 1][32], int32_t y[restrict 1][8]) {
    i32x8 c0_0 = splat_i32_8(0);
    for (int k_group = 0; k_group < 8; k_group++) {
        const i8x32 b0 = *(const i8x32 *)&w[0][k_group][0];
        const u8x4 a0 = *(const u8x4 *)&x[0][4 * k_group];
        c0_0 = (__v8si)_mm256_dpbusd_epi32((__m256i)(c0_0), (__m256i)(((u8x32)splat_i32_8(((i32x1)(a0))[0]))),
                (__m256i)(b0));
    }
    *(i32x8 *)&y[0][0] = c0_0;
}
