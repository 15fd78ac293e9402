/* fuzz_pool.c -- sequences of calls of the device pool, over the scripted driver of the unit tests,
 * against a model of what it promises: nothing that is live overlaps; a block is as large as was
 * asked, on the right device, and comes out again only when all work is done that was enqueued
 * anywhere before its free; its figures are those of the driver's ledger; no call is made that a
 * driver would refuse or that would spoil a capture; at the end nothing is left.
 *
 * Four bytes are a call: what, and three numbers; see carry_out. One thread:
 * tests/stress/pool_model.h has many. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/os.h"
#include "fuzz.h"
#include "pool_driver.h"
#include "pool_settings.h"

#define CALL     4u
#define CONTEXTS 4
#define PLACES   48u
#define FREED    256u
/* a device that is asked so often has gone on meanwhile: who waits for it does not wait without
 * effect */
#define PATIENCE 4

struct live {
	uint64_t base; /* 0: none */
	size_t bytes;
	int context;
};

/* A block when it was freed: the work that had been enqueued then. */
struct freed {
	uint64_t base;
	uint64_t issued[CONTEXTS];
	unsigned init[CONTEXTS];
};

static struct mt_driver driver;
static struct live live[PLACES];
static struct freed freed[FREED];
static unsigned freed_count, lives[CONTEXTS], asked_in_vain;
static uint64_t later_ns;
/* calls of the driver were made to fail: its ledger has what nobody could give back */
static bool has_failed;
static int capturing; /* the context in which a capture is open; -1: none is */

#define STREAM ((struct CUstream_st *)4096)

static void go_on(enum fake_call call)
{
	if (call != FAKE_cuEventQuery || ++asked_in_vain < PATIENCE)
		return;
	asked_in_vain = 0;
	for (int i = 0; i < CONTEXTS; i++)
		fake_finish(&fake.contexts[i]);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	driver = fake_driver();
	mt_pool_start(&driver, NULL);
	fake.on_call = go_on;
	return 0;
}

/* ---- the model ---- */

static struct CUctx_st *context_at(int number)
{
	return &fake.contexts[number];
}

static void note_free(uint64_t base)
{
	struct freed *to = &freed[freed_count++ % FREED];

	to->base = base;
	for (int i = 0; i < CONTEXTS; i++) {
		to->issued[i] = context_at(i)->issued;
		to->init[i] = lives[i];
	}
}

/* Work of another device uses the block only by peer access or a copy, of which there is none here.
 */
static void expect_fenced(uint64_t base, int device)
{
	for (unsigned i = 0; i < FREED; i++) {
		if (freed[i].base != base)
			continue;
		for (int context = 0; context < CONTEXTS; context++)
			fuzz_expect(context_at(context)->device != device ||
					    freed[i].init[context] != lives[context] ||
					    context_at(context)->done >= freed[i].issued[context],
				    "0x%llx is handed out while context %d is at %llu of %llu",
				    (unsigned long long)base, context,
				    (unsigned long long)context_at(context)->done,
				    (unsigned long long)freed[i].issued[context]);
		freed[i].base = 0;
	}
}

static void expect_apart(uint64_t base, size_t bytes)
{
	for (unsigned i = 0; i < PLACES; i++)
		fuzz_expect(!live[i].base || base + bytes <= live[i].base ||
				    live[i].base + live[i].bytes <= base,
			    "0x%llx of %zu lies over 0x%llx of %zu", (unsigned long long)base,
			    bytes, (unsigned long long)live[i].base, live[i].bytes);
}

/* The driver has made it, there and as large. */
static void expect_room(uint64_t base, size_t bytes, int device)
{
	for (unsigned i = 0; i < fake.highest_block; i++)
		if (fake.blocks[i].base == base) {
			fuzz_expect(fake.blocks[i].bytes >= bytes &&
					    fake.blocks[i].context->device == device,
				    "%zu bytes for %zu, device %d for %d", fake.blocks[i].bytes,
				    bytes, fake.blocks[i].context->device, device);
			return;
		}
	fuzz_expect(false, "0x%llx is none of the driver's", (unsigned long long)base);
}

static void expect_figures(void)
{
	uint64_t reserved = 0, requested = 0, blocks = 0, wanted = 0, count = 0;
	struct mt_pool_usage usage;

	for (int device = 0; device < 2; device++) {
		mt_pool_usage(device, &usage);
		reserved += usage.reserved_bytes;
		requested += usage.requested_bytes;
		blocks += usage.blocks_count;
		fuzz_expect(usage.allocated_bytes + usage.pending_bytes + usage.idle_bytes ==
				    usage.reserved_bytes,
			    "device %d: %llu", device, (unsigned long long)usage.reserved_bytes);
		fuzz_expect(usage.reserved_bytes <= usage.reserved_peak_bytes &&
				    usage.allocated_bytes <= usage.allocated_peak_bytes,
			    "device %d", device);
		fuzz_expect(!(usage.idle_bytes >> 60), "device %d", device);
		fuzz_expect(usage.hit_count <= usage.alloc_count, "device %d", device);
	}
	for (unsigned i = 0; i < PLACES; i++) {
		wanted += live[i].base ? live[i].bytes : 0;
		count += live[i].base != 0;
	}
	fuzz_expect(requested == wanted && blocks == count,
		    "%llu of %llu bytes, %llu of %llu blocks", (unsigned long long)requested,
		    (unsigned long long)wanted, (unsigned long long)blocks,
		    (unsigned long long)count);
	fuzz_expect(has_failed || reserved == fake.used, "%llu reserved, %llu in the ledger",
		    (unsigned long long)reserved, (unsigned long long)fake.used);
	fuzz_expect(atomic_load(&fake.wrongs) == 0, "%s", "the driver was called wrongly");
}

/* ---- calls ---- */

static void allocate(struct live *place, int context, size_t bytes)
{
	uint64_t base = 0;
	int result;

	if (place->base)
		return;
	fake_make_current(context_at(context));
	result = mt_pool_alloc(&base, bytes);
	if (result != MT_CU_SUCCESS) {
		fuzz_expect(result == MT_CU_OUT_OF_MEMORY || has_failed || !bytes,
			    "answer %d for %zu bytes", result, bytes);
		return;
	}
	expect_apart(base, bytes);
	expect_room(base, bytes, context_at(context)->device);
	expect_fenced(base, context_at(context)->device);
	*place = (struct live){base, bytes, context};
}

static void release(struct live *place, int current)
{
	int result;

	if (!place->base)
		return;
	fake_make_current(current < CONTEXTS ? context_at(current) : NULL);
	note_free(place->base);
	result = fake_free(place->base);
	fake_make_current(context_at(0));
	if (result == MT_CU_SUCCESS) {
		*place = (struct live){0};
		return;
	}
	fuzz_expect(has_failed, "answer %d to a free", result);
	freed[--freed_count % FREED].base = 0;
}

static bool is_live(uint64_t base)
{
	for (unsigned i = 0; i < PLACES; i++)
		if (live[i].base == base)
			return true;
	return false;
}

/* What was freed before is freed again: it may be unknown by now, or is refused. */
static void free_again(unsigned which)
{
	const struct freed *one = &freed[which % FREED];
	int result = MT_CU_SUCCESS;

	if (one->base && !is_live(one->base) && mt_pool_free(one->base, &result))
		fuzz_expect(result == MT_CU_INVALID_VALUE, "answer %d to a second free", result);
}

/* Freed in another way than by cuMemFree. */
static void leave(struct live *place)
{
	fake_make_current(context_at(place->context));
	if (!place->base || !mt_pool_disown(place->base))
		return;
	has_failed |= driver.cuMemFree_v2(place->base) != MT_CU_SUCCESS;
	*place = (struct live){0};
}

static void end_capture(void)
{
	if (capturing < 0)
		return;
	atomic_store(&fake.is_capturing, false);
	fake_make_current(context_at(capturing));
	mt_capture_after_end(&driver, STREAM, false, MT_CU_SUCCESS);
	capturing = -1;
}

static void begin_capture(int context)
{
	if (capturing >= 0)
		return;
	fake_make_current(context_at(context));
	mt_capture_gate_close();
	atomic_store(&fake.is_capturing, true);
	mt_capture_after_begin(&driver, STREAM, false, MT_CU_SUCCESS);
	capturing = context;
}

static void end_context(int number)
{
	struct CUctx_st *context = context_at(number);

	if (capturing == number) {
		atomic_store(&fake.is_capturing, false);
		mt_capture_forget_context(context);
		capturing = -1;
	}
	mt_capture_gate_close();
	mt_context_ended(context, MT_ANY_INIT);
	fake_destroy(context);
	mt_capture_gate_open();
	for (unsigned i = 0; i < PLACES; i++)
		if (live[i].context == number)
			live[i] = (struct live){0};
	lives[number]++;
}

static void begin_context(int number)
{
	(void)fake_context(number, number == CONTEXTS - 1);
	mt_context_created(context_at(number), context_at(number)->device);
	fake_make_current(context_at(number));
}

static void configure(const uint8_t *numbers)
{
	char text[16];

	if (numbers[0] % 8 == 0) {
		snprintf(text, sizeof(text), "%u", (unsigned)numbers[1] << numbers[2] % 8);
		(void)mt_config_set_live("cuda_decay_ms", text);
	} else if (numbers[0] % 8 == 1) {
		snprintf(text, sizeof(text), "%u", numbers[1] % 101u);
		(void)mt_config_set_live("cuda_low_pct", text);
	}
}

/* None of them says that a context is gone: what it had enqueued would be done then. */
static void fail(const uint8_t *numbers)
{
	static const enum fake_call calls[] = {FAKE_cuMemAlloc_v2,    FAKE_cuMemFree_v2,
					       FAKE_cuEventCreate,    FAKE_cuEventQuery,
					       FAKE_cuCtxRecordEvent, FAKE_cuMemGetInfo_v2};
	static const int codes[] = {0, MT_CU_OUT_OF_MEMORY, MT_CU_NOT_SUPPORTED, 999};

	fake.fail_of = calls[numbers[0] % (sizeof(calls) / sizeof(calls[0]))];
	fake.fail_of_code = codes[numbers[1] % 4];
	has_failed |= fake.fail_of_code != 0;
}

static void look(const uint8_t *numbers)
{
	const struct live *place = &live[numbers[0] % PLACES];
	uint64_t free_bytes, total_bytes;
	bool is_cached;
	size_t bytes;

	if (place->base)
		fuzz_expect(mt_pool_range(place->base, &bytes, &is_cached) &&
				    bytes == place->bytes && !is_cached,
			    "%zu bytes of %zu", bytes, place->bytes);
	else if (mt_pool_range(freed[numbers[0]].base, &bytes, &is_cached))
		fuzz_expect(is_cached || is_live(freed[numbers[0]].base), "0x%llx",
			    (unsigned long long)freed[numbers[0]].base);
	if (mt_pool_read_memory(numbers[1] % 2, &free_bytes, &total_bytes))
		fuzz_expect(free_bytes <= total_bytes, "%llu free of %llu",
			    (unsigned long long)free_bytes, (unsigned long long)total_bytes);
	(void)mt_pool_cached_bytes(numbers[1] % 3);
	(void)mt_pool_mode_of(numbers[1] % 3);
}

static void pass_time(const uint8_t *numbers)
{
	uint64_t next_ms = 0;

	later_ns += (uint64_t)numbers[0] << numbers[1] % 28;
	(void)mt_pool_tick(mt_os_now_ns() + later_ns, numbers[2] % 32, &next_ms);
}

static size_t size_of(const uint8_t *numbers)
{
	static const size_t usual[] = {1,     512,     513,           4096,
				       65536, 1 << 20, (1 << 20) + 1, (3 << 20) + 70000};

	switch (numbers[0] % 3) {
	case 0:
		return usual[numbers[1] % 8];
	/* many share a bin */
	case 1:
		return ((size_t)(numbers[1] % 4 + 1) << 20) + numbers[1] / 4 * (size_t)512;
	default:
		return (size_t)numbers[1] << numbers[0] % 25;
	}
}

static void work(const uint8_t *numbers, bool all)
{
	struct CUctx_st *context = context_at(numbers[0] % CONTEXTS);
	uint64_t done = context->done + numbers[1] % 4 + 1;

	if (all || done > context->issued)
		done = context->issued;
	context->done = done;
}

static void make_room(int device)
{
	struct mt_pool_shortage shortage;

	if (!mt_pool_shortage_begin(&shortage, device, 0))
		return;
	while (mt_pool_shortage_next(&shortage))
		;
	mt_pool_shortage_end(&shortage);
}

static void carry_out(const uint8_t *bytes)
{
	static const char all[] = "mmmmmfffffwwwddDtTxrgMocekpsCF2RnI";
	char what = bytes[0] && strchr(all, bytes[0]) ? (char)bytes[0]
						      : all[bytes[0] % (sizeof(all) - 1)];
	const uint8_t *numbers = bytes + 1;
	struct live *place = &live[numbers[0] % PLACES];

	switch (what) {
	case 'm':
		allocate(place, numbers[0] / PLACES % CONTEXTS, size_of(numbers + 1));
		break;
	case 'f':
		release(place, numbers[1] % (CONTEXTS + 1));
		break;
	case '2':
		free_again(numbers[0]);
		break;
	case 'w':
		fake_issue(context_at(numbers[0] % CONTEXTS));
		break;
	case 'd':
		work(numbers, false);
		break;
	case 'D':
		work(numbers, true);
		break;
	case 't':
		pass_time(numbers);
		break;
	case 'T':
		(void)mt_pool_trim(MT_ANY_DEVICE);
		break;
	case 'x':
		mt_pool_mark_non_recyclable(place->base);
		break;
	case 'r':
		leave(place);
		break;
	case 'g':
		look(numbers);
		break;
	case 'M':
		make_room(-1);
		break;
	case 'I':
		make_room((int)(numbers[0] % 2));
		break;
	case 'o':
		mt_add_relaxed(&mt_pool_device((int)(numbers[1] % 3))->ooms, 1);
		break;
	case 'c':
		begin_capture(numbers[0] % CONTEXTS);
		break;
	case 'e':
		end_capture();
		break;
	case 'k':
		end_context(numbers[0] % CONTEXTS);
		begin_context(numbers[0] % CONTEXTS);
		break;
	case 'p':
		mt_context_register();
		break;
	case 's':
		configure(numbers);
		break;
	case 'C':
		fake.capacity = fake.used + ((uint64_t)numbers[0] << numbers[1] % 36);
		break;
	case 'F':
		fail(numbers);
		break;
	case 'R':
		mt_pool_reset_peak();
		break;
	default:
		mt_pool_update_mode();
		break;
	}
	expect_figures();
}

/* ---- one input ---- */

static void begin(void)
{
	memset(live, 0, sizeof(live));
	memset(freed, 0, sizeof(freed));
	freed_count = asked_in_vain = 0;
	later_ns = 0;
	has_failed = false;
	capturing = -1;
	fake.capacity = 1ull << 40;
	fake.fail_of_code = 0;
	pool_settings("5000", "0");
	for (int i = 0; i < CONTEXTS; i++)
		begin_context(i);
	fake_make_current(context_at(0));
}

static void end(void)
{
	fake.fail_of_code = 0;
	end_capture();
	for (unsigned i = 0; i < PLACES; i++)
		release(&live[i], 0);
	for (int i = 0; i < CONTEXTS; i++)
		fake_finish(context_at(i));
	for (int i = 0; i < 8; i++)
		(void)mt_pool_trim(MT_ANY_DEVICE);
	expect_figures();
	fuzz_expect(has_failed || fake.used == 0, "%llu bytes are left with the driver",
		    (unsigned long long)fake.used);
	for (int i = 0; i < CONTEXTS; i++)
		end_context(i);
	fake_make_current(NULL);
	fuzz_expect(has_failed || fake_events_alive() == 0, "%u events are left",
		    fake_events_alive());
	expect_figures();
	fuzz_expect(fake.used == 0, "%llu bytes outlive their contexts",
		    (unsigned long long)fake.used);
	fake.highest_block = fake.highest_event = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	begin();
	for (size_t at = 0; at + CALL <= bytes; at += CALL)
		carry_out(data + at);
	end();
	return 0;
}
