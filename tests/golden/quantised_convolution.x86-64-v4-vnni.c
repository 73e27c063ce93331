/* QLinearConv; 768 MACs
   y_first int32 1x16; w int8 1x3x64; x_padded uint8 1x1x24; y_channels_last uint8 1x1x4x16 */
static __attribute__((__noinline__)) void golden_QLinearConv(const int32_t y_first[restrict 1][16],
        const int8_t w[restrict 1][3][64], const uint8_t x_padded[restrict 1][1][24],
        uint8_t y_channels_last[restrict 1][1][4][16]) {
    i32x16 c0_0 = *(const i32x16 *)&y_first[0][0];
    i32x16 c1_0 = *(const i32x16 *)&y_first[0][0];
    i32x16 c2_0 = *(const i32x16 *)&y_first[0][0];
    i32x16 c3_0 = *(const i32x16 *)&y_first[0][0];
    for (int kwic_group = 0; kwic_group < 3; kwic_group++) {
        const i8x64 b0 = *(const i8x64 *)&w[0][kwic_group][0];
        const u8x4 a0 = *(const u8x4 *)&x_padded[0][0][4 * kwic_group];
        c0_0 = (__v16si)_mm512_dpbusd_epi32((__m512i)(c0_0), (__m512i)(((u8x64)splat_i32_16(((i32x1)(a0))[0]))),
                (__m512i)(b0));
        const u8x4 a1 = *(const u8x4 *)&x_padded[0][0][4 * kwic_group + 4];
        c1_0 = (__v16si)_mm512_dpbusd_epi32((__m512i)(c1_0), (__m512i)(((u8x64)splat_i32_16(((i32x1)(a1))[0]))),
                (__m512i)(b0));
        const u8x4 a2 = *(const u8x4 *)&x_padded[0][0][4 * kwic_group + 8];
        c2_0 = (__v16si)_mm512_dpbusd_epi32((__m512i)(c2_0), (__m512i)(((u8x64)splat_i32_16(((i32x1)(a2))[0]))),
                (__m512i)(b0));
        const u8x4 a3 = *(const u8x4 *)&x_padded[0][0][4 * kwic_group + 12];
        c3_0 = (__v16si)_mm512_dpbusd_epi32((__m512i)(c3_0), (__m512i)(((u8x64)splat_i32_16(((i32x1)(a3))[0]))),
                (__m512i)(b0));
    }
    *(u8x16 *)&y_channels_last[0][0][0][0] = (unsigned char
            __attribute__((__vector_size__(16))))_mm512_cvtusepi32_epi8(_mm512_max_epi32((__m512i)((i32x16)((u32x16)(__v16si)_mm512_cvtps_epi32(__builtin_convertvector(c0_0,
            f32x16) * splat_f32_16(0.00022222222f)) + (u32x16)splat_i32_16(3))), (__m512i){0}));
    *(u8x16 *)&y_channels_last[0][0][1][0] = (unsigned char
            __attribute__((__vector_size__(16))))_mm512_cvtusepi32_epi8(_mm512_max_epi32((__m512i)((i32x16)((u32x16)(__v16si)_mm512_cvtps_epi32(__builtin_convertvector(c1_0,
            f32x16) * splat_f32_16(0.00022222222f)) + (u32x16)splat_i32_16(3))), (__m512i){0}));
    *(u8x16 *)&y_channels_last[0][0][2][0] = (unsigned char
            __attribute__((__vector_size__(16))))_mm512_cvtusepi32_epi8(_mm512_max_epi32((__m512i)((i32x16)((u32x16)(__v16si)_mm512_cvtps_epi32(__builtin_convertvector(c2_0,
            f32x16) * splat_f32_16(0.00022222222f)) + (u32x16)splat_i32_16(3))), (__m512i){0}));
    *(u8x16 *)&y_channels_last[0][0][3][0] = (unsigned char
            __attribute__((__vector_size__(16))))_mm512_cvtusepi32_epi8(_mm512_max_epi32((__m512i)((i32x16)((u32x16)(__v16si)_mm512_cvtps_epi32(__builtin_convertvector(c3_0,
            f32x16) * splat_f32_16(0.00022222222f)) + (u32x16)splat_i32_16(3))), (__m512i){0}));
}
