/*
 * alerts.js: every rule with its limit and how it stands, the messages that were made of it
 * and what their sinks answered, and a test message for each sink.
 */
import { get, may, post } from "../lib/api.js";
import { addressed, choice, databaseChoice, problemBox } from "../lib/controls.js";
import { announce, fill, h, user } from "../lib/dom.js";
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
	return rule.since || rule.state !== "resolved" ? chip(rule.state) : chip("quiet", { label: "quiet", title: "It never fired" });
}

function thresholdCell(rule) {
	const said = [rule.threshold ?? "while it is so", rule.window_s ? `within ${duration(rule.window_s)}` : null, rule.for_s ? `for ${duration(rule.for_s)}` : null];
	return said.filter(Boolean).join(", ");
}

function rulesTable() {
	return table({
		label: "Rules of alerts",
		columns: [
			{ name: "rule", title: "Rule", cell: (r) => [h("span", { class: "mono" }, r.rule), h("div", { class: "muted small-text" }, user(r.about))] },
			{ name: "watch", title: "Watch", cell: (r) => r.watch === "*" ? h("span", { class: "muted" }, "the database") : user(r.watch) },
			{ name: "state", title: "State", cell: stateChip },
			{ name: "since", title: "Since", cell: (r) => r.since ? ago(r.since) : user(null) },
			{ name: "severity", title: "Severity", cell: severityChip },
			{ name: "threshold", title: "Alerts", cell: thresholdCell },
			{ name: "text wide", title: "Now", cell: (r) => user(r.state === "resolved" ? null : r.text) },
			{ name: "sinks", title: "Tells", cell: (r) => r.sinks.length ? user(r.sinks.join(", ")) : user(null) },
		],
		key: (r) => `${r.watch}/${r.rule}`,
		empty: "No rule is firing or pending.",
	});
}

function sorted(alerts, which) {
	return alerts.filter((r) => which === "all" || (r.enabled && r.state !== "resolved"))
		.sort((a, b) => (a.enabled ? ORDER[a.state] ?? 3 : 4) - (b.enabled ? ORDER[b.state] ?? 3 : 4));
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
			{ name: "made", title: "Made", cell: (d) => ago(d.made_at) },
			{ name: "sink", title: "Sink", cell: (d) => user(d.sink) },
			{ name: "text wide", title: "Message", cell: messageCell },
			{ name: "state", title: "State", cell: (d) => chip(d.state, { look: ENDS[d.state] ?? "failed" }) },
			{ name: "tries", title: "Tries", num: true, cell: (d) => count(d.tries) },
			{ name: "when", title: "Ended, or due", cell: (d) => ago(d.ended_at ?? d.due_at) },
			{ name: "answer wide", title: "Answer", cell: (d) => user(d.answer) },
		],
		key: (d) => `${d.sink}/${d.id}`,
		empty: "No message was made yet.",
	});
}

/* ---- sinks ---- */

async function test(sink, button, line) {
	button.disabled = true;
	fill(line, "Sending…");
	try {
		const { sinks } = await post("/alerts/test", { sink });
		const answer = sinks[0];
		fill(line, chip(answer.sent ? "sent" : "not sent", { look: answer.sent ? "done" : "failed" }), " ", user(answer.answer));
		announce(`${sink}: ${answer.sent ? "sent" : "not sent"}`);
	} catch (error) {
		fill(line, problemBox(error));
	} finally {
		button.disabled = false;
	}
}

function sinkRow({ sink, type }) {
	const line = h("span", { class: "sink-answer", role: "status" });
	const button = h("button", { type: "button", class: "small", onclick: () => test(sink, button, line), "aria-label": `Send a test to ${sink}` }, icon("bell"), "Send a test");
	return h("li", h("strong", user(sink)), h("span", { class: "muted" }, user(type)), may("admin") ? button : null, line);
}

function sinksCard(sinks) {
	return h("section", { class: "card", "aria-label": "Sinks" },
		h("div", { class: "card-head" }, h("h2", "Sinks"), h("p", { class: "muted" }, may("admin") ? "A test is sent at once, as a message that says so." : "Sending a test takes the role admin.")),
		sinks.length ? h("ul", { class: "plain sinks" }, sinks.map(sinkRow)) : h("p", { class: "empty" }, "The configuration names no sink: alerts are told to the log only."));
}

/* ---- the whole ---- */

function summary(alerts) {
	const firing = alerts.filter((r) => r.enabled && r.state === "firing").length;
	const pending = alerts.filter((r) => r.enabled && r.state === "pending").length;
	if (firing) return chip("firing", { label: `${plural(firing, "alert")} firing` });
	return pending ? chip("pending", { label: `${plural(pending, "alert")} pending` }) : chip("resolved", { label: "no alert is firing" });
}

export async function show(root, { query, signal }) {
	const state = addressed(query, ["database", "show"]);
	const rules = rulesTable(), deliveries = deliveriesTable();
	const head = h("span"), sinks = h("div");
	let told = null;
	const load = async () => {
		const of = { database: state.database };
		const [got, sent] = await Promise.all([get("/alerts", { query: of, signal }), get("/deliveries", { query: { ...of, limit: DELIVERIES }, signal })]);
		fill(head, summary(got.alerts));
		rules.refresh(sorted(got.alerts, state.show || "all"));
		deliveries.refresh(sent.deliveries);
		/* Answers of tests stay where they are while nothing else is configured. */
		const names = JSON.stringify(got.sinks);
		if (told !== names) fill(sinks, sinksCard(got.sinks));
		told = names;
	};
	fill(root,
		h("div", { class: "page-head" }, h("div", { class: "row" }, h("h1", "Alerts"), head), h("div", { class: "toolbar" },
			await databaseChoice(state, load),
			choice("Show", "show", [["", "all rules"], ["firing", "firing and pending"]], state, load))),
		h("section", { class: "card", "aria-label": "Rules" }, h("div", { class: "card-head" }, h("h2", "Rules")), rules.element),
		sinks,
		h("section", { class: "card", "aria-label": "Messages" }, h("div", { class: "card-head" }, h("h2", "Messages")), deliveries.element));
	await load();
	every(REFRESH_S, load, signal);
}
