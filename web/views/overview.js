// SPDX-License-Identifier: Apache-2.0
/*
 * overview.js: everything at a glance: what is stuck, what was recovered, how fast, and what needs
 * an operator; the trend; one row per watch; the latest events.
 *
 * Watches come from the daemon's memory and from the stream, so they appear at once and while a
 * database is unavailable; numbers that need a database come later and are refreshed regularly.
 * lib/glance.js decides how it looks.
 */
import { databases, get, part } from "../lib/api.js";
import { chartBlock } from "../lib/charts.js";
import { fill, h, renew } from "../lib/dom.js";
import { errand, QUIETLY } from "../lib/errand.js";
import {
	breakerBanners,
	entryLine,
	guardBanners,
	nameOf,
	stateLine,
	tiles,
	trendChart,
	watchTable,
} from "../lib/glance.js";
import { every, poke } from "../lib/live.js";

export const title = "Overview";

const NUMBERS_S = 15; /* how often a database is asked for numbers … */
const AFTER_EVENT_S = 4; /* … and how soon after an event */
const AT_ONCE = 3; /* calls at the same time */
const LATEST = 12; /* events that are shown */

let view = null; /* the current one */

export async function show(root, { signal }) {
	const mine = new Overview(root, signal);
	view = mine;
	signal.addEventListener("abort", () => {
		if (view === mine) view = null;
	});
	await mine.start();
}

export function update(event) {
	view?.take(event);
}

class Overview {
	constructor(root, signal) {
		Object.assign(this, {
			root,
			signal,
			span: "24h",
			entries: [],
			entryKeys: new Set(),
			trends: [],
			day: null,
			workers: [],
		});
		this.rows = new Map(); /* by nameOf(): see glance.js */
		this.places = {
			state: h("p", { class: "lead" }),
			banners: h("div", { class: "stack", hidden: true }),
			tiles: h("div", { class: "tiles" }),
			trend: h("div", { class: "card-body" }),
			events: h("ol", { class: "timeline", "aria-label": "Latest events" }),
		};
	}

	async start() {
		const { watches } = await get("/watches", { signal: this.signal });
		for (const watch of watches) this.put(watch);
		this.several = new Set(watches.map((w) => w.database)).size > 1;
		this.build();
		this.paint();
		every(NUMBERS_S, () => this.readNumbers(), this.signal);
		poke();
	}

	put(watch) {
		const name = nameOf(watch);
		if (!this.rows.has(name)) this.rows.set(name, {});
		this.rows.get(name).watch = watch;
	}

	/* ---- events ---- */

	take(event) {
		if (event.type === "watch") {
			this.put(event.data);
			this.soon();
		} else if (event.type === "ledger") {
			this.addEntries([event.data], true);
			this.soon();
			this.again ??= setTimeout(() => {
				this.again = null;
				if (!this.signal.aborted) poke();
			}, AFTER_EVENT_S * 1000);
		}
	}

	/* Many events cause one painting. */
	soon() {
		this.timer ??= setTimeout(() => {
			this.timer = null;
			if (!this.signal.aborted && this.table) this.paint();
		}, 250);
	}

	addEntries(entries, fresh) {
		for (const entry of entries) {
			const key = `${entry.database}#${entry.id}`;
			if (this.entryKeys.has(key)) continue;
			this.entryKeys.add(key);
			this.entries.push({ ...entry, fresh });
		}
		this.entries.sort((a, b) => b.at.localeCompare(a.at) || b.id - a.id);
		this.entries = this.entries.slice(0, LATEST);
	}

	/* ---- numbers that need a database ---- */

	async readNumbers() {
		const works = [];
		for (const database of await databases())
			works.push(
				() => this.readStandings(database),
				() => this.readTrend(database, "24h"),
				() => this.readEntries(database),
				() => this.readWorkers(database),
			);
		if (this.span !== "24h")
			works.push(
				...(await databases()).map((database) => () => this.readTrend(database, this.span)),
			);
		for (const row of this.rows.values())
			if (row.watch.enabled) works.push(() => this.readWatch(row));
		await Promise.all(
			Array.from({ length: AT_ONCE }, async () => {
				for (let work = works.shift(); work; work = works.shift())
					await this.tolerate(work);
			}),
		);
	}

	/*
	 * If a database does not answer, the old values stay; the frame shows that it is unavailable.
	 */
	async tolerate(work) {
		await errand(work, this.signal, QUIETLY);
		this.soon();
	}

	/* Only the database knows the state of watches that another daemon leads. */
	async readStandings(database) {
		const { watches } = await get("/watch-status", { query: { database }, signal: this.signal });
		for (const status of watches) {
			const row = this.rows.get(nameOf(status));
			if (row) row.status = { ...status, read: Date.now() };
		}
	}

	async readTrend(database, span) {
		const trend = await get("/trend", {
			query: { database, since: span },
			signal: this.signal,
		});
		const others = this.trends.filter((t) => t.database !== database || t.span !== span);
		this.trends = [...others, { ...trend, span }];
		this.day = this.trends.filter((t) => t.span === "24h");
	}

	async readEntries(database) {
		const { entries } = await get("/ledger", {
			query: { database, order: "desc", limit: LATEST },
			signal: this.signal,
		});
		this.addEntries(entries, false);
	}

	async readWorkers(database) {
		const { workers } = await get("/workers", {
			query: { database, limit: 500 },
			signal: this.signal,
		});
		this.workers = [
			...this.workers.filter((w) => w.database !== database),
			...workers.map((w) => ({ ...w, database })),
		];
	}

	async readWatch(row) {
		const { watch } = row;
		const database = watch.builtin ? watch.database : null;
		const base = `/watches/${part(watch.watch)}`;
		row.stats = await get(`${base}/stats`, { query: { database }, signal: this.signal });
		const oldest = { database, where: "running", sort: "age", limit: 1 };
		row.oldest =
			(await get(`${base}/jobs`, { query: oldest, signal: this.signal })).jobs[0] ?? null;
	}

	/* ---- the whole ---- */

	build() {
		const { places } = this;
		this.table = watchTable(this);
		fill(
			this.root,
			h("div", { class: "page-head" }, h("h1", "Overview"), places.state),
			places.banners,
			places.tiles,
			h(
				"div",
				{ class: "overview-grid" },
				h(
					"section",
					{ class: "card", "aria-labelledby": "trend-title" },
					h(
						"div",
						{ class: "card-head" },
						h("h2", { id: "trend-title" }, "Detected and recovered"),
						this.spanSwitch(),
					),
					places.trend,
				),
				h(
					"section",
					{ class: "card latest", "aria-labelledby": "latest-title" },
					h(
						"div",
						{ class: "card-head" },
						h("h2", { id: "latest-title" }, "Latest events"),
						h("a", { href: "/ledger" }, "All of the ledger"),
					),
					places.events,
				),
			),
			h(
				"section",
				{ class: "card", "aria-labelledby": "watches-title" },
				h("div", { class: "card-head" }, h("h2", { id: "watches-title" }, "Watches")),
				this.table.element,
			),
			chartBlock({ signal: this.signal, title: "All watches over time" }),
		);
	}

	spanSwitch() {
		const names = { "24h": "24 hours", "7d": "7 days" };
		const read = async (span) => {
			for (const database of await databases())
				await this.tolerate(() => this.readTrend(database, span));
		};
		const choose = (span) => {
			this.span = span;
			buttons.forEach((button) =>
				button.setAttribute("aria-pressed", String(button.value === span)),
			);
			this.paint();
			errand(() => read(span), this.signal);
		};
		const buttons = Object.entries(names).map(([span, name]) =>
			h(
				"button",
				{
					type: "button",
					value: span,
					"aria-pressed": String(span === this.span),
					onclick: () => choose(span),
				},
				name,
			),
		);
		return h("div", { class: "switch", role: "group", "aria-label": "Period" }, buttons);
	}

	paint() {
		const { places } = this,
			rows = [...this.rows.values()];
		const trends = this.trends.filter((t) => t.span === this.span);
		renew(places.state, stateLine(rows));
		renew(places.banners, guardBanners(rows), breakerBanners(this.workers));
		places.banners.hidden = !places.banners.childElementCount;
		renew(places.tiles, tiles(rows, this.day ?? []));
		renew(
			places.trend,
			trends.length
				? trendChart(trends, this.span)
				: h("p", { class: "empty" }, "Reading the ledger."),
		);
		if (!places.events.matches(":hover, :focus-within"))
			renew(
				places.events,
				this.entries.length
					? this.entries.map(entryLine)
					: h("li", { class: "empty" }, "Nothing has happened yet."),
			);
		this.table.refresh(rows);
	}
}
