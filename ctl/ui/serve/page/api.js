// api.js -- requests to the server, and the token that they need.

const ANSWER_MS = 10000;
const CLEAN_MS = 40000; // the server itself gives up after 30 s
const KEPT = "mtshim-token";

export class Refused extends Error {
	constructor(status, text) {
		super(text);
		this.status = status;
	}
}

async function ask(path, options, timeoutMs) {
	const used = token();
	const headers = used === null ? {} : {Authorization: "Bearer " + used};
	const answer = await fetch(path, {cache: "no-store", signal: AbortSignal.timeout(timeoutMs), headers, ...options});
	const body = await answer.json().catch(() => null);

	// It is of no use any more, but for a new one that has come meanwhile.
	if (answer.status === 401 && token() === used)
		keepToken(null);
	if (!answer.ok)
		throw new Refused(answer.status, body?.error ?? `${answer.status} ${answer.statusText}`);
	if (body === null)
		throw new Error("the answer is not JSON");
	return body;
}

export function get(path, timeoutMs = ANSWER_MS) {
	return ask(path, {}, timeoutMs);
}

export function post(path, timeoutMs) {
	return ask(path, {method: "POST"}, timeoutMs);
}

export function clean(pid, level) {
	return post(`/api/processes/${pid}/trim?level=${level}`, CLEAN_MS);
}

export function token() {
	return sessionStorage.getItem(KEPT);
}

// null: forgets it.
export function keepToken(text) {
	if (text === null)
		sessionStorage.removeItem(KEPT);
	else
		sessionStorage.setItem(KEPT, text);
}

// Fails with 401 where the token is wrong, with 403 where it is the one for reading.
export function probeToken() {
	return get("/api/token");
}

// The token is missing or wrong, such as after a restart of the server.
export function isLocked(error) {
	return error instanceof Refused && error.status === 401;
}

// Removes "token" from the fragment, so that the address can be shared. Returns the rest of the fragment.
export function readFragment() {
	const fragment = new URLSearchParams(location.hash.slice(1));

	if (fragment.has("token")) {
		keepToken(fragment.get("token"));
		fragment.delete("token");
		history.replaceState(null, "", fragment.size ? "#" + fragment : location.pathname);
	}
	return fragment;
}
