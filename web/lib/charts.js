// SPDX-License-Identifier: Apache-2.0
/*
 * charts.js: the block of charts of a watch, or of all watches: waiting, running, ended, recovered,
 * detection, for an hour, a day or a week, as charts or as a table. The numbers come from
 * GET /series, which the leading daemon records.
 *
 *   root.append(chartBlock({ watch: null, signal }))
 */
import { databases, get } from "./api.js";
import { announce, fill, h } from "./dom.js";
import { errand, QUIETLY } from "./errand.js";
import { every } from "./live.js";
import { plot, plotTable } from "./plot.js";
import { VERDICTS } from "./tables.js";
import { count, duration, instant } from "./words.js";

const EVERY_S = 15; /* as often as the daemon reads */
const RANGES = { "1h": "1 hour", "24h": "24 hours", "7d": "7 days" };
const SERIES = Object.entries(VERDICTS).map(([name, verdict]) => [name, verdict.series]);

/* ---- choices that last for the tab ---- */

function kept(name, allowed, otherwise) {
	const value = sessionStorage.getItem(`defib.charts.${name}`);
	return allowed.includes(value) ? value : otherwise;
}

function keep(name, value) {
	sessionStorage.setItem(`defib.charts.${name}`, value);
}

/* ---- several databases together ---- */

const plus = (a, b) => (a === null ? b : b === null ? a : a + b);
const most = (a, b) => (a === null ? b : b === null ? a : Math.max(a, b));
const each = (a, b, how) => a.map((v, i) => how(v ?? null, b[i] ?? null));

/* Percentiles cannot be added: the slowest database's are shown. */
export function joined(all) {
	return all.reduce((a, b) => ({
		...a,
		...Object.fromEntries(["waiting", "running", "done", "failed"].map((name) => [name, each(a[name], b[name], plus)])),
		...Object.fromEntries(["oldest_s", "detection_p50_s", "detection_p95_s"].map((name) => [name, each(a[name], b[name], most)])),
		recovered: Object.fromEntries(Object.keys(a.recovered).map((name) => [name, each(a.recovered[name], b.recovered[name], plus)])),
		totals: {
			step_s: a.totals.step_s,
			...Object.fromEntries(["done", "failed", "recovered"].map((name) => [name, plus(a.totals[name], b.totals[name])])),
			...Object.fromEntries(["detection_p50_s", "detection_p95_s"].map((name) => [name, most(a.totals[name], b.totals[name])])),
		},
	}));
}

/* ---- which charts ---- */

const last = (values) => values.findLast((v) => v !== null && v !== undefined) ?? null;
const peak = (values) => values.reduce(most, null);

function rate(n, seconds) {
	if (!n) return "";
	const perMinute = (n / seconds) * 60;
	if (perMinute >= 120) return `${count(Math.round(perMinute / 60))} per second`;
	return perMinute >= 1 ? `${count(Math.round(perMinute))} per minute` : `${count(Math.round(perMinute * 60))} per hour`;
}

function gauge(base, title, values, unit, shade, empty) {
	const text = unit === "seconds" ? duration : count;
	return {
		...base, title, unit, empty,
		headline: text(last(values)),
		note: `now, at most ${text(peak(values))}`,
		series: [{ title: title.toLowerCase(), shade, values }],
	};
}

function counter(base, title, values, total, shade, empty) {
	return {
		...base, title, unit: "jobs", bars: true, empty,
		headline: count(total),
		note: rate(total, base.whole_s) || "in this period",
		series: [{ title: title.toLowerCase(), shade, values }],
	};
}

/* The charts of one answer of GET /series; `one`: it is of one watch. */
export function chartsOf(data, one) {
	const from = instant(data.from).getTime();
	const times = data.waiting.map((_, i) => new Date(from + i * data.step_s * 1000));
	const base = { times, step_s: data.step_s, whole_s: data.totals.step_s };
	const { totals } = data;
	const unsaid = (what, option) => `${one ? "This watch does not say" : "No watch says"} ${what}: set ${option}.`;
	const waits = unsaid("which jobs wait", "stats.ready"),
		ends = unsaid("when jobs end", "stats.finished_at"),
		fails = unsaid("when jobs end, or which failed", "stats.finished_at and stats.failed");
	const sum = (values) => values.reduce(plus, null) ?? 0;
	return [
		gauge(base, "Waiting", data.waiting, "jobs", "busy", waits),
		gauge(base, "Oldest waiting", data.oldest_s, "seconds", "busy", waits),
		gauge(base, "Running", data.running, "jobs", "good"),
		counter(base, "Done", data.done, totals.done, "good", ends),
		counter(base, "Failed", data.failed, totals.failed, "bad", fails),
		{
			...base, title: "Recovered", unit: "jobs", bars: true,
			headline: count(totals.recovered),
			note: "by verdict",
			series: SERIES.map(([name, shade]) => ({ title: name, shade, values: data.recovered[name], note: count(sum(data.recovered[name])) })),
		},
		{
			...base, title: "Time to detection", unit: "seconds",
			headline: duration(totals.detection_p50_s),
			note: totals.detection_p95_s === null ? "" : "median, from the worker's end or last sign of life",
			empty: "Nothing was found stuck in this period.",
			series: [
				{ title: "half within", shade: "busy", values: data.detection_p50_s, note: duration(totals.detection_p50_s) },
				{ title: "95 % within", shade: "warn", values: data.detection_p95_s, note: duration(totals.detection_p95_s) },
			],
		},
	];
}

/* ---- the block ---- */

class Block {
	constructor({ watch, database, signal, title }) {
		Object.assign(this, { watch, database, signal, data: null });
		this.since = kept("since", Object.keys(RANGES), "1h");
		this.form = kept("form", ["charts", "table"], "charts");
		this.body = h("div", { class: "card-body" });
		this.element = h(
			"section",
			{ class: "card charts", "aria-labelledby": "charts-title", "aria-busy": "true" },
			h(
				"div",
				{ class: "card-head" },
				h("h2", { id: "charts-title" }, title),
				h("div", { class: "row" }, this.choice("Period", "since", RANGES), this.choice("Form", "form", { charts: "Charts", table: "Table" })),
			),
			this.body,
		);
		fill(this.body, h("div", { class: "plots" }, Array.from({ length: 7 }, () => h("div", { class: "plot waiting", "aria-hidden": "true" }))));
	}

	choice(label, name, options) {
		const buttons = Object.entries(options).map(([value, text]) =>
			h(
				"button",
				{
					type: "button",
					value,
					"aria-pressed": String(this[name] === value),
					onclick: () => {
						this[name] = value;
						keep(name, value);
						for (const one of buttons) one.setAttribute("aria-pressed", String(one.value === value));
						if (name === "since") errand(() => this.read(), this.signal);
						else this.paint();
						announce(`${label}: ${text}`);
					},
				},
				text,
			),
		);
		return h("div", { class: "switch", role: "group", "aria-label": label }, buttons);
	}

	async read() {
		const { since } = this;
		const names = this.database ? [this.database] : await databases();
		const answers = await Promise.all(
			names.map((database) => get("/series", { query: { database, watch: this.watch, since }, signal: this.signal })),
		);
		if (since !== this.since) return; /* another period was chosen meanwhile */
		this.data = joined(answers);
		this.paint();
	}

	/* A step that is being read is not taken away under the pointer. */
	paint() {
		if (!this.data) return;
		const text = JSON.stringify([this.data, this.form]);
		if (text === this.painted) return;
		if (this.painted && this.body.querySelector(".tip:not([hidden])")) return;
		this.painted = text;
		const charts = chartsOf(this.data, this.watch !== null);
		const label = `Numbers of the last ${RANGES[this.since]}`;
		fill(this.body, this.form === "table" ? plotTable(charts, label) : h("div", { class: "plots" }, charts.map(plot)));
		this.element.removeAttribute("aria-busy");
	}

	start() {
		errand(() => this.read(), this.signal, QUIETLY);
		every(EVERY_S, () => this.read(), this.signal);
		return this.element;
	}
}

/* `watch` null: all watches, of one database or of all. It keeps itself up to date. */
export function chartBlock({ watch = null, database = null, signal, title = "Over time" }) {
	return new Block({ watch, database, signal, title }).start();
}
