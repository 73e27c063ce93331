/* MaxPool
   a float32 1x8x8x4; b float32 1x8x8x4 */
static __attribute__((__noinline__)) void golden_MaxPool(const float a[restrict 1][8][8][4],
        float b[restrict 1][8][8][4]) {
    for (int oh = 0; oh < 8; oh++) {
        const f32x4 x0 = _mm_max_ps(*(const f32x4 *)&a[0][oh][0][0], splat_f32_4(-__builtin_inff()));
        const f32x4 x1 = _mm_max_ps(*(const f32x4 *)&a[0][oh][1][0], splat_f32_4(-__builtin_inff()));
        const f32x4 c0 = _mm_max_ps(x1, x0);
        const f32x4 x2 = _mm_max_ps(*(const f32x4 *)&a[0][oh][2][0], splat_f32_4(-__builtin_inff()));
        const f32x4 r1 = _mm_max_ps(x2, x1);
        const f32x4 c1 = _mm_max_ps(r1, c0);
        const f32x4 x3 = _mm_max_ps(*(const f32x4 *)&a[0][oh][3][0], splat_f32_4(-__builtin_inff()));
        const f32x4 r3 = _mm_max_ps(x3, x2);
        const f32x4 c2 = _mm_max_ps(r3, r1);
        const f32x4 x4 = _mm_max_ps(*(const f32x4 *)&a[0][oh][4][0], splat_f32_4(-__builtin_inff()));
        const f32x4 r5 = _mm_max_ps(x4, x3);
        const f32x4 c3 = _mm_max_ps(r5, r3);
        const f32x4 x5 = _mm_max_ps(*(const f32x4 *)&a[0][oh][5][0], splat_f32_4(-__builtin_inff()));
        const f32x4 r7 = _mm_max_ps(x5, x4);
        const f32x4 c4 = _mm_max_ps(r7, r5);
        const f32x4 x6 = _mm_max_ps(*(const f32x4 *)&a[0][oh][6][0], splat_f32_4(-__builtin_inff()));
        const f32x4 r9 = _mm_max_ps(x6, x5);
        const f32x4 c5 = _mm_max_ps(r9, r7);
        const f32x4 x7 = _mm_max_ps(*(const f32x4 *)&a[0][oh][7][0], splat_f32_4(-__builtin_inff()));
        const f32x4 r11 = _mm_max_ps(x7, x6);
        const f32x4 c6 = _mm_max_ps(r11, r9);
        const f32x4 c7 = _mm_max_ps(x7, x6);
        *(f32x4 *)&b[0][oh][0][0] = c0;
        *(f32x4 *)&b[0][oh][1][0] = c1;
        *(f32x4 *)&b[0][oh][2][0] = c2;
        *(f32x4 *)&b[0][oh][3][0] = c3;
        *(f32x4 *)&b[0][oh][4][0] = c4;
        *(f32x4 *)&b[0][oh][5][0] = c5;
        *(f32x4 *)&b[0][oh][6][0] = c6;
        *(f32x4 *)&b[0][oh][7][0] = c7;
    }
}
