/* Softmax
   x float32 3x20; y float32 3x20 */
static __attribute__((__noinline__)) void golden_Softmax(const float x[restrict 3][20], float y[restrict 3][20]) {
    for (int i0 = 0; i0 < 3; i0++) {
        const f32x4 x0_0 = *(const f32x4 *)&x[i0][0];
        f32x4 p0_0 = x0_0;
        const f32x4 x0_1 = *(const f32x4 *)&x[i0][4];
        f32x4 p0_1 = x0_1;
        const f32x4 x0_2 = *(const f32x4 *)&x[i0][8];
        f32x4 p0_2 = x0_2;
        const f32x4 x0_3 = *(const f32x4 *)&x[i0][12];
        f32x4 p0_3 = x0_3;
        const f32x4 x0_4 = *(const f32x4 *)&x[i0][16];
        p0_0 = vmaxq_f32(p0_0, x0_4);
        const f32x4 t0_4 = vmaxq_f32(vmaxq_f32(p0_0, p0_1), vmaxq_f32(p0_2, p0_3));
        const f32x2 t0_2 = larger_f32_2(__builtin_shufflevector(t0_4, t0_4, 0, 1), __builtin_shufflevector(t0_4, t0_4,
                2, 3));
        const float acc0 = larger_f32(t0_2[0], t0_2[1]);
        const f32x4 e1_0 = exp_f32_4(x0_0 - splat_f32_4(acc0));
        f32x4 p2_0 = e1_0;
        const f32x4 e1_1 = exp_f32_4(x0_1 - splat_f32_4(acc0));
        f32x4 p2_1 = e1_1;
        const f32x4 e1_2 = exp_f32_4(x0_2 - splat_f32_4(acc0));
        f32x4 p2_2 = e1_2;
        const f32x4 e1_3 = exp_f32_4(x0_3 - splat_f32_4(acc0));
        f32x4 p2_3 = e1_3;
        const f32x4 e1_4 = exp_f32_4(x0_4 - splat_f32_4(acc0));
        p2_0 = p2_0 + e1_4;
        const f32x4 t2_4 = (p2_0 + p2_1) + (p2_2 + p2_3);
        const f32x2 t2_2 = __builtin_shufflevector(t2_4, t2_4, 0, 1) + __builtin_shufflevector(t2_4, t2_4, 2, 3);
        const float acc2 = t2_2[0] + t2_2[1];
        const float number2 = 1.0f / acc2;
        *(f32x4 *)&y[i0][0] = e1_0 * splat_f32_4(number2);
        *(f32x4 *)&y[i0][4] = e1_1 * splat_f32_4(number2);
        *(f32x4 *)&y[i0][8] = e1_2 * splat_f32_4(number2);
        *(f32x4 *)&y[i0][12] = e1_3 * splat_f32_4(number2);
        *(f32x4 *)&y[i0][16] = e1_4 * splat_f32_4(number2);
    }
}
