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
        const i32x8 rank4 = splat_i32_8(0);
        const f32x8 turned5 = __builtin_shufflevector(best_of3, best_of3, 1, 2, 3, 4, 5, 6, 7, 0);
        const i32x8 rank6 = (i32x8)((u32x8)rank4 + (u32x8)((i32x8)(((turned5 > best_of3) & (i32x8)splat_i32_8(1)) |
                (~(turned5 > best_of3) & (i32x8)splat_i32_8(0)))));
        const f32x8 turned7 = __builtin_shufflevector(best_of3, best_of3, 2, 3, 4, 5, 6, 7, 0, 1);
        const i32x8 rank8 = (i32x8)((u32x8)rank6 + (u32x8)((i32x8)(((turned7 > best_of3) & (i32x8)splat_i32_8(1)) |
                (~(turned7 > best_of3) & (i32x8)splat_i32_8(0)))));
        const f32x8 turned9 = __builtin_shufflevector(best_of3, best_of3, 3, 4, 5, 6, 7, 0, 1, 2);
        const i32x8 rank10 = (i32x8)((u32x8)rank8 + (u32x8)((i32x8)(((turned9 > best_of3) & (i32x8)splat_i32_8(1)) |
                (~(turned9 > best_of3) & (i32x8)splat_i32_8(0)))));
        const f32x8 turned11 = __builtin_shufflevector(best_of3, best_of3, 4, 5, 6, 7, 0, 1, 2, 3);
        const i32x8 rank12 = (i32x8)((u32x8)rank10 + (u32x8)((i32x8)(((turned11 > best_of3) & (i32x8)splat_i32_8(1)) |
                (~(turned11 > best_of3) & (i32x8)splat_i32_8(0)))));
        const f32x8 turned13 = __builtin_shufflevector(best_of3, best_of3, 5, 6, 7, 0, 1, 2, 3, 4);
        const i32x8 rank14 = (i32x8)((u32x8)rank12 + (u32x8)((i32x8)(((turned13 > best_of3) & (i32x8)splat_i32_8(1)) |
                (~(turned13 > best_of3) & (i32x8)splat_i32_8(0)))));
        const f32x8 turned15 = __builtin_shufflevector(best_of3, best_of3, 6, 7, 0, 1, 2, 3, 4, 5);
        const i32x8 rank16 = (i32x8)((u32x8)rank14 + (u32x8)((i32x8)(((turned15 > best_of3) & (i32x8)splat_i32_8(1)) |
                (~(turned15 > best_of3) & (i32x8)splat_i32_8(0)))));
        const f32x8 turned17 = __builtin_shufflevector(best_of3, best_of3, 7, 0, 1, 2, 3, 4, 5, 6);
        const i32x8 rank18 = (i32x8)((u32x8)rank16 + (u32x8)((i32x8)(((turned17 > best_of3) & (i32x8)splat_i32_8(1)) |
                (~(turned17 > best_of3) & (i32x8)splat_i32_8(0)))));
        const f32x8 least19 = _mm256_blendv_ps(splat_f32_8(__builtin_inff()), best_of3,
                (__m256)((rank18 < splat_i32_8(3))));
        const f32x4 least20 = _mm_blendv_ps(part_f32_8_4_4(least19), part_f32_8_4_0(least19),
                (__m128)((part_f32_8_4_0(least19) < part_f32_8_4_4(least19))));
        const f32x2 least21 = (f32x2)(((part_f32_4_2_0(least20) < part_f32_4_2_2(least20)) &
                (i32x2)part_f32_4_2_0(least20)) | (~(part_f32_4_2_0(least20) < part_f32_4_2_2(least20)) &
                (i32x2)part_f32_4_2_2(least20)));
        const float least22 = (least21[0] < least21[1]) ? least21[0] : least21[1];
        int32_t count = 0;
        for (int i = 0; i < 80; i += 8) {
            if (_mm256_movemask_epi8((__m256i)((~(*(const f32x8 *)&x[i0][i] < splat_f32_8(least22)))))) {
                for (int q = 0; q < 8; q++) {
                    x_noted[imax(imin((int)count, 79), 0)] = (int32_t)(i + q);
                    count = (int32_t)((uint32_t)count + (uint32_t)((!(x[i0][i + q] < least22)) ? 1 : 0));
                }
            }
        }
        i32x8 v0 = splat_i32_8(-2147483647 - 1);
        i32x8 w0 = splat_i32_8(0);
        for (int c = 0; c < imin((int)count, 80); c++) {
            const int candidate = imax(imin((int)x_noted[c], 79), 0);
            const float y23 = x[i0][candidate];
            const int32_t b24 = bits_f32_i32(y23 + 0.0f);
            const int32_t key25 = (y23 != y23) ? 2147483647 : (b24 ^ (shr_i32(b24, 31) & 2147483647));
            const int32_t at26 = (int32_t)candidate;
            const i32x8 top27 = splat_i32_8(2147483647);
            const i32x8 moved28 = __builtin_shufflevector(top27, v0, 7, 8, 9, 10, 11, 12, 13, 14);
            const i32x8 moved29 = __builtin_shufflevector(w0, w0, 7, 8, 9, 10, 11, 12, 13, 14);
            w0 = (i32x8)(((splat_i32_8(key25) > moved28) & (i32x8)moved29) | (~(splat_i32_8(key25) > moved28) &
                    (i32x8)((i32x8)(((splat_i32_8(key25) > v0) & (i32x8)splat_i32_8(at26)) | (~(splat_i32_8(key25) > v0)
                    & (i32x8)w0)))));
            v0 = (i32x8)(((splat_i32_8(key25) > moved28) & (i32x8)moved28) | (~(splat_i32_8(key25) > moved28) &
                    (i32x8)((i32x8)(((splat_i32_8(key25) > v0) & (i32x8)splat_i32_8(key25)) | (~(splat_i32_8(key25) >
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
