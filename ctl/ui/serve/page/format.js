// format.js -- numbers as mtctl prints them (MB and GB are 2^20 and 2^30 bytes), and times.

const KB = 1024;
const MB = 1024 * KB;
const GB = 1024 * MB;
export const DASH = "\u2013";

export function bytes(value) {
	if (value === null || value === undefined)
		return DASH;
	return value >= 10 * GB ? (value / GB).toFixed(1) + " GB" : (value / MB).toFixed(1) + " MB";
}

// The parts of resident memory, from below: names in JSON (NAME_bytes of "parts") and classes.
export const PARTS = [
	{name: "live", text: "in use by the program"},
	{name: "reusable", text: "free in the allocator, still resident: a cleanup returns it"},
	{name: "files", text: "pages of programs, libraries and mapped files; shared memory"},
	{name: "other", text: "stacks, other mappings, what lies between live blocks"},
];

export function change(from, to) {
	const sign = to > from ? "+" : to < from ? "\u2212" : "";

	return sign + bytes(Math.abs(to - from));
}

export function count(value) {
	return value === null || value === undefined ? DASH : Math.round(value).toLocaleString("en-US");
}

export function counted(value, one, more) {
	return `${count(value)} ${value === 1 ? one : more}`;
}

export function duration(ns) {
	return ns >= 1e10 ? (ns / 1e9).toFixed(1) + " s" : (ns / 1e6).toFixed(1) + " ms";
}

// A duration as text: "12 s", "5 min", "3 h", "2 days".
export function span(ms) {
	const seconds = Math.max(0, Math.round(ms / 1000));

	if (seconds < 120)
		return seconds + " s";
	if (seconds < 7200)
		return Math.round(seconds / 60) + " min";
	return seconds < 172800 ? Math.round(seconds / 3600) + " h" : Math.round(seconds / 86400) + " days"; // two at least
}

function two(value) {
	return String(value).padStart(2, "0");
}

export function clock(ms, withSeconds = true) {
	const time = new Date(ms);

	return two(time.getHours()) + ":" + two(time.getMinutes()) + (withSeconds ? ":" + two(time.getSeconds()) : "");
}

export function percent(part, whole) {
	return whole > 0 ? (100 * part / whole).toFixed(part * 10 < whole ? 1 : 0) + " %" : DASH;
}
