// SPDX-License-Identifier: Apache-2.0
/*
 * alerts.js: every rule with its limit and state, its messages and the answers of their sinks, and
 * a test message for each sink.
 */
import { get, may, post } from "../lib/api.js";
import { addressed, choice, databaseChoice, problemBox, telling } from "../lib/controls.js";
import { announce, fill, h, renew, user } from "../lib/dom.js";
import { icon } from "../lib/icon.js";
import { every } from "../lib/live.js";
import { table } from "../lib/table.js";
import { ago, chip, count, duration, human, plural } from "../lib/words.js";

export const title = "Alerts";

const REFRESH_S = 5;
const DELIVERIES = 50;
const ORDER = { firing: 0, pending: 1, resolved: 2 };

/* ---- rules ---- */

function severityChip(rule) {
	const looks = { page: "critical" };
	return chip(rule.severity, { look: looks[rule.severity] ?? rule.severity });
}

function stateChip(rule) {
	if (!rule.enabled) return chip("off", { look: "cancelled" });
	return rule.since || rule.state !== "resolved"
		? chip(rule.state)
		: chip("quiet", { label: "quiet", title: "It has never fired" });
}

function thresholdCell(rule) {
	const said = [
		rule.threshold ?? "while true",
		rule.window_s ? `within ${duration(rule.window_s)}` : null,
		rule.for_s ? `for ${duration(rule.for_s)}` : null,
	];
	return said.filter(Boolean).join(", ");
}

/* `names` in the text are options. */
function about(text) {
	return String(text ?? "")
		.split("`")
		.map((part, i) => (i % 2 ? h("code", part) : part));
}

function watchCell(r) {
	const names = r.watches.map((name) =>
		name === "*" ? h("span", { class: "muted" }, "the database") : user(name),
	);
	return names.flatMap((name, i) => (i ? [", ", name] : [name]));
}

function rulesTable() {
	return table({
		label: "Alert rules",
		columns: [
			{
				name: "of-rule wide",
				title: "Rule",
				cell: (r) => [
					h("span", { class: "mono" }, r.rule),
					h("div", { class: "muted small-text" }, about(r.about)),
				],
			},
			{ name: "of-watch fair", title: "Watch", cell: watchCell },
			{ name: "of-state tight", title: "State", cell: stateChip },
			{
				name: "of-since tight",
				title: "Since",
				cell: (r) => (r.since ? ago(r.since) : user(null)),
			},
			{ name: "of-severity tight", title: "Severity", cell: severityChip },
			{ name: "of-alerts fair", title: "Alerts", cell: thresholdCell },
			{
				name: "of-now wide",
				title: "Now",
				cell: (r) => user(r.state === "resolved" ? null : r.text),
			},
			{
				name: "of-tells fair",
				title: "Tells",
				cell: (r) => (r.sinks.length ? user(r.sinks.join(", ")) : user(null)),
			},
		],
		key: (r) => `${r.rule}/${r.watches.join("/")}`,
		empty: "No rule is firing or pending.",
	});
}

function rank(rule) {
	return rule.enabled ? (ORDER[rule.state] ?? 3) : 4;
}

/* A rule that is quiet, and the same, for several watches is one row. */
function together(alerts) {
	const rows = new Map();
	for (const r of alerts) {
		const alike = r.since
			? `${r.watch}/${r.rule}`
			: JSON.stringify([
					r.rule,
					r.severity,
					r.enabled,
					r.threshold,
					r.window_s,
					r.for_s,
					r.sinks,
				]);
		if (rows.has(alike)) rows.get(alike).watches.push(r.watch);
		else rows.set(alike, { ...r, watches: [r.watch] });
	}
	return [...rows.values()];
}

function sorted(alerts, which) {
	return together(
		alerts.filter((r) => which === "all" || (r.enabled && r.state !== "resolved")),
	).sort((a, b) => rank(a) - rank(b));
}

/* ---- messages ---- */

const ENDS = { sent: "done", waiting: "pending", given_up: "failed", dropped: "failed" };

function messageCell(d) {
	return d.document?.text ? user(d.document.text) : user(human(d.kind ?? ""));
}

function deliveriesTable() {
	return table({
		label: "Messages to sinks",
		columns: [
			{ name: "of-made tight", title: "Made", cell: (d) => ago(d.made_at) },
			{ name: "of-sink fair", title: "Sink", cell: (d) => user(d.sink) },
			{ name: "of-message wide", title: "Message", cell: messageCell },
			{
				name: "of-state tight",
				title: "State",
				cell: (d) => chip(d.state, { look: ENDS[d.state] ?? "failed" }),
			},
			{ name: "tries", title: "Tries", num: true, cell: (d) => count(d.tries) },
			{
				name: "of-ended tight",
				title: "Ended, or due",
				cell: (d) => ago(d.ended_at ?? d.due_at),
			},
			{ name: "of-answer wide", title: "Answer", cell: (d) => user(d.answer) },
		],
		key: (d) => `${d.sink}/${d.id}`,
		empty: "No message yet.",
	});
}

/* ---- sinks ---- */

async function test(sink, button, line) {
	button.disabled = true;
	fill(line, "Sending…");
	try {
		const { sinks } = await post("/alerts/test", { sink });
		const answer = sinks[0];
		fill(
			line,
			chip(answer.sent ? "sent" : "not sent", { look: answer.sent ? "done" : "failed" }),
			" ",
			user(answer.answer),
		);
		announce(`${sink}: ${answer.sent ? "sent" : "not sent"}`);
	} catch (error) {
		fill(line, problemBox(error));
	} finally {
		button.disabled = false;
	}
}

function sinkRow({ sink, type }) {
	const line = h("span", { class: "sink-answer", role: "status" });
	const button = h(
		"button",
		{
			type: "button",
			class: "small",
			onclick: () => test(sink, button, line),
			"aria-label": `Send a test to ${sink}`,
		},
		icon("bell"),
		"Send a test",
	);
	return h(
		"li",
		h("strong", user(sink)),
		h("span", { class: "muted" }, user(type)),
		may("admin") ? button : null,
		line,
	);
}

function sinksCard(sinks) {
	return h(
		"section",
		{ class: "card", "aria-label": "Sinks" },
		h(
			"div",
			{ class: "card-head" },
			h("h2", "Sinks"),
			h(
				"p",
				{ class: "muted" },
				may("admin")
					? "The message says that it is a test."
					: "Sending a test requires the role admin.",
			),
		),
		sinks.length
			? h("ul", { class: "plain sinks" }, sinks.map(sinkRow))
			: h(
					"p",
					{ class: "empty" },
					"The configuration has no sink: alerts are only logged.",
				),
	);
}

/* ---- the whole ---- */

function summary(alerts) {
	const firing = alerts.filter((r) => r.enabled && r.state === "firing").length;
	const pending = alerts.filter((r) => r.enabled && r.state === "pending").length;
	if (firing) return chip("firing", { label: `${plural(firing, "alert")} firing` });
	return pending
		? chip("pending", { label: `${plural(pending, "alert")} pending` })
		: chip("resolved", { label: "no alert is firing" });
}

export async function show(root, { query, signal }) {
	const state = addressed(query, ["database", "show"]);
	const rules = rulesTable(),
		deliveries = deliveriesTable();
	const head = h("span"),
		sinks = h("div");
	let named = null;
	const load = async () => {
		const of = { database: state.database };
		const [got, sent] = await Promise.all([
			get("/alerts", { query: of, signal }),
			get("/deliveries", { query: { ...of, limit: DELIVERIES }, signal }),
		]);
		renew(head, summary(got.alerts));
		rules.refresh(sorted(got.alerts, state.show || "all"));
		deliveries.refresh(sent.deliveries);
		/* Results of tests stay while the configuration is unchanged. */
		const names = JSON.stringify(got.sinks);
		if (named !== names) fill(sinks, sinksCard(got.sinks));
		named = names;
	};
	const told = telling(load, signal);
	fill(
		root,
		h(
			"div",
			{ class: "page-head" },
			h("div", { class: "row" }, h("h1", "Alerts"), head),
			h(
				"div",
				{ class: "toolbar" },
				await databaseChoice(state, told.run),
				choice(
					"Show",
					"show",
					[
						["", "all rules"],
						["firing", "firing and pending"],
					],
					state,
					told.run,
				),
			),
		),
		told.element,
		h(
			"section",
			{ class: "card", "aria-label": "Rules" },
			h("div", { class: "card-head" }, h("h2", "Rules")),
			rules.element,
		),
		sinks,
		h(
			"section",
			{ class: "card", "aria-label": "Messages" },
			h("div", { class: "card-head" }, h("h2", "Messages")),
			deliveries.element,
		),
	);
	await told.run();
	every(REFRESH_S, told.run, signal);
}
