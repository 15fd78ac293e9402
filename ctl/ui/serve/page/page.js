// page.js -- requests the list every two seconds and passes it on. Its own state: the selected process, and whether the server
// replies.
import {Refused, get, isLocked, readFragment} from "./api.js";
import {Cleaner} from "./cleaner.js";
import {Details} from "./details.js";
import {byId, setAttribute, setText, syncFacts} from "./dom.js";
import {PARTS, bytes, clock, percent, span} from "./format.js";
import {FlameGraph} from "./flame.js";
import {Memory} from "./history.js";
import {Overview} from "./overview.js";
import {PoolView} from "./pool.js";
import {ProcessTable} from "./table.js";
import {TokenField} from "./token.js";

const POLL_MS = 2000;
const HIDDEN_POLL_MS = 30000;
const LEARN_AT_ONCE = 6; // full figures fetched in one poll, for processes other than the one that is selected

const memory = new Memory();
const table = new ProcessTable(byId("processes"), choose);
const details = new Details();
const cleaner = new Cleaner(() => poll());
const pool = new PoolView();
const flame = new FlameGraph();
const overview = new Overview(memory, choose);
const tokenField = new TokenField(() => { cleaner.tokenCame(); poll(); });
let rows = [];
let chosen = null;     // pid
let timer = 0;
let running = false;   // a poll is under way
let again = false;     // and another one is wanted at once
let answeredAt = null; // time of the last answer to the list

function rowOf(pid) {
	return rows.find((row) => row.pid === pid);
}

function goneText(pid) {
	return `Process ${pid} is gone. These are its last figures.`;
}

// ---- the selected process ----

function choose(pid) {
	const row = rowOf(pid);

	chosen = pid;
	table.chosen = pid;
	byId("details").hidden = pid === null;
	document.body.classList.toggle("selected", pid !== null);
	byId("gone").hidden = true;
	history.replaceState(null, "", pid === null ? location.pathname : "#pid=" + pid);
	cleaner.choose(pid);
	pool.choose(pid);
	flame.choose(pid);
	if (row)
		details.begin(row);
	if (pid !== null)
		poll();
}

// Its last figures stay on the page.
function showGone(text) {
	byId("gone").hidden = false;
	setText(byId("gone"), text);
	cleaner.refresh(false);
	pool.refresh(false);
	flame.refresh(null);
}

async function lookAtChosen() {
	const pid = chosen;
	const row = rowOf(pid);

	if (pid === null)
		return;
	if (!row)
		return showGone(goneText(pid));
	if (row.state !== "awake") {
		details.begin(row);
		return showGone(row.state === "asleep" ? "Asleep: mtctl stat says why." :
			row.state === "refused" ? "Its file or its MT_DIR is refused: mtctl stat says why." :
			"It does not answer: its mappings cannot be read in time.");
	}
	const detail = await get(`/api/processes/${pid}`).catch((error) => error);

	if (pid !== chosen)
		return;
	if (detail instanceof Error)
		return showGone(detail.status === 404 ? goneText(pid) : `No figures of process ${pid}: ${detail.message}`);
	byId("gone").hidden = true;
	memory.learn(detail, Date.now());
	details.update(detail, rowOf(pid));
	cleaner.refresh(true);
	pool.refresh(detail.cuda.startsWith("pool"));
	flame.refresh(detail);
}

// ---- all processes ----

function showSums(list) {
	const total = list.total;
	const facts = [
		{name: "Processes", value: String(list.processes.length)},
		{name: "RSS", value: bytes(total.rss_bytes), title: "pages that processes share are counted in each"},
		...PARTS.map((part) => ({name: part.name, value: bytes(total.parts[part.name + "_bytes"]), title: part.text})),
	];

	facts.push({name: "returned in total", value: bytes(list.processes.reduce((sum, one) => sum + one.purged_bytes, 0)),
		title: "RSS that all cleanups of these processes have returned since their start"});
	if (list.processes.some((one) => one.gpu_bytes !== null))
		facts.push({name: "GPU", value: bytes(total.gpu_bytes)});
	if (list.memory)
		facts.unshift({name: list.memory.is_cgroup ? "Container" : "Machine", title: list.memory.source,
			value: `${bytes(list.memory.used_bytes)} of ${bytes(list.memory.limit_bytes)}, ` +
				percent(list.memory.used_bytes, list.memory.limit_bytes)});
	syncFacts(byId("sums"), facts);
}

function showTable() {
	const now = Date.now();

	for (const row of rows)
		Object.assign(row, {now, points: memory.of(row.pid).points, summary: memory.of(row.pid).summary});
	table.update(rows);
	showEmpty();
}

function showEmpty() {
	byId("empty").hidden = table.shownCount > 0;
	byId("processes").hidden = table.shownCount === 0;
	setText(byId("empty"), rows.length ? "No process matches the filter." :
		"No process carries the shim. Start one with: mtctl run -- program\u2026");
}

async function learnOthers() {
	for (const one of memory.next(rows.filter((row) => row.pid !== chosen), Date.now()).slice(0, LEARN_AT_ONCE)) {
		const detail = await get(`/api/processes/${one.pid}`).catch(() => null);

		if (detail)
			memory.learn(detail, Date.now());
		else
			memory.postpone(one.pid, Date.now());
	}
}

// ---- the connection ----

function connectionText(error) {
	const since = answeredAt === null ? "" : `, last answer ${span(Date.now() - answeredAt)} ago (${clock(answeredAt)})`;

	if (isLocked(error))
		return "locked";
	if (error)
		return `no answer from mtctl serve${since}; trying again`;
	return document.hidden ? "slowly, this tab is hidden" : "live";
}

function showConnection(error) {
	const state = isLocked(error) ? "locked" : error ? "lost" : document.hidden ? "slow" : "live";

	setAttribute(byId("connection"), "data-state", state);
	setAttribute(document.body, "data-connection", state);
	setText(byId("connection"), connectionText(error));
	tokenField.refresh(error);
}

async function lookAtAll() {
	const list = await get("/api/processes");

	answeredAt = Date.now();
	rows = list.processes;
	memory.look(rows, answeredAt);
	showSums(list);
	overview.update(answeredAt); // before the table, so that nothing moves under the pointer
	showTable();
	await lookAtChosen();
	await learnOthers();
	overview.update(Date.now());
}

// One request at a time: the next one follows the reply, so that a slow server is not overloaded.
async function poll() {
	if (running) {
		again = true;
		return;
	}
	running = true;
	clearTimeout(timer);
	const error = await lookAtAll().then(() => null, (reason) => reason);

	if (error && !(error instanceof TypeError || error instanceof Refused || error.name === "TimeoutError"))
		console.error(error);
	showConnection(error);
	if (error)
		cleaner.refresh(false);
	running = false;
	timer = setTimeout(poll, again ? 0 : document.hidden ? HIDDEN_POLL_MS : POLL_MS);
	again = false;
}

function readAddress() {
	const fragment = readFragment();
	const pid = Number(fragment.get("pid"));

	cleaner.tokenCame();
	tokenField.say("");
	if (Number.isInteger(pid) && pid > 0 && pid !== chosen)
		choose(pid);
}

byId("filter").addEventListener("input", (event) => { table.filter = event.target.value; showEmpty(); });
byId("as-tree").addEventListener("change", (event) => { table.tree = event.target.checked; });
byId("close").addEventListener("click", () => choose(null));
addEventListener("hashchange", () => { readAddress(); poll(); });
document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
addEventListener("keydown", (event) => {
	if (event.target instanceof HTMLInputElement || event.ctrlKey || event.metaKey || event.altKey)
		return;
	if (event.key === "/") {
		event.preventDefault();
		byId("filter").focus();
	} else if (event.key === "Escape" && chosen !== null) {
		choose(null);
	}
});
readAddress();
poll();
