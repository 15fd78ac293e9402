// table.js -- the table of processes: a tree or a flat list, sorted by a column, filtered, one of them selected.
import {html, setAttribute, setText, svg, sync} from "./dom.js";
import {DASH, PARTS, bytes, span} from "./format.js";

const SPARK = {width: 96, height: 20};
const BAR = {width: 96, height: 12};
const DEEPEST = 12; // levels that are indented

// own: the sort key of a flat list; a tree is sorted by the sums of its subtrees.
const COLUMNS = [
	{name: "pid", text: "PID", own: (row) => row.pid, numeric: true},
	{name: "rank", text: "Rank", own: (row) => rankOrder(row.rank)},
	{name: "command", text: "Command", own: (row) => row.command},
	// <figures>
	figure("rss", "RSS", (of) => of.rss_bytes ?? null, "resident memory; a page that n processes map is in it n times"),
	figure("live", "Live", (of) => of.parts?.live_bytes ?? null, "resident memory in use by the program"),
	figure("reusable", "Reusable", (of) => of.parts?.reusable_bytes ?? null, "free in the allocator and still resident; a cleanup returns it"),
	figure("gpu", "GPU", (of) => of.gpu_bytes ?? null, "device memory held from the driver, of every kind that is counted"),
	// </figures>
	{name: "parts", text: "Parts", title: "of RSS: live, reusable, files, other; the largest process fills the bar", own: null},
	{name: "budget", text: "Budget", own: (row) => row.summary?.budget?.used, numeric: true,
		title: "% of the time that has gone into cleaning / the most, MT_BUDGET_PCT"},
	{name: "cleanup", text: "Last cleanup", own: (row) => row.summary?.last?.time},
	{name: "trend", text: "RSS trend", title: "the last 15 minutes, from zero", own: null},
];

// of: reads the figure from a process, or from the sums of its tree.
function figure(name, text, of, title) {
	return {name, text, title, figure: of, own: of, family: (row) => of(row.tree), numeric: true};
}

function rankOrder(rank) {
	return rank === "" || rank === undefined ? null : /^\d+$/.test(rank) ? Number(rank) : rank;
}

export class ProcessTable {
	#table;
	#select;
	#rows = [];
	#chosen = null;     // pid
	#focus = null;      // pid of the row that Tab leads to
	#sort = {name: "rss", down: true};
	#filter = "";
	#tree = true;
	#shown = [];

	constructor(table, select) {
		this.#table = table;
		this.#select = select;
		this.#head();
		table.tBodies[0].addEventListener("click", (event) => {
			const row = event.target.closest("tr");

			if (row)
				this.#select(row.mtKey);
		});
		table.tBodies[0].addEventListener("keydown", (event) => this.#step(event));
	}

	// rows: the processes of the server's list, each with points and summary (history.js).
	update(rows) {
		this.#rows = rows;
		this.draw();
	}

	set filter(text) { this.#filter = text.trim().toLowerCase(); this.draw(); }
	set tree(on) { this.#tree = on; this.draw(); }
	set chosen(pid) { this.#chosen = pid; this.draw(); }
	get shownCount() { return this.#shown.length; }

	#head() {
		for (const column of COLUMNS) {
			const button = html("button", {type: "button"}, column.text);
			const cell = html("th", {scope: "col", class: classOf(column), "data-column": column.name},
				column.own ? button : column.text);

			if (column.title)
				cell.title = column.title;
			button.addEventListener("click", () => this.#sortBy(column));
			this.#table.tHead.rows[0].append(cell);
		}
	}

	// The first click on figures shows the largest first, on text the first; another click turns it round.
	#sortBy(column) {
		const isText = ["pid", "rank", "command"].includes(column.name);
		const down = this.#sort.name === column.name ? !this.#sort.down : !isText;

		this.#sort = {name: column.name, down};
		this.draw();
	}

	draw() {
		for (const cell of this.#table.tHead.rows[0].cells)
			setAttribute(cell, "aria-sort", cell.dataset.column !== this.#sort.name ? null :
				this.#sort.down ? "descending" : "ascending");
		setAttribute(this.#table, "data-ranks", this.#rows.some((row) => row.rank) ? "yes" : "no");
		setAttribute(this.#table, "data-gpu", this.#rows.some((row) => row.gpu_bytes !== null) ? "yes" : "no");
		this.#shown = this.#arrange();
		const isShown = (pid) => this.#shown.some((line) => line.row.pid === pid);
		const tabStop = [this.#focus, this.#chosen].find(isShown) ?? this.#shown[0]?.row.pid;

		const most = this.#rows.reduce((highest, row) => Math.max(highest, row.rss_bytes), 1);

		sync(this.#table.tBodies[0], this.#shown, (line) => line.row.pid, makeLine, (node, line) => {
			updateLine(node, line, most);
			setAttribute(node, "aria-current", line.row.pid === this.#chosen ? "true" : null);
			setAttribute(node.querySelector("button"), "tabindex", line.row.pid === tabStop ? 0 : -1);
		});
	}

	#matches(row) {
		return [row.pid, row.rank ?? "", row.comm, row.command]
			.some((text) => String(text).toLowerCase().includes(this.#filter));
	}

	#order() {
		const column = COLUMNS.find((one) => one.name === this.#sort.name);
		const valueOf = (row) => (this.#tree ? column.family?.(row) : undefined) ?? column.own(row) ?? null;
		const sign = this.#sort.down ? -1 : 1;

		// What is not known comes last, whichever way it is sorted.
		return (a, b) => {
			const x = valueOf(a), y = valueOf(b);

			if (x === null || y === null || x === y)
				return (x === null) - (y === null) || a.pid - b.pid;
			return sign * (typeof x === "number" && typeof y === "number" ? x - y :
				String(x).localeCompare(String(y)));
		};
	}

	// Of a tree the ancestors of what matches are shown, too.
	#arrange() {
		const order = this.#order();
		const lines = [];

		if (!this.#tree)
			return this.#rows.filter((row) => this.#matches(row)).sort(order)
				.map((row) => ({row, depth: 0, matches: true}));
		const here = new Set(this.#rows.map((row) => row.pid));
		const below = Map.groupBy(this.#rows, (row) => (here.has(row.parent) ? row.parent : null));
		const walk = (parent, depth) => {
			for (const row of (below.get(parent) ?? []).sort(order)) {
				const line = {row, depth, matches: this.#matches(row)};
				const at = lines.push(line);

				walk(row.pid, depth + 1);
				if (!line.matches && lines.length === at)
					lines.pop();
			}
		};
		walk(null, 0);
		return lines;
	}

	#step(event) {
		const at = this.#shown.findIndex((line) => line.row.pid === event.target.closest("tr").mtKey);
		const next = {ArrowUp: at - 1, ArrowDown: at + 1, Home: 0, End: this.#shown.length - 1}[event.key];

		if (next === undefined || !this.#shown[next])
			return;
		event.preventDefault();
		this.#focus = this.#shown[next].row.pid;
		this.draw();
		this.#table.tBodies[0].rows[next].querySelector("button").focus();
	}
}

function classOf(column) {
	return "c-" + column.name + (column.figure ? " c-figure" : "");
}

function makeLine() {
	const line = html("tr");

	for (const column of COLUMNS)
		line.append(html("td", {class: classOf(column) + (column.numeric ? " number" : "")}));
	line.querySelector(".c-pid").append(html("button", {type: "button"}));
	line.querySelector(".c-parts").append(svg("svg", {viewBox: `0 0 ${BAR.width} ${BAR.height}`, ...BAR,
		"aria-hidden": "true"}, ...PARTS.map((part) => svg("rect", {class: "part " + part.name, y: 0,
		height: BAR.height}))));
	line.querySelector(".c-trend").append(svg("svg", {viewBox: `0 0 ${SPARK.width} ${SPARK.height}`, ...SPARK,
		"aria-hidden": "true"}, svg("path", {class: "line rss"})));
	return line;
}

function drawParts(cell, parts, most) {
	let at = 0;

	PARTS.forEach(({name}, i) => {
		const width = parts ? BAR.width * parts[name + "_bytes"] / most : 0;

		setAttribute(cell.firstChild.children[i], "x", at.toFixed(1));
		setAttribute(cell.firstChild.children[i], "width", width.toFixed(1));
		at += width;
	});
	setAttribute(cell, "title", parts &&
		PARTS.map(({name}) => `${name} ${bytes(parts[name + "_bytes"])}`).join(", "));
}

function updateLine(node, {row, depth, matches}, most) {
	const cell = (name) => node.querySelector(".c-" + name);
	const awake = row.state === "awake";
	const budget = row.summary?.budget;
	const last = row.summary?.last;

	setAttribute(node, "class", (matches ? "" : "aside ") + row.state);
	setText(cell("pid").firstChild, String(row.pid));
	setText(cell("rank"), row.rank || DASH);
	setText(cell("command"), (depth ? "\u2514 " : "") + row.title);
	cell("command").style.paddingLeft = 8 + 16 * Math.min(depth - 1, DEEPEST) * (depth > 0) + "px";
	setAttribute(cell("command"), "title", awake ? row.command : `${row.state}: ${row.command}`);
	for (const column of COLUMNS.filter((one) => one.figure))
		setText(cell(column.name), bytes(column.figure(row)));
	if (!awake)
		setText(cell("live"), row.state);
	drawParts(cell("parts"), row.parts, most);
	setText(cell("budget"), budget ? `${budget.used.toFixed(1)}/${budget.allowed} %` : DASH);
	setText(cell("cleanup"), last ? `${last.reason}, ${span(row.now - last.time)} ago` : DASH);
	setAttribute(cell("cleanup"), "title", last ? `${bytes(Math.max(0, last.freed))} of RSS freed` : null);
	drawSpark(cell("trend").firstChild.firstChild, row.points);
}

// From zero, so that noise is not magnified.
function drawSpark(path, points) {
	const first = points[0]?.time ?? 0;
	const span = Math.max(1, (points.at(-1)?.time ?? 0) - first);
	const most = points.reduce((highest, point) => Math.max(highest, point.value), 1);

	setAttribute(path, "d", points.length < 2 ? "" : "M" + points.map((point) =>
		`${((SPARK.width - 2) * (point.time - first) / span + 1).toFixed(1)} ` +
		`${(SPARK.height - 2 - (SPARK.height - 4) * point.value / most).toFixed(1)}`).join("L"));
}
