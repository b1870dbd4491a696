// SPDX-License-Identifier: Apache-2.0
/*
 * charts.mjs: charts over time: numbers of the API, for an hour, a day and a week, read by pointer
 * and by keys, as a table too; and the page of a watch.
 */
import assert from "node:assert/strict";
import { api, enter, order, sees, settled, test, until, withPage } from "./browser.mjs";

const drawn = (page) => page.locator(".plots .plot:not(.waiting)").first().waitFor();
const chart = (page, title) => page.locator(".plot", { has: page.getByRole("heading", { name: title, exact: true }) });

/* As a person reads it: "2,077" is 2077. */
const number = (text) => Number(text.replaceAll(",", ""));

test("charts: the week of a watch has what the API and the ledger have", async () => {
	const { json } = await api("GET", "/series?watch=imports&since=7d");
	assert.ok(json.totals.recovered > 1000, JSON.stringify(json.totals));
	await withPage({}, async (page) => {
		await page.goto("/watches/imports");
		await drawn(page);
		await page.getByRole("button", { name: "7 days" }).click();
		await until(page, () => document.querySelectorAll(".plot .bar").length > 10);
		assert.equal(number(await chart(page, "Recovered").locator(".headline").innerText()), json.totals.recovered);
		const bars = await chart(page, "Recovered").locator(".bar").count();
		assert.equal(bars, json.recovered.silent.filter((n) => n > 0).length);
	});
});

test("charts: the pointer reads a step, and its text is that of the step below it", async () => {
	await withPage({}, async (page) => {
		await page.goto("/watches/imports");
		await drawn(page);
		await page.getByRole("button", { name: "7 days" }).click();
		const bar = chart(page, "Recovered").locator(".bar").first();
		await bar.hover();
		const tip = chart(page, "Recovered").locator(".tip");
		await tip.waitFor();
		const { json } = await api("GET", "/series?watch=imports&since=7d");
		const first = json.recovered.silent.find((n) => n > 0);
		assert.match(await tip.innerText(), new RegExp(`silent\\s+${first}`));
		await page.mouse.move(0, 0);
		await until(page, () => document.querySelector(".tip:not([hidden])") === null);
	});
});

test("charts: arrow keys walk through the steps, and a screen reader is told each", async () => {
	await withPage({}, async (page) => {
		await page.goto("/watches/queue?database=main");
		await drawn(page);
		const slider = chart(page, "Running").getByRole("slider");
		await slider.focus();
		const at = async () => [Number(await slider.getAttribute("aria-valuenow")), await slider.getAttribute("aria-valuetext")];
		const [last, said] = await at();
		assert.equal(last, 59);
		assert.match(said, /^\w+ \d\d:\d\d to \d\d:\d\d: (running \d+|nothing recorded)$/);
		await page.keyboard.press("ArrowLeft");
		await page.keyboard.press("ArrowLeft");
		assert.equal((await at())[0], 57);
		await page.keyboard.press("Home");
		assert.equal((await at())[0], 0);
		await chart(page, "Running").locator(".tip").waitFor();
		await page.keyboard.press("Escape");
		await chart(page, "Running").locator(".tip").waitFor({ state: "hidden" });
	});
});

test("charts: the same numbers as a table, which stays chosen", async () => {
	await withPage({}, async (page) => {
		await page.goto("/watches/imports");
		await drawn(page);
		await page.getByRole("button", { name: "7 days" }).click();
		await page.getByRole("button", { name: "Table", exact: true }).click();
		const table = page.getByRole("table", { name: "Numbers of the last 7 days" });
		await table.waitFor();
		await until(page, () => document.querySelectorAll(".plot-table tbody tr").length === 84);
		const { json } = await api("GET", "/series?watch=imports&since=7d");
		const titles = await table.locator("thead th").allInnerTexts();
		const at = titles.indexOf("Recovered: silent");
		const cells = await table.locator(`tbody tr td:nth-child(${at + 1})`).allInnerTexts();
		const sum = cells.filter((text) => text !== "–").reduce((n, text) => n + number(text), 0);
		assert.equal(sum, json.totals.recovered);
		await page.reload();
		await page.getByRole("table", { name: "Numbers of the last 7 days" }).waitFor();
	});
});

test("charts: axes have whole steps that people use, and reach above the highest", async () => {
	await withPage({}, async (page) => {
		await page.goto("/watches/nobody");
		const got = await page.evaluate(async () => {
			const { ticksOf } = await import(new URL("lib/plot.js", document.querySelector("script[type=module]").src));
			return [[0, "jobs"], [1, "jobs"], [7, "jobs"], [1234, "jobs"], [0.003, "seconds"], [75, "seconds"], [9000, "seconds"], [400000, "seconds"]].map(([most, unit]) => ticksOf(most, unit));
		});
		assert.deepEqual(got, [
			[0, 1], [0, 1], [0, 2, 4, 6, 8], [0, 500, 1000, 1500], [0, 0.001, 0.002, 0.003],
			[0, 30, 60, 90], [0, 3600, 7200, 10800], [0, 172800, 345600, 518400],
		]);
	});
});

test("charts: several databases together add up, and gaps stay gaps", async () => {
	const one = { waiting: [1, null], running: [2, null], done: [3, null], failed: [null, null], oldest_s: [5, null], detection_p50_s: [1, null], detection_p95_s: [9, null], recovered: { dead: [1, null] }, totals: { step_s: 120, done: 3, failed: null, recovered: 1, detection_p50_s: 1, detection_p95_s: 9 } };
	const two = { waiting: [10, 4], running: [20, null], done: [null, null], failed: [null, null], oldest_s: [2, 7], detection_p50_s: [null, null], detection_p95_s: [null, null], recovered: { dead: [5, null] }, totals: { step_s: 120, done: null, failed: null, recovered: 5, detection_p50_s: null, detection_p95_s: null } };
	await withPage({}, async (page) => {
		await page.goto("/watches/nobody");
		const got = await page.evaluate(async (given) => (await import(new URL("lib/charts.js", document.querySelector("script[type=module]").src))).joined(given), [one, two]);
		assert.deepEqual([got.waiting, got.running, got.done, got.failed, got.oldest_s], [[11, 4], [22, null], [3, null], [null, null], [5, 7]]);
		assert.deepEqual(got.totals, { step_s: 120, done: 3, failed: null, recovered: 6, detection_p50_s: 1, detection_p95_s: 9 });
	});
});

test("watch: its numbers, its rules in words and its events, from its name in the overview", async () => {
	await withPage({}, async (page) => {
		await page.goto("/");
		await settled(page);
		await page.getByRole("table").getByRole("link", { name: "imports", exact: true }).first().click();
		await page.waitForURL("**/watches/imports");
		await sees(page, "How it is watched", "while status = 'running'", "its sign of life is older than 1h", "Latest events", "imports/");
		const { json } = await api("GET", "/watches/imports/stats");
		const tile = page.locator(".tile", { hasText: "Waiting" }).locator(".tile-value");
		await until(page, () => !document.querySelector(".tile-value")?.textContent.includes("–"));
		assert.equal(number(await tile.innerText()), json.waiting);
		await page.getByRole("link", { name: "Its ledger" }).click();
		await page.waitForURL("**/ledger?watch=imports");
	});
});

test("watch: one that does not exist is a problem in words", async () => {
	await withPage({}, async (page) => {
		await enter(page, "/watches/nobody");
		await sees(page, "there is no watch \"nobody\"");
	});
});

test("charts: after a restart of the daemon the history is still there", async () => {
	const before = (await api("GET", "/series?watch=imports&since=7d")).json.totals.recovered;
	await order("restart-daemon");
	await withPage({}, async (page) => {
		await page.goto("/watches/imports");
		await drawn(page);
		await page.getByRole("button", { name: "7 days" }).click();
		await until(page, (n) => document.querySelector(".plots")?.innerText.replaceAll(",", "").includes(String(n)), before);
	});
	assert.equal((await api("GET", "/series?watch=imports&since=7d")).json.totals.recovered, before);
});
