// SPDX-License-Identifier: Apache-2.0
/*
 * words.js: times, spans, numbers and states in the words of the commands and the docs. A state is
 * always three things: a picture, a word and a colour.
 */
import { h, s, user } from "./dom.js";
import { icon } from "./icon.js";
import { EVENTS, REMEDIES, VERDICTS } from "./tables.js";

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

const looksOf = (table) => Object.fromEntries(Object.entries(table).map(([name, row]) => [name, [row.tone, row.picture]]));

/* Words that have a picture and a tone; any other word is shown as it is. */
const LOOKS = {
	...looksOf(VERDICTS),
	...looksOf(REMEDIES),
	/* states of watches */
	well: ["good", "check"],
	held: ["held", "hand"],
	excused: ["idle", "hand"],
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
	/* outcomes */
	recovered: ["good", "redo"],
	changed: ["idle", "arrow"],
	locked: ["warn", "shield"],
	refused: ["bad", "none"],
	missing: ["idle", "question"],
	guarded: ["held", "shield"],
	...looksOf(EVENTS),
};

/* The tone of a word (good, busy, idle, warn, held, bad), which is also a CSS class. */
export function tone(word) {
	return (LOOKS[word] ?? LOOKS[String(word).toLowerCase()] ?? ["idle"])[0];
}

/* NO_LEADER and no_leader are shown as "no leader". */
export function human(word) {
	return String(word).replaceAll("_", " ").toLowerCase();
}

/* docs/glossary.md, for tooltips; a test compares the two. */
const GLOSSARY = {
	job: "One unit of work: a row of a watched table, or of the built-in queue.",
	watch: "The configuration for one kind of job in one table: which rows are running, how life is proved, when a job is stuck, and what to do then.",
	worker: "A process that runs jobs.",
	owner: "The worker that a row names as the one running it.",
	"sign of life": "The time at which a worker last proved that it is alive, for example a heartbeat column or updated_at.",
	scan: "One pass over a watch: find stuck jobs and, with --fix, recover them.",
	stuck: "A job that is marked as running although its worker is gone, silent or overdue.",
	verdict: "Why a job is stuck: dead (the worker's end was seen), silent (no sign of life for stuck_after), overdue (running, or in its state, longer than overdue_after), orphan (its owner does not exist), stalled (its progress is the same for stalled_after) or unstarted (it is due for late_after, and nobody starts it).",
	remedy: "What is done to a stuck job, for example requeue or hold. The rules of the watch choose it.",
	requeue: "Make the job available to any worker at once. retry does the same after a wait.",
	hold: "Leave the job to an operator. No scan changes it until it is released, or until its owner or sign of life changes.",
	recovered: "A stuck job that was requeued, retried, failed or rolled back. All counts of recoveries use this word.",
	"crash budget": "How many recoveries of one job within a time are allowed before it is held.",
	"false positive": "A recovery of a job whose worker was alive: the worker finished the job afterwards.",
	ledger: "The append-only table in which every decision is recorded, in the transaction of the change.",
	batch: "The entries of one scan or command in the ledger. defib undo takes a batch.",
	lease: "The time for which a worker has the right to its jobs. It must renew the lease before it ends.",
	incarnation: "One start of a worker or daemon. A restarted process is a new incarnation, even with the same name.",
	epoch: "A number that rises with every claim of a job. A write with an older epoch is rejected.",
	token: "A text that identifies one claim. Tokens of one job sort in the order of its claims, even across failovers. (An HTTP token is a secret that identifies a caller.)",
	leader: "The one daemon that scans a watch, of all that are running.",
	guards: "The daemon's safety checks: doubt (the daemon was away, so silence proves nothing), second look (silence must be seen twice), brake (too many workers fell silent at once) and pace (a limit on recoveries per second).",
	spool: "A directory on disk in which results and new jobs wait while the database is unavailable.",
	"set aside": "A result that the database refused to record. It stays on disk and is offered again.",
	sink: "A destination for alerts and reports: log, command, webhook, Alertmanager or PagerDuty.",
};
/* Other forms of these words on the page. */
const FORMS = {
	jobs: "job", workers: "worker", held: "hold", "on hold": "hold", batches: "batch",
	...Object.fromEntries(Object.keys(VERDICTS).map((name) => [name, "verdict"])), found: "verdict",
	requeued: "requeue", retry: "requeue", "false positives": "false positive", "led by": "leader",
	doubt: "guards", "in doubt": "guards", brake: "guards", pace: "guards", guard: "guards",
	"second look": "guards",
};

/* What a word means, or null: the tooltip of chips and of heads of tables. */
export function meaning(word) {
	const plain = String(word).toLowerCase();
	const of = FORMS[plain] ?? plain;
	return Object.hasOwn(GLOSSARY, of) ? GLOSSARY[of] : null;
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
		{ class: `chip ${shade}`, title: title ?? meaning(word) },
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
