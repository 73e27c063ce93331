/* HardSwish
   x float32 5x13; y float32 5x13 */
static __attribute__((__noinline__)) void golden_HardSwish(const float x[restrict 5][13], float y[restrict 5][13]) {
    for (int i0 = 0; i0 < 5; i0++) {
        for (int i1 = 0; i1 < 12; i1 += 4) {
            *(f32x4 *)&y[i0][i1] = *(const f32x4 *)&x[i0][i1] * vmaxq_f32(splat_f32_4(0.0f),
                    vminq_f32(splat_f32_4(1.0f), (*(const f32x4 *)&x[i0][i1] * splat_f32_4(0.16666667f)) +
                    splat_f32_4(0.5f)));
        }
        y[i0][12] = x[i0][12] * max_f32(min_f32((x[i0][12] * 0.16666667f) + 0.5f, 1.0f), 0.0f);
    }
}
