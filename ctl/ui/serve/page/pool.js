// pool.js -- the blocks of the GPU pool as a picture: areas by size, states by pattern and colour, shade by age; and the
// sums as a table. A snapshot wakes the process, so that it is only taken on request.
import {get} from "./api.js";
import {byId, html, setAttribute, setText, svg, sync, syncTable} from "./dom.js";
import {DASH, bytes, clock, count, counted, percent, span} from "./format.js";
import {squarify} from "./treemap.js";

const HEIGHT = 260;
const GAP = 4;
const SHOWN_MOST = 300; // blocks of a state and device that are drawn; what is smaller is one field below them
const STATES = ["live", "exported", "pending", "idle"];
const AGES_MS = [1000, 10000, 60000, 600000]; // shades: younger than this

const SUM_HEADS = [{text: "State"}, ...["Blocks", "Held", "Share", "Asked for", "Largest", "Oldest"]
	.map((text) => ({text, numeric: true}))];

export class PoolView {
	#pid = null;
	#busy = false;
	#available = false;
	#devices = [];

	constructor() {
		byId("pool-look").addEventListener("click", () => this.#look());
		new ResizeObserver(() => this.#draw()).observe(byId("pool-picture"));
	}

	choose(pid) {
		if (pid === this.#pid)
			return;
		this.#pid = pid;
		this.#devices = [];
		byId("pool").hidden = true;
		byId("pool-picture").replaceChildren();
		setText(byId("pool-note"), "");
	}

	// available: the process is there, and its pool serves its memory.
	refresh(available) {
		this.#available = available;
		if (available)
			byId("pool").hidden = false;
		byId("pool-look").disabled = !available || this.#busy;
	}

	async #look() {
		const pid = this.#pid;

		this.#busy = true;
		this.refresh(this.#available);
		setText(byId("pool-note"), "looking \u2026");
		const answer = await get(`/api/processes/${pid}/snapshot`).catch((error) => error);
		this.#busy = false;
		this.refresh(this.#available);
		if (pid === this.#pid)
			this.#show(answer);
	}

	#show(snapshot) {
		if (snapshot instanceof Error)
			return setText(byId("pool-note"), `No snapshot: ${snapshot.message}`);
		const missing = snapshot.left_out_count + snapshot.blocks_count - snapshot.blocks.length;

		setText(byId("pool-note"), `${counted(snapshot.blocks_count, "block", "blocks")} at ${clock(snapshot.time_ns / 1e6)}` +
			(missing > 0 ? `; ${counted(missing, "more is", "more are")} not drawn` : ""));
		this.#devices = devicesOf(snapshot);
		sync(byId("pool-picture"), this.#devices, (one) => one.device, makeDevice, showDevice);
		this.#draw();
	}

	#draw() {
		const width = byId("pool-picture").clientWidth;

		this.#devices.forEach((one, i) => {
			if (width > 0)
				draw(byId("pool-picture").children[i].querySelector(".blocks"), one.parts, width);
		});
	}
}

// Of each device the states that have blocks, with their sums (of all blocks) and the blocks, the largest first.
function devicesOf(snapshot) {
	const blocks = Map.groupBy(snapshot.blocks.sort((a, b) => b.held_bytes - a.held_bytes),
		(block) => `${block.device} ${block.state}`);

	return snapshot.devices.map((device) => ({
		device: device.device,
		name: device.name,
		parts: STATES.filter((state) => device[state].held_bytes > 0).map((state) =>
			({state, sum: device[state], blocks: blocks.get(`${device.device} ${state}`) ?? []})),
	}));
}

function heldOf(blocks) {
	return blocks.reduce((sum, block) => sum + block.held_bytes, 0);
}

// ---- texts ----

function makeDevice() {
	return html("div", null, html("h4"), legend(), svg("svg", {class: "blocks", height: HEIGHT, role: "img"}),
		html("div", {class: "plain"}));
}

function showDevice(node, {device, name, parts}) {
	const held = parts.reduce((sum, part) => sum + part.sum.held_bytes, 0);

	setText(node.querySelector("h4"), `Device ${device}${name ? ", " + name : ""}: ${bytes(held)} in blocks`);
	setAttribute(node.querySelector(".blocks"), "aria-label", "Blocks by size: " +
		parts.map((part) => `${part.state} ${bytes(part.sum.held_bytes)}`).join(", "));
	syncTable(node.querySelector(".plain"), SUM_HEADS, parts.map(({state, sum}) => ({key: state, cells: [
		state, count(sum.count), bytes(sum.held_bytes), percent(sum.held_bytes, held), bytes(sum.bytes),
		bytes(sum.largest_bytes), sum.oldest_ms === null ? DASH : span(sum.oldest_ms)]})));
}

function legend() {
	const box = {x: 0, y: 0, width: 22, height: 14};
	const swatch = (state) => svg("svg", {viewBox: "0 0 22 14", width: 22, height: 14},
		svg("g", {class: "block " + state}, svg("rect", box), svg("path", {d: strokes(box, state)})));

	return html("div", {class: "legend"}, ...STATES.map((state) => html("span", null, swatch(state), state)),
		html("span", null, "paler: longer in this state"));
}

// ---- the picture ----

// States side by side, each as wide as its share; in each the largest blocks first, and those too small to see below.
function draw(picture, parts, width) {
	const held = parts.reduce((sum, part) => sum + part.sum.held_bytes, 0);
	const placed = [];
	let x = 0;

	for (const part of parts) {
		const share = part.sum.held_bytes / held;
		const box = {x, y: 0, width: (width - GAP * (parts.length - 1)) * share, height: HEIGHT};

		placed.push(...placePart(part, box));
		x += box.width + GAP;
	}
	setAttribute(picture, "viewBox", `0 0 ${width} ${HEIGHT}`);
	sync(picture, placed.map((place, i) => ({...place, i})), (place) => place.i,
		() => svg("g", null, svg("title"), svg("rect"), svg("path"), svg("text")), drawBlock);
}

function placePart({state, sum, blocks}, box) {
	const shown = blocks.slice(0, SHOWN_MOST);
	const height = HEIGHT * heldOf(shown) / sum.held_bytes;
	const placed = squarify(shown.map((block) => itemOf(state, block)), {...box, height});
	const rest = sum.count - shown.length;

	if (rest > 0)
		placed.push({...box, y: height, height: HEIGHT - height, item: {state, age_ms: 0, label: "", rest: true,
			text: `${count(rest)} ${state} blocks more, ${bytes(sum.held_bytes - heldOf(shown))}`}});
	return placed;
}

function itemOf(state, block) {
	return {bytes: block.held_bytes, state, age_ms: block.age_ms, label: bytes(block.held_bytes),
		text: `${state} for ${span(block.age_ms)}: ${bytes(block.held_bytes)}, ${bytes(block.bytes)} asked for, ` +
			`context ${block.context}`};
}

function drawBlock(node, {item, x, y, width, height}) {
	const [title, rect, path, label] = node.children;
	const box = {x, y, width: Math.max(0, width - 1), height: Math.max(0, height - 1)};
	const shade = AGES_MS.findIndex((age) => item.age_ms < age);

	setAttribute(node, "class",
		`block ${item.state} age${shade < 0 ? AGES_MS.length : shade}${item.rest ? " rest" : ""}`);
	setText(title, item.text);
	for (const [name, value] of Object.entries(box))
		setAttribute(rect, name, value.toFixed(1));
	setAttribute(path, "d", item.rest ? "" : strokes(box, item.state));
	setText(label, width > 74 && height > 20 ? item.label : "");
	setAttribute(label, "x", (x + 6).toFixed(1));
	setAttribute(label, "y", (y + 16).toFixed(1));
}

// Lines, so that states differ without colour: none live, slanted idle, dots pending, a cross exported.
function strokes({x, y, width, height}, state) {
	let path = "";

	if (Math.min(width, height) < 4)
		return path;
	if (state === "idle")
		for (let d = 8; d < width + height; d += 8)
			path += stroke(x + Math.max(0, d - height), y + Math.min(d, height),
				x + Math.min(d, width), y + Math.max(0, d - width));
	else if (state === "pending")
		for (let i = 5; i < width - 1; i += 9)
			for (let j = 5; j < height - 1; j += 9)
				path += stroke(x + i - 1, y + j, x + i + 1, y + j);
	else if (state === "exported")
		path = stroke(x, y, x + width, y + height) + stroke(x + width, y, x, y + height);
	return path;
}

function stroke(...points) {
	const [x1, y1, x2, y2] = points.map((value) => value.toFixed(1));

	return `M${x1} ${y1}L${x2} ${y2}`;
}
