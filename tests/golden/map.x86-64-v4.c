/* HardSwish
   x float32 65; y float32 65 */
static __attribute__((__noinline__)) void golden_HardSwish(const float x[restrict 65], float y[restrict 65]) {
    for (int i0i1 = 0; i0i1 < 64; i0i1 += 16) {
        *(f32x16 *)&y[i0i1] = *(const f32x16 *)&x[i0i1] * _mm512_max_ps(splat_f32_16(0.0f),
                _mm512_min_ps(splat_f32_16(1.0f), (*(const f32x16 *)&x[i0i1] * splat_f32_16(0.16666667f)) +
                splat_f32_16(0.5f)));
    }
    y[64] = x[64] * max_f32(min_f32((x[64] * 0.16666667f) + 0.5f, 1.0f), 0.0f);
}
