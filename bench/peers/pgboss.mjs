// pg-boss: fetch and complete in batches, nothing in between.
//
//     pgboss.mjs BATCH JOBS
//
// Prints begin and end (ns) and the number of jobs.
import { PgBoss } from "pg-boss";

const [batch, jobs] = process.argv.slice(2).map(Number);
const boss = new PgBoss({
	connectionString: process.env.DATABASE_URL, supervise: false, schedule: false,
});
boss.on("error", (error) => console.error(error.message));
await boss.start();
await boss.createQueue("nothing");
for (let done = 0; done < jobs; done += 1000) {
	const some = Array.from({ length: Math.min(1000, jobs - done) },
		() => ({ data: { to: "ada@example.org" } }));
	await boss.insert("nothing", some);
}
await boss.getDb().executeSql("VACUUM ANALYZE", []);
await boss.getDb().executeSql("CHECKPOINT", []);

const begin = process.hrtime.bigint();
let ended = 0;
for (;;) {
	const some = await boss.fetch("nothing", { batchSize: batch });
	if (!some.length) break;
	await boss.complete("nothing", some.map((job) => job.id));
	ended += some.length;
}
console.log(`${begin} ${process.hrtime.bigint()} ${ended}`);
await boss.stop({ graceful: false });
