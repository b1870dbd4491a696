// SPDX-License-Identifier: Apache-2.0
/*
 * hostile.mjs: what a row holds is shown, and does nothing: markup, script, control
 * characters, letters that turn the line around, and a megabyte.
 */
import assert from "node:assert/strict";
import { statSync } from "node:fs";
import { api, DESK, enter, overflow, PHONE, sees, settled, test, until, withPage } from "./browser.mjs";

/* Nothing of it became an element. */
async function harmless(page) {
	assert.equal(await page.locator("main :is(img, script, iframe, object, embed, b > b, base, style)").count(), 0);
	assert.equal(await page.locator("a[href^='javascript:' i]").count(), 0);
	assert.ok(await overflow(page) <= 0, `${page.url()} scrolls sideways`);
}

test("markup and script in keys, owners and texts are shown as they are, in every list", async () => {
	await withPage({}, async (page) => {
		for (const at of ["/stuck", "/jobs?watch=tickets", "/ledger?watch=tickets", "/report?watch=tickets", "/"]) {
			await enter(page, at);
			await settled(page);
			for (const viewport of [DESK, PHONE]) {
				await page.setViewportSize(viewport);
				await harmless(page);
			}
		}
		await enter(page, "/jobs?watch=tickets");
		await sees(page, "<img src=x onerror=\"window.hacked=1\"><b>bold</b>", "</script><script>", "javascript:window.hacked=1");
	});
});

test("a job whose key is hostile has an address that opens it, and a reload", async () => {
	const { jobs } = (await api("GET", "/watches/tickets/jobs?limit=50")).json;
	assert.equal(jobs.length, 7);
	await withPage({}, async (page) => {
		await page.goto("/jobs?watch=tickets");
		for (const job of jobs) {
			await settled(page);
			await page.locator("tbody td.job a").nth(jobs.indexOf(job)).click();
			await until(page, () => document.querySelector("main [aria-label=Verdict]"));
			await harmless(page);
			await page.reload();
			await until(page, () => document.querySelector("main [aria-label=Verdict]"));
			await page.goBack();
			await page.waitForURL("**/jobs?watch=tickets");
		}
	});
});

test("hostile payloads are shown on the job's page and do nothing", async () => {
	const { jobs } = (await api("GET", "/watches/queue/jobs?limit=50&where=queue%3Dhostile")).json;
	assert.equal(jobs.length, 7);
	await withPage({}, async (page) => {
		for (const job of jobs.filter((one) => one.kind !== "large")) {
			await enter(page, `/jobs/queue/${job.key}`);
			await sees(page, "Payload");
			await harmless(page);
		}
		await enter(page, `/jobs/queue/${jobs.find((one) => one.kind === "html").key}`);
		await sees(page, "<img src=x onerror=");
	});
});

test("letters that turn the line around are made visible or kept within their text", async () => {
	const { jobs } = (await api("GET", "/watches/tickets/jobs?limit=50")).json;
	const turned = jobs.find((job) => job.key.includes("gpj.exe"));
	await withPage({}, async (page) => {
		await page.goto(`/jobs/tickets/${encodeURIComponent(turned.key)}`);
		await settled(page);
		const shown = await page.locator("main h1").innerText();
		assert.ok(!shown.includes("\u202e"), "a bare override is shown");
		assert.ok(await page.locator("main h1 bdi").count() > 0);
	});
});

test("a payload of a megabyte opens quickly, in part, and can be had whole", async () => {
	const { jobs } = (await api("GET", "/watches/queue/jobs?limit=50&where=kind%3Dlarge")).json;
	await withPage({}, async (page) => {
		await page.goto(`/jobs/queue/${jobs[0].key}`);
		await sees(page, "Payload");
		await page.locator("main details.document summary").first().click();
		await sees(page, "<b>x</b><b>x</b>", "The first");
		await harmless(page);
		const length = () => page.evaluate(() => document.querySelector("main").textContent.length);
		assert.ok(await length() < 500000, "all of it is in the page");
		const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download" }).click()]);
		assert.ok(statSync(await file.path()).size > 1048576);
		await page.getByRole("button", { name: "Show all" }).click();
		await until(page, () => document.querySelector("main").textContent.length > 1048576);
		await harmless(page);
	});
});
