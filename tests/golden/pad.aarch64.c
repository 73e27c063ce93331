/* Pad
   x float32 3x18; y float32 4x20 */
static __attribute__((__noinline__)) void golden_Pad(const float x[restrict 3][18], float y[restrict 4][20]) {
    for (int i0 = 0; i0 < 3; i0++) {
        y[i0][0] = 0.0f;
        for (int i1 = 0; i1 < 16; i1 += 4) {
            *(f32x4 *)&y[i0][i1 + 1] = *(const f32x4 *)&x[i0][i1];
        }
        *(f32x2 *)&y[i0][17] = *(const f32x2 *)&x[i0][16];
        y[i0][19] = 0.0f;
    }
    for (int i1 = 0; i1 < 20; i1 += 4) {
        *(f32x4 *)&y[3][i1] = splat_f32_4(0.0f);
    }
}
