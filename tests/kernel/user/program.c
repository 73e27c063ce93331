/*
 * A user of /dev/ingot-mixed and /dev/ingot-kept in the machine: memory, sizes, a process that is killed.
 *
 * Each check prints "user: NAME ok", or what it found.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kept_network.h"
#include "mixed_network.h"
#include "vectors.h"

#define GROUP "/group/limited"
#define USERS 100
#define OPENED 1000
#define LIMIT (4L << 20)

static void check(const char *what, long wrong)
{
	if (wrong)
		printf("user: %s found %ld\n", what, wrong);
	else
		printf("user: %s ok\n", what);
	fflush(stdout);
}

/* How often a call does not fail as it should. */
static int fails(ssize_t status, int with)
{
	return status != -1 || errno != with;
}

static long microseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000L + now.tv_nsec / 1000;
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		check(path, errno);
	close(fd);
}

/*
 * How many of USERS do not get what they asked for, to the byte, or get something without. They are there at
 * the same time, for memory that one of them left would be given to the next; and all memory is filled with
 * what stands in no input before the first one comes, for the users of the device before have left theirs.
 */
static long others(const char *device)
{
	static struct mixed_inputs in;
	struct mixed_outputs out;
	int users[USERS];
	long wrong = 0, i;

	put("/sys/module/dirt/parameters/fill", "1");
	for (i = 0; i < USERS; i++) {
		const unsigned char *wants = wanted[i % (sizeof(wanted) / sizeof(*wanted))];
		int fd = users[i] = open(device, O_RDWR);

		memcpy(&in, given[i % (sizeof(given) / sizeof(*given))], sizeof(in));
		memset(&out, 0xff, sizeof(out));
		wrong += fails(read(fd, &out, sizeof(out)), ENODATA);
		wrong += write(fd, &in, sizeof(in)) != sizeof(in);
		wrong += read(fd, &out, sizeof(out)) != sizeof(out);
		wrong += memcmp(&out, wants, sizeof(out)) != 0;
		in.in_first[0] = 3;
		wrong += fails(write(fd, &in, sizeof(in)), EINVAL);
		wrong += fails(read(fd, &out, sizeof(out)), ENODATA);
	}
	for (i = 0; i < USERS; i++)
		close(users[i]);
	return wrong;
}

/* Of modules that leak something is seen: memory is as unkind as these checks take it to be. */
static void nothing_of_others(void)
{
	check("nothing of others is read", others("/dev/ingot-mixed"));
	check("nothing of others is read from whole pages", others("/dev/ingot-paged"));
	check("what leaks from slabs is seen", !others("/dev/ingot-leaky"));
	check("what leaks from pages is seen", !others("/dev/ingot-leaky_paged"));
}

static void sizes(void)
{
	static struct mixed_inputs in;
	struct iovec halves[] = { { &in, sizeof(in) / 2 }, { (char *)&in + sizeof(in) / 2, sizeof(in) / 2 } };
	void *volatile nowhere = (void *)16; /* what is wrong here shall not be told by the compiler */
	volatile size_t most = 0x7ffff000;
	int fd = open("/dev/ingot-mixed", O_RDWR);
	long wrong = 0;

	wrong += fails(write(fd, &in, 0), EINVAL);
	wrong += fails(write(fd, &in, sizeof(in) - 1), EINVAL);
	wrong += fails(write(fd, &in, most), EINVAL);
	wrong += fails(writev(fd, halves, 2), EINVAL);
	wrong += fails(pwrite(fd, &in, sizeof(in), 0), ESPIPE);
	wrong += fails(lseek(fd, 0, SEEK_SET), ESPIPE);
	wrong += fails(write(fd, nowhere, sizeof(in)), EFAULT);
	wrong += write(fd, &in, sizeof(in)) != sizeof(in);
	wrong += fails(read(fd, nowhere, sizeof(struct mixed_outputs)), EFAULT);
	close(fd);
	check("other sizes and bad addresses are errors", wrong);
}

/* As many turns as eight bytes can count, and a signal that nobody can catch. */
static void killed(void)
{
	static struct kept_inputs in;
	struct kept_outputs out;
	int fd = open("/dev/ingot-kept", O_RDWR);
	long wrong = 0, began;
	pid_t child;
	int status;

	in.in_turns[0] = 1;
	wrong += write(fd, &in, sizeof(in)) != sizeof(in);
	child = fork();
	if (!child) {
		in.in_turns[0] = 1L << 62;
		_exit(write(fd, &in, sizeof(in)) == sizeof(in));
	}
	usleep(300000);
	wrong += waitpid(child, &status, WNOHANG) != 0;
	began = microseconds();
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	printf("user: killed after %ld us\n", microseconds() - began);
	wrong += !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL;
	wrong += fails(read(fd, &out, sizeof(out)), ENODATA);
	wrong += write(fd, &in, sizeof(in)) != sizeof(in);
	wrong += read(fd, &out, sizeof(out)) != sizeof(out);
	wrong += out.out_told[0] != 2; /* the run that did not end does not count */
	close(fd);
	check("a killed run leaves the state as it was", wrong);
}

static long number_in(const char *path)
{
	char text[64] = "";
	int fd = open(path, O_RDONLY);

	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		return -1;
	close(fd);
	return atol(text);
}

/* A child in the group opens as often as it may. */
static int opens(int count)
{
	pid_t child = fork();
	int status, i;

	if (!child) {
		struct rlimit files = { count + 100, count + 100 };

		setrlimit(RLIMIT_NOFILE, &files);
		put(GROUP "/cgroup.procs", "0");
		for (i = 0; i < count; i++)
			if (open("/dev/ingot-mixed", O_RDWR) < 0)
				_exit(errno == ENOMEM ? 2 : 3);
		_exit(number_in(GROUP "/memory.current") / count >= (long)sizeof(struct mixed_inputs) ? 0 : 1);
	}
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void accounted(void)
{
	char limit[32];
	int ended;

	mkdir("/group", 0755);
	if (mount("none", "/group", "cgroup2", 0, NULL))
		check("cgroup2", errno);
	put("/group/cgroup.subtree_control", "+memory");
	mkdir(GROUP, 0755);
	check("memory is its group's", opens(OPENED));
	snprintf(limit, sizeof(limit), "%ld", LIMIT);
	put(GROUP "/memory.max", limit);
	ended = opens(20 * OPENED);
	check("no more than its group has", ended != 2 && ended != -SIGKILL);
}

int main(void)
{
	nothing_of_others();
	sizes();
	killed();
	accounted();
	return 0;
}
