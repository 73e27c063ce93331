/* MaxPool
   x float32 1x2x30; y float32 1x2x30 */
static __attribute__((__noinline__)) void golden_MaxPool(const float x[restrict 1][2][30], float y[restrict 1][2][30]) {
    for (int c = 0; c < 2; c++) {
        const f32x4 x1 = vmaxnmq_f32(*(const f32x4 *)&x[0][c][0], splat_f32_4(-__builtin_inff()));
        const f32x4 beyond = splat_f32_4(-__builtin_inff());
        const f32x4 r4 = __builtin_shufflevector(beyond, x1, 1, 2, 3, 4);
        const f32x4 x2 = vmaxnmq_f32(*(const f32x4 *)&x[0][c][4], splat_f32_4(-__builtin_inff()));
        const f32x4 r7 = vmaxnmq_f32(__builtin_shufflevector(x1, x2, 1, 2, 3, 4), x1);
        const f32x4 r8 = vmaxnmq_f32(__builtin_shufflevector(r4, r7, 2, 3, 4, 5), r4);
        const f32x4 x3 = vmaxnmq_f32(*(const f32x4 *)&x[0][c][8], splat_f32_4(-__builtin_inff()));
        const f32x4 r11 = vmaxnmq_f32(__builtin_shufflevector(x2, x3, 1, 2, 3, 4), x2);
        const f32x4 r12 = vmaxnmq_f32(__builtin_shufflevector(r7, r11, 2, 3, 4, 5), r7);
        const f32x4 r13 = vmaxnmq_f32(r12, r8);
        const f32x4 x4 = vmaxnmq_f32(*(const f32x4 *)&x[0][c][12], splat_f32_4(-__builtin_inff()));
        const f32x4 r16 = vmaxnmq_f32(__builtin_shufflevector(x3, x4, 1, 2, 3, 4), x3);
        const f32x4 r17 = vmaxnmq_f32(__builtin_shufflevector(r11, r16, 2, 3, 4, 5), r11);
        const f32x4 r18 = vmaxnmq_f32(r17, r12);
        const f32x4 c0 = vmaxnmq_f32(__builtin_shufflevector(r13, r18, 1, 2, 3, 4), r13);
        *(f32x4 *)&y[0][c][0] = c0;
        const f32x4 x5 = vmaxnmq_f32(*(const f32x4 *)&x[0][c][16], splat_f32_4(-__builtin_inff()));
        const f32x4 r21 = vmaxnmq_f32(__builtin_shufflevector(x4, x5, 1, 2, 3, 4), x4);
        const f32x4 r22 = vmaxnmq_f32(__builtin_shufflevector(r16, r21, 2, 3, 4, 5), r16);
        const f32x4 r23 = vmaxnmq_f32(r22, r17);
        const f32x4 c1 = vmaxnmq_f32(__builtin_shufflevector(r18, r23, 1, 2, 3, 4), r18);
        *(f32x4 *)&y[0][c][4] = c1;
        const f32x4 x6 = vmaxnmq_f32(*(const f32x4 *)&x[0][c][20], splat_f32_4(-__builtin_inff()));
        const f32x4 r26 = vmaxnmq_f32(__builtin_shufflevector(x5, x6, 1, 2, 3, 4), x5);
        const f32x4 r27 = vmaxnmq_f32(__builtin_shufflevector(r21, r26, 2, 3, 4, 5), r21);
        const f32x4 r28 = vmaxnmq_f32(r27, r22);
        const f32x4 c2 = vmaxnmq_f32(__builtin_shufflevector(r23, r28, 1, 2, 3, 4), r23);
        *(f32x4 *)&y[0][c][8] = c2;
        const f32x4 x7 = vmaxnmq_f32(*(const f32x4 *)&x[0][c][24], splat_f32_4(-__builtin_inff()));
        const f32x4 r31 = vmaxnmq_f32(__builtin_shufflevector(x6, x7, 1, 2, 3, 4), x6);
        const f32x4 r32 = vmaxnmq_f32(__builtin_shufflevector(r26, r31, 2, 3, 4, 5), r26);
        const f32x4 r33 = vmaxnmq_f32(r32, r27);
        const f32x4 c3 = vmaxnmq_f32(__builtin_shufflevector(r28, r33, 1, 2, 3, 4), r28);
        *(f32x4 *)&y[0][c][12] = c3;
        const f32x4 edge0 = *(const f32x4 *)&x[0][c][26];
        const f32x4 x8 = vmaxnmq_f32(__builtin_shufflevector(edge0, beyond, 2, 3, 4, 4),
                splat_f32_4(-__builtin_inff()));
        const f32x4 r36 = vmaxnmq_f32(__builtin_shufflevector(x7, x8, 1, 2, 3, 4), x7);
        const f32x4 r37 = vmaxnmq_f32(__builtin_shufflevector(r31, r36, 2, 3, 4, 5), r31);
        const f32x4 r38 = vmaxnmq_f32(r37, r32);
        const f32x4 c4 = vmaxnmq_f32(__builtin_shufflevector(r33, r38, 1, 2, 3, 4), r33);
        *(f32x4 *)&y[0][c][16] = c4;
        const f32x4 r41 = vmaxnmq_f32(__builtin_shufflevector(x8, beyond, 1, 2, 3, 4), x8);
        const f32x4 r42 = vmaxnmq_f32(__builtin_shufflevector(r36, r41, 2, 3, 4, 5), r36);
        const f32x4 r43 = vmaxnmq_f32(r42, r37);
        const f32x4 c5 = vmaxnmq_f32(__builtin_shufflevector(r38, r43, 1, 2, 3, 4), r38);
        *(f32x4 *)&y[0][c][20] = c5;
        const f32x4 r45 = vmaxnmq_f32(__builtin_shufflevector(r41, beyond, 2, 3, 4, 5), r41);
        const f32x4 r46 = vmaxnmq_f32(r45, r42);
        const f32x4 c6 = vmaxnmq_f32(__builtin_shufflevector(r43, r46, 1, 2, 3, 4), r43);
        *(f32x4 *)&y[0][c][24] = c6;
        const f32x4 c7 = vmaxnmq_f32(__builtin_shufflevector(r43, r46, 3, 4, 5, 6), __builtin_shufflevector(r43, r46, 2,
                3, 4, 5));
        *(f32x4 *)&y[0][c][26] = c7;
    }
}
