// SPDX-License-Identifier: Apache-2.0
/*
 * acts.mjs: what a person does to jobs: preview, warning, reason, progress, undo; by
 * pointer and by keyboard alone; and that who may only look finds nothing to press.
 */
import assert from "node:assert/strict";
import { api, enter, none, order, pressG, sees, settled, tabTo, test, until, withPage } from "./browser.mjs";

const stateOf = async (job) => (await api("GET", `/watches/${job.replace("/", "/jobs/")}`)).json;
const button = (page, act) => page.locator(`main [data-act=${act}]`).first();

/* The dialog that is open, once it has said what would happen. */
async function previewed(page, ...says) {
	const dialog = page.getByRole("dialog");
	for (const text of says) await dialog.getByText(text).first().waitFor();
	return dialog;
}

async function act(page, name, reason) {
	await button(page, name).click();
	const dialog = await previewed(page, "1 applies");
	await dialog.getByLabel("Reason").fill(reason);
	await dialog.locator("button[type=submit]").click();
	await dialog.waitFor({ state: "detached" });
}

/* What each act leaves behind; jobs of the built-in queue are found by their kind. */
const ACTS = [
	["requeue", "crawl/2", "queued"], ["fail", "crawl/3", "failed"], ["retry", "crawl/4", "queued"], ["undo", "crawl/3", "running"],
	["cancel", "queue/4", "cancelled"], ["retry", "queue/4", "queued"], ["fail", "queue/4", "failed"],
	["end", "labs/demo", "ending"],
];

test("every act is previewed, takes a reason, is done, and stands in the ledger with who did it", async () => {
	await withPage({ role: "operator" }, async (page) => {
		for (const [name, job, state] of ACTS) {
			await enter(page, `/jobs/${job}`);
			await act(page, name, `test of ${name}`);
			await sees(page, `test of ${name}`);
			const now = await stateOf(job);
			assert.equal(now.state, state, `${name} ${job}`);
			assert.deepEqual([now.ledger.at(-1).actor, now.ledger.at(-1).reason], ["web:operator", `test of ${name}`]);
		}
	});
});

test("a job is held and released, and a held one says so", async () => {
	await withPage({ role: "operator" }, async (page) => {
		await page.goto("/jobs/crawl/5");
		await act(page, "hold", "looking into it");
		await page.getByLabel("Verdict").locator(".chip.held").first().waitFor();
		await act(page, "release", "done looking");
		await page.getByLabel("Verdict").locator(".chip.held").first().waitFor({ state: "detached" });
		assert.equal((await stateOf("crawl/5")).held, null);
	});
});

test("a saga is rolled back from its page, which follows until each step is undone", async () => {
	await withPage({ role: "operator" }, async (page) => {
		await page.goto("/jobs/queue/1");
		await sees(page, "reserve", "charge", "ship");
		const steps = page.locator("[data-part=steps]");
		assert.equal(await steps.getByText("undone").count(), 0);
		await act(page, "rollback", "the customer is gone");
		await sees(page, "being rolled back", "the customer is gone");
		await order("work-off");
		await page.getByLabel("Verdict").getByText("rolled back", { exact: true }).waitFor();
		await until(page, () => document.querySelector("[data-part=steps]").innerText.match(/undone/g)?.length === 3);
		await page.getByLabel("Timeline").getByText("Ended as").waitFor();
		assert.equal((await stateOf("queue/1")).state, "rolled_back");
	});
});

test("who takes a job from a worker that nobody saw end is warned, and told the command", async () => {
	await withPage({ role: "operator" }, async (page) => {
		await page.goto("/jobs/crawl/6");
		await button(page, "requeue").click();
		const dialog = await previewed(page, "may still be running", "1 applies", "defib requeue crawl/6");
		await dialog.getByLabel("Reason").fill("it's gone");
		await dialog.getByText("--reason 'it'\\''s gone'").waitFor();
		await page.keyboard.press("Escape");
		await dialog.waitFor({ state: "detached" });
		assert.equal(await page.evaluate(() => document.activeElement.dataset.act), "requeue");
		assert.equal((await stateOf("crawl/6")).state, "running");
	});
});

test("jobs that changed since they were shown are told apart and left alone", async () => {
	await withPage({ role: "operator" }, async (page) => {
		await page.goto("/jobs?watch=crawl&verdict=stuck");
		await settled(page);
		for (const key of [7, 8, 9]) await page.getByLabel(`Select crawl/${key}`, { exact: true }).check();
		assert.equal((await api("POST", "/watches/crawl/jobs/8/requeue", { reason: "somebody else" })).status, 200);
		await page.locator(".bulk [data-act=fail]").click();
		const dialog = await previewed(page, "2 apply", "1 changed in the meantime");
		await dialog.getByRole("button", { name: "Fail 2 jobs" }).click();
		await dialog.waitFor({ state: "detached" });
		assert.deepEqual(await Promise.all(["crawl/7", "crawl/8", "crawl/9"].map(async (job) => (await stateOf(job)).state)),
			["failed", "queued", "failed"]);
	});
});

/* A dialog that says that 100 imports can be failed, and how its n-th call is let go. */
async function failHundred(page, n) {
	await page.goto("/jobs?watch=imports&sort=key");
	await settled(page);
	await page.getByRole("button", { name: "Load more" }).click();
	await until(page, () => document.querySelectorAll("main tbody tr").length === 100);
	await page.getByLabel("Select all rows shown").check();
	await page.locator(".bulk [data-act=fail]").click();
	const dialog = await previewed(page, "100 apply");
	let pass = null;
	const held = new Promise((resolve) => { pass = resolve; });
	let calls = 0;
	await page.route("**/watches/imports/acts*", async (route) => {
		if (++calls === n) await held;
		await route.continue();
	});
	await dialog.locator("button[type=submit]").click();
	return { dialog, pass };
}

const failedImports = async () => (await api("GET", "/watches/imports/jobs?state=failed&limit=1&count=true")).json.count;

async function takeBack(page, told) {
	await page.getByRole("button", { name: "Undo", exact: true }).click();
	await page.getByText(told).waitFor();
	assert.equal(await failedImports(), 0);
}

test("many jobs are done in parts with a bar, and are taken back together", async () => {
	await withPage({ role: "operator" }, async (page) => {
		const { dialog, pass } = await failHundred(page, 2);
		await dialog.getByText("50 of 100").waitFor();
		assert.equal(await dialog.locator("progress").evaluate((bar) => bar.value), 50);
		pass();
		await page.getByText("100 jobs failed").waitFor();
		await takeBack(page, "100 jobs reverted");
	});
});

test("many jobs that are being done can be stopped: what was done is told, the others are as they were", async () => {
	await withPage({ role: "operator" }, async (page) => {
		const { dialog, pass } = await failHundred(page, 1);
		await dialog.getByText("0 of 100").waitFor();
		await dialog.getByRole("button", { name: "Stop" }).click();
		await dialog.getByRole("button", { name: "Stopping…" }).waitFor();
		pass();
		await dialog.getByText("Stopped after 50 jobs; the others are unchanged.").waitFor();
		assert.equal(await failedImports(), 50);
		await dialog.getByRole("button", { name: "Close" }).click();
		await takeBack(page, "50 jobs reverted");
	});
});

/* ---- the keyboard ---- */

test("by the keyboard alone: to a stuck job, requeue it with a reason, and take it back", async () => {
	await withPage({ role: "operator" }, async (page) => {
		await page.goto("/");
		await settled(page);
		await pressG(page, "s");
		await sees(page, "crawler-0");
		await tabTo(page, () => document.activeElement.closest("tbody") && document.activeElement.matches("a"));
		await page.keyboard.press("j");
		const job = await page.evaluate(() => document.activeElement.querySelector("a").textContent);
		await page.keyboard.press("Enter");
		await page.waitForURL(`**/jobs/${job}`);
		await page.locator("main [data-act=requeue]").waitFor();
		await tabTo(page, () => document.activeElement.dataset.act === "requeue");
		await page.keyboard.press("Enter");
		await previewed(page, "1 applies");
		await page.keyboard.type("by hand");
		await tabTo(page, () => document.activeElement.type === "submit" && document.activeElement.closest("dialog"), null, 10);
		await page.keyboard.press("Enter");
		await page.getByText("1 job requeued").waitFor();
		assert.equal((await stateOf(job)).state, "queued");
		await tabTo(page, () => document.activeElement.closest(".toast") && document.activeElement.textContent.includes("Undo"));
		await page.keyboard.press("Enter");
		await page.getByText("1 job reverted").waitFor();
		assert.equal((await stateOf(job)).state, "running");
	});
});

/* ---- as it happens ---- */

test("rows that come and go never move what somebody points at", async () => {
	await withPage({}, async (page) => {
		await page.goto("/stuck");
		await sees(page, "crawler-0");
		await settled(page);
		const card = page.locator(".cause", { hasText: "jobs of crawl" });
		const keys = () => card.locator("tbody td.job").allInnerTexts();
		await card.locator("tbody tr").nth(1).hover();
		const before = await keys();
		await order("another-dies");
		await card.locator(".news").waitFor();
		assert.match(await card.locator(".news").innerText(), /2 new/);
		assert.deepEqual(await keys(), before);
		await card.locator(".news").click();
		await until(page, (n) => document.querySelectorAll(".cause tbody")[0].children.length === n, before.length + 2);
	});
});

test("what another person does shows at once, without a reload", async () => {
	await withPage({}, async (page) => {
		await page.goto("/jobs/crawl/10");
		await settled(page);
		await until(page, () => document.getElementById("live").textContent.includes("Live"));
		assert.equal((await api("POST", "/watches/crawl/jobs/10/hold", { reason: "seen elsewhere" })).status, 200);
		await sees(page, "seen elsewhere");
	});
});

/* ---- who may only look ---- */

/* All that a button of the page sends. */
const SENT = [
	...["requeue", "retry", "hold", "release", "fail", "undo"].map((name) => ["POST", `/watches/crawl/jobs/11/${name}`]),
	...["rollback", "cancel"].map((name) => ["POST", `/watches/queue/jobs/57/${name}`]), ["POST", "/watches/labs/jobs/demo/end"], ["DELETE", "/watches/labs/jobs/demo"],
	...["pause", "resume", "scan", "raise", "override-guard"].map((word) => ["POST", `/watches/crawl/${word}`]),
	["POST", "/watches/crawl/acts"], ["POST", "/undo"], ["POST", "/alerts/test"],
];
const PRESSED = ["[data-act]", ...["Scan now", "Pause", "Resume", "Raise", "Override", "Send a test", "Undo", "Retry from here"].map((text) => `button:has-text('${text}')`), "tbody input"];

test("a viewer finds nothing to press in any view, and the server refuses each act that he sends all the same", async () => {
	await withPage({ role: "viewer" }, async (page) => {
		const wrong = [];
		for (const at of ["/", "/stuck", "/jobs?watch=crawl", "/jobs/crawl/11", "/jobs/queue/3", "/jobs/queue/57", "/jobs/labs/demo", "/workers", "/ledger", "/alerts", "/report", "/health"]) {
			await enter(page, at);
			await settled(page);
			const found = await page.locator(PRESSED.map((one) => `main ${one}`).join(", ")).allInnerTexts();
			if (found.length) wrong.push(`${at}: ${found}`);
		}
		none(wrong);
	});
	for (const [method, path] of SENT) {
		const { status } = await api(method, path, {}, "viewer");
		assert.equal(status, 403, `${method} ${path}`);
	}
	assert.equal((await stateOf("crawl/11")).state, "running");
});
