// SPDX-License-Identifier: Apache-2.0
/*
 * background.js: acts on all jobs that match, which the daemon carries out. They are shown below
 * the navigation on every view while they run and for a while after: how far, at whose order, with
 * buttons to stop and to undo.
 */
import { ACTS, undoBatches } from "./acts.js";
import { databases, get, may, part, post, Problem } from "./api.js";
import { announce, fill, h, user } from "./dom.js";
import { errand, orNothing } from "./errand.js";
import { icon } from "./icon.js";
import { every } from "./live.js";
import { toast } from "./toast.js";
import { ago, count, plural } from "./words.js";

const LOOK_S = 10;
const FOLLOW_MS = 1000;
const SHOWN_MS = 10 * 60 * 1000; /* after it has ended */

const KEPT = "defib.acts.hidden";
const KEEP = 50; /* ids */

/* Ended ones that the user closed or undid, in any tab. */
const hidden = {
	has: (id) => (localStorage.getItem(KEPT) ?? "").split(" ").includes(id),
	add: (id) => localStorage.setItem(KEPT, [id, ...(localStorage.getItem(KEPT) ?? "").split(" ")].slice(0, KEEP).join(" ")),
};
const told = new Map(); /* the state that was announced, by id */
let timer = null;

/* Order an act; `where`: terms as of `defib list`, none: all. */
export async function order(act, { watch, database }, where, { reason = null, override = false } = {}) {
	const body = { act, background: true, ...(where.length ? { where } : { all: true }) };
	if (reason) body.reason = reason;
	if (override) body.override_guard = true;
	const made = await post(`/watches/${part(watch)}/acts`, body, { query: { database } });
	look();
	return made;
}

function othersWords(others) {
	return Object.entries(others).map(([name, n]) => `, ${count(n)} ${name}`).join("");
}

function progressOf(act) {
	const done = ACTS[act.act]?.done ?? act.act;
	const of = act.total === null ? "" : ` of ${count(act.total)}`;
	return `${count(act.done)}${of} ${done}${othersWords(act.others)}`;
}

const STATES = {
	waiting: "waits for the daemon",
	running: "runs in the background",
	done: "is done",
	cancelled: "was stopped",
	failed: "failed",
};

async function cancel(act) {
	await post(`/acts/${part(act.id)}/cancel`, {}, { query: { database: act.database } });
	look();
}

async function undo(act) {
	const tally = await undoBatches([{ database: act.database, batch: act.id }], { reason: "undone on the page" });
	const back = tally.of("done").length;
	const rest = tally.results.size - back;
	toast(`${plural(back, "job")} reverted${rest ? `; ${count(rest)} had changed since` : ""}`, { shade: rest ? "warn" : "good" });
	hidden.add(act.id);
	look();
}

function line(act) {
	const open = !act.ended_at;
	const title = `${ACTS[act.act]?.title ?? act.act} all that match`;
	const shade = act.state === "failed" ? "bad" : open ? "busy" : act.state === "cancelled" ? "warn" : "good";
	const button = (name, run) => h("button", { type: "button", class: "small", onclick: () => errand(run) }, name);
	return h("div", { class: `banner ${shade} background-act`, "data-act-id": act.id, "data-state": act.state },
		icon(open ? "redo" : act.state === "done" ? "check" : "alert"),
		h("div", { class: "banner-text" },
			h("p", h("strong", title), " of ", user(act.watch), ` ${STATES[act.state] ?? act.state}: `, progressOf(act),
				act.error ? [". ", user(act.error)] : null, ". ",
				h("span", { class: "muted" }, "Ordered by ", user(act.actor), " ", ago(act.at), ".")),
			act.refusal ? h("p", { class: "muted" }, "First refusal: ", user(act.refusal), ".") : null,
			open && act.total ? h("progress", { max: act.total, value: act.handled, "aria-label": `Jobs handled of ${title}` }) : null),
		may("operator") && open ? button("Stop it", () => cancel(act)) : null,
		may("operator") && act.batch ? button(`Undo all ${count(act.done)}`, () => undo(act)) : null,
		open ? null : h("button", { type: "button", class: "quiet icon-only", "aria-label": `Hide: ${title}`, onclick: () => { hidden.add(act.id); look(); } }, icon("cross")));
}

function say(act) {
	if (told.has(act.id) && told.get(act.id) !== act.state && act.ended_at) announce(`${ACTS[act.act]?.title ?? act.act} ${STATES[act.state]}: ${progressOf(act)}`);
	told.set(act.id, act.state);
}

function show(acts) {
	const recent = acts.filter((act) => !hidden.has(act.id) && act.total !== 0 && (!act.ended_at || Date.now() - new Date(act.ended_at) < SHOWN_MS));
	const place = document.getElementById("background");
	recent.forEach(say);
	place.hidden = recent.length === 0;
	/* A button under the pointer or with the focus stays the same one. */
	const now = new Map([...place.children].map((element) => [element.dataset.actId, element]));
	const wanted = recent.map((act) => {
		const next = line(act);
		const had = now.get(act.id);
		if (!had || had.dataset.state !== act.state) return next;
		had.querySelector(".banner-text").replaceWith(next.querySelector(".banner-text"));
		return had;
	});
	if (wanted.length !== place.children.length || wanted.some((e, i) => e !== place.children[i])) fill(place, wanted);
	return recent.some((act) => !act.ended_at);
}

async function look() {
	clearTimeout(timer);
	try {
		const lists = await Promise.all((await databases()).map((database) => orNothing(get("/acts", { query: { database, limit: 5 } }))));
		if (show(lists.flatMap((one) => one?.acts ?? []))) timer = setTimeout(look, FOLLOW_MS);
	} catch (error) {
		if (!(error instanceof Problem)) throw error;
	}
}

export function startBackground() {
	every(LOOK_S, look, new AbortController().signal);
	look();
}
