/* HardSwish
   x float32 65; y float32 65 */
static __attribute__((__noinline__)) void golden_HardSwish(const float x[restrict 65], float y[restrict 65]) {
    for (int i0i1 = 0; i0i1 < 64; i0i1 += 4) {
        *(f32x4 *)&y[i0i1] = *(const f32x4 *)&x[i0i1] * vmaxq_f32(splat_f32_4(0.0f), vminq_f32(splat_f32_4(1.0f),
                (*(const f32x4 *)&x[i0i1] * splat_f32_4(0.16666667f)) + splat_f32_4(0.5f)));
    }
    y[64] = x[64] * max_f32(min_f32((x[64] * 0.16666667f) + 0.5f, 1.0f), 0.0f);
}
