// overview.js -- the chart of all processes, stacked: the RSS of the largest ones, and of all others in one.
import {Chart} from "./chart.js";
import {byId} from "./dom.js";

const LINES = 8;     // processes with a line of their own
const COLUMNS = 400; // points of a line
const OTHERS = "others";

export class Overview {
	#chart;
	#memory;
	#now = 0;
	#slots = Array(LINES).fill(null); // who has which colour, as long as it is among the largest

	constructor(memory, chosen) {
		this.#memory = memory;
		this.#chart = new Chart(byId("overview-chart"), {title: "All processes, RSS", stacked: true, file: () => "mtshim-processes",
			changed: () => this.draw(), chosen: (key) => { if (typeof key === "number") chosen(key); }});
	}

	update(now) {
		this.#now = now;
		this.draw();
	}

	draw() {
		const all = this.#memory.all().filter((one) => one.points.length);

		byId("overview").hidden = !all.length;
		if (!all.length)
			return;
		const first = all.reduce((least, one) => Math.min(least, one.points[0].time), this.#now);
		const [from, to] = this.#chart.window(first, this.#now);
		const times = timesOf(from, to);
		const lines = all.map((one) => ({one, figures: figuresOf(one, times)}));
		const shown = this.#choose(lines);
		const rest = lines.filter((line) => !shown.includes(line));

		const series = shown.map((line) => ({key: line.one.ended ? `${line.one.pid} ended` : line.one.pid,
			label: `${line.one.pid} ${line.one.name}${line.one.ended ? ", ended" : ""}`, colour: "line" + (this.#slots.indexOf(line.one) + 1)}));

		if (rest.length)
			series.push({key: OTHERS, label: `${rest.length} ${OTHERS}`, colour: "line-others"});
		this.#chart.update({series, now: to, rows: times.map((time, i) => [time, ...shown.map((line) => line.figures[i]),
			...(rest.length ? [rest.reduce((sum, line) => sum + line.figures[i], 0)] : [])])});
	}

	// The largest ones, in the order of their colours, which stay.
	#choose(lines) {
		const largest = lines.map((line) => ({...line, most: Math.max(...line.figures)}))
			.sort((a, b) => b.most - a.most).slice(0, LINES).map((line) => line.one);

		this.#slots = this.#slots.map((one) => (largest.includes(one) ? one : null));
		for (const one of largest)
			if (!this.#slots.includes(one))
				this.#slots[this.#slots.indexOf(null)] = one;
		return this.#slots.filter((one) => one !== null).map((one) => lines.find((line) => line.one === one));
	}
}

// Round times, so that a line does not tremble as time goes on, and the last one.
function timesOf(from, to) {
	const step = Math.max(2000, Math.ceil((to - from) / COLUMNS / 1000) * 1000);
	const times = [];

	for (let time = Math.ceil(from / step) * step; time < to; time += step)
		times.push(time);
	return [...times, to];
}

// The figure at each time: the last one known; none before the first, nor after the end of the process.
function figuresOf({points, ended}, times) {
	let at = -1;

	return times.map((time) => {
		while (at + 1 < points.length && points[at + 1].time <= time)
			at++;
		return at < 0 || (ended !== null && time > ended) ? 0 : points[at].value;
	});
}
