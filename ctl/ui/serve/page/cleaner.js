// cleaner.js -- the two buttons that request a cleanup, and its result.
import {Refused, clean, isLocked, token} from "./api.js";
import {byId, setAttribute, setText} from "./dom.js";
import {bytes, change, duration} from "./format.js";

const NO_TOKEN = "To clean, enter the token of this server at the top of the page";
const BUTTONS = {light: "clean-light", heavy: "clean-heavy"};

export class Cleaner {
	#pid = null;
	#canClean = false;
	#busy = false;
	#done;

	// done(pid): called after each reply, to update the page.
	constructor(done) {
		this.#done = done;
		for (const [level, id] of Object.entries(BUTTONS))
			byId(id).addEventListener("click", () => this.#ask(level));
	}

	choose(pid) {
		if (pid !== this.#pid)
			this.#say("");
		this.#pid = pid;
		this.refresh(this.#canClean);
	}

	// canClean: the process is there, and awake.
	refresh(canClean) {
		const why = token() === null ? NO_TOKEN : this.#busy ? "a cleanup runs" :
			canClean ? null : "nothing to clean here";

		this.#canClean = canClean;
		for (const id of Object.values(BUTTONS)) {
			byId(id).disabled = why !== null;
			setAttribute(byId(id), "title", why);
		}
		if (token() === null && byId("clean-result").textContent === "")
			this.#say(NO_TOKEN);
	}

	tokenCame() {
		this.#say("");
		this.refresh(this.#canClean);
	}

	async #ask(level) {
		const pid = this.#pid;

		this.#busy = true;
		this.refresh(this.#canClean);
		this.#say(`${level} cleanup of ${pid} \u2026`);
		const answer = await clean(pid, level).then((body) => resultText(body.processes?.[0]), failed);
		this.#busy = false;
		if (pid === this.#pid)
			this.#say(answer.text, answer.state);
		this.refresh(this.#canClean);
		this.#done(pid);
	}

	#say(text, state = "") {
		setText(byId("clean-result"), text);
		setAttribute(byId("clean-result"), "data-state", state);
	}
}

function failed(error) {
	if (isLocked(error))
		return {text: `Refused: ${error.message}. ${NO_TOKEN}`, state: "bad"};
	if (error instanceof Refused && error.status === 403)
		return {text: `Refused: ${error.message}.`, state: "bad"};
	return {text: error.name === "TimeoutError" ? "No answer in time." : `Not done: ${error.message}`, state: "bad"};
}

function layer(name, before, after) {
	return `${name} ${bytes(before)} \u2192 ${bytes(after)} (${change(before, after)})`;
}

function resultText(process) {
	const record = process?.record;

	if (process?.state === "asleep")
		return {text: "Asleep: mtctl stat says why.", state: ""};
	if (!record)
		return {text: process?.error ?? "It answered, but left no record.", state: "bad"};
	const parts = [layer("RSS", record.rss_before_bytes, record.rss_after_bytes)];

	if (record.gpu_before_bytes !== null)
		parts.push(layer("GPU", record.gpu_before_bytes, record.gpu_after_bytes));
	const gc = record.gc_text === null ? "" : `; gc: ${record.gc_text}`;

	return {text: `${record.level} cleanup: ${parts.join(", ")}, cost ${duration(record.cost_ns)}${gc}` +
		(record.result === 1 ? "" : "; nothing to free"), state: record.result === 1 ? "good" : ""};
}
