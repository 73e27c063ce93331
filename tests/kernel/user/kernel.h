/*
 * As much of Linux as a module asks for, in user space: every <linux/...> and <asm/...> header is this one.
 *
 * It keeps account of what the kernel would: sections of the FPU, locks, allocations and for whom they are
 * made. Memory is as unkind as it may be: aligned to 8 bytes, and filled with POISON unless zeros are asked for.
 */
#ifndef USER_KERNEL_H
#define USER_KERNEL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

typedef uint8_t u8;
typedef uint32_t u32;
typedef unsigned long long u64;
typedef unsigned int gfp_t;

#define require(condition) \
	((condition) ? (void)0 : (fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition), abort()))

/* -- words that only mean something to the kernel */
#define __user
#define __init
#define __exit
#define __ro_after_init
#define EXPORT_SYMBOL_GPL(name) extern int unused_symbol
#define MODULE_PARM_DESC(name, text) extern int unused_text
#define MODULE_LICENSE(text) extern int unused_text
#define MODULE_DESCRIPTION(text) extern int unused_text
#define MODULE_VERSION(text) extern int unused_text
#define __MODULE_PARM_TYPE(name, text) extern int unused_text
#define module_param(name, type, mode) extern int unused_parameter
#define module_param_cb(name, operations, argument, mode) \
	static const struct kernel_param_ops *const unused_##name __attribute__((unused)) = operations
#define module_init(name) extern int unused_init
#define module_exit(name) extern int unused_exit
#define THIS_MODULE NULL
#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, value) (*(volatile __typeof__(x) *)&(x) = (value))
#define ARRAY_SIZE(x) (sizeof(x) / sizeof(*(x)))
#define ALIGN(x, to) (((x) + (to) - 1) / (to) * (to))
#define PTR_ALIGN(p, to) ((__typeof__(p))ALIGN((uintptr_t)(p), (to)))
#define max(a, b) ((a) > (b) ? (a) : (b))
#undef static_assert
#define static_assert(condition) _Static_assert(condition, #condition)

#define EINTR 4
#define EIO 5
#define EAGAIN 11
#define ENOMEM 12
#define EFAULT 14
#define EBUSY 16
#define EINVAL 22
#define ENODATA 61
#define ERESTARTSYS 512
#define INT_MAX 0x7fffffff
#define MAX_RW_COUNT 0x7ffff000
#define NSEC_PER_USEC 1000L
#define O_NONBLOCK 04000

#define ERR_PTR(status) ((void *)(intptr_t)(status))
#define PTR_ERR(p) ((int)(intptr_t)(p))
#define IS_ERR(p) ((uintptr_t)(p) >= (uintptr_t)-4095)
#define IS_ERR_OR_NULL(p) (!(p) || IS_ERR(p))

/* -- parameters, devices */
struct kernel_param {
	unsigned int *arg;
};
struct kernel_param_ops {
	int (*set)(const char *value, const struct kernel_param *param);
	int (*get)(char *buffer, const struct kernel_param *param);
};
struct inode;
struct file {
	void *private_data;
	unsigned int f_flags;
};
struct file_operations {
	void *owner;
	int (*open)(struct inode *inode, struct file *file);
	int (*release)(struct inode *inode, struct file *file);
	ssize_t (*write)(struct file *file, const char *from, size_t count, loff_t *at);
	ssize_t (*read)(struct file *file, char *to, size_t count, loff_t *at);
};
#define MISC_DYNAMIC_MINOR 255
struct miscdevice {
	int minor;
	const char *name;
	const struct file_operations *fops;
	unsigned short mode;
};
int misc_register(struct miscdevice *device);
void misc_deregister(struct miscdevice *device);
int stream_open(struct inode *inode, struct file *file);
int param_set_uint_minmax(const char *value, const struct kernel_param *param, unsigned int lo, unsigned int hi);
int param_get_uint(char *buffer, const struct kernel_param *param);
int sysfs_emit(char *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define pr_info(format, ...) (require(!in_section), printf(pr_fmt(format), __VA_ARGS__))

/* -- memory */
#define __GFP_ZERO 1u
#define __GFP_NOWARN 2u
#define __GFP_ACCOUNT 4u
#define GFP_KERNEL 8u
#define GFP_KERNEL_ACCOUNT (GFP_KERNEL | __GFP_ACCOUNT)
void *kmalloc(size_t bytes, gfp_t flags);
void kfree(void *p);
#define kzalloc(bytes, flags) kmalloc(bytes, (flags) | __GFP_ZERO)
#define kvmalloc kmalloc
#define kvzalloc kzalloc
#define kvfree kfree
unsigned long copy_from_user(void *to, const void *from, unsigned long count);
unsigned long copy_to_user(void *to, const void *from, unsigned long count);

/* -- locks, tasks, the FPU */
struct mutex {
	bool held;
};
void mutex_init(struct mutex *lock);
int mutex_trylock(struct mutex *lock);
int mutex_lock_interruptible(struct mutex *lock);
void mutex_unlock(struct mutex *lock);
#define current NULL
bool fatal_signal_pending(void *task);
void cond_resched(void);
#define might_sleep_if(condition) require(!(condition) || !in_section)
extern bool in_section;
bool irq_fpu_usable(void);
void kernel_fpu_begin(void);
void kernel_fpu_end(void);
u64 local_clock(void);

/* -- one CPU, of the features that the caller says */
#define DEFINE_PER_CPU(type, name) type name
#define this_cpu_read(x) (require(in_section), (x))
#define this_cpu_write(x, value) (require(in_section), (void)((x) = (value)))
#define per_cpu(x, cpu) (*((void)(cpu), &(x)))
#define for_each_possible_cpu(cpu) for ((cpu) = 0; (cpu) < 1; (cpu)++)
#define boot_cpu_has(feature) has_feature(#feature)
#define cpu_has_xfeatures(mask, name) has_feature(#mask)
bool has_feature(const char *name);

#endif
