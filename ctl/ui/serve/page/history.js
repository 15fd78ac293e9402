// history.js -- keeps a short history of each process for the sparkline, and values that only its full figures have (last
// cleanup, budget). Bounded by the number of processes, and by MOST_POINTS for each.

const SPAN_MS = 900000;
const STEP_MS = 10000;
const MOST_POINTS = SPAN_MS / STEP_MS;
const STALE_MS = 60000;

export class Memory {
	#of = new Map();

	// Adds a point for each process of the list, and removes ended ones.
	look(processes, now) {
		const here = new Set(processes.map((one) => one.pid));

		for (const pid of this.#of.keys())
			if (!here.has(pid))
				this.#of.delete(pid);
		for (const one of processes) {
			const kept = this.#of.get(one.pid) ?? {points: [], summary: null, readAt: -Infinity};

			this.#of.set(one.pid, kept);
			add(kept.points, now, one.rss_bytes);
		}
	}

	// The full figures of one: its ring reaches further back than this page has been open.
	learn(detail, now) {
		const kept = this.#of.get(detail.pid);

		if (!kept)
			return;
		if (kept.summary === null) {
			const recent = kept.points;

			kept.points = [];
			for (const sample of detail.samples)
				add(kept.points, sample.time_ns / 1e6, sample.rss_bytes);
			for (const point of recent)
				add(kept.points, point.time, point.value);
		}
		kept.summary = summarise(detail);
		kept.readAt = now;
	}

	of(pid) {
		return this.#of.get(pid);
	}

	// The one whose full figures are oldest, if they are too old, or it has cleaned up since.
	next(processes, now) {
		const waiting = processes.filter((one) => {
			const kept = this.#of.get(one.pid);

			return one.state === "awake" && (now - kept.readAt > STALE_MS ||
				(kept.summary && one.records_count > kept.summary.recordsCount));
		});
		return waiting.sort((a, b) => this.#of.get(a.pid).readAt - this.#of.get(b.pid).readAt)[0];
	}

	// A process that cannot be read is not requested again at once.
	postpone(pid, now) {
		const kept = this.#of.get(pid);

		if (kept)
			kept.readAt = now;
	}
}

// The last point is the current value. It is kept when it is a step after the one before it.
function add(points, time, value) {
	const before = points.at(-2);

	if (before && points.at(-1).time - before.time < STEP_MS)
		points.pop();
	if (!points.length || time > points.at(-1).time)
		points.push({time, value});
	while (points.length > MOST_POINTS || (points.length && points[0].time < time - SPAN_MS))
		points.shift();
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
