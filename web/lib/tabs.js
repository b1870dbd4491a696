// SPDX-License-Identifier: Apache-2.0
/*
 * tabs.js: one stream for all tabs.
 *
 * A browser opens at most six connections to a host: with a stream in each, six tabs would leave
 * none for requests. So tabs take turns: the tab that has the lock reads, and sends what it reads
 * to the others over a channel. When it is closed, crashes or is frozen, the lock passes on, and
 * the next tab continues after the last event that it received. Lock and channel are named by the
 * token, so that no tab receives what another's token may see.
 *
 * If tabs cannot find each other (plain http from another host has neither locks nor hashes), each
 * reads for itself while it is visible, and stops while it is hidden.
 */
import { onToken, token } from "./api.js";
import { hurry, readStream } from "./stream.js";

const HELLO = "hello"; /* how is the reader? */
const LOOK_MS = 10000;
/*
 * Checks without a message from the reader before it is considered stuck and the lock is taken from
 * it. The timers of a hidden tab run once a minute: it must have enough time.
 */
const QUIET_LOOKS = 9;

let turn = new AbortController(); /* ended when this tab must start again */
let alone = false;
let frozen = false;
let stir = null; /* ends the sleep of a tab that lets others read */
let channel = null;
let leading = false;
let connected = false; /* as last reported by the reader */
let quiet = 0;

/* The common name of all tabs with this token; null: they cannot find each other. */
async function groupOf(shown) {
	if (!navigator.locks || !globalThis.BroadcastChannel || !globalThis.crypto?.subtle) return null;
	const sum = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(shown ?? ""));
	const hex = Array.from(new Uint8Array(sum), (byte) => byte.toString(16).padStart(2, "0"));
	return `defib.live.${hex.join("")}`;
}

/* ---- sleeping tabs ---- */

const sleeps = () => frozen || (alone && document.hidden);

async function awake() {
	while (sleeps())
		await new Promise((resolve) => {
			stir = resolve;
		});
}

function followLife() {
	const look = () => {
		if (sleeps()) turn.abort();
		stir?.();
	};
	const freeze = (now) => () => {
		frozen = now;
		look();
	};
	document.addEventListener("freeze", freeze(true));
	document.addEventListener("resume", freeze(false));
	addEventListener("pagehide", freeze(true));
	addEventListener("pageshow", freeze(false));
	document.addEventListener("visibilitychange", look);
	onToken(() => turn.abort());
}

/* ---- the reader ---- */

function ended(signal) {
	return new Promise((resolve) => {
		signal.addEventListener("abort", resolve);
	});
}

/* lead(until) while this tab has the lock; the lock does not wait for what lead() still does. */
async function withLock(group, options, signal, lead) {
	const mine = new AbortController();
	const end = () => mine.abort();
	signal.addEventListener("abort", end);
	try {
		await navigator.locks.request(group, options, () =>
			Promise.race([lead(mine.signal), ended(mine.signal)]),
		);
	} catch (error) {
		/* It was taken away, or is not waited for any more. */
		if (error.name !== "AbortError") throw error;
	} finally {
		signal.removeEventListener("abort", end);
		end();
	}
}

/* Waits for the lock, but not for a tab that is stuck. */
async function oneTurn(group, signal, lead) {
	const patience = new AbortController();
	const end = () => patience.abort();
	/* Checks are counted, not time: after a suspend of the machine no tab is stuck. */
	const watchdog = setInterval(() => {
		if (++quiet >= QUIET_LOOKS) end();
	}, LOOK_MS);
	const leadNow = (until) => {
		clearInterval(watchdog);
		return lead(until);
	};
	quiet = 0;
	signal.addEventListener("abort", end);
	try {
		await withLock(group, { signal: patience.signal }, signal, leadNow);
		if (patience.signal.aborted && !signal.aborted)
			await withLock(group, { steal: true }, signal, leadNow);
	} finally {
		clearInterval(watchdog);
		signal.removeEventListener("abort", end);
	}
}

async function takeTurns(group, signal, last, news) {
	const say = (told) => channel.postMessage(told);
	const lead = async (until) => {
		leading = true;
		await readStream(until, last, (read) => {
			if (until.aborted) return; /* another tab reads by now */
			const told = { after: last(), ...read };
			connected = told.connected;
			say(told);
			news(told);
		});
	};
	const hear = ({ data }) => {
		if (data !== HELLO) {
			quiet = 0;
			connected = data.connected;
			news(data);
		} else if (leading) {
			hurry();
			say({ after: last(), id: last(), connected, event: null });
		}
	};
	channel = new BroadcastChannel(group);
	channel.addEventListener("message", hear);
	say(HELLO);
	while (!signal.aborted) {
		await oneTurn(group, signal, lead);
		leading = false;
	}
	channel.close();
	channel = null;
}

/* Try again now, whichever tab reads. */
export function askAgain() {
	hurry();
	channel?.postMessage(HELLO);
}

/*
 * Never ends. last() is the id of the last event that this tab has seen; news({connected, after,
 * id, event}) is called for each event, whichever tab read it, and for the connection with `event`
 * null. `after` is the id before it.
 */
export async function shareStream(last, news) {
	followLife();
	for (;;) {
		turn = new AbortController();
		const { signal } = turn;
		const group = await groupOf(token());
		alone = group === null;
		await awake();
		if (signal.aborted) continue;
		if (alone) await readStream(signal, last, (read) => news({ after: last(), ...read }));
		else await takeTurns(group, signal, last, news);
		news({ connected: false, after: last(), id: last(), event: null });
	}
}
