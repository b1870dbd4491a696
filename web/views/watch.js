// SPDX-License-Identifier: Apache-2.0
/*
 * watch.js: one watch: its numbers now and over time, how it is configured in words, its latest
 * events, and links to its jobs, its stuck jobs and its ledger.
 */
import { get, part, queryText } from "../lib/api.js";
import { chartBlock } from "../lib/charts.js";
import { fill, h, renew, user } from "../lib/dom.js";
import { orNothing } from "../lib/errand.js";
import { entryLine, guardBanners, health, heldOf, stuckOf, tile } from "../lib/glance.js";
import { every, soon } from "../lib/live.js";
import { rulesOf } from "../lib/rules.js";
import { count, duration } from "../lib/words.js";

export const title = "Watch";

const NUMBERS_S = 15;
const LATEST = 10;

let shown = null; /* {watch, database, again, take} of the current watch */

export function update(event) {
	if (!shown) return;
	if (event.type === "ledger" && event.data.watch === shown.watch) shown.again();
	if (event.type === "watch" && event.data.watch === shown.watch && event.data.database === shown.database)
		shown.take(event.data);
}

/* ---- its numbers ---- */

function links(watch) {
	const of = { watch: watch.watch, database: watch.builtin ? watch.database : null };
	return {
		jobs: (more = {}) => `/jobs${queryText({ ...of, ...more })}`,
		stuck: `/stuck${queryText({ watch: watch.watch })}`,
		ledger: (more = {}) => `/ledger${queryText({ watch: watch.watch, ...more })}`,
	};
}

function tilesOf(row) {
	const { watch, stats } = row;
	const to = links(watch);
	const stuck = stuckOf(row),
		held = heldOf(row);
	const known = Boolean(stats);
	const waits = (stats?.waiting ?? null) !== null;
	return [
		tile(
			to.jobs(), "", "queue", "Waiting",
			waits ? count(stats.waiting, stats.waiting_capped) : "–",
			!known ? "unknown yet" : !waits ? "not configured: stats.ready" : stats.waiting ? `the oldest for ${duration(stats.oldest_waiting_s)}` : "nothing waits",
		),
		tile(to.jobs({ where: "running" }), "", "play", "Running", count(stats?.running ?? watch.info?.running, stats?.running_capped), "claimed by workers"),
		tile(
			to.stuck, stuck ? "bad" : known ? "good" : "", stuck ? "alert" : known ? "check" : "question", "Stuck now",
			count(stuck, stats?.stuck_total_capped), stuck ? "stuck and not recovered" : known ? "nothing is stuck" : "unknown yet",
		),
		(watch.info?.late ?? null) === null ? null : tile(
			to.jobs(), watch.info.unstarted ? "bad" : "good", watch.info.unstarted ? "alert" : "check", "Not started",
			count(watch.info.unstarted), watch.info.late_says ?? "nothing is late",
		),
		tile(`${to.stuck}#held`, held ? "held" : "", "hand", "Held", known ? count(held) : "–", held ? "waiting for an operator" : "nothing is held"),
		tile(
			to.ledger({ since: "24h" }), "good", "redo", "Recovered in 24 h", count(stats?.recovered?.day ?? null),
			stats?.detected ? `${count(stats.detected.day)} found stuck` : "no ledger yet",
		),
		tile(
			to.jobs({ state: "failed" }), stats?.failed ? "bad" : "", "cross", "Failed",
			count(stats?.failed ?? null, false, Boolean(stats?.estimated && !watch.builtin)),
			known && (stats.failed ?? null) === null ? "not configured: stats.failed" : "kept in the table",
		),
	];
}

/* ---- the view ---- */

class Watch {
	constructor(root, { name, database, signal }) {
		Object.assign(this, { root, name, signal, asked: database, stats: null, status: null, entries: null });
		this.places = {
			health: h("span"),
			banners: h("div", { class: "stack", hidden: true }),
			tiles: h("div", { class: "tiles" }),
			events: h("ol", { class: "timeline", "aria-label": "Latest events" }),
		};
	}

	get row() {
		return { watch: this.watch, stats: this.stats, status: this.status };
	}

	async start() {
		const database = this.asked;
		this.watch = await get(`/watches/${part(this.name)}`, { query: { database }, signal: this.signal });
		this.build();
		this.paint();
		every(NUMBERS_S, () => this.read(), this.signal);
		await this.read();
	}

	async read() {
		const { database } = this.watch;
		const { signal } = this;
		const builtin = this.watch.builtin ? database : null;
		const [stats, standing, ledger] = await Promise.all([
			orNothing(get(`/watches/${part(this.name)}/stats`, { query: { database: builtin }, signal })),
			orNothing(get("/watch-status", { query: { database }, signal })),
			orNothing(get("/ledger", { query: { database, watch: this.name, order: "desc", limit: LATEST }, signal })),
		]);
		this.stats = stats ?? this.stats;
		const status = standing?.watches.find((one) => one.watch === this.name);
		if (status) this.status = { ...status, read: Date.now() };
		this.entries = ledger?.entries.map((entry) => ({ ...entry, database })) ?? this.entries;
		this.paint();
	}

	take(news) {
		this.watch = { ...this.watch, ...news };
		this.paint();
	}

	build() {
		const { places, watch } = this;
		const to = links(watch);
		fill(
			this.root,
			h(
				"div",
				{ class: "page-head" },
				h(
					"div",
					{ class: "row" },
					h("h1", user(watch.label ?? watch.watch)),
					places.health,
					h("span", { class: "lead" }, user(watch.table, { class: "mono" }), " in ", user(watch.database)),
				),
				h(
					"div",
					{ class: "toolbar" },
					h("a", { class: "button", href: to.jobs() }, "Its jobs"),
					h("a", { class: "button", href: to.stuck }, "Its stuck jobs"),
					h("a", { class: "button", href: to.ledger() }, "Its ledger"),
				),
			),
			places.banners,
			places.tiles,
			chartBlock({ watch: watch.watch, database: watch.database, signal: this.signal }),
			h(
				"div",
				{ class: "overview-grid" },
				h(
					"section",
					{ class: "card", "aria-labelledby": "rules-title" },
					h("div", { class: "card-head" }, h("h2", { id: "rules-title" }, "How it is watched")),
					h("div", { class: "card-body" }, rulesOf(watch)),
				),
				h(
					"section",
					{ class: "card latest", "aria-labelledby": "latest-title" },
					h("div", { class: "card-head" }, h("h2", { id: "latest-title" }, "Latest events"), h("a", { href: to.ledger() }, "All of them")),
					places.events,
				),
			),
		);
	}

	paint() {
		const { places, row } = this;
		renew(places.health, health(row));
		renew(places.banners, guardBanners([row]));
		places.banners.hidden = !places.banners.childElementCount;
		renew(places.tiles, tilesOf(row));
		if (this.entries && !places.events.matches(":hover, :focus-within"))
			renew(places.events, this.entries.length ? this.entries.map(entryLine) : h("li", { class: "empty" }, "Nothing has happened to its jobs yet."));
	}
}

export async function show(root, { params, query, signal }) {
	const mine = new Watch(root, { name: params.watch, database: query.get("database"), signal });
	await mine.start();
	if (signal.aborted) return;
	const state = {
		watch: params.watch,
		database: mine.watch.database,
		again: soon(1000, () => mine.read(), signal),
		take: (news) => mine.take(news),
	};
	shown = state;
	signal.addEventListener("abort", () => {
		if (shown === state) shown = null;
	});
}
