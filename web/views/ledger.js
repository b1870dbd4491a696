// SPDX-License-Identifier: Apache-2.0
/*
 * ledger.js: decisions and changes, the newest first, as they happen. An entry opens to its
 * evidence and to the row before and after; a batch can be undone.
 */
import { isUndoable } from "../lib/acts.js";
import { daemonStatus, get, jobHref, may, queryText } from "../lib/api.js";
import {
	addressed,
	choice,
	databaseChoice,
	fileLink,
	problemBox,
	textField,
} from "../lib/controls.js";
import { fill, h, user } from "../lib/dom.js";
import { errand } from "../lib/errand.js";
import { icon } from "../lib/icon.js";
import { table } from "../lib/table.js";
import { ago, chip, EVENTS, eventChip, stamp, whyOf } from "../lib/words.js";

export const title = "Ledger";

const PAGE = 50;
const SHOWN_MOST = 500; /* older ones are loaded again on request */
const NAMES = ["database", "watch", "job", "event", "actor", "batch", "since"];
const TIMES = [
	["", "any time"],
	["15m", "last 15 minutes"],
	["1h", "last hour"],
	["24h", "last day"],
	["7d", "last week"],
	["30d", "last 30 days"],
];

let shown = null; /* of the view that is shown: {state, rows, reload} */

/* ---- one entry ---- */

function said(value) {
	return typeof value === "string" ? value : JSON.stringify(value);
}

/* Columns before and after, those that changed marked. */
function changes(before, after) {
	const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
	if (names.length === 0) return null;
	return h(
		"div",
		{ class: "table-box" },
		h(
			"table",
			{ class: "changes" },
			h(
				"thead",
				h(
					"tr",
					["Column", "Before", "After"].map((name) => h("th", { scope: "col" }, name)),
				),
			),
			h(
				"tbody",
				names.map((name) => {
					const was = before?.[name],
						is = after?.[name];
					const other = before && after && said(was ?? null) !== said(is ?? null);
					return h(
						"tr",
						{ class: other ? "changed" : null },
						h("th", { scope: "row" }, user(name)),
						h(
							"td",
							was === undefined || was === null
								? user(null)
								: user(said(was), { class: "mono" }),
						),
						h(
							"td",
							is === undefined || is === null
								? user(null)
								: [
										user(said(is), { class: "mono" }),
										other
											? h("span", { class: "sr-only" }, " (changed)")
											: null,
									],
						),
					);
				}),
			),
		),
	);
}

function evidence(given) {
	const pairs = Object.entries(given ?? {}).filter(([, value]) => value !== null);
	if (pairs.length === 0) return null;
	return [
		h("h3", "Evidence"),
		h(
			"dl",
			{ class: "facts" },
			pairs.map(([name, value]) => [
				h("dt", user(name)),
				h("dd", user(said(value), { class: "mono" })),
			]),
		),
	];
}

function undoButton(entry) {
	if (!may("operator") || !isUndoable(entry)) return null;
	return h(
		"div",
		h(
			"button",
			{ type: "button", class: "small", onclick: () => undo(entry) },
			icon("undo"),
			"Undo this batch",
		),
	);
}

async function undo({ database, batch }) {
	const { confirmUndo } = await import("../lib/dialog.js");
	await confirmUndo({ database, batch });
}

function inside(state, entry) {
	const table = changes(entry.before, entry.after);
	return h(
		"div",
		{ class: "stack entry-inside" },
		h(
			"dl",
			{ class: "facts" },
			[
				["Entry", String(entry.id)],
				["At", stamp(entry.at)],
				["Rule", user(entry.rule)],
				[
					"Epoch",
					entry.epoch === null || entry.epoch === undefined
						? user(null)
						: String(entry.epoch),
				],
				[
					"Batch",
					entry.batch
						? h(
								"a",
								{
									href: `/ledger${queryText({ database: state.database, batch: entry.batch })}`,
								},
								user(entry.batch, { class: "mono" }),
							)
						: user(null),
				],
			].map(([name, value]) => [h("dt", name), h("dd", value)]),
		),
		evidence(entry.evidence),
		table ? [h("h3", "The row"), table] : null,
		undoButton(entry),
	);
}

/* Its details are made when it is opened, and stay open when rows are drawn again. */
function openCell(state, entry, opened) {
	const isOpen = opened.has(entry.id);
	const details = h(
		"details",
		{
			open: isOpen,
			ontoggle: () => {
				if (details.open === opened.has(entry.id)) return;
				if (details.open) opened.add(entry.id);
				else opened.delete(entry.id);
				if (details.open && details.children.length === 1)
					details.append(inside(state, entry));
				else if (!details.open)
					details.lastElementChild?.matches("div") && details.lastElementChild.remove();
			},
		},
		h("summary", whyOf(entry) ? user(whyOf(entry)) : "Evidence"),
		isOpen ? inside(state, entry) : null,
	);
	return details;
}

function jobCell(entry) {
	if (!entry.job || entry.job === "*") return user(entry.watch);
	return h(
		"a",
		{ href: jobHref(entry.watch, entry.job, entry.database) },
		user(`${entry.watch}/${entry.job}`, { class: "mono" }),
	);
}

function makeTable(state, more) {
	const opened = new Set();
	return table({
		label: "Entries of the ledger",
		columns: [
			{ name: "of-when tight", title: "When", cell: (e) => ago(e.at) },
			{ name: "of-what tight", title: "What", cell: (e) => eventChip(e.event) },
			{ name: "of-job fair", title: "Job", cell: jobCell },
			{
				name: "of-found tight",
				title: "Verdict",
				cell: (e) => (e.verdict ? chip(e.verdict) : user(null)),
			},
			{ name: "of-why wide", title: "Why", cell: (e) => openCell(state, e, opened) },
			{ name: "of-by fair", title: "By", cell: (e) => user(e.actor) },
		],
		key: (e) => e.id,
		more,
		empty: "No matching entry in the ledger.",
	});
}

/* ---- above it ---- */

function query(state) {
	return Object.fromEntries(NAMES.map((name) => [name, state[name]]));
}

function fileLinks(state) {
	return ["csv", "jsonl"].map((format) =>
		fileLink(
			format.toUpperCase(),
			`/ledger${queryText({ ...query(state), format })}`,
			`ledger.${format}`,
		),
	);
}

async function filters(state, reload, signal) {
	const { watches } = await get("/watches", { signal });
	const events = Object.entries(EVENTS).map(([name, event]) => [name, event.label]);
	return h(
		"div",
		{ class: "toolbar", role: "group", "aria-label": "Filter" },
		await databaseChoice(state, reload),
		choice(
			"Watch",
			"watch",
			[["", "all"], ...[...new Set(watches.map((w) => w.watch))].map((name) => [name, name])],
			state,
			reload,
		),
		choice("Event", "event", [["", "any"], ...events], state, reload),
		choice("Since", "since", TIMES, state, reload),
		textField("Job", "job", state, reload, { size: 10, placeholder: "key" }),
		textField("By", "actor", state, reload, { size: 10, placeholder: "daemon" }),
		textField("Batch", "batch", state, reload, { size: 12 }),
	);
}

/* ---- as it happens ---- */

function fits(state, entry) {
	const first = daemonStatus()?.databases?.[0]?.name;
	return (
		entry.database === (state.database || first) &&
		["watch", "event", "actor", "batch"].every(
			(name) => !state[name] || entry[name] === state[name],
		) &&
		(!state.job || entry.job === state.job || `${entry.watch}/${entry.job}` === state.job)
	);
}

export function update(event) {
	if (!shown) return;
	if (event.type === "gap") shown.reload();
	if (event.type !== "ledger" || !fits(shown.state, event.data)) return;
	shown.rows.prepend([event.data]);
	shown.trim();
}

/* ---- the whole ---- */

export async function show(root, { query: given, signal }) {
	const state = addressed(given, NAMES);
	const files = h("div", { class: "toolbar" });
	const trouble = h("div", { hidden: true });
	let next = null;
	const page = (after) =>
		get("/ledger", { query: { ...query(state), limit: PAGE, after, order: "desc" }, signal });
	const more = () =>
		errand(async () => {
			const got = await page(next);
			next = got.next;
			rows.append(got.entries);
			rows.hasMore(got.more);
		}, signal);
	const rows = makeTable(state, more);
	const reload = async () => {
		fill(
			files,
			fileLinks(state),
			state.batch && may("operator")
				? h(
						"button",
						{
							type: "button",
							onclick: () =>
								undo({ database: state.database || null, batch: state.batch }),
						},
						icon("undo"),
						"Undo batch",
					)
				: null,
		);
		trouble.hidden = true;
		const read = async () => {
			const got = await page(null);
			next = got.next;
			rows.set(got.entries);
			rows.hasMore(got.more);
		};
		await errand(read, signal, (problem) => {
			trouble.hidden = false;
			fill(trouble, problemBox(problem));
			rows.set([]);
		});
	};
	const trim = () => {
		const all = rows.shown();
		if (rows.isBusy() || all.length <= SHOWN_MOST) return;
		rows.set(all.slice(0, SHOWN_MOST - PAGE));
		next = rows.shown().at(-1).id;
		rows.hasMore(true);
	};
	fill(
		root,
		h("div", { class: "page-head" }, h("h1", "Ledger"), files),
		await filters(state, reload, signal),
		trouble,
		h("section", { class: "card" }, h("h2", { class: "sr-only" }, "Entries"), rows.element),
	);
	await reload();
	shown = { state, rows, reload, trim };
	signal.addEventListener("abort", () => {
		if (shown?.rows === rows) shown = null;
	});
}
