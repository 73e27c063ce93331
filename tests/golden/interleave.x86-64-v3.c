/* Transpose
   x float32 3x16; y float32 16x3 */
static __attribute__((__noinline__)) void golden_Transpose(const float x[restrict 3][16], float y[restrict 16][3]) {
    for (int i0 = 0; i0 < 16; i0 += 8) {
        const f32x8 v0 = *(const f32x8 *)&x[0][i0];
        const f32x8 v1 = *(const f32x8 *)&x[1][i0];
        const f32x8 v2 = *(const f32x8 *)&x[2][i0];
        *(f32x8 *)&y[i0][0] = __builtin_shufflevector(__builtin_shufflevector(v0, v1, 0, 8, 0, 1, 9, 0, 2, 10), v2, 0,
                1, 8, 3, 4, 9, 6, 7);
        *(f32x8 *)&y[i0 + 2][2] = __builtin_shufflevector(__builtin_shufflevector(v0, v1, 0, 3, 11, 0, 4, 12, 0, 5), v2,
                10, 1, 2, 11, 4, 5, 12, 7);
        *(f32x8 *)&y[i0 + 5][1] = __builtin_shufflevector(__builtin_shufflevector(v0, v1, 13, 0, 6, 14, 0, 7, 15, 0),
                v2, 0, 13, 2, 3, 14, 5, 6, 15);
    }
}
