// SPDX-License-Identifier: Apache-2.0
/*
 * timeline.js: the life of one job on one line: when it came, each attempt, the known signs of
 * life, steps, verdicts with what was measured against the limit, remedies, operators' acts, late
 * completions. Silence is drawn: a hatched stretch with its length.
 *
 * lifeOf() and layOut() turn the API's data into moments and stretches, without a clock of their
 * own; drawLife() draws them.
 */
import { measure } from "./cells.js";
import { h, user } from "./dom.js";
import { icon } from "./icon.js";
import { ago, chip, duration, eventChip, EVENTS, instant, plural, stampText, tone, whyOf } from "./words.js";

const SHOWN = 120; /* moments at first, the latest ones */

/* ---- moments ---- */

const at = (when) => instant(when)?.getTime() ?? null;

function moment(list, when, kind, more) {
	const ms = at(when);
	if (ms !== null) list.push({ ms, when, kind, ...more });
}

/* What is known about an attempt: its start, its owner, its signs of life until it was judged. */
function fromEvidence(list, evidence) {
	if (!evidence) return;
	const who = { owner: evidence.owner ?? null, attempt: evidence.attempt ?? null };
	moment(list, evidence.started_at, "start", who);
	moment(list, evidence.alive_at, "sign", who);
	if (at(evidence.expires_at) < at(evidence.now)) moment(list, evidence.expires_at, "expiry", who);
}

function fromLedger(list, entries) {
	for (const entry of entries) {
		fromEvidence(list, entry.evidence);
		moment(list, entry.at, "entry", { entry });
	}
}

function fromSteps(list, steps) {
	for (const step of steps) moment(list, step.finished_at ?? step.started_at, "step", { step });
}

/* Moments that several entries mention are one. */
function once(list) {
	const seen = new Map();
	for (const one of list) {
		const name = one.kind === "entry" ? `entry ${one.entry.id}` : one.kind === "step" ? `step ${one.step.position} ${one.ms}` : `${one.kind} ${one.ms}`;
		if (!seen.has(name)) seen.set(name, one);
	}
	return [...seen.values()];
}

/* The last start of a job may be that of its undo, which is not an attempt. */
function startOf(job) {
	const back = (job.ledger ?? []).findLast((entry) => EVENTS[entry.event]?.remedy === "rollback");
	return back && at(back.at) <= at(job.started_at) && at(back.at) >= at(job.created_at)
		? { undoing: true } : { attempt: job.attempts };
}

const RANK = ["created", "start", "sign", "beat", "step", "expiry", "entry", "finish", "due", "now"];

/*
 * All that is known about a job, in order. `explained` is what explain currently says about it,
 * `beats` what this page has seen of it: [{at, step, text}]; `now` is the server's time.
 */
export function lifeOf(job, explained, beats, now) {
	const list = [];
	moment(list, job.created_at, "created", {});
	moment(list, job.started_at, "start", { owner: job.running ? job.owner : null, ...startOf(job) });
	fromLedger(list, job.ledger ?? []);
	fromSteps(list, job.steps ?? []);
	if (job.running) fromEvidence(list, explained?.evidence);
	for (const beat of beats) moment(list, beat.at, "beat", { beat });
	moment(list, job.finished_at, "finish", { job });
	if (job.retry) moment(list, job.retry.due_at, "due", { retry: job.retry });
	if (job.running) moment(list, now, "now", { job });
	return once(list).sort((a, b) => a.ms - b.ms || RANK.indexOf(a.kind) - RANK.indexOf(b.kind));
}

/* ---- stretches between them ---- */

const isSign = (one) => one.kind === "sign" || one.kind === "beat";

/* Whether the job was being worked on after this moment. */
function running(before, one) {
	if (one.kind === "start" || isSign(one) || one.kind === "step") return true;
	if (one.kind === "finish" || one.kind === "created") return false;
	if (one.kind === "entry") return !EVENTS[one.entry.event]?.changes && before;
	return before;
}

/* How long a job may be quiet before it counts as silent: two beats, or its limit. */
function quiet(limits, next) {
	const limit = next.entry?.evidence?.limit_s ?? limits.limit_s;
	const most = limits.beat_s ? 2 * limits.beat_s : limit;
	return most ?? Infinity;
}

/* The attempt that an entry judges, if nothing was known of it before. */
function newAttempt(one, known) {
	const judged = one.entry && one.entry.verdict && one.entry.verdict !== "none" ? one.entry.evidence?.attempt ?? 0 : 0;
	return judged > known ? judged : 0;
}

/*
 * {kind: silence | running | waiting | unseen, seconds} or null if there is nothing to draw. Unseen
 * is an attempt of which only the end is known; `attempt` is the last that was mentioned. `silent`:
 * nothing was heard since the last stretch of silence.
 */
function stretch(one, next, { runs, silent, attempt }, limits) {
	const seconds = (next.ms - one.ms) / 1000;
	if (silent && runs && seconds >= 1) return { kind: "silence", seconds, still: true };
	if (isSign(one) && (next.kind === "entry" || next.kind === "now" || isSign(next)) && seconds > quiet(limits, next))
		return { kind: "silence", seconds, limit: next.entry?.evidence?.limit_s ?? limits.limit_s };
	if (one.kind === "expiry" && (next.kind === "entry" || next.kind === "now") && seconds > 0)
		return { kind: "silence", seconds, past: true };
	if (seconds < 1) return null;
	if (!runs && newAttempt(next, attempt)) return { kind: "unseen", seconds, attempt: newAttempt(next, attempt) };
	return { kind: runs ? "running" : "waiting", seconds };
}

/*
 * Moments with the stretches between them: [{one, runs} or {span, runs}]; `limits` are
 * {beat_s, limit_s} of the watch.
 */
export function layOut(life, limits) {
	const laid = [];
	let runs = false, silent = false, attempt = 0;
	life.forEach((one, i) => {
		const next = life[i + 1];
		runs = running(runs, one);
		attempt = Math.max(attempt, one.attempt ?? one.entry?.evidence?.attempt ?? 0);
		silent = silent && runs && one.kind !== "start" && one.kind !== "step" && !isSign(one);
		laid.push({ one, runs: runs && !silent && Boolean(next) });
		const span = next && stretch(one, next, { runs, silent, attempt }, limits);
		silent = silent || span?.kind === "silence";
		if (span) laid.push({ span, runs });
	});
	return laid;
}

/* ---- drawing ---- */

function line(knob, shade, when, told, classes = "") {
	return h("li", { class: classes },
		h("div", { class: "when" }, when),
		h("div", { class: "rail" }, knob ? h("span", { class: `knob ${shade}` }, icon(knob)) : null),
		h("div", { class: "told" }, told));
}

function moments(one) {
	return [h("time", { datetime: new Date(one.ms).toISOString(), title: new Date(one.ms).toISOString() }, stampText(new Date(one.ms)))];
}

/* The columns that a remedy changed: "status: running → queued". */
function changes(entry) {
	const { before, after } = entry;
	if (!before || !after) return null;
	const changed = Object.keys(before).filter((name) => name in after && JSON.stringify(before[name]) !== JSON.stringify(after[name]));
	const text = (value) => (value === null ? "null" : typeof value === "string" ? value : JSON.stringify(value));
	if (changed.length === 0) return null;
	return h("details", { class: "more" }, h("summary", `${plural(changed.length, "column")} changed`),
		h("ul", { class: "plain changes" }, changed.map((name) => h("li", user(name, { class: "mono" }), ": ", user(text(before[name])), " → ", user(text(after[name]))))));
}

function byPerson(actor) {
	return /^(web|cli|top|person):/.test(actor ?? "") || (actor ?? "").includes("@");
}

/* The built-in queue names its workers by numbers. */
function onWhom(owner) {
	return owner ? [/^\d+$/.test(owner) ? " on worker " : " on ", user(owner)] : null;
}

function entryTold(entry) {
	const { evidence } = entry;
	const overridden = evidence?.override_guard ? chip("guarded", { label: "guard overridden" }) : null;
	return [
		h("div", { class: "head" }, eventChip(entry.event), entry.verdict && entry.verdict !== "none" ? chip(entry.verdict) : null, overridden,
			evidence?.attempt && entry.verdict !== "none" ? h("span", { class: "muted" }, `attempt ${evidence.attempt}`, onWhom(evidence.owner)) : null,
			h("span", { class: "muted" }, byPerson(entry.actor) ? [icon("worker"), " "] : "by ", user(entry.actor))),
		evidence?.measured_s !== undefined && entry.verdict && entry.verdict !== "none" ? h("div", measure(evidence.measured_s, evidence.limit_s)) : null,
		whyOf(entry) ? h("p", user(whyOf(entry))) : null,
		h("div", { class: "row muted" }, entry.rule ? h("span", "remedy by rule ", user(entry.rule, { class: "mono" })) : null,
			evidence?.law ? h("span", "verdict by rule ", user(evidence.law, { class: "mono" })) : null,
			entry.epoch !== null && entry.epoch !== undefined ? h("span", `epoch ${entry.epoch}`) : null,
			entry.batch ? h("a", { href: `/ledger?batch=${encodeURIComponent(entry.batch)}` }, "its batch") : null),
		changes(entry),
	];
}

function stepTold(step) {
	const took = step.started_at && step.finished_at ? (at(step.finished_at) - at(step.started_at)) / 1000 : null;
	return [h("div", { class: "head" }, "Step ", user(step.step, { class: "mono" }), chip(step.state), took !== null ? h("span", { class: "muted" }, `took ${duration(took)}`) : null),
		step.error ? h("p", { class: "bad-text" }, user(step.error)) : null];
}

const DRAWN = {
	created: () => ["dot", "idle", h("span", "Created")],
	start: (one) => ["play", "busy", h("div", { class: "head" }, h("span", { class: "attempt-head" }, one.undoing ? "Claimed for its rollback" : one.attempt ? `Attempt ${one.attempt} started` : "Started"), one.owner ? h("span", { class: "muted" }, onWhom(one.owner)) : null)],
	sign: () => ["heart", "good", h("span", "Last sign of life")],
	expiry: (one) => ["clock", "warn", h("span", one.ms > Date.now() ? "Its lease ends" : "Its lease ended")],
	beat: (one) => ["heart", "good", h("div", { class: "head" }, "Progress", one.beat.step ? user(one.beat.step, { class: "mono" }) : null, one.beat.text ? user(one.beat.text) : null)],
	step: (one) => [one.step.error ? "cross" : "check", one.step.error ? "bad" : tone(one.step.state), stepTold(one.step)],
	entry: (one) => [byPerson(one.entry.actor) ? "worker" : EVENTS[one.entry.event]?.changes ? "bolt" : EVENTS[one.entry.event]?.picture ?? "dot", tone(one.entry.event), entryTold(one.entry)],
	finish: (one) => ["check", tone(one.job.state_name ?? one.job.state), h("div", { class: "head" }, "Ended as ", chip(one.job.state_name ?? one.job.state))],
	due: (one) => ["clock", "warn", [h("div", { class: "head" }, "Its retry is due ", ago(one.retry.due_at)), one.retry.reason ? h("p", user(one.retry.reason)) : null]],
	now: (one) => [one.job.verdict ? "alert" : "play", one.job.verdict ? "bad" : "busy", h("div", { class: "head" }, "Now", chip(one.job.verdict ?? "running"), measure(one.job.measured_s, one.job.limit_s))],
};

function drawMoment(one, runs) {
	const [knob, shade, told] = DRAWN[one.kind](one);
	return line(knob, shade, moments(one), told, runs ? "runs" : "");
}

/* Taller the longer it was, but not in proportion. */
function drawStretch(span, runs) {
	const high = Math.min(72, 20 + 8 * Math.log10(1 + span.seconds));
	const words = {
		silence: span.still ? `still silent, ${duration(span.seconds)} more` : span.past ? `not renewed for ${duration(span.seconds)}` : `silence for ${duration(span.seconds)}${span.limit ? `, limit ${duration(span.limit)}` : ""}`,
		running: `running for ${duration(span.seconds)}`, waiting: duration(span.seconds),
		unseen: `it waited, then attempt ${span.attempt} ran, ${duration(span.seconds)} in all`,
	};
	return line(null, "", "", h("div", { class: "span-bar", vars: { "--span": `${Math.round(high)}px` } }, span.kind === "silence" ? icon("alert") : null, h("span", words[span.kind])),
		span.kind === "silence" ? "silence" : runs || span.kind === "unseen" ? "runs" : "");
}

/* `all`: or only the latest, and onAll() shows the rest. */
export function drawLife(life, limits, { all = false, onAll = null } = {}) {
	const lines = layOut(life, limits).map(({ one, span, runs }) => (span ? drawStretch(span, runs) : drawMoment(one, runs)));
	const list = h("ol", { class: "life", "aria-label": "What happened to this job, oldest first" });
	const hidden = all ? 0 : Math.max(0, lines.length - SHOWN);
	list.append(...lines.slice(hidden));
	return [h("div", { class: "table-foot" }, hidden ? h("button", { type: "button", class: "small", onclick: onAll }, `Show ${plural(hidden, "earlier line")}`) : null), list];
}

/* One line for screen readers. */
export function lifeWords(life) {
	const entries = life.filter((one) => one.kind === "entry");
	const last = entries.at(-1);
	return last ? `${plural(entries.length, "entry", "entries")} of the ledger; the last: ${EVENTS[last.entry.event]?.label ?? last.entry.event}` : "nothing in the ledger";
}
