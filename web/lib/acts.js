// SPDX-License-Identifier: Apache-2.0
/*
 * acts.js: operators' acts on jobs, as calls: which acts there are, how many jobs one call
 * takes, and the outcome of each. dialog.js is the user interface.
 *
 * An act has three steps: reread() finds jobs that are no longer as the page showed them,
 * run({dryRun: true}) returns what would be done, run() does it, one chunk at a time.
 */
import { get, jobPath, part, post, Problem } from "./api.js";
import { ACTS, EVENTS } from "./tables.js";

const CHUNK = 50;       /* jobs per call: few enough to show progress and to stop */
const REREAD_MOST = 200; /* more are not read one by one: the server checks all of them anyway */
const AT_ONCE = 6;

/* takes: takes a job away from its worker; single: one call per job; danger: ends something. */
export { ACTS };

/* ---- which acts a watch supports ---- */

const known = new Map(); /* by watch and database, until the page is reloaded */

export async function actsOf(watch, database, signal = null) {
	const name = JSON.stringify([watch, database]);
	if (!known.has(name)) {
		const said = await get(`/watches/${part(watch)}`, { query: { database }, signal });
		const acts = new Set(said.acts ?? []);
		known.set(name, Object.keys(ACTS).filter((act) => acts.has(act)));
	}
	return known.get(name);
}

/* Whether an act makes sense for a job in its current state. */
export function fitting(act, job) {
	const held = isHeld(job);
	if (act === "release") return held || Boolean(job.excuse);
	if (act === "excuse") return !held && Boolean(job.verdict);
	if (act === "hold") return !held;
	if (act === "cancel" || act === "end") return !job.finished_at;
	return true;
}

export function isHeld(job) {
	return Boolean(job.held) || String(job.state_name ?? job.state ?? "").toLowerCase() === "held";
}

/* Whether a ledger entry changed a job in a way that can be undone. */
export function isUndoable(entry) {
	return Boolean(entry.batch) && (EVENTS[entry.event]?.remedy === "hold" || Boolean(entry.before && entry.after));
}

/* Its worker's end was not seen. */
export function workerMayLive(job) {
	return job.running && job.verdict !== "dead";
}

/* ---- outcomes of jobs ---- */

/* Outcomes by job, and the batches for an undo. */
export class Tally {
	constructor() {
		this.results = new Map(); /* "watch/key": {outcome, why} */
		this.batches = [];        /* {database, batch} */
		this.stopped = false;
		this.limited = false; /* there are more jobs than were looked at */
	}

	add(job, outcome, why = null) {
		this.results.set(job, { outcome, why });
	}

	wrote(database, batch) {
		if (batch) this.batches.push({ database, batch });
	}

	of(outcome) {
		return [...this.results].filter(([, r]) => r.outcome === outcome).map(([job]) => job);
	}

	/* [{outcome, why, jobs}] in the order in which they are shown. */
	groups() {
		const order = ["done", "changed", "refused", "guarded", "locked", "missing", "left"];
		const found = new Map();
		for (const [job, { outcome, why }] of this.results) {
			const name = JSON.stringify([outcome, cause(why)]);
			if (!found.has(name)) found.set(name, { outcome, why, jobs: [] });
			else found.get(name).why = cause(why);
			found.get(name).jobs.push(job);
		}
		return [...found.values()].sort((a, b) => order.indexOf(a.outcome) - order.indexOf(b.outcome) || b.jobs.length - a.jobs.length);
	}
}

/* What refusals of several jobs have in common: "it is being worked on and not stuck". */
function cause(why) {
	return why?.split(": ")[0] ?? null;
}

function take(tally, said) {
	for (const group of said.watches ?? []) {
		for (const one of group.jobs) tally.add(one.job, one.outcome, one.refusal ?? one.warning);
		if (!said.dry_run) tally.wrote(group.database, group.batch);
	}
}

function takeProblem(tally, jobs, error) {
	if (!(error instanceof Problem) || error.passing) throw error;
	const why = [error.detail, error.next].filter(Boolean).join("; ");
	for (const job of jobs) tally.add(job.job, error.status === 404 ? "missing" : "refused", why);
}

/* ---- calls ---- */

function byWatch(jobs) {
	const groups = new Map();
	for (const job of jobs) {
		const name = JSON.stringify([job.watch, job.database]);
		if (!groups.has(name)) groups.set(name, []);
		groups.get(name).push(job);
	}
	return [...groups.values()];
}

function chunks(act, jobs) {
	const size = ACTS[act].single ? 1 : CHUNK;
	return byWatch(jobs).flatMap((group) =>
		Array.from({ length: Math.ceil(group.length / size) }, (_, i) => group.slice(i * size, (i + 1) * size)));
}

async function callMany(act, jobs, body, query, tally) {
	const keys = jobs.map((job) => job.key);
	take(tally, await post(`/watches/${part(jobs[0].watch)}/acts`, { act, jobs: keys, ...body }, { query }));
}

/* An end has no dry run: the server's answer is the same whether it ended before or now. */
async function callSingle(act, job, body, query, tally) {
	const { override_guard: _, ...rest } = body;
	if (act === "end" && body.dry_run) {
		tally.add(job.job, "done");
		return;
	}
	if (act === "end") {
		await post(`${jobPath(job.watch, job.key)}/end`, body.reason ? { reason: body.reason } : {}, { query });
		tally.add(job.job, "done");
		return;
	}
	take(tally, await post(`${jobPath(job.watch, job.key)}/${act}`, rest, { query }));
}

/*
 * Do it, or return what would be done. `progress(n)` gets the number of handled jobs; after the
 * signal no further call is made. Throws if the daemon or database is unavailable.
 */
export async function run(act, jobs, { reason = null, dryRun = false, override = false, fromStep = null, progress = null, signal = null, tally = new Tally() } = {}) {
	const body = { dry_run: dryRun };
	if (fromStep) body.from_step = fromStep;
	if (reason) body.reason = reason;
	if (override) body.override_guard = true;
	for (const chunk of chunks(act, jobs)) {
		if (signal?.aborted) {
			tally.stopped = true;
			break;
		}
		const query = { database: chunk[0].database };
		try {
			if (ACTS[act].single) await callSingle(act, chunk[0], body, query, tally);
			else await callMany(act, chunk, body, query, tally);
		} catch (error) {
			takeProblem(tally, chunk, error);
		}
		progress?.(tally.results.size);
	}
	return tally;
}

/* What an act on all jobs that match would do to the first `limit`. */
export async function dryRunAll(act, { watch, database, where }, override, limit, tally) {
	const body = { act, dry_run: true, limit, ...(where.length ? { where } : { all: true }) };
	if (override) body.override_guard = true;
	try {
		const said = await post(`/watches/${part(watch)}/acts`, body, { query: { database } });
		take(tally, said);
		tally.limited ||= said.limited;
	} catch (error) {
		takeProblem(tally, [{ job: `${watch}/*` }], error);
	}
}

/* Undo batches: [{database, batch}]. */
export async function undoBatches(batches, { reason = null, dryRun = false } = {}) {
	const tally = new Tally();
	for (const { database, batch } of [...batches].reverse()) {
		const body = { batch, dry_run: dryRun };
		if (reason) body.reason = reason;
		try {
			take(tally, await post("/undo", body, { query: { database } }));
		} catch (error) {
			takeProblem(tally, [{ job: `batch ${batch}` }], error);
		}
	}
	return tally;
}

/* ---- the current state ---- */

const SEEN = ["state", "running", "owner", "attempts", "epoch", "held"];

function differs(shown, now) {
	return SEEN.some((name) => (shown[name] ?? null) !== (now[name] ?? null)) || Boolean(shown.verdict) !== Boolean(now.verdict);
}

async function rereadOne(job, tally, signal) {
	try {
		const now = await get(jobPath(job.watch, job.key), { query: { database: job.database }, signal });
		if (differs(job, now)) tally.add(job.job, "changed", `it is ${now.state_name ?? now.state ?? "another"} now`);
		else return job;
	} catch (error) {
		takeProblem(tally, [job], error);
	}
	return null;
}

/* The jobs that are still as the page showed them; the others are in the tally. */
export async function reread(jobs, tally, signal = null) {
	if (jobs.length > REREAD_MOST) return jobs;
	const same = [];
	for (let i = 0; i < jobs.length; i += AT_ONCE)
		same.push(...await Promise.all(jobs.slice(i, i + AT_ONCE).map((job) => rereadOne(job, tally, signal))));
	return same.filter(Boolean);
}

/* ---- the same as a command ---- */

function quoted(text) {
	return /^[\w./:@%+=,-]+$/.test(text) ? text : `'${String(text).replaceAll("'", "'\\''")}'`;
}

/* defib requeue --watch pages --where state=failed --background; of several watches a line each. */
export function commandAll(act, { watch, where }, { reason = null, override = false } = {}) {
	const words = ["defib", act, "--watch", quoted(watch)];
	for (const term of where) words.push("--where", quoted(term));
	if (!where.length) words.push("--all");
	words.push("--background");
	if (reason) words.push("--reason", quoted(reason));
	if (override) words.push("--override-guard");
	return words.join(" ");
}

/* defib requeue pages/17 --reason 'the host is gone'; null if there is no such command. */
export function commandOf(act, jobs, { reason = null, override = false, fromStep = null } = {}) {
	if (act === "end") return null;
	const words = ["defib", act, ...jobs.map((job) => quoted(job.job))];
	if (fromStep) words.push("--from-step", quoted(fromStep));
	if (reason) words.push("--reason", quoted(reason));
	if (override) words.push("--override-guard");
	return words.join(" ");
}
