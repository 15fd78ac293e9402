// pool.js -- the blocks of the GPU pool as a table: of each device and state their number and bytes. A snapshot wakes the
// process, so that it is only taken on request.
import {get} from "./api.js";
import {byId, html, setText, sync, syncTable} from "./dom.js";
import {DASH, bytes, clock, count, counted, percent, span} from "./format.js";

const STATES = ["live", "exported", "pending", "idle"];

const SUM_HEADS = [{text: "State"}, ...["Blocks", "Held", "Share", "Asked for", "Largest", "Oldest"]
	.map((text) => ({text, numeric: true}))];

export class PoolView {
	#pid = null;
	#busy = false;
	#available = false;

	constructor() {
		byId("pool-look").addEventListener("click", () => this.#look());
	}

	choose(pid) {
		if (pid === this.#pid)
			return;
		this.#pid = pid;
		byId("pool").hidden = true;
		byId("pool-table").replaceChildren();
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
		setText(byId("pool-note"), `${counted(snapshot.blocks_count, "block", "blocks")} at ${clock(snapshot.time_ns / 1e6)}`);
		sync(byId("pool-table"), snapshot.devices, (one) => one.device, makeDevice, showDevice);
	}
}

function makeDevice() {
	return html("div", null, html("h4"), html("div", {class: "plain"}));
}

function showDevice(node, device) {
	const states = STATES.filter((state) => device[state].held_bytes > 0);
	const held = states.reduce((sum, state) => sum + device[state].held_bytes, 0);

	setText(node.querySelector("h4"), `Device ${device.device}${device.name ? ", " + device.name : ""}: ${bytes(held)} in blocks`);
	syncTable(node.querySelector(".plain"), SUM_HEADS, states.map((state) => {
		const sum = device[state];

		return {key: state, cells: [state, count(sum.count), bytes(sum.held_bytes), percent(sum.held_bytes, held), bytes(sum.bytes),
			bytes(sum.largest_bytes), sum.oldest_ms === null ? DASH : span(sum.oldest_ms)]};
	}));
}
