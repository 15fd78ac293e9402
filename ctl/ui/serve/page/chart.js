// chart.js -- charts of bytes over time, drawn by dygraphs (the global of dygraph.js): stacked areas or lines, marks of events,
// ranges, zoom, figures at the pointer, pictures and figures to download.
import {html, setAttribute, setText, svg, sync} from "./dom.js";
import {picture, save, table} from "./download.js";
import {bytes, clock} from "./format.js";

const RANGES = [{name: "5 min", ms: 300000}, {name: "15 min", ms: 900000}, {name: "all", ms: Infinity}];
const LEAST_MS = 60000;
const NEAR_PX = 7;
const STRIP_PX = 18; // above the lines, for the marks

// The shapes of marks, which do not differ by colour alone.
export const MARKS = {
	freed: {label: "cleanup", path: "M-5 -4 L5 -4 L0 5 Z"},
	nothing: {label: "cleanup that found nothing", path: "M-5 -4 L5 -4 L0 5 Z"},
	round: {label: "cleanup of a round", path: "M0 -6 L6 0 L0 6 L-6 0 Z"},
	pressure: {label: "pressure", path: "M-5 -5 L5 -5 L5 5 L-5 5 Z M-1 -3 L1 -3 L1 1 L-1 1 Z M-1 2 L1 2 L1 4 L-1 4 Z"},
};

// Its legend is markup with styles, which the content policy stops. Ours is made of nodes.
if (typeof Dygraph === "function")
	Dygraph.PLUGINS = [Dygraph.Plugins.Axes, Dygraph.Plugins.Grid];

// The value of a colour of page.css, in the present scheme.
function colour(name) {
	return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

export class Chart {
	#host;
	#options;
	#parts;
	#graph = null;
	#made = ""; // what the graph was made for; another one is made for other lines or colours
	#series = [];
	#rows = [];
	#marks = [];
	#since = null;
	#now = 0;
	#range = RANGES[1];
	#zoom = null;   // [from, to]
	#cursor = null; // the time that is pointed at

	// options: title; stacked: areas, the first series lowest; file: the name of downloads, without an ending; changed():
	// called when another time is shown; chosen(key): called with the key of a series whose name was clicked.
	constructor(host, options) {
		this.#host = host;
		this.#options = options;
		this.#parts = build(options.title);
		host.append(...this.#parts.all);
		this.#listen();
		new ResizeObserver(() => this.draw(true)).observe(host);
		matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
	}

	// series: [{key, label, colour}], colour a name of page.css; rows: [[time, figure of each series...]] by time (ms); now: the
	// right edge; marks: [{key, time, kind, text}]; since: the time before which marks are not kept, null: none are missing.
	update({series, rows, now, marks = [], since = null}) {
		this.#series = series;
		this.#rows = rows;
		this.#now = Math.max(now, rows.at(-1)?.[0] ?? 0);
		this.#marks = marks;
		this.#since = since;
		this.draw();
	}

	// [from, to] in ms. Of a range that reaches further back than the figures it is what they fill.
	window(first = this.#rows[0]?.[0] ?? this.#now, now = this.#now) {
		return this.#zoom ?? [Math.min(Math.max(first, now - this.#range.ms), now - LEAST_MS), now];
	}

	draw(resized = false) {
		const {graph, missing} = this.#parts;

		missing.hidden = typeof Dygraph === "function";
		if (!missing.hidden || !this.#host.clientWidth || !this.#rows.length)
			return;
		const colours = this.#series.map((one) => colour(one.colour));
		const wanted = JSON.stringify([this.#series.map((one) => one.key), colours, colour("line")]);
		const changes = {file: this.#file(), dateWindow: this.window()};

		if (wanted !== this.#made) {
			this.#graph?.destroy();
			this.#graph = new Dygraph(graph, changes.file, {...this.#settings(colours), ...changes});
			this.#made = wanted;
		} else if (resized) {
			this.#graph.resize();
		} else {
			this.#graph.updateOptions(changes);
		}
		this.#drawLegend();
		this.#drawCursor();
	}

	// dygraphs stacks the last series lowest.
	#file() {
		return this.#options.stacked ? this.#rows.map(([time, ...figures]) => [time, ...figures.reverse()]) : this.#rows;
	}

	#settings(colours) {
		const order = (list) => (this.#options.stacked ? [...list].reverse() : list);
		const model = {...Dygraph.defaultInteractionModel, dblclick: () => this.#showAll()};

		for (const touch of ["touchstart", "touchmove", "touchend"])
			delete model[touch]; // a finger scrolls the page
		return {
			labels: ["time", ...order(this.#series.map((one) => String(one.key)))],
			colors: order(colours),
			stackedGraph: this.#options.stacked,
			fillGraph: this.#options.stacked,
			fillAlpha: 0.62,
			strokeWidth: this.#options.stacked ? 0.7 : 2,
			stepPlot: true, // a process writes a sample where something has moved
			includeZero: true,
			rightGap: 12,
			highlightCircleSize: 3,
			axisLineColor: colour("line"),
			gridLineColor: colour("line"),
			axes: {
				x: {ticker: Dygraph.dateTicker, axisLabelFormatter: Dygraph.dateAxisLabelFormatter, axisLabelFontSize: 11,
					axisLabelWidth: 62,
					pixelsPerLabel: 50, drawGrid: false},
				y: {labelsKMG2: true, axisLabelFormatter: bytesOnAxis, axisLabelFontSize: 11, axisLabelWidth: 58},
			},
			interactionModel: model,
			zoomCallback: (from, to) => this.#zoomTo(from, to),
			drawCallback: (graph) => this.#drawMarks(graph),
			highlightCallback: (event, x) => this.#point(x),
			unhighlightCallback: () => this.#point(null),
		};
	}

	// ---- ranges and zoom ----

	#listen() {
		const {ranges, reset, png, csv, plot} = this.#parts;

		for (const range of RANGES) {
			const button = html("button", {type: "button", "aria-pressed": range === this.#range}, range.name);

			button.addEventListener("click", () => { this.#range = range; this.#showAll(); });
			ranges.append(button);
		}
		reset.addEventListener("click", () => this.#showAll());
		png.addEventListener("click", () => picture(this.#parts, this.#name("png")));
		csv.addEventListener("click", () => save(table(this.#series, this.#shown()), "text/csv", this.#name("csv")));
		plot.addEventListener("keydown", (event) => this.#step(event));
		plot.addEventListener("blur", () => this.#point(null));
	}

	#zoomTo(from, to) {
		this.#zoom = [from, to];
		this.#parts.reset.hidden = false;
		this.#options.changed?.();
	}

	// All of the range.
	#showAll() {
		this.#zoom = null;
		this.#parts.reset.hidden = true;
		RANGES.forEach((range, i) => setAttribute(this.#parts.ranges.children[i], "aria-pressed", range === this.#range));
		this.#options.changed?.();
		this.#graph?.updateOptions({dateWindow: this.window(), valueRange: null});
	}

	#shown() {
		const [from, to] = this.window();

		return this.#rows.filter(([time]) => time >= from && time <= to);
	}

	#name(ending) {
		return `${this.#options.file()}-${new Date(this.#now).toISOString().slice(0, 19).replace(/[:T]/g, "-")}.${ending}`;
	}

	// ---- what lies over the lines ----

	// Where cleanups are not kept any more, none is not the same as none was.
	#drawMarks(graph) {
		const area = graph.getArea();
		const {overlay, shade, marks, kinds} = this.#parts;
		const x = (time) => graph.toDomXCoord(time);
		const shown = this.#marks.filter((mark) => x(mark.time) >= area.x && x(mark.time) <= area.x + area.w);
		const end = this.#since === null ? area.x : Math.min(area.x + area.w, Math.max(area.x, x(this.#since)));

		if (area.h <= 0) // hidden, and the window was resized
			return;
		setAttribute(overlay, "viewBox", `0 0 ${this.#host.clientWidth} ${STRIP_PX + area.h}`);
		setAttribute(overlay, "height", STRIP_PX + area.h);
		setAttribute(shade, "visibility", end > area.x + 1 ? "visible" : "hidden");
		place(shade.firstChild, {x: area.x, y: STRIP_PX, width: end - area.x, height: area.h});
		place(shade.lastChild, {x: area.x + 6, y: STRIP_PX + 14});
		setText(shade.lastChild, end - area.x > 190 ? "cleanups here are not kept" : "");
		sync(marks, shown, (mark) => mark.key, () => svg("g", null, svg("line"), svg("path")), (node, mark) => {
			const at = x(mark.time);

			setAttribute(node, "class", "mark " + mark.kind);
			place(node.firstChild, {x1: at, x2: at, y1: STRIP_PX, y2: STRIP_PX + area.h});
			setAttribute(node.lastChild, "d", MARKS[mark.kind].path);
			setAttribute(node.lastChild, "transform", `translate(${at.toFixed(1)} 9)`);
		});
		for (const [kind, node] of Object.entries(kinds))
			node.hidden = !shown.some((mark) => mark.kind === kind);
	}

	#drawLegend() {
		const last = this.#rows.at(-1);

		sync(this.#parts.names, this.#series.map((one, i) => ({...one, figure: last[i + 1]})), (one) => one.key,
			(one) => this.#makeName(one), (node, one) => {
				setAttribute(node.firstChild.firstChild, "fill", colour(one.colour));
				setText(node.children[1], one.label);
				setText(node.lastChild, bytes(one.figure));
			});
		setText(this.#parts.total, this.#options.stacked ? bytes(sum(last)) : "");
	}

	#makeName(one) {
		const node = html(this.#options.chosen ? "button" : "span", this.#options.chosen ? {type: "button"} : null,
			svg("svg", {viewBox: "0 0 14 10", width: 14, height: 10}, svg("rect", {width: 14, height: 10, rx: 2})),
			html("span"), html("b"));

		if (this.#options.chosen)
			node.addEventListener("click", () => this.#options.chosen(one.key));
		return node;
	}

	// ---- figures at the pointer, or where the arrow keys have led ----

	#point(time) {
		this.#cursor = time;
		this.#drawCursor();
	}

	#step(event) {
		const last = this.#rows.length - 1;
		const at = this.#rows.findIndex(([time]) => time === this.#cursor);
		const now = at < 0 ? last : at;
		const next = {ArrowLeft: now - 1, ArrowRight: now + 1, PageUp: now - 20, PageDown: now + 20,
			Home: 0, End: last}[event.key];

		if (next === undefined || last < 0)
			return;
		event.preventDefault();
		const row = Math.min(last, Math.max(0, next));

		this.#graph?.setSelection(row);
		this.#point(this.#rows[row][0]);
	}

	#drawCursor() {
		const {tip, plot} = this.#parts;
		const row = this.#rows.find(([time]) => time === this.#cursor);

		tip.hidden = !row || !this.#graph;
		if (tip.hidden)
			return;
		const [from, to] = this.window();
		const near = NEAR_PX * (to - from) / plot.clientWidth;
		const figures = this.#series.map((one, i) => ({text: `${one.label}  ${bytes(row[i + 1])}`, figure: row[i + 1]}));
		const lines = [clock(row[0]), ...(this.#options.stacked ? [`RSS  ${bytes(sum(row))}`] : []),
			...(this.#options.stacked ? figures.reverse().filter((one) => one.figure > 0) : figures).map((one) => one.text),
			...this.#marks.filter((mark) => Math.abs(mark.time - row[0]) <= near).slice(-4).map((mark) => mark.text)];
		const at = this.#graph.toDomXCoord(row[0]);

		sync(tip, lines.map((text, i) => ({text, i})), (line) => line.i, () => html("div"),
			(node, line) => setText(node, line.text));
		tip.style.left = Math.max(4, at + 12 + tip.offsetWidth > plot.clientWidth ? at - 12 - tip.offsetWidth : at + 12) + "px";
	}
}

function sum(row) {
	return row.slice(1).reduce((all, figure) => all + figure, 0);
}

function bytesOnAxis(value) {
	return value === 0 ? "0" : bytes(value).replace(/\.0 /, " ");
}

function place(node, values) {
	for (const [name, value] of Object.entries(values))
		setAttribute(node, name, value.toFixed(1));
}

function build(title) {
	const button = (text, what) => html("button", {type: "button", title: what, "aria-label": what}, text);
	const parts = {
		heading: html("h3", null, title), total: html("span", {class: "total"}),
		ranges: html("div", {class: "ranges", role: "group", "aria-label": "time shown"}),
		reset: button("Reset zoom", "shows all of the range"),
		png: button("PNG", "downloads the picture"), csv: button("CSV", "downloads the figures shown"),
		names: html("div", {class: "names"}), kinds: {}, graph: html("div", {class: "graph"}),
		shade: svg("g", {class: "shade", visibility: "hidden"}, svg("rect"), svg("text")), marks: svg("g"),
		tip: html("div", {class: "tip", role: "status"}),
		missing: html("p", {class: "notice"}, "This mtctl was built without the chart library (libjs-dygraphs)."),
	};

	for (const [kind, mark] of Object.entries(MARKS)) {
		parts.kinds[kind] = html("span", null, svg("svg", {viewBox: "-7 -7 14 14", width: 14, height: 14},
			svg("g", {class: "mark " + kind}, svg("path", {d: mark.path}))), mark.label);
		parts.kinds[kind].hidden = true;
	}
	parts.reset.hidden = parts.tip.hidden = parts.missing.hidden = true;
	parts.overlay = svg("svg", {class: "overlay", "aria-hidden": "true"}, parts.shade, parts.marks);
	parts.plot = html("div", {class: "plot", tabindex: 0, role: "img", "aria-label": title + ": arrow keys read it out"},
		parts.graph, parts.overlay, parts.tip);
	parts.all = [html("div", {class: "bar"}, parts.heading, parts.total, parts.ranges, parts.reset, parts.png, parts.csv),
		html("div", {class: "legend"}, parts.names, ...Object.values(parts.kinds)), parts.missing, parts.plot];
	return parts;
}
