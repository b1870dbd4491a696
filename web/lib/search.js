// SPDX-License-Identifier: Apache-2.0
/*
 * search.js: the field in the header. WATCH/KEY goes straight to the job, and so does a key that
 * only one watch knows; anything else is searched for: kind, worker, step, error,
 * payload.
 */
import { get, jobHref, jobPath, queryText } from "./api.js";
import { announce } from "./dom.js";

const MOST_WATCHES = 12; /* that are searched for a key */

async function named(text, watches) {
	const slash = text.indexOf("/");
	const watch = slash > 0 && watches.find((w) => w.watch === text.slice(0, slash));
	return watch ? jobHref(watch.watch, text.slice(slash + 1), watch.database) : null;
}

/* Watches that have a job of this key. */
async function known(text, watches) {
	if (/\s/.test(text)) return [];
	const asked = watches.slice(0, MOST_WATCHES).map(async (w) => {
		await get(jobPath(w.watch, text), { query: { database: w.builtin ? w.database : null } });
		return w;
	});
	return (await Promise.allSettled(asked))
		.filter((a) => a.status === "fulfilled")
		.map((a) => a.value);
}

async function target(text) {
	const { watches } = await get("/watches");
	const straight = await named(text, watches);
	if (straight) return straight;
	const having = await known(text, watches);
	if (having.length === 1) return jobHref(having[0].watch, text, having[0].database);
	return `/jobs${queryText({ any: text })}`;
}

export function startSearch(go) {
	const form = document.getElementById("search");
	const input = document.getElementById("search-text");
	form.addEventListener("submit", async (event) => {
		event.preventDefault();
		const text = input.value.trim();
		if (!text) return;
		announce("Searching");
		let to = `/jobs${queryText({ any: text })}`;
		try {
			to = await target(text);
		} catch {
			/* The list itself reports what is unavailable. */
		}
		input.blur();
		go(to);
	});
	return () => {
		input.focus();
		input.select();
	};
}
