/* shared.c -- FAKECUDA_SHARED: processes that name the same file have one device between them, as
 * far as its memory is charged. Each has a slot of the file, which nobody else writes; that of a
 * process that is gone is not counted, and taken by the next. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"

enum { SLOT_COUNT = 64 };

/* Atomics because other processes read: counters, no ordering. */
struct slot {
	_Atomic int pid;
	_Atomic uint64_t charged_bytes[FAKE_DEVICE_MAX];
};

static struct slot *slots; /* set before the second thread can ask, under fake_configure's once */
static struct slot *own;   /* under the lock */

void fake_share(const char *path)
{
	const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	void *at = MAP_FAILED;

	if (fd >= 0 && ftruncate(fd, sizeof(struct slot) * SLOT_COUNT) == 0)
		at = mmap(NULL, sizeof(struct slot) * SLOT_COUNT, PROT_READ | PROT_WRITE,
			  MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	if (at == MAP_FAILED)
		fprintf(stderr, "fakecuda: FAKECUDA_SHARED=%s cannot be used\n", path);
	else
		slots = at;
}

static bool slot_is_free(const struct slot *slot)
{
	const int pid = atomic_load(&slot->pid);

	return pid == 0 || kill(pid, 0) != 0;
}

static struct slot *take_slot(void)
{
	int i, device, pid;

	for (i = 0; i < SLOT_COUNT; i++) {
		pid = atomic_load(&slots[i].pid);
		if (!slot_is_free(&slots[i]) ||
		    !atomic_compare_exchange_strong(&slots[i].pid, &pid, (int)getpid()))
			continue;
		for (device = 0; device < FAKE_DEVICE_MAX; device++)
			atomic_store(&slots[i].charged_bytes[device], 0);
		return &slots[i];
	}
	return NULL;
}

void fake_shared_charge(int device, uint64_t charged_bytes)
{
	if (slots == NULL || (own == NULL && (own = take_slot()) == NULL))
		return;
	/* Not for a forked child, whose driver is its parent's. */
	if (atomic_load(&own->pid) == (int)getpid())
		atomic_store(&own->charged_bytes[device], charged_bytes);
}

uint64_t fake_shared_others(int device)
{
	uint64_t bytes = 0;
	int i;

	for (i = 0; slots != NULL && i < SLOT_COUNT; i++)
		if (&slots[i] != own && !slot_is_free(&slots[i]))
			bytes += atomic_load(&slots[i].charged_bytes[device]);
	return bytes;
}

void fake_unshare(void)
{
	if (own != NULL && atomic_load(&own->pid) == (int)getpid())
		atomic_store(&own->pid, 0);
}
