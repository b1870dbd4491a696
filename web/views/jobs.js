// SPDX-License-Identifier: Apache-2.0
/*
 * jobs.js: the jobs of a watch, or of all: filtered, sorted, one page at a time by the server's
 * cursor. The filters are in the address. The server limits counts and marks them ("1,000+").
 * Selected jobs can be acted on together.
 */
import { actsOf } from "../lib/acts.js";
import { get, knownRole, may, part, Problem, queryText } from "../lib/api.js";
import { attemptsText, jobLink, measure, shownText, standChips } from "../lib/cells.js";
import { actButtons } from "../lib/dialog.js";
import { announce, fill, h, user } from "../lib/dom.js";
import { errand, orNothing, QUIETLY } from "../lib/errand.js";
import { icon } from "../lib/icon.js";
import { every, soon } from "../lib/live.js";
import { table } from "../lib/table.js";
import { count, duration, plural } from "../lib/words.js";

export const title = "Jobs";

const PAGE = 50;
const PAGE_ALL = 500;   /* while all that match are collected */
const SELECT_MOST = 5000;
const TAIL_S = 10;

const NAMES = ["watch", "database", "state", "verdict", "kind", "age", "text", "where", "sort", "desc"];
const VERDICTS = ["dead", "silent", "overdue", "orphan"];
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

function question(filters, more = {}) {
	const where = [...filters.where];
	if (VERDICTS.includes(filters.verdict)) where.push(`verdict=${filters.verdict}`);
	else if (filters.verdict) where.push(filters.verdict); /* stuck, running, held, recovered */
	if (filters.kind) where.push(`kind=${filters.kind}`);
	if (filters.age) where.push(ageTerm(filters.age));
	if (!filters.sort && !where.some((term) => OLDEST_FIRST.test(term))) more = { sort: "key", desc: true, ...more };
	return { where, state: filters.state, text: filters.text, sort: filters.sort, desc: filters.desc, judged: true, ...more };
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
		this.places = this.watches.map((watch) => ({ watch, after: null, more: true, examined: 0, partly: false }));
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

function watchValue(filters) {
	return filters.watch ? JSON.stringify([filters.watch, filters.watch === "queue" ? filters.database : ""]) : "";
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
		select("watch", "Watch", watchOptions(watches), watchValue(filters), submit),
		select("state", "State", [["", "any"], ...states], filters.state, submit),
		select("verdict", "Verdict", [["", "any"], ["stuck", "stuck (any)"], ...VERDICTS.map((v) => [v, v]), ["running", "running"], ["held", "held"], ["recovered", "recovered before"]], filters.verdict, submit),
		input("kind", "Kind", filters.kind, submit),
		input("age", "Older than", filters.age, submit, { placeholder: "10m, 2h, <1h" }),
		input("text", "Text in payload", filters.text, submit, { wide: true, type: "search" }),
		select("sort", "Sorted by", SORTS, filters.sort, submit),
		h("button", { type: "submit" }, icon("search"), "Find"),
		h("a", { class: "button", href: "/jobs" }, "Clear"));
	return form;
}

/* The existing states, from the watch's own numbers; the form does not wait for them. */
async function offerStates(form, watches, filters, signal) {
	const box = form.elements.state;
	const said = await Promise.all(watches.slice(0, 20).map(({ watch, database }) =>
		orNothing(get(`/watches/${part(watch)}/stats`, { query: { database }, signal }))));
	const states = new Map();
	for (const one of said.flatMap((s) => s?.states ?? [])) if (one.state) states.set(one.state, one.name && one.name !== one.state ? `${one.name} (${one.state})` : one.state);
	states.delete(filters.state);
	for (const [value, text] of [...states].sort()) box.append(h("option", { value }, text));
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
	{ name: "owner", title: "Worker", cell: (job) => user(job.owner) },
	{ name: "shown", title: "Shown", cell: shownText },
];

/* Columns without any value are left out. */
function columnsFor(rows) {
	const has = {
		kind: (job) => job.kind !== null, owner: (job) => job.owner !== null, attempts: (job) => job.attempts !== null,
		shown: (job) => Object.keys(job.show ?? {}).some((name) => name !== "kind"), sign: (job) => job.measured_s !== null, age: (job) => job.age_s !== null,
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
		return h("button", { type: "button", class: "quiet", onclick: (event) => this.#collectAll(event.currentTarget) }, "Select all that match");
	}

	#collectAll(button) {
		button.disabled = true;
		return errand(() => this.#collect(button), this.view.signal).finally(() => { button.disabled = false; });
	}

	/* Pages of keys up to a limit: an act on more shows only the number. */
	async #collect(button) {
		const all = new Listing(this.view.listing.watches, this.view.listing.filters, this.view.signal);
		const jobs = [];
		while (all.more && jobs.length < SELECT_MOST) {
			jobs.push(...await all.next(PAGE_ALL));
			button.textContent = `${count(jobs.length)}…`;
		}
		const taken = jobs.slice(0, SELECT_MOST);
		announce(`${plural(taken.length, "job")} selected`);
		await this.show(taken);
		if (all.more || jobs.length > taken.length) this.element.append(h("span", { class: "muted" }, `the first ${count(taken.length)} that match`));
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
		this.place = h("div", h("p", { class: "loading" }, "Loading…"));
		fill(root, h("div", { class: "page-head" }, h("h1", "Jobs"), h("p", { class: "lead" }, this.#where())),
			h("div", { class: "card" }, this.form,
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
		errand(() => offerStates(this.form, this.watches, this.filters, this.signal), this.signal, QUIETLY);
		const rows = await this.listing.next();
		this.table = table({
			label: "Jobs", columns: columnsFor(rows), key: (job) => `${job.database}/${job.job}`, title: (job) => job.job, select: may("operator"),
			onselect: (jobs) => errand(() => this.bulk.show(jobs), this.signal),
			more: () => errand(() => this.#more(), this.signal), empty: "No job matches. Remove a filter, or choose another watch.",
		});
		this.table.set(rows);
		this.table.hasMore(this.listing.more);
		this.#tellProblems();
		fill(this.place, this.table.element);
	}

	#tellProblems() {
		fill(this.notes, this.listing.problems.map(({ watch, error }) => h("span", { class: "warn-text" }, user(watch), ": ", user(error.detail))),
			this.listing.partly.map((place) => this.#examinedNote(place)));
	}

	#examinedNote({ watch, examined, more }) {
		return h("span", { class: "warn-text" }, user(watch.label ?? watch.watch), `: the table is large; ${count(examined)} of its jobs were searched`,
			more ? ". “Load more” continues." : ", at one end by their keys.");
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
		const rows = await fresh.next(Math.min(PAGE_ALL, Math.max(PAGE, shown)));
		if (rows.length < shown && fresh.more) return; /* more than one page is shown: they stay */
		if (fresh.problems.some(({ error }) => error.passing)) return;
		this.listing = fresh;
		this.table.refresh(rows);
		this.table.hasMore(fresh.more);
		this.#tellProblems();
		this.#count();
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
