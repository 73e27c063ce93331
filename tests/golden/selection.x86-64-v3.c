/* TopK_0
   x float32 2x80; x_noted int32 80; x_order int32 8; values float32 2x3; topk0_1 int64 2x3 */
static __attribute__((__noinline__)) void golden_TopK_0(const float x[restrict 2][80], int32_t x_noted[restrict 80],
        int32_t x_order[restrict 8], float values[restrict 2][3], int64_t topk0_1[restrict 2][3]) {
    for (int i0 = 0; i0 < 2; i0++) {
        f32x8 best0 = splat_f32_8(-__builtin_inff());
        f32x8 best1 = splat_f32_8(-__builtin_inff());
        f32x8 best2 = splat_f32_8(-__builtin_inff());
        f32x8 best3 = splat_f32_8(-__builtin_inff());
        for (int i = 0; i < 64; i += 32) {
            best0 = _mm256_blendv_ps(best0, *(const f32x8 *)&x[i0][i], (__m256)((*(const f32x8 *)&x[i0][i] > best0)));
            best1 = _mm256_blendv_ps(best1, *(const f32x8 *)&x[i0][i + 8], (__m256)((*(const f32x8 *)&x[i0][i +
                    8] > best1)));
            best2 = _mm256_blendv_ps(best2, *(const f32x8 *)&x[i0][i + 16], (__m256)((*(const f32x8 *)&x[i0][i +
                    16] > best2)));
            best3 = _mm256_blendv_ps(best3, *(const f32x8 *)&x[i0][i + 24], (__m256)((*(const f32x8 *)&x[i0][i +
                    24] > best3)));
        }
        best0 = _mm256_blendv_ps(best0, *(const f32x8 *)&x[i0][64], (__m256)((*(const f32x8 *)&x[i0][64] > best0)));
        best1 = _mm256_blendv_ps(best1, *(const f32x8 *)&x[i0][72], (__m256)((*(const f32x8 *)&x[i0][72] > best1)));
        const f32x8 best_of1 = _mm256_blendv_ps(best1, best0, (__m256)((best0 > best1)));
        const f32x8 best_of2 = _mm256_blendv_ps(best3, best2, (__m256)((best2 > best3)));
        const f32x8 best_of3 = _mm256_blendv_ps(best_of2, best_of1, (__m256)((best_of1 > best_of2)));
        const f32x4 largest4 = _mm_blendv_ps(part_f32_8_4_4(best_of3), part_f32_8_4_0(best_of3),
                (__m128)((part_f32_8_4_0(best_of3) > part_f32_8_4_4(best_of3))));
        const f32x2 largest5 = (f32x2)(((part_f32_4_2_0(largest4) > part_f32_4_2_2(largest4)) &
                (i32x2)part_f32_4_2_0(largest4)) | (~(part_f32_4_2_0(largest4) > part_f32_4_2_2(largest4)) &
                (i32x2)part_f32_4_2_2(largest4)));
        const float largest6 = (largest5[0] > largest5[1]) ? largest5[0] : largest5[1];
        const f32x8 rest7 = _mm256_blendv_ps(splat_f32_8(-__builtin_inff()), best_of3,
                (__m256)((best_of3 < splat_f32_8(largest6))));
        const f32x4 largest8 = _mm_blendv_ps(part_f32_8_4_4(rest7), part_f32_8_4_0(rest7),
                (__m128)((part_f32_8_4_0(rest7) > part_f32_8_4_4(rest7))));
        const f32x2 largest9 = (f32x2)(((part_f32_4_2_0(largest8) > part_f32_4_2_2(largest8)) &
                (i32x2)part_f32_4_2_0(largest8)) | (~(part_f32_4_2_0(largest8) > part_f32_4_2_2(largest8)) &
                (i32x2)part_f32_4_2_2(largest8)));
        const float largest10 = (largest9[0] > largest9[1]) ? largest9[0] : largest9[1];
        const f32x8 rest11 = _mm256_blendv_ps(splat_f32_8(-__builtin_inff()), rest7,
                (__m256)((rest7 < splat_f32_8(largest10))));
        const f32x4 largest12 = _mm_blendv_ps(part_f32_8_4_4(rest11), part_f32_8_4_0(rest11),
                (__m128)((part_f32_8_4_0(rest11) > part_f32_8_4_4(rest11))));
        const f32x2 largest13 = (f32x2)(((part_f32_4_2_0(largest12) > part_f32_4_2_2(largest12)) &
                (i32x2)part_f32_4_2_0(largest12)) | (~(part_f32_4_2_0(largest12) > part_f32_4_2_2(largest12)) &
                (i32x2)part_f32_4_2_2(largest12)));
        const float largest14 = (largest13[0] > largest13[1]) ? largest13[0] : largest13[1];
        int32_t count = 0;
        for (int i = 0; i < 80; i += 8) {
            if (_mm256_movemask_epi8((__m256i)((~(*(const f32x8 *)&x[i0][i] < splat_f32_8(largest14)))))) {
                for (int q = 0; q < 8; q++) {
                    x_noted[imax(imin((int)count, 79), 0)] = (int32_t)(i + q);
                    count = (int32_t)((uint32_t)count + (uint32_t)((!(x[i0][i + q] < largest14)) ? 1 : 0));
                }
            }
        }
        i32x8 v0 = splat_i32_8(-2147483647 - 1);
        i32x8 w0 = splat_i32_8(0);
        for (int c = 0; c < imin((int)count, 80); c++) {
            const int candidate = imax(imin((int)x_noted[c], 79), 0);
            const float y15 = x[i0][candidate];
            const int32_t b16 = bits_f32_i32(y15 + 0.0f);
            const int32_t key17 = (y15 != y15) ? 2147483647 : (b16 ^ (shr_i32(b16, 31) & 2147483647));
            const int32_t at18 = (int32_t)candidate;
            const i32x8 top19 = splat_i32_8(2147483647);
            const i32x8 moved20 = __builtin_shufflevector(top19, v0, 7, 8, 9, 10, 11, 12, 13, 14);
            const i32x8 moved21 = __builtin_shufflevector(w0, w0, 7, 8, 9, 10, 11, 12, 13, 14);
            w0 = (i32x8)(((splat_i32_8(key17) > moved20) & (i32x8)moved21) | (~(splat_i32_8(key17) > moved20) &
                    (i32x8)((i32x8)(((splat_i32_8(key17) > v0) & (i32x8)splat_i32_8(at18)) | (~(splat_i32_8(key17) > v0)
                    & (i32x8)w0)))));
            v0 = (i32x8)(((splat_i32_8(key17) > moved20) & (i32x8)moved20) | (~(splat_i32_8(key17) > moved20) &
                    (i32x8)((i32x8)(((splat_i32_8(key17) > v0) & (i32x8)splat_i32_8(key17)) | (~(splat_i32_8(key17) >
                    v0) & (i32x8)v0)))));
        }
        *(i32x8 *)&x_order[0] = w0;
        for (int step = 0; step < 3; step++) {
            const int place = imax(imin((int)x_order[step], 79), 0);
            values[i0][step] = x[i0][place];
            topk0_1[i0][step] = (int64_t)place;
        }
    }
}
