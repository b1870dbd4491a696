// SPDX-License-Identifier: Apache-2.0
/*
 * waterfall.js: the steps of a workflow as bars on one scale of time: a line per attempt, with its
 * outcome, worker and error as text beside the bar. Without the bars it reads as a list.
 */
import { h, user, visible } from "./dom.js";
import { icon } from "./icon.js";
import { ago, duration, instant, plural, stampText } from "./words.js";

const ERROR = 160; /* characters of an error at first */

/* What became of an attempt: picture, tone, words. */
const OUTCOMES = {
	done: ["check", "good", "finished"],
	failed: ["cross", "bad", "failed"],
	retry: ["redo", "warn", "failed, to be retried"],
	permanent: ["cross", "bad", "failed permanently"],
	timed_out: ["clock", "bad", "timed out"],
	crashed: ["bolt", "bad", "crashed"],
	stopped: ["pause", "idle", "was stopped"],
	released: ["arrow", "idle", "was released"],
	lost: ["alert", "bad", "was lost with its worker"],
	running: ["play", "busy", "running"],
};

const ms = (when) => instant(when)?.getTime() ?? null;
const known = (attempt) => OUTCOMES[attempt.outcome] ?? ["dot", "idle", attempt.outcome];

/* "Attempt 2 failed after 3 s, worker w1" */
export function attemptText(attempt) {
	const took = attempt.started_at && attempt.ended_at ? ` after ${duration(Math.max(0, ms(attempt.ended_at) - ms(attempt.started_at)) / 1000)}` : "";
	return `${attempt.undo ? "Undo, attempt" : "Attempt"}${attempt.attempt ? ` ${attempt.attempt}` : ""} ${known(attempt)[2]}${took}${attempt.worker ? `, worker ${attempt.worker}` : ""}`;
}

function errorOf(text) {
	if (text.length <= ERROR) return h("p", { class: "bad-text" }, user(text));
	return h("details", { class: "more bad-text" }, h("summary", h("bdi", visible(text.slice(0, ERROR))), "…"), h("p", user(text)));
}

function attemptRow(attempt) {
	const [picture, shade] = known(attempt);
	const from = ms(attempt.started_at) ?? ms(attempt.ended_at);
	return h("li", { class: `attempt ${shade}` },
		h("span", { class: "outcome" }, icon(picture), user(attemptText(attempt)), attempt.outcome === "running" && attempt.started_at ? [" since ", ago(attempt.started_at)] : null),
		h("span", { class: "track", "aria-hidden": "true" }, from === null ? null : h("span", {
			class: `bar${attempt.undo ? " undo" : ""}${attempt.outcome === "running" ? " open" : ""}`,
			"data-from": from, "data-to": ms(attempt.ended_at) ?? "",
		})),
		attempt.error ? errorOf(attempt.error) : null);
}

/* The attempts at one step. */
export function attemptList(step) {
	if (!step.attempts?.length) return null;
	return h("ol", { class: "attempts", "aria-label": `${plural(step.attempts.length, "attempt")} at ${step.step}` }, step.attempts.map(attemptRow));
}

/* The ends of the scale, as text. */
export function scaleRow() {
	return h("div", { class: "scale muted", "aria-hidden": "true" }, h("span"), h("span"));
}

/* Sets the bars and the scale; a running attempt reaches to now. */
export function rescale(root, now) {
	const bars = [...root.querySelectorAll(".track .bar")];
	const ends = bars.map((bar) => [Number(bar.dataset.from), bar.dataset.to === "" ? now : Number(bar.dataset.to)]);
	const first = Math.min(...ends.map(([from]) => from));
	const last = Math.max(first + 1, ...ends.map(([, to]) => to));
	const part = (at) => `${(100 * (at - first) / (last - first)).toFixed(3)}%`;
	bars.forEach((bar, i) => {
		bar.style.setProperty("--from", part(ends[i][0]));
		bar.style.setProperty("--width", part(first + Math.max(0, ends[i][1] - ends[i][0])));
	});
	const scale = root.querySelector(".scale");
	if (!scale || bars.length === 0) return;
	scale.firstChild.textContent = stampText(new Date(first));
	scale.lastChild.textContent = `+ ${duration((last - first) / 1000)}`;
}
