/* Gemm; 524288 MACs
   w_values float32 16; w_codes uint8 4x1024x64; x float32 1x1024; y float32 1x512 */
static __attribute__((__noinline__)) void golden_Gemm(const float w_values[restrict 16],
        const uint8_t w_codes[restrict 4][1024][64], const float x[restrict 1][1024], float y[restrict 1][512]) {
    /* w: 512x1024 as codes of 4 bits; 262,144 bytes */
    const f32x16 values0 = *(const f32x16 *)&w_values[0];
    for (int n = 0; n < 512; n += 128) {
        f32x16 c0_0 = splat_f32_16(0.0f);
        f32x16 c0_1 = splat_f32_16(0.0f);
        f32x16 c0_2 = splat_f32_16(0.0f);
        f32x16 c0_3 = splat_f32_16(0.0f);
        f32x16 c0_4 = splat_f32_16(0.0f);
        f32x16 c0_5 = splat_f32_16(0.0f);
        f32x16 c0_6 = splat_f32_16(0.0f);
        f32x16 c0_7 = splat_f32_16(0.0f);
        for (int k = 0; k < 1024; k++) {
            __builtin_prefetch((const void *)((uintptr_t)&w_codes[n / 128][k][0] + 16384), 0, 3);
            const i32x16 q0 = (__v16si)_mm512_cvtepu8_epi32((__m128i)(*(const u8x16 *)&w_codes[n / 128][k][0]));
            const f32x16 b0 = (f32x16)_mm512_permutexvar_ps((__m512i)(q0 & splat_i32_16(15)), values0);
            const f32x16 b1 = (f32x16)_mm512_permutexvar_ps((__m512i)(q0 >> splat_i32_16(4)), values0);
            const i32x16 q1 = (__v16si)_mm512_cvtepu8_epi32((__m128i)(*(const u8x16 *)&w_codes[n / 128][k][16]));
            const f32x16 b2 = (f32x16)_mm512_permutexvar_ps((__m512i)(q1 & splat_i32_16(15)), values0);
            const f32x16 b3 = (f32x16)_mm512_permutexvar_ps((__m512i)(q1 >> splat_i32_16(4)), values0);
            const i32x16 q2 = (__v16si)_mm512_cvtepu8_epi32((__m128i)(*(const u8x16 *)&w_codes[n / 128][k][32]));
            const f32x16 b4 = (f32x16)_mm512_permutexvar_ps((__m512i)(q2 & splat_i32_16(15)), values0);
            const f32x16 b5 = (f32x16)_mm512_permutexvar_ps((__m512i)(q2 >> splat_i32_16(4)), values0);
            const i32x16 q3 = (__v16si)_mm512_cvtepu8_epi32((__m128i)(*(const u8x16 *)&w_codes[n / 128][k][48]));
            const f32x16 b6 = (f32x16)_mm512_permutexvar_ps((__m512i)(q3 & splat_i32_16(15)), values0);
            const f32x16 b7 = (f32x16)_mm512_permutexvar_ps((__m512i)(q3 >> splat_i32_16(4)), values0);
            const float a0 = x[0][k];
            c0_0 = _mm512_fmadd_ps(splat_f32_16(a0), b0, c0_0);
            c0_1 = _mm512_fmadd_ps(splat_f32_16(a0), b1, c0_1);
            c0_2 = _mm512_fmadd_ps(splat_f32_16(a0), b2, c0_2);
            c0_3 = _mm512_fmadd_ps(splat_f32_16(a0), b3, c0_3);
            c0_4 = _mm512_fmadd_ps(splat_f32_16(a0), b4, c0_4);
            c0_5 = _mm512_fmadd_ps(splat_f32_16(a0), b5, c0_5);
            c0_6 = _mm512_fmadd_ps(splat_f32_16(a0), b6, c0_6);
            c0_7 = _mm512_fmadd_ps(splat_f32_16(a0), b7, c0_7);
        }
        *(f32x16 *)&y[0][n] = c0_0;
        *(f32x16 *)&y[0][n + 16] = c0_1;
        *(f32x16 *)&y[0][n + 32] = c0_2;
        *(f32x16 *)&y[0][n + 48] = c0_3;
        *(f32x16 *)&y[0][n + 64] = c0_4;
        *(f32x16 *)&y[0][n + 80] = c0_5;
        *(f32x16 *)&y[0][n + 96] = c0_6;
        *(f32x16 *)&y[0][n + 112] = c0_7;
    }
}
