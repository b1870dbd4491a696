// SPDX-License-Identifier: Apache-2.0
/*
 * plot.js: one chart over time: lines or stacked bars with axes that fit, drawn as wide as it is
 * shown. The pointer and the arrow keys read single steps; the text of a step is also what a screen
 * reader says. Steps without a value are gaps.
 *
 *   plot({ title: "Waiting", unit: "jobs", times, step_s: 60, bars: false,
 *          series: [{ title: "waiting", shade: "busy", values: [3, null, 5] }] })
 */
import { h, s } from "./dom.js";
import { count, duration } from "./words.js";

const HIGH = 150,
	FOOT = 20,
	HEAD = 8,
	LEFT = 46,
	RIGHT = 8;

/* ---- axes ---- */

const SECONDS = [
	...[1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1].flatMap((size) => [size, 2 * size, 5 * size]),
	1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800,
	...[1, 2, 3, 6, 12].map((hours) => hours * 3600),
	...[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].map((days) => days * 86400),
];

/* The distance of about four lines between 0 and `most`: whole numbers, or spans that people use. */
export function niceStep(most, unit) {
	const rough = Math.max(most, unit === "seconds" ? 1e-6 : 1) / 4;
	if (unit === "seconds") return SECONDS.find((step) => step >= rough) ?? SECONDS.at(-1);
	const size = 10 ** Math.floor(Math.log10(Math.max(1, rough)));
	return [1, 2, 5, 10].map((f) => f * size).find((step) => step >= rough);
}

/* 0, step, … up to the first that is not below `most`. */
export function ticksOf(most, unit) {
	const step = niceStep(most, unit);
	const n = Math.max(1, Math.ceil(most / step - 1e-9));
	return Array.from({ length: n + 1 }, (_, i) => i * step);
}

const short = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });

function tickText(value, unit) {
	if (unit === "seconds") return value === 0 ? "0" : duration(value);
	return short.format(value);
}

export function valueText(value, unit) {
	return unit === "seconds" ? duration(value) : count(value);
}

const two = (n) => String(n).padStart(2, "0");
const clock = (at) => `${two(at.getHours())}:${two(at.getMinutes())}`;
const weekday = (at) => at.toLocaleDateString("en", { weekday: "short" });

/* "Tue 14:05 to 14:06" */
export function stepText(at, step_s) {
	const end = new Date(at.getTime() + step_s * 1000);
	return `${weekday(at)} ${clock(at)} to ${clock(end)}`;
}

/* Whole units of the reader's own clock, so that labels do not move with the window. */
function timeTicks(times, step_s, room) {
	const wanted = Math.max(2, Math.floor(room / 64));
	const hour = 3600e3;
	const spans = [5, 10, 15, 30].map((m) => m * 60e3).concat([1, 2, 3, 6, 12, 24, 48].map((n) => n * hour));
	const whole = times.length * step_s * 1000;
	const span = spans.find((one) => whole / one <= wanted) ?? spans.at(-1);
	const zone = -times[0].getTimezoneOffset() * 60e3;
	const list = [];
	for (let i = 0; i < times.length; i++) {
		const local = times[i].getTime() + zone;
		if (Math.floor(local / span) === Math.floor((local - step_s * 1000) / span)) continue;
		list.push({ i, text: span >= 24 * hour ? `${weekday(times[i])} ${times[i].getDate()}` : clock(times[i]) });
	}
	return list;
}

/* ---- what is drawn ---- */

/* Runs of steps that have a value. */
function runs(values) {
	const list = [];
	values.forEach((v, i) => {
		if (v === null || v === undefined) return;
		if (list.at(-1)?.at(-1) === i - 1) list.at(-1).push(i);
		else list.push([i]);
	});
	return list;
}

function lines(series, x, y) {
	return series.flatMap((one) =>
		runs(one.values).map((run) => {
			const at = run.map((i) => `${x(i).toFixed(1)},${y(one.values[i]).toFixed(1)}`);
			/* One step alone is a point. */
			return run.length === 1
				? s("circle", { class: `dot ${one.shade}`, cx: x(run[0]), cy: y(one.values[run[0]]), r: 2 })
				: s("polyline", { class: `line ${one.shade}`, points: at.join(" ") });
		}),
	);
}

function area(one, x, y) {
	return runs(one.values)
		.filter((run) => run.length > 1)
		.map((run) => {
			const at = run.map((i) => `${x(i).toFixed(1)},${y(one.values[i]).toFixed(1)}`);
			return s("polygon", {
				class: `area ${one.shade}`,
				points: `${x(run[0]).toFixed(1)},${y(0)} ${at.join(" ")} ${x(run.at(-1)).toFixed(1)},${y(0)}`,
			});
		});
}

function stacked(series, steps, x, y, room) {
	const width = Math.max(1, room * 0.8);
	return Array.from({ length: steps }, (_, i) => {
		let below = 0;
		return series.map((one) => {
			const n = one.values[i] ?? 0;
			if (!n) return null;
			const top = y(below + n),
				bottom = y(below);
			below += n;
			return s("rect", {
				class: `bar ${one.shade}`,
				x: (x(i) - width / 2).toFixed(1),
				y: top.toFixed(1),
				width: width.toFixed(1),
				height: Math.max(1, bottom - top).toFixed(1),
			});
		});
	});
}

function highest({ series, bars, times }) {
	const at = (one, i) => one.values[i] ?? 0;
	const sums = times.map((_, i) =>
		bars
			? series.reduce((sum, one) => sum + at(one, i), 0)
			: Math.max(0, ...series.map((one) => at(one, i))),
	);
	return Math.max(0, ...sums);
}

/* The picture, and where each step is. */
function draw(chart, width) {
	const { series, bars, times, step_s, unit } = chart;
	const ticks = ticksOf(highest(chart), unit),
		top = ticks.at(-1);
	const room = (width - LEFT - RIGHT) / times.length;
	const x = (i) => LEFT + (i + 0.5) * room;
	const y = (v) => HIGH - FOOT - (v / top) * (HIGH - FOOT - HEAD);
	return {
		x,
		picture: s(
			"svg",
			{ viewBox: `0 0 ${width} ${HIGH}`, "aria-hidden": "true", focusable: "false" },
			ticks.map((v) =>
				s(
					"g",
					{ class: "grid" },
					s("line", { x1: LEFT, x2: width - RIGHT, y1: y(v), y2: y(v) }),
					s("text", { x: LEFT - 6, y: y(v) + 3.5, "text-anchor": "end" }, tickText(v, unit)),
				),
			),
			timeTicks(times, step_s, width - LEFT - RIGHT).map(({ i, text }) =>
				s("text", { class: "when", x: x(i) - room / 2, y: HIGH - 4, "text-anchor": x(i) > width - RIGHT - 18 ? "end" : "middle" }, text),
			),
			bars ? stacked(series, times.length, x, y, room) : [series.length === 1 ? area(series[0], x, y) : null, lines(series, x, y)],
			s("line", { class: "cursor", x1: 0, x2: 0, y1: HEAD, y2: HIGH - FOOT }),
		),
	};
}

/* ---- reading single steps ---- */

const isKnown = (chart, i) => chart.series.some((one) => (one.values[i] ?? null) !== null);

function stepWords(chart, i) {
	const said = chart.series
		.filter((one) => (one.values[i] ?? null) !== null && (chart.series.length === 1 || !chart.bars || one.values[i] > 0))
		.map((one) => `${one.title} ${valueText(one.values[i], chart.unit)}`);
	return `${stepText(chart.times[i], chart.step_s)}: ${said.length ? said.join(", ") : isKnown(chart, i) ? "none" : "nothing recorded"}`;
}

function tipOf(chart, i) {
	const when = h("span", { class: "tip-when" }, stepText(chart.times[i], chart.step_s));
	if (!isKnown(chart, i)) return [when, h("span", "nothing recorded")];
	return [
		when,
		chart.series.map((one) =>
			h(
				"span",
				{ class: "tip-line" },
				h("span", { class: `swatch ${one.shade}`, "aria-hidden": "true" }),
				`${one.title} `,
				h("strong", { class: "num" }, valueText(one.values[i] ?? null, chart.unit)),
			),
		),
	];
}

/* A slider over the steps: the keys and the voice of one, without its look. */
class Reader {
	constructor(chart) {
		this.chart = chart;
		this.at = chart.times.length - 1;
		this.tip = h("div", { class: "tip", hidden: true, "aria-hidden": "true" });
		this.canvas = h("div", { class: "canvas" });
		this.element = h(
			"div",
			{
				class: "plot-area",
				tabindex: "0",
				role: "slider",
				"aria-label": `${chart.title}, by time`,
				"aria-valuemin": "0",
				"aria-valuemax": String(chart.times.length - 1),
				onkeydown: (event) => this.key(event),
				onfocus: () => this.show(this.at),
				onblur: () => this.hide(),
				onpointermove: (event) => this.point(event),
				onpointerdown: (event) => this.point(event),
				onpointerleave: () => this.hide(),
			},
			this.canvas,
			this.tip,
		);
		this.say();
	}

	say() {
		this.element.setAttribute("aria-valuenow", String(this.at));
		this.element.setAttribute("aria-valuetext", stepWords(this.chart, this.at));
	}

	draw(width) {
		const { x, picture } = draw(this.chart, width);
		Object.assign(this, { x, width });
		this.canvas.replaceChildren(picture);
		if (!this.tip.hidden) this.show(this.at);
	}

	show(i) {
		this.at = Math.min(this.chart.times.length - 1, Math.max(0, i));
		this.say();
		this.tip.replaceChildren(...tipOf(this.chart, this.at).flat());
		this.tip.hidden = false;
		/* It has no size yet: draw() comes back here. */
		if (!this.x) return;
		const at = this.x(this.at);
		const cursor = this.canvas.querySelector(".cursor");
		cursor.setAttribute("x1", at);
		cursor.setAttribute("x2", at);
		cursor.classList.add("on");
		/* Beside the line, on the side with more room. */
		const right = at > this.width / 2;
		this.tip.classList.toggle("left", right);
		this.tip.style.setProperty("--at", `${((at / this.width) * 100).toFixed(2)}%`);
	}

	hide() {
		this.tip.hidden = true;
		this.canvas.querySelector(".cursor")?.classList.remove("on");
	}

	point(event) {
		const box = this.canvas.getBoundingClientRect();
		const at = ((event.clientX - box.left) / box.width) * this.width;
		const room = (this.width - LEFT - RIGHT) / this.chart.times.length;
		this.show(Math.floor((at - LEFT) / room));
	}

	key(event) {
		const last = this.chart.times.length - 1;
		const to = {
			ArrowLeft: this.at - 1,
			ArrowDown: this.at - 1,
			ArrowRight: this.at + 1,
			ArrowUp: this.at + 1,
			PageUp: this.at + 10,
			PageDown: this.at - 10,
			Home: 0,
			End: last,
		}[event.key];
		if (event.key === "Escape") this.hide();
		if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
		event.preventDefault();
		this.show(to);
	}
}

/* ---- the whole ---- */

function legend(series) {
	if (series.length < 2) return null;
	return h(
		"div",
		{ class: "legend" },
		series.map((one) =>
			h(
				"span",
				{ class: "key" },
				h("span", { class: `swatch ${one.shade}`, "aria-hidden": "true" }),
				one.title,
				one.note ? h("strong", { class: "num" }, one.note) : null,
			),
		),
	);
}

const sizes = new ResizeObserver((entries) => {
	for (const { target, contentRect } of entries)
		if (contentRect.width > 0) target.reader?.draw(Math.round(contentRect.width));
});

/*
 * `headline` and `note`: the number to remember, and what it is. `empty`: the text if no step has a
 * value.
 */
export function plot(chart) {
	const { title, headline, note, series, empty } = chart;
	const known = series.some((one) => one.values.some((v) => v !== null && v !== undefined));
	const head = h(
		"figcaption",
		h("h3", title),
		h("span", { class: "headline num" }, known ? headline : ""),
		h("span", { class: "muted note" }, known ? note : ""),
	);
	if (!known) return h("figure", { class: "plot" }, head, h("p", { class: "empty" }, empty ?? "Nothing recorded yet."));
	const reader = new Reader(chart);
	reader.element.reader = reader;
	sizes.observe(reader.element);
	return h("figure", { class: "plot" }, head, legend(series), reader.element);
}

/* All charts of one period as one table, the latest step first. */
export function plotTable(charts, label) {
	const { times, step_s } = charts[0];
	const columns = charts.flatMap((chart) =>
		chart.series.map((one) => ({
			title: chart.series.length > 1 ? `${chart.title}: ${one.title}` : chart.title,
			text: (i) => valueText(one.values[i] ?? null, chart.unit),
		})),
	);
	const rows = times.map((at, i) =>
		h(
			"tr",
			h("th", { scope: "row" }, stepText(at, step_s)),
			columns.map((column) => h("td", { class: "num" }, column.text(i))),
		),
	);
	return h(
		"div",
		{ class: "table-box plot-table", tabindex: "0", role: "region", "aria-label": label },
		h(
			"table",
			h("caption", { class: "sr-only" }, label),
			h(
				"thead",
				h(
					"tr",
					h("th", { scope: "col" }, "When"),
					columns.map((column) => h("th", { scope: "col", class: "num" }, column.title)),
				),
			),
			h("tbody", rows.reverse()),
		),
	);
}
