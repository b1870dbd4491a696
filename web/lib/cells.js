// SPDX-License-Identifier: Apache-2.0
/*
 * cells.js: a job in one line: its link, its state, what was measured against the limit, its
 * attempts. Used by the lists and by the job's own view.
 */
import { isHeld } from "./acts.js";
import { jobHref } from "./api.js";
import { h, s, user } from "./dom.js";
import { ago, chip, count, duration, HOLD_CAUSES, meter } from "./words.js";

export function jobLink(job, attributes = {}) {
	return h("a", { href: jobHref(job.watch, job.key, job.database), ...attributes }, user(job.job));
}

/* Only the key, if the watch is shown beside it. */
export function keyText(job) {
	return Array.isArray(job.key) ? JSON.stringify(job.key) : String(job.key);
}

/* The state by its name, if the watch gives it one: "OCR_PROCESSING (6)". */
export function stateChip(job) {
	const name = job.state_name ?? job.state;
	if (name === null || name === undefined) return chip(job.running ? "running" : null);
	const label = job.state_name && job.state_name !== job.state ? `${job.state_name} (${job.state})` : null;
	return chip(name, { label, look: job.running ? "running" : name });
}

/* State, verdict and hold: the most important facts. */
export function standChips(job) {
	return h("span", { class: "row" }, stateChip(job), job.verdict ? chip(job.verdict) : null,
		isHeld(job) && (job.state_name ?? job.state) !== "held" ? chip("held", { title: job.held }) : null,
		job.excuse ? chip("excused", { title: `from ${job.excuse.verdict}` }) : null,
		job.held === "poison" ? chip("poison", { look: "dead", title: HOLD_CAUSES.poison }) : null,
		job.retry_at ? chip("retry", { label: "retry pending" }) : null);
}

/* "2h 5m of 1h", with a bar that has its limit as a mark. */
export function measure(measured, limit, { label = "of" } = {}) {
	if (measured === null || measured === undefined) return null;
	const over = limit !== null && limit !== undefined && measured >= limit;
	const most = Math.max(measured, limit ?? 0, 0.001) * 1.05;
	const x = (v) => Math.max(0, Math.min(1, v / most)) * 94 + 1;
	return h("span", { class: `measure${over ? " over" : ""}` },
		s("svg", { viewBox: "0 0 96 10", "aria-hidden": "true", focusable: "false" },
			s("rect", { class: "track", x: 0.5, y: 1.5, width: 95, height: 7, rx: 3.5 }),
			s("rect", { class: "level", x: 1, y: 2, width: Math.max(2, x(Math.max(0, measured)) - 1), height: 6, rx: 3 }),
			limit ? s("line", { class: "limit", x1: x(limit), x2: x(limit), y1: 0, y2: 10 }) : null),
		h("span", { class: "num" }, `${duration(Math.max(0, measured))}${limit ? ` ${label} ${duration(limit)}` : ""}`));
}

/* Why it is where it is: what a scan found, who holds it and why, when it is retried. */
export function whyText(job) {
	if (job.why) return user(job.why);
	if (isHeld(job)) return user(job.hold_reason ?? HOLD_CAUSES[job.held] ?? job.held ?? "held");
	if (job.excuse) return [user(job.excuse.by), job.excuse.reason ? [": ", user(job.excuse.reason)] : null];
	if (job.retry_at) return h("span", "retry ", ago(job.retry_at));
	return h("span", { class: "muted" }, "–");
}

export function attemptsText(job) {
	if (job.attempts === null || job.attempts === undefined) return h("span", { class: "muted" }, "–");
	return job.max_attempts ? meter(job.attempts, job.max_attempts) : h("span", count(job.attempts));
}

/* Columns that the watch shows; the kind has its own place. */
export function shownText(job) {
	const pairs = Object.entries(job.show ?? {}).filter(([name, value]) => value !== null && !(name === "kind" && value === job.kind));
	if (pairs.length === 0) return h("span", { class: "muted" }, "–");
	return pairs.map(([name, value], i) => [i ? ", " : "", h("span", { class: "muted" }, user(name), " "), user(value, { title: value.length > 32 ? value : null })]);
}
