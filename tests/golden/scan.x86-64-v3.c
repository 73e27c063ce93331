/* CumSum
   x float32 4x6; total float32 4; y float32 4x6 */
static __attribute__((__noinline__)) void golden_CumSum(const float x[restrict 4][6], float total[restrict 4],
        float y[restrict 4][6]) {
    *(f32x4 *)&total[0] = splat_f32_4(0.0f);
    for (int t = 0; t < 6; t++) {
        for (int i0 = 0; i0 < 4; i0++) {
            total[i0] = total[i0] + x[i0][t];
        }
        for (int i0 = 0; i0 < 4; i0++) {
            y[i0][t] = total[i0];
        }
    }
}
