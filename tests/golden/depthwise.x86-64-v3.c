/* Conv; 768 MACs
   w float32 1x1x3x16; a float32 1x4x6x16; b float32 1x4x4x16 */
static __attribute__((__noinline__)) void golden_Conv(const float w[restrict 1][1][3][16],
        const float a[restrict 1][4][6][16], float b[restrict 1][4][4][16]) {
    for (int oc = 0; oc < 16; oc += 8) {
        const f32x8 kept0 = *(const f32x8 *)&w[0][0][0][oc];
        const f32x8 kept1 = *(const f32x8 *)&w[0][0][1][oc];
        const f32x8 kept2 = *(const f32x8 *)&w[0][0][2][oc];
        for (int oh = 0; oh < 4; oh += 2) {
            f32x8 c0 = splat_f32_8(0.0f);
            f32x8 c1 = splat_f32_8(0.0f);
            f32x8 c2 = splat_f32_8(0.0f);
            f32x8 c3 = splat_f32_8(0.0f);
            f32x8 c4 = splat_f32_8(0.0f);
            f32x8 c5 = splat_f32_8(0.0f);
            f32x8 c6 = splat_f32_8(0.0f);
            f32x8 c7 = splat_f32_8(0.0f);
            const f32x8 x0 = *(const f32x8 *)&a[0][oh][0][oc];
            c0 = _mm256_fmadd_ps(x0, kept0, c0);
            const f32x8 x1 = *(const f32x8 *)&a[0][oh][1][oc];
            c1 = _mm256_fmadd_ps(x1, kept0, c1);
            c0 = _mm256_fmadd_ps(x1, kept1, c0);
            const f32x8 x2 = *(const f32x8 *)&a[0][oh][2][oc];
            c2 = _mm256_fmadd_ps(x2, kept0, c2);
            c1 = _mm256_fmadd_ps(x2, kept1, c1);
            c0 = _mm256_fmadd_ps(x2, kept2, c0);
            const f32x8 x3 = *(const f32x8 *)&a[0][oh][3][oc];
            c3 = _mm256_fmadd_ps(x3, kept0, c3);
            c2 = _mm256_fmadd_ps(x3, kept1, c2);
            c1 = _mm256_fmadd_ps(x3, kept2, c1);
            const f32x8 x4 = *(const f32x8 *)&a[0][oh][4][oc];
            c3 = _mm256_fmadd_ps(x4, kept1, c3);
            c2 = _mm256_fmadd_ps(x4, kept2, c2);
            const f32x8 x5 = *(const f32x8 *)&a[0][oh][5][oc];
            c3 = _mm256_fmadd_ps(x5, kept2, c3);
            const f32x8 x6 = *(const f32x8 *)&a[0][oh + 1][0][oc];
            c4 = _mm256_fmadd_ps(x6, kept0, c4);
            const f32x8 x7 = *(const f32x8 *)&a[0][oh + 1][1][oc];
            c5 = _mm256_fmadd_ps(x7, kept0, c5);
            c4 = _mm256_fmadd_ps(x7, kept1, c4);
            const f32x8 x8 = *(const f32x8 *)&a[0][oh + 1][2][oc];
            c6 = _mm256_fmadd_ps(x8, kept0, c6);
            c5 = _mm256_fmadd_ps(x8, kept1, c5);
            c4 = _mm256_fmadd_ps(x8, kept2, c4);
            const f32x8 x9 = *(const f32x8 *)&a[0][oh + 1][3][oc];
            c7 = _mm256_fmadd_ps(x9, kept0, c7);
            c6 = _mm256_fmadd_ps(x9, kept1, c6);
            c5 = _mm256_fmadd_ps(x9, kept2, c5);
            const f32x8 x10 = *(const f32x8 *)&a[0][oh + 1][4][oc];
            c7 = _mm256_fmadd_ps(x10, kept1, c7);
            c6 = _mm256_fmadd_ps(x10, kept2, c6);
            const f32x8 x11 = *(const f32x8 *)&a[0][oh + 1][5][oc];
            c7 = _mm256_fmadd_ps(x11, kept2, c7);
            *(f32x8 *)&b[0][oh][0][oc] = c0;
            *(f32x8 *)&b[0][oh][1][oc] = c1;
            *(f32x8 *)&b[0][oh][2][oc] = c2;
            *(f32x8 *)&b[0][oh][3][oc] = c3;
            *(f32x8 *)&b[0][oh + 1][0][oc] = c4;
            *(f32x8 *)&b[0][oh + 1][1][oc] = c5;
            *(f32x8 *)&b[0][oh + 1][2][oc] = c6;
            *(f32x8 *)&b[0][oh + 1][3][oc] = c7;
        }
    }
}
