/*
 * A kernel module in user space, its own file included: what it does with memory, locks and errors.
 *
 *   harness tell FILE     the outputs in FILE (a struct each) as the selftest prints them
 *   harness agree FILE    whether the outputs in FILE are those of the first golden vector, a digit each
 *   harness check SEED    loads the module with its selftest, then everything else; the answers go to stdout
 *
 * LONG is a statement that makes a long run of the inputs `in`, FAIR one that makes random ones less hopeless.
 * POISON is what fills memory that nobody has written: runs with different ones must say the same.
 */
#include "kernel.h"

#include MODULE

#define DEVICE (&ingot_device)
#define RUNS 300

bool in_section;
static bool registered, faulty, interrupted, fpu_taken;
static long allocations, alive, failing = -1;
static gfp_t wanted_flags;
static u64 now;
static long clock_step = 1000, sections, patience;

/* -- the kernel's side */

static int poison(void)
{
	const char *word = getenv("POISON");

	return word ? atoi(word) : 0xa5;
}

void *kmalloc(size_t bytes, gfp_t flags)
{
	u8 *p;

	require(!in_section && bytes <= INT_MAX);
	require((flags & wanted_flags) == wanted_flags);
	if (allocations++ == failing)
		return NULL;
	p = malloc(bytes + 8);
	require(p);
	memset(p, poison(), bytes + 8);
	if (flags & __GFP_ZERO)
		memset(p + 8, 0, bytes);
	alive++;
	return p + 8;
}

void kfree(void *p)
{
	require(!in_section);
	alive -= p != NULL;
	free(p ? (u8 *)p - 8 : NULL);
}

/* A faulty page in the middle. */
static unsigned long copy(void *to, const void *from, unsigned long count)
{
	unsigned long good = faulty ? count / 2 : count;

	require(!in_section);
	memcpy(to, from, good);
	return count - good;
}

unsigned long copy_from_user(void *to, const void *from, unsigned long count)
{
	return copy(to, from, count);
}

unsigned long copy_to_user(void *to, const void *from, unsigned long count)
{
	return copy(to, from, count);
}

void mutex_init(struct mutex *lock)
{
	lock->held = false;
}

int mutex_trylock(struct mutex *lock)
{
	bool was = lock->held;

	lock->held = true;
	return !was;
}

int mutex_lock_interruptible(struct mutex *lock)
{
	if (interrupted)
		return -EINTR;
	require(!in_section && !lock->held);
	lock->held = true;
	return 0;
}

void mutex_unlock(struct mutex *lock)
{
	require(lock->held);
	lock->held = false;
}

/* Somebody loses patience in the end. */
bool fatal_signal_pending(void *task)
{
	return patience && !--patience;
}

void cond_resched(void)
{
	require(!in_section);
}

bool irq_fpu_usable(void)
{
	return !fpu_taken;
}

void kernel_fpu_begin(void)
{
	require(!in_section);
	in_section = true;
	sections++;
}

void kernel_fpu_end(void)
{
	require(in_section);
	in_section = false;
}

u64 local_clock(void)
{
	return now += clock_step;
}

bool has_feature(const char *name)
{
	return getenv("FEATURES") != NULL && strstr(name, "AVX512") == NULL;
}

int misc_register(struct miscdevice *device)
{
	require(!registered && device->mode == 0600);
	require(!strncmp(device->name, "ingot-", 6));
	registered = true;
	return 0;
}

void misc_deregister(struct miscdevice *device)
{
	require(registered);
	registered = false;
}

int stream_open(struct inode *inode, struct file *file)
{
	return 0;
}

int param_set_uint_minmax(const char *value, const struct kernel_param *param, unsigned int lo, unsigned int hi)
{
	unsigned long number = strtoul(value, NULL, 0);

	if (number < lo || number > hi)
		return -EINVAL;
	*param->arg = (unsigned int)number;
	return 0;
}

int param_get_uint(char *buffer, const struct kernel_param *param)
{
	return sprintf(buffer, "%u\n", *param->arg);
}

int sysfs_emit(char *buffer, const char *format, ...)
{
	va_list rest;
	int count;

	va_start(rest, format);
	count = vsprintf(buffer, format, rest);
	va_end(rest);
	return count;
}

/* -- the user's side: memory of exactly so many bytes, whose ends the sanitizer watches */

static struct file opened(void)
{
	struct file file = { NULL, 0 };

	wanted_flags = __GFP_ACCOUNT;
	require(DEVICE->fops->open(NULL, &file) == 0);
	wanted_flags = 0;
	return file;
}

static ssize_t write_to(struct file *file, const void *from, size_t count)
{
	return DEVICE->fops->write(file, from, count, NULL);
}

static ssize_t read_from(struct file *file, void *to, size_t count)
{
	return DEVICE->fops->read(file, to, count, NULL);
}

static void tell(const char *what, const u8 *bytes, size_t count)
{
	u64 hash = 14695981039346656037ull;

	for (; count; count--)
		hash = (hash ^ *bytes++) * 1099511628211ull;
	printf("%s %016llx\n", what, (unsigned long long)hash);
}

static u64 state = 1;

static u8 random_byte(void)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (u8)(state >> 56);
}

/* -- checks */

/* Each allocation fails once, and nothing stays. */
static void check_memory(void)
{
	struct file file = { NULL, 0 };

	for (failing = 0; failing < 2; failing++) {
		allocations = 0;
		require(DEVICE->fops->open(NULL, &file) == -ENOMEM && alive == 0);
		allocations = 0;
		require(ingot_load() == (selftest ? -ENOMEM : 0) && alive == 0);
		require(registered == !selftest);
	}
	failing = -1;
}

static void check_sizes(const void *in, void *out)
{
	struct file file = opened();
	size_t wrong[] = { 0, 1, INGOT_INPUTS - 1, INGOT_INPUTS + 1, (size_t)-1, MAX_RW_COUNT };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		require(wrong[i] == INGOT_INPUTS || write_to(&file, in, wrong[i]) == -EINVAL);
		require(wrong[i] == INGOT_OUTPUTS || read_from(&file, out, wrong[i]) == -EINVAL);
	}
	require(read_from(&file, out, INGOT_OUTPUTS) == -ENODATA);
	require(DEVICE->fops->release(NULL, &file) == 0 && alive == 0);
}

/* Whatever goes wrong, there is nothing to read afterwards, and the lock is free. */
static void check_errors(const void *in, void *out)
{
	struct file file = opened();
	struct mutex *lock = file.private_data;
	long before;

	require(write_to(&file, in, INGOT_INPUTS) == (ssize_t)INGOT_INPUTS);
	faulty = true;
	require(read_from(&file, out, INGOT_OUTPUTS) == -EFAULT);
	faulty = false;
	require(read_from(&file, out, INGOT_OUTPUTS) == (ssize_t)INGOT_OUTPUTS);
	faulty = true;
	before = sections;
	require(write_to(&file, in, INGOT_INPUTS) == -EFAULT && sections == before);
	faulty = false;
	require(read_from(&file, out, INGOT_OUTPUTS) == -ENODATA);
	fpu_taken = true;
	require(write_to(&file, in, INGOT_INPUTS) == -EBUSY && sections == before);
	fpu_taken = false;
	require(read_from(&file, out, INGOT_OUTPUTS) == -ENODATA);
	interrupted = true;
	require(write_to(&file, in, INGOT_INPUTS) == -ERESTARTSYS);
	require(read_from(&file, out, INGOT_OUTPUTS) == -ERESTARTSYS);
	interrupted = false;
	file.f_flags = O_NONBLOCK;
	lock->held = true;
	require(write_to(&file, in, INGOT_INPUTS) == -EAGAIN);
	require(read_from(&file, out, INGOT_OUTPUTS) == -EAGAIN);
	lock->held = false;
	require(write_to(&file, in, INGOT_INPUTS) == (ssize_t)INGOT_INPUTS && !lock->held);
	require(read_from(&file, out, INGOT_OUTPUTS) == (ssize_t)INGOT_OUTPUTS && !lock->held);
	DEVICE->fops->release(NULL, &file);
}

/* Any bytes: right or refused. Every output byte that is read tells. */
static void check_any_input(u8 *in, u8 *out)
{
	struct file file = opened();
	long refused = 0, ended = 0, i;
	size_t k;

	section_us = 0;
	for (i = 0; i < RUNS; i++) {
		ssize_t status;

		for (k = 0; k < INGOT_INPUTS; k++)
			in[k] = i % 3 ? random_byte() : random_byte() % 3 ? 0 : random_byte();
		if (i % 3 == 0)
			FAIR;
		patience = 20;
		status = write_to(&file, in, INGOT_INPUTS);
		patience = 0;
		memset(out, 0, INGOT_OUTPUTS);
		if (status == -EINVAL || status == -EINTR) {
			refused += status == -EINVAL;
			ended += status == -EINTR;
			require(read_from(&file, out, INGOT_OUTPUTS) == -ENODATA);
			continue;
		}
		require(status == (ssize_t)INGOT_INPUTS);
		require(read_from(&file, out, INGOT_OUTPUTS) == (ssize_t)INGOT_OUTPUTS);
		tell("outputs", out, INGOT_OUTPUTS);
	}
	printf("refused %ld, ended %ld\n", refused, ended);
	DEVICE->fops->release(NULL, &file);
}

/* A process that is killed, at any pause, leaves the state as it was: the next run goes on from there. */
static void check_kill(const void *in, u8 *out, u8 *other)
{
	struct file file = opened(), twin = opened();
	long count, pause;

	section_us = 0;
	sections = 0;
	require(write_to(&file, in, INGOT_INPUTS) == (ssize_t)INGOT_INPUTS);
	count = sections;
	require(write_to(&twin, in, INGOT_INPUTS) == (ssize_t)INGOT_INPUTS);
	for (pause = 1; pause < count; pause++) {
		sections = 0;
		patience = pause;
		require(write_to(&file, in, INGOT_INPUTS) == -EINTR && sections == pause + 1);
		require(read_from(&file, out, INGOT_OUTPUTS) == -ENODATA);
	}
	printf("sections %ld\n", count);
	require(write_to(&file, in, INGOT_INPUTS) == (ssize_t)INGOT_INPUTS);
	require(write_to(&twin, in, INGOT_INPUTS) == (ssize_t)INGOT_INPUTS);
	require(read_from(&file, out, INGOT_OUTPUTS) == (ssize_t)INGOT_OUTPUTS);
	require(read_from(&twin, other, INGOT_OUTPUTS) == (ssize_t)INGOT_OUTPUTS);
	require(!memcmp(out, other, INGOT_OUTPUTS));
	tell("after a kill", out, INGOT_OUTPUTS);
	DEVICE->fops->release(NULL, &file);
	DEVICE->fops->release(NULL, &twin);
}

static void check_parameters(void)
{
	struct kernel_param param = { &section_us };
	char text[64];

	require(ingot_section_ops.set("10001", &param) == -EINVAL && section_us != 10001);
	require(ingot_section_ops.set("10000", &param) == 0 && section_us == 10000);
	require(ingot_longest_ops.get(text, NULL) > 0 && strtoul(text, NULL, 10) > 0);
	require(ingot_longest_ops.set("", NULL) == 0 && ingot_longest_ops.get(text, NULL) && !strcmp(text, "0\n"));
}

static void check(unsigned long seed)
{
	u8 *in = calloc(1, INGOT_INPUTS), *out = calloc(1, INGOT_OUTPUTS), *other = calloc(1, INGOT_OUTPUTS);

	state = seed;
	selftest = true;
	check_memory();
	require(ingot_load() == 0 && registered && alive == 0);
	check_sizes(in, out);
	check_errors(in, out);
	check_any_input(in, out);
	memset(in, 0, INGOT_INPUTS);
	LONG;
	check_kill(in, out, other);
	check_parameters();
	CLOSE(NULL);
	CLOSE(ERR_PTR(-ENOMEM));
	ingot_unload();
	require(!registered && alive == 0);
	free(in);
	free(out);
	free(other);
	puts("all is well");
}

/* Each struct of the file, in memory of exactly its size: as text, or whether it is the golden one. */
static int read_outputs(const char *path, bool as_text)
{
	FILE *file = fopen(path, "rb");
	void *outputs = malloc(INGOT_OUTPUTS);

	require(file && outputs);
	while (fread(outputs, INGOT_OUTPUTS, 1, file) == 1)
		if (as_text)
			ingot_show(outputs, 0);
		else
			printf("%d\n", AGREES(outputs, 0));
	fclose(file);
	free(outputs);
	return 0;
}

int main(int count, char **words)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	require(count == 3);
	if (strcmp(words[1], "check"))
		return read_outputs(words[2], !strcmp(words[1], "tell"));
	check(strtoul(words[2], NULL, 10));
	return 0;
}
