// SPDX-License-Identifier: Apache-2.0
/*
 * glance.js: what the overview shows, made from what it knows; nothing here sends a request. A row
 * is one watch: {watch, status, stats, oldest}: from the daemon's memory, from the database as its
 * leader wrote it, its numbers, its oldest running job. All but the first may be missing.
 */
import { daemonStatus, jobHref, queryText, watchHref } from "./api.js";
import { bars, sparkline } from "./chart.js";
import { h, user } from "./dom.js";
import { icon } from "./icon.js";
import { table } from "./table.js";
import { ago, chip, count, duration, eventChip, guardWords, instant, plural, stampText, whyOf } from "./words.js";

export const nameOf = (w) => `${w.database}/${w.watch}`;
const sum = (list) => list.reduce((a, b) => a + b, 0);

/* ---- the contents of a row ---- */

/* Judged stuck and not yet waiting for an operator; null: not known. */
export function stuckOf({ watch, stats }) {
	if (!watch.enabled) return 0;
	if ((stats?.stuck_total ?? null) === null) return null;
	return Math.max(0, stats.stuck_total - (stats.held_running ?? 0));
}

/* Of several watches: {n, capped}; n null if none is known, capped if some are not. */
function stuckOfAll(rows) {
	const each = rows.map(stuckOf);
	const known = each.filter((n) => n !== null);
	const unknown = known.length < each.length;
	return {
		n: known.length ? sum(known) : null,
		capped: unknown || rows.some(({ stats }) => stats?.stuck_total_capped),
		unknown,
	};
}

export function heldOf({ stats }) {
	const states = stats?.states?.filter((one) => one.state === "held") ?? [];
	return Math.max(stats?.held ?? 0, sum(states.map((one) => one.n)));
}

/*
 * Whether rows by state come from a sample; the built-in queue counts exactly what operators act
 * on.
 */
function isEstimated({ watch, stats }) {
	return Boolean(stats?.estimated && !watch.builtin);
}

/* Jobs that ended without success and are not retried: dead letters in other systems. */
function deadOf({ stats }) {
	return stats?.failed ?? 0;
}

function isDown({ watch }) {
	const database = daemonStatus()?.databases.find((d) => d.name === watch.database);
	return Boolean(database?.asked && !database.up);
}

function statusOf({ watch, status }) {
	return watch.status ?? status?.status ?? null;
}

function lastScanOf({ watch, status }) {
	if (watch.last_scan) return watch.last_scan;
	const ago_s = status?.last_scan_s;
	return ago_s === null || ago_s === undefined
		? null
		: new Date(status.read - ago_s * 1000).toISOString();
}

function isTrouble(row) {
	return (
		row.watch.enabled &&
		(isDown(row) || !["well", "paused", "doubt", null].includes(statusOf(row)))
	);
}

/* ---- as one line ---- */

/* Why a watch is not well, the worst first: "3 watches with problems: alerts on pages". */
const WHY = [
	["away", "unreachable database of"],
	["no_leader", "no daemon leads"],
	["silent", "no finished scan of"],
	["failed", "failed last scan of"],
	["held", "a guard holds back jobs of"],
	["alerting", "alerts on"],
	["stuck", "unrecovered stuck jobs of"],
	["doubt", "doubt about"],
];

function whyNot(rows) {
	const wordOf = (row) => (isDown(row) ? "away" : statusOf(row));
	const said = WHY.map(([word, why]) => [why, rows.filter((row) => wordOf(row) === word)]);
	const [why, of] = said.find(([, some]) => some.length) ?? ["see", rows];
	const names = of.slice(0, 3).map(({ watch }, i) => [i ? ", " : " ", user(watch.label ?? watch.watch)]);
	return [why, names, of.length > 3 ? ` and ${count(of.length - 3)} more` : ""];
}

const SHOWN_ALERTS = 4; /* the rest is a number */
const SEVERITIES = ["page", "critical", "warning"];
const bySeverity = (a, b) => SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity) || String(a.since).localeCompare(String(b.since));

/* The worst of what is known, and why: firing alerts, watches, stuck jobs; then doubt and hope. */
export function stateLine(rows, alerts = []) {
	const firing = alerts.filter((a) => a.state === "firing").sort(bySeverity);
	if (firing.length && rows.length) {
		const [worst] = firing;
		return [
			chip(worst.severity, { label: worst.severity === "page" ? "critical" : null, look: worst.severity === "page" ? "critical" : worst.severity }),
			` ${plural(firing.length, "alert")} firing, the worst: `,
			user(worst.text ?? worst.rule),
		];
	}
	return watchesLine(rows);
}

function watchesLine(rows) {
	const scanned = rows.map(lastScanOf).filter(Boolean).sort();
	const { n: stuck, capped, unknown } = stuckOfAll(rows),
		trouble = rows.filter(isTrouble),
		doubtful = rows.filter((row) => row.watch.enabled && statusOf(row) === "doubt");
	if (!rows.length)
		return [chip("no watch", { look: "paused" }), " The configuration has none."];
	const last = scanned.length
		? [" Last scan finished ", ago(scanned.at(-1)), "."]
		: " No scan has finished yet.";
	if (trouble.length)
		return [
			chip("trouble", { look: "fail" }),
			` ${plural(trouble.length, "watch", "watches")} with problems: `,
			whyNot(trouble),
			".",
			last,
		];
	if (!scanned.length) return [chip("starting", { look: "pending" }), last];
	if (doubtful.length)
		return [chip("in doubt", { look: "doubt" }), " ", whyNot(doubtful), ".", last];
	if (stuck) return [chip("stuck", { label: `${count(stuck, capped)} stuck` }), last];
	return unknown
		? [chip("not known", { look: "pending" }), " Stuck jobs are being counted.", last]
		: [chip("all clear", { look: "ok" }), last];
}

/* ---- what calls for a person ---- */

function call(shade, picture, href, ...text) {
	return h("li", { class: `banner ${shade}` }, icon(picture), h("p", { class: "banner-text" }, text), href ? h("a", { class: "button small", href: href[0] }, href[1]) : null);
}

/* Alerts that fire, the worst first; those that are pending only as a number. */
export function alertLines(alerts) {
	const firing = alerts.filter((a) => a.state === "firing").sort(bySeverity);
	const shades = { page: "bad", critical: "bad", warning: "warn" };
	const shown = firing.slice(0, SHOWN_ALERTS);
	return [
		...shown.map((a) => call(shades[a.severity] ?? "warn", "bell", ["/alerts", "Details"],
			h("strong", user(a.rule), a.watch && a.watch !== "*" ? [" on ", user(a.watch)] : null), " started firing ", ago(a.fired_at ?? a.since),
			a.text ? [": ", user(a.text)] : null)),
		firing.length > shown.length ? call("warn", "bell", ["/alerts", "All alerts"], `${count(firing.length - shown.length)} more alerts are firing.`) : null,
	].filter(Boolean);
}

/* What only a person can end: held jobs (poison first), dead letters. */
export function needLines(rows) {
	return rows.flatMap((row) => {
		const { watch } = row;
		const of = { watch: watch.watch, database: watch.builtin ? watch.database : null };
		const held = heldOf(row), poison = row.poison ?? 0, dead = deadOf(row);
		return [
			watch.info?.unstarted ? call("warn", "clock", [watchHref(watch), "Watch"],
				h("strong", `${plural(watch.info.unstarted, "job")} of `, user(watch.label ?? watch.watch), watch.info.unstarted === 1 ? " is not started" : " are not started"), ": ",
				user(watch.info.late_says ?? "they are due and nobody starts them"), ".") : null,
			held ? call("held", "hand", [`/jobs${queryText({ ...of, verdict: "held" })}`, "Held jobs"],
				h("strong", `${plural(held, "job")} of `, user(watch.label ?? watch.watch), held === 1 ? " is held" : " are held"),
				poison ? `, ${count(poison)} as poison: ${poison === 1 ? "it" : "each"} killed its workers` : "", ". ",
				held === 1 ? "It waits until someone releases or fails it." : "They wait until someone releases or fails them.") : null,
			dead ? call("warn", "cross", [`/jobs${queryText({ ...of, state: "failed" })}`, "Failed jobs"],
				h("strong", `${count(dead, false, isEstimated(row))} failed ${dead === 1 ? "job" : "jobs"} of `, user(watch.label ?? watch.watch)), ". ",
				"defib does not retry them: read the error, then retry or leave them.") : null,
		].filter(Boolean);
	});
}

/* ---- incidents ---- */

function clockText(when) {
	const at = instant(when);
	const day = at.toDateString() === new Date().toDateString() ? "" : `${at.toLocaleDateString("en", { weekday: "short" })} `;
	return `${day}${clock(at)}`;
}

/* One line each: "host b lost 3 workers at 03:12, 41 jobs recovered in 9ms, 1 held". */
export function incidentLine(incidents) {
	if (incidents === null) return h("li", { class: "bone line" }, h("span", { class: "sr-only" }, "Reading the ledger."));
	if (!incidents.length) return h("li", { class: "empty" }, "No worker was lost and no job got stuck in the last 24 hours.");
	return incidents.map((one) =>
		h("li", ago(one.to),
			h("div", { class: "event" },
				chip(one.verdict ?? "stuck"),
				h("span", { class: "incident" }, h("strong", user(one.what)), ` at ${clockText(one.from)}`, one.outcome ? [", ", user(one.outcome)] : null,
					one.workers.length ? h("span", { class: "muted workers" }, " · ", user(one.workers.join(", ")), one.nworkers > one.workers.length ? ` and ${count(one.nworkers - one.workers.length)} more` : null) : null),
				h("a", { href: `/ledger${queryText({ watch: one.watches.length === 1 ? one.watches[0] : null, database: one.database, since: "24h" })}` }, "Entries"))));
}

/* ---- what holds work back ---- */

function banner(shade, picture, ...text) {
	return h(
		"div",
		{ class: `banner ${shade}` },
		icon(picture),
		h("p", { class: "banner-text" }, text),
	);
}

function until(when) {
	return when ? [" It releases them at ", stampText(when), " at the latest (", ago(when), ")."] : null;
}

function pauseBanner({ watch, status }) {
	const pause = status?.overrides?.find((o) => o.name === "pause");
	return banner(
		"idle",
		"pause",
		h("strong", user(watch.watch), " is paused"),
		pause ? [" by ", user(pause.actor), pause.reason ? [": ", user(pause.reason)] : null] : null,
		". Nothing is recovered until ",
		pause?.until ? [stampText(pause.until), " (", ago(pause.until), ")."] : "someone resumes it.",
	);
}

const infoOf = ({ watch, status }) => watch.info ?? status?.info ?? {};

/* One outage causes doubt for many watches at once: those of one cause are one line. */
function doubtBanners(rows) {
	const causes = new Map();
	for (const row of rows.filter((one) => infoOf(one).doubting)) {
		const { doubt_cause, guard, doubt_until } = infoOf(row);
		const why = doubt_cause ?? guard;
		const name = JSON.stringify([row.watch.database, why]);
		if (!causes.has(name)) causes.set(name, { why, watches: [], ends: [] });
		causes.get(name).watches.push(row.watch.label ?? row.watch.watch);
		causes.get(name).ends.push(doubt_until);
	}
	return [...causes.values()].map(({ why, watches, ends }) =>
		banner(
			"warn",
			"question",
			h(
				"strong",
				"In doubt about ",
				watches.map((name, i) => [i ? ", " : "", user(name)]),
			),
			": ",
			user(why),
			".",
			until(ends.filter(Boolean).sort().at(-1)),
		),
	);
}

/* Brake, pause and a failed scan of each watch, and doubt. */
export function guardBanners(rows) {
	const own = rows.flatMap((row) => {
		const { watch } = row;
		const info = infoOf(row);
		return [
			info.braking
				? banner(
						"held",
						"shield",
						h("strong", "The brake holds ", user(watch.watch)),
						": ",
						user(guardWords(info.guard)),
						".",
						until(info.brake_until),
					)
				: null,
			watch.paused || info.paused ? pauseBanner(row) : null,
			watch.failure
				? banner(
						"bad",
						"alert",
						h("strong", "The last scan of ", user(watch.watch), " failed"),
						": ",
						user(watch.failure),
					)
				: null,
		].filter(Boolean);
	});
	return [...own, ...doubtBanners(rows)];
}

/* Workers whose breaker is open: they cannot settle, or not claim. */
export function breakerBanners(workers) {
	const open = workers.filter(
		(w) => w.state === "alive" && !w.expired && (w.info?.breaker ?? "closed") !== "closed",
	);
	if (!open.length) return [];
	const names = open
		.slice(0, 3)
		.map((w) => w.name)
		.join(", ");
	return [
		banner(
			"warn",
			"bolt",
			h("strong", `${plural(open.length, "worker")} cannot reach the database reliably`),
			": the breaker of ",
			user(names),
			open.length > 3 ? ` and ${count(open.length - 3)} more` : "",
			" is open. Results are kept in the spool, and each worker tries again within 30 s.",
		),
	];
}

/* ---- tiles ---- */

export function tile(href, shade, picture, name, value, note) {
	return h(
		"a",
		{ class: `tile ${shade}`, href },
		h("span", { class: "tile-name" }, icon(picture), name),
		h("span", { class: `tile-value${value === "–" ? " bone" : ""}` }, value),
		h("span", { class: "tile-note" }, note),
	);
}

/* Medians cannot be added: for several watches the smallest and the largest are shown. */
function medians(watches) {
	const all = watches
		.map((w) => w.median_s)
		.filter((m) => m !== null)
		.sort((a, b) => a - b);
	if (!all.length) return ["–", "nothing recovered in 24 h"];
	const [least, most] = [all[0], all.at(-1)].map((m) => duration(m));
	if (least === most) return [least, "median, from the worker's end or last sign of life"];
	return [
		`${least.split(" ")[0]} – ${most.split(" ")[0]}`,
		"medians by watch, from the worker's end or last sign of life",
	];
}

function needsYou(rows) {
	const known = rows.some((row) => row.stats);
	const held = sum(rows.map(heldOf)),
		dead = sum(rows.map(deadOf)),
		guess = rows.some((row) => isEstimated(row) && deadOf(row) > 0);
	const dying = rows.find((row) => deadOf(row) > 0)?.watch.watch;
	const href =
		held || !dead ? "/stuck#held" : `/jobs${queryText({ watch: dying, state: "failed" })}`;
	return tile(
		href,
		held + dead ? "held" : known ? "good" : "",
		held + dead ? "hand" : known ? "check" : "question",
		"Needs you",
		known ? count(held + dead, false, guess) : "–",
		known ? `${count(held)} held, ${count(dead, false, guess)} dead-letter` : "unknown yet",
	);
}

/* A number of the last 24 hours from the ledger, of all watches; null: unknown for some. */
function lately(rows, name) {
	const each = rows.filter((row) => row.watch.enabled).map(({ stats }) => stats?.[name]?.day ?? null);
	return each.includes(null) ? null : sum(each);
}

/* `day`: the trend of 24 hours, one per database. */
export function tiles(rows, day) {
	const { n: stuck, capped, unknown } = stuckOfAll(rows);
	const watches = day.flatMap((t) => t.watches);
	const [recovered, byHand, detected] = ["recovered", "recovered_by_hand", "detected"].map((name) =>
		lately(rows, name),
	);
	const [time, timeNote] = medians(watches);
	return [
		tile(
			"/stuck",
			stuck ? "bad" : unknown ? "" : "good",
			stuck ? "alert" : unknown ? "question" : "check",
			"Stuck now",
			stuck || !unknown ? count(stuck, capped) : "–",
			stuck ? "stuck and not recovered" : unknown ? "unknown yet" : "nothing is stuck",
		),
		tile(
			`/ledger${queryText({ since: "24h" })}`,
			"good",
			"redo",
			"Recovered in 24 h",
			count(recovered),
			recovered === null
				? "unknown yet"
				: [`${plural(detected, "job")} found stuck`, byHand ? `, ${count(byHand)} recovered by hand` : null],
		),
		tile("/report", "", "clock", "Time to recovery", time, timeNote),
		needsYou(rows),
	];
}

/* ---- the trend ---- */

const SERIES = [
	{ name: "detected", title: "Detected", shade: "warn" },
	{ name: "recovered", title: "Recovered", shade: "good" },
];

function clock(at) {
	return `${String(at.getHours()).padStart(2, "0")}:${String(at.getMinutes()).padStart(2, "0")}`;
}

function bucketNames(from, seconds, i, span) {
	const begins = new Date(from.getTime() + i * seconds * 1000),
		ends = new Date(begins.getTime() + seconds * 1000);
	const weekday = begins.toLocaleDateString("en", { weekday: "short" });
	const day = `${weekday} ${begins.getDate()}`;
	return {
		title: `${day}, ${clock(begins)} to ${clock(ends)}`,
		label: span === "24h" ? clock(begins) : day,
	};
}

/* All watches together; `trends`: one per database. */
export function trendChart(trends, span) {
	const watches = trends.flatMap((t) => t.watches);
	const { from, to, bucket_s: seconds } = trends[0];
	const length = Math.round((instant(to) - instant(from)) / 1000 / seconds);
	const at = (name, i) => sum(watches.map((w) => w[name][i] ?? 0));
	const buckets = Array.from({ length }, (_, i) => ({
		...bucketNames(instant(from), seconds, i, span),
		values: { detected: at("detected", i), recovered: at("recovered", i) },
	}));
	return bars(buckets, SERIES, {
		label: `Jobs found stuck and recovered in the last ${span === "24h" ? "24 hours" : "7 days"}`,
	});
}

/* ---- one row per watch ---- */

/* How many wait for a worker, where the watch says which: as in metrics, stats and charts. */
function waiting({ stats }) {
	if (!stats || (stats.waiting ?? null) !== null) return count(stats?.waiting, stats?.waiting_capped);
	return h("span", { class: "muted", title: "not configured: stats.ready" }, "–");
}

export function health(row) {
	if (!row.watch.enabled) return chip("off", { look: "paused" });
	if (isDown(row)) return chip("away", { title: "its database is unreachable" });
	return statusOf(row) ? chip(statusOf(row)) : chip("starting", { look: "pending" });
}

function oldest({ oldest: job, watch }) {
	if (!job) return h("span", { class: "muted" }, "–");
	return h(
		"a",
		{ href: jobHref(watch.watch, job.key, watch.database), title: `Job ${job.job}` },
		duration(job.age_s),
	);
}

function stuckLink(row) {
	const n = stuckOf(row);
	if (n === null) return count(null);
	return n
		? h(
				"a",
				{
					class: "bad-text strong",
					href: `/stuck${queryText({ watch: row.watch.watch })}`,
				},
				count(n, row.stats.stuck_total_capped),
			)
		: "0";
}

/* `known`: {day, workers, several}, read again at each painting. */
export function watchTable(known) {
	const jobs = (w, query = {}) =>
		`/jobs${queryText({ watch: w.watch, database: w.builtin ? w.database : null, ...query })}`;
	const alive = (w) =>
		known.workers.filter(
			(one) =>
				one.database === w.database &&
				one.state === "alive" &&
				!one.expired &&
				one.serves?.includes(w.watch),
		);
	const trend = (w) =>
		known.day
			?.find((t) => t.database === w.database)
			?.watches.find((one) => one.watch === w.watch)?.detected ?? Array(24).fill(0);
	return table({
		label: "Watches",
		empty: "The configuration has no watch yet.",
		key: ({ watch }) => nameOf(watch),
		columns: [
			{
				name: "watch",
				title: "Watch",
				cell: ({ watch: w }) => [
					h("a", { class: "strong", href: watchHref(w) }, user(w.label ?? w.watch)),
					h(
						"span",
						{ class: "muted sub" },
						user(known.several ? `${w.database} · ${w.table}` : w.table),
					),
				],
			},
			{ name: "health", title: "Health", cell: health },
			{ name: "waiting", title: "Waiting", num: true, cell: waiting },
			{
				name: "running",
				title: "Running",
				num: true,
				cell: ({ watch: w, stats }) =>
					h(
						"a",
						{ href: jobs(w, { where: "running" }) },
						count(stats?.running ?? w.info?.running, stats?.running_capped),
					),
			},
			{ name: "stuck", title: "Stuck", num: true, cell: stuckLink },
			{ name: "oldest", title: "Oldest", num: true, cell: oldest },
			{
				name: "workers",
				title: "Workers",
				num: true,
				cell: ({ watch: w }) => count(alive(w).length),
			},
			{
				name: "trend",
				title: "Stuck, 24 h",
				cell: ({ watch: w }) =>
					sparkline(trend(w), {
						shade: "warn",
						label: `${count(sum(trend(w)))} found stuck in 24 h`,
					}),
			},
			{ name: "scan", title: "Last scan", num: true, cell: (row) => ago(lastScanOf(row)) },
		],
	});
}

/* ---- events ---- */

export function entryLine(entry) {
	const of = entry.job && entry.job !== "*" ? `${entry.watch}/${entry.job}` : null;
	return h(
		"li",
		{ class: entry.fresh ? "fresh" : null },
		ago(entry.at),
		h(
			"div",
			{ class: "event" },
			eventChip(entry.event),
			of
				? h("a", { href: jobHref(entry.watch, entry.job, entry.database) }, user(of))
				: user(entry.watch),
			h("span", { class: "muted reason" }, user(whyOf(entry) ?? entry.actor)),
		),
	);
}
