// history.js -- keeps a history of each process for the overview and the sparkline, and values that only its full figures have (last
// cleanup, budget). Bounded: so many points of a process, and so many ended processes.

const SPAN_MS = 900000;   // in short steps
const STEP_MS = 4000;
const LONG_MS = 21600000; // in long ones
const LONG_STEP_MS = 60000;
const ENDED_MOST = 100;
const STALE_MS = 60000;

class Points {
	#recent = [];
	#old = [];

	// The last point is the current value. It is kept when it is a step after the one before it.
	add(time, value) {
		const recent = this.#recent;
		const before = recent.at(-2);

		if (before && recent.at(-1).time - before.time < STEP_MS)
			recent.pop();
		if (!recent.length || time > recent.at(-1).time)
			recent.push({time, value});
		while (recent.length && recent[0].time < time - SPAN_MS) {
			const point = recent.shift();

			if (!this.#old.length || point.time - this.#old.at(-1).time >= LONG_STEP_MS)
				this.#old.push(point);
		}
		while (this.#old.length && this.#old[0].time < time - LONG_MS)
			this.#old.shift();
	}

	get recent() { return this.#recent; }
	get all() { return [...this.#old, ...this.#recent]; }
}

export class Memory {
	#of = new Map();
	#ended = [];

	// Adds a point for each process of the list. What is gone is kept for the overview.
	look(processes, now) {
		const here = new Set(processes.map((one) => one.pid));

		for (const [pid, kept] of this.#of)
			if (!here.has(pid)) {
				this.#of.delete(pid);
				kept.ended = now;
				this.#ended.push(kept);
			}
		this.#ended = this.#ended.filter((kept) => kept.ended > now - LONG_MS).slice(-ENDED_MOST);
		for (const one of processes) {
			const kept = this.#of.get(one.pid) ?? {pid: one.pid, points: new Points(), summary: null, readAt: -Infinity, ended: null};

			this.#of.set(one.pid, kept);
			kept.name = one.name;
			kept.points.add(now, one.rss_bytes);
		}
	}

	// The full figures of one: its ring reaches further back than this page has been open.
	learn(detail, now) {
		const kept = this.#of.get(detail.pid);

		if (!kept)
			return;
		if (kept.summary === null) {
			const recent = kept.points.all;

			kept.points = new Points();
			for (const sample of detail.samples)
				if (!recent.length || sample.time_ns / 1e6 < recent[0].time)
					kept.points.add(sample.time_ns / 1e6, sample.rss_bytes);
			for (const point of recent)
				kept.points.add(point.time, point.value);
		}
		kept.summary = summarise(detail);
		kept.readAt = now;
	}

	// What is known of a process: points of the last 15 minutes, summary.
	of(pid) {
		const kept = this.#of.get(pid);

		return kept && {points: kept.points.recent, summary: kept.summary};
	}

	// Every process that was seen: {pid, name, points, ended}. The same object each time.
	all() {
		return [...this.#of.values(), ...this.#ended].map((kept) => {
			kept.shown ??= {};
			return Object.assign(kept.shown, {pid: kept.pid, name: kept.name, points: kept.points.all, ended: kept.ended});
		});
	}

	// Those whose full figures are needed: not read yet, too old, or it has cleaned up since; the oldest first.
	next(processes, now) {
		const waiting = processes.filter((one) => {
			const kept = this.#of.get(one.pid);

			return one.state === "awake" && (now - kept.readAt > STALE_MS ||
				(kept.summary && one.records_count > kept.summary.recordsCount));
		});
		return waiting.sort((a, b) => this.#of.get(a.pid).readAt - this.#of.get(b.pid).readAt);
	}

	// A process that cannot be read is not requested again at once.
	postpone(pid, now) {
		const kept = this.#of.get(pid);

		if (kept)
			kept.readAt = now;
	}
}

// The time of cleanups and of page faults after them, and MT_BUDGET_PCT, both in %.
export function budgetOf(detail) {
	const setting = detail.settings.find((one) => one.name === "budget_pct");
	const cost = detail.purge_cost_ns + detail.refault_cost_ns;

	return {used: detail.uptime_ms > 0 ? 100 * cost / (detail.uptime_ms * 1e6) : 0, allowed: setting?.value ?? "?"};
}

function summarise(detail) {
	const last = detail.records.findLast((record) => !record.merged);

	return {
		recordsCount: detail.records_count,
		last: last ? {time: last.time_ns / 1e6, reason: last.reason,
			freed: last.rss_before_bytes - last.rss_after_bytes} : null,
		budget: budgetOf(detail),
	};
}
