/* Transpose
   x float32 16x3; y float32 3x16 */
static __attribute__((__noinline__)) void golden_Transpose(const float x[restrict 16][3], float y[restrict 3][16]) {
    for (int i1 = 0; i1 < 16; i1 += 8) {
        const f32x8 x0_0 = *(const f32x8 *)&x[i1][0];
        const f32x8 x0_1 = *(const f32x8 *)&x[i1 + 2][2];
        const f32x8 x0_2 = *(const f32x8 *)&x[i1 + 5][1];
        const f32x8 y0_0 = __builtin_shufflevector(__builtin_shufflevector(x0_0, x0_1, 0, 3, 6, 9, 12, 15, 0, 0), x0_2,
                0, 1, 2, 3, 4, 5, 10, 13);
        *(f32x8 *)&y[0][i1] = y0_0;
        const f32x8 y0_1 = __builtin_shufflevector(__builtin_shufflevector(x0_0, x0_1, 1, 4, 7, 10, 13, 0, 0, 0), x0_2,
                0, 1, 2, 3, 4, 8, 11, 14);
        *(f32x8 *)&y[1][i1] = y0_1;
        const f32x8 y0_2 = __builtin_shufflevector(__builtin_shufflevector(x0_0, x0_1, 2, 5, 8, 11, 14, 0, 0, 0), x0_2,
                0, 1, 2, 3, 4, 9, 12, 15);
        *(f32x8 *)&y[2][i1] = y0_2;
    }
}
