// SPDX-License-Identifier: Apache-2.0
/*
 * badges.js: numbers beside the views: how many jobs are stuck or held, and how many alerts fire.
 * Watches come from the daemon's memory; a number that is not known is not shown.
 */
import { databases, get } from "./api.js";
import { h } from "./dom.js";
import { orNothing } from "./errand.js";
import { every, soon, subscribe } from "./live.js";
import { count } from "./words.js";

const READ_S = 10;
const SOON_MS = 1500;

function show(path, n, words, shade = "") {
	const link = document.querySelector(`#nav a[href="${path}"]`);
	const had = link?.querySelector(".badge");
	if (!link || (had?.dataset.n ?? "0") === String(n ?? 0)) return;
	had?.remove();
	if (n)
		link.append(
			h(
				"span",
				{ class: `badge ${shade}`, "data-n": n, title: `${count(n)} ${words}` },
				n > 999 ? "999+" : count(n),
				h("span", { class: "sr-only" }, ` ${words}`),
			),
		);
}

async function read(signal) {
	const said = await orNothing(get("/watches", { signal }));
	const sum = (name) => (said?.watches ?? []).reduce((all, w) => all + (w.enabled ? (w.info?.[name] ?? 0) : 0), 0);
	const stuck = sum("left_stuck"),
		held = sum("on_hold");
	show("/stuck", stuck + held, held && !stuck ? "held" : held ? "stuck or held" : "stuck", stuck ? "" : "held");
	const lists = await Promise.all(
		(await databases()).map((database) => orNothing(get("/alerts", { query: { database }, signal }))),
	);
	const firing = lists.flatMap((one) => one?.alerts ?? []).filter((a) => a.enabled && a.state === "firing");
	show("/alerts", firing.length, "firing");
}

export function startBadges() {
	const { signal } = new AbortController();
	const again = soon(SOON_MS, () => read(signal), signal);
	every(READ_S, () => read(signal), signal);
	subscribe((event) => {
		if (event.type === "watch" || event.type === "gap") again();
	});
	again();
}
