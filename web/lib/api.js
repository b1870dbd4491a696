// SPDX-License-Identifier: Apache-2.0
/*
 * api.js: requests to the daemon. A failure is thrown as a Problem with the server's texts.
 * If a token is needed, the user is asked for it; it is kept for this tab only, and sent as
 * a header.
 *
 *   const { jobs } = await get(`/watches/${part(watch)}/jobs`, { query: { state, limit: 50 }, signal });
 *   await post(`${jobPath(watch, key, database)}/requeue`, { reason });
 *   onReach(({ away, since }) => …)       whether the daemon answers at all
 */

const BASE = "/api/v1";
const KEPT = "defib.token";

/* What went wrong, in the server's words: `message` is the detail, `next` what to do. */
export class Problem extends Error {
	constructor(status, { title = "", detail = "", next = null } = {}) {
		super(detail || title || `the daemon answered ${status}`);
		this.name = "Problem";
		this.status = status; /* 0: it did not answer */
		this.title = title;
		this.detail = this.message;
		this.next = next;
	}

	/* The database or the daemon is unavailable or busy: the request can be repeated. */
	get passing() {
		return this.status === 0 || this.status === 503 || this.status === 429;
	}
}

/* ---- the token ---- */

let asking = null; /* a promise while the form is open */
let askForToken = null;
const tokenListeners = new Set();

export function token() {
	return sessionStorage.getItem(KEPT);
}

export function forgetToken() {
	sessionStorage.removeItem(KEPT);
}

/* fn() whenever another token is entered. */
export function onToken(fn) {
	tokenListeners.add(fn);
}

/* fn(why) shows the form and resolves with a token. */
export function onTokenNeeded(fn) {
	askForToken = fn;
}

async function newToken(shown, why) {
	/* Another call may have asked for one meanwhile. */
	if (token() && token() !== shown) return;
	if (!askForToken) throw new Problem(401, { detail: why });
	asking ??= askForToken(shown ? why : null).then((given) => {
		sessionStorage.setItem(KEPT, given);
		asking = null;
		for (const fn of tokenListeners) fn();
	});
	await asking;
}

/* ---- whether the daemon answers ---- */

const reach = { away: false, since: null, heard: null };
const reachListeners = new Set();

export function reached() {
	return { ...reach };
}

/*
 * fn({away, since, heard}) at each change between available and unavailable. Returns a function
 * that stops it.
 */
export function onReach(fn) {
	reachListeners.add(fn);
	return () => reachListeners.delete(fn);
}

/* The daemon was heard from, or was silent when it should not have been. */
export function heard(there) {
	if (there) reach.heard = Date.now();
	if (reach.away === !there) return;
	reach.away = !there;
	reach.since = Date.now();
	for (const fn of reachListeners) fn(reached());
}

/* ---- calls ---- */

/* A part of a path: a key of several parts is a JSON list. */
export function part(value) {
	return encodeURIComponent(Array.isArray(value) ? JSON.stringify(value) : String(value));
}

/* {a: 1, b: ["x", "y"], c: null} is ?a=1&b=x&b=y */
export function queryText(query) {
	const pairs = new URLSearchParams();
	for (const [name, value] of Object.entries(query ?? {}))
		for (const one of Array.isArray(value) ? value : [value])
			if (one !== null && one !== undefined && one !== "") pairs.append(name, one);
	const text = pairs.toString();
	return text ? `?${text}` : "";
}

/* The API path of a job; `database` only matters for the built-in queue. */
export function jobPath(watch, key) {
	return `/watches/${part(watch)}/jobs/${part(key)}`;
}

/* The page address of a job. */
export function jobHref(watch, key, database = null) {
	return `/jobs/${part(watch)}/${part(key)}${queryText({ database: watch === "queue" ? database : null })}`;
}

/* The page address of a watch. */
export function watchHref({ watch, database, builtin }) {
	return `/watches/${part(watch)}${queryText({ database: builtin ? database : null })}`;
}

function away() {
	heard(false);
	return new Problem(0, {
		title: "away",
		detail: "the daemon does not answer",
		next: "the page tries again by itself",
	});
}

async function send(path, options) {
	const shown = token();
	const headers = { ...options.headers };
	if (shown) headers.Authorization = `Bearer ${shown}`;
	let answer;
	try {
		answer = await fetch(BASE + path, { ...options, headers, cache: "no-store" });
	} catch {
		options.signal?.throwIfAborted();
		throw away();
	}
	heard(true);
	return { answer, shown };
}

async function problemOf(answer) {
	let said = {};
	try {
		said = await answer.json();
	} catch {
		said = { title: answer.statusText };
	}
	return new Problem(answer.status, said);
}

/* The answer to a successful call, after asking for a token if one is needed. */
export async function ask(path, options = {}) {
	for (;;) {
		const { answer, shown } = await send(path, options);
		if (answer.ok) return answer;
		const problem = await problemOf(answer);
		if (answer.status !== 401) throw problem;
		await newToken(shown, problem.detail);
	}
}

/* An answer may be cut off in the middle. */
async function bodyOf(answer, signal) {
	const kind = answer.headers.get("Content-Type") ?? "";
	try {
		return await (kind.startsWith("application/json") ? answer.json() : answer.text());
	} catch (error) {
		signal?.throwIfAborted();
		if (!(error instanceof TypeError)) throw error;
		throw away();
	}
}

async function call(method, path, { query = null, body, signal = null } = {}) {
	const options = { method, signal, headers: {} };
	if (body !== undefined) {
		options.headers["Content-Type"] = "application/json";
		options.body = JSON.stringify(body);
	}
	const answer = await ask(path + queryText(query), options);
	if (answer.status === 204) return null;
	return bodyOf(answer, signal);
}

export function get(path, { query, signal } = {}) {
	return call("GET", path, { query, signal });
}

export function post(path, body = {}, { query, signal } = {}) {
	return call("POST", path, { query, body, signal });
}

export function del(path, body = {}, { query, signal } = {}) {
	return call("DELETE", path, { query, body, signal });
}

/* ---- the state of the daemon: requested by the frame, known to all views ---- */

let status = null;
const statusListeners = new Set();

/* The last /status, or null. */
export function daemonStatus() {
	return status;
}

export function onStatus(fn) {
	statusListeners.add(fn);
	return () => statusListeners.delete(fn);
}

async function askStatus(signal) {
	status = await get("/status", { signal });
	for (const fn of statusListeners) fn(status);
	return status;
}

let first = null;

/* The first request is one for all that start with the page. */
export function readStatus(signal = null) {
	if (status) return askStatus(signal);
	first ??= askStatus(null).finally(() => {
		first = null;
	});
	return first;
}

/* Names of all databases; the first is used if none is named. */
export async function databases() {
	return ((status ?? (await readStatus())).databases ?? []).map((d) => d.name);
}

/* After this, may() has an answer: views that offer acts wait for it. */
export async function knownRole(signal = null) {
	if (!status) await readStatus(signal);
}

/* Whether a role suffices: viewer, operator, admin. */
export function may(role) {
	const order = ["none", "viewer", "operator", "admin"];
	return order.indexOf(status?.role ?? "none") >= order.indexOf(role);
}
