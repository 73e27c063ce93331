/* node; 768 MACs
   x0_2 (x0) float32 1x48; x1_grouped uint8 1x12x64; x2_scales float32 1x3x16; x0_units float32 1x3;
           x0_digits int8 1x3x48; x0_sums int32 1x3x3; y0 float32 1x16 */
static __attribute__((__noinline__)) void golden_node(const float x0_2[restrict 1][48],
        const uint8_t x1_grouped[restrict 1][12][64], const float x2_scales[restrict 1][3][16],
        float x0_units[restrict 1][3], int8_t x0_digits[restrict 1][3][48], int32_t x0_sums[restrict 1][3][3],
        float y0[restrict 1][16]) {
    /* weights: 16x48 of 8 bits, a scale for 16 */
    for (int part = 0; part < 3; part++) {
        const f32x16 x0 = *(const f32x16 *)&x0_2[0][16 * part];
        const i32x16 exponents = ((i32x16)x0) & splat_i32_16(2139095040);
        const i32x8 most_8 = (__v8si)_mm256_max_epi32((__m256i)(__builtin_shufflevector(exponents, exponents, 0, 1, 2,
                3, 4, 5, 6, 7)), (__m256i)(__builtin_shufflevector(exponents, exponents, 8, 9, 10, 11, 12, 13, 14,
                15)));
        const i32x4 most_4 = (__v4si)_mm_max_epi32((__m128i)(__builtin_shufflevector(most_8, most_8, 0, 1, 2, 3)),
                (__m128i)(__builtin_shufflevector(most_8, most_8, 4, 5, 6, 7)));
        const i32x2 most_2 = max_i32_2(__builtin_shufflevector(most_4, most_4, 0, 1), __builtin_shufflevector(most_4,
                most_4, 2, 3));
        const int32_t exponent = max_i32(max_i32(most_2[0], most_2[1]), 268435456);
        x0_units[0][part] = (exponent < 2139095040) ? bits_i32_f32((int32_t)((uint32_t)exponent - (uint32_t)176160768))
                : __builtin_nanf("");
        const float inverse = bits_i32_f32((int32_t)(((uint32_t)2130706432 - (uint32_t)exponent) +
                (uint32_t)176160768));
        const i32x16 n0_0 = (__v16si)_mm512_cvtps_epi32(x0 * splat_f32_16(inverse));
        const i32x16 d0_0 = (__v16si)_mm512_cvtepi8_epi32((__m128i)(__builtin_convertvector(n0_0, i8x16)));
        *(i8x16 *)&x0_digits[0][0][16 * part] = __builtin_convertvector(d0_0, i8x16);
        const i32x16 n0_1 = ((i32x16)((u32x16)n0_0 - (u32x16)d0_0)) >> splat_i32_16(8);
        const i32x16 d0_1 = (__v16si)_mm512_cvtepi8_epi32((__m128i)(__builtin_convertvector(n0_1, i8x16)));
        *(i8x16 *)&x0_digits[0][1][16 * part] = __builtin_convertvector(d0_1, i8x16);
        const i32x16 n0_2 = ((i32x16)((u32x16)n0_1 - (u32x16)d0_1)) >> splat_i32_16(8);
        const i32x16 d0_2 = n0_2;
        *(i8x16 *)&x0_digits[0][2][16 * part] = __builtin_convertvector(d0_2, i8x16);
        const i32x16 s0 = d0_0;
        const i32x8 s0_8 = (i32x8)((u32x8)__builtin_shufflevector(s0, s0, 0, 1, 2, 3, 4, 5, 6, 7) +
                (u32x8)__builtin_shufflevector(s0, s0, 8, 9, 10, 11, 12, 13, 14, 15));
        const i32x4 s0_4 = (i32x4)((u32x4)__builtin_shufflevector(s0_8, s0_8, 0, 1, 2, 3) +
                (u32x4)__builtin_shufflevector(s0_8, s0_8, 4, 5, 6, 7));
        const i32x2 s0_2 = (i32x2)((u32x2)__builtin_shufflevector(s0_4, s0_4, 0, 1) +
                (u32x2)__builtin_shufflevector(s0_4, s0_4, 2, 3));
        x0_sums[0][part][0] = (int32_t)((uint32_t)s0_2[0] + (uint32_t)s0_2[1]);
        const i32x16 s1 = d0_1;
        const i32x8 s1_8 = (i32x8)((u32x8)__builtin_shufflevector(s1, s1, 0, 1, 2, 3, 4, 5, 6, 7) +
                (u32x8)__builtin_shufflevector(s1, s1, 8, 9, 10, 11, 12, 13, 14, 15));
        const i32x4 s1_4 = (i32x4)((u32x4)__builtin_shufflevector(s1_8, s1_8, 0, 1, 2, 3) +
                (u32x4)__builtin_shufflevector(s1_8, s1_8, 4, 5, 6, 7));
        const i32x2 s1_2 = (i32x2)((u32x2)__builtin_shufflevector(s1_4, s1_4, 0, 1) +
                (u32x2)__builtin_shufflevector(s1_4, s1_4, 2, 3));
        x0_sums[0][part][1] = (int32_t)((uint32_t)s1_2[0] + (uint32_t)s1_2[1]);
        const i32x16 s2 = d0_2;
        const i32x8 s2_8 = (i32x8)((u32x8)__builtin_shufflevector(s2, s2, 0, 1, 2, 3, 4, 5, 6, 7) +
                (u32x8)__builtin_shufflevector(s2, s2, 8, 9, 10, 11, 12, 13, 14, 15));
        const i32x4 s2_4 = (i32x4)((u32x4)__builtin_shufflevector(s2_8, s2_8, 0, 1, 2, 3) +
                (u32x4)__builtin_shufflevector(s2_8, s2_8, 4, 5, 6, 7));
        const i32x2 s2_2 = (i32x2)((u32x2)__builtin_shufflevector(s2_4, s2_4, 0, 1) +
                (u32x2)__builtin_shufflevector(s2_4, s2_4, 2, 3));
        x0_sums[0][part][2] = (int32_t)((uint32_t)s2_2[0] + (uint32_t)s2_2[1]);
    }
    for (int n = 0; n < 16; n += 16) {
        f32x16 t0_0 = splat_f32_16(0.0f);
        for (int block = 0; block < 3; block++) {
            const int32_t m0_0 = x0_sums[0][block][0];
            i32x16 c0_0_0 = splat_i32_16((int32_t)((uint32_t)m0_0 * (uint32_t)(-128)));
            const int32_t m0_1 = x0_sums[0][block][1];
            i32x16 c0_0_1 = splat_i32_16((int32_t)((uint32_t)m0_1 * (uint32_t)(-128)));
            const int32_t m0_2 = x0_sums[0][block][2];
            i32x16 c0_0_2 = splat_i32_16((int32_t)((uint32_t)m0_2 * (uint32_t)(-128)));
            for (int word = 0; word < 4; word++) {
                const u8x64 w0 = *(const u8x64 *)&x1_grouped[0][4 * block + word][0];
                __builtin_prefetch((const void *)((uintptr_t)&x1_grouped[0][4 * block + word][0] + 16384), 0, 3);
                const u8x64 q0_0 = w0;
                const i8x4 d0_0_0 = *(const i8x4 *)&x0_digits[0][0][16 * block + 4 * word];
                c0_0_0 = (__v16si)_mm512_dpbusd_epi32((__m512i)(c0_0_0), (__m512i)(q0_0),
                        (__m512i)(((i8x64)splat_i32_16(((i32x1)(d0_0_0))[0]))));
                const i8x4 d0_1_0 = *(const i8x4 *)&x0_digits[0][1][16 * block + 4 * word];
                c0_0_1 = (__v16si)_mm512_dpbusd_epi32((__m512i)(c0_0_1), (__m512i)(q0_0),
                        (__m512i)(((i8x64)splat_i32_16(((i32x1)(d0_1_0))[0]))));
                const i8x4 d0_2_0 = *(const i8x4 *)&x0_digits[0][2][16 * block + 4 * word];
                c0_0_2 = (__v16si)_mm512_dpbusd_epi32((__m512i)(c0_0_2), (__m512i)(q0_0),
                        (__m512i)(((i8x64)splat_i32_16(((i32x1)(d0_2_0))[0]))));
            }
            const float u0 = x0_units[0][block];
            const f32x16 s0 = *(const f32x16 *)&x2_scales[0][block][0];
            f32x16 f0_0 = __builtin_convertvector(c0_0_0, f32x16);
            f0_0 = _mm512_fmadd_ps(__builtin_convertvector(c0_0_1, f32x16), splat_f32_16(256.0f), f0_0);
            f0_0 = _mm512_fmadd_ps(__builtin_convertvector(c0_0_2, f32x16), splat_f32_16(65536.0f), f0_0);
            t0_0 = _mm512_fmadd_ps(f0_0, s0 * splat_f32_16(u0), t0_0);
        }
        *(f32x16 *)&y0[0][0] = t0_0;
    }
}
