/*
 * live.js: what happens, as it happens. One stream for the whole page, read with fetch()
 * so that the token goes in a header. After a break it goes on behind the last event
 * that was seen: nothing is missed, nothing comes twice.
 *
 *   const stop = subscribe((event) => { if (event.type === "ledger") … event.data … });
 *   every(10, refresh, signal);      also at once after a break; never while paused
 *   const again = soon(250, refresh, signal); again();     many calls are one
 */
import { ask, heard, Problem } from "./api.js";
import { errand, QUIETLY } from "./errand.js";

const KEEP = 2000; /* events that wait while paused; more of them are a gap */
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15000;
const SILENCE_MS = 40000; /* the daemon says something every 15 s */

const listeners = new Set();
const stateListeners = new Set();
const state = { connected: false, paused: false, waiting: 0, heard: null };
let lastId = null;
let kept = [];
let started = false;
let wake = null; /* ends the wait between two tries */

/* ---- who listens ---- */

/* fn({type, data, id}); types: ledger, watch, database, gap. Returns how to stop. */
export function subscribe(fn) {
	listeners.add(fn);
	start();
	return () => listeners.delete(fn);
}

/* {connected, paused, waiting, heard} */
export function liveState() {
	return { ...state };
}

export function onLive(fn) {
	stateListeners.add(fn);
	return () => stateListeners.delete(fn);
}

function changed(news) {
	Object.assign(state, news);
	for (const fn of stateListeners) fn(liveState());
}

function tell(event) {
	for (const fn of listeners) {
		try {
			fn(event);
		} catch (error) {
			console.error(error);
		}
	}
}

function take(event) {
	if (!state.paused) {
		tell(event);
		return;
	}
	if (kept.length < KEEP) kept.push(event);
	else
		kept = [
			{
				type: "gap",
				data: { because: "too much happened while this page was paused" },
				id: event.id,
			},
		];
	changed({ waiting: kept.filter((e) => e.type === "ledger" || e.type === "gap").length });
}

/* ---- paused ---- */

export function pause() {
	changed({ paused: true, waiting: 0 });
}

export function resume() {
	const missed = kept;
	kept = [];
	changed({ paused: false, waiting: 0 });
	missed.forEach(tell);
	poke();
}

/* ---- the stream ---- */

/* Lines of a stream to events; ids move on with comments too. */
function parser() {
	let rest = "",
		type = "message",
		data = [],
		id = null;
	return (text) => {
		rest += text;
		const lines = rest.split("\n");
		rest = lines.pop();
		for (const line of lines) {
			if (line === "") {
				if (id !== null) lastId = id;
				if (data.length) take({ type, data: JSON.parse(data.join("\n")), id: lastId });
				type = "message";
				data = [];
				continue;
			}
			const colon = line.indexOf(":");
			const name = colon < 0 ? line : line.slice(0, colon);
			const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
			if (name === "event") type = value;
			else if (name === "data") data.push(value);
			else if (name === "id") id = value;
		}
	};
}

async function read() {
	const cut = new AbortController();
	const watchdog = setInterval(() => {
		if (Date.now() - state.heard > SILENCE_MS) cut.abort();
	}, 5000);
	try {
		changed({ heard: Date.now() });
		const headers = lastId === null ? {} : { "Last-Event-ID": lastId };
		const answer = await ask("/events", { headers, signal: cut.signal });
		const reader = answer.body.getReader();
		const decoder = new TextDecoder();
		const parse = parser();
		changed({ connected: true, heard: Date.now() });
		for (;;) {
			const { done, value } = await reader.read();
			if (done) return;
			heard(true);
			changed({ heard: Date.now() });
			parse(decoder.decode(value, { stream: true }));
		}
	} finally {
		clearInterval(watchdog);
		cut.abort();
		changed({ connected: false });
	}
}

function rest(ms) {
	return new Promise((resolve) => {
		const timer = setTimeout(resolve, ms);
		wake = () => {
			clearTimeout(timer);
			resolve();
		};
	});
}

async function run() {
	let wait = FIRST_WAIT_MS;
	for (;;) {
		const began = Date.now();
		try {
			await read();
		} catch (error) {
			if (error instanceof Problem && !error.passing) wait = LONGEST_WAIT_MS;
		}
		if (Date.now() - began > 10000) wait = FIRST_WAIT_MS;
		await rest(wait * (0.5 + Math.random() / 2));
		wait = Math.min(LONGEST_WAIT_MS, wait * 2);
	}
}

function start() {
	if (started) return;
	started = true;
	run();
}

/* Try again now: the daemon was heard of, or the tab is looked at again. */
export function reconnect() {
	if (!state.connected) wake?.();
}

/* ---- asking again by the clock ---- */

const pokes = new Set();

/* Runs what every() was given, now: after a break, a pause, or an act. */
export function poke() {
	for (const fn of pokes) fn();
}

/*
 * Calls async fn() every so many seconds until the signal ends, never twice at once, not
 * while paused and not in a hidden tab. What is away is told by the frame.
 */
export function every(seconds, fn, signal) {
	let busy = false;
	const turn = async () => {
		if (busy || state.paused || document.hidden || signal.aborted) return;
		busy = true;
		try {
			await errand(fn, signal, QUIETLY);
		} finally {
			busy = false;
		}
	};
	const timer = setInterval(turn, seconds * 1000);
	pokes.add(turn);
	signal.addEventListener("abort", () => {
		clearInterval(timer);
		pokes.delete(turn);
	});
}

/* A function that has async fn() called a little later, once however often it was wanted. */
export function soon(ms, fn, signal) {
	let waiting = null;
	return () => {
		waiting ??= setTimeout(() => {
			waiting = null;
			if (!signal.aborted) errand(fn, signal, QUIETLY);
		}, ms);
	};
}
