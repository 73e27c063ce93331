/* Softmax
   x float32 4x20; y float32 4x20 */
static __attribute__((__noinline__)) void golden_Softmax(const float x[restrict 4][20], float y[restrict 4][20]) {
    const f32x16 x0_0_1 = *(const f32x16 *)&x[0][4];
    f32x16 p0_0_0 = _mm512_max_ps(x0_0_1, splat_f32_16(-__builtin_inff()));
    const f32x16 x0_0_0 = *(const f32x16 *)&x[0][0];
    f32x16 p0_0_1 = _mm512_max_ps(x0_0_0, splat_f32_16(-__builtin_inff()));
    const f32x16 x0_1_1 = *(const f32x16 *)&x[1][4];
    f32x16 p0_1_0 = _mm512_max_ps(x0_1_1, splat_f32_16(-__builtin_inff()));
    const f32x16 x0_1_0 = *(const f32x16 *)&x[1][0];
    f32x16 p0_1_1 = _mm512_max_ps(x0_1_0, splat_f32_16(-__builtin_inff()));
    const f32x16 x0_2_1 = *(const f32x16 *)&x[2][4];
    f32x16 p0_2_0 = _mm512_max_ps(x0_2_1, splat_f32_16(-__builtin_inff()));
    const f32x16 x0_2_0 = *(const f32x16 *)&x[2][0];
    f32x16 p0_2_1 = _mm512_max_ps(x0_2_0, splat_f32_16(-__builtin_inff()));
    const f32x16 x0_3_1 = *(const f32x16 *)&x[3][4];
    f32x16 p0_3_0 = _mm512_max_ps(x0_3_1, splat_f32_16(-__builtin_inff()));
    const f32x16 x0_3_0 = *(const f32x16 *)&x[3][0];
    f32x16 p0_3_1 = _mm512_max_ps(x0_3_0, splat_f32_16(-__builtin_inff()));
    const f32x16 v0_0 = _mm512_max_ps(p0_0_1, p0_0_0);
    const f32x16 v0_1 = _mm512_max_ps(p0_1_1, p0_1_0);
    const f32x16 v0_2 = _mm512_max_ps(p0_2_1, p0_2_0);
    const f32x16 v0_3 = _mm512_max_ps(p0_3_1, p0_3_0);
    const f32x16 t0_16_0 = _mm512_max_ps(__builtin_shufflevector(v0_0, v0_1, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20,
            21, 22, 23), __builtin_shufflevector(v0_0, v0_1, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30,
            31));
    const f32x16 t0_16_1 = _mm512_max_ps(__builtin_shufflevector(v0_2, v0_3, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20,
            21, 22, 23), __builtin_shufflevector(v0_2, v0_3, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30,
            31));
    const f32x16 t0_8_0 = _mm512_max_ps(__builtin_shufflevector(t0_16_0, t0_16_1, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18,
            19, 24, 25, 26, 27), __builtin_shufflevector(t0_16_0, t0_16_1, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23,
            28, 29, 30, 31));
    const f32x8 t0_8 = _mm256_max_ps(__builtin_shufflevector(t0_8_0, t0_8_0, 0, 1, 4, 5, 8, 9, 12, 13),
            __builtin_shufflevector(t0_8_0, t0_8_0, 2, 3, 6, 7, 10, 11, 14, 15));
    const f32x4 acc0 = _mm_max_ps(__builtin_shufflevector(t0_8, t0_8, 0, 2, 4, 6), __builtin_shufflevector(t0_8, t0_8,
            1, 3, 5, 7));
    const float acc0_0 = acc0[0];
    const float acc0_1 = acc0[1];
    const float acc0_2 = acc0[2];
    const float acc0_3 = acc0[3];
    const f32x16 e1_0_1 = exp_nonpositive_f32_16(x0_0_1 - splat_f32_16(acc0_0));
    const f32x16 zero2_0_1 = splat_f32_16(0.0f);
    f32x16 p2_0_0 = __builtin_shufflevector(zero2_0_1, e1_0_1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 28, 29, 30, 31);
    const f32x16 e1_0_0 = exp_nonpositive_f32_16(x0_0_0 - splat_f32_16(acc0_0));
    f32x16 p2_0_1 = e1_0_0;
    const f32x16 e1_1_1 = exp_nonpositive_f32_16(x0_1_1 - splat_f32_16(acc0_1));
    const f32x16 zero2_1_1 = splat_f32_16(0.0f);
    f32x16 p2_1_0 = __builtin_shufflevector(zero2_1_1, e1_1_1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 28, 29, 30, 31);
    const f32x16 e1_1_0 = exp_nonpositive_f32_16(x0_1_0 - splat_f32_16(acc0_1));
    f32x16 p2_1_1 = e1_1_0;
    const f32x16 e1_2_1 = exp_nonpositive_f32_16(x0_2_1 - splat_f32_16(acc0_2));
    const f32x16 zero2_2_1 = splat_f32_16(0.0f);
    f32x16 p2_2_0 = __builtin_shufflevector(zero2_2_1, e1_2_1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 28, 29, 30, 31);
    const f32x16 e1_2_0 = exp_nonpositive_f32_16(x0_2_0 - splat_f32_16(acc0_2));
    f32x16 p2_2_1 = e1_2_0;
    const f32x16 e1_3_1 = exp_nonpositive_f32_16(x0_3_1 - splat_f32_16(acc0_3));
    const f32x16 zero2_3_1 = splat_f32_16(0.0f);
    f32x16 p2_3_0 = __builtin_shufflevector(zero2_3_1, e1_3_1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 28, 29, 30, 31);
    const f32x16 e1_3_0 = exp_nonpositive_f32_16(x0_3_0 - splat_f32_16(acc0_3));
    f32x16 p2_3_1 = e1_3_0;
    const f32x16 v2_0 = p2_0_0 + p2_0_1;
    const f32x16 v2_1 = p2_1_0 + p2_1_1;
    const f32x16 v2_2 = p2_2_0 + p2_2_1;
    const f32x16 v2_3 = p2_3_0 + p2_3_1;
    const f32x16 t2_16_0 = __builtin_shufflevector(v2_0, v2_1, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
            __builtin_shufflevector(v2_0, v2_1, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    const f32x16 t2_16_1 = __builtin_shufflevector(v2_2, v2_3, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
            __builtin_shufflevector(v2_2, v2_3, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    const f32x16 t2_8_0 = __builtin_shufflevector(t2_16_0, t2_16_1, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25,
            26, 27) + __builtin_shufflevector(t2_16_0, t2_16_1, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30,
            31);
    const f32x8 t2_8 = __builtin_shufflevector(t2_8_0, t2_8_0, 0, 1, 4, 5, 8, 9, 12, 13) +
            __builtin_shufflevector(t2_8_0, t2_8_0, 2, 3, 6, 7, 10, 11, 14, 15);
    const f32x4 acc2 = __builtin_shufflevector(t2_8, t2_8, 0, 2, 4, 6) + __builtin_shufflevector(t2_8, t2_8, 1, 3, 5,
            7);
    const f32x4 number2 = splat_f32_4(1.0f) / acc2;
    const float number2_0 = number2[0];
    const float number2_1 = number2[1];
    const float number2_2 = number2[2];
    const float number2_3 = number2[3];
    const f32x16 e3_0_1 = e1_0_1 * splat_f32_16(number2_0);
    *(f32x16 *)&y[0][0] = e1_0_0 * splat_f32_16(number2_0);
    const f32x16 e3_1_1 = e1_1_1 * splat_f32_16(number2_1);
    *(f32x16 *)&y[1][0] = e1_1_0 * splat_f32_16(number2_1);
    const f32x16 e3_2_1 = e1_2_1 * splat_f32_16(number2_2);
    *(f32x16 *)&y[2][0] = e1_2_0 * splat_f32_16(number2_2);
    const f32x16 e3_3_1 = e1_3_1 * splat_f32_16(number2_3);
    *(f32x16 *)&y[3][0] = e1_3_0 * splat_f32_16(number2_3);
    *(f32x16 *)&y[0][4] = e3_0_1;
    *(f32x16 *)&y[1][4] = e3_1_1;
    *(f32x16 *)&y[2][4] = e3_2_1;
    *(f32x16 *)&y[3][4] = e3_3_1;
}
