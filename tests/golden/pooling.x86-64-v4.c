/* MaxPool
   a float32 1x4x4x16; b float32 1x4x4x16 */
static __attribute__((__noinline__)) void golden_MaxPool(const float a[restrict 1][4][4][16],
        float b[restrict 1][4][4][16]) {
    for (int oh = 0; oh < 4; oh++) {
        const f32x16 x0 = _mm512_max_ps(*(const f32x16 *)&a[0][oh][0][0], splat_f32_16(-__builtin_inff()));
        const f32x16 x1 = _mm512_max_ps(*(const f32x16 *)&a[0][oh][1][0], splat_f32_16(-__builtin_inff()));
        const f32x16 c0 = _mm512_max_ps(x1, x0);
        const f32x16 x2 = _mm512_max_ps(*(const f32x16 *)&a[0][oh][2][0], splat_f32_16(-__builtin_inff()));
        const f32x16 r1 = _mm512_max_ps(x2, x1);
        const f32x16 c1 = _mm512_max_ps(r1, c0);
        const f32x16 x3 = _mm512_max_ps(*(const f32x16 *)&a[0][oh][3][0], splat_f32_16(-__builtin_inff()));
        const f32x16 r3 = _mm512_max_ps(x3, x2);
        const f32x16 c2 = _mm512_max_ps(r3, r1);
        const f32x16 c3 = _mm512_max_ps(x3, x2);
        *(f32x16 *)&b[0][oh][0][0] = c0;
        *(f32x16 *)&b[0][oh][1][0] = c1;
        *(f32x16 *)&b[0][oh][2][0] = c2;
        *(f32x16 *)&b[0][oh][3][0] = c3;
    }
}
