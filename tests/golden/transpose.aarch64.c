/* Transpose
   x float32 16x8; y float32 8x16 */
static __attribute__((__noinline__)) void golden_Transpose(const float x[restrict 16][8], float y[restrict 8][16]) {
    for (int i0 = 0; i0 < 8; i0 += 4) {
        for (int i1 = 0; i1 < 16; i1 += 4) {
            const f32x4 x0_0 = *(const f32x4 *)&x[i1][i0];
            const f32x4 x0_1 = *(const f32x4 *)&x[i1 + 1][i0];
            const f32x4 x0_2 = *(const f32x4 *)&x[i1 + 2][i0];
            const f32x4 x0_3 = *(const f32x4 *)&x[i1 + 3][i0];
            const f32x4 y0_0 = __builtin_shufflevector(x0_0, x0_1, 0, 4, 1, 5);
            const f32x4 y0_1 = __builtin_shufflevector(x0_2, x0_3, 0, 4, 1, 5);
            const f32x4 y0_2 = __builtin_shufflevector(x0_0, x0_1, 2, 6, 3, 7);
            const f32x4 y0_3 = __builtin_shufflevector(x0_2, x0_3, 2, 6, 3, 7);
            const f32x4 y0_4 = __builtin_shufflevector(y0_0, y0_1, 0, 1, 4, 5);
            const f32x4 y0_5 = __builtin_shufflevector(y0_0, y0_1, 2, 3, 6, 7);
            const f32x4 y0_6 = __builtin_shufflevector(y0_2, y0_3, 0, 1, 4, 5);
            const f32x4 y0_7 = __builtin_shufflevector(y0_2, y0_3, 2, 3, 6, 7);
            *(f32x4 *)&y[i0][i1] = y0_4;
            *(f32x4 *)&y[i0 + 1][i1] = y0_5;
            *(f32x4 *)&y[i0 + 2][i1] = y0_6;
            *(f32x4 *)&y[i0 + 3][i1] = y0_7;
        }
    }
}
