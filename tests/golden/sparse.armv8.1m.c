/* Gemm; 2048 MACs
   x float32 1x64; w_counts uint8 64; w_entries uint8 454; w_values float32 16; y_sums float32 32; y float32 1x32 */
static __attribute__((__noinline__)) void golden_Gemm(const float x[restrict 1][64],
        const uint8_t w_counts[restrict 64], const uint8_t w_entries[restrict 454], const float w_values[restrict 16],
        float y_sums[restrict 32], float y[restrict 1][32]) {
    /* w: 21.5% of 32x64, column by column; 442 bytes */
    for (int row = 0; row < 32; row++) {
        y_sums[row] = 0.0f;
    }
    int32_t begin = (int32_t)0;
    for (int column = 0; column < 64; column++) {
        const float active0 = x[0][column];
        const int lo = (int)(min_i32(begin & 2147483647, 442));
        begin = (int32_t)((uint32_t)begin + (uint32_t)(int32_t)((int)w_counts[column]));
        if (active0 != 0.0f) {
            int32_t at = -1;
            for (int place = 0; place < (int)w_counts[column]; place++) {
                const int32_t entry = (int32_t)w_entries[lo + place];
                const int row = (int)((int32_t)((uint32_t)at + ((uint32_t)shr_i32(entry, 4) + (uint32_t)1)) & 31);
                at = (int32_t)row;
                const float value = w_values[(int)(entry & 15)];
                float sum0 = y_sums[row];
                sum0 = __builtin_fmaf(active0, value, sum0);
                y_sums[row] = sum0;
            }
        }
    }
    for (int row = 0; row < 32; row++) {
        y[0][row] = y_sums[row];
    }
}
