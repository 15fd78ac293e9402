#include "reaper/throttle.h"

#include <errno.h>
#include <stdatomic.h>

#include "base/attr.h"
#include "base/config.h"
#include "base/os.h"
#include "reaper/bell.h"

#define REST_FACTOR  4                 /* a wait that was of no use is followed by so many times its length without one */
#define LEAP_REST_NS MT_NS_PER_MS      /* at least, after a leap */
#define LOOKS_WAITED 2                 /* the first may have begun before the growth was told */

static _Atomic int64_t grown_bytes;     /* since the look; counter, no ordering */
static _Atomic int64_t ring_at_bytes;   /* 0: nobody is counted; no ordering */
static _Atomic int64_t stop_at_bytes;
static _Atomic int64_t leap_at_bytes;
static _Atomic uint64_t rest_until_ns;  /* no ordering */
static _Atomic uint64_t leaps_rest_ns;  /* until when leaps rest, too; no ordering */
static _Atomic uint32_t looks;          /* futex: one more when who waits may go on. release/acquire */
static _Atomic uint32_t given_up_looks; /* the value of looks that somebody has waited for in vain, and one; no ordering */
static _Atomic uint32_t waiters;        /* seq_cst with looks: either who waits sees the look, or he is seen and woken */
static _Atomic bool is_useless;         /* the last look was; written before the release that ends the wait for it */
static _Atomic uint64_t waits_count;    /* counters, no ordering */
static _Atomic uint64_t waits_ns;
static MT_TLS bool is_exempt;

/* What was freed makes no room for more than has been counted: its pages stay, and the next growth may have no use for them.
 * Two threads at once may count some bytes more than there are; a look puts that right. */
static void take_off(uint64_t bytes)
{
	int64_t grown = atomic_fetch_sub_explicit(&grown_bytes, (int64_t)bytes, memory_order_relaxed) - (int64_t)bytes;

	if (grown < 0)
		atomic_fetch_sub_explicit(&grown_bytes, grown, memory_order_relaxed);
}

bool mt_throttle_note(uint64_t allocated_bytes, uint64_t freed_bytes)
{
	int64_t more = (int64_t)allocated_bytes;
	int64_t ring_at = atomic_load_explicit(&ring_at_bytes, memory_order_relaxed);

	if (!ring_at)
		return false;
	if (freed_bytes)
		take_off(freed_bytes);
	return atomic_fetch_add_explicit(&grown_bytes, more, memory_order_relaxed) + more >= ring_at;
}

static bool has_grown(_Atomic int64_t *by_bytes)
{
	return atomic_load_explicit(&grown_bytes, memory_order_relaxed) >= atomic_load_explicit(by_bytes, memory_order_relaxed);
}

static bool is_given_up(uint32_t seen)
{
	return atomic_load_explicit(&given_up_looks, memory_order_relaxed) == seen + 1;
}

/* Only ever longer: several have waited, and the reaper has its own reasons. */
static void rest(_Atomic uint64_t *until_ns, uint64_t end_ns)
{
	uint64_t seen = atomic_load_explicit(until_ns, memory_order_relaxed);

	while (seen < end_ns &&
	       !atomic_compare_exchange_weak_explicit(until_ns, &seen, end_ns, memory_order_relaxed, memory_order_relaxed))
		;
}

static bool is_resting(bool leaps, uint64_t now_ns)
{
	return now_ns < atomic_load_explicit(leaps ? &leaps_rest_ns : &rest_until_ns, memory_order_relaxed);
}

static void note_wait(uint64_t waited_ns, bool leaps, bool in_vain)
{
	uint64_t now = mt_os_now_ns();
	uint64_t rest_ns = waited_ns * REST_FACTOR;

	if (in_vain || atomic_load_explicit(&is_useless, memory_order_relaxed)) {
		rest(&rest_until_ns, now + rest_ns);
		if (leaps)
			rest(&leaps_rest_ns, now + (rest_ns > LEAP_REST_NS ? rest_ns : LEAP_REST_NS));
	}
	atomic_fetch_add_explicit(&waits_count, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&waits_ns, waited_ns, memory_order_relaxed);
}

/* One that is over, and has not seen what was told after it began, is not the look that is waited for. */
static bool is_look_to_come(uint32_t *seen, uint32_t first)
{
	uint32_t made = atomic_load(&looks);

	if (made != *seen && made - first < LOOKS_WAITED && has_grown(&stop_at_bytes))
		*seen = made;
	return made == *seen;
}

/* The patience once, and nobody waits for that look again: a reaper that is stopped, or that waits for this very thread or for
 * Python, ends nobody's progress. */
static void wait_for_look(uint32_t seen, bool leaps, uint64_t began_ns)
{
	uint64_t until = began_ns + mt_config()->pressure_wait_ms * MT_NS_PER_MS;
	uint64_t now = began_ns;
	uint32_t first = seen;
	bool in_vain;

	atomic_fetch_add(&waiters, 1);
	while (is_look_to_come(&seen, first) && now < until && !is_given_up(seen)) {
		(void)mt_os_futex_wait(&looks, seen, until - now, MT_FUTEX_PRIVATE);
		now = mt_os_now_ns();
	}
	atomic_fetch_sub(&waiters, 1);
	in_vain = atomic_load(&looks) == seen;
	if (in_vain)
		atomic_store_explicit(&given_up_looks, seen + 1, memory_order_relaxed);
	if (now > began_ns)
		note_wait(now - began_ns, leaps, in_vain);
}

MT_COLD void mt_throttle_heed(void)
{
	uint32_t seen = atomic_load_explicit(&looks, memory_order_acquire);
	bool may_wait = !is_exempt && mt_config()->pressure_wait_ms;
	bool waits = may_wait && has_grown(&stop_at_bytes); /* before the ring: a look that it brings begins to count anew */
	bool leaps = may_wait && has_grown(&leap_at_bytes);
	int kept = errno;
	uint64_t now = mt_os_now_ns();

	if (!is_resting(leaps, now)) {
		mt_bell_ring(MT_BELL_GROWTH);
		if (waits && !is_given_up(seen))
			wait_for_look(seen, leaps, now);
	}
	errno = kept;
}

void mt_throttle_exempt(void)
{
	is_exempt = true;
}

bool mt_throttle_has_rung(void)
{
	int64_t ring_at = atomic_load_explicit(&ring_at_bytes, memory_order_relaxed);

	return ring_at && atomic_load_explicit(&grown_bytes, memory_order_relaxed) >= ring_at;
}

uint64_t mt_throttle_begin(void)
{
	int64_t grown = atomic_exchange_explicit(&grown_bytes, 0, memory_order_relaxed);

	return grown > 0 ? (uint64_t)grown : 0;
}

static int64_t at_least_a_step(uint64_t bytes)
{
	if (bytes < MT_THROTTLE_STEP_BYTES)
		return (int64_t)MT_THROTTLE_STEP_BYTES;
	return bytes < INT64_MAX ? (int64_t)bytes : INT64_MAX;
}

void mt_throttle_set(uint64_t ring_bytes, uint64_t stop_bytes, uint64_t leap_bytes)
{
	atomic_store_explicit(&leap_at_bytes, at_least_a_step(leap_bytes), memory_order_relaxed);
	atomic_store_explicit(&stop_at_bytes, at_least_a_step(stop_bytes), memory_order_relaxed);
	atomic_store_explicit(&ring_at_bytes, at_least_a_step(ring_bytes), memory_order_relaxed);
}

void mt_throttle_off(void)
{
	atomic_store_explicit(&ring_at_bytes, 0, memory_order_relaxed);
	(void)mt_throttle_begin();
	mt_throttle_watch();
}

void mt_throttle_rest(uint64_t least_ns)
{
	atomic_store_explicit(&is_useless, true, memory_order_relaxed);
	if (least_ns)
		rest(&rest_until_ns, mt_os_now_ns() + least_ns);
}

void mt_throttle_watch(void)
{
	atomic_store_explicit(&is_useless, false, memory_order_relaxed);
	atomic_store_explicit(&rest_until_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&leaps_rest_ns, 0, memory_order_relaxed);
}

void mt_throttle_release(void)
{
	atomic_fetch_add(&looks, 1);
	if (atomic_load(&waiters))
		(void)mt_os_futex_wake(&looks, INT32_MAX, MT_FUTEX_PRIVATE);
}

void mt_throttle_read(uint64_t *out_count, uint64_t *out_ns)
{
	*out_count = atomic_load_explicit(&waits_count, memory_order_relaxed);
	*out_ns = atomic_load_explicit(&waits_ns, memory_order_relaxed);
}

void mt_throttle_fork_child(void)
{
	mt_throttle_off();
	atomic_store_explicit(&waiters, 0, memory_order_relaxed);
	atomic_store_explicit(&given_up_looks, 0, memory_order_relaxed);
	atomic_store_explicit(&waits_count, 0, memory_order_relaxed);
	atomic_store_explicit(&waits_ns, 0, memory_order_relaxed);
}
