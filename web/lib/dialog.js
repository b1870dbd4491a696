// SPDX-License-Identifier: Apache-2.0
/*
 * dialog.js: the dialog for acts on jobs. It first shows what would happen ("5 apply, 2 changed
 * meanwhile, 1 refused: why") and warnings; then it asks for a reason and acts, with a progress
 * bar that can be stopped; afterwards the act can be undone.
 *
 *   toolbar.append(...actButtons([job], await actsOf(watch, database)));
 *   const tally = await confirm("requeue", jobs);        null: it was left
 *   await confirmUndo({ database, batch });
 *
 * The <dialog> keeps the focus inside; Esc closes it, and the focus returns to where it was.
 */
import { ACTS, commandAll, commandOf, dryRunAll, fitting, reread, run, Tally, undoBatches, workerMayLive } from "./acts.js";
import { may, Problem } from "./api.js";
import { order } from "./background.js";
import { copyButton } from "./copy.js";
import { announce, fill, h, user } from "./dom.js";
import { errand } from "./errand.js";
import { icon } from "./icon.js";
import { poke } from "./live.js";
import { toast } from "./toast.js";
import { chip, count, plural } from "./words.js";

const NAMED_MOST = 50; /* jobs that a list names */
const COMMAND_MOST = 20;

/* ---- outcomes as text ---- */

const TOLD = {
	done: { before: (n) => `${count(n)} ${n === 1 ? "applies" : "apply"}`, after: (n) => `${count(n)} done`, look: "done" },
	changed: { before: (n) => `${count(n)} changed in the meantime`, look: "changed" },
	refused: { before: (n) => `${count(n)} refused`, look: "refused" },
	guarded: { before: (n) => `${count(n)} held back by a guard`, look: "guarded" },
	locked: { before: (n) => `${count(n)} locked by another transaction`, look: "locked" },
	missing: { before: (n) => `${count(n)} no longer there`, look: "missing" },
	left: { before: (n) => `${count(n)} left as ${n === 1 ? "it is" : "they are"}`, look: "left" },
};

/* `one`: there is only one job, which the title names. */
function toldGroup(group, done, one) {
	const told = TOLD[group.outcome] ?? { before: (n) => `${count(n)} ${group.outcome}`, look: group.outcome };
	const words = (done && told.after ? told.after : told.before)(group.jobs.length);
	const named = group.jobs.slice(0, NAMED_MOST);
	const more = group.jobs.length - named.length;
	return h("li", chip(told.look, { label: words }), group.why ? [" ", user(group.why)] : null,
		one ? null : h("details", h("summary", plural(group.jobs.length, "job")),
			h("ul", { class: "plain named" }, named.map((job) => h("li", user(job, { class: "mono" }))),
				more > 0 ? h("li", { class: "muted" }, `and ${count(more)} more`) : null)));
}

function tallyWords(tally) {
	return tally.groups().map((g) => (TOLD[g.outcome]?.before ?? ((n) => `${n} ${g.outcome}`))(g.jobs.length) + (g.why ? `: ${g.why}` : "")).join(", ");
}

function tallyList(tally, done = false) {
	return h("ul", { class: "plain outcomes" }, tally.groups().map((group) => toldGroup(group, done, tally.results.size === 1)));
}

function problemLine(error) {
	return h("div", { class: "banner bad", role: "alert" }, icon("alert"),
		h("p", { class: "banner-text" }, user(error.detail ?? error.message), error.next ? [". ", user(error.next)] : null));
}

/* ---- one dialog ---- */

/*
 * A deed: {title, button, about, danger, warning, mayOverride, command(options)} with
 * preview(options) and carry(options), both returning a Tally. Options: reason, override,
 * progress(n), signal (for a preview: its result is no longer needed; for the act: stop).
 */
class ActDialog {
	constructor(deed) {
		this.deed = deed;
		this.before = document.activeElement;
		this.plan = null;       /* the tally of the dry run */
		this.looking = null;    /* while the dry run is in progress */
		this.outcome = null;    /* of the act itself */
		this.stop = null;       /* while it is being done */
		this.reason = h("textarea", { id: "act-reason", name: "reason", rows: 2, maxlength: 500, oninput: () => this.#sayCommand() });
		this.override = h("input", { type: "checkbox", id: "act-override", onchange: () => this.#look() });
		this.overrideRow = h("label", { class: "check", hidden: true }, this.override, "Also take jobs from live workers: override the guard (recorded in the ledger)");
		this.preview = h("div", { class: "preview", "aria-live": "polite" });
		this.command = h("code", { class: "command-text" });
		this.commandRow = h("div", { class: "command", hidden: true }, this.command, copyButton(() => this.command.textContent, "Copy as command"));
		this.closeButton = h("button", { type: "button", onclick: () => this.#leave() }, "Back");
		this.goButton = h("button", { type: "submit", class: deed.danger ? "primary danger" : "primary", disabled: true }, deed.button);
		this.element = this.#build();
	}

	#build() {
		const { title, about, warning } = this.deed;
		this.form = h("form", { onsubmit: (event) => this.#go(event) },
			h("h2", { id: "act-title" }, title),
			h("p", { id: "act-about", class: "muted" }, about),
			warning ? h("div", { class: "banner warn" }, icon("alert"), h("p", { class: "banner-text" }, warning)) : null,
			this.preview, this.overrideRow,
			h("div", { class: "field" }, h("label", { for: "act-reason" }, "Reason (recorded in the ledger)"), this.reason),
			this.commandRow,
			h("div", { class: "dialog-foot" }, this.closeButton, this.goButton));
		const element = h("dialog", { class: "act", "aria-labelledby": "act-title", "aria-describedby": "act-about", oncancel: (event) => this.#escape(event) }, this.form);
		element.addEventListener("close", () => this.#closed());
		return element;
	}

	/* Resolves when it is closed: with the tally of what was done, or null. */
	open() {
		document.body.append(this.element);
		this.element.showModal();
		this.reason.focus();
		this.#sayCommand();
		this.#look();
		return new Promise((resolve) => { this.resolve = resolve; });
	}

	#options() {
		return { reason: this.reason.value.trim() || null, override: this.override.checked };
	}

	#sayCommand() {
		const said = this.deed.command?.(this.#options());
		this.commandRow.hidden = !said;
		this.command.textContent = said ?? "";
	}

	/*
	 * What would happen. After another request, or when the dialog is left, the earlier answer is
	 * dropped.
	 */
	#look() {
		this.looking?.abort();
		this.looking = new AbortController();
		const { signal } = this.looking;
		this.goButton.disabled = true;
		this.#sayCommand();
		fill(this.preview, h("p", { class: "muted" }, "Running a dry run…"));
		const read = async () => {
			const plan = await this.deed.preview({ ...this.#options(), signal });
			if (!signal.aborted) this.#planned(plan);
		};
		errand(read, signal, (problem) =>
			fill(this.preview, problemLine(problem), h("button", { type: "button", onclick: () => this.#look() }, "Check again")));
	}

	#planned(plan) {
		this.plan = plan;
		const applies = this.plan.of("done").length;
		fill(this.preview, tallyList(this.plan));
		this.overrideRow.hidden = !this.deed.mayOverride || !(this.override.checked || [...this.plan.results.values()].some((r) => r.outcome === "refused" && r.why?.startsWith("it is being worked on")));
		this.goButton.disabled = applies === 0;
		if (this.deed.all && this.plan.limited) this.preview.append(h("p", { class: "muted" }, `These are the first ${count(this.plan.results.size)}. Each job is checked again when its turn comes.`));
		this.goButton.textContent = this.deed.all ? this.deed.button : applies === this.plan.results.size ? this.deed.button : `${this.deed.verb} ${plural(applies, "job")}`;
	}

	async #go(event) {
		event.preventDefault();
		if (this.goButton.disabled || this.stop) return;
		const jobs = this.plan.of("done");
		const bar = h("progress", { max: jobs.length, value: 0, "aria-label": "Jobs done" });
		const said = h("span", { class: "num" }, `0 of ${count(jobs.length)}`);
		const progress = (n) => {
			bar.value = n;
			said.textContent = `${count(n)} of ${count(jobs.length)}`;
		};
		this.stop = new AbortController();
		this.goButton.disabled = this.reason.disabled = this.override.disabled = true;
		this.closeButton.textContent = "Stop";
		fill(this.preview, h("div", { class: "row progress" }, bar, said));
		this.outcome = new Tally();
		try {
			await this.deed.carry({ ...this.#options(), jobs, progress, signal: this.stop.signal, tally: this.outcome });
			if (this.deed.all) this.stop = null;
			if (this.deed.all) this.element.close();
			else this.#done();
		} catch (error) {
			if (!(error instanceof Problem)) throw error;
			this.#done(error);
		}
	}

	/* If all went well, a line at the foot says so. Otherwise the result is shown here. */
	#done(error = null) {
		const done = this.outcome.of("done").length;
		const rest = this.outcome.results.size - done;
		this.stop = null;
		if (done > 0) this.#offerUndo(done);
		poke();
		if (!error && rest === 0 && !this.outcome.stopped) {
			this.element.close();
			return;
		}
		this.closeButton.disabled = false; /* it finished while it was being stopped */
		this.closeButton.textContent = "Close";
		this.goButton.hidden = true;
		fill(this.preview, tallyList(this.outcome, true),
			this.outcome.stopped ? h("p", `Stopped after ${plural(this.outcome.results.size, "job")}; the others are unchanged.`) : null,
			error ? problemLine(error) : null);
		announce(tallyWords(this.outcome));
		this.closeButton.focus();
	}

	#offerUndo(done) {
		const { batches } = this.outcome;
		const act = this.deed.undoable && batches.length ? { title: "Undo", run: () => takeBack(batches) } : null;
		toast(`${plural(done, "job")} ${this.deed.done}`, { act });
	}

	#leave() {
		if (this.stop) {
			this.stop.abort();
			this.closeButton.disabled = true;
			this.closeButton.textContent = "Stopping…";
			return;
		}
		this.element.close();
	}

	/* While it is being done, Esc stops it, and the outcome is still shown. */
	#escape(event) {
		if (!this.stop) return;
		event.preventDefault();
		this.#leave();
	}

	#closed() {
		this.looking?.abort();
		this.element.remove();
		if (this.before?.isConnected && this.before !== document.body) this.before.focus({ preventScroll: true });
		else document.getElementById("main")?.focus({ preventScroll: true });
		this.resolve(this.outcome);
	}
}

/* Undo from the line at the foot: at once, and reported there. */
async function takeBack(batches) {
	try {
		const tally = await undoBatches(batches, { reason: "undone on the page" });
		const back = tally.of("done").length;
		const rest = tally.results.size - back;
		if (rest === 0) toast(`${plural(back, "job")} reverted`);
		else toast(user(tallyWords(tally)), { shade: "warn" });
	} catch (error) {
		if (!(error instanceof Problem)) throw error;
		toast([user(error.detail), error.next ? [". ", user(error.next)] : null], { shade: "bad", act: { title: "Try again", run: () => takeBack(batches) } });
	}
	poke();
}

/* ---- acts ---- */

function poisonWarning(jobs) {
	const poison = jobs.filter((job) => job.held === "poison");
	if (poison.length === 0) return null;
	return [h("strong", jobs.length === 1 ? "It may kill its next worker." : `${count(poison.length)} of them may kill their next worker.`),
		jobs.length === 1 && poison[0].hold_reason ? [" ", user(poison[0].hold_reason), "."] : " They were recovered too often within a short time."];
}

function warningOf(act, jobs) {
	const poison = ["release", "requeue", "retry"].includes(act) ? poisonWarning(jobs) : null;
	if (act === "release" || poison) return poison;
	const alive = ACTS[act].takes ? jobs.filter(workerMayLive) : [];
	if (alive.length === 0) return null;
	const owners = [...new Set(alive.map((job) => job.owner).filter(Boolean))];
	if (owners.length > 1)
		return [h("strong", `The old workers (${count(owners.length)}) may still be running.`),
			" Their end was not seen. Work may be done twice: make sure that they are gone, or that repeating the work is harmless."];
	return [h("strong", "The old worker", owners.length ? [", ", user(owners[0], { class: "mono" }), ","] : null, " may still be running."),
		" Its end was not seen. Work may be done twice: make sure that it is gone, or that repeating the work is harmless."];
}

function titleOf(act, jobs) {
	return jobs.length === 1 ? h("span", `${ACTS[act].title} `, user(jobs[0].job, { class: "mono" })) :
		`${ACTS[act].title} ${plural(jobs.length, "job")}`;
}

/*
 * Asks, does it, and resolves with the tally, or null if it was left. `jobs` are those of the API:
 * {job, watch, database, key, running, verdict, owner, …}. `fromStep`: where a retry of a workflow
 * begins.
 */
export function confirm(act, jobs, { fromStep = null } = {}) {
	const kind = ACTS[act];
	let same = jobs; /* those that are as the page showed them */
	const preview = async ({ reason, override, signal }) => {
		const tally = new Tally();
		same = await reread(jobs, tally, signal);
		return run(act, same, { reason, override, fromStep, signal, dryRun: true, tally });
	};
	const carry = (options) => {
		const wanted = new Set(options.jobs);
		return run(act, same.filter((job) => wanted.has(job.job)), { ...options, fromStep });
	};
	return new ActDialog({
		title: titleOf(act, jobs), verb: kind.title, done: kind.done, about: jobs.length === 1 ? kind.about : kind.about.replace(/^It /, "Each "), danger: kind.danger,
		button: jobs.length === 1 ? kind.title : `${kind.title} ${plural(jobs.length, "job")}`,
		warning: warningOf(act, jobs), mayOverride: may("admin") && kind.takes,
		command: jobs.length <= COMMAND_MOST ? (options) => commandOf(act, jobs, { ...options, fromStep }) : null,
		undoable: act !== "undo" && act !== "end", preview, carry,
	}).open();
}

/* "412 apply, 88 refused" of the jobs that were looked at. */
const LOOKED_AT = 500;

/*
 * One act on all jobs that match, in the background. `lists`: [{watch, database, where, total,
 * capped}], one per watch. Resolves when the dialog is closed, with the orders, or null.
 */
export async function confirmAll(act, lists) {
	const kind = ACTS[act];
	const total = lists.reduce((sum, list) => sum + list.total, 0);
	const shown = `${count(total, lists.some((list) => list.capped))} jobs`;
	let orders = null;
	await new ActDialog({
		title: `${kind.title} all ${shown} that match`, verb: kind.title, done: kind.done, danger: kind.danger, all: true,
		about: `${kind.about.replace(/^The job is/, "Each job is").replace(/^The job/, "Each job")} The daemon does this in the background, at the pace at which it recovers jobs. You can stop it, and undo all of it at once.`,
		button: `${kind.title} all ${shown}`, mayOverride: may("admin") && kind.takes, undoable: false,
		command: ({ reason, override }) => lists.map((list) => commandAll(act, list, { reason, override })).join("\n"),
		preview: async ({ override }) => {
			const tally = new Tally();
			for (const list of lists) await dryRunAll(act, list, override, LOOKED_AT, tally);
			return tally;
		},
		carry: async ({ reason, override }) => {
			orders = [];
			for (const list of lists) orders.push(await order(act, list, list.where, { reason, override }));
		},
	}).open();
	return orders;
}

/* Undo a whole batch. */
export function confirmUndo({ database, batch }) {
	return new ActDialog({
		title: h("span", "Undo batch ", user(batch, { class: "mono" })), verb: "Undo", done: "reverted", button: "Undo",
		about: "Each job is reverted to its previous state, unless something happened to it since. Reverted jobs are held, so that no scan repeats the change.",
		command: ({ reason }) => commandOf("undo", [{ job: batch }], { reason }),
		preview: () => undoBatches([{ database, batch }], { dryRun: true }),
		carry: async ({ reason, tally, progress }) => {
			const done = await undoBatches([{ database, batch }], { reason });
			for (const [job, { outcome, why }] of done.results) tally.add(job, outcome, why);
			progress(tally.results.size);
		},
	}).open();
}

/*
 * Buttons for what can be done to these jobs; none for viewers. `acts` are those that the watch
 * supports (actsOf); `after(tally)` is called when something was done.
 */
export function actButtons(jobs, acts, { after = null, small = false } = {}) {
	if (!may("operator")) return [];
	return acts.filter((act) => jobs.some((job) => fitting(act, job))).map((act) => h("button", {
		type: "button", class: small ? "small" : ACTS[act].danger ? "danger" : null, "data-act": act, title: ACTS[act].about,
		onclick: async () => {
			const tally = await confirm(act, jobs);
			if (tally) after?.(tally);
		},
	}, icon(ACTS[act].icon), ACTS[act].title));
}
