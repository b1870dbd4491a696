// SPDX-License-Identifier: Apache-2.0
/*
 * chart.js: two small charts, drawn as SVG with a text beside them for screen readers. Bars have
 * titles; colours come from the style sheet.
 */
import { h, s } from "./dom.js";
import { count } from "./words.js";

/* A line of numbers, scaled to its largest; `label` describes it in words. */
export function sparkline(values, { label = "", width = 96, height = 24, shade = "busy" } = {}) {
	const most = Math.max(1, ...values);
	const step = values.length > 1 ? (width - 2) / (values.length - 1) : 0;
	const at = values.map(
		(v, i) =>
			`${(1 + i * step).toFixed(1)},${(height - 2 - (v / most) * (height - 4)).toFixed(1)}`,
	);
	const flat = values.every((v) => v === 0);
	return s(
		"svg",
		{
			class: `sparkline ${shade}${flat ? " flat" : ""}`,
			viewBox: `0 0 ${width} ${height}`,
			width,
			height,
			role: "img",
			"aria-label": label,
			focusable: "false",
		},
		s("title", label),
		s("polyline", { points: at.join(" ") }),
	);
}

/* ---- bars ---- */

const HIGH = 190,
	FOOT = 18,
	LEFT = 34;
/* Drawn approximately as wide as it will be shown, so that letters keep their size. */
const wide = () => (matchMedia("(max-width: 640px)").matches ? 340 : 720);

/* A round number not below n, for the top of the scale. */
function ceiling(n) {
	const size = 10 ** Math.floor(Math.log10(Math.max(1, n)));
	return [1, 2, 4, 5, 10].map((f) => f * size).find((top) => top >= n);
}

function grid(top, width) {
	const lines = top < 4 ? [...Array(top + 1).keys()] : [0, top / 4, top / 2, (3 * top) / 4, top];
	return lines
		.filter((v) => Number.isInteger(v))
		.map((v) => {
			const y = HIGH - FOOT - (v / top) * (HIGH - FOOT - 8);
			return s(
				"g",
				{ class: "grid" },
				s("line", { x1: LEFT, x2: width, y1: y, y2: y }),
				s("text", { x: LEFT - 6, y: y + 3.5, "text-anchor": "end" }, count(v)),
			);
		});
}

function bar(bucket, one, x, width, top) {
	const n = bucket.values[one.name] ?? 0;
	const high = (n / top) * (HIGH - FOOT - 8);
	return s("rect", {
		class: `bar ${one.shade}`,
		x,
		width: Math.max(1, width),
		y: HIGH - FOOT - high,
		height: high,
		rx: Math.min(2, width / 3),
	});
}

function columns(buckets, series, top, whole) {
	const room = (whole - LEFT) / Math.max(1, buckets.length);
	const width = (room * 0.72) / series.length;
	const every = Math.max(1, Math.ceil(buckets.length / (whole / 90)));
	return buckets.map((bucket, i) => {
		const x = LEFT + i * room;
		const said = series
			.map((one) => `${one.title.toLowerCase()} ${count(bucket.values[one.name] ?? 0)}`)
			.join(", ");
		return s(
			"g",
			{ class: "bucket" },
			s("title", `${bucket.title}: ${said}`),
			s("rect", { class: "hit", x, y: 0, width: room, height: HIGH - FOOT }),
			series.map((one, k) => bar(bucket, one, x + room * 0.14 + k * width, width, top)),
			i % every === 0 ? s("text", { x, y: HIGH - 4 }, bucket.label) : null,
		);
	});
}

function legend(series, buckets) {
	return h(
		"figcaption",
		{ class: "legend" },
		series.map((one) =>
			h(
				"span",
				{ class: "key" },
				h("span", { class: `swatch ${one.shade}`, "aria-hidden": "true" }),
				`${one.title} `,
				h(
					"strong",
					{ class: "num" },
					count(buckets.reduce((sum, b) => sum + (b.values[one.name] ?? 0), 0)),
				),
			),
		),
	);
}

function asTable(buckets, series, label) {
	/* A table grows with its rows, whatever its height; the box around it does not. */
	return h(
		"div",
		{ class: "sr-only" },
		h(
			"table",
			h("caption", label),
			h(
				"thead",
				h(
					"tr",
					h("th", { scope: "col" }, "When"),
					series.map((one) => h("th", { scope: "col" }, one.title)),
				),
			),
			h(
				"tbody",
				buckets.map((b) =>
					h(
						"tr",
						h("th", { scope: "row" }, b.title),
						series.map((one) => h("td", count(b.values[one.name] ?? 0))),
					),
				),
			),
		),
	);
}

/*
 * Bars side by side. buckets: [{title: "15:00 to 16:00", label: "15:00", values: {detected: 3}}];
 * series: [{name: "detected", title: "Detected", shade: "warn"}].
 */
export function bars(buckets, series, { label }) {
	const most = Math.max(
		0,
		...buckets.flatMap((b) => series.map((one) => b.values[one.name] ?? 0)),
	);
	const top = ceiling(most),
		width = wide();
	return h(
		"figure",
		{ class: "chart" },
		legend(series, buckets),
		s(
			"svg",
			{ viewBox: `0 0 ${width} ${HIGH}`, "aria-hidden": "true", focusable: "false" },
			grid(top, width),
			columns(buckets, series, top, width),
		),
		asTable(buckets, series, label),
	);
}
