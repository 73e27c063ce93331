/* Gemm; 2048 MACs
   w_values float32 16; w_first int32 3; w_starts int32 21; x float32 1x64; w_picks uint8 21x2x16;
           w_codes uint8 21x2x16; y float32 1x32 */
static __attribute__((__noinline__)) void golden_Gemm(const float w_values[restrict 16],
        const int32_t w_first[restrict 3], const int32_t w_starts[restrict 21], const float x[restrict 1][64],
        const uint8_t w_picks[restrict 21][2][16], const uint8_t w_codes[restrict 21][2][16], float y[restrict 1][32]) {
    /* w: 21.5% of 32x64, 16 rows in lanes, 32 columns in sight; 1,344 bytes, 1.52 slots an entry */
    for (int block = 0; block < 2; block++) {
        const f32x16 values0 = *(const f32x16 *)&w_values[0];
        f32x16 c0 = splat_f32_16(0.0f);
        f32x16 c1 = splat_f32_16(0.0f);
        for (int step = (int)w_first[block]; step < (int)w_first[block + 1]; step++) {
            const int start = (int)w_starts[step];
            const f32x16 x0 = *(const f32x16 *)&x[0][start];
            const f32x16 x1 = *(const f32x16 *)&x[0][start + 16];
            __builtin_prefetch((const void *)((uintptr_t)&w_picks[step][0][0] + 2048), 0, 3);
            __builtin_prefetch((const void *)((uintptr_t)&w_codes[step][0][0] + 2048), 0, 3);
            const i32x16 p0 = (__v16si)_mm512_cvtepu8_epi32((__m128i)(*(const u8x16 *)&w_picks[step][0][0]));
            const i32x16 q0 = (__v16si)_mm512_cvtepu8_epi32((__m128i)(*(const u8x16 *)&w_codes[step][0][0]));
            c0 = _mm512_fmadd_ps((f32x16)_mm512_permutex2var_ps(x0, (__m512i)(p0), x1),
                    (f32x16)_mm512_permutexvar_ps((__m512i)(q0), values0), c0);
            const i32x16 p1 = (__v16si)_mm512_cvtepu8_epi32((__m128i)(*(const u8x16 *)&w_picks[step][1][0]));
            const i32x16 q1 = (__v16si)_mm512_cvtepu8_epi32((__m128i)(*(const u8x16 *)&w_codes[step][1][0]));
            c1 = _mm512_fmadd_ps((f32x16)_mm512_permutex2var_ps(x0, (__m512i)(p1), x1),
                    (f32x16)_mm512_permutexvar_ps((__m512i)(q1), values0), c1);
        }
        c0 = c0 + c1;
        *(f32x16 *)&y[0][16 * block] = c0;
    }
}
