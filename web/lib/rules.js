// SPDX-License-Identifier: Apache-2.0
/*
 * rules.js: how a watch is configured, in words: when a job runs, when it is stuck, and what is
 * done then. From GET /watches/NAME; pure.
 */
import { h, user } from "./dom.js";
import { REMEDIES } from "./tables.js";
import { duration } from "./words.js";

const code = (text) => h("code", user(text));

function thresholdWords(threshold) {
	const kinds = Object.entries(threshold.kinds ?? {});
	return [
		duration(threshold.standard_s),
		kinds.length ? [" (", kinds.map(([kind, s], i) => [i ? ", " : "", user(kind), ` ${duration(s)}`]), ")"] : null,
	];
}

/* What is done, in the third person. */
const does = (remedy) => (REMEDIES[remedy] ? `is ${REMEDIES[remedy].becomes}` : remedy);

/* "If its verdict is dead and attempts are left, it is requeued." */
function ruleWords(rule) {
	const when = [
		rule.verdict ? [`its verdict is ${rule.verdict}`] : null,
		rule.kind ? ["its kind is ", user(rule.kind)] : null,
		rule.attempts === "left" ? ["it has attempts left"] : rule.attempts === "exhausted" ? ["it has no attempts left"] : null,
		rule.crashes ? [`its workers were lost ${rule.crashes} times or more`] : null,
		rule.when ? [code(rule.when)] : null,
	].filter(Boolean);
	if (!when.length) return ["Otherwise it ", does(rule.do), "."];
	return ["If ", when.map((one, i) => [i ? " and " : "", one]), ", it ", does(rule.do), "."];
}

function remedies(watch) {
	if (!watch.remedies.length)
		return h("p", "It is requeued while it has attempts left, and then put on hold for an operator.");
	if (watch.remedies.length === 1 && !watch.remedies[0].verdict && !watch.remedies[0].when && !watch.remedies[0].kind && !watch.remedies[0].attempts)
		return h("p", `It ${does(watch.remedies[0].do)}.`);
	return h("ol", { class: "rules" }, watch.remedies.map((rule) => h("li", ruleWords(rule))));
}

/* The configuration as it was written, for who wants the exact words. */
function written(config) {
	if (!config?.length) return null;
	const short = (path) => path.split(".").slice(2).join(".");
	return h(
		"details",
		h("summary", "As configured"),
		h(
			"dl",
			{ class: "facts config-facts" },
			config.map((one) => [
				h("dt", user(short(one.path), { class: "mono" })),
				h("dd", user(one.value, { class: "mono" }), one.origin ? h("span", { class: "muted" }, " ", user(one.origin)) : null),
			]),
		),
	);
}

export function rulesOf(watch) {
	const facts = [
		["A job is running", ["while ", code(watch.running)]],
		["It is scanned", ["every ", duration(watch.every_s)]],
		watch.stuck_after ? ["It is stuck", ["when its sign of life is older than ", thresholdWords(watch.stuck_after)]] : null,
		watch.beat_s ? ["Workers beat", ["every ", duration(watch.beat_s)]] : null,
		watch.overdue_after ? ["It is overdue", ["when it has run for ", thresholdWords(watch.overdue_after)]] : null,
		["A stuck job", remedies(watch)],
		watch.acts.length ? ["Operators can", watch.acts.join(", ")] : null,
		watch.mask?.length ? ["Viewers do not see", watch.mask.map((name, i) => [i ? ", " : "", user(name)])] : null,
	].filter(Boolean);
	return [
		h("dl", { class: "facts" }, facts.map(([name, words]) => [h("dt", name), h("dd", words)])),
		written(watch.config),
	];
}
