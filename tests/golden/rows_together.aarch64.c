/* Softmax
   x float32 5x8; y float32 5x8 */
static __attribute__((__noinline__)) void golden_Softmax(const float x[restrict 5][8], float y[restrict 5][8]) {
    for (int i0 = 0; i0 < 4; i0 += 4) {
        const f32x4 x0_0_0 = *(const f32x4 *)&x[0][0];
        f32x4 p0_0_0 = vmaxnmq_f32(x0_0_0, splat_f32_4(-__builtin_inff()));
        const f32x4 x0_0_1 = *(const f32x4 *)&x[0][4];
        f32x4 p0_0_1 = vmaxnmq_f32(x0_0_1, splat_f32_4(-__builtin_inff()));
        const f32x4 x0_1_0 = *(const f32x4 *)&x[1][0];
        f32x4 p0_1_0 = vmaxnmq_f32(x0_1_0, splat_f32_4(-__builtin_inff()));
        const f32x4 x0_1_1 = *(const f32x4 *)&x[1][4];
        f32x4 p0_1_1 = vmaxnmq_f32(x0_1_1, splat_f32_4(-__builtin_inff()));
        const f32x4 x0_2_0 = *(const f32x4 *)&x[2][0];
        f32x4 p0_2_0 = vmaxnmq_f32(x0_2_0, splat_f32_4(-__builtin_inff()));
        const f32x4 x0_2_1 = *(const f32x4 *)&x[2][4];
        f32x4 p0_2_1 = vmaxnmq_f32(x0_2_1, splat_f32_4(-__builtin_inff()));
        const f32x4 x0_3_0 = *(const f32x4 *)&x[3][0];
        f32x4 p0_3_0 = vmaxnmq_f32(x0_3_0, splat_f32_4(-__builtin_inff()));
        const f32x4 x0_3_1 = *(const f32x4 *)&x[3][4];
        f32x4 p0_3_1 = vmaxnmq_f32(x0_3_1, splat_f32_4(-__builtin_inff()));
        const f32x4 v0_0 = vmaxnmq_f32(p0_0_1, p0_0_0);
        const f32x4 v0_1 = vmaxnmq_f32(p0_1_1, p0_1_0);
        const f32x4 v0_2 = vmaxnmq_f32(p0_2_1, p0_2_0);
        const f32x4 v0_3 = vmaxnmq_f32(p0_3_1, p0_3_0);
        const f32x4 t0_4_0 = vmaxnmq_f32(__builtin_shufflevector(v0_0, v0_1, 0, 1, 4, 5), __builtin_shufflevector(v0_0,
                v0_1, 2, 3, 6, 7));
        const f32x4 t0_4_1 = vmaxnmq_f32(__builtin_shufflevector(v0_2, v0_3, 0, 1, 4, 5), __builtin_shufflevector(v0_2,
                v0_3, 2, 3, 6, 7));
        const f32x4 t0_2_0 = vmaxnmq_f32(__builtin_shufflevector(t0_4_0, t0_4_1, 0, 2, 4, 6),
                __builtin_shufflevector(t0_4_0, t0_4_1, 1, 3, 5, 7));
        const f32x4 acc0 = t0_2_0;
        const float acc0_0 = acc0[0];
        const float acc0_1 = acc0[1];
        const float acc0_2 = acc0[2];
        const float acc0_3 = acc0[3];
        const f32x4 e1_0_0 = exp_nonpositive_f32_4(x0_0_0 - splat_f32_4(acc0_0));
        f32x4 p2_0_0 = e1_0_0;
        const f32x4 e1_0_1 = exp_nonpositive_f32_4(x0_0_1 - splat_f32_4(acc0_0));
        f32x4 p2_0_1 = e1_0_1;
        const f32x4 e1_1_0 = exp_nonpositive_f32_4(x0_1_0 - splat_f32_4(acc0_1));
        f32x4 p2_1_0 = e1_1_0;
        const f32x4 e1_1_1 = exp_nonpositive_f32_4(x0_1_1 - splat_f32_4(acc0_1));
        f32x4 p2_1_1 = e1_1_1;
        const f32x4 e1_2_0 = exp_nonpositive_f32_4(x0_2_0 - splat_f32_4(acc0_2));
        f32x4 p2_2_0 = e1_2_0;
        const f32x4 e1_2_1 = exp_nonpositive_f32_4(x0_2_1 - splat_f32_4(acc0_2));
        f32x4 p2_2_1 = e1_2_1;
        const f32x4 e1_3_0 = exp_nonpositive_f32_4(x0_3_0 - splat_f32_4(acc0_3));
        f32x4 p2_3_0 = e1_3_0;
        const f32x4 e1_3_1 = exp_nonpositive_f32_4(x0_3_1 - splat_f32_4(acc0_3));
        f32x4 p2_3_1 = e1_3_1;
        const f32x4 v2_0 = p2_0_0 + p2_0_1;
        const f32x4 v2_1 = p2_1_0 + p2_1_1;
        const f32x4 v2_2 = p2_2_0 + p2_2_1;
        const f32x4 v2_3 = p2_3_0 + p2_3_1;
        const f32x4 t2_4_0 = __builtin_shufflevector(v2_0, v2_1, 0, 1, 4, 5) + __builtin_shufflevector(v2_0, v2_1, 2, 3,
                6, 7);
        const f32x4 t2_4_1 = __builtin_shufflevector(v2_2, v2_3, 0, 1, 4, 5) + __builtin_shufflevector(v2_2, v2_3, 2, 3,
                6, 7);
        const f32x4 t2_2_0 = __builtin_shufflevector(t2_4_0, t2_4_1, 0, 2, 4, 6) + __builtin_shufflevector(t2_4_0,
                t2_4_1, 1, 3, 5, 7);
        const f32x4 acc2 = t2_2_0;
        const f32x4 number2 = splat_f32_4(1.0f) / acc2;
        const float number2_0 = number2[0];
        const float number2_1 = number2[1];
        const float number2_2 = number2[2];
        const float number2_3 = number2[3];
        *(f32x4 *)&y[0][0] = e1_0_0 * splat_f32_4(number2_0);
        *(f32x4 *)&y[0][4] = e1_0_1 * splat_f32_4(number2_0);
        *(f32x4 *)&y[1][0] = e1_1_0 * splat_f32_4(number2_1);
        *(f32x4 *)&y[1][4] = e1_1_1 * splat_f32_4(number2_1);
        *(f32x4 *)&y[2][0] = e1_2_0 * splat_f32_4(number2_2);
        *(f32x4 *)&y[2][4] = e1_2_1 * splat_f32_4(number2_2);
        *(f32x4 *)&y[3][0] = e1_3_0 * splat_f32_4(number2_3);
        *(f32x4 *)&y[3][4] = e1_3_1 * splat_f32_4(number2_3);
    }
    for (int i0 = 4; i0 < 5; i0++) {
        const f32x4 x0_0 = *(const f32x4 *)&x[4][0];
        f32x4 p0_0 = vmaxnmq_f32(x0_0, splat_f32_4(-__builtin_inff()));
        const f32x4 x0_1 = *(const f32x4 *)&x[4][4];
        f32x4 p0_1 = vmaxnmq_f32(x0_1, splat_f32_4(-__builtin_inff()));
        const f32x4 t0_4 = vmaxnmq_f32(p0_1, p0_0);
        const f32x2 t0_2 = larger_f32_2(__builtin_shufflevector(t0_4, t0_4, 0, 1), __builtin_shufflevector(t0_4, t0_4,
                2, 3));
        const float acc0 = larger_f32(t0_2[0], t0_2[1]);
        const f32x4 e1_0 = exp_nonpositive_f32_4(x0_0 - splat_f32_4(acc0));
        f32x4 p2_0 = e1_0;
        const f32x4 e1_1 = exp_nonpositive_f32_4(x0_1 - splat_f32_4(acc0));
        f32x4 p2_1 = e1_1;
        const f32x4 t2_4 = p2_0 + p2_1;
        const f32x2 t2_2 = __builtin_shufflevector(t2_4, t2_4, 0, 1) + __builtin_shufflevector(t2_4, t2_4, 2, 3);
        const float acc2 = t2_2[0] + t2_2[1];
        const float number2 = 1.0f / acc2;
        *(f32x4 *)&y[4][0] = e1_0 * splat_f32_4(number2);
        *(f32x4 *)&y[4][4] = e1_1 * splat_f32_4(number2);
    }
}
