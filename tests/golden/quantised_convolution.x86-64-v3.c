/* QLinearConv; 768 MACs
   x_padded uint8 1x1x24; y_first int32 1x16; w int8 1x6x32; x_padded_wide int16 1x1x24;
           y_channels_last uint8 1x1x4x16 */
static __attribute__((__noinline__)) void golden_QLinearConv(const uint8_t x_padded[restrict 1][1][24],
        const int32_t y_first[restrict 1][16], const int8_t w[restrict 1][6][32],
        int16_t x_padded_wide[restrict 1][1][24], uint8_t y_channels_last[restrict 1][1][4][16]) {
    for (int lane = 0; lane < 24; lane += 8) {
        *(i16x8 *)&x_padded_wide[0][0][lane] = __builtin_convertvector(*(const u8x8 *)&x_padded[0][0][lane], i16x8);
    }
    for (int oc = 0; oc < 16; oc += 16) {
        i32x8 c0_0 = *(const i32x8 *)&y_first[0][0];
        i32x8 c0_1 = *(const i32x8 *)&y_first[0][8];
        i32x8 c1_0 = *(const i32x8 *)&y_first[0][0];
        i32x8 c1_1 = *(const i32x8 *)&y_first[0][8];
        i32x8 c2_0 = *(const i32x8 *)&y_first[0][0];
        i32x8 c2_1 = *(const i32x8 *)&y_first[0][8];
        i32x8 c3_0 = *(const i32x8 *)&y_first[0][0];
        i32x8 c3_1 = *(const i32x8 *)&y_first[0][8];
        for (int kwic_group = 0; kwic_group < 6; kwic_group++) {
            const i16x16 b0 = __builtin_convertvector(*(const i8x16 *)&w[0][kwic_group][0], i16x16);
            const i16x16 b1 = __builtin_convertvector(*(const i8x16 *)&w[0][kwic_group][16], i16x16);
            const i16x2 a0 = *(const i16x2 *)&x_padded_wide[0][0][2 * kwic_group];
            c0_0 = (__v8si)_mm256_add_epi32((__m256i)(c0_0),
                    _mm256_madd_epi16((__m256i)(((i16x16)splat_i32_8(((i32x1)(a0))[0]))), (__m256i)(b0)));
            c0_1 = (__v8si)_mm256_add_epi32((__m256i)(c0_1),
                    _mm256_madd_epi16((__m256i)(((i16x16)splat_i32_8(((i32x1)(a0))[0]))), (__m256i)(b1)));
            const i16x2 a1 = *(const i16x2 *)&x_padded_wide[0][0][2 * kwic_group + 4];
            c1_0 = (__v8si)_mm256_add_epi32((__m256i)(c1_0),
                    _mm256_madd_epi16((__m256i)(((i16x16)splat_i32_8(((i32x1)(a1))[0]))), (__m256i)(b0)));
            c1_1 = (__v8si)_mm256_add_epi32((__m256i)(c1_1),
                    _mm256_madd_epi16((__m256i)(((i16x16)splat_i32_8(((i32x1)(a1))[0]))), (__m256i)(b1)));
            const i16x2 a2 = *(const i16x2 *)&x_padded_wide[0][0][2 * kwic_group + 8];
            c2_0 = (__v8si)_mm256_add_epi32((__m256i)(c2_0),
                    _mm256_madd_epi16((__m256i)(((i16x16)splat_i32_8(((i32x1)(a2))[0]))), (__m256i)(b0)));
            c2_1 = (__v8si)_mm256_add_epi32((__m256i)(c2_1),
                    _mm256_madd_epi16((__m256i)(((i16x16)splat_i32_8(((i32x1)(a2))[0]))), (__m256i)(b1)));
            const i16x2 a3 = *(const i16x2 *)&x_padded_wide[0][0][2 * kwic_group + 12];
            c3_0 = (__v8si)_mm256_add_epi32((__m256i)(c3_0),
                    _mm256_madd_epi16((__m256i)(((i16x16)splat_i32_8(((i32x1)(a3))[0]))), (__m256i)(b0)));
            c3_1 = (__v8si)_mm256_add_epi32((__m256i)(c3_1),
                    _mm256_madd_epi16((__m256i)(((i16x16)splat_i32_8(((i32x1)(a3))[0]))), (__m256i)(b1)));
        }
        *(u8x8 *)&y_channels_last[0][0][0][0] =
                __builtin_convertvector((__v8si)_mm256_min_epi32((__m256i)(splat_i32_8(255)),
                (__m256i)((__v8si)_mm256_max_epi32((__m256i)(splat_i32_8(0)),
                (__m256i)((i32x8)((u32x8)(__v8si)_mm256_cvtps_epi32(__builtin_convertvector(c0_0, f32x8) *
                splat_f32_8(0.00022222222f)) + (u32x8)splat_i32_8(3)))))), u8x8);
        *(u8x8 *)&y_channels_last[0][0][1][0] =
                __builtin_convertvector((__v8si)_mm256_min_epi32((__m256i)(splat_i32_8(255)),
                (__m256i)((__v8si)_mm256_max_epi32((__m256i)(splat_i32_8(0)),
                (__m256i)((i32x8)((u32x8)(__v8si)_mm256_cvtps_epi32(__builtin_convertvector(c1_0, f32x8) *
                splat_f32_8(0.00022222222f)) + (u32x8)splat_i32_8(3)))))), u8x8);
        *(u8x8 *)&y_channels_last[0][0][2][0] =
                __builtin_convertvector((__v8si)_mm256_min_epi32((__m256i)(splat_i32_8(255)),
                (__m256i)((__v8si)_mm256_max_epi32((__m256i)(splat_i32_8(0)),
                (__m256i)((i32x8)((u32x8)(__v8si)_mm256_cvtps_epi32(__builtin_convertvector(c2_0, f32x8) *
                splat_f32_8(0.00022222222f)) + (u32x8)splat_i32_8(3)))))), u8x8);
        *(u8x8 *)&y_channels_last[0][0][3][0] =
                __builtin_convertvector((__v8si)_mm256_min_epi32((__m256i)(splat_i32_8(255)),
                (__m256i)((__v8si)_mm256_max_epi32((__m256i)(splat_i32_8(0)),
                (__m256i)((i32x8)((u32x8)(__v8si)_mm256_cvtps_epi32(__builtin_convertvector(c3_0, f32x8) *
                splat_f32_8(0.00022222222f)) + (u32x8)splat_i32_8(3)))))), u8x8);
        *(u8x8 *)&y_channels_last[0][0][0][8] =
                __builtin_convertvector((__v8si)_mm256_min_epi32((__m256i)(splat_i32_8(255)),
                (__m256i)((__v8si)_mm256_max_epi32((__m256i)(splat_i32_8(0)),
                (__m256i)((i32x8)((u32x8)(__v8si)_mm256_cvtps_epi32(__builtin_convertvector(c0_1, f32x8) *
                splat_f32_8(0.00022222222f)) + (u32x8)splat_i32_8(3)))))), u8x8);
        *(u8x8 *)&y_channels_last[0][0][1][8] =
                __builtin_convertvector((__v8si)_mm256_min_epi32((__m256i)(splat_i32_8(255)),
                (__m256i)((__v8si)_mm256_max_epi32((__m256i)(splat_i32_8(0)),
                (__m256i)((i32x8)((u32x8)(__v8si)_mm256_cvtps_epi32(__builtin_convertvector(c1_1, f32x8) *
                splat_f32_8(0.00022222222f)) + (u32x8)splat_i32_8(3)))))), u8x8);
        *(u8x8 *)&y_channels_last[0][0][2][8] =
                __builtin_convertvector((__v8si)_mm256_min_epi32((__m256i)(splat_i32_8(255)),
                (__m256i)((__v8si)_mm256_max_epi32((__m256i)(splat_i32_8(0)),
                (__m256i)((i32x8)((u32x8)(__v8si)_mm256_cvtps_epi32(__builtin_convertvector(c2_1, f32x8) *
                splat_f32_8(0.00022222222f)) + (u32x8)splat_i32_8(3)))))), u8x8);
        *(u8x8 *)&y_channels_last[0][0][3][8] =
                __builtin_convertvector((__v8si)_mm256_min_epi32((__m256i)(splat_i32_8(255)),
                (__m256i)((__v8si)_mm256_max_epi32((__m256i)(splat_i32_8(0)),
                (__m256i)((i32x8)((u32x8)(__v8si)_mm256_cvtps_epi32(__builtin_convertvector(c3_1, f32x8) *
                splat_f32_8(0.00022222222f)) + (u32x8)splat_i32_8(3)))))), u8x8);
    }
}
