// SPDX-License-Identifier: Apache-2.0
/*
 * health.js: whether defib itself is well: the daemon, its databases, its watches and their
 * overrides, doctor's findings, and the configuration in force.
 */
import { daemonStatus, get, may, onStatus, readStatus } from "../lib/api.js";
import { problemBox, telling } from "../lib/controls.js";
import { copyButton } from "../lib/copy.js";
import { fill, h, renew, user } from "../lib/dom.js";
import { errand } from "../lib/errand.js";
import { icon } from "../lib/icon.js";
import { every, poke } from "../lib/live.js";
import { table } from "../lib/table.js";
import { overrule, pauseWatch, raiseWatch, resumeWatch, scanNow } from "../lib/overrides.js";
import { ago, agoText, chip, count, human, stamp } from "../lib/words.js";

export const title = "Health";

const REFRESH_S = 4;

/* ---- the daemon ---- */

function databaseChip(d) {
	return d.asked ? chip(d.up ? "up" : "away") : chip("not connected yet", { look: "pending" });
}

function readAgain(times) {
	return times === 0
		? "since the start"
		: `reloaded ${times === 1 ? "once" : `${count(times)} times`}`;
}

function daemonFacts(s) {
	const pairs = [
		["Daemon", user(s.daemon, { class: "mono" })],
		["Version", user(s.version, { class: "mono" })],
		["Started", [stamp(s.started), " (", ago(s.started), ")"]],
		["Configuration", `number ${count(s.setup)}: ${readAgain(s.setup - 1)}`],
		["Environment", user(s.environment?.name ?? null)],
		["You are", [user(s.actor), ", ", s.role]],
	];
	return h(
		"dl",
		{ class: "facts" },
		pairs.map(([name, value]) => [h("dt", name), h("dd", value)]),
	);
}

function databaseList(databases) {
	return h(
		"ul",
		{ class: "plain database-list" },
		databases.map((d) =>
			h(
				"li",
				icon("database"),
				h("strong", user(d.name)),
				h("span", { class: "muted" }, d.engine),
				databaseChip(d),
				d.since ? h("span", { class: "muted" }, "changed ", ago(d.since)) : null,
				d.error ? h("span", { class: "bad-text" }, user(d.error)) : null,
			),
		),
	);
}

function daemonCard(s) {
	return h(
		"section",
		{ class: "card", "aria-label": "Daemon" },
		h("div", { class: "card-head" }, h("h2", "Daemon")),
		h(
			"div",
			{ class: "card-body grid-2" },
			daemonFacts(s),
			h("div", { class: "stack" }, h("h3", "Databases"), databaseList(s.databases)),
		),
	);
}

/* ---- watches ---- */

function leaderCell(w) {
	if (w.leads) return "this daemon";
	return w.read?.leader?.leads
		? user(w.read.leader.holder, { class: "mono clip" })
		: h("span", { class: "muted" }, "nobody");
}

function overridesOf(w) {
	return w.read?.overrides ?? [];
}

function overridesCell(w) {
	const overrides = overridesOf(w);
	if (overrides.length === 0) return h("span", { class: "muted" }, "–");
	return overrides.map((t) =>
		h(
			"div",
			chip(t.name, {
				look: t.name === "pause" ? "paused" : "held",
				label:
					t.name === "raise"
						? `raised ${t.value} times`
						: t.name === "pause"
							? "paused"
							: human(t.name),
			}),
			h(
				"span",
				{ class: "muted" },
				" by ",
				user(t.actor),
				t.watch === "*" ? ", for all watches" : null,
				t.until ? [", ends ", agoText(t.until)] : null,
				t.reason ? [": ", user(t.reason)] : null,
			),
		),
	);
}

/* A guard is shown while it holds something back. */
function troubleCell(w) {
	const guards = w.braking || w.doubting || (w.read?.status ?? w.status) === "held";
	return user(w.failure ?? (guards ? w.info?.guard : null) ?? null);
}

function button(words, picture, run, hint) {
	return h(
		"button",
		{ type: "button", class: "small", title: hint, onclick: run },
		icon(picture),
		words,
	);
}

function actsCell(w) {
	if (!may("operator")) return user(null);
	const own = (word) => overridesOf(w).some((t) => t.name === word && t.watch !== "*");
	return h(
		"span",
		{ class: "row" },
		button("Scan now", "search", () => scanNow(w), "Scan for stuck jobs now"),
		own("pause") || w.paused
			? button("Resume", "play", () => resumeWatch(w), "Resume recovery")
			: button("Pause", "pause", () => pauseWatch(w), "The daemons stop recovering"),
		may("admin")
			? button(
					"Raise",
					"clock",
					() => raiseWatch(w, own("raise")),
					"Longer thresholds for a while",
				)
			: null,
		may("admin") && (w.braking || w.doubting)
			? button(
					"Override the guard",
					"shield",
					() => overrule(w),
					"The next scan ignores the guards, once",
				)
			: null,
	);
}

function watchTable() {
	return table({
		label: "State of the watches",
		columns: [
			{
				name: "of-watch fair",
				title: "Watch",
				cell: (w) => [
					h(
						"a",
						{ href: `/jobs?watch=${encodeURIComponent(w.watch)}` },
						user(w.label ?? w.watch),
					),
					h(
						"div",
						{ class: "muted small-text" },
						user(w.label ? `${w.watch} in ${w.database}` : `in ${w.database}`),
					),
				],
			},
			{
				name: "of-status tight",
				title: "Status",
				cell: (w) => chip(w.read?.status ?? w.status ?? "pending"),
			},
			{ name: "of-led fair", title: "Led by", cell: leaderCell },
			{ name: "of-scan-at tight", title: "Last scan", cell: (w) => ago(w.last_scan) },
			{ name: "of-overrides wide", title: "Operator overrides", cell: overridesCell },
			{ name: "of-trouble wide", title: "Trouble", cell: troubleCell },
			{ name: "of-acts wide", title: "Acts", cell: actsCell },
		],
		key: (w) => `${w.database}/${w.watch}`,
		empty: "No watch is configured.",
	});
}

/* With what the database knows about them, if it answers; else what the daemon knows. */
async function readWatches(signal) {
	const { watches } = await get("/watches", { signal });
	const up = (daemonStatus() ?? (await readStatus(signal))).databases
		.filter((d) => d.up)
		.map((d) => d.name);
	const read = (
		await Promise.allSettled(
			up.map((database) => get("/watch-status", { query: { database }, signal })),
		)
	).flatMap((got) => (got.status === "fulfilled" ? got.value.watches : []));
	return watches.map((w) => ({
		...w,
		read: read.find((one) => one.watch === w.watch && one.database === w.database) ?? null,
	}));
}

/* ---- the doctor ---- */

const LEVELS = ["fail", "warn", "ok"];
const levelOf = (finding) => String(finding.level).toLowerCase();

function findingLine(f) {
	return h(
		"li",
		{ class: "finding" },
		chip(levelOf(f), {
			label: levelOf(f) === "fail" ? "broken" : levelOf(f) === "warn" ? "problem" : "well",
		}),
		h(
			"div",
			h("strong", user(f.watch ? `${f.check}, ${f.watch}` : f.check)),
			h("div", user(f.text)),
			f.fix
				? h(
						"div",
						{ class: "fix" },
						h("pre", { class: "code" }, user(f.fix)),
						copyButton(() => f.fix, `Copy the fix for ${f.check}`),
					)
				: null,
		),
	);
}

function findings(got) {
	const by = Object.fromEntries(
		LEVELS.map((level) => [level, got.findings.filter((f) => levelOf(f) === level)]),
	);
	const bad = [...by.fail, ...by.warn];
	return [
		bad.length
			? h("ul", { class: "plain" }, bad.map(findingLine))
			: h("p", chip("ok", { label: "no problems" })),
		by.ok.length
			? h(
					"details",
					h("summary", `${count(by.ok.length)} well`),
					h("ul", { class: "plain" }, by.ok.map(findingLine)),
				)
			: null,
	];
}

function doctorPart(database, signal) {
	const body = h("div", { class: "stack", "aria-live": "polite" });
	const look = () => {
		fill(body, h("p", { class: "muted" }, "Looking…"));
		const read = async () =>
			fill(body, findings(await get("/doctor", { query: { database }, signal })));
		errand(read, signal, (problem) => fill(body, problemBox(problem)));
	};
	look();
	return h(
		"div",
		{ class: "stack" },
		h(
			"div",
			{ class: "spread" },
			h("h3", "Database ", user(database)),
			h(
				"button",
				{ type: "button", class: "small", onclick: look },
				icon("redo"),
				"Check again",
			),
		),
		body,
	);
}

function doctorCard(databases, signal) {
	return h(
		"section",
		{ class: "card", id: "doctor", "aria-label": "Doctor" },
		h("div", { class: "card-head" }, h("h2", "Doctor")),
		h(
			"div",
			{ class: "card-body stack" },
			may("operator")
				? databases.map((d) => doctorPart(d.name, signal))
				: h("p", { class: "muted" }, "The findings of doctor require the role operator."),
		),
	);
}

/* ---- the configuration ---- */

function configTable(settings) {
	const t = table({
		label: "Effective configuration",
		columns: [
			{
				name: "of-setting fair",
				title: "Setting",
				cell: (s) => user(s.path, { class: "mono" }),
			},
			{
				name: "of-value wide",
				title: "Value",
				cell: (s) => user(s.value, { class: "mono" }),
			},
			{
				name: "of-from fair",
				title: "From",
				cell: (s) => user(s.origin, { class: "muted" }),
			},
		],
		key: (s) => s.path,
		empty: "No setting contains this in its name or value.",
	});
	const filter = h("input", {
		type: "search",
		"aria-label": "Find a setting",
		placeholder: "Find a setting",
		oninput: () => {
			const wanted = filter.value.toLowerCase();
			t.set(
				settings.filter((s) => `${s.path} ${s.value ?? ""}`.toLowerCase().includes(wanted)),
			);
		},
	});
	t.set(settings);
	return { filter, element: t.element };
}

async function configCard(signal) {
	const card = (head, body) =>
		h(
			"section",
			{ class: "card", id: "config", "aria-label": "Configuration" },
			h("div", { class: "card-head" }, h("h2", "Configuration in force"), head),
			body,
		);
	if (!may("admin"))
		return card(
			null,
			h("p", { class: "card-body muted" }, "The configuration requires the role admin."),
		);
	try {
		const { filter, element } = configTable(await get("/config", { signal }));
		return card(
			h(
				"span",
				{ class: "row" },
				h("span", { class: "muted" }, "Secrets are not shown."),
				filter,
			),
			h("div", { class: "config-box" }, element),
		);
	} catch (error) {
		return card(null, problemBox(error));
	}
}

/* ---- the whole ---- */

export async function show(root, { signal }) {
	const status = await readStatus(signal);
	const daemon = h("div"),
		watches = watchTable();
	const load = async () => watches.refresh(await readWatches(signal));
	const told = telling(load, signal);
	const stop = onStatus((now) => renew(daemon, daemonCard(now)));
	signal.addEventListener("abort", stop);
	fill(daemon, daemonCard(status));
	fill(
		root,
		h("div", { class: "page-head" }, h("h1", "Health")),
		told.element,
		daemon,
		h(
			"section",
			{ class: "card", "aria-label": "Watches" },
			h("div", { class: "card-head" }, h("h2", "Watches")),
			watches.element,
		),
		doctorCard(status.databases, signal),
		await configCard(signal),
	);
	await told.run();
	every(REFRESH_S, told.run, signal);
}

export function update(event) {
	if (event.type === "database") poke();
}
