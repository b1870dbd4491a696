// SPDX-License-Identifier: Apache-2.0
/*
 * overview.js: for the person on call: the health and why, alerts that fire, what needs an
 * operator, then numbers; incidents, one line each; the trend; one row per watch; the latest events.
 *
 * Watches come from the daemon's memory and from the stream, so they appear at once and while a
 * database is unavailable; numbers that need a database come later and are refreshed regularly.
 * lib/glance.js decides how it looks.
 */
import { databases, get, part } from "../lib/api.js";
import { chartBlock } from "../lib/charts.js";
import { fill, h, renew } from "../lib/dom.js";
import { errand } from "../lib/errand.js";
import {
	alertLines,
	breakerBanners,
	entryLine,
	guardBanners,
	incidentLine,
	needLines,
	nameOf,
	stateLine,
	tiles,
	trendChart,
	watchTable,
} from "../lib/glance.js";
import { every, poke } from "../lib/live.js";
import { ago, chip, stampText } from "../lib/words.js";

export const title = "Overview";

const NUMBERS_S = 15; /* how often a database is asked for numbers … */
const AFTER_EVENT_S = 4; /* … and how soon after an event */
const AT_ONCE = 3; /* calls at the same time */
const EVENTS_MS = 250; /* how soon entries and numbers are shown … */
const SCANS_MS = 1000; /* … and that a watch was scanned, which is often and changes little */
const LATEST = 12; /* events that are shown */
const INCIDENTS = 6; /* of the last 24 hours */
const STALE_S = 5; /* an answer that takes longer leaves old numbers on the page */

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
			alerts: [],
			incidents: null, /* null: not known yet */
			numbersAt: null, /* when all numbers were last read … */
			askedAt: null, /* … and since when they are being read */
		});
		this.rows = new Map(); /* by nameOf(): see glance.js */
		this.places = {
			state: h("p", { class: "lead" }),
			stale: h("p", { class: "row stale-line", hidden: true }),
			alerts: h("ul", { class: "plain calls" }),
			needs: h("ul", { class: "plain calls" }),
			banners: h("div", { class: "stack", hidden: true }),
			tiles: h("div", { class: "tiles" }),
			incidents: h("ol", { class: "timeline incidents", "aria-label": "Incidents of the last 24 hours" }),
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
		const tick = setInterval(() => this.showStale(), 1000);
		this.signal.addEventListener("abort", () => clearInterval(tick));
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
			this.soon(SCANS_MS);
		} else if (event.type === "ledger") {
			this.addEntries([event.data], true);
			this.soon(EVENTS_MS);
			this.again ??= setTimeout(() => {
				this.again = null;
				if (!this.signal.aborted) poke();
			}, AFTER_EVENT_S * 1000);
		}
	}

	/* Many events cause one painting. */
	soon(ms) {
		this.timer ??= setTimeout(() => {
			this.timer = null;
			if (!this.signal.aborted && this.table) this.paint();
		}, ms);
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
		this.askedAt ??= Date.now();
		this.failed = false;
		for (const database of await databases())
			works.push(
				() => this.readStandings(database),
				() => this.readTrend(database, "24h"),
				() => this.readAlerts(database),
				() => this.readIncidents(database),
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
		if (this.failed) return;
		this.numbersAt = Date.now();
		this.askedAt = null;
		this.showStale();
	}

	/* Old numbers stay where they are, and say since when they are old. */
	showStale() {
		const late = this.askedAt !== null && Date.now() - this.askedAt > STALE_S * 1000;
		const { stale, tiles: numbers } = this.places;
		stale.hidden = !late;
		numbers.classList.toggle("stale", late && this.numbersAt !== null);
		if (!late) return;
		const since = this.numbersAt ?? this.askedAt;
		renew(stale, chip("stale", { label: this.numbersAt ? `stale since ${stampText(since)}` : `no answer since ${stampText(since)}` }),
			h("span", { class: "muted" }, this.numbersAt ? "The numbers below are from then (" : "The numbers are not known yet (", ago(since), ")."));
	}

	/*
	 * If a database does not answer, the old values stay; the frame shows that it is unavailable.
	 */
	async tolerate(work) {
		await errand(work, this.signal, () => {
			this.failed = true;
		});
		this.soon(EVENTS_MS);
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

	async readAlerts(database) {
		const { alerts } = await get("/alerts", { query: { database }, signal: this.signal });
		const firing = alerts.filter((a) => a.enabled && (a.state === "firing" || a.state === "pending"));
		this.alerts = [...this.alerts.filter((a) => a.database !== database), ...firing.map((a) => ({ ...a, database }))];
	}

	async readIncidents(database) {
		const { incidents } = await get("/incidents", { query: { database, limit: INCIDENTS }, signal: this.signal });
		const all = [...(this.incidents ?? []).filter((one) => one.database !== database), ...incidents];
		this.incidents = all.sort((a, b) => b.to.localeCompare(a.to)).slice(0, INCIDENTS);
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
		row.poison = 0;
		if (row.stats.held) {
			const held = await get(`${base}/jobs`, { query: { database, where: "held", limit: 100 }, signal: this.signal });
			row.poison = held.jobs.filter((job) => job.held === "poison").length;
		}
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
			places.stale,
			h("section", { class: "calls-box", "aria-label": "Alerts" }, places.alerts),
			h("section", { class: "calls-box", "aria-label": "Needs you" }, places.needs),
			places.banners,
			places.tiles,
			h(
				"section",
				{ class: "card", "aria-labelledby": "incidents-title" },
				h(
					"div",
					{ class: "card-head" },
					h("h2", { id: "incidents-title" }, "Incidents in 24 h"),
					h("a", { href: "/report" }, "Report"),
				),
				places.incidents,
			),
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
		renew(places.state, stateLine(rows, this.alerts));
		renew(places.alerts, alertLines(this.alerts));
		renew(places.needs, needLines(rows));
		if (!places.incidents.matches(":hover, :focus-within")) renew(places.incidents, incidentLine(this.incidents));
		renew(places.banners, guardBanners(rows), breakerBanners(this.workers));
		places.banners.hidden = !places.banners.childElementCount;
		renew(places.tiles, tiles(rows, this.day ?? []));
		renew(
			places.trend,
			trends.length
				? trendChart(trends, this.span)
				: h("div", { class: "bone tall" }, h("p", { class: "sr-only" }, "Reading the ledger.")),
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
