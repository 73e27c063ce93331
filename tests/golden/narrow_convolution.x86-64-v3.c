/* Conv; 3072 MACs
   w float32 4x3x8; a float32 1x8x10x4; b float32 1x8x8x4 */
static __attribute__((__noinline__)) void golden_Conv(const float w[restrict 4][3][8],
        const float a[restrict 1][8][10][4], float b[restrict 1][8][8][4]) {
    for (int oh = 0; oh < 8; oh += 2) {
        f32x8 c0 = splat_f32_8(0.0f);
        f32x8 c1 = splat_f32_8(0.0f);
        f32x8 c2 = splat_f32_8(0.0f);
        f32x8 c3 = splat_f32_8(0.0f);
        f32x8 c4 = splat_f32_8(0.0f);
        f32x8 c5 = splat_f32_8(0.0f);
        f32x8 c6 = splat_f32_8(0.0f);
        f32x8 c7 = splat_f32_8(0.0f);
        for (int ic = 0; ic < 4; ic++) {
            const f32x8 w0 = *(const f32x8 *)&w[ic][0][0];
            const f32x8 w1 = *(const f32x8 *)&w[ic][1][0];
            const f32x8 w2 = *(const f32x8 *)&w[ic][2][0];
            const f32x8 x0_0 = *(const f32x8 *)&a[0][oh][0][ic];
            const f32x8 x0 = __builtin_shufflevector(x0_0, x0_0, 0, 0, 0, 0, 4, 4, 4, 4);
            c0 = _mm256_fmadd_ps(x0, w0, c0);
            const f32x8 x1_0 = *(const f32x8 *)&a[0][oh][1][ic];
            const f32x8 x1 = __builtin_shufflevector(x1_0, x1_0, 0, 0, 0, 0, 4, 4, 4, 4);
            c0 = _mm256_fmadd_ps(x1, w1, c0);
            const f32x8 x2_0 = *(const f32x8 *)&a[0][oh][2][ic];
            const f32x8 x2 = __builtin_shufflevector(x2_0, x2_0, 0, 0, 0, 0, 4, 4, 4, 4);
            c1 = _mm256_fmadd_ps(x2, w0, c1);
            c0 = _mm256_fmadd_ps(x2, w2, c0);
            const f32x8 x3_0 = *(const f32x8 *)&a[0][oh][3][ic];
            const f32x8 x3 = __builtin_shufflevector(x3_0, x3_0, 0, 0, 0, 0, 4, 4, 4, 4);
            c1 = _mm256_fmadd_ps(x3, w1, c1);
            const f32x8 x4_0 = *(const f32x8 *)&a[0][oh][4][ic];
            const f32x8 x4 = __builtin_shufflevector(x4_0, x4_0, 0, 0, 0, 0, 4, 4, 4, 4);
            c2 = _mm256_fmadd_ps(x4, w0, c2);
            c1 = _mm256_fmadd_ps(x4, w2, c1);
            const f32x8 x5_0 = *(const f32x8 *)&a[0][oh][5][ic];
            const f32x8 x5 = __builtin_shufflevector(x5_0, x5_0, 0, 0, 0, 0, 4, 4, 4, 4);
            c2 = _mm256_fmadd_ps(x5, w1, c2);
            const f32x8 x6_0 = *(const f32x8 *)&a[0][oh][6][ic];
            const f32x8 x6 = __builtin_shufflevector(x6_0, x6_0, 0, 0, 0, 0, 4, 4, 4, 4);
            c3 = _mm256_fmadd_ps(x6, w0, c3);
            c2 = _mm256_fmadd_ps(x6, w2, c2);
            const f32x8 x7_0 = *(const f32x8 *)&a[0][oh][7][ic];
            const f32x8 x7 = __builtin_shufflevector(x7_0, x7_0, 0, 0, 0, 0, 4, 4, 4, 4);
            c3 = _mm256_fmadd_ps(x7, w1, c3);
            const f32x8 x8_0 = *(const f32x8 *)&a[0][oh][8][ic];
            const f32x8 x8 = __builtin_shufflevector(x8_0, x8_0, 0, 0, 0, 0, 4, 4, 4, 4);
            c3 = _mm256_fmadd_ps(x8, w2, c3);
            const f32x8 x9_0 = *(const f32x8 *)&a[0][oh + 1][0][ic];
            const f32x8 x9 = __builtin_shufflevector(x9_0, x9_0, 0, 0, 0, 0, 4, 4, 4, 4);
            c4 = _mm256_fmadd_ps(x9, w0, c4);
            const f32x8 x10_0 = *(const f32x8 *)&a[0][oh + 1][1][ic];
            const f32x8 x10 = __builtin_shufflevector(x10_0, x10_0, 0, 0, 0, 0, 4, 4, 4, 4);
            c4 = _mm256_fmadd_ps(x10, w1, c4);
            const f32x8 x11_0 = *(const f32x8 *)&a[0][oh + 1][2][ic];
            const f32x8 x11 = __builtin_shufflevector(x11_0, x11_0, 0, 0, 0, 0, 4, 4, 4, 4);
            c5 = _mm256_fmadd_ps(x11, w0, c5);
            c4 = _mm256_fmadd_ps(x11, w2, c4);
            const f32x8 x12_0 = *(const f32x8 *)&a[0][oh + 1][3][ic];
            const f32x8 x12 = __builtin_shufflevector(x12_0, x12_0, 0, 0, 0, 0, 4, 4, 4, 4);
            c5 = _mm256_fmadd_ps(x12, w1, c5);
            const f32x8 x13_0 = *(const f32x8 *)&a[0][oh + 1][4][ic];
            const f32x8 x13 = __builtin_shufflevector(x13_0, x13_0, 0, 0, 0, 0, 4, 4, 4, 4);
            c6 = _mm256_fmadd_ps(x13, w0, c6);
            c5 = _mm256_fmadd_ps(x13, w2, c5);
            const f32x8 x14_0 = *(const f32x8 *)&a[0][oh + 1][5][ic];
            const f32x8 x14 = __builtin_shufflevector(x14_0, x14_0, 0, 0, 0, 0, 4, 4, 4, 4);
            c6 = _mm256_fmadd_ps(x14, w1, c6);
            const f32x8 x15_0 = *(const f32x8 *)&a[0][oh + 1][6][ic];
            const f32x8 x15 = __builtin_shufflevector(x15_0, x15_0, 0, 0, 0, 0, 4, 4, 4, 4);
            c7 = _mm256_fmadd_ps(x15, w0, c7);
            c6 = _mm256_fmadd_ps(x15, w2, c6);
            const f32x8 x16_0 = *(const f32x8 *)&a[0][oh + 1][7][ic];
            const f32x8 x16 = __builtin_shufflevector(x16_0, x16_0, 0, 0, 0, 0, 4, 4, 4, 4);
            c7 = _mm256_fmadd_ps(x16, w1, c7);
            const f32x4 x17_0 = splat_f32_4(a[0][oh + 1][8][ic]);
            const f32x4 x17_1 = splat_f32_4(a[0][oh + 1][9][ic]);
            const f32x8 x17 = __builtin_shufflevector(_mm256_castps128_ps256(x17_0), _mm256_castps128_ps256(x17_1), 0,
                    1, 2, 3, 8, 9, 10, 11);
            c7 = _mm256_fmadd_ps(x17, w2, c7);
        }
        *(f32x8 *)&b[0][oh][0][0] = c0;
        *(f32x8 *)&b[0][oh][2][0] = c1;
        *(f32x8 *)&b[0][oh][4][0] = c2;
        *(f32x8 *)&b[0][oh][6][0] = c3;
        *(f32x8 *)&b[0][oh + 1][0][0] = c4;
        *(f32x8 *)&b[0][oh + 1][2][0] = c5;
        *(f32x8 *)&b[0][oh + 1][4][0] = c6;
        *(f32x8 *)&b[0][oh + 1][6][0] = c7;
    }
}
