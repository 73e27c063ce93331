/* Softmax
   x float32 4x20; top float32 4; e float32 4x20; inverse float32 4; y float32 4x20 */
static __attribute__((__noinline__)) void golden_Softmax(const float x[restrict 4][20], float top[restrict 4],
        float e[restrict 4][20], float inverse[restrict 4], float y[restrict 4][20]) {
    for (int i0 = 0; i0 < 4; i0++) {
        float acc = -__builtin_inff();
        for (int i1 = 0; i1 < 20; i1++) {
            acc = larger_f32(x[i0][i1], acc);
        }
        top[i0] = acc;
    }
    for (int i0 = 0; i0 < 4; i0++) {
        for (int i1 = 0; i1 < 20; i1++) {
            e[i0][i1] = exp_nonpositive_f32(x[i0][i1] - top[i0]);
        }
    }
    for (int i0 = 0; i0 < 4; i0++) {
        float acc = 0.0f;
        for (int i1 = 0; i1 < 20; i1++) {
            acc = acc + e[i0][i1];
        }
        inverse[i0] = 1.0f / acc;
    }
    for (int i0 = 0; i0 < 4; i0++) {
        for (int i1 = 0; i1 < 20; i1++) {
            y[i0][i1] = e[i0][i1] * inverse[i0];
        }
    }
}
