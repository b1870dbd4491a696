// SPDX-License-Identifier: Apache-2.0
// A worker of graphile-worker as its users write one. It knows nothing of defib.
// It notes in the table `ran` when a run of a job began and ended, by the database's clock.
"use strict";
const { run, runMigrations, quickAddJob } = require("graphile-worker");
const { began, ended, held } = require("./ran.js");

const connectionString = process.env.DATABASE_URL;

async function hold(payload, helpers) {
	const query = (text, values) => helpers.query(text, values);
	const id = await began(query, payload.name);
	await held(payload, id);
	await ended(query, id);
}

const verbs = {
	migrate: () => runMigrations({ connectionString }),
	add: async ([name, hold_s]) => {
		const payload = { name, hold_s: Number(hold_s) };
		const job = await quickAddJob({ connectionString }, "hold", payload);
		console.log(job.id);
	},
	work: async () => {
		const runner = await run({
			connectionString, concurrency: 2, pollInterval: 500, noHandleSignals: false,
			taskList: { hold },
		});
		await runner.promise;
	},
};

verbs[process.argv[2]](process.argv.slice(3)).catch((error) => {
	console.error(error.message);
	process.exit(1);
});
