// SPDX-License-Identifier: Apache-2.0
// A worker of pg-boss as its users write one. It knows nothing of defib, but pg-boss names
// its sessions itself: whoever wants another name must give it to the constructor.
"use strict";
const PgBoss = require("pg-boss");
const { Pool } = require("pg");
const { began, ended, held } = require("./ran.js");

const connectionString = process.env.DATABASE_URL;
const QUEUE = "hold";

function open(options) {
	const boss = new PgBoss({ connectionString, application_name: process.env.PGAPPNAME, ...options });
	boss.on("error", (error) => console.error(error.message));
	return boss;
}

const quiet = { supervise: false, schedule: false };

const verbs = {
	migrate: async () => {
		const boss = open(quiet);
		await boss.start();
		await boss.createQueue(QUEUE);
		await boss.stop({ graceful: false });
	},
	add: async ([name, hold_s]) => {
		const boss = open(quiet);
		await boss.start();
		console.log(await boss.send(QUEUE, { name, hold_s: Number(hold_s) }));
		await boss.stop({ graceful: false });
	},
	work: async () => {
		const boss = open({});
		const pool = new Pool({ connectionString });
		const query = (text, values) => pool.query(text, values);
		await boss.start();
		const hold = async ([job]) => {
			const id = await began(query, job.data.name);
			await held(job.data, id);
			await ended(query, id);
		};
		// Two jobs at a time: each call is a loop of its own that runs one.
		await boss.work(QUEUE, { pollingIntervalSeconds: 0.5 }, hold);
		await boss.work(QUEUE, { pollingIntervalSeconds: 0.5 }, hold);
	},
};

verbs[process.argv[2]](process.argv.slice(3)).catch((error) => {
	console.error(error.message);
	process.exit(1);
});
