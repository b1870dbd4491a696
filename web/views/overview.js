/*
 * overview.js: how everything is, in a glance: what is stuck, what was recovered, how fast,
 * and what needs a person; the trend; a row a watch; what happened last.
 *
 * Watches are told from the daemon's memory and by the stream, so they stand at once and
 * while a database is away; numbers that need a database come behind and are asked again
 * by the clock.
 */
import { databases, get, jobHref, part, Problem, queryText } from "../lib/api.js";
import { bars, sparkline } from "../lib/chart.js";
import { fill, h, user } from "../lib/dom.js";
import { icon } from "../lib/icon.js";
import { every } from "../lib/live.js";
import { table } from "../lib/table.js";
import { ago, chip, count, duration, eventChip, instant, plural, stampText } from "../lib/words.js";

export const title = "Overview";

const NUMBERS_S = 15;   /* how often a database is asked for numbers */
const AT_ONCE = 3;      /* calls at the same time */
const LATEST = 12;      /* events that are shown */
const WAITING = ["queued", "ready", "waiting", "pending", "scheduled", "new", "retry", "retrying"];

let view = null; /* the one that is shown */

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

const nameOf = (w) => `${w.database}/${w.watch}`;
const sum = (list) => list.reduce((a, b) => a + b, 0);

class Overview {
	constructor(root, signal) {
		Object.assign(this, { root, signal, span: "24h", entries: [], entryKeys: new Set(), trends: [], workers: [] });
		this.watches = new Map(); /* by nameOf(): {watch, stats, oldest} */
		this.places = {
			state: h("p", { class: "lead" }), banners: h("div", { class: "stack", hidden: true }), tiles: h("div", { class: "tiles" }),
			trend: h("div", { class: "card-body" }), events: h("ol", { class: "timeline", "aria-label": "Latest events" }),
		};
	}

	async start() {
		const { watches } = await get("/watches", { signal: this.signal });
		for (const w of watches) this.put(w);
		this.build();
		this.paint();
		every(NUMBERS_S, () => this.readNumbers(), this.signal);
		await this.readNumbers();
	}

	put(w) {
		const known = this.watches.get(nameOf(w)) ?? {};
		this.watches.set(nameOf(w), { ...known, watch: w });
	}

	/* ---- what happens ---- */

	take(event) {
		if (event.type === "watch") {
			this.put(event.data);
			this.soon();
		} else if (event.type === "ledger") {
			this.addEntries([event.data], true);
			this.paintEvents();
			this.stale = true;
		}
	}

	/* Many events make one painting. */
	soon() {
		this.timer ??= setTimeout(() => {
			this.timer = null;
			if (!this.signal.aborted) this.paint();
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
		const names = await databases();
		const works = [
			...names.flatMap((database) => [() => this.readTrend(database), () => this.readEntries(database), () => this.readWorkers(database)]),
			...[...this.watches.values()].filter(({ watch }) => watch.enabled).map(({ watch }) => () => this.readWatch(watch)),
		];
		await Promise.all(Array.from({ length: AT_ONCE }, async () => {
			for (let work = works.shift(); work; work = works.shift()) await this.tolerate(work);
		}));
		this.stale = false;
		if (!this.signal.aborted) this.paint();
	}

	/* What a database does not answer stays as it was; the frame says that it is away. */
	async tolerate(work) {
		try {
			await work();
			if (!this.signal.aborted) this.soon();
		} catch (error) {
			if (!this.signal.aborted && !(error instanceof Problem)) throw error;
		}
	}

	async readTrend(database) {
		const { span, signal } = this;
		const trend = await get("/trend", { query: { database, since: span }, signal });
		if (span !== this.span) return;
		this.trends = [...this.trends.filter((t) => t.database !== database && t.span === span), { ...trend, span }];
		if (span === "24h") this.day = this.trends;
	}

	async readEntries(database) {
		const { entries } = await get("/ledger", { query: { database, order: "desc", limit: LATEST }, signal: this.signal });
		this.addEntries(entries, false);
	}

	async readWorkers(database) {
		const { workers } = await get("/workers", { query: { database, limit: 500 }, signal: this.signal });
		this.workers = [...this.workers.filter((w) => w.database !== database), ...workers.map((w) => ({ ...w, database }))];
	}

	async readWatch(watch) {
		const database = watch.builtin ? watch.database : null;
		const base = `/watches/${part(watch.watch)}`;
		const known = this.watches.get(nameOf(watch));
		known.stats = await get(`${base}/stats`, { query: { database }, signal: this.signal });
		const running = await get(`${base}/jobs`, { query: { database, where: "running", sort: "age", limit: 1 }, signal: this.signal });
		known.oldest = running.jobs[0] ?? null;
	}

	/* ---- the whole ---- */

	build() {
		const { places } = this;
		this.table = watchTable(this);
		fill(this.root,
			h("div", { class: "page-head" }, h("h1", "Overview"), places.state),
			places.banners, places.tiles,
			h("div", { class: "overview-grid" },
				h("section", { class: "card", "aria-labelledby": "trend-title" },
					h("div", { class: "card-head" }, h("h2", { id: "trend-title" }, "Detected and recovered"), this.spanSwitch()), places.trend),
				h("section", { class: "card latest", "aria-labelledby": "latest-title" },
					h("div", { class: "card-head" }, h("h2", { id: "latest-title" }, "Latest events"), h("a", { href: "/ledger" }, "All of the ledger")),
					places.events)),
			h("section", { class: "card", "aria-labelledby": "watches-title" },
				h("div", { class: "card-head" }, h("h2", { id: "watches-title" }, "Watches")), this.table.element));
	}

	spanSwitch() {
		const buttons = ["24h", "7d"].map((span) => h("button", { type: "button", "aria-pressed": String(span === this.span),
			onclick: () => this.setSpan(span, buttons) }, span === "24h" ? "24 hours" : "7 days"));
		return h("div", { class: "switch", role: "group", "aria-label": "Period" }, buttons);
	}

	async setSpan(span, buttons) {
		this.span = span;
		buttons.forEach((b, i) => b.setAttribute("aria-pressed", String((i === 0) === (span === "24h"))));
		for (const database of await databases()) await this.tolerate(() => this.readTrend(database));
		this.paint();
	}

	paint() {
		const all = [...this.watches.values()];
		renew(this.places.state, stateLine(all));
		renew(this.places.banners, guardBanners(all), breakerBanners(this.workers));
		this.places.banners.hidden = !this.places.banners.childElementCount;
		renew(this.places.tiles, tiles(all, this.day ?? []));
		this.paintTrend();
		this.paintEvents();
		this.table.refresh(all);
	}

	paintTrend() {
		const trends = this.trends.filter((t) => t.span === this.span);
		if (!trends.length) {
			renew(this.places.trend, h("p", { class: "empty" }, "Reading the ledger."));
			return;
		}
		renew(this.places.trend, trendChart(trends, this.span));
	}

	paintEvents() {
		renew(this.places.events, this.entries.length ? this.entries.map(entryLine) : h("li", { class: "empty" }, "Nothing has happened yet."));
	}
}

/* Only where something is different: what somebody reads or points at stays. */
function renew(element, ...children) {
	const next = h(element.tagName, children);
	if (element.childNodes.length === next.childNodes.length &&
		[...element.childNodes].every((node, i) => node.isEqualNode(next.childNodes[i]))) return;
	if (element.contains(document.activeElement)) {
		const at = [...element.querySelectorAll("a, button")].indexOf(document.activeElement);
		fill(element, ...next.childNodes);
		element.querySelectorAll("a, button")[at]?.focus({ preventScroll: true });
		return;
	}
	fill(element, ...next.childNodes);
}

/* ---- in a line ---- */

/* Judged stuck and not left to a person already. */
function stuckOf({ watch, stats }) {
	if (!stats || stats.stuck_error) return watch.info?.guarded?.total ?? 0;
	return Math.max(0, sum(Object.values(stats.stuck)) - (stats.held ?? 0));
}

function heldOf({ stats }) {
	const states = stats?.states?.filter((s) => s.state === "held") ?? [];
	return Math.max(stats?.held ?? 0, sum(states.map((s) => s.n)));
}

/* Jobs that ended without success and are not tried again: what others call dead letters. */
function deadOf({ stats }) {
	return stats?.failed ?? 0;
}

function deadWatch(all) {
	return all.find((row) => deadOf(row) > 0)?.watch.watch;
}

function stateLine(all) {
	const scanned = all.map(({ watch }) => watch.last_scan).filter(Boolean).sort();
	const stuck = sum(all.map(stuckOf));
	const trouble = all.filter(({ watch }) => watch.enabled && !["well", "paused", null].includes(watch.standing));
	if (!all.length) return [chip("no watch", { look: "paused" }), " The configuration names none."];
	if (!scanned.length) return [chip("starting", { look: "pending" }), " No scan has finished yet."];
	const last = [" Last scan finished ", ago(scanned.at(-1)), "."];
	if (trouble.length) return [chip("trouble", { look: "fail" }), ` ${plural(trouble.length, "watch", "watches")} not well.`, last];
	return stuck ? [chip("stuck", { look: "stuck", label: `${count(stuck)} stuck` }), last] : [chip("all clear", { look: "ok" }), last];
}

/* ---- guards ---- */

function banner(shade, picture, ...text) {
	return h("div", { class: `banner ${shade}` }, icon(picture), h("p", { class: "banner-text" }, text));
}

function until(when) {
	return when ? [" It lets go ", ago(when), " at the latest, at ", stampText(when), "."] : null;
}

function guardBanners(all) {
	return all.flatMap(({ watch }) => {
		const info = watch.info ?? {};
		const name = user(watch.watch);
		const said = [];
		if (watch.braking) said.push(banner("held", "shield", h("strong", "The brake holds ", name), ": ", user(info.guard), ".", until(info.brake_until)));
		if (watch.doubting) said.push(banner("warn", "question", h("strong", "In doubt about ", user(watch.watch)), ": ", user(info.doubt_cause ?? info.guard), ".", until(info.doubt_until)));
		if (watch.paused) said.push(banner("idle", "pause", h("strong", user(watch.watch), " is paused"), ": nothing is recovered until somebody resumes it."));
		if (watch.failure) said.push(banner("bad", "alert", h("strong", "The last scan of ", user(watch.watch), " failed"), ": ", user(watch.failure)));
		return said;
	});
}

function breakerBanners(workers) {
	const open = workers.filter((w) => w.state === "alive" && !w.expired && w.info?.breaker && w.info.breaker !== "closed");
	if (!open.length) return [];
	return [banner("warn", "bolt", h("strong", `${plural(open.length, "worker")} cannot reach the database well`), ": the breaker of ",
		user(open.slice(0, 3).map((w) => w.name).join(", ")), open.length > 3 ? ` and ${count(open.length - 3)} more` : "",
		" is open. Results are kept in the spool; each tries again by itself within 30 s.")];
}

/* ---- tiles ---- */

function tile(href, shade, picture, name, value, note) {
	return h("a", { class: `tile ${shade}`, href }, h("span", { class: "tile-name" }, icon(picture), name),
		h("span", { class: "tile-value" }, value), h("span", { class: "tile-note" }, note));
}

function medians(trends) {
	const all = trends.flatMap((t) => t.watches).map((w) => w.median_s).filter((m) => m !== null).sort((a, b) => a - b);
	if (!all.length) return ["–", "nothing recovered in 24 h"];
	if (all.length === 1 || duration(all[0]) === duration(all.at(-1))) return [duration(all[0]), "median, from the last sign of life"];
	return [`${duration(all[0]).split(" ")[0]} – ${duration(all.at(-1)).split(" ")[0]}`, "medians by watch, from the last sign"];
}

function tiles(all, day) {
	const stuck = sum(all.map(stuckOf)), held = sum(all.map(heldOf)), dead = sum(all.map(deadOf));
	const capped = all.some(({ stats }) => stats?.stuck_capped);
	const recovered = day.length ? sum(day.flatMap((t) => t.watches).flatMap((w) => w.recovered)) : null;
	const detected = sum(day.flatMap((t) => t.watches).flatMap((w) => w.detected));
	const [time, timeNote] = medians(day);
	return [
		tile("/stuck", stuck ? "bad" : "good", stuck ? "alert" : "check", "Stuck now", count(stuck, capped), stuck ? "judged stuck and not recovered" : "nothing is stuck"),
		tile(`/ledger${queryText({ since: "24h" })}`, "good", "redo", "Recovered in 24 h", count(recovered), `of ${plural(detected, "job")} found stuck`),
		tile("/report", "", "clock", "Time to recovery", time, timeNote),
		tile(held || !dead ? "/stuck#held" : `/jobs${queryText({ watch: deadWatch(all), state: "failed" })}`, held + dead ? "held" : "good", held + dead ? "hand" : "check", "Needs you", count(held + dead),
			`${count(held)} held, ${count(dead)} dead-letter`),
	];
}

/* ---- the trend ---- */

const SERIES = [{ name: "detected", title: "Detected", shade: "warn" }, { name: "recovered", title: "Recovered", shade: "good" }];

function clock(at) {
	return `${String(at.getHours()).padStart(2, "0")}:00`;
}

function bucketNames(from, seconds, i, span) {
	const begins = new Date(from.getTime() + i * seconds * 1000), ends = new Date(begins.getTime() + seconds * 1000);
	const day = begins.toLocaleDateString("en", { weekday: "short", day: "numeric", month: "short" });
	return { title: `${day}, ${clock(begins)} to ${clock(ends)}`,
		label: span === "24h" ? clock(begins) : begins.toLocaleDateString("en", { weekday: "short", day: "numeric" }) };
}

function trendChart(trends, span) {
	const { from, bucket_s: seconds } = trends[0];
	const watches = trends.flatMap((t) => t.watches);
	const length = span === "24h" ? 24 : 28;
	const at = (name, i) => sum(watches.map((w) => w[name][i] ?? 0));
	const buckets = Array.from({ length }, (_, i) => ({ ...bucketNames(instant(from), seconds, i, span),
		values: { detected: at("detected", i), recovered: at("recovered", i) } }));
	return bars(buckets, SERIES, { label: `Jobs found stuck and recovered in the last ${span === "24h" ? "24 hours" : "7 days"}` });
}

/* ---- a row a watch ---- */

function depth({ stats }) {
	if (!stats || stats.states_error) return null;
	const waiting = stats.states.filter((s) => WAITING.includes(String(s.name ?? s.state).toLowerCase()));
	return waiting.length || stats.states.length === 0 ? sum(waiting.map((s) => s.n)) : null;
}

function trendOf(view, { watch }) {
	const found = (view.day ?? []).find((t) => t.database === watch.database)?.watches.find((w) => w.watch === watch.watch);
	const values = found?.detected ?? Array(24).fill(0);
	return sparkline(values, { shade: "warn", label: `${count(sum(values))} found stuck in 24 h` });
}

function workersOf(view, { watch }) {
	const alive = view.workers.filter((w) => w.database === watch.database && w.state === "alive" && !w.expired);
	return alive.filter((w) => w.serves?.includes(watch.watch)).length;
}

/* Of a watch that another daemon leads, the board knows no word. */
function standing({ watch }) {
	if (!watch.enabled) return chip("off", { look: "paused" });
	if (watch.standing) return chip(watch.standing);
	return watch.info ? chip("followed", { look: "info", title: "another daemon leads this watch" }) : chip("starting", { look: "pending" });
}

function oldest({ oldest: job, watch }) {
	if (!job) return h("span", { class: "muted" }, "–");
	return h("a", { href: jobHref(watch.watch, job.key, watch.database), title: `Job ${job.job}` }, duration(job.age_s));
}

function watchTable(view) {
	const several = new Set([...view.watches.values()].map(({ watch }) => watch.database)).size > 1;
	const jobs = (w, query) => `/jobs${queryText({ watch: w.watch, database: w.builtin ? w.database : null, ...query })}`;
	return table({
		label: "How each watch is",
		empty: "The configuration has no watch yet: see watches: in the documentation.",
		key: ({ watch }) => nameOf(watch),
		columns: [
			{ name: "watch", title: "Watch", cell: ({ watch: w }) => [h("a", { class: "strong", href: jobs(w, {}) }, user(w.label ?? w.watch)),
				h("span", { class: "muted sub" }, user(several ? `${w.database} · ${w.table}` : w.table))] },
			{ name: "health", title: "Health", cell: standing },
			{ name: "depth", title: "Waiting", num: true, cell: (row) => count(depth(row)) },
			{ name: "running", title: "Running", num: true, cell: ({ watch: w, stats }) =>
				h("a", { href: jobs(w, { where: "running" }) }, count(stats?.running ?? w.info?.running, stats?.running_capped)) },
			{ name: "stuck", title: "Stuck", num: true, cell: (row) => stuckOf(row)
				? h("a", { class: "bad-text strong", href: `/stuck${queryText({ watch: row.watch.watch })}` }, count(stuckOf(row))) : "0" },
			{ name: "oldest", title: "Oldest", num: true, cell: oldest },
			{ name: "workers", title: "Workers", num: true, cell: (row) => count(workersOf(view, row)) },
			{ name: "trend", title: "Stuck, 24 h", cell: (row) => trendOf(view, row) },
			{ name: "scan", title: "Last scan", num: true, cell: ({ watch: w }) => ago(w.last_scan) },
		],
	});
}

/* ---- events ---- */

function entryLine(entry) {
	const job = entry.job && entry.job !== "*" ? h("a", { href: jobHref(entry.watch, entry.job, entry.database) }, user(`${entry.watch}/${entry.job}`)) : user(entry.watch);
	return h("li", { class: entry.fresh ? "fresh" : null }, ago(entry.at),
		h("div", { class: "event" }, eventChip(entry.event), job, h("span", { class: "muted reason" }, user(entry.reason ?? entry.actor))));
}
