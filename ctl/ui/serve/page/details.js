// details.js -- the details of the selected process.
import {Chart} from "./chart.js";
import {byId, setText, syncFacts, syncTable} from "./dom.js";
import {DASH, PARTS, bytes, change, clock, count, counted, duration, percent, span} from "./format.js";
import {budgetOf} from "./history.js";

const HOST_LINES = PARTS.map(({name}) => ({key: name + "_bytes", label: name, colour: name}));
const GPU_LINES = [
	{key: "gpu_reserved_bytes", label: "reserved", colour: "rss"},
	{key: "gpu_allocated_bytes", label: "allocated", colour: "live"},
];
const RECORDS_SHOWN = 100;
const DISPOSITIONS = ["none", "the shim's", "the shim's, then the program's", "lost", "ignored", "the program's alone"];
const PRESSURE = ["none", "warn", "critical"];

export class Details {
	#pid = 0;
	#host = new Chart(byId("host-chart"), {title: "Memory, RSS", stacked: true, file: () => `mtshim-${this.#pid}`});
	#gpu = new Chart(byId("gpu-chart"), {title: "GPU memory", stacked: false, file: () => `mtshim-${this.#pid}-gpu`});

	// A process whose figures are not there yet, or never will be: what the list says of it.
	begin(row) {
		setText(byId("details-title"), `${row.pid} ${row.name}`);
		setText(byId("command"), row.command);
		syncFacts(byId("facts"), [{name: "State", value: row.state}, {name: "RSS", value: bytes(row.rss_bytes)}]);
		for (const id of ["records", "devices", "settings"])
			byId(id).replaceChildren();
		for (const id of ["host-chart", "gpu-chart", "devices-section"])
			byId(id).hidden = true;
	}

	update(detail, row) {
		const usesGpu = detail.cuda !== "" && detail.cuda !== "off";
		const marks = detail.records.filter(isShown).map(markOf);
		const since = detail.records_since_ns === null ? null : detail.records_since_ns / 1e6;
		const now = detail.time_ns / 1e6;

		setText(byId("details-title"), `${detail.pid} ${row?.name ?? detail.comm}${detail.rank ? ", rank " + detail.rank : ""}`);
		setText(byId("command"), row?.command ?? detail.comm);
		syncFacts(byId("facts"), [...hostFacts(detail), ...(usesGpu ? gpuFacts(detail) : [])]);
		byId("host-chart").hidden = false;
		byId("gpu-chart").hidden = !usesGpu;
		this.#pid = detail.pid;
		this.#host.update({series: HOST_LINES, marks, now, since, rows: detail.samples.map(({time_ns, parts}) =>
			[time_ns / 1e6, ...HOST_LINES.map(({key}) => parts[key])])});
		if (usesGpu)
			this.#gpu.update({series: GPU_LINES, marks, now, since, rows: detail.samples.map((sample) =>
				[sample.time_ns / 1e6, ...GPU_LINES.map(({key}) => sample[key])])});
		showRecords(detail, usesGpu);
		showDevices(detail);
		syncTable(byId("settings"), [{text: "Setting"}, {text: "Value"}, {text: "From"}],
			detail.settings.map((one) => ({key: one.name, cells: [one.name, one.value, one.origin]})));
	}
}

// A cleanup after a late collection is told with the one that asked for the collection.
function isShown(record) {
	return !record.merged && record.late_of === null;
}

function markOf(record) {
	const kind = record.pressure ? "pressure" : record.round > 0 || record.reason === "round" ? "round" :
		record.result === 1 ? "freed" : "nothing";

	return {key: record.number, time: record.time_ns / 1e6, kind, text: describe(record)};
}

function describe(record) {
	const why = record.pressure ? `${record.reason} (${record.pressure.sources.join(", ")})` :
		record.round > 0 ? `${record.reason} ${record.round}` : record.reason;

	return `${why}: ${record.level}, RSS ${change(record.rss_before_bytes, record.rss_after_bytes)}` +
		(record.gc_text === null ? "" : `; gc: ${record.gc_text}`);
}

function hostFacts(detail) {
	const budget = budgetOf(detail);
	const limited = detail.pressure_limit_bytes !== null;
	const facts = [
		{name: "RSS", value: bytes(detail.rss_bytes), title: `highest ${bytes(detail.rss_peak_bytes)}`},
		...PARTS.map((part) => ({name: part.name[0].toUpperCase() + part.name.slice(1),
			value: bytes(detail.parts[part.name + "_bytes"]), title: part.text})),
		{name: "Highest RSS", value: bytes(detail.rss_peak_bytes)},
		{name: "Returned in total", value: bytes(detail.purged_bytes), title: `in ${counted(detail.purge_count, "purge", "purges")}`},
		{name: "Cleanups", value: `${count(detail.light_count)} light, ${count(detail.heavy_count)} heavy`},
		{name: "Rounds", value: count(detail.rounds_count)},
		{name: "Budget", value: `${budget.used.toFixed(2)} of ${budget.allowed} %`,
			title: "of the time went into cleaning and the page faults after it; MT_BUDGET_PCT is the most"},
		{name: "Pressure", value: PRESSURE[detail.pressure_level] ?? "?", level: PRESSURE[detail.pressure_level],
			title: "of the limits that hold for it, and of the kernel's own figures"},
		{name: "Limit used",
			value: limited ? percent(detail.pressure_used_bytes, detail.pressure_limit_bytes) : "no limit",
			title: limited ? `of ${bytes(detail.pressure_limit_bytes)}: ${detail.limit_source}` : null},
		{name: "Allocator", value: `${detail.allocator} (${detail.mode})`, title: detail.evidence},
		{name: "Awake for", value: span(detail.uptime_ms)},
		{name: "Signal", value: DISPOSITIONS[detail.signal_disposition] ?? "?", title: "whose handler answers SIGUSR1"},
	];

	if (detail.swap_bytes > 0)
		facts.push({name: "Swapped out", value: bytes(detail.swap_bytes), level: "warn"});
	if (detail.limit_reports_count > 0)
		facts.push({name: "RSS limit reports", value: count(detail.limit_reports_count), level: "critical",
			title: "times that MT_RSS_LIMIT_MB was reached: mtctl stat PID --oom"});
	return facts;
}

function gpuFacts(detail) {
	const facts = [
		{name: "GPU reserved", value: bytes(detail.gpu_reserved_bytes), title: "held from the driver"},
		{name: "GPU allocated", value: bytes(detail.gpu_allocated_bytes), title: "handed to the program"},
		{name: "GPU idle", value: bytes(detail.gpu_idle_bytes), title: "cached and ready"},
		{name: "GPU mode", value: detail.cuda.split(":")[0], title: detail.cuda},
	];

	if (detail.gpu_num_ooms > 0)
		facts.push({name: "GPU out of memory", value: counted(detail.gpu_num_ooms, "time", "times"), level: "critical",
			title: "mtctl stat PID --oom has the reports"});
	return facts;
}

// The newest first.
function showRecords(detail, usesGpu) {
	const heads = [{text: "Time"}, {text: "Reason"}, {text: "Level"}, {text: "RSS before", numeric: true},
		{text: "after", numeric: true}, {text: "change", numeric: true}, {text: "Cost", numeric: true},
		{text: "Waited", numeric: true}, {text: "Python's gc"}];
	const rows = detail.records.filter(isShown).slice(-RECORDS_SHOWN).reverse().map((record) => ({
		key: record.number,
		title: describe(record),
		cells: [clock(record.time_ns / 1e6), record.reason, record.level, bytes(record.rss_before_bytes),
			bytes(record.rss_after_bytes), change(record.rss_before_bytes, record.rss_after_bytes),
			duration(record.cost_ns), record.gc_wait_ns < 1e6 ? DASH : duration(record.gc_wait_ns),
			record.gc_text ?? DASH, ...(usesGpu ? [gpuChange(record)] : [])],
	}));

	if (usesGpu)
		heads.push({text: "GPU change", numeric: true});
	if (!rows.length)
		rows.push({key: 0, cells: heads.map((head, i) => (i ? "" : "none yet"))});
	syncTable(byId("records"), heads, rows);
}

function gpuChange(record) {
	return record.gpu_before_bytes === null ? bytes(null) : change(record.gpu_before_bytes, record.gpu_after_bytes);
}

function showDevices(detail) {
	byId("devices-section").hidden = !detail.devices.length;
	syncTable(byId("devices"), [{text: "Device"}, {text: "Name"}, {text: "Mode"}, {text: "Allocated", numeric: true},
		{text: "Idle", numeric: true}, {text: "Pending", numeric: true}, {text: "Reserved", numeric: true},
		{text: "Free", numeric: true}, {text: "Total", numeric: true}],
	detail.devices.map((device) => ({key: device.ordinal, title: device.pci, cells: [String(device.ordinal), device.name,
		device.mode, bytes(device.allocated_bytes), bytes(device.idle_bytes), bytes(device.pending_bytes),
		bytes(device.reserved_bytes), bytes(device.free_bytes), bytes(device.total_bytes)]})));
}
