/* HardSwish
   x float32 5x13; y float32 5x13 */
static __attribute__((__noinline__)) void golden_HardSwish(const float x[restrict 5][13], float y[restrict 5][13]) {
    for (int i0 = 0; i0 < 5; i0++) {
        *(f32x8 *)&y[i0][0] = *(const f32x8 *)&x[i0][0] * _mm256_max_ps(splat_f32_8(0.0f),
                _mm256_min_ps(splat_f32_8(1.0f), (*(const f32x8 *)&x[i0][0] * splat_f32_8(0.16666667f)) +
                splat_f32_8(0.5f)));
        *(f32x4 *)&y[i0][8] = *(const f32x4 *)&x[i0][8] * _mm_max_ps(splat_f32_4(0.0f), _mm_min_ps(splat_f32_4(1.0f),
                (*(const f32x4 *)&x[i0][8] * splat_f32_4(0.16666667f)) + splat_f32_4(0.5f)));
        y[i0][12] = x[i0][12] * max_f32(min_f32((x[i0][12] * 0.16666667f) + 0.5f, 1.0f), 0.0f);
    }
}
