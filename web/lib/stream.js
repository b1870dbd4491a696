// SPDX-License-Identifier: Apache-2.0
/*
 * stream.js: server-sent events (GET /api/v1/events), read with fetch() so that the token is sent
 * in a header. After a break it continues after the last event that was seen: nothing is missed or
 * repeated.
 */
import { ask, Problem } from "./api.js";

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15000;
const LONG_MS = 10000; /* a connection that lasted this long counts as one */
const SILENCE_MS = 40000; /* the daemon sends something every 15 s */

/* {event: {type, data} or null, id or null} for each block; comments advance the id too. */
async function* blocksOf(body, heard) {
	const reader = body.getReader();
	const decoder = new TextDecoder();
	let rest = "",
		fields = { data: [] };
	for (;;) {
		const { done, value } = await reader.read();
		if (done) return;
		heard();
		const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
		rest = lines.pop();
		for (const line of lines) {
			if (line === "") {
				const { event: type = "message", data, id = null } = fields;
				yield {
					event: data.length ? { type, data: JSON.parse(data.join("\n")) } : null,
					id,
				};
				fields = { data: [] };
				continue;
			}
			const colon = line.indexOf(":");
			const name = colon < 0 ? line : line.slice(0, colon);
			const text = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
			if (name === "data") fields.data.push(text);
			else fields[name] = text;
		}
	}
}

/* Until the connection breaks or the signal ends. */
async function readOnce(signal, last, news) {
	const cut = new AbortController();
	const end = () => cut.abort();
	let heardAt = Date.now();
	const watchdog = setInterval(() => {
		if (Date.now() - heardAt > SILENCE_MS) end();
	}, 5000);
	signal.addEventListener("abort", end);
	try {
		const headers = last() === null ? {} : { "Last-Event-ID": last() };
		const answer = await ask("/events", { headers, signal: cut.signal });
		news({ connected: true, id: last(), event: null });
		const heard = () => {
			heardAt = Date.now();
		};
		for await (const { event, id } of blocksOf(answer.body, heard))
			news({ connected: true, id: id ?? last(), event });
	} finally {
		clearInterval(watchdog);
		signal.removeEventListener("abort", end);
		end();
	}
}

let wake = null; /* ends the wait between two tries */

function rest(ms, signal) {
	return new Promise((resolve) => {
		wake = () => {
			clearTimeout(timer);
			signal.removeEventListener("abort", wake);
			resolve();
		};
		const timer = setTimeout(wake, ms);
		signal.addEventListener("abort", wake);
	});
}

/* Try again now, if it waits to do so. */
export function hurry() {
	wake?.();
}

/*
 * Reads until the signal ends, and reconnects after each break. last() is the id of the last event;
 * news({connected, id, event}) is called for each event, and for the connection with `event` null.
 */
export async function readStream(signal, last, news) {
	let wait = FIRST_WAIT_MS;
	while (!signal.aborted) {
		const began = Date.now();
		try {
			await readOnce(signal, last, news);
		} catch (error) {
			if (error instanceof Problem && !error.passing) wait = LONGEST_WAIT_MS;
		}
		if (signal.aborted) return;
		news({ connected: false, id: last(), event: null });
		if (Date.now() - began > LONG_MS) wait = FIRST_WAIT_MS;
		await rest(wait * (0.5 + Math.random() / 2), signal);
		wait = Math.min(LONGEST_WAIT_MS, wait * 2);
	}
}
