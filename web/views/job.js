// SPDX-License-Identifier: Apache-2.0
/*
 * job.js: one job: its problem in one sentence, its life on one timeline, its input and output, its
 * row, and what can be done. It follows the stream: parts that did not change are left alone, so
 * that nothing folds or moves under the pointer.
 */
import { actsOf, commandOf, isHeld, isUndoable } from "../lib/acts.js";
import { ask, get, jobPath, knownRole, may, part, queryText } from "../lib/api.js";
import { attemptsText, measure, standChips } from "../lib/cells.js";
import { copyButton } from "../lib/copy.js";
import { actButtons, confirm } from "../lib/dialog.js";
import { documentBox, parseExactly, size } from "../lib/document.js";
import { fill, h, user, visible } from "../lib/dom.js";
import { errand, orNothing, QUIETLY } from "../lib/errand.js";
import { icon } from "../lib/icon.js";
import { every, soon } from "../lib/live.js";
import { patch } from "../lib/patch.js";
import { drawLife, lifeOf, lifeWords } from "../lib/timeline.js";
import { attemptList, rescale, scaleRow } from "../lib/waterfall.js";
import { ago, chip, duration, EVENTS, plural, stamp, stampText, tone } from "../lib/words.js";

export const title = "Job";

const AGAIN_S = 3;
const CELL = 2000; /* characters of a column at first */

let shown = null; /* {watch, key, soon} of the current job; a composite key is a JSON list, as text */

/* ---- requests ---- */

async function read({ watch, key, database }, signal) {
	const query = queryText({ database });
	const [job, explained] = await Promise.all([
		ask(jobPath(watch, key) + query, { signal }).then((answer) => answer.text()).then(parseExactly),
		orNothing(get(`/watches/${part(watch)}/explain/${part(key)}`, { query: { database }, signal })),
	]);
	return { job, explained };
}

/* ---- parts of the view ---- */

function card(name, ...children) {
	return h("section", { class: "card", "aria-label": name }, h("div", { class: "card-head" }, h("h2", name)), children);
}

/* The sentence, without the name above it, and without options that only a command has. */
function sentenceOf(job) {
	const start = `Job ${job.job} `;
	const said = job.sentence.startsWith(start) ? `It ${job.sentence.slice(start.length)}` : job.sentence;
	return said.replace(/; (?:release|end) it with: defib release .*\.$/s, ".")
		.replace("at the next scan with --fix, by", "at the next scan that recovers, by the rule")
		.replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, (iso) => stampText(iso));
}

function shadeOf(job) {
	if (isHeld(job)) return "held";
	if (job.verdict) return tone(job.verdict);
	return job.running ? "busy" : tone(job.state_name ?? job.state);
}

/* Who put it on hold, when and by which rule: the sentence has only the reason. */
function holdLine(job) {
	const entry = isHeld(job) && (job.ledger ?? []).findLast((one) => EVENTS[one.event]?.remedy === "hold");
	if (!entry) return null;
	/* The losses that counted, and the one after which it was held; a failed run is not a loss. */
	const lost = entry.rule === "crash-budget" ? (entry.evidence?.recoveries?.length ?? 0) + 1 : 0;
	return h("p", { class: "muted" }, "Put on hold ", ago(entry.at), " by ", user(entry.actor),
		entry.rule ? [", by the rule ", user(entry.rule, { class: "mono" })] : null,
		lost ? `: ${plural(lost, "worker")} died while running it` : null, ".");
}

function verdictCard(job) {
	return h("section", { class: `card verdict ${shadeOf(job)}`, "aria-label": "Verdict" },
		h("div", { class: "row" }, standChips(job), job.verdict && job.remedy && !isHeld(job) ? [h("span", { class: "muted" }, "proposed"), chip(job.remedy)] : null),
		h("p", { class: "sentence" }, user(sentenceOf(job))), holdLine(job),
		job.verdict ? h("div", { class: "row" }, measure(job.measured_s, job.limit_s), h("span", { class: "muted" }, "rule ", user(job.verdict_rule, { class: "mono" }))) : null);
}

function factRows(job, builtin) {
	return [
		["Watch", h("a", { href: `/jobs${queryText({ watch: job.watch, database: builtin ? job.database : null })}` }, user(job.watch))],
		["Database", user(job.database)],
		["Kind", job.kind && user(job.kind)],
		["Worker", job.owner && (builtin ? h("a", { href: "/workers" }, user(job.owner)) : user(job.owner))],
		["Attempts", job.attempts !== null && attemptsText(job)],
		["Epoch", job.epoch !== null && h("span", { class: "num" }, String(job.epoch))],
		["Age", job.age_s !== null && h("span", { class: "num" }, duration(job.age_s))],
		["Created", job.created_at && stamp(job.created_at)],
		["Started", job.started_at && stamp(job.started_at)],
		["Ended", job.finished_at && stamp(job.finished_at)],
		["Held", job.hold?.holds && [stamp(job.hold.at), ", ", user(job.hold.cause), job.hold.reason ? [": ", user(job.hold.reason)] : null]],
		["Claimed", job.claim && [stamp(job.claim.since), ", session ", user(job.claim.application || "without a name"), ` (pid ${job.claim.pid})`, job.claim.program ? [", ", user(job.claim.program)] : null, job.claim.host ? [" on ", user(job.claim.host)] : null]],
		["Retry", job.retry && [stamp(job.retry.due_at), job.retry.reason ? [": ", user(job.retry.reason)] : null]],
		...Object.entries(job.show ?? {}).filter(([name]) => name !== "kind").map(([name, value]) => [user(name), user(value)]),
	];
}

function factsCard(job, builtin) {
	return card("Facts", h("div", { class: "card-body" }, h("dl", { class: "facts" },
		factRows(job, builtin).filter(([, value]) => value).map(([name, value]) => [h("dt", name), h("dd", value)]))));
}

function errorsOf(job) {
	return Object.entries(job.row ?? {}).filter(([name, value]) => value && /(^|_)error$/i.test(name));
}

function errorsCard(job) {
	const errors = errorsOf(job);
	if (errors.length === 0) return null;
	return card("Error", h("div", { class: "card-body stack" }, errors.map(([name, value]) =>
		documentBox(name, value, `${fileName(job)}-${name}.txt`))));
}

function fileName(job) {
	return job.job.replace(/[^\w.-]+/g, "-").slice(0, 80);
}

function documentsCard(job) {
	const found = ["payload", "result", "tags"].filter((name) => job[name] !== undefined && job[name] !== null);
	if (found.length === 0) return null;
	const names = { payload: "Payload", result: "Result", tags: "Tags" };
	return card("Payload and result", h("div", { class: "card-body stack" },
		found.map((name) => documentBox(names[name], job[name], `${fileName(job)}-${name}.json`))));
}

/* ---- steps ---- */

function stepRow(job, step, acts) {
	const took = step.started_at && step.finished_at ? (new Date(step.finished_at) - new Date(step.started_at)) / 1000 : null;
	const again = acts.includes("retry") && may("operator") && !job.running && step.finished_at
		? h("button", { type: "button", class: "small", onclick: () => confirm("retry", [job], { fromStep: step.step }) }, icon("redo"), "Retry from here") : null;
	return h("li", { class: "stack" },
		h("div", { class: "spread" }, h("span", { class: "row" }, h("strong", `${step.position + 1}. `, user(step.step)), chip(step.state), took !== null ? h("span", { class: "muted" }, duration(took)) : null), again),
		attemptList(step),
		step.error && !step.attempts.some((one) => one.error === step.error) ? h("p", { class: "bad-text" }, user(step.error)) : null,
		step.output !== null && step.output !== undefined ? documentBox("Output", step.output, `${fileName(job)}-${step.step}.json`) : null);
}

function stepsCard(job, acts) {
	if (!job.steps?.length) return null;
	return card("Steps", h("div", { class: "card-body stack" }, scaleRow(), h("ol", { class: "plain stack waterfall" }, job.steps.map((step) => stepRow(job, step, acts)))));
}

/* ---- the raw row ---- */

function cellText(value) {
	if (value === null) return h("span", { class: "muted" }, "null");
	if (value.length <= CELL) return user(value);
	const box = h("span", { class: "long" }, h("bdi", visible(value.slice(0, CELL))));
	const all = h("button", { type: "button", class: "small", onclick: () => { fill(box, h("bdi", visible(value))); all.remove(); } }, `Show all ${size(value.length)}`);
	return [box, all];
}

function rowCard(job) {
	const columns = Object.entries(job.row ?? {});
	if (columns.length === 0) return null;
	return h("details", { class: "card more-row" }, h("summary", { class: "card-head" }, h("h2", "Raw row"), h("span", { class: "muted" }, `${columns.length} columns`)),
		h("table", { class: "raw" }, h("caption", { class: "sr-only" }, "Columns of the row"),
			h("tbody", columns.map(([name, value]) => h("tr", h("th", { scope: "row" }, user(name)), h("td", cellText(value)))))));
}

/* ---- the same as commands ---- */

function commandLine(text) {
	return h("div", { class: "command" }, h("code", { class: "command-text" }, user(text)), copyButton(() => text, `Copy: ${text}`));
}

function commandsCard(job, acts) {
	const act = isHeld(job) || job.excuse ? "release" : job.verdict && acts.includes(job.remedy) ? job.remedy : acts.find((a) => a === "requeue" || a === "retry") ?? acts[0];
	const texts = [commandOf("show", [job]), commandOf("explain", [job]), act ? commandOf(act, [job], { reason: "…" }) : null].filter(Boolean);
	return card("As commands", h("div", { class: "card-body stack" }, texts.map(commandLine)));
}

/* ---- the view ---- */

class JobView {
	constructor(root, where, signal) {
		Object.assign(this, { root, where, signal });
		this.beats = new Map(); /* signs of life that this page has seen */
		this.parts = new Map(); /* name: {place, from} */
		this.tools = h("div", { class: "toolbar", role: "toolbar", "aria-label": "Actions" });
	}

	async start() {
		const { watch, database } = this.where;
		const [details, acts] = await Promise.all([
			get(`/watches/${part(watch)}`, { query: { database }, signal: this.signal }), actsOf(watch, database, this.signal), knownRole(this.signal)]);
		this.details = details;
		this.acts = acts;
		const found = await read(this.where, this.signal);
		this.#frame(found.job);
		this.#show(found);
	}

	async refresh() {
		try {
			this.#show(await read(this.where, this.signal));
		} catch (error) {
			if (error.status === 404) this.#gone(error);
			else throw error;
		}
	}

	again() {
		return errand(() => this.refresh(), this.signal, QUIETLY);
	}

	/* What is known about it stays, but nothing can be done to it. */
	#gone(error) {
		fill(this.tools);
		this.named = null;
		this.#part("verdict", "gone", () => h("div", { class: "banner warn" }, icon("alert"), h("p", { class: "banner-text" }, "It no longer exists: ", user(error.detail), ". The data below is the last known.")));
	}

	#frame(job) {
		const place = (name) => {
			const element = h("div", { class: "stack", "data-part": name });
			this.parts.set(name, { place: element, from: null });
			return element;
		};
		document.title = `${job.job} · defib`;
		fill(this.root,
			h("div", { class: "page-head" }, h("div", h("h1", user(job.job)), h("p", { class: "lead" }, "table ", user(this.details.table), this.details.label ? [" · ", user(this.details.label)] : null)), this.tools),
			place("verdict"),
			h("div", { class: "job-grid" },
				h("div", { class: "stack" }, place("life"), place("steps"), place("documents")),
				h("div", { class: "stack" }, place("facts"), place("errors"), place("commands"), place("row"))));
	}

	/* A part is rebuilt only if its data changed; `often`: then it is updated in place. */
	#part(name, from, make, often = false) {
		const { place, from: before } = this.parts.get(name);
		const now = JSON.stringify(from);
		if (before === now) return;
		this.parts.get(name).from = now;
		if (often) patch(place, h("div", make()).childNodes);
		else fill(place, make());
	}

	#beat(job) {
		const told = job.progress;
		if (told?.at) this.beats.set(told.at, { at: told.at, step: told.step, text: told.progress });
	}

	#show({ job, explained }) {
		const { steps, ledger, row, payload, result, tags, ...facts } = job;
		const limits = { beat_s: this.details.beat_s ?? null, limit_s: job.limit_s ?? this.details.stuck_after?.standard_s ?? null };
		this.#beat(job);
		this.#part("verdict", [job.sentence, job.state, job.verdict, job.held, job.excuse, job.measured_s, job.remedy], () => verdictCard(job), true);
		const now = explained?.evidence?.now ?? new Date().toISOString();
		const life = lifeOf(job, explained, [...this.beats.values()], now);
		this.#part("life", [ledger, steps, job.running, job.verdict, explained?.evidence, [...this.beats.keys()], facts.finished_at, this.all], () => this.#life(life, limits), true);
		this.#part("steps", [steps, job.running], () => stepsCard(job, this.acts));
		rescale(this.parts.get("steps").place, new Date(now).getTime());
		this.#part("documents", [payload, result, tags], () => documentsCard(job));
		this.#part("facts", facts, () => factsCard(job, this.details.builtin), true);
		this.#part("errors", errorsOf(job), () => errorsCard(job));
		this.#part("commands", [job.verdict, job.remedy, isHeld(job), job.excuse], () => commandsCard(job, this.acts));
		this.#part("row", row, () => rowCard(job));
		this.#buttons(job);
	}

	#life(life, limits) {
		const onAll = () => {
			this.all = true;
			this.again();
		};
		return h("section", { class: "card", "aria-label": "Timeline" },
			h("div", { class: "card-head" }, h("h2", "Timeline"), h("span", { class: "muted" }, lifeWords(life))),
			life.length ? drawLife(life, limits, { all: this.all, onAll }) : h("p", { class: "empty" }, "No history: the row has no times and the ledger no entries."));
	}

	/* They stay as they are under the pointer, but act on the current job. */
	#buttons(job) {
		const acts = [...this.acts.filter((act) => act !== "rollback" || !this.details.builtin || job.steps?.some((step) => step.finished_at)), ...(job.ledger?.some(isUndoable) ? ["undo"] : [])];
		const named = JSON.stringify([isHeld(job), Boolean(job.excuse), job.state, job.running, job.verdict, job.owner, job.attempts, job.epoch, job.finished_at, acts]);
		if (this.named === named) return;
		this.named = named;
		const focused = this.tools.contains(document.activeElement) ? document.activeElement.dataset.act : null;
		fill(this.tools, actButtons([job], acts, { after: () => this.again() }));
		if (focused) this.tools.querySelector(`[data-act="${focused}"]`)?.focus();
	}
}

export async function show(root, { params, query, signal }) {
	const where = { watch: params.watch, key: params.key, database: query.get("database") };
	const view = new JobView(root, where, signal);
	shown = { ...where, soon: soon(250, () => view.refresh(), signal) };
	await view.start();
	every(AGAIN_S, () => view.refresh(), signal);
}

export function update(event) {
	if (event.type === "gap") shown?.soon();
	if (event.type !== "ledger" || event.data.watch !== shown?.watch) return;
	if (event.data.job === shown.key) shown.soon();
}
