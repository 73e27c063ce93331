/* Relu
   x float32 Nx5; y float32 Nx5 */
static __attribute__((__noinline__)) void golden_Relu(int N, const float *restrict x, float *restrict y) {
    for (int i0 = 0; i0 < N; i0++) {
        *(f32x4 *)&y[5 * i0] = _mm_max_ps(splat_f32_4(0.0f), *(const f32x4 *)&x[5 * i0]);
        y[5 * i0 + 4] = max_f32(x[5 * i0 + 4], 0.0f);
    }
}
