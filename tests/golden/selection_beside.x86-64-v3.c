/* TopK_0
   x float32 6x16; x_order8 int32 2x8; values float32 2x16; topk0_1 int64 2x16 */
static __attribute__((__noinline__)) void golden_TopK_0(const float x[restrict 6][16], int32_t x_order8[restrict 2][8],
        float values[restrict 2][16], int64_t topk0_1[restrict 2][16]) {
    for (int i1 = 0; i1 < 16; i1 += 8) {
        i32x8 v0 = splat_i32_8(-2147483647 - 1);
        i32x8 w0 = splat_i32_8(0);
        i32x8 v1 = splat_i32_8(-2147483647 - 1);
        i32x8 w1 = splat_i32_8(0);
        for (int i = 0; i < 6; i++) {
            const f32x8 y1 = *(const f32x8 *)&x[i][i1];
            const i32x8 b2 = (i32x8)(y1 + splat_f32_8(0.0f));
            const i32x8 key3 = (i32x8)(((y1 != y1) & (i32x8)splat_i32_8(2147483647)) | (~(y1 != y1) & (i32x8)(b2 ^ ((b2
                    >> splat_i32_8(31)) & splat_i32_8(2147483647)))));
            const int32_t at4 = (int32_t)i;
            if (_mm256_movemask_epi8((__m256i)((key3 > v1)))) {
                w1 = (i32x8)(((key3 > v0) & (i32x8)w0) | (~(key3 > v0) & (i32x8)((i32x8)(((key3 > v1) &
                        (i32x8)splat_i32_8(at4)) | (~(key3 > v1) & (i32x8)w1)))));
                v1 = (__v8si)_mm256_max_epi32((__m256i)(v1), (__m256i)((__v8si)_mm256_min_epi32((__m256i)(v0),
                        (__m256i)(key3))));
                w0 = (i32x8)(((key3 > v0) & (i32x8)splat_i32_8(at4)) | (~(key3 > v0) & (i32x8)w0));
                v0 = (__v8si)_mm256_max_epi32((__m256i)(v0), (__m256i)(key3));
            }
        }
        *(i32x8 *)&x_order8[0][0] = w0;
        *(i32x8 *)&x_order8[1][0] = w1;
        for (int step = 0; step < 2; step++) {
            for (int q = 0; q < 8; q++) {
                const int place = imax(imin((int)x_order8[step][q], 5), 0);
                values[step][i1 + q] = x[place][i1 + q];
                topk0_1[step][i1 + q] = (int64_t)place;
            }
        }
    }
}
