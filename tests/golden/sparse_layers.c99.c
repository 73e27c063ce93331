/* first; 256 MACs
   x float32 16; v_counts uint8 16; v_entries uint8 size_1; v_values float32 16; h_sums float32 16; h float32 16
   given the sizes of second too */
static __attribute__((__noinline__)) void golden_first(int32_t factor_2, const float x[restrict 16],
        const uint8_t v_counts[restrict 16], const uint8_t *restrict v_entries, const float v_values[restrict 16],
        float h_sums[restrict 16], float h[restrict 16]) {
    /* v: 21.5% of 16x16, column by column; 55 bytes; w: 17.6% of 16x16, column by column; 45 bytes */
    for (int row = 0; row < 16; row++) {
        h_sums[row] = 0.0f;
    }
    int32_t begin = (int32_t)0;
    for (int column = 0; column < 16; column++) {
        const float active0 = x[column];
        const int lo = (int)(min_i32(begin & 2147483647, factor_2));
        begin = (int32_t)((uint32_t)begin + (uint32_t)(int32_t)((int)v_counts[column]));
        if (active0 != 0.0f) {
            int32_t at = -1;
            for (int place = 0; place < (int)v_counts[column]; place++) {
                const int32_t entry = (int32_t)v_entries[lo + place];
                const int row = (int)((int32_t)((uint32_t)at + ((uint32_t)shr_i32(entry, 4) + (uint32_t)1)) & 15);
                at = (int32_t)row;
                const float value = v_values[(int)(entry & 15)];
                float sum0 = h_sums[row];
                sum0 = sum0 + active0 * value;
                h_sums[row] = sum0;
            }
        }
    }
    for (int row = 0; row < 16; row++) {
        h[row] = h_sums[row];
    }
}
