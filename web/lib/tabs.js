// SPDX-License-Identifier: Apache-2.0
/*
 * tabs.js: one stream for all tabs. A browser opens six connections to a host and no more:
 * with a stream in each, six tabs would leave none to ask or to act with. So tabs take
 * turns: who has the lock reads, and tells the others what it reads over a channel. When it
 * is closed, crashes or is frozen the lock passes on, and the next goes on behind the last
 * event that it was told of.
 *
 * Lock and channel are named by the token: nobody is told what another's token may see.
 * Where tabs cannot find each other (plain http from another host has neither locks nor
 * hashes) each reads for itself while it is looked at, and lets go while it is hidden.
 */
import { onToken, token } from "./api.js";
import { hurry, readStream } from "./stream.js";

const HELLO = "hello"; /* how is who reads? */
const LOOK_MS = 10000;
/* Looks without a word from who reads, until it is held for stuck and the lock is taken
   from it. The timers of a hidden tab run once a minute: it is to have the time. */
const QUIET_LOOKS = 9;

let turn = new AbortController(); /* ended when this tab is to begin anew */
let alone = false;
let frozen = false;
let stir = null; /* ends the sleep of a tab that lets others read */
let channel = null;
let leading = false;
let connected = false; /* as who reads said last */
let quiet = 0;

/* What all tabs with this token call themselves; null: they cannot find each other. */
async function groupOf(shown) {
	if (!navigator.locks || !globalThis.BroadcastChannel || !globalThis.crypto?.subtle) return null;
	const sum = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(shown ?? ""));
	const hex = Array.from(new Uint8Array(sum), (byte) => byte.toString(16).padStart(2, "0"));
	return `defib.live.${hex.join("")}`;
}

/* ---- tabs that sleep ---- */

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

/* ---- who reads ---- */

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

/* Waits for the lock, but not for somebody who is stuck. */
async function oneTurn(group, signal, lead) {
	const patience = new AbortController();
	const end = () => patience.abort();
	/* Looks are counted, not time: after the sleep of the whole machine nobody is stuck. */
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
			if (until.aborted) return; /* another reads by now */
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

/* Try again now, whoever reads. */
export function askAgain() {
	hurry();
	channel?.postMessage(HELLO);
}

/*
 * Never ends. last() is the id of the last event that this tab has seen; news({connected,
 * after, id, event}) tells of each event, whoever read it, and of the connection where
 * `event` is null. `after` is the id that was there before it.
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
