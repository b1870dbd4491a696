// SPDX-License-Identifier: Apache-2.0
/*
 * rooms.mjs: what the single views do beyond showing: filters that stand in the address,
 * pages, files, words to the daemons, tests of alerts.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { api, sees, settled, test, until, withPage } from "./browser.mjs";

test("overview: the trend goes from a day to a week, and numbers lead to what they count", async () => {
	await withPage({}, async (page) => {
		await page.goto("/");
		await settled(page);
		const day = await page.locator(".chart .bar").count();
		await page.getByRole("button", { name: "7 days" }).first().click();
		await until(page, (n) => document.querySelectorAll(".chart .bar").length !== n, day);
		await page.locator("a.tile").first().click();
		await page.waitForURL("**/stuck");
	});
});

test("overview: the brake is told with its reason and its end", async () => {
	await withPage({}, async (page) => {
		await page.goto("/");
		await sees(page, "The brake holds render", "4 of 4 owners fell silent", "at the latest");
	});
});

test("overview: an outage that makes several watches doubtful is told in one line", async () => {
	const row = (watch, database, cause) => ({ watch: { watch, database, info: { doubting: true, doubt_cause: cause, doubt_until: "2026-01-02T03:04:05Z" } } });
	const rows = [row("a", "main", "it was away"), row("b", "main", "it was away"), row("c", "archive", "it was away"), row("d", "main", "it was started")];
	await withPage({}, async (page) => {
		await page.goto("/watches/nobody");
		const told = await page.evaluate(async (given) => {
			const { guardBanners } = await import(new URL("lib/glance.js", document.querySelector("script[type=module]").src));
			return guardBanners(given).map((banner) => banner.textContent.split(".")[0]);
		}, rows);
		assert.deepEqual(told, ["In doubt about a, b: it was away", "In doubt about c: it was away", "In doubt about d: it was started"]);
	});
});

test("jobs: filters stand in the address and survive a reload, and a bounded page has more", async () => {
	await withPage({}, async (page) => {
		await page.goto("/jobs");
		await settled(page);
		await page.getByLabel("Watch", { exact: true }).selectOption({ label: "imports" });
		await page.waitForURL("**/jobs?watch=imports*");
		await settled(page);
		await page.getByLabel("State", { exact: true }).selectOption("queued");
		await page.waitForURL("**state=queued**");
		await page.reload();
		await settled(page);
		assert.equal(await page.getByLabel("State", { exact: true }).inputValue(), "queued");
		assert.equal(await page.locator("main tbody tr").count(), 50);
		await page.getByRole("button", { name: "Load more" }).click();
		await until(page, () => document.querySelectorAll("main tbody tr").length === 100);
	});
});

test("jobs: text is found in payloads", async () => {
	await withPage({}, async (page) => {
		await page.goto("/jobs?watch=queue");
		await settled(page);
		await page.getByLabel("Search", { exact: true }).fill("bomb.png");
		await page.keyboard.press("Enter");
		await sees(page, "resize");
		assert.equal(await page.locator("main tbody tr").count(), 1);
	});
});

test("job: one line of life has attempts, verdicts with what was measured, remedies and acts", async () => {
	const { jobs } = (await api("GET", "/watches/queue/jobs?limit=9&where=kind%3Dresize")).json;
	await withPage({}, async (page) => {
		await page.goto(`/jobs/queue/${jobs[0].key}`);
		await sees(page, "Timeline", "requeued", "put on hold", "dead", "bomb.png", "defib show", "Raw row");
	});
});

test("job: the waterfall has a bar for each attempt at a step, with its outcome and error beside it", async () => {
	const { jobs } = (await api("GET", "/watches/queue/jobs?limit=1&state=rolled_back&where=kind%3Dorder")).json;
	const { steps } = (await api("GET", `/watches/queue/jobs/${jobs[0].key}`)).json;
	await withPage({}, async (page) => {
		await page.goto(`/jobs/queue/${jobs[0].key}`);
		await sees(page, "Attempt 1 failed permanently", "there is no such address", "Undo, attempt 1 finished");
		const bars = await page.locator(".waterfall .attempt").evaluateAll((rows) => rows.map((row) => {
			const [bar, track] = [row.querySelector(".bar"), row.querySelector(".track")].map((one) => one.getBoundingClientRect());
			return bar.width >= 3 && bar.left >= track.left - 1 && bar.right <= track.right + 5;
		}));
		assert.deepEqual(bars, steps.flatMap((step) => step.attempts).map(() => true));
		const drawn = await page.evaluate(async () => {
			const { attemptList, rescale, scaleRow } = await import(new URL("lib/waterfall.js", document.querySelector("script[type=module]").src));
			const at = (s) => new Date(Date.UTC(2026, 0, 2, 3, 4, s)).toISOString();
			const one = (outcome, from, to, error) => ({ outcome, attempt: 1, started_at: at(from), ended_at: to === null ? null : at(to), worker: "w1", error });
			const root = document.createElement("div");
			root.append(scaleRow(), attemptList({ step: "a", attempts: [one("lost", 0, 10, "x".repeat(900)), one("running", 20, null, null)] }));
			rescale(root, Date.parse(at(40)));
			return [root.querySelector("summary").textContent.length, root.querySelector(".scale").lastChild.textContent,
				...[...root.querySelectorAll(".bar")].flatMap((bar) => [bar.style.getPropertyValue("--from"), bar.style.getPropertyValue("--width"), bar.classList.contains("open")])];
		});
		assert.deepEqual(drawn, [161, "+ 40s", "0.000%", "25.000%", false, "50.000%", "50.000%", true]);
	});
});

test("job: a result that came after the job was given back is told on its line of life", async () => {
	const { jobs } = (await api("GET", "/watches/queue/jobs?limit=9&where=kind%3Dfetch")).json;
	await withPage({}, async (page) => {
		await page.goto(`/jobs/queue/${jobs[0].key}`);
		const told = page.getByLabel("Timeline").locator(".told");
		await told.filter({ hasText: "late completion" }).waitFor();
		const words = await told.allInnerTexts();
		const at = (word) => words.findIndex((text) => text.includes(word));
		assert.ok(at("requeued") >= 0 && at("requeued") < at("late completion"), words.join(" | "));
		await page.goto("/ledger?event=LATE_COMPLETION");
		await sees(page, `queue/${jobs[0].key}`);
	});
});

test("job: a held one says who put it there, by which rule, and how many workers died with it", async () => {
	await withPage({}, async (page) => {
		await page.goto("/jobs/queue/57");
		await sees(page, "by the rule crash-budget", "3 workers died while running it");
	});
});

test("ledger: what was only reported is not told as recovered", async () => {
	await withPage({}, async (page) => {
		await page.goto("/ledger?watch=crawl&event=ZOMBIE_DETECTED");
		await sees(page, "nothing was changed");
		assert.equal(await page.getByText("Recovered by defib").count(), 0);
	});
});

test("workers: the killed and the frozen are told apart from the living, and a name leads to its jobs", async () => {
	await withPage({}, async (page) => {
		await page.goto("/workers");
		await sees(page, "mailer-1", "alive", "exit seen", "silent");
		await page.getByRole("link", { name: "encoder-3" }).first().click();
		await until(page, () => location.search.length > 1);
		await sees(page, "encoder-3", "queue/");
		await page.reload();
		await sees(page, "encoder-3", "queue/");
	});
});

test("ledger: filtered by address, and had as CSV and JSONL", async () => {
	await withPage({}, async (page) => {
		await page.goto("/ledger?watch=imports&event=REQUEUED");
		await settled(page);
		assert.equal(await page.locator("main .chip", { hasText: "found stuck" }).count(), 0);
		for (const [name, first] of [["CSV", /^id,/], ["JSONL", /^\{/]]) {
			const [file] = await Promise.all([page.waitForEvent("download"), page.getByText(name, { exact: true }).click()]);
			const text = readFileSync(await file.path(), "utf8");
			assert.match(text, first);
			assert.ok(text.split("\n").length > 2000, `${name} has ${text.split("\n").length} lines`);
		}
	});
});

test("ledger: a batch is taken back from its entry", async () => {
	const made = await api("POST", "/watches/crawl/acts", { act: "fail", jobs: ["12", "13"], reason: "a slip" });
	const { batch } = made.json.watches[0];
	await withPage({ role: "operator" }, async (page) => {
		await page.goto(`/ledger?batch=${batch}`);
		await sees(page, "crawl/12", "crawl/13");
		await page.getByRole("button", { name: "Undo batch" }).click();
		const dialog = page.getByRole("dialog");
		await dialog.getByText("2 apply").waitFor();
		await dialog.getByRole("button", { name: "Undo", exact: true }).click();
		await dialog.waitFor({ state: "detached" });
		assert.equal((await api("GET", "/watches/crawl/jobs/12")).json.state, "running");
	});
});

test("alerts: those that fire come first, messages say what became of them, a test is answered", async () => {
	await withPage({}, async (page) => {
		await page.goto("/alerts");
		await sees(page, "brake_held", "stuck_warning", "logged", "Couldn't connect to server");
		assert.match(await page.locator("main tbody tr").first().innerText(), /firing/);
		await page.getByRole("button", { name: "Send a test to log" }).click();
		await page.locator(".sink-answer .chip.good").waitFor();
	});
});

test("report: what was recovered adds up to its total", async () => {
	await withPage({}, async (page) => {
		await page.goto("/report");
		await settled(page);
		const lines = await page.locator("dt:text-is('Recovered') + dd").allInnerTexts();
		const sums = lines.map((line) => line.replaceAll(",", "").match(/\d+/g).map(Number));
		assert.ok(sums.some(([total]) => total > 0), lines.join("; "));
		for (const [total, ...parts] of sums) assert.equal(parts.reduce((sum, n) => sum + n, 0), total, lines.join("; "));
		assert.deepEqual(await page.locator("dt:text-is('Rolled back') + dd").allInnerTexts(), ["1"]);
	});
});

test("report: a period is chosen, stands in the address, and is a file", async () => {
	await withPage({}, async (page) => {
		await page.goto("/report");
		await settled(page);
		await page.getByLabel("Period").selectOption({ index: 0 });
		await until(page, () => location.search.includes("since="));
		await settled(page);
		const [file] = await Promise.all([page.waitForEvent("download"), page.getByText("Markdown", { exact: true }).click()]);
		assert.match(readFileSync(await file.path(), "utf8"), /^#/);
	});
});

test("health: a watch is paused with a reason and goes on again, and the doctor's findings have what mends", async () => {
	await withPage({}, async (page) => {
		await page.goto("/health");
		await sees(page, "CREATE INDEX", "watches.crawl.stuck_after");
		const row = page.locator("tr", { hasText: "tickets" }).first();
		await row.getByRole("button", { name: "Pause" }).click();
		const dialog = page.getByRole("dialog");
		await dialog.getByLabel(/reason/i).fill("repairs");
		await dialog.locator("button[type=submit]").click();
		await dialog.waitFor({ state: "detached" });
		await row.getByText("repairs").waitFor();
		await row.getByRole("button", { name: "Resume" }).click();
		const again = page.getByRole("dialog");
		if (await again.count()) await again.locator("button[type=submit]").click();
		await row.getByRole("button", { name: "Pause" }).waitFor();
	});
});
