// SPDX-License-Identifier: Apache-2.0
/*
 * stuck.js: what is stuck now, over all watches, by cause: jobs of a watch with the same verdict
 * and the same remedy are one card, with the evidence of each in a sentence, what would be done and
 * by which rule, and what holds it back. Below are the held jobs, which wait for an operator. Cards
 * stay where they are while the user is in one of them, as rows do in table.js.
 */
import { ACTS, actsOf } from "../lib/acts.js";
import { get, knownRole, may, part, Problem } from "../lib/api.js";
import { attemptsText, jobLink, measure, shownText } from "../lib/cells.js";
import { actButtons, confirm } from "../lib/dialog.js";
import { fill, h, user } from "../lib/dom.js";
import { errand, orNothing } from "../lib/errand.js";
import { icon } from "../lib/icon.js";
import { every, soon } from "../lib/live.js";
import { table } from "../lib/table.js";
import { REMEDIES, VERDICTS } from "../lib/tables.js";
import { ago, chip, count, duration, guardWords, HOLD_CAUSES, plural } from "../lib/words.js";

export const title = "Stuck";

const MOST = 200; /* jobs of a watch; the rest is a link to its list */
const AT_ONCE = 6;
const AGAIN_S = 5;
const ORDER = Object.keys(VERDICTS);

let refreshSoon = null;

/* ---- requests ---- */

async function eachOf(items, fn) {
	const results = [];
	for (let i = 0; i < items.length; i += AT_ONCE) results.push(...await Promise.all(items.slice(i, i + AT_ONCE).map(fn)));
	return results;
}

async function listOf({ watch, database }, query, signal) {
	return get(`/watches/${part(watch)}/jobs`, { query: { database, limit: MOST, ...query }, signal });
}

/* In the built-in queue a hold is a state; in other tables it is shown beside the state. */
async function heldOf(watch, signal) {
	const asks = [{ where: "held" }, ...(watch.builtin ? [{ state: "held" }] : [])];
	const lists = await Promise.all(asks.map((query) => listOf(watch, query, signal)));
	const jobs = new Map(lists.flatMap((list) => list.jobs).map((job) => [job.job, job]));
	return { jobs: [...jobs.values()], more: lists.some((list) => list.more) };
}

/* Of one watch: {watch, stuck, held, more} or {watch, error}. */
async function read(watch, signal) {
	try {
		const [stuck, held] = await Promise.all([listOf(watch, { where: "stuck", sort: "age", judged: true }, signal), heldOf(watch, signal)]);
		return { watch, stuck: stuck.jobs.filter((job) => !job.held), more: stuck.more, held: held.jobs, heldMore: held.more };
	} catch (error) {
		if (!(error instanceof Problem)) throw error;
		return { watch, stuck: [], held: [], error };
	}
}

/* Who paused watches, until when and why: requested only if one is paused. */
async function addPauses(watches, signal) {
	const paused = watches.filter((w) => w.paused || w.info?.paused);
	for (const database of new Set(paused.map((w) => w.database))) {
		const said = await orNothing(get("/watch-status", { query: { database }, signal }));
		for (const watch of paused.filter((w) => w.database === database))
			watch.pause = said?.watches.find((s) => s.watch === watch.watch)?.overrides.find((o) => o.name === "pause") ?? null;
	}
}

/* ---- causes ---- */

function causesOf(found) {
	const causes = new Map();
	for (const { watch, stuck, more } of found) {
		for (const job of stuck) {
			const key = JSON.stringify([watch.database, watch.watch, job.verdict, job.remedy, job.rule]);
			if (!causes.has(key)) causes.set(key, { key, watch, more, verdict: job.verdict, remedy: job.remedy, rule: job.rule, jobs: [] });
			causes.get(key).jobs.push(job);
		}
	}
	return [...causes.values()].sort((a, b) => ORDER.indexOf(a.verdict) - ORDER.indexOf(b.verdict) || b.jobs.length - a.jobs.length);
}

/* "requeue them", "requeue it" */
function would(remedy, n) {
	const words = REMEDIES[remedy]?.would ?? remedy;
	return n === 1 ? words.replace(/\bthem\b/, "it") : words;
}

/* Which guards hold jobs of a watch back, and until when. */
function guardLines({ info, paused, pause }) {
	if (!info) return [];
	const kept = info.guarded ?? {};
	const lines = [];
	if (info.braking) lines.push(["The brake is on", info.brake_until && ["; released ", ago(info.brake_until), " at the latest"]]);
	if (info.doubting) lines.push(["In doubt after an outage", info.doubt_until && ["; over ", ago(info.doubt_until)]]);
	if (paused || info.paused) lines.push([pause ? ["Paused by ", user(pause.actor)] : "Paused by an operator",
		pause && [pause.reason ? [": ", user(pause.reason)] : "", pause.until ? ["; over ", ago(pause.until)] : "; until someone resumes it"]]);
	if (kept.pace) lines.push([`${plural(info.waiting ?? kept.pace, "job")} paced`, info.eta_s ? `; about ${duration(info.eta_s)} left` : null]);
	if (kept.look) lines.push([`${plural(kept.look, "job")} seen silent once`, "; recovered when seen silent twice, one beat apart"]);
	if (lines.length === 0 && kept.total > 0) lines.push([`${plural(kept.total, "job")} held back`, null]);
	return lines;
}

function guardBar(watch) {
	const lines = guardLines(watch);
	if (lines.length === 0) return null;
	return h("div", { class: "guard-line" }, icon("shield"),
		h("span", lines.map(([said, until], i) => [i ? " · " : "", h("strong", said), until ?? ""]),
			watch.info.guarded?.total > 0 && watch.info.guard ? [": ", user(guardWords(watch.info.guard))] : null));
}

const COLUMNS = [
	{ name: "job", title: "Job", cell: (job) => jobLink(job) },
	{ name: "why", title: "Evidence", cell: (job) => user(job.why) },
	{ name: "sign", title: "Measured", cell: (job) => measure(job.measured_s, job.limit_s) ?? h("span", { class: "muted" }, "end seen") },
	{ name: "owner", title: "Worker", cell: (job) => user(job.owner) },
	{ name: "attempts", title: "Attempts", cell: attemptsText },
	{ name: "shown", title: "Kind", cell: (job) => [job.kind ? [user(job.kind), " "] : null, Object.keys(job.show ?? {}).some((name) => name !== "kind") ? shownText(job) : null] },
];

/* One card: its table lives as long as the cause does. */
class Cause {
	constructor(cause, signal) {
		this.signal = signal;
		this.heading = h("h2");
		this.acts = h("div", { class: "toolbar" });
		this.proposal = h("div", { class: "proposal" });
		this.guards = h("div");
		this.table = table({
			label: `Stuck jobs of ${cause.watch.watch}: ${cause.verdict}`, columns: COLUMNS, key: (job) => job.job, title: (job) => job.job, select: may("operator"),
			onselect: () => this.#buttons(),
		});
		this.foot = h("div", { class: "card-foot", hidden: true });
		this.element = h("section", { class: "card cause" }, h("div", { class: "card-head" }, this.heading, this.acts), this.guards, this.proposal, this.table.element, this.foot);
		this.update(cause);
	}

	update(cause) {
		this.cause = cause;
		const { watch, verdict, remedy, rule, jobs, more } = cause;
		this.element.classList.remove("gone");
		fill(this.heading, chip(verdict), h("span", `${count(jobs.length, more)} ${jobs.length === 1 ? "job" : "jobs"} of `, user(watch.label ?? watch.watch)));
		fill(this.guards, guardBar(watch));
		fill(this.proposal, h("span", { class: "muted" }, "Proposed"), chip(remedy),
			h("span", { class: "grow" }, `defib would ${would(remedy, jobs.length)}, by the rule `, user(rule, { class: "mono" })), this.#propose());
		this.table.refresh(jobs);
		this.foot.hidden = !more;
		if (more) fill(this.foot, h("a", { href: `/jobs?watch=${part(watch.watch)}&verdict=${part(verdict)}` }, "All of them"));
		this.#buttons();
	}

	/* The proposed remedy, now and by hand. */
	#propose() {
		const { remedy, jobs } = this.cause;
		if (!ACTS[remedy] || !may("operator")) return null;
		return h("button", { type: "button", class: "primary", "data-act": remedy, onclick: () => confirm(remedy, this.#chosen() ?? jobs) }, icon(ACTS[remedy].icon), `${ACTS[remedy].title} now`);
	}

	#chosen() {
		const chosen = this.table?.selected() ?? [];
		return chosen.length ? chosen : null;
	}

	#buttons() {
		if (!this.table || !this.cause || !may("operator")) return;
		const chosen = this.#chosen();
		const named = JSON.stringify([chosen?.map((job) => job.job), this.cause.jobs.length]);
		if (this.named === named) return; /* buttons stay as they are under the pointer */
		this.named = named;
		errand(() => this.#makeButtons(chosen), this.signal, () => { this.named = null; });
	}

	async #makeButtons(chosen) {
		const { watch } = this.cause;
		const acts = await actsOf(watch.watch, watch.database, this.signal);
		fill(this.acts, chosen ? h("span", { class: "muted" }, `${count(chosen.length)} selected`) : null,
			actButtons(chosen ?? this.cause.jobs, acts.filter((act) => act !== "release"), { small: true, after: () => this.table.clearSelection() }));
	}
}

/* ---- what waits for an operator ---- */

function heldBecause(job) {
	return [HOLD_CAUSES[job.held] ?? (job.held ? user(job.held) : "by its own state"), job.hold_reason ? [": ", user(job.hold_reason)] : null];
}

const HELD_COLUMNS = [
	{ name: "job", title: "Job", cell: (job) => jobLink(job) },
	{ name: "cause", title: "Held because", cell: heldBecause },
	{ name: "state", title: "State", cell: (job) => chip(job.state_name ?? job.state) },
	{ name: "age", title: "Age", num: true, cell: (job) => duration(job.age_s) },
	{ name: "attempts", title: "Attempts", cell: attemptsText },
	{ name: "shown", title: "Kind", cell: (job) => [job.kind ? [user(job.kind), " "] : null, Object.keys(job.show ?? {}).some((name) => name !== "kind") ? shownText(job) : null] },
];

class Held {
	constructor(signal) {
		this.signal = signal;
		this.heading = h("h2");
		this.table = table({
			label: "Held jobs", columns: HELD_COLUMNS, key: (job) => `${job.database}/${job.job}`, title: (job) => job.job,
			select: may("operator"), onselect: (jobs) => this.#buttons(jobs),
		});
		this.acts = h("div", { class: "toolbar" });
		this.element = h("section", { id: "held", class: "card", "aria-label": "Needs you" }, h("div", { class: "card-head" }, this.heading, this.acts), this.table.element);
	}

	update(jobs, more) {
		this.jobs = jobs;
		this.element.hidden = jobs.length === 0;
		fill(this.heading, icon("hand"), ` Needs you: ${count(jobs.length, more)} held`);
		this.table.refresh(jobs);
		this.#buttons(this.table.selected());
	}

	#buttons(chosen) {
		if (!this.jobs?.length || !may("operator")) return;
		const named = JSON.stringify([chosen.map((job) => job.job), this.jobs.length]);
		if (this.named === named) return;
		this.named = named;
		errand(() => this.#makeButtons(chosen), this.signal, () => { this.named = null; });
	}

	async #makeButtons(chosen) {
		const jobs = chosen.length ? chosen : this.jobs;
		const watches = new Map(jobs.map((job) => [`${job.database}/${job.watch}`, job]));
		const lists = await Promise.all([...watches.values()].map((job) => actsOf(job.watch, job.database, this.signal)));
		const common = lists[0].filter((act) => act !== "hold" && act !== "excuse" && lists.every((list) => list.includes(act)));
		fill(this.acts, h("span", { class: "muted" }, chosen.length ? `${count(chosen.length)} selected` : "all of them"),
			actButtons(jobs, common, { small: true, after: () => this.table.clearSelection() }));
	}
}

/* ---- the view ---- */

function clearCard(watches) {
	const scans = watches.map((w) => w.last_scan).filter(Boolean).sort();
	return h("div", { class: "card clear" }, icon("check"), h("h2", "Nothing is stuck"),
		scans.length ? h("p", "The last scan finished ", ago(scans.at(-1)), ".") : h("p", "No scan has finished yet since the daemon started."));
}

class StuckView {
	/* `only`: the name of a watch, or none. */
	constructor(root, only, signal) {
		Object.assign(this, { only, signal });
		this.causes = new Map();
		this.before = new Map(); /* what was found of each watch */
		this.lead = h("p", { class: "lead" }, "Looking…");
		this.problems = h("div", { class: "stack" });
		this.clear = h("div");
		this.cards = h("div", { class: "stack" });
		this.held = new Held(signal);
		this.held.element.hidden = true;
		fill(root, h("div", { class: "page-head" }, h("h1", "Stuck"), this.lead,
			only ? h("span", { class: "row" }, "of ", user(only), h("a", { class: "button", href: "/stuck" }, "All watches")) : null), this.problems, this.clear, this.cards, this.held.element);
	}

	async refresh() {
		const { watches } = await get("/watches", { signal: this.signal });
		const enabled = watches.filter((w) => w.enabled && (!this.only || w.watch === this.only));
		await addPauses(enabled, this.signal);
		const found = (await eachOf(enabled, (watch) => read(watch, this.signal))).map((one) => this.#orBefore(one));
		this.#causes(causesOf(found));
		this.held.update(found.flatMap((f) => f.held), found.some((f) => f.heldMore));
		this.#problems(found, enabled);
		const n = found.reduce((sum, f) => sum + f.stuck.length, 0);
		const errors = found.some((f) => f.error);
		this.lead.textContent = n === 0 ? "" : `${count(n, found.some((f) => f.more))} ${n === 1 ? "job" : "jobs"}, ${plural(this.causes.size, "cause")}`;
		fill(this.clear, n === 0 && !errors ? clearCard(enabled) : null);
	}

	/* While a database is unavailable, what was last found there stays, with a note. */
	#orBefore(found) {
		const name = JSON.stringify([found.watch.database, found.watch.watch]);
		if (!found.error) this.before.set(name, found);
		return found.error?.passing && this.before.has(name) ? { ...this.before.get(name), error: found.error } : found;
	}

	#busy() {
		return [...this.causes.values()].some((card) => card.table.isBusy() || card.element.contains(document.activeElement));
	}

	#causes(causes) {
		const busy = this.#busy();
		const now = new Set(causes.map((cause) => cause.key));
		for (const [key, card] of this.causes) {
			if (now.has(key)) continue;
			if (busy) {
				card.table.refresh([]);
				continue;
			}
			card.element.remove();
			this.causes.delete(key);
		}
		for (const cause of causes) {
			const card = this.causes.get(cause.key);
			if (card) {
				card.update(cause);
				continue;
			}
			const made = new Cause(cause, this.signal);
			this.causes.set(cause.key, made);
			this.cards.append(made.element);
		}
		/* The order of causes changes only while the user is in none of them. */
		const wanted = causes.map((cause) => this.causes.get(cause.key).element);
		if (!busy && wanted.some((element, i) => this.cards.children[i] !== element)) this.cards.replaceChildren(...wanted);
	}

	#problems(found, watches) {
		const said = [
			...found.filter((f) => f.error).map((f) => [f.watch, f.error.detail]),
			...watches.filter((w) => w.failure).map((w) => [w, `its last scan failed: ${w.failure}`]),
		];
		fill(this.problems, said.map(([watch, why]) => h("div", { class: "banner warn" }, icon("alert"),
			h("p", { class: "banner-text" }, user(watch.label ?? watch.watch), ": ", user(why)))));
	}
}

export async function show(root, { query, signal }) {
	await knownRole(signal);
	const view = new StuckView(root, query.get("watch"), signal);
	refreshSoon = soon(500, () => view.refresh(), signal);
	await view.refresh();
	if (location.hash === "#held") view.held.element.scrollIntoView({ block: "start" });
	every(AGAIN_S, () => view.refresh(), signal);
}

export function update(event) {
	if (event.type === "ledger" || event.type === "gap") refreshSoon?.();
}
