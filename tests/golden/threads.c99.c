/* Tanh
   x float32 64x512; y float32 64x512 */
struct golden_Tanh_context {
    const float (*x)[512];
    float (*y)[512];
};
static void golden_Tanh_task0(void *context, int task) {
    const struct golden_Tanh_context *const shared = context;
    const float (*restrict x)[512] = shared->x;
    float (*restrict y)[512] = shared->y;
    const int i0 = task;
    for (int i1 = 0; i1 < 512; i1++) {
        y[i0][i1] = tanh_f32(x[i0][i1]);
    }
}

static __attribute__((__noinline__)) void golden_Tanh(const float x[restrict 64][512], float y[restrict 64][512],
        golden_parallel_for parallel_for, void *user) {
    struct golden_Tanh_context context = {x, y};
    parallel_for(user, 64, golden_Tanh_task0, &context);
}
