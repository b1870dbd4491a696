// SPDX-License-Identifier: Apache-2.0
/*
 * live.js: live events: one stream for the whole page and for all its tabs (tabs.js,
 * stream.js). Nothing is missed or repeated, whichever tab reads it (place.js).
 *
 *   const stop = subscribe((event) => { if (event.type === "ledger") … event.data … });
 *   every(10, refresh, signal);      also immediately after a break; never while paused
 *   const again = soon(250, refresh, signal); again();     many calls are one
 */
import { heard } from "./api.js";
import { errand, QUIETLY } from "./errand.js";
import { Place } from "./place.js";
import { askAgain, shareStream } from "./tabs.js";

const KEEP = 2000; /* events that wait while paused; beyond that there is a gap */

const listeners = new Set();
const stateListeners = new Set();
const state = { connected: false, paused: false, waiting: 0, heard: null };
const place = new Place();
let kept = [];
let started = false;

/* ---- listeners ---- */

/* fn({type, data, id}); types: ledger, watch, database, gap. Returns a function that stops it. */
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

/* What was read of it, by this tab or by the one that reads for all (tabs.js). */
function learn({ connected, after, id, event }) {
	if (connected) heard(true);
	if (place.isBehind(after ?? id))
		take({ type: "gap", data: { because: "this tab was asleep" }, id });
	if (event && !(event.type === "ledger" && place.has(event.data))) take({ ...event, id });
	if (event?.type === "gap") place.jump(id);
	else place.move(id);
	changed({ connected, heard: connected ? Date.now() : state.heard });
}

function start() {
	if (started) return;
	started = true;
	shareStream(() => place.id, learn);
}

/* Try again now: the daemon was heard from, or the tab is visible again. */
export function reconnect() {
	if (!state.connected) askAgain();
}

/* ---- repeated requests ---- */

const pokes = new Set();

/* Runs what every() was given, now: after a break, a pause, or an act. */
export function poke() {
	for (const fn of pokes) fn();
}

/*
 * Calls async fn() at this interval in seconds until the signal ends, never twice at once, not
 * while paused and not in a hidden tab. The frame reports outages.
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

/* A function that has async fn() called a little later, once however often it was requested. */
export function soon(ms, fn, signal) {
	let waiting = null;
	return () => {
		waiting ??= setTimeout(() => {
			waiting = null;
			if (!signal.aborted) errand(fn, signal, QUIETLY);
		}, ms);
	};
}
