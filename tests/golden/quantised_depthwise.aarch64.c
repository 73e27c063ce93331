/* QLinearConv; 192 MACs
   y_first int32 16; x_padded uint8 1x1x6x16; w int8 1x3x1x16; y_channels_last uint8 1x1x4x16 */
static __attribute__((__noinline__)) void golden_QLinearConv(const int32_t y_first[restrict 16],
        const uint8_t x_padded[restrict 1][1][6][16], const int8_t w[restrict 1][3][1][16],
        uint8_t y_channels_last[restrict 1][1][4][16]) {
    for (int oc = 0; oc < 16; oc += 4) {
        i32x4 c0 = *(const i32x4 *)&y_first[oc];
        i32x4 c1 = *(const i32x4 *)&y_first[oc];
        i32x4 c2 = *(const i32x4 *)&y_first[oc];
        i32x4 c3 = *(const i32x4 *)&y_first[oc];
        const u8x4 x0 = *(const u8x4 *)&x_padded[0][0][0][oc];
        const i8x4 x1 = *(const i8x4 *)&w[0][0][0][oc];
        c0 = (i32x4)((u32x4)c0 + (u32x4)((i32x4)((u32x4)__builtin_convertvector(x0, i32x4) *
                (u32x4)__builtin_convertvector(x1, i32x4))));
        const u8x4 x2 = *(const u8x4 *)&x_padded[0][0][1][oc];
        c1 = (i32x4)((u32x4)c1 + (u32x4)((i32x4)((u32x4)__builtin_convertvector(x2, i32x4) *
                (u32x4)__builtin_convertvector(x1, i32x4))));
        const u8x4 x3 = *(const u8x4 *)&x_padded[0][0][2][oc];
        c2 = (i32x4)((u32x4)c2 + (u32x4)((i32x4)((u32x4)__builtin_convertvector(x3, i32x4) *
                (u32x4)__builtin_convertvector(x1, i32x4))));
        const u8x4 x4 = *(const u8x4 *)&x_padded[0][0][3][oc];
        c3 = (i32x4)((u32x4)c3 + (u32x4)((i32x4)((u32x4)__builtin_convertvector(x4, i32x4) *
                (u32x4)__builtin_convertvector(x1, i32x4))));
        const i8x4 x5 = *(const i8x4 *)&w[0][1][0][oc];
        c0 = (i32x4)((u32x4)c0 + (u32x4)((i32x4)((u32x4)__builtin_convertvector(x2, i32x4) *
                (u32x4)__builtin_convertvector(x5, i32x4))));
        c1 = (i32x4)((u32x4)c1 + (u32x4)((i32x4)((u32x4)__builtin_convertvector(x3, i32x4) *
                (u32x4)__builtin_convertvector(x5, i32x4))));
        c2 = (i32x4)((u32x4)c2 + (u32x4)((i32x4)((u32x4)__builtin_convertvector(x4, i32x4) *
                (u32x4)__builtin_convertvector(x5, i32x4))));
        const u8x4 x6 = *(const u8x4 *)&x_padded[0][0][4][oc];
        c3 = (i32x4)((u32x4)c3 + (u32x4)((i32x4)((u32x4)__builtin_convertvector(x6, i32x4) *
                (u32x4)__builtin_convertvector(x5, i32x4))));
        const i8x4 x7 = *(const i8x4 *)&w[0][2][0][oc];
        c0 = (i32x4)((u32x4)c0 + (u32x4)((i32x4)((u32x4)__builtin_convertvector(x3, i32x4) *
                (u32x4)__builtin_convertvector(x7, i32x4))));
        c1 = (i32x4)((u32x4)c1 + (u32x4)((i32x4)((u32x4)__builtin_convertvector(x4, i32x4) *
                (u32x4)__builtin_convertvector(x7, i32x4))));
        c2 = (i32x4)((u32x4)c2 + (u32x4)((i32x4)((u32x4)__builtin_convertvector(x6, i32x4) *
                (u32x4)__builtin_convertvector(x7, i32x4))));
        const u8x4 x8 = *(const u8x4 *)&x_padded[0][0][5][oc];
        c3 = (i32x4)((u32x4)c3 + (u32x4)((i32x4)((u32x4)__builtin_convertvector(x8, i32x4) *
                (u32x4)__builtin_convertvector(x7, i32x4))));
        *(u8x4 *)&y_channels_last[0][0][0][oc] = __builtin_convertvector(vminq_s32(splat_i32_4(255),
                vmaxq_s32(splat_i32_4(0), (i32x4)((u32x4)vcvtnq_s32_f32(__builtin_convertvector(c0, f32x4) *
                splat_f32_4(0.00022222222f)) + (u32x4)splat_i32_4(3)))), u8x4);
        *(u8x4 *)&y_channels_last[0][0][1][oc] = __builtin_convertvector(vminq_s32(splat_i32_4(255),
                vmaxq_s32(splat_i32_4(0), (i32x4)((u32x4)vcvtnq_s32_f32(__builtin_convertvector(c1, f32x4) *
                splat_f32_4(0.00022222222f)) + (u32x4)splat_i32_4(3)))), u8x4);
        *(u8x4 *)&y_channels_last[0][0][2][oc] = __builtin_convertvector(vminq_s32(splat_i32_4(255),
                vmaxq_s32(splat_i32_4(0), (i32x4)((u32x4)vcvtnq_s32_f32(__builtin_convertvector(c2, f32x4) *
                splat_f32_4(0.00022222222f)) + (u32x4)splat_i32_4(3)))), u8x4);
        *(u8x4 *)&y_channels_last[0][0][3][oc] = __builtin_convertvector(vminq_s32(splat_i32_4(255),
                vmaxq_s32(splat_i32_4(0), (i32x4)((u32x4)vcvtnq_s32_f32(__builtin_convertvector(c3, f32x4) *
                splat_f32_4(0.00022222222f)) + (u32x4)splat_i32_4(3)))), u8x4);
    }
}
