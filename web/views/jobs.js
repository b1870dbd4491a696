// SPDX-License-Identifier: Apache-2.0
/*
 * jobs.js: the jobs of a watch, or of all: filtered, sorted, one page at a time by the server's
 * cursor. Tabs have the states with their numbers; the filters are in the address. The server limits
 * counts and marks them ("1,000+"). Selected jobs can be acted on together, and all that match in
 * the background.
 */
import { ACTS, actsOf } from "../lib/acts.js";
import { get, knownRole, may, part, Problem, queryText } from "../lib/api.js";
import { attemptsText, jobLink, measure, shownText, standChips, whyText } from "../lib/cells.js";
import { actButtons, confirmAll } from "../lib/dialog.js";
import { announce, fill, h, renew, user } from "../lib/dom.js";
import { errand, orNothing, QUIETLY } from "../lib/errand.js";
import { icon } from "../lib/icon.js";
import { every, soon } from "../lib/live.js";
import { table } from "../lib/table.js";
import { VERDICTS } from "../lib/tables.js";
import { workerNames } from "../lib/workers.js";
import { count, duration, human, plural } from "../lib/words.js";

export const title = "Jobs";

const PAGE = 50;
const PAGE_MOST = 500;
const TAIL_S = 10;

const NAMES = ["watch", "database", "state", "verdict", "kind", "age", "any", "text", "where", "sort", "desc"];
const SORTS = [["", "default"], ["age", "age"], ["key", "key"], ["state", "state"]];

/*
 * The default order: running or stuck jobs come oldest first, as in a scan, everything else newest
 * first.
 */
const OLDEST_FIRST = /^(running|stuck|verdict\b)/;

let refreshSoon = null; /* of the current view */
let typedIn = null;     /* the field that changed the query: it keeps the focus */

/* ---- the query ---- */

function readFilters(query) {
	const filters = Object.fromEntries(NAMES.map((name) => [name, query.get(name) ?? ""]));
	filters.where = query.getAll("where");
	return filters;
}

function address(filters) {
	return `/jobs${queryText(filters)}`;
}

/* "10m" and ">10m" are older than that, "<1h" younger. */
function ageTerm(text) {
	const said = text.trim();
	return said ? `age${/^[<>]/.test(said) ? said : `>${said}`}` : null;
}

/* The filters as terms of `defib list`. */
function termsOf(filters) {
	const where = [...filters.where];
	if (Object.hasOwn(VERDICTS, filters.verdict)) where.push(`verdict=${filters.verdict}`);
	else if (filters.verdict) where.push(filters.verdict); /* stuck, running, held, excused, recovered */
	if (filters.kind) where.push(`kind=${filters.kind}`);
	if (filters.age) where.push(ageTerm(filters.age));
	return where;
}

/* The same with those that have parameters of their own. */
function allTerms(filters) {
	const own = [filters.state ? `state=${filters.state}` : null, filters.text ? `text~${filters.text}` : null, filters.any ? `any~${filters.any}` : null];
	return [...termsOf(filters), ...own.filter(Boolean)];
}

function question(filters, more = {}) {
	const where = termsOf(filters);
	if (!filters.sort && !where.some((term) => OLDEST_FIRST.test(term))) more = { sort: "key", desc: true, ...more };
	return { where, state: filters.state, text: filters.text, any: filters.any, sort: filters.sort, desc: filters.desc, judged: true, ...more };
}

/* ---- pages, of one watch or of all ---- */

/*
 * A list over one or more watches: each has its own cursor, and a page consists of the next page of
 * each. If a watch does not know a term, that is shown.
 */
class Listing {
	constructor(watches, filters, signal) {
		Object.assign(this, { watches, filters, signal });
		this.reset();
	}

	reset() {
		this.places = this.watches.map((watch) => ({ watch, after: null, more: true, examined: 0, partly: false, byKey: false }));
		this.problems = [];
	}

	get more() {
		return this.places.some((place) => place.more);
	}

	async #page(place, limit) {
		const { watch, database } = place.watch;
		const query = question(this.filters, { database, limit, after: place.after });
		try {
			const said = await get(`/watches/${part(watch)}/jobs`, { query, signal: this.signal });
			place.more = said.more;
			place.after = said.next;
			place.examined += said.examined ?? 0;
			place.partly = Boolean(said.examined);
			place.byKey = Boolean(this.filters.sort) && said.sort !== this.filters.sort;
			return said.jobs;
		} catch (error) {
			if (!(error instanceof Problem)) throw error;
			place.more = false;
			this.problems.push({ watch, error });
			return [];
		}
	}

	async next(limit = PAGE) {
		const pages = await Promise.all(this.places.filter((p) => p.more).map((p) => this.#page(p, limit)));
		if (this.problems.length && this.problems.length === this.watches.length) throw this.problems[0].error;
		return pages.flat();
	}

	/* Tables that took too long to read, and were not read to the end. */
	get partly() {
		return this.places.filter((place) => place.partly);
	}

	/* For each watch: its terms, and how many match. */
	async counts() {
		return Promise.all(this.watches.map(async ({ watch, database }) => {
			const said = await get(`/watches/${part(watch)}/jobs`, { query: question(this.filters, { database, limit: 1, count: true, judged: null }), signal: this.signal });
			return { watch, database, where: allTerms(this.filters), total: said.count ?? 0, capped: Boolean(said.count_capped) };
		}));
	}

	/* How many there are; null if that is unknown. */
	async count() {
		const said = await Promise.all(this.watches.map(({ watch, database }) =>
			orNothing(get(`/watches/${part(watch)}/jobs`, { query: question(this.filters, { database, limit: 1, count: true, judged: null }), signal: this.signal }))));
		const known = said.filter((one) => one && one.count !== null && one.count !== undefined);
		return known.length ? { n: known.reduce((sum, one) => sum + one.count, 0), capped: known.some((one) => one.count_capped) } : null;
	}
}

/* ---- the form ---- */

function select(name, label, options, value, onchange) {
	const known = options.some(([v]) => v === value);
	return h("div", { class: "field" }, h("label", { for: `f-${name}` }, label),
		h("select", { id: `f-${name}`, name, onchange },
			options.map(([v, text]) => h("option", { value: v, selected: v === value }, text)),
			known || !value ? null : h("option", { value, selected: true }, value)));
}

function input(name, label, value, onchange, more = {}) {
	return h("div", { class: `field${more.wide ? " wide" : ""}` }, h("label", { for: `f-${name}` }, label),
		h("input", { id: `f-${name}`, name, value, type: more.type ?? "text", placeholder: more.placeholder, autocomplete: "off", spellcheck: "false", onchange }));
}

/* Without a database the queue is that of the first one, as in the list. */
function watchValue(filters, watches) {
	const queues = watches.filter((w) => w.watch === "queue");
	const database = filters.watch === "queue" && queues.length > 1 ? filters.database || queues[0].database : "";
	return filters.watch ? JSON.stringify([filters.watch, database]) : "";
}

function watchOptions(watches) {
	const several = watches.filter((w) => w.watch === "queue").length > 1;
	return [["", "all watches"], ...watches.map((w) => [
		JSON.stringify([w.watch, w.watch === "queue" && several ? w.database : ""]),
		w.watch === "queue" && several ? `queue of ${w.database}` : w.label ?? w.watch])];
}

function filterForm(filters, watches, states, go) {
	const submit = (event) => {
		event?.preventDefault();
		const said = Object.fromEntries(new FormData(form));
		typedIn = form.contains(document.activeElement) ? document.activeElement.name : null;
		const [watch, database] = said.watch ? JSON.parse(said.watch) : ["", ""];
		go(address({ ...said, watch, database, where: filters.where, desc: filters.desc && said.sort ? filters.desc : "" }));
	};
	const form = h("form", { class: "filters", role: "search", "aria-label": "Filter jobs", onsubmit: submit },
		select("watch", "Watch", watchOptions(watches), watchValue(filters, watches), submit),
		select("state", "State", [["", "any"], ...states], filters.state, submit),
		select("verdict", "Verdict", [["", "any"], ["stuck", "stuck (any)"], ...Object.keys(VERDICTS).map((v) => [v, v]), ["running", "running"], ["held", "held"], ["excused", "excused"], ["recovered", "recovered before"]], filters.verdict, submit),
		input("kind", "Kind", filters.kind, submit),
		input("age", "Older than", filters.age, submit, { placeholder: "10m, 2h, <1h" }),
		input("any", "Search", filters.any, submit, { wide: true, type: "search", placeholder: "kind, worker, step, error, payload or key" }),
		filters.text ? input("text", "Text in payload", filters.text, submit, { type: "search" }) : null,
		select("sort", "Sorted by", SORTS, filters.sort, submit),
		h("button", { type: "submit" }, icon("search"), "Find"),
		h("a", { class: "button", href: "/jobs" }, "Clear"));
	return form;
}

/* ---- states and their numbers ---- */

const TABS = [["All", {}], ["Running", { verdict: "running" }], ["Stuck", { verdict: "stuck" }], ["Held", { verdict: "held" }]];

async function readStats(watches, signal) {
	const said = await Promise.all(watches.slice(0, 20).map(({ watch, database }) =>
		orNothing(get(`/watches/${part(watch)}/stats`, { query: { database }, signal }))));
	return said.filter(Boolean);
}

/* {n, capped, estimated} over all watches; n null: not known. */
function number(stats, of, capped = () => false, estimated = () => false) {
	const known = stats.map(of).filter((n) => n !== null && n !== undefined);
	return { n: known.length ? known.reduce((a, b) => a + b, 0) : null, capped: stats.some(capped), estimated: stats.some((one) => estimated(one) && of(one) > 100) };
}

/* Whether one of these states was counted in a sample. */
const sampled = (which) => (one) => (one.states ?? []).some((s) => s.estimated && which(s.state));

function stateTabs(stats) {
	const states = new Map();
	for (const one of stats.flatMap((s) => s.states ?? []))
		if (one.state) states.set(one.state, one.name && one.name !== one.state ? `${one.name} (${one.state})` : one.state);
	const of = (state) => (one) => (one.states ?? []).filter((s) => s.state === state).reduce((sum, s) => sum + s.n, 0);
	return [...states].filter(([state]) => !["running", "held"].includes(state.toLowerCase()))
		.map(([state, name]) => [human(name), { state }, number(stats, of(state), undefined, sampled((one) => one === state))]);
}

/* Links, so that a tab has an address; the one in force is the current page. */
function tabs(filters, stats) {
	const numbers = {
		All: number(stats, (one) => (one.states_error ? null : (one.states ?? []).reduce((sum, s) => sum + s.n, 0)), undefined, sampled(() => true)),
		Running: number(stats, (one) => one.running, (one) => one.running_capped),
		Stuck: number(stats, (one) => (one.stuck_total === null || one.stuck_total === undefined ? null : Math.max(0, one.stuck_total - (one.held_running ?? 0))), (one) => one.stuck_total_capped),
		Held: number(stats, (one) => Math.max(one.held ?? 0, (one.states ?? []).filter((s) => s.state === "held").reduce((sum, s) => sum + s.n, 0)), undefined, sampled((state) => state === "held")),
	};
	const all = [...TABS.map(([name, terms]) => [name, terms, numbers[name]]), ...stateTabs(stats)];
	return all.map(([name, terms, { n, capped, estimated }]) => {
		const here = (terms.state ?? "") === filters.state && (terms.verdict ?? "") === filters.verdict;
		return h("a", { class: "tab", href: address({ ...filters, state: "", verdict: "", ...terms }), "aria-current": here ? "page" : null },
			user(name), n === null ? null : h("span", { class: `badge ${["Stuck", "failed"].includes(name) && n ? "" : name === "Held" && n ? "held" : "idle"}` }, count(n, capped, estimated)));
	});
}

/* The existing states, from the watch's own numbers; the form does not wait for them. */
function offerStates(form, stats, filters) {
	const box = form.elements.state;
	const had = new Set([...box.options].map((option) => option.value));
	for (const one of stats.flatMap((s) => s.states ?? []).sort((a, b) => String(a.state).localeCompare(String(b.state))))
		if (one.state && !had.has(one.state) && one.state !== filters.state) {
			had.add(one.state);
			box.append(h("option", { value: one.state }, one.name && one.name !== one.state ? `${one.name} (${one.state})` : one.state));
		}
}

function termChips(filters, go) {
	return filters.where.map((term, i) => h("span", { class: "chip" }, user(term),
		h("button", { type: "button", class: "quiet small", "aria-label": `Without the term ${term}`, onclick: () => go(address({ ...filters, where: filters.where.filter((_, k) => k !== i) })) }, icon("cross"))));
}

/* ---- the table ---- */

const COLUMNS = [
	{ name: "job", title: "Job", cell: (job) => jobLink(job) },
	{ name: "state", title: "State", cell: standChips },
	{ name: "kind", title: "Kind", cell: (job) => user(job.kind) },
	{ name: "age", title: "Age", num: true, cell: (job) => h("span", duration(job.age_s)) },
	{ name: "sign", title: "Sign of life", cell: (job) => measure(job.measured_s, job.limit_s) ?? h("span", { class: "muted" }, "–") },
	{ name: "attempts", title: "Attempts", cell: attemptsText },
	{ name: "why", title: "Why", cell: whyText },
	{ name: "owner", title: "Worker", cell: (job) => workerText(job) },
	{ name: "shown", title: "Shown", cell: shownText },
];

let namesNow = new Map(); /* of workers, by database and id */

/* The built-in queue knows its workers by number; people know them by name. */
function workerText(job) {
	const name = namesNow.get(`${job.database}/${job.owner}`);
	return name && job.watch === "queue" ? h("a", { href: "/workers", title: `Worker ${job.owner}` }, user(name)) : user(job.owner);
}

/* Columns without any value are left out. */
function columnsFor(rows) {
	const has = {
		kind: (job) => job.kind !== null, owner: (job) => job.owner !== null, attempts: (job) => job.attempts !== null,
		shown: (job) => Object.keys(job.show ?? {}).some((name) => name !== "kind"), sign: (job) => job.measured_s !== null, why: (job) => job.why || job.held || job.excuse || job.retry_at, age: (job) => job.age_s !== null,
	};
	return COLUMNS.filter((c) => !has[c.name] || rows.length === 0 || rows.some(has[c.name]));
}

/* ---- the selection ---- */

function intersection(lists) {
	return lists.length ? lists[0].filter((act) => lists.every((list) => list.includes(act))) : [];
}

async function commonActs(jobs, signal) {
	const pairs = new Map(jobs.map((job) => [JSON.stringify([job.watch, job.database]), job]));
	return intersection(await Promise.all([...pairs.values()].map((job) => actsOf(job.watch, job.database, signal))));
}

class Bulk {
	constructor(view) {
		this.view = view;
		this.jobs = [];
		this.element = h("div", { class: "bulk", role: "toolbar", "aria-label": "Selected jobs", hidden: true });
	}

	async show(jobs) {
		this.jobs = jobs;
		this.element.hidden = jobs.length === 0;
		if (jobs.length === 0) return;
		const acts = await commonActs(jobs, this.view.signal);
		if (this.jobs !== jobs) return; /* another selection meanwhile */
		const buttons = actButtons(jobs, acts, { after: () => this.view.acted() });
		fill(this.element, h("strong", `${plural(jobs.length, "job")} selected`), buttons,
			buttons.length ? null : h("span", { class: "muted" }, "No action applies to all of them."),
			this.#all(jobs),
			h("button", { type: "button", class: "quiet", onclick: () => this.view.clear() }, "Clear selection"));
	}

	#all(jobs) {
		if (!this.view.listing.more || jobs.length < this.view.table.shown().length) return null;
		return h("button", { type: "button", class: "quiet", onclick: () => errand(() => this.showAll(), this.view.signal) }, "Select all that match");
	}

	/* Not these rows but whatever matches: the daemon does it, in the background. */
	async showAll() {
		const { listing, signal } = this.view;
		const lists = (await listing.counts()).filter((list) => list.total > 0);
		const acts = intersection(await Promise.all(lists.map(({ watch, database }) => actsOf(watch, database, signal)))).filter((act) => !ACTS[act].single);
		const total = `${count(lists.reduce((sum, list) => sum + list.total, 0), lists.some((list) => list.capped))} jobs`;
		this.jobs = [];
		this.element.hidden = false;
		announce(`All ${total} that match are selected`);
		fill(this.element, h("strong", `All ${total} that match`),
			acts.map((act) => h("button", { type: "button", class: ACTS[act].danger ? "danger" : null, "data-all": act, title: ACTS[act].about, onclick: () => errand(() => this.#orderAll(act, lists), signal) },
				icon(ACTS[act].icon), `${ACTS[act].title} all`)),
			acts.length ? null : h("span", { class: "muted" }, "No action applies to all of them."),
			h("button", { type: "button", class: "quiet", onclick: () => this.view.clear() }, "Clear selection"));
		this.element.querySelector("button")?.focus();
	}

	async #orderAll(act, lists) {
		if (await confirmAll(act, lists)) this.view.acted();
	}
}

/* ---- the view ---- */

class JobsView {
	constructor(root, { filters, watches, go, signal }) {
		Object.assign(this, { root, filters, go, signal });
		const chosen = watches.filter((w) => !filters.watch || (w.watch === filters.watch && (!filters.database || w.database === filters.database)));
		if (chosen.length === 0) throw new Problem(404, { detail: `there is no watch ${filters.watch}`, next: "choose one from the list" });
		this.watches = filters.watch ? chosen.slice(0, 1) : chosen.filter((w) => w.enabled);
		this.listing = new Listing(this.watches, filters, signal);
		this.bulk = new Bulk(this);
		this.counted = h("span", { "aria-live": "polite" }, "counting…");
		this.notes = h("div", { class: "row" });
		this.form = filterForm(filters, watches, [], go);
		this.tabs = h("nav", { class: "tabs", "aria-label": "States" }, tabs(filters, []));
		this.place = h("div", { "aria-busy": "true" }, h("p", { class: "sr-only" }, "Loading"), [1, 2, 3, 4, 5].map(() => h("div", { class: "bone line" })));
		fill(root, h("div", { class: "page-head" }, h("h1", "Jobs"), h("p", { class: "lead" }, this.#where())),
			h("div", { class: "card" }, this.tabs, this.form,
				h("div", { class: "list-line" }, h("span", { class: "row" }, this.counted, termChips(filters, go)), this.notes, this.#direction()),
				this.place, this.bulk.element));
		if (typedIn) this.form.elements[typedIn]?.focus();
		typedIn = null;
	}

	#where() {
		return this.filters.watch ? ["of ", user(this.watches[0].label ?? this.filters.watch)] : `of ${plural(this.watches.length, "watch", "watches")}`;
	}

	#direction() {
		if (!this.filters.sort) return null;
		const desc = this.filters.desc === "true";
		return h("button", { type: "button", class: "quiet small", onclick: () => this.go(address({ ...this.filters, desc: desc ? "" : "true" })) },
			desc ? "Descending" : "Ascending");
	}

	async start() {
		this.#count();
		this.#numbers();
		await this.#names();
		const rows = await this.listing.next();
		this.table = table({
			label: "Jobs", columns: columnsFor(rows), key: (job) => `${job.database}/${job.job}`, title: (job) => job.job, select: may("operator"),
			onselect: (jobs) => errand(() => this.bulk.show(jobs), this.signal),
			more: () => errand(() => this.#more(), this.signal), empty: this.#emptyWords(),
		});
		this.table.set(rows);
		this.table.hasMore(this.listing.more);
		this.#tellProblems();
		this.place.removeAttribute("aria-busy");
		fill(this.place, this.table.element);
	}

	/* What to do, not only that there is nothing. */
	#emptyWords() {
		const filtered = allTerms(this.filters).length > 0;
		if (filtered) return ["No job matches. ", h("a", { href: address({ ...readFilters(new URLSearchParams()), watch: this.filters.watch, database: this.filters.database }) }, "Remove all filters"), ", or choose another watch."];
		return this.watches.some((w) => w.watch === "queue") ? ["There are no jobs yet. Add one with ", h("code", "defib enqueue QUEUE KIND '{…}'"), "."] : "The table has no rows yet. They appear here as soon as your program adds some.";
	}

	#numbers() {
		return errand(async () => {
			const stats = await readStats(this.watches, this.signal);
			renew(this.tabs, tabs(this.filters, stats));
			offerStates(this.form, stats, this.filters);
		}, this.signal, QUIETLY);
	}

	async #names() {
		const all = this.watches.filter((w) => w.watch === "queue").map((w) => w.database);
		namesNow = await workerNames(all, this.signal);
	}

	#tellProblems() {
		fill(this.notes, this.listing.problems.map(({ watch, error }) => h("span", { class: "warn-text" }, user(watch), ": ", user(error.detail))),
			this.listing.partly.map((place) => this.#examinedNote(place)),
			this.listing.places.filter((place) => place.byKey).map(({ watch }) => this.#byKeyNote(watch)));
	}

	#byKeyNote(watch) {
		return h("span", { class: "warn-text" }, user(watch.label ?? watch.watch), `: sorted by key, because sorting by ${this.filters.sort} takes too long.`);
	}

	#examinedNote({ watch, examined, more }) {
		return h("span", { class: "warn-text" }, user(watch.label ?? watch.watch), `: the table is large; ${count(examined)} of its jobs were searched so far`,
			more ? ". “Load more” continues." : ".");
	}

	#count() {
		return errand(() => this.#sayCount(), this.signal, QUIETLY);
	}

	async #sayCount() {
		const counted = await this.listing.count();
		if (counted) this.counted.textContent = counted.n === 1 && !counted.capped ? "1 job" : `${count(counted.n, counted.capped)} jobs`;
		else this.counted.textContent = "";
	}

	async #more() {
		this.table.append(await this.listing.next());
		this.table.hasMore(this.listing.more);
		this.#tellProblems();
	}

	/* The first page again, unless more was requested; else only what is shown changes. */
	async refresh() {
		if (!this.table) return;
		const shown = this.table.shown().length;
		const fresh = new Listing(this.watches, this.filters, this.signal);
		const rows = await fresh.next(Math.min(PAGE_MOST, Math.max(PAGE, shown)));
		if (rows.length < shown && fresh.more) return; /* more than one page is shown: they stay */
		if (fresh.problems.some(({ error }) => error.passing)) return;
		this.listing = fresh;
		this.table.refresh(rows);
		this.table.hasMore(fresh.more);
		this.#tellProblems();
		this.#count();
		this.#numbers();
		await this.#names();
	}

	clear() {
		this.table.clearSelection();
		errand(() => this.bulk.show([]), this.signal);
	}

	acted() {
		this.clear();
		errand(() => this.refresh(), this.signal, QUIETLY);
	}
}

export async function show(root, { query, go, signal }) {
	const filters = readFilters(query);
	const [{ watches }] = await Promise.all([get("/watches", { signal }), knownRole(signal)]);
	const view = new JobsView(root, { filters, watches, go, signal });
	refreshSoon = soon(700, () => view.refresh(), signal);
	await view.start();
	every(TAIL_S, () => view.refresh(), signal);
}

export function update(event) {
	if (event.type === "ledger" || event.type === "gap") refreshSoon?.();
}
