// SPDX-License-Identifier: Apache-2.0
/*
 * badges.js: numbers beside the views: how many jobs are stuck or held, and how many alerts fire.
 * Watches come from the stream of events; alerts are requested when a number of a watch changes. A
 * number that is not known is not shown.
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

/* By watch: {stuck, held, firing}; the stream brings each change. */
const known = new Map();

/* Left by the last scan: what it did not change, and what a guard holds back. */
function stuckAfter({ left_stuck: left = 0, guarded, waiting = 0 }) {
	return left + Math.max(guarded?.total ?? 0, waiting);
}

/* Whether a number of this watch is another one than before. */
function learn({ watch, database, enabled, alerts_firing: firing = 0, info }) {
	const name = `${database} ${watch}`;
	const now = { stuck: enabled && info ? stuckAfter(info) : 0, held: enabled ? (info?.on_hold ?? 0) : 0, firing };
	const before = known.get(name);
	known.set(name, now);
	return !before || Object.keys(now).some((each) => now[each] !== before[each]);
}

function showStuck() {
	const sum = (name) => [...known.values()].reduce((all, one) => all + one[name], 0);
	const stuck = sum("stuck"),
		held = sum("held");
	show("/stuck", stuck + held, held && !stuck ? "held" : held ? "stuck or held" : "stuck", stuck ? "" : "held");
}

async function readWatches(signal) {
	const said = await orNothing(get("/watches", { signal }));
	known.clear();
	said?.watches.forEach(learn);
	showStuck();
}

async function readAlerts(signal) {
	const lists = await Promise.all(
		(await databases()).map((database) => orNothing(get("/alerts", { query: { database }, signal }))),
	);
	const firing = lists.flatMap((one) => one?.alerts ?? []).filter((a) => a.enabled && a.state === "firing");
	show("/alerts", firing.length, "firing");
}

export function startBadges() {
	const { signal } = new AbortController();
	const all = () => Promise.all([readWatches(signal), readAlerts(signal)]);
	const again = soon(SOON_MS, all, signal);
	const alerts = soon(SOON_MS, () => readAlerts(signal), signal);
	every(READ_S, all, signal);
	subscribe((event) => {
		if (event.type === "gap") again();
		if (event.type !== "watch" || !learn(event.data)) return;
		showStuck();
		alerts();
	});
	again();
}
