// SPDX-License-Identifier: Apache-2.0
/*
 * page_paint.mjs: how soon views of the page are seen, and the numbers in them:
 * node page_paint.mjs TIMES {"view": "/path"}. Every visit has a browser context of its own, so
 * nothing is cached. A line of JSON a view: times of first contentful paint and of the first frame
 * after which nothing was loading, the calls that it sent, and the numbers that it showed.
 */
import { closeBrowser, DESK, HOME, launch, LIMIT_MS, tokenOf, until } from "../tests/web/browser.mjs";

const [times, views] = process.argv.slice(2).map((said) => JSON.parse(said));

/* In the page: when it was complete; forgotten where something is loading again. */
function noteSettled() {
	const look = () => {
		const tabs = [...document.querySelectorAll("main a.tab")], notes = [...document.querySelectorAll("main .tile-note")];
		const loading = document.querySelector("main .loading, main [aria-busy=true], main .bone:not(.tile-value)") ||
			notes.some((note) => note.textContent === "unknown yet") ||
			(location.pathname === "/jobs" && !tabs.some((tab) => tab.querySelector(".badge")));
		const there = document.querySelector("main h1");
		window.settledAt = there && !loading ? (window.settledAt ?? performance.now()) : null;
		requestAnimationFrame(look);
	};
	addEventListener("DOMContentLoaded", look);
}

/* In the page: tiles by name, tabs by name, and cells of tables by row and title. */
function readNumbers() {
	const text = (node) => node?.textContent.trim() ?? "";
	const tiles = {}, tabs = {}, rows = {};
	for (const tile of document.querySelectorAll("main .tile"))
		tiles[text(tile.querySelector(".tile-name"))] = text(tile.querySelector(".tile-value"));
	for (const tab of document.querySelectorAll("main a.tab")) {
		const badge = tab.querySelector(".badge");
		if (badge) tabs[text(tab).slice(0, -text(badge).length).trim()] = text(badge);
	}
	for (const table of document.querySelectorAll("main table")) {
		const titles = [...table.querySelectorAll("thead th")].map(text);
		for (const row of table.querySelectorAll("tbody tr")) {
			const cells = [...row.children];
			const name = text(cells[0]?.querySelector("a") ?? cells[0]);
			rows[name] = Object.fromEntries(titles.map((title, i) => [title, text(cells[i])]));
		}
	}
	return { tiles, tabs, rows };
}

async function visit(at) {
	const told = { calls: [] };
	const context = await (await launch()).newContext({ viewport: DESK, baseURL: HOME, reducedMotion: "reduce" });
	await context.addInitScript((token) => sessionStorage.setItem("defib.token", token), tokenOf("admin"));
	await context.addInitScript(noteSettled);
	const page = await context.newPage();
	page.setDefaultTimeout(LIMIT_MS);
	page.on("request", (request) => {
		const path = request.url().slice(HOME.length);
		if (request.method() === "GET" && path.startsWith("/api/v1/")) told.calls.push(path.slice("/api/v1".length));
	});
	await page.goto(at);
	await until(page, () => window.settledAt && performance.now() > window.settledAt + 300);
	told.settled = await page.evaluate(() => window.settledAt);
	told.painted = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime);
	told.numbers = await page.evaluate(readNumbers);
	await context.close();
	return told;
}

for (const [view, at] of Object.entries(views)) {
	const visits = [];
	for (let i = 0; i < times; i++) visits.push(await visit(at));
	console.log(JSON.stringify({
		view, at,
		painted: visits.map((v) => v.painted),
		settled: visits.map((v) => v.settled),
		calls: [...new Set(visits.flatMap((v) => v.calls))],
		numbers: visits.at(-1).numbers,
	}));
}
await closeBrowser();
