// SPDX-License-Identifier: Apache-2.0
/*
 * words.js: times, spans, numbers and states in the words of the commands and the docs. A state is
 * always three things: a picture, a word and a colour.
 */
import { h, s, user } from "./dom.js";
import { EVENTS } from "./events.js";
import { icon } from "./icon.js";

/* ---- times ---- */

/* Date truncates microseconds; null if there is no time. */
export function instant(when) {
	if (when === null || when === undefined || when === "") return null;
	const at = when instanceof Date ? when : new Date(when);
	return Number.isNaN(at.getTime()) ? null : at;
}

const UNITS = [
	[86400e6, "d"],
	[3600e6, "h"],
	[60e6, "m"],
	[1e6, "s"],
	[1e3, "\u00a0ms"],
	[1, "\u00a0µs"],
];

/* 93 is "1m 33s", 3.2 is "3s", 0.25 is "250 ms": as the commands write it, down to microseconds. */
export function duration(seconds) {
	if (seconds === null || seconds === undefined || Number.isNaN(Number(seconds))) return "–";
	/* In millionths: 0.004 * 1e6 is not quite 4000. */
	let rest = Math.max(0, Math.round(Number(seconds) * 1e6));
	if (rest === 0) return "0s";
	const at = UNITS.findIndex(([size]) => rest >= size);
	const [size, unit] = UNITS[at];
	const said = [`${Math.floor(rest / size)}${unit}`];
	if (size >= 60e6) {
		const [next, name] = UNITS[at + 1];
		rest = Math.floor((rest % size) / next);
		if (rest > 0) said.push(`${rest}${name}`);
	}
	return said.join(" ");
}

/* "2s ago", "in 5m", "now". */
export function agoText(when, now = Date.now()) {
	const at = instant(when);
	if (!at) return "never";
	const seconds = Math.round((now - at.getTime()) / 1000);
	if (Math.abs(seconds) < 1) return "now";
	const said = duration(Math.abs(seconds)).split(" ")[0];
	return seconds > 0 ? `${said} ago` : `in ${said}`;
}

/* 2026-01-02 03:04:05 in the user's own zone. */
export function stampText(when) {
	const at = instant(when);
	if (!at) return "–";
	const two = (n) => String(n).padStart(2, "0");
	return (
		`${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ` +
		`${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`
	);
}

/* A moment as an exact time; its title has it in UTC. */
export function stamp(when) {
	const at = instant(when);
	if (!at) return h("span", { class: "muted" }, "–");
	return h("time", { datetime: at.toISOString(), title: at.toISOString() }, stampText(at));
}

/* A moment as its age, which keeps counting (tick()). */
export function ago(when) {
	const at = instant(when);
	if (!at) return h("span", { class: "muted" }, "never");
	return h(
		"time",
		{
			datetime: at.toISOString(),
			title: `${stampText(at)} (${at.toISOString()})`,
			"data-ago": true,
		},
		agoText(at),
	);
}

/* Update all ages on the page, once a second. */
export function tick(root = document) {
	const now = Date.now();
	for (const time of root.querySelectorAll("time[data-ago]")) {
		const said = agoText(time.dateTime, now);
		if (time.textContent !== said) time.textContent = said;
	}
}

/* A guard's text, without its own clock time if the page shows that in the user's zone. */
export function guardWords(said) {
	return said?.replace(/, at \d\d:\d\d:\d\dZ at the latest$/, "") ?? null;
}

/*
 * Why an entry of the ledger was written. The reason of a report is the sentence that a recovery
 * would have written to the row: here nothing was recovered.
 */
export function whyOf(entry) {
	if (EVENTS[entry.event]?.remedy !== "report") return entry.reason;
	const measured = entry.evidence?.measured_s ?? null;
	const span = measured === null ? "" : ` for ${duration(measured)}`;
	return `${entry.verdict ?? "stuck"}${span}; nothing was changed`;
}

/* ---- numbers ---- */

const numbers = new Intl.NumberFormat("en-US");

/* 12,345; `capped` if there are at least this many; `estimated` if it comes from a sample. */
export function count(n, capped = false, estimated = false) {
	if (n === null || n === undefined) return "–";
	return (estimated ? "≈ " : "") + numbers.format(estimated ? Number(n.toPrecision(2)) : n) + (capped ? "+" : "");
}

/* 1 job, 2 jobs. */
export function plural(n, one, many = `${one}s`) {
	return `${count(n)} ${n === 1 ? one : many}`;
}

/* ---- states ---- */

/* Words that have a picture and a tone; any other word is shown as it is. */
const LOOKS = {
	/* verdicts */
	dead: ["bad", "cross"],
	silent: ["bad", "clock"],
	overdue: ["warn", "clock"],
	orphan: ["warn", "question"],
	/* states of watches */
	well: ["good", "check"],
	held: ["held", "hand"],
	alerting: ["bad", "bell"],
	doubt: ["warn", "question"],
	paused: ["idle", "pause"],
	failed: ["bad", "cross"],
	no_leader: ["bad", "none"],
	/* workers, databases, alerts, findings */
	alive: ["good", "heart"],
	left: ["idle", "arrow"],
	gone: ["idle", "none"],
	lost: ["bad", "cross"],
	up: ["good", "check"],
	away: ["bad", "cross"],
	back: ["good", "check"],
	firing: ["bad", "bell"],
	pending: ["warn", "bell"],
	resolved: ["good", "check"],
	quiet: ["idle", "check"],
	ok: ["good", "check"],
	warn: ["warn", "alert"],
	fail: ["bad", "cross"],
	info: ["busy", "dot"],
	warning: ["warn", "alert"],
	critical: ["bad", "bolt"],
	stale: ["warn", "clock"],
	/* jobs, by the names that queues commonly have */
	running: ["busy", "play"],
	processing: ["busy", "play"],
	active: ["busy", "play"],
	working: ["busy", "play"],
	queued: ["idle", "queue"],
	ready: ["idle", "queue"],
	waiting: ["idle", "queue"],
	scheduled: ["idle", "clock"],
	new: ["idle", "queue"],
	retry: ["warn", "redo"],
	retrying: ["warn", "redo"],
	done: ["good", "check"],
	completed: ["good", "check"],
	complete: ["good", "check"],
	succeeded: ["good", "check"],
	success: ["good", "check"],
	finished: ["good", "check"],
	error: ["bad", "cross"],
	exhausted: ["bad", "cross"],
	dead_letter: ["bad", "cross"],
	cancelled: ["idle", "none"],
	canceled: ["idle", "none"],
	cancelling: ["warn", "none"],
	ended: ["idle", "none"],
	ending: ["warn", "none"],
	undoing: ["warn", "undo"],
	rolled_back: ["idle", "undo"],
	unfinished: ["warn", "none"],
	undone: ["idle", "undo"],
	undo_failed: ["bad", "cross"],
	again: ["warn", "redo"],
	stuck: ["bad", "alert"],
	/* remedies and outcomes */
	requeue: ["busy", "redo"],
	rollback: ["warn", "undo"],
	hold: ["held", "hand"],
	report: ["idle", "book"],
	recovered: ["good", "redo"],
	changed: ["idle", "arrow"],
	locked: ["warn", "shield"],
	refused: ["bad", "none"],
	missing: ["idle", "question"],
	guarded: ["held", "shield"],
	...Object.fromEntries(Object.entries(EVENTS).map(([name, event]) => [name, [event.tone, event.picture]])),
};

/* The tone of a word (good, busy, idle, warn, held, bad), which is also a CSS class. */
export function tone(word) {
	return (LOOKS[word] ?? LOOKS[String(word).toLowerCase()] ?? ["idle"])[0];
}

/* NO_LEADER and no_leader are shown as "no leader". */
export function human(word) {
	return String(word).replaceAll("_", " ").toLowerCase();
}

/*
 * A state, verdict, watch status, remedy or event: picture, word and colour. `label` is shown
 * instead of the word; `look` is the word whose picture and colour are used.
 */
export function chip(word, { label = null, look = word, title = null } = {}) {
	if (word === null || word === undefined || word === "")
		return h("span", { class: "muted" }, "–");
	const [shade, picture] = LOOKS[look] ?? LOOKS[String(look).toLowerCase()] ?? ["idle", "dot"];
	const known = Object.hasOwn(LOOKS, word);
	return h(
		"span",
		{ class: `chip ${shade}`, title },
		icon(picture),
		user(label ?? (known ? human(word) : word)),
	);
}

/* Why a job is on hold, from the API's word for it. */
export const HOLD_CAUSES = {
	"by hand": "an operator holds it",
	undone: "an operator undid its recovery",
	poison: "it was recovered too often within a short time, and may kill its workers",
	attempts: "it has no attempts left",
	rule: "a rule of the watch holds it",
	startup: "a worker or daemon held it when it started",
};

/* An entry of the ledger as one line: made by the daemon from its table of events. */
export { EVENTS };

export function eventChip(event) {
	return chip(event, { label: EVENTS[event]?.label ?? null, title: event });
}

/* A bar from 0 to 1 beside its number, for attempts and progress. */
export function meter(part, whole, label) {
	const share = whole > 0 ? Math.min(1, Math.max(0, part / whole)) : 0;
	return h(
		"span",
		{ class: "meter" },
		s(
			"svg",
			{ viewBox: "0 0 40 6", "aria-hidden": "true", focusable: "false" },
			s("rect", { class: "track", width: 40, height: 6, rx: 3 }),
			s("rect", { class: "level", width: 40 * share, height: 6, rx: 3 }),
		),
		h("span", { class: "num" }, label ?? `${count(part)} of ${count(whole)}`),
	);
}
