// SPDX-License-Identifier: Apache-2.0
/*
 * report.js: what happened in a period, on a page that can be printed: numbers compared with the
 * period before, recoveries by day, causes, mistakes, what waits for an operator, advice.
 */
import { get, queryText } from "../lib/api.js";
import { bars } from "../lib/chart.js";
import { addressed, choice, databaseChoice, fileLink, problemBox } from "../lib/controls.js";
import { fill, h, user } from "../lib/dom.js";
import { errand } from "../lib/errand.js";
import { icon } from "../lib/icon.js";
import { REMEDIES } from "../lib/tables.js";
import { chip, count, duration, EVENTS, human, stampText } from "../lib/words.js";

export const title = "Report";

const PERIODS = [
	["24h", "last day"],
	["", "last 7 days"],
	["30d", "last 30 days"],
	["90d", "last 90 days"],
	["366d", "last year"],
];

/* Numbers of the summary: those that are good when they fall, and neutral ones. */
const TOLD = [
	["recovered", "Recovered", "redo"],
	["held", "Put on hold", "hand"],
	["reported", "Reported", "book"],
	["late_completions", "Late completions", "clock"],
	["retries_exhausted", "No attempts left", "none"],
	["by_hand", "By hand", "worker"],
];

/* ---- small parts ---- */

function against(now, before) {
	if (now === before) return "same as before";
	const [arrow, word] = now > before ? ["▲", "more"] : ["▼", "fewer"];
	return `${arrow} ${count(Math.abs(now - before))} ${word} than before (${count(before)})`;
}

function tiles({ now, before }) {
	return h(
		"div",
		{ class: "tiles" },
		TOLD.map(([name, words, picture]) =>
			h(
				"div",
				{ class: "tile" },
				h("span", { class: "tile-name" }, icon(picture), words),
				h("span", { class: "tile-value" }, count(now[name])),
				h("span", { class: "tile-note" }, against(now[name], before[name])),
			),
		),
	);
}

function dayChart(w) {
	if (!w.days.length) return null;
	return bars(
		w.days.map((d) => ({ title: d.day, label: d.day.slice(5), values: d })),
		[
			{ name: "recovered", title: "Recovered", shade: "good" },
			{ name: "held", title: "Held", shade: "held" },
			{ name: "reported", title: "Reported", shade: "warn" },
		],
		{ label: `Recoveries of ${w.watch} by day` },
	);
}

/* A short list of the most frequent values. */
function top(heading, rows, words) {
	if (!rows?.length) return null;
	return h(
		"div",
		{ class: "top-list" },
		h("h3", heading),
		h(
			"table",
			h(
				"tbody",
				rows.map((row) =>
					h("tr", h("td", words(row)), h("td", { class: "num" }, count(row.n))),
				),
			),
		),
	);
}

/* "3 requeued, 1 failed": those that occur, else `nothing`. */
function listed(pairs, nothing) {
	return (
		pairs
			.filter(([n]) => n > 0)
			.map(([n, words]) => `${count(n)} ${words}`)
			.join(", ") || nothing
	);
}

function numberLines(w) {
	const { now, time_to_recover: time } = w;
	const lines = [
		[
			"Recovered",
			[
				count(now.recovered),
				now.recovered
					? `: ${listed(
							[
								...Object.values(REMEDIES).map((remedy) => [now[remedy.count], remedy.becomes]),
							],
							"otherwise",
						)}`
					: null,
			],
		],
		...(now.rolled_back ? [["Rolled back", count(now.rolled_back)]] : []),
		[
			"Time to recover",
			time.n
				? `${duration(time.median_s)} (median), ${duration(time.longest_s)} (longest)`
				: "nothing was recovered",
		],
		[
			"Mistakes",
			listed(
				[
					[
						w.false_positives,
						w.false_positives === 1 ? "false positive" : "false positives",
					],
					[w.near_misses ?? 0, w.near_misses === 1 ? "near miss" : "near misses"],
				],
				"none",
			),
		],
		[
			"Held back",
			listed(
				[
					[now.brakes, "by the brake"],
					[now.changed_meanwhile, "changed meanwhile"],
					[now.workers_returned, "whose worker returned"],
				],
				"nothing",
			),
		],
		["Waiting for an operator", count(w.waiting)],
	];
	return h(
		"dl",
		{ class: "facts" },
		lines.map(([name, value]) => [h("dt", name), h("dd", value)]),
	);
}

function holds(w) {
	if (!w.holds.length) return null;
	return h(
		"div",
		h("h3", "On hold"),
		h(
			"ul",
			{ class: "plain holds" },
			w.holds.map((one) =>
				h(
					"li",
					user(`${w.watch}/${one.job}`, { class: "mono" }),
					" ",
					one.cause ? [user(one.cause), " "] : null,
					one.reason ? user(one.reason) : null,
					one.at ? h("span", { class: "muted" }, `, since ${stampText(one.at)}`) : null,
				),
			),
		),
	);
}

function advice(w) {
	if (!w.advice.length) return null;
	return h(
		"div",
		h("h3", "Advice"),
		h(
			"ul",
			w.advice.map((line) => h("li", user(line))),
		),
	);
}

/* ---- a watch ---- */

function watchCard(w) {
	const not = w.missing ?? w.no_ledger;
	return h(
		"section",
		{ class: "card report-watch", "aria-label": `Watch ${w.watch}` },
		h(
			"div",
			{ class: "card-head" },
			h(
				"h2",
				user(w.label ?? w.watch),
				w.label ? [" ", user(w.watch, { class: "mono muted" })] : null,
			),
			h("span", { class: "muted" }, user(w.group ?? w.database)),
		),
		h(
			"div",
			{ class: "card-body stack" },
			not ? h("p", chip("warn", { label: "incomplete" }), " ", user(not)) : null,
			h("div", { class: "grid-2" }, numberLines(w), dayChart(w)),
			h(
				"div",
				{ class: "tops" },
				top("Causes", w.causes, (row) => [
					chip(row.verdict),
					" ",
					user(row.rule, { class: "mono muted" }),
				]),
				top("Kinds", w.kinds, (row) => user(row.kind)),
				top("Owners", w.owners, (row) => user(row.owner, { class: "mono" })),
				top("Jobs", w.jobs, (row) => user(row.job, { class: "mono" })),
				top("By hand", w.actions, (row) => [
					user(row.actor),
					" ",
					h("span", { class: "muted" }, EVENTS[row.event]?.label ?? human(row.event)),
				]),
			),
			holds(w),
			advice(w),
		),
	);
}

function whole(report) {
	return [
		h(
			"p",
			{ class: "lead report-span" },
			`${stampText(report.from)} to ${stampText(report.to)}, compared with the previous period`,
		),
		tiles(report),
		report.watches.length
			? report.watches.map(watchCard)
			: h("p", { class: "empty" }, "There is no watch to report on."),
		(report.not_reported ?? []).map((one) =>
			h(
				"p",
				chip("warn", { label: "not reported" }),
				" ",
				user(one.database),
				": ",
				user(one.because),
			),
		),
	];
}

/* ---- the view ---- */

export async function show(root, { query, signal }) {
	const state = addressed(query, ["database", "since", "watch"]);
	const files = h("span", { class: "row" }),
		body = h("div", { class: "stack report" });
	const load = async () => {
		const of = { ...state };
		fill(
			files,
			fileLink("Markdown", `/report${queryText({ ...of, format: "markdown" })}`, "report.md"),
			fileLink("HTML", `/report${queryText({ ...of, format: "html" })}`, "report.html"),
		);
		body.setAttribute("aria-busy", "true");
		const read = async () => fill(body, whole(await get("/report", { query: of, signal })));
		await errand(read, signal, (problem) => fill(body, problemBox(problem)));
		body.removeAttribute("aria-busy");
	};
	const { watches } = await get("/watches", { signal });
	fill(
		root,
		h(
			"div",
			{ class: "page-head" },
			h("h1", "Report"),
			h(
				"div",
				{ class: "toolbar" },
				await databaseChoice(state, load),
				choice(
					"Watch",
					"watch",
					[
						["", "all"],
						...[...new Set(watches.map((w) => w.watch))].map((name) => [name, name]),
					],
					state,
					load,
				),
				choice("Period", "since", PERIODS, state, load),
				h("button", { type: "button", onclick: () => print() }, icon("book"), "Print"),
				files,
			),
		),
		body,
	);
	await load();
}
