// SPDX-License-Identifier: GPL-2.0 OR 0BSD
/*
 * A user of the modules `policy` and `digits`: other contexts, other CPUs, many runs.
 *
 * Floats are words here: nothing but the networks computes with them. Each check prints "probe: NAME ok", or
 * what it found.
 */
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <trace/events/kmem.h>
#ifdef CONFIG_ARM64
#include <asm/neon.h>
#define kernel_fpu_begin kernel_neon_begin
#define kernel_fpu_end kernel_neon_end
#else
#include <asm/fpu/api.h>
#endif

#include "digits_network.h"
#include "policy_network.h"

#undef pr_fmt
#define pr_fmt(fmt) "probe: " fmt

enum { SEEN = 9, ACTION = 5, PIXELS = 64, SCORES = 10, MANY = 10000, EACH = 300 };
#define F(words) ((float *)(words))

static u32 seen[SEEN] = { 0, 0x3dcccccd, 0x3e4ccccd, 0x3e99999a, 0x3ecccccd, 0x3f000000, 0x3f19999a, 0x3f333333, 0x3f4ccccd };
static const u32 powers[] = { 0, 0x3f800000, 0x40000000, 0x40800000, 0x41000000, 0x41800000 };
static u32 pixels[PIXELS];
static u32 action[ACTION], scores[SCORES]; /* what is right: the first run of each */

static void check(const char *what, int wrong)
{
	if (wrong)
		pr_info("%s found %d\n", what, wrong);
	else
		pr_info("%s ok\n", what);
}

/* A first run of the policy: its state is new. Zero where it ran and was right. */
static int first_run(struct policy_network *n, bool can_sleep)
{
	u32 found[ACTION];
	int status;

	policy_network_restart(n);
	status = policy_network_infer(n, F(seen), F(found), can_sleep);
	return status ? status : memcmp(found, action, sizeof(action)) ? 1 : 0;
}

/* -- users beside each other */

static void users(struct policy_network *n)
{
	struct policy_network *other = policy_network_open();
	u32 found[ACTION];
	int wrong = 0;

	wrong += policy_network_infer(n, F(seen), F(found), true) || !memcmp(found, action, sizeof(action));
	wrong += first_run(other, true) != 0; /* the first one's state is its own */
	wrong += first_run(n, true) != 0;
	policy_network_close(other);
	check("users have states of their own", wrong);
}

static void many(struct policy_network *n)
{
	int i, wrong = 0;

	for (i = 0; i < MANY; i++)
		wrong += first_run(n, true) != 0;
	check("10000 runs", wrong);
}

struct work {
	struct completion done;
	int cpu, wrong;
};

static int work(void *data)
{
	struct work *w = data;
	struct policy_network *p = policy_network_open();
	struct digits_network *d = digits_network_open();
	u32 found[SCORES];
	int i;

	w->cpu = raw_smp_processor_id();
	for (i = 0; i < EACH; i++) {
		w->wrong += first_run(p, true) != 0;
		w->wrong += digits_network_infer(d, F(pixels), F(found), true) != 0;
		w->wrong += memcmp(found, scores, sizeof(scores)) != 0;
	}
	policy_network_close(p);
	digits_network_close(d);
	complete(&w->done);
	return 0;
}

/* Two threads on each CPU. */
static void everywhere(void)
{
	int cpus = num_online_cpus();
	struct work *all = kcalloc(2 * cpus, sizeof(*all), GFP_KERNEL);
	int i, wrong = 0;

	for (i = 0; i < 2 * cpus; i++) {
		init_completion(&all[i].done);
		wake_up_process(kthread_create_on_cpu(work, &all[i], i / 2, "probe/%u"));
	}
	for (i = 0; i < 2 * cpus; i++) {
		wait_for_completion(&all[i].done);
		wrong += all[i].wrong + (all[i].cpu != i / 2);
	}
	kfree(all);
	pr_info("%d threads on %d CPUs\n", 2 * cpus, cpus);
	check("all CPUs at the same time", wrong);
}

/* -- contexts: a timer's interrupt runs the policy on top of what its CPU does */

struct tick {
	struct hrtimer timer;
	struct policy_network *network;
	int status;
	bool fired;
};

static enum hrtimer_restart ticked(struct hrtimer *timer)
{
	struct tick *t = container_of(timer, struct tick, timer);

	t->status = first_run(t->network, false);
	WRITE_ONCE(t->fired, true);
	return HRTIMER_NORESTART;
}

/*
 * Whether the timer fires on this CPU, 20 us from now, while the caller's context stays. The kernel may leave a
 * softirq to ksoftirqd, which never runs there: so the wait has an end.
 */
static bool fires(struct tick *t, enum hrtimer_mode mode)
{
	ktime_t until = ktime_add_ms(ktime_get(), 2);

	t->fired = false;
	hrtimer_init(&t->timer, CLOCK_MONOTONIC, mode);
	t->timer.function = ticked;
	hrtimer_start(&t->timer, ns_to_ktime(20000), mode);
	while (!READ_ONCE(t->fired) && ktime_before(ktime_get(), until))
		cpu_relax();
	return READ_ONCE(t->fired);
}

struct context {
	const char *says;
	void (*enter)(void), (*leave)(void);
	enum hrtimer_mode mode;
	int status;
};

static void preempt_off(void)
{
	preempt_disable();
}

static void preempt_on(void)
{
	preempt_enable();
}

#ifdef CONFIG_ARM64 /* no NEON in interrupts, no softirqs in its sections */
static const struct context contexts[] = {
	{ "an interrupt is busy", preempt_off, preempt_on, HRTIMER_MODE_REL_PINNED_HARD, -EBUSY },
	{ "a softirq elsewhere runs", preempt_off, preempt_on, HRTIMER_MODE_REL_PINNED_SOFT, 0 },
};
#else
static const struct context contexts[] = {
	{ "an interrupt within an FPU section is busy", kernel_fpu_begin, kernel_fpu_end, HRTIMER_MODE_REL_PINNED_HARD, -EBUSY },
	{ "an interrupt where softirqs are off is busy", local_bh_disable, local_bh_enable, HRTIMER_MODE_REL_PINNED_HARD, -EBUSY },
	{ "an interrupt elsewhere runs", preempt_off, preempt_on, HRTIMER_MODE_REL_PINNED_HARD, 0 },
	{ "a softirq within an FPU section is busy", kernel_fpu_begin, kernel_fpu_end, HRTIMER_MODE_REL_PINNED_SOFT, -EBUSY },
	{ "a softirq elsewhere runs", preempt_off, preempt_on, HRTIMER_MODE_REL_PINNED_SOFT, 0 },
};
#endif

/* One of a hundred timers at most must fire within the context. */
static void interrupted(struct policy_network *n, const struct context *c)
{
	struct tick t = { .network = n };
	bool fired = false;
	int i;

	for (i = 0; i < 100 && !fired; i++) {
		c->enter();
		fired = fires(&t, c->mode);
		c->leave();
		hrtimer_cancel(&t.timer);
		if (!fired)
			msleep(1);
	}
	check(c->says, fired ? t.status != c->status : -ETIME);
}

static void interrupts(struct policy_network *n)
{
	int i;

	kernel_fpu_begin();
	check("nested use is busy", first_run(n, false) != -EBUSY);
	kernel_fpu_end();
	for (i = 0; i < ARRAY_SIZE(contexts); i++)
		interrupted(n, &contexts[i]);
	check("a run after all of these", first_run(n, true));
}

/* -- allocations: the tracepoints of slab memory, as long as this thread infers */

static struct task_struct *watched;
static int allocations;

/* Whatever the tracepoint tells. */
static void allocated(void *data)
{
	if (current == READ_ONCE(watched) && !in_interrupt())
		allocations++;
}

static void memory(struct policy_network *p, struct digits_network *d)
{
	u32 found[SCORES];
	void *something;
	int i, seen_before;

	if (register_trace_kmalloc((void *)allocated, NULL) ||
	    register_trace_kmem_cache_alloc((void *)allocated, NULL)) {
		check("memory is watched", 1);
		return;
	}
	WRITE_ONCE(watched, current);
	something = kmalloc(100 + get_random_u32() % 100, GFP_KERNEL);
	seen_before = allocations;
	for (i = 0; i < 100; i++) {
		first_run(p, true);
		digits_network_infer(d, F(pixels), F(found), true);
	}
	WRITE_ONCE(watched, NULL);
	unregister_trace_kmalloc((void *)allocated, NULL);
	unregister_trace_kmem_cache_alloc((void *)allocated, NULL);
	tracepoint_synchronize_unregister();
	kfree(something);
	check("allocations are seen", seen_before != 1);
	check("no run allocates memory", allocations - seen_before);
}

static int __init load(void)
{
	struct policy_network *p = policy_network_open();
	struct digits_network *d = digits_network_open();
	int i;

	if (IS_ERR(p) || IS_ERR(d))
		return -ENOMEM;
	for (i = 0; i < PIXELS; i++)
		pixels[i] = powers[i % ARRAY_SIZE(powers)];
	check("a first run", policy_network_infer(p, F(seen), F(action), true) || !action[0]);
	check("another model", digits_network_infer(d, F(pixels), F(scores), true) || !scores[0]);
	users(p);
	interrupts(p);
	memory(p, d);
	many(p);
	everywhere();
	policy_network_close(p);
	digits_network_close(d);
	return 0;
}

static void __exit unload(void)
{
}

module_init(load);
module_exit(unload);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Tries the modules of two networks");
