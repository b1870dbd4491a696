// graphile-worker with a task that does nothing, as fast as its settings let it.
//
//     graphile.mjs IN_HAND JOBS
//
// Up to 10 in hand each job is fetched and completed by itself; above that its local queue of 500
// and batched completion are on. Prints when the first and the last task began (ns), and JOBS.
import { run, runMigrations } from "graphile-worker";
import pg from "pg";

const connectionString = process.env.DATABASE_URL;
const [inHand, jobs] = process.argv.slice(2).map(Number);
const batched = inHand > 10;

await runMigrations({ connectionString });
const client = new pg.Client({ connectionString });
await client.connect();
// In batches: one statement that adds them all takes minutes.
for (let done = 0; done < jobs; done += 1000)
	await client.query(
		"SELECT count(*) FROM graphile_worker.add_jobs(ARRAY(SELECT json_populate_record(" +
		"NULL::graphile_worker.job_spec, '{\"identifier\":\"nothing\",\"payload\":" +
		"{\"to\":\"ada@example.org\"}}') FROM generate_series(1, $1::int)))",
		[Math.min(1000, jobs - done)]);
await client.query("VACUUM ANALYZE");
await client.query("CHECKPOINT");
await client.end();

let first = 0n, last = 0n, begun = 0, all;
const ended = new Promise((done) => { all = done; });
const nothing = () => {
	last = process.hrtime.bigint();
	first ||= last;
	if (++begun === jobs) all();
};
const runner = await run({
	connectionString, noHandleSignals: true, taskList: { nothing },
	logger: undefined,
	preset: {
		worker: {
			concurrentJobs: batched ? 24 : inHand,
			...(batched && { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 }),
		},
	},
});
await ended;
console.log(`${first} ${last} ${jobs}`);
await runner.stop();
