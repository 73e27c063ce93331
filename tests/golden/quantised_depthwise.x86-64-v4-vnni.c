/* QLinearConv; 192 MACs
   y_first int32 1x4x4; x_padded uint8 1x1x6x16; w int8 1x1x2x4x16; y_channels_last uint8 1x1x4x16 */
static __attribute__((__noinline__)) void golden_QLinearConv(const int32_t y_first[restrict 1][4][4],
        const uint8_t x_padded[restrict 1][1][6][16], const int8_t w[restrict 1][1][2][4][16],
        uint8_t y_channels_last[restrict 1][1][4][16]) {
    for (int ow = 0; ow < 4; ow += 2) {
        i32x4 c0_0_0 = *(const i32x4 *)&y_first[0][0][0];
        i32x4 c0_0_1 = *(const i32x4 *)&y_first[0][1][0];
        i32x4 c0_0_2 = *(const i32x4 *)&y_first[0][2][0];
        i32x4 c0_0_3 = *(const i32x4 *)&y_first[0][3][0];
        i32x4 c1_0_0 = *(const i32x4 *)&y_first[0][0][0];
        i32x4 c1_0_1 = *(const i32x4 *)&y_first[0][1][0];
        i32x4 c1_0_2 = *(const i32x4 *)&y_first[0][2][0];
        i32x4 c1_0_3 = *(const i32x4 *)&y_first[0][3][0];
        const u8x16 x0_0 = *(const u8x16 *)&x_padded[0][0][ow][0];
        const u8x16 x0_1 = *(const u8x16 *)&x_padded[0][0][ow + 1][0];
        const u8x16 x0_2 = *(const u8x16 *)&x_padded[0][0][ow + 2][0];
        const u8x16 x0_3 = *(const u8x16 *)&x_padded[0][0][ow + 3][0];
        const u8x16 x0_v0 = __builtin_shufflevector(x0_0, x0_1, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        const u8x16 x0_v1 = __builtin_shufflevector(x0_2, x0_3, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        const u8x16 x0_v2 = __builtin_shufflevector(x0_0, x0_1, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30,
                15, 31);
        const u8x16 x0_v3 = __builtin_shufflevector(x0_2, x0_3, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30,
                15, 31);
        const u8x16 x0_v4 = __builtin_shufflevector(x0_v0, x0_v1, 0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22,
                23);
        const u8x16 x0_v5 = __builtin_shufflevector(x0_v0, x0_v1, 8, 9, 24, 25, 10, 11, 26, 27, 12, 13, 28, 29, 14, 15,
                30, 31);
        const u8x16 x0_v6 = __builtin_shufflevector(x0_v2, x0_v3, 0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22,
                23);
        const u8x16 x0_v7 = __builtin_shufflevector(x0_v2, x0_v3, 8, 9, 24, 25, 10, 11, 26, 27, 12, 13, 28, 29, 14, 15,
                30, 31);
        c0_0_0 = (__v4si)_mm_dpbusd_epi32((__m128i)(c0_0_0), (__m128i)(x0_v4),
                (__m128i)(*(const i8x16 *)&w[0][0][0][0][0]));
        c0_0_1 = (__v4si)_mm_dpbusd_epi32((__m128i)(c0_0_1), (__m128i)(x0_v5),
                (__m128i)(*(const i8x16 *)&w[0][0][0][1][0]));
        c0_0_2 = (__v4si)_mm_dpbusd_epi32((__m128i)(c0_0_2), (__m128i)(x0_v6),
                (__m128i)(*(const i8x16 *)&w[0][0][0][2][0]));
        c0_0_3 = (__v4si)_mm_dpbusd_epi32((__m128i)(c0_0_3), (__m128i)(x0_v7),
                (__m128i)(*(const i8x16 *)&w[0][0][0][3][0]));
        c1_0_0 = (__v4si)_mm_dpbusd_epi32((__m128i)(c1_0_0), (__m128i)(x0_v4),
                (__m128i)(*(const i8x16 *)&w[0][0][1][0][0]));
        c1_0_1 = (__v4si)_mm_dpbusd_epi32((__m128i)(c1_0_1), (__m128i)(x0_v5),
                (__m128i)(*(const i8x16 *)&w[0][0][1][1][0]));
        c1_0_2 = (__v4si)_mm_dpbusd_epi32((__m128i)(c1_0_2), (__m128i)(x0_v6),
                (__m128i)(*(const i8x16 *)&w[0][0][1][2][0]));
        c1_0_3 = (__v4si)_mm_dpbusd_epi32((__m128i)(c1_0_3), (__m128i)(x0_v7),
                (__m128i)(*(const i8x16 *)&w[0][0][1][3][0]));
        const i32x4 q0_0_0 = (i32x4)((u32x4)(__v4si)_mm_cvtps_epi32(__builtin_convertvector(c0_0_0, f32x4) *
                splat_f32_4(0.00022222222f)) + (u32x4)splat_i32_4(3));
        const i32x4 q0_0_1 = (i32x4)((u32x4)(__v4si)_mm_cvtps_epi32(__builtin_convertvector(c0_0_1, f32x4) *
                splat_f32_4(0.00022222222f)) + (u32x4)splat_i32_4(3));
        const i32x4 q0_0_2 = (i32x4)((u32x4)(__v4si)_mm_cvtps_epi32(__builtin_convertvector(c0_0_2, f32x4) *
                splat_f32_4(0.00022222222f)) + (u32x4)splat_i32_4(3));
        const i32x4 q0_0_3 = (i32x4)((u32x4)(__v4si)_mm_cvtps_epi32(__builtin_convertvector(c0_0_3, f32x4) *
                splat_f32_4(0.00022222222f)) + (u32x4)splat_i32_4(3));
        const i16x8 p0_0_0 = (short __attribute__((__vector_size__(16))))_mm_packs_epi32((__m128i)(q0_0_0),
                (__m128i)(q0_0_1));
        const i16x8 p0_0_1 = (short __attribute__((__vector_size__(16))))_mm_packs_epi32((__m128i)(q0_0_2),
                (__m128i)(q0_0_3));
        *(u8x16 *)&y_channels_last[0][0][ow][0] = (unsigned char
                __attribute__((__vector_size__(16))))_mm_packus_epi16((__m128i)(p0_0_0), (__m128i)(p0_0_1));
        const i32x4 q1_0_0 = (i32x4)((u32x4)(__v4si)_mm_cvtps_epi32(__builtin_convertvector(c1_0_0, f32x4) *
                splat_f32_4(0.00022222222f)) + (u32x4)splat_i32_4(3));
        const i32x4 q1_0_1 = (i32x4)((u32x4)(__v4si)_mm_cvtps_epi32(__builtin_convertvector(c1_0_1, f32x4) *
                splat_f32_4(0.00022222222f)) + (u32x4)splat_i32_4(3));
        const i32x4 q1_0_2 = (i32x4)((u32x4)(__v4si)_mm_cvtps_epi32(__builtin_convertvector(c1_0_2, f32x4) *
                splat_f32_4(0.00022222222f)) + (u32x4)splat_i32_4(3));
        const i32x4 q1_0_3 = (i32x4)((u32x4)(__v4si)_mm_cvtps_epi32(__builtin_convertvector(c1_0_3, f32x4) *
                splat_f32_4(0.00022222222f)) + (u32x4)splat_i32_4(3));
        const i16x8 p1_0_0 = (short __attribute__((__vector_size__(16))))_mm_packs_epi32((__m128i)(q1_0_0),
                (__m128i)(q1_0_1));
        const i16x8 p1_0_1 = (short __attribute__((__vector_size__(16))))_mm_packs_epi32((__m128i)(q1_0_2),
                (__m128i)(q1_0_3));
        *(u8x16 *)&y_channels_last[0][0][ow + 1][0] = (unsigned char
                __attribute__((__vector_size__(16))))_mm_packus_epi16((__m128i)(p1_0_0), (__m128i)(p1_0_1));
    }
}
