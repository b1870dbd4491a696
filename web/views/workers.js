// SPDX-License-Identifier: Apache-2.0
/*
 * workers.js: live workers, and those that ended recently: how each beats, its jobs, and why ended
 * ones ended. One of them, with its jobs, is at ?worker=ID.
 */
import { get, jobHref, queryText } from "../lib/api.js";
import { addressed, databaseChoice, problemBox, telling } from "../lib/controls.js";
import { fill, h, renew, user } from "../lib/dom.js";
import { errand } from "../lib/errand.js";
import { icon } from "../lib/icon.js";
import { every } from "../lib/live.js";
import { pulse } from "../lib/pulse.js";
import { table } from "../lib/table.js";
import { ago, chip, count, duration, instant, plural, stamp } from "../lib/words.js";

export const title = "Workers";

const REFRESH_S = 3;
const MOST = 200;
const SKEW_S = 2; /* clocks that differ by more are shown in red */

/* ---- facts about one ---- */

function stateChip(w) {
	return w.state === "alive" && w.expired
		? chip("silent", { label: "silent", title: "Its lease has expired" })
		: chip(w.state);
}

/* Its own clock compared with the database's, in seconds. */
function skewOf(w) {
	const renewed = instant(w.renewed_at);
	return typeof w.info?.clock_ms === "number" && renewed
		? (w.info.clock_ms - renewed.getTime()) / 1000
		: null;
}

function skewCell(w) {
	const skew = skewOf(w);
	if (skew === null) return h("span", { class: "muted" }, "–");
	if (Math.abs(skew) < SKEW_S) return h("span", { class: "muted" }, "none");
	return chip("warn", {
		label: `${skew > 0 ? "ahead" : "behind"} ${duration(Math.abs(skew))}`,
		title: "Its clock compared with the database's",
	});
}

function troubleCell(w) {
	const { breaker, spool } = w.info ?? {};
	if (breaker === undefined && !spool) return h("span", { class: "muted" }, "–");
	return h(
		"span",
		{ class: "row" },
		breaker === "open"
			? chip("warn", {
					label: "breaker open",
					title: "The database refused its results: it waits",
				})
			: h("span", { class: "muted" }, "closed"),
		spool?.set_aside > 0
			? chip("trouble", {
					label: `${plural(spool.set_aside, "result")} set aside`,
					title: `The database refuses to record them. ${spool.why ?? ""}`,
				})
			: null,
		spool?.unserved
			? chip("warn", {
					label: "results of another source",
					title: `No worker here serves ${spool.unserved}: its results wait in the spool`,
				})
			: null,
		spool?.jobs > 0
			? chip("warn", {
					label: `${plural(spool.jobs, "result")} in its spool`,
					title: `${count(spool.bytes)} bytes`,
				})
			: null,
	);
}

function servesCell(w) {
	return w.serves?.length
		? h(
				"span",
				{ class: "row" },
				w.serves.map((name) =>
					h("a", { href: `/jobs${queryText({ watch: name })}` }, user(name)),
				),
			)
		: h("span", { class: "muted" }, "–");
}

function place(w) {
	return [w.host, w.pid === null ? null : `pid ${w.pid}`].filter(Boolean).join(" · ");
}

function href(state, id) {
	return `/workers${queryText({ database: state.database, worker: id })}`;
}

function nameCell(state, w) {
	return [
		h("a", { href: href(state, w.id) }, user(w.name)),
		h("div", { class: "muted small-text" }, user(place(w))),
	];
}

/* ---- tables ---- */

function aliveTable(state) {
	return table({
		label: "Live workers",
		columns: [
			{ name: "of-worker fair", title: "Worker", cell: (w) => nameCell(state, w) },
			{ name: "of-state tight", title: "State", cell: stateChip },
			{
				name: "of-beats tight",
				title: "Beats",
				cell: (w) => pulse(w.beats ?? [], w.lease_s, true),
			},
			{ name: "of-beat-at tight", title: "Last heartbeat", cell: (w) => ago(w.renewed_at) },
			{
				name: "jobs",
				title: "Jobs",
				num: true,
				cell: (w) =>
					w.holding ? h("a", { href: href(state, w.id) }, count(w.holding)) : "0",
			},
			{ name: "of-serves fair", title: "Serves", cell: servesCell },
			{ name: "of-since tight", title: "Since", cell: (w) => ago(w.started_at) },
			{
				name: "of-version tight",
				title: "Version",
				cell: (w) => user(w.info?.version ?? null),
			},
			{ name: "of-clock tight", title: "Clock offset", cell: skewCell },
			{ name: "of-breaker tight", title: "Breaker, spool", cell: troubleCell },
		],
		key: (w) => w.id,
		empty: "No worker is alive. Workers that are not registered show only through their jobs.",
	});
}

function endedTable(state) {
	return table({
		label: "Recently ended workers",
		columns: [
			{ name: "of-worker fair", title: "Worker", cell: (w) => nameCell(state, w) },
			{ name: "of-state tight", title: "State", cell: stateChip },
			{ name: "of-ended tight", title: "Ended", cell: (w) => ago(w.ended_at) },
			{ name: "of-cause wide", title: "Cause", cell: (w) => user(w.cause) },
			{
				name: "ran",
				title: "Lifetime",
				num: true,
				cell: (w) => duration((instant(w.ended_at) - instant(w.started_at)) / 1000),
			},
			{ name: "of-served fair", title: "Served", cell: servesCell },
		],
		key: (w) => w.id,
		empty: "No worker has ended.",
	});
}

function tile(name, value, picture, tone = "") {
	return h(
		"div",
		{ class: `tile ${tone}` },
		h("span", { class: "tile-name" }, icon(picture), name),
		h("span", { class: "tile-value" }, value),
	);
}

function tiles(alive, ended) {
	const silent = alive.filter((w) => w.expired).length;
	const dead = ended.filter((w) => w.state === "dead").length;
	return [
		tile("Alive", count(alive.length - silent), "worker", alive.length ? "good" : ""),
		tile("Silent", count(silent), "clock", silent ? "bad" : ""),
		tile("Running jobs", count(alive.reduce((sum, w) => sum + w.holding, 0)), "list"),
		tile("Recently found dead", count(dead), "cross", dead ? "warn" : ""),
	];
}

/* ---- one of them ---- */

function jobList(w) {
	if (w.jobs.length === 0) return h("p", { class: "muted" }, "It has no running job.");
	return h(
		"ul",
		{ class: "plain row" },
		w.jobs.map((j) =>
			h(
				"li",
				h(
					"a",
					{ href: jobHref(j.watch, j.key, w.database) },
					user(`${j.watch}/${j.key}`, { class: "mono" }),
				),
			),
		),
		w.more ? h("li", { class: "muted" }, "and more") : null,
	);
}

function facts(pairs) {
	return h(
		"dl",
		{ class: "facts" },
		pairs.map(([name, value]) => [h("dt", name), h("dd", value)]),
	);
}

function oneCard(state, w) {
	const settled = Object.entries(w.info?.settled ?? {})
		.map(([end, n]) => `${end} ${count(n)}`)
		.join(", ");
	return h(
		"section",
		{ class: "card", id: "worker", "aria-label": "One worker" },
		h(
			"div",
			{ class: "card-head" },
			h("h2", "Worker ", user(w.name)),
			h(
				"div",
				{ class: "row" },
				stateChip(w),
				h("a", { class: "button", href: href(state, null) }, icon("cross"), "Close"),
			),
		),
		h(
			"div",
			{ class: "card-body grid-2" },
			facts([
				["Id", String(w.id)],
				["Host", user(w.host)],
				["Process", w.pid === null ? user(null) : String(w.pid)],
				["Version", user(w.info?.version ?? null)],
				["Started", stamp(w.started_at)],
				["Last heartbeat", ago(w.renewed_at)],
				[
					"Lease",
					[duration(w.lease_s), w.ended_at ? null : [", expires ", ago(w.expires_at)]],
				],
				["Beats", pulse(w.beats ?? [], w.lease_s, w.state === "alive")],
			]),
			facts([
				["Serves", servesCell(w)],
				["Ended", w.ended_at ? stamp(w.ended_at) : "no"],
				["Cause", user(w.cause)],
				["Settled", user(settled || null)],
				[
					"Refused, given up",
					w.info
						? `${count(w.info.refused ?? 0)}, ${count(w.info.abandoned ?? 0)}`
						: user(null),
				],
				["Clock offset", skewCell(w)],
				["Breaker, spool", troubleCell(w)],
				[`Jobs (${count(w.jobs.length)}${w.more ? "+" : ""})`, jobList(w)],
			]),
		),
	);
}

async function showOne(holder, state, signal) {
	if (!state.worker) return;
	const read = async () => {
		const w = await get(`/workers/${encodeURIComponent(state.worker)}`, {
			query: { database: state.database },
			signal,
		});
		renew(holder, oneCard(state, { ...w, database: state.database }));
	};
	await errand(read, signal, (problem) => fill(holder, problemBox(problem)));
}

/* ---- the whole ---- */

export async function show(root, { query, go, signal }) {
	const state = addressed(query, ["database", "worker"]);
	const summary = h("div", { class: "tiles" });
	const alive = aliveTable(state),
		ended = endedTable(state);
	const one = h("div", { hidden: !state.worker });
	const more = h("p", { class: "muted", hidden: true }, `Only the first ${MOST} are shown.`);
	const load = async () => {
		const got = await get("/workers", {
			query: { database: state.database, limit: MOST },
			signal,
		});
		const living = got.workers.filter((w) => w.state === "alive");
		const gone = got.workers.filter((w) => w.state !== "alive");
		renew(summary, tiles(living, gone));
		alive.refresh(living);
		ended.refresh(gone);
		more.hidden = !got.more;
		await showOne(one, state, signal);
	};
	const told = telling(load, signal);
	fill(
		root,
		h(
			"div",
			{ class: "page-head" },
			h("h1", "Workers"),
			h(
				"div",
				{ class: "toolbar" },
				await databaseChoice(state, () => go(href(state, null))),
			),
		),
		told.element,
		summary,
		one,
		h(
			"section",
			{ class: "card", "aria-label": "Alive" },
			h("div", { class: "card-head" }, h("h2", "Alive")),
			alive.element,
		),
		h(
			"section",
			{ class: "card", "aria-label": "Recently ended" },
			h("div", { class: "card-head" }, h("h2", "Recently ended")),
			ended.element,
		),
		more,
	);
	await told.run();
	every(REFRESH_S, told.run, signal);
}
