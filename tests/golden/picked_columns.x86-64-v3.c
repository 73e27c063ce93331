/* MaxPool
   a float32 1x8x8x4; b float32 1x8x8x4 */
static __attribute__((__noinline__)) void golden_MaxPool(const float a[restrict 1][8][8][4],
        float b[restrict 1][8][8][4]) {
    for (int oh = 0; oh < 8; oh++) {
        for (int ow = 0; ow < 1; ow++) {
            const f32x4 x0 = *(const f32x4 *)&a[0][oh][0][0];
            const f32x4 x1 = *(const f32x4 *)&a[0][oh][1][0];
            const f32x4 c0 = max_f32_4(x0, x1);
            *(f32x4 *)&b[0][oh][0][0] = c0;
        }
        for (int ow = 1; ow < 7; ow += 6) {
            const f32x4 x0 = *(const f32x4 *)&a[0][oh][0][0];
            const f32x4 x1 = *(const f32x4 *)&a[0][oh][1][0];
            const f32x4 x2 = *(const f32x4 *)&a[0][oh][2][0];
            const f32x4 r0 = max_f32_4(x0, x1);
            const f32x4 r1 = max_f32_4(x1, x2);
            const f32x4 c0 = max_f32_4(r0, r1);
            const f32x4 x3 = *(const f32x4 *)&a[0][oh][3][0];
            const f32x4 r3 = max_f32_4(x2, x3);
            const f32x4 c1 = max_f32_4(r1, r3);
            const f32x4 x4 = *(const f32x4 *)&a[0][oh][4][0];
            const f32x4 r5 = max_f32_4(x3, x4);
            const f32x4 c2 = max_f32_4(r3, r5);
            const f32x4 x5 = *(const f32x4 *)&a[0][oh][5][0];
            const f32x4 r7 = max_f32_4(x4, x5);
            const f32x4 c3 = max_f32_4(r5, r7);
            const f32x4 x6 = *(const f32x4 *)&a[0][oh][6][0];
            const f32x4 r9 = max_f32_4(x5, x6);
            const f32x4 c4 = max_f32_4(r7, r9);
            const f32x4 x7 = *(const f32x4 *)&a[0][oh][7][0];
            const f32x4 r11 = max_f32_4(x6, x7);
            const f32x4 c5 = max_f32_4(r9, r11);
            *(f32x4 *)&b[0][oh][1][0] = c0;
            *(f32x4 *)&b[0][oh][2][0] = c1;
            *(f32x4 *)&b[0][oh][3][0] = c2;
            *(f32x4 *)&b[0][oh][4][0] = c3;
            *(f32x4 *)&b[0][oh][5][0] = c4;
            *(f32x4 *)&b[0][oh][6][0] = c5;
        }
        for (int ow = 7; ow < 8; ow++) {
            const f32x4 x0 = *(const f32x4 *)&a[0][oh][6][0];
            const f32x4 x1 = *(const f32x4 *)&a[0][oh][7][0];
            const f32x4 c0 = max_f32_4(x0, x1);
            *(f32x4 *)&b[0][oh][7][0] = c0;
        }
    }
}
