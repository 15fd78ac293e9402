// chart.js -- charts of bytes over time: lines, marks of events, axes with round values, values at the pointer.
// A chart is made once; afterwards only attributes change.
import {html, setAttribute, setText, svg, sync} from "./dom.js";
import {byteTicks, bytes, clock, timeTicks} from "./format.js";

const MARGIN = {left: 66, right: 14, top: 24, bottom: 22};
const HEIGHT = 230;
const SPANS_MS = [60000, 120000, 300000, 600000, 900000]; // the last is what the ring of a process holds
const NEAR_PX = 7;

// The shapes of marks, which do not differ by colour alone.
export const MARKS = {
	freed: {label: "cleanup", path: "M-5 -4 L5 -4 L0 5 Z"},
	nothing: {label: "cleanup that found nothing", path: "M-5 -4 L5 -4 L0 5 Z"},
	round: {label: "cleanup of a round", path: "M0 -6 L6 0 L0 6 L-6 0 Z"},
	pressure: {label: "pressure", path: "M-5 -5 L5 -5 L5 5 L-5 5 Z M-1 -3 L1 -3 L1 1 L-1 1 Z M-1 2 L1 2 L1 4 L-1 4 Z"},
};

export class Chart {
	#host;
	#series;
	#samples = [];
	#marks = [];
	#since = null; // the time (ms) before which marks are not kept
	#now = 0;
	#cursor = null; // the time (ms) that is pointed at
	#scale = null;
	#parts;

	// series: [{key, name, label, stacked}]: the member of a sample, the class of its line, what it is called. The
	// stacked ones are areas, each on the one before.
	constructor(host, title, series) {
		this.#host = host;
		this.#series = series;
		this.#parts = build(title, series);
		host.append(this.#parts.heading, this.#parts.legend, this.#parts.picture, this.#parts.tip);
		this.#listen();
		new ResizeObserver(() => this.draw()).observe(host);
	}

	// samples: [{time, KEY...}] by time (ms); marks: [{time, kind, text}]; now: the right edge; since: the time before
	// which marks are not kept, null: none are missing.
	update(samples, marks, now, since = null) {
		this.#since = since;
		this.#now = Math.max(now, samples.at(-1)?.time ?? 0);
		const first = samples[0]?.time ?? this.#now;
		const span = SPANS_MS.find((one) => this.#now - first <= one) ?? SPANS_MS.at(-1);
		const from = this.#now - span;

		this.#samples = samples.filter((sample) => sample.time >= from);
		this.#marks = marks.filter((mark) => mark.time >= from && mark.time <= this.#now);
		this.#scale = {from, span};
		this.draw();
	}

	draw() {
		const width = this.#host.clientWidth;

		if (!width || !this.#scale)
			return;
		this.#measure(width);
		setAttribute(this.#parts.picture, "viewBox", `0 0 ${width} ${HEIGHT}`);
		setAttribute(this.#parts.picture, "height", HEIGHT);
		this.#drawAxes();
		this.#drawShade();
		this.#drawLines();
		this.#drawMarks();
		this.#drawLegend();
		this.#drawCursor();
	}

	#measure(width) {
		const scale = this.#scale;
		let most = 1024;

		for (const sample of this.#samples)
			for (const one of this.#series)
				most = Math.max(most, sample[one.key]);
		scale.ticks = byteTicks(most, 4);
		scale.most = scale.ticks.at(-1).value;
		scale.width = width;
		scale.right = width - MARGIN.right;
		scale.bottom = HEIGHT - MARGIN.bottom;
		scale.x = (time) => MARGIN.left + (scale.right - MARGIN.left) * (time - scale.from) / scale.span;
		scale.y = (value) => scale.bottom - (scale.bottom - MARGIN.top) * value / scale.most;
	}

	#drawAxes() {
		const {ticks, x, y, right, bottom, from, width} = this.#scale;

		sync(this.#parts.values, ticks, (tick) => tick.value, makeTick, (node, tick) => {
			place(node.firstChild, {x1: MARGIN.left, x2: right, y1: y(tick.value), y2: y(tick.value)});
			place(node.lastChild, {x: MARGIN.left - 8, y: y(tick.value) + 4});
			setText(node.lastChild, tick.text);
		});
		const times = timeTicks(from, this.#now, Math.max(2, width / 75))
			.filter((tick) => x(tick.value) < right - 20 && x(tick.value) > MARGIN.left + 10);
		sync(this.#parts.times, times, (tick) => tick.value, makeTick, (node, tick) => {
			place(node.firstChild, {x1: x(tick.value), x2: x(tick.value), y1: bottom, y2: bottom + 4});
			place(node.lastChild, {x: x(tick.value), y: bottom + 16});
			setText(node.lastChild, tick.text);
		});
	}

	// Where cleanups are not kept any more, none is not the same as none was.
	#drawShade() {
		const {x, bottom} = this.#scale;
		const end = this.#since === null ? MARGIN.left : Math.max(MARGIN.left, x(this.#since));
		const [box, text] = this.#parts.shade.children;

		setAttribute(this.#parts.shade, "visibility", end > MARGIN.left + 1 ? "visible" : "hidden");
		place(box, {x: MARGIN.left, y: MARGIN.top, width: end - MARGIN.left, height: bottom - MARGIN.top});
		place(text, {x: MARGIN.left + 6, y: MARGIN.top + 14});
		setText(text, end - MARGIN.left > 190 ? "cleanups here are not kept" : "");
	}

	#drawLines() {
		const {x, y, bottom} = this.#scale;
		const join = (points) => points.map((point) => point.join(" ")).join("L");
		let below = this.#samples.map(() => 0);

		this.#series.forEach((one, i) => {
			const values = this.#samples.map((sample, at) => sample[one.key] + (one.stacked ? below[at] : 0));
			const point = (value, at) => [x(this.#samples[at].time).toFixed(1), y(value).toFixed(1)];
			const points = values.map(point);
			const line = points.length ? "M" + join(points) : "";

			if (one.stacked) {
				setAttribute(this.#parts.lines[i], "d", points.length < 2 ? "" :
					`${line}L${join(below.map(point).reverse())}Z`);
				below = values;
				return;
			}
			setAttribute(this.#parts.lines[i], "d", line);
			if (i === 0 && this.#parts.area)
				setAttribute(this.#parts.area, "d", points.length < 2 ? "" :
					line + `L${points.at(-1)[0]} ${bottom}L${points[0][0]} ${bottom}Z`);
		});
	}

	#drawMarks() {
		const {x, bottom} = this.#scale;

		sync(this.#parts.marks, this.#marks, (mark) => mark.key, makeMark, (node, mark) => {
			const at = x(mark.time);

			setAttribute(node, "class", "mark " + mark.kind);
			place(node.firstChild, {x1: at, x2: at, y1: MARGIN.top, y2: bottom});
			setAttribute(node.lastChild, "d", MARKS[mark.kind].path);
			setAttribute(node.lastChild, "transform", `translate(${at.toFixed(1)} ${MARGIN.top - 9})`);
		});
	}

	#drawLegend() {
		const last = this.#samples.at(-1);

		this.#series.forEach((one, i) => setText(this.#parts.figures[i], last ? bytes(last[one.key]) : ""));
		for (const [kind, node] of Object.entries(this.#parts.kinds))
			node.hidden = !this.#marks.some((mark) => mark.kind === kind);
	}

	// ---- figures at the pointer, or where the arrow keys have led ----

	#listen() {
		const picture = this.#parts.picture;
		const point = (event) => {
			if (!this.#scale?.x)
				return;
			const share = (event.offsetX - MARGIN.left) / (this.#scale.right - MARGIN.left);

			this.#cursor = this.#scale.from + this.#scale.span * Math.min(1, Math.max(0, share));
			this.#drawCursor();
		};
		const leave = () => { this.#cursor = null; this.#drawCursor(); };

		picture.addEventListener("pointermove", point);
		picture.addEventListener("pointerdown", point);
		picture.addEventListener("pointerleave", leave);
		picture.addEventListener("blur", leave);
		picture.addEventListener("keydown", (event) => this.#step(event));
	}

	#step(event) {
		const last = this.#samples.length - 1;
		const now = this.#cursor === null ? last : this.#nearest();
		const next = {ArrowLeft: now - 1, ArrowRight: now + 1, PageUp: now - 20, PageDown: now + 20,
			Home: 0, End: last}[event.key];

		if (next === undefined || last < 0)
			return;
		event.preventDefault();
		this.#cursor = this.#samples[Math.min(last, Math.max(0, next))].time;
		this.#drawCursor();
	}

	#nearest() {
		let best = 0;

		this.#samples.forEach((sample, i) => {
			if (Math.abs(sample.time - this.#cursor) < Math.abs(this.#samples[best].time - this.#cursor))
				best = i;
		});
		return best;
	}

	#drawCursor() {
		const {cursor, tip} = this.#parts;
		const shown = this.#cursor !== null && this.#samples.length > 0;

		tip.hidden = !shown;
		setAttribute(cursor, "visibility", shown ? "visible" : "hidden");
		if (!shown)
			return;
		const {x, y, bottom, span, right} = this.#scale;
		const sample = this.#samples[this.#nearest()];
		const at = x(sample.time);
		const near = NEAR_PX * span / (right - MARGIN.left);
		const marks = this.#marks.filter((mark) => Math.abs(mark.time - this.#cursor) <= near).slice(-4);

		place(cursor.firstChild, {x1: at, x2: at, y1: MARGIN.top, y2: bottom});
		let below = 0;

		this.#series.forEach((one, i) => {
			const value = sample[one.key] + (one.stacked ? below : 0);

			below = one.stacked ? value : below;
			place(cursor.children[i + 1], {cx: at, cy: y(value)});
		});
		sync(tip, [clock(sample.time), ...this.#series.map((one) => `${one.label}  ${bytes(sample[one.key])}`),
			...marks.map((mark) => mark.text)].map((text, i) => ({text, i})),
			(line) => line.i, () => html("div"), (node, line) => setText(node, line.text));
		tip.style.left = Math.max(4, Math.min(at + 12, this.#scale.width - tip.offsetWidth - 4)) + "px";
		if (at + 12 + tip.offsetWidth > this.#scale.width && at > tip.offsetWidth + 16)
			tip.style.left = at - 12 - tip.offsetWidth + "px";
	}
}

function makeTick() {
	return svg("g", null, svg("line"), svg("text"));
}

function makeMark() {
	return svg("g", null, svg("line"), svg("path"));
}

function place(node, values) {
	for (const [name, value] of Object.entries(values))
		setAttribute(node, name, value.toFixed(1));
}

function legendOf(series) {
	const figures = series.map(() => html("b"));
	const kinds = {};
	const legend = html("div", {class: "legend"});

	series.forEach((one, i) => legend.append(html("span", null,
		svg("svg", {viewBox: "0 0 22 10", width: 22, height: 10},
			svg("path", one.stacked ? {d: "M1 0L21 0L21 10L1 10Z", class: "part " + one.name} :
				{d: "M1 5L21 5", class: "line " + one.name})),
		one.label, " ", figures[i])));
	for (const [kind, mark] of Object.entries(MARKS)) {
		kinds[kind] = html("span", null, svg("svg", {viewBox: "-7 -7 14 14", width: 14, height: 14},
			svg("g", {class: "mark " + kind}, svg("path", {d: mark.path}))), mark.label);
		legend.append(kinds[kind]);
	}
	return {legend, figures, kinds};
}

function build(title, series) {
	const parts = legendOf(series);

	parts.heading = html("h3", null, title);
	parts.values = svg("g", {class: "axis values"});
	parts.times = svg("g", {class: "axis times"});
	parts.area = series.some((one) => one.stacked) ? null : svg("path", {class: "area " + series[0].name});
	parts.lines = series.map((one) =>
		svg("path", {class: (one.stacked ? "part " : "line ") + one.name, "data-series": one.key}));
	parts.shade = svg("g", {class: "shade", visibility: "hidden"}, svg("rect"), svg("text"));
	parts.marks = svg("g");
	parts.cursor = svg("g", {class: "cursor", visibility: "hidden"}, svg("line"),
		...series.map((one) => svg("circle", {r: 3.5, class: one.name})));
	parts.picture = svg("svg", {tabindex: 0, role: "img", "aria-label": title + ": arrow keys read it out"},
		parts.values, parts.times, parts.shade, ...(parts.area ? [parts.area] : []),
		...parts.lines.filter((line, i) => series[i].stacked), parts.marks,
		...parts.lines.filter((line, i) => !series[i].stacked), parts.cursor);
	parts.tip = html("div", {class: "tip", role: "status"});
	parts.tip.hidden = true;
	return parts;
}
