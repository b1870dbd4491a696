// SPDX-License-Identifier: Apache-2.0
/*
 * workers.js: names of workers, by which people know them; jobs of the built-in queue name them by
 * number. Read at most every ten seconds, and shared by the views.
 */
import { get } from "./api.js";
import { orNothing } from "./errand.js";

const KEEP_MS = 10000;
const MOST = 1000;

const known = new Map(); /* by database: {at, workers} */

async function read(database, signal) {
	const had = known.get(database);
	if (had && Date.now() - had.at < KEEP_MS) return had.workers;
	const said = await orNothing(get("/workers", { query: { database, limit: MOST }, signal }));
	if (said) known.set(database, { at: Date.now(), workers: said.workers });
	return said?.workers ?? had?.workers ?? [];
}

/* Map of "database/id" to the name. */
export async function workerNames(databases, signal) {
	const all = new Map();
	for (const database of new Set(databases))
		for (const worker of await read(database, signal)) all.set(`${database}/${worker.id ?? worker.worker}`, worker.name);
	return all;
}
