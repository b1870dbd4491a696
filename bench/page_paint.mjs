/*
 * page_paint.mjs: how soon views of the page are seen: node page_paint.mjs TIMES {"view": "/path"}.
 * Every visit has a browser context of its own, so nothing is cached. A line of JSON a view:
 * times of first contentful paint and of the first frame after which nothing was loading.
 */
import { closeBrowser, until, withPage } from "../tests/web/browser.mjs";

const [times, views] = process.argv.slice(2).map((said) => JSON.parse(said));

/* In the page: when it was complete; forgotten where something is loading again. */
function noteSettled() {
	const look = () => {
		const loading = document.querySelector("main .loading, main [aria-busy=true]");
		const there = document.querySelector("main h1");
		window.settledAt = there && !loading ? (window.settledAt ?? performance.now()) : null;
		requestAnimationFrame(look);
	};
	addEventListener("DOMContentLoaded", look);
}

async function visit(at) {
	const told = {};
	await withPage({}, async (page) => {
		await page.addInitScript(noteSettled);
		await page.goto(at);
		await until(page, () => window.settledAt && performance.now() > window.settledAt + 300);
		told.settled = await page.evaluate(() => window.settledAt);
		told.painted = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime);
	});
	return told;
}

for (const [view, at] of Object.entries(views)) {
	const visits = [];
	for (let i = 0; i < times; i++) visits.push(await visit(at));
	console.log(JSON.stringify({ view, at, painted: visits.map((v) => v.painted), settled: visits.map((v) => v.settled) }));
}
await closeBrowser();
