// flame.js -- where the live memory of a process was allocated, as a flame graph that grows downwards, and the Python lines that
// allocate what grows. Both ask the process, so that they are only taken on request.
import {get, post} from "./api.js";
import {byId, html, setAttribute, setText, sync, syncTable} from "./dom.js";
import {bytes, change, count, percent, span} from "./format.js";

const LINE_PX = 21;
const LEAST_SHARE = 0.0015; // of the width; what is narrower is not drawn
const DEEPEST = 40;
const PATH_SHOWN = 3;
const COLOURS = 6;
const SAMPLES = 2; // prof_state
const OFF = "The flame graph needs the heap profiler, which this process was started without: mtctl run --prof=1 -- program\u2026 " +
	"(or MT_PROF=1), and then mtctl set with its PID and prof=on.";
const READY = "The heap profiler is ready, and does not sample yet: mtctl set PID prof=on.";

export class FlameGraph {
	#pid = null;
	#busy = false;
	#available = false;
	#python = false;
	#root = null;
	#focus = null;

	constructor() {
		byId("flame-look").addEventListener("click", () => this.#look());
		byId("lines-look").addEventListener("click", () => this.#lookAtLines());
		byId("flame-search").addEventListener("input", () => this.#draw());
		byId("flame-whole").addEventListener("click", () => this.#zoom(this.#root));
	}

	choose(pid) {
		if (pid === this.#pid)
			return;
		this.#pid = pid;
		this.#root = null;
		byId("flame").hidden = true;
		byId("flame-graph").replaceChildren();
		byId("lines").replaceChildren();
		setText(byId("flame-note"), "");
	}

	// detail: the figures of the process, null where it is gone.
	refresh(detail) {
		this.#available = detail !== null && detail.prof_state > 0;
		this.#python = detail !== null && detail.python !== "" && !detail.python.startsWith("no");
		byId("sites-section").hidden = false;
		byId("flame-look").disabled = !this.#available || this.#busy;
		byId("lines-look").disabled = !this.#python || this.#busy;
		byId("lines-look").hidden = !this.#python;
		if (detail && this.#root === null && byId("flame-note").textContent === "" && detail.prof_state !== SAMPLES)
			setText(byId("flame-note"), this.#available ? READY.replace("PID", detail.pid) : OFF);
	}

	async #ask(note, request, show) {
		const pid = this.#pid;

		this.#busy = true;
		byId("flame-look").disabled = byId("lines-look").disabled = true;
		setText(byId("flame-note"), note);
		const answer = await request(pid).catch((error) => error);
		this.#busy = false;
		byId("flame-look").disabled = !this.#available;
		byId("lines-look").disabled = !this.#python;
		if (pid !== this.#pid)
			return;
		if (answer instanceof Error)
			setText(byId("flame-note"), `Nothing to show: ${answer.message}`);
		else
			show(answer);
	}

	#look() {
		return this.#ask("waiting for a profile \u2026", (pid) => get(`/api/processes/${pid}/sites`, 45000), (answer) => {
			this.#root = treeOf(answer);
			this.#zoom(widest(this.#root));
			setText(byId("flame-note"), answer.sites_count ? `${bytes(answer.bytes)} live at ${count(answer.sites_count)} sites, ` +
				`estimated from ${count(answer.samples_count)} samples, one in ${bytes(answer.rate_bytes)}` +
				(answer.samples ? "" : "; it does not sample any more") : "No samples yet: what was allocated before sampling began is missing.");
		});
	}

	#zoom(node) {
		this.#focus = node;
		this.#draw();
	}

	#makeButton(node) {
		const button = html("button", {type: "button"});

		button.addEventListener("click", () => this.#zoom(node));
		return button;
	}

	#draw() {
		if (!this.#root)
			return;
		const search = byId("flame-search").value.trim().toLowerCase();
		const boxes = boxesOf(this.#focus, search);
		const path = pathTo(this.#focus);

		byId("flame").hidden = !this.#root.bytes;
		byId("flame-whole").disabled = this.#focus === this.#root;
		setText(byId("flame-found"), search ? foundText(this.#root, search) : "");
		sync(byId("flame-path"), path.slice(-PATH_SHOWN), (node) => node.id, (node) => this.#makeButton(node),
			(button, node) => setText(button, node.name));
		setText(byId("flame-above"), path.length > PATH_SHOWN ? `${path.length - PATH_SHOWN} more above \u203a` : "");
		byId("flame-graph").style.height = LINE_PX * (1 + Math.max(...boxes.map((box) => box.depth))) + "px";
		sync(byId("flame-graph"), boxes, (box) => box.node.id, (box) => this.#makeButton(box.node), (button, box) => {
			const {node, left, width, depth, hit} = box;
			const text = `${node.name}\n${bytes(node.bytes)}, ${percent(node.bytes, this.#root.bytes)} of all`;

			setText(button, width > 0.02 ? node.name : "");
			setAttribute(button, "class", `frame f${node.colour}${search && !hit ? " miss" : ""}`);
			setAttribute(button, "title", text);
			setAttribute(button, "aria-label", text);
			Object.assign(button.style, {left: 100 * left + "%", width: 100 * width + "%", top: LINE_PX * depth + "px"});
		});
	}

	// ---- Python lines ----

	#lookAtLines() {
		return this.#ask("Python's tracemalloc looks for 10 s; the program is slower meanwhile \u2026",
			(pid) => post(`/api/processes/${pid}/lines`, 60000), (answer) => {
				setText(byId("flame-note"), answer.lines_count ? `${change(0, answer.growth_bytes)} at ${count(answer.lines_count)} lines ` +
					`within ${span(answer.growth_over_ms)}` : "No line allocated anything that is still live.");
				syncTable(byId("lines"), [{text: "Line"}, {text: "Growth", numeric: true}, {text: "Live", numeric: true},
					{text: "Blocks", numeric: true}], answer.lines.map((line, i) => ({key: i, cells: [`${line.file}:${line.line}`,
					change(0, line.growth_bytes), bytes(line.bytes), count(line.blocks_count)]})));
			});
	}
}

// ---- the tree: stacks with the same outer frames lie in one node ----

function nodeOf(name, above, ids) {
	return {id: ids.next++, name, above, bytes: 0, below: new Map(), colour: hash(name) % COLOURS};
}

function hash(text) {
	return [...text].reduce((sum, letter) => (sum * 31 + letter.codePointAt(0)) >>> 0, 7);
}

// Without the frames of the allocation functions themselves. Sites that the answer leaves out are one node.
function treeOf({sites, bytes: all}) {
	const ids = {next: 0};
	const root = nodeOf("all", null, ids);
	const add = (frames, size) => {
		let node = root;

		node.bytes += size;
		for (const name of frames) {
			if (!node.below.has(name))
				node.below.set(name, nodeOf(name, node, ids));
			node = node.below.get(name);
			node.bytes += size;
		}
	};

	for (const site of sites)
		add(site.frames.slice(Math.max(0, site.frames.indexOf(site.where))).reverse(), site.bytes);
	if (all > root.bytes)
		add(["smaller sites"], all - root.bytes);
	return root;
}

function sorted(node) {
	return [...node.below.values()].sort((a, b) => b.bytes - a.bytes);
}

// The first node from above at which stacks differ: the frames that all have in common say nothing.
function widest(root) {
	let node = root;

	for (let below = sorted(node); below.length && below[0].bytes > 0.99 * root.bytes && below[0].below.size; below = sorted(node))
		node = below[0];
	return node.above ?? node;
}

function pathTo(node) {
	return node.above ? [...pathTo(node.above), node.above] : [];
}

// Where each node below one is drawn: left and width as shares.
function boxesOf(focus, search) {
	const boxes = [];
	const walk = (node, left, width, depth, hit) => {
		const found = hit || (search !== "" && node.name.toLowerCase().includes(search));
		let at = left;

		boxes.push({node, left, width, depth, hit: found});
		for (const below of depth < DEEPEST ? sorted(node) : []) {
			const share = width * below.bytes / node.bytes;

			if (share >= LEAST_SHARE)
				walk(below, at, share, depth + 1, found);
			at += share;
		}
	};

	walk(focus, 0, 1, 0, pathTo(focus).some((node) => search !== "" && node.name.toLowerCase().includes(search)));
	return boxes;
}

// How much lies at and below frames of this name, each byte once.
function foundText(root, search) {
	const found = (node) => (node.name.toLowerCase().includes(search) ? node.bytes :
		[...node.below.values()].reduce((sum, below) => sum + found(below), 0));

	return `${bytes(found(root))}, ${percent(found(root), root.bytes)}`;
}
