/*
#ifndef NET_H
#define NET_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdint.h>
#endif

#define NET_ABI 1
#define NET_ARENA_TCM_SIZE 3520u /* in .ingot.tcm */
#define NET_ARENA_SRAM_SIZE 6336u /* in .ingot.sram */
#define NET_ARENA_ALIGN 64u
#define NET_WEIGHTS_FLASH_SIZE 19584u /* in .ingot.flash */
#define NET_WEIGHTS_ALIGN 64u
#define NET_STACK_MAX 160u /* entry included */
#define NET_X_COUNT 576u /* float32, 1x4x12x12 */
#define NET_Y_COUNT 576u /* float32, 1x4x12x12 */

enum {
    NET_OK = 0,
    NET_ERR_NULL = -1,
    NET_ERR_ALIGN = -2,
    NET_ERR_INDEX = -3,
    NET_ERR_CAPACITY = -4,
    NET_ERR_WEIGHTS = -5
};

typedef char net_assert_int_is_32_bits[sizeof(int) == 4 ? 1 : -1];
typedef char net_assert_float_is_32_bits[sizeof(float) == 4 ? 1 : -1];

#ifdef __cplusplus
extern "C" {
#endif

/* What one run leaves to the next, in the caller's memory, aligned as C aligns the struct. A copy
struct net_state {
    float before[8]; /* float32, 1x8 */
};
void net_state_init(struct net_state *state); /* before the first run */
void net_state_reset(struct net_state *state); /* the same: back to the start */

/* One inference: NET_OK or an error. arena_tcm: NET_ARENA_TCM_SIZE bytes, arena_sram: NET_ARENA_SRAM_SIZE bytes,
   aligned to 64, of any content. */
int net(const float *x, float *y, struct net_state *state, void *arena_tcm, void *arena_sram);
/* Memory of these sizes in the sections of its regions: link net_memory.c for it. */
extern unsigned char net_arena_tcm[NET_ARENA_TCM_SIZE];
extern unsigned char net_arena_sram[NET_ARENA_SRAM_SIZE];
extern struct net_state net_own_state;

#ifdef __cplusplus
}
#endif

#endif /* NET_H */
