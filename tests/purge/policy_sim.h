/* policy_sim.h -- a program, its allocator and the worker's clock, as far as worker/policy can see
 * them; for test_policy*.c. The heap keeps what is freed (no decay), takes from that first, and
 * faults for the rest, page by page, while time passes. Beside it stands the same heap never
 * purged: what the purged one faults more is what purging has cost the program, found without
 * believing the policy's own count. */
#ifndef MT_POLICY_SIM_H
#define MT_POLICY_SIM_H

#include <criterion/criterion.h>
#include <string.h>

#include "sys/os.h"
#include "purge/policy.h"
#include "core/core_internal.h"

#define MIB(n)      ((uint64_t)(n)*MT_MIB)
#define MS(n)       ((uint64_t)(n)*MT_NS_PER_MS)
#define SECONDS(n)  ((uint64_t)(n)*MT_NS_PER_S)
#define PAGE        4096ull
#define FILE_BYTES  MIB(24) /* resident, but no heap */
#define OTHER_BYTES MIB(4)  /* anonymous, but no heap */
/* a purge costs a sixth of the faults that follow it: measured, see policy.c */
#define PURGE_SHARE 6

struct sim {
	struct mt_policy policy;
	struct mt_config cfg;
	uint64_t now_ns, tick_at_ns;
	uint64_t live_bytes, dirty_bytes, allocated_bytes, faults_count, system_ns, cpu_ns;
	uint64_t threads; /* that run, and fault, at the same time */
	uint64_t running; /* of them now */
	uint64_t gpu_live_bytes;
	uint64_t unpurged_bytes; /* resident heap of the twin that is never purged */
	uint64_t fault_ns;       /* what a fault really costs */
	uint64_t stuck_bytes;    /* dirty, but not returned by any purge */
	uint64_t jitter;         /* state of the tick's unpunctuality; 0: punctual */
	/* what happened */
	uint64_t purge_at_ns, purge_bytes; /* the last one */
	enum mt_reason reason;
	uint64_t purges_count, rounds_count, ticks_count, asked_count, usage_count;
	/* purges and the faults they caused, in wall time; one purge with its faults */
	uint64_t cost_ns, dearest_ns;
	struct mt_plan plan;
};

static inline void sim_start(struct sim *sim)
{
	memset(sim, 0, sizeof(*sim));
	mt_config_defaults(&sim->cfg);
	/* what the tests' sizes and times are made for */
	sim->cfg.tick_ms = 100;
	sim->cfg.idle_ms = 500;
	sim->cfg.slack_mb = 64;
	sim->now_ns = SECONDS(1000);
	sim->tick_at_ns = sim->now_ns;
	sim->fault_ns = 1600;
	sim->threads = 1;
	mt_policy_start(&sim->policy, PAGE, sim->now_ns);
}

static inline struct mt_snapshot sim_look(const struct sim *sim)
{
	uint64_t heap = sim->live_bytes + sim->dirty_bytes;

	return (struct mt_snapshot){
		.now_ns = sim->now_ns,
		.rss_bytes = FILE_BYTES + OTHER_BYTES + heap,
		.anon_bytes = OTHER_BYTES + heap,
		.live_bytes = sim->live_bytes,
		.gpu_live_bytes = sim->gpu_live_bytes,
		.allocated_bytes = sim->allocated_bytes,
		.faults_count = sim->faults_count,
		.system_ns = sim->system_ns,
		.cpu_ns = sim->cpu_ns,
	};
}

static inline uint64_t sim_rss(const struct sim *sim)
{
	return sim_look(sim).rss_bytes;
}

/* The heap gives back what is dirty; while that takes its time, nothing else happens. */
static inline void sim_purge(struct sim *sim, bool charged)
{
	uint64_t stuck = sim->dirty_bytes < sim->stuck_bytes ? sim->dirty_bytes : sim->stuck_bytes;
	uint64_t bytes = sim->dirty_bytes - stuck;
	uint64_t cost = bytes / PAGE * sim->fault_ns / PURGE_SHARE;
	struct mt_snapshot after;

	sim->dirty_bytes = stuck;
	sim->now_ns += cost;
	sim->system_ns += cost;
	sim->cpu_ns += cost;
	if (charged)
		sim->cost_ns += cost;
	if (cost * (PURGE_SHARE + 1) > sim->dearest_ns)
		sim->dearest_ns = cost * (PURGE_SHARE + 1);
	sim->purge_at_ns = sim->now_ns;
	sim->purge_bytes = bytes;
	after = sim_look(sim);
	after.usage_known = true;
	mt_policy_note_purge(&sim->policy, &after, bytes, cost, charged);
}

static inline void sim_tick(struct sim *sim)
{
	struct mt_snapshot now = sim_look(sim);

	sim->ticks_count++;
	now.usage_known = mt_policy_needs_usage(&sim->policy, &now);
	sim->usage_count += now.usage_known;
	if (!now.usage_known)
		now.faults_count = now.system_ns = now.cpu_ns = 0;
	if (mt_policy_needs_dirty(&sim->policy, &now, &sim->cfg)) {
		now.dirty_known = true;
		now.dirty_bytes = sim->dirty_bytes;
		sim->asked_count++;
	}
	sim->plan = mt_policy_decide(&sim->policy, &now, &sim->cfg);
	sim->rounds_count += sim->plan.round;
	if (sim->plan.purge) {
		sim->reason = sim->plan.reason;
		sim->purges_count++;
		sim_purge(sim, true);
	}
	sim->tick_at_ns = sim->now_ns + sim->plan.next_tick_ns;
	if (sim->jitter) {
		sim->jitter = sim->jitter * 6364136223846793005ull + 1442695040888963407ull;
		/* up to a tenth late */
		sim->tick_at_ns += sim->plan.next_tick_ns * (sim->jitter >> 56) / 2560;
	}
}

/* Time passes; the worker ticks when it is due. */
static inline void sim_pass(struct sim *sim, uint64_t span_ns)
{
	uint64_t end = sim->now_ns + span_ns;

	while (sim->tick_at_ns <= end) {
		uint64_t step = sim->tick_at_ns > sim->now_ns ? sim->tick_at_ns - sim->now_ns : 0;

		sim->now_ns += step;
		sim->cpu_ns += step * sim->running;
		sim_tick(sim);
	}
	if (sim->now_ns < end) {
		sim->cpu_ns += (end - sim->now_ns) * sim->running;
		sim->now_ns = end;
	}
}

/* A piece so small that no tick falls into it. */
static inline void sim_take(struct sim *sim, uint64_t bytes)
{
	uint64_t fresh = bytes > sim->dirty_bytes ? bytes - sim->dirty_bytes : 0;
	uint64_t twin = 0;

	sim->dirty_bytes -= bytes - fresh;
	sim->live_bytes += bytes;
	sim->allocated_bytes += bytes;
	if (sim->live_bytes > sim->unpurged_bytes) {
		twin = sim->live_bytes - sim->unpurged_bytes;
		sim->unpurged_bytes = sim->live_bytes;
	}
	sim->faults_count += fresh / PAGE;
	sim->system_ns += fresh / PAGE * sim->fault_ns;
	sim->cost_ns +=
		(fresh - (twin < fresh ? twin : fresh)) / PAGE * sim->fault_ns / sim->threads;
	sim->running = sim->threads;
	sim_pass(sim, fresh / PAGE * sim->fault_ns / sim->threads);
	sim->running = 0;
}

static inline void sim_allocate(struct sim *sim, uint64_t bytes)
{
	const uint64_t piece = MIB(16); /* 7 ms of faults */

	for (; bytes > piece; bytes -= piece)
		sim_take(sim, piece);
	sim_take(sim, bytes);
}

static inline void sim_free(struct sim *sim, uint64_t bytes)
{
	sim->live_bytes -= bytes;
	sim->dirty_bytes += bytes;
}

/* One step of a program: it takes so much, holds it, drops it, and rests. */
struct sim_step {
	uint64_t bytes, hold_ns, rest_ns;
};

static inline void sim_play(struct sim *sim, const struct sim_step *step)
{
	sim_allocate(sim, step->bytes);
	sim_pass(sim, step->hold_ns);
	sim_free(sim, step->bytes);
	sim_pass(sim, step->rest_ns);
}

#endif
