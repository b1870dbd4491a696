// SPDX-License-Identifier: Apache-2.0
/*
 * night.mjs: what the person on call needs first: alerts, what waits for a person, incidents in one
 * line, badges, old numbers that say so; jobs by state, found by what one remembers; acts on all
 * that match; the keyboard alone.
 */
import assert from "node:assert/strict";
import { api, enter, none, pressG, sees, settled, tabTo, test, tokenOf, until, withPage } from "./browser.mjs";

/* Where the first element of each kind stands, from the top. */
const tops = (page, selectors) => page.evaluate((all) => all.map((one) => document.querySelector(one)?.getBoundingClientRect().top ?? null), selectors);

test("overview: firing alerts come first, then what needs a person, then numbers", async () => {
	await withPage({}, async (page) => {
		await page.goto("/");
		await sees(page, "started firing", "is held", "as poison");
		const order = await tops(page, ["[aria-label=Alerts] li", "[aria-label='Needs you'] li", "main .tiles"]);
		assert.deepEqual(order, [...order].sort((a, b) => a - b));
		assert.ok(!order.includes(null));
	});
});

test("overview: health is the worst of what is known and says why", async () => {
	await withPage({}, async (page) => {
		await page.goto("/");
		await until(page, () => /\d+ alerts? firing, the worst: \S+/.test(document.querySelector(".page-head .lead")?.innerText ?? ""));
		const shade = await page.locator(".page-head .lead .chip").first().getAttribute("class");
		assert.match(shade, /bad/);
	});
});

test("overview: an incident is one line: what was lost, when, and what became of the jobs", async () => {
	await withPage({}, async (page) => {
		await page.goto("/");
		await until(page, () => [...document.querySelectorAll(".incidents li")].some((li) =>
			/host \S+ lost \d+ workers? at \d\d:\d\d, \d+ jobs? recovered in \d+ ?m?s, 1 held/.test(li.innerText)));
		await sees(page, "crawl: 2 workers fell silent");
	});
});

test("overview: numbers that nobody answers for are said to be stale, and stay", async () => {
	await withPage({}, async (page) => {
		await page.goto("/");
		await until(page, () => /^\d+$/.test(document.querySelector("main a.tile .tile-value")?.innerText ?? ""));
		const before = await page.locator("main a.tile .tile-value").first().innerText();
		let answer = null;
		const held = new Promise((resolve) => { answer = resolve; });
		await page.route("**/api/v1/trend*", async (route) => { await held; await route.continue().catch(() => {}); });
		await page.keyboard.press("p");
		await page.keyboard.press("p"); /* it goes on, and reads again */
		await page.getByText(/stale since \d{4}-/).waitFor();
		assert.equal(await page.locator("main a.tile .tile-value").first().innerText(), before);
		answer();
		await until(page, () => document.querySelector(".stale-line")?.hidden);
	});
});

test("overview: the shape of what is coming is shown before anything is known", async () => {
	await withPage({}, async (page) => {
		let answer = null;
		const held = new Promise((resolve) => { answer = resolve; });
		await page.route("**/api/v1/watches", async (route) => { await held; await route.continue().catch(() => {}); });
		await page.goto("/");
		await page.locator("main .skeleton[aria-busy=true] .bone").first().waitFor();
		assert.doesNotMatch(await page.locator("main").innerText(), /\d/);
		answer();
		await sees(page, "Stuck now");
		assert.equal(await page.locator("main .skeleton").count(), 0);
	});
});

test("badges beside the views say how many jobs are stuck or held, and how many alerts fire", async () => {
	await withPage({}, async (page) => {
		await page.goto("/report");
		const badge = (path) => page.locator(`#nav a[href="${path}"] .badge`);
		await badge("/stuck").waitFor();
		await badge("/alerts").waitFor();
		const firing = (await Promise.all(["main", "archive"].map((database) => api("GET", `/alerts?database=${database}`))))
			.flatMap((got) => got.json.alerts).filter((a) => a.enabled && a.state === "firing").length;
		await until(page, (n) => document.querySelector('#nav a[href="/alerts"] .badge')?.dataset.n === String(n), firing);
		assert.match(await badge("/alerts").innerText(), /firing/);
	});
});

test("the badge of stuck jobs is what the view lists, jobs that a guard holds back too", async () => {
	await withPage({}, async (page) => {
		await page.goto("/stuck");
		await sees(page, "The brake is on");
		await until(page, () => {
			const text = document.querySelector("main").innerText;
			const listed = Number(/(\d+) jobs, \d+ causes/.exec(text)?.[1]) + Number(/Needs you: (\d+) held/.exec(text)?.[1] ?? 0);
			return document.querySelector('#nav a[href="/stuck"] .badge')?.dataset.n === String(listed);
		});
	});
});

/* ---- jobs ---- */

test("jobs: states are tabs with their numbers, and a tab has an address", async () => {
	await withPage({}, async (page) => {
		await page.goto("/jobs?watch=crawl");
		const tab = (name) => page.getByRole("navigation", { name: "States" }).getByRole("link", { name });
		await until(page, () => /Stuck\s*\d/.test(document.querySelector(".tabs")?.innerText ?? ""));
		const { stats } = { stats: (await api("GET", "/watches/crawl/stats")).json };
		const stuck = stats.stuck_total - (stats.held_running ?? 0);
		await until(page, (n) => document.querySelector(".tabs")?.innerText.replace(/\s+/g, " ").includes(`Stuck ${n}`), stuck);
		await tab(/^Stuck/).click();
		await page.waitForURL("**verdict=stuck**");
		await settled(page);
		assert.match(await tab(/^Stuck/).getAttribute("aria-current"), /page/);
		await tab(/^queued/).click();
		await page.waitForURL("**state=queued**");
		await settled(page);
		none((await page.locator("main td.state").allInnerTexts()).filter((text) => !text.includes("queued")));
	});
});

const FOUND = [["resize", "resize"], ["encoder-3", "encode"], ["bomb.png", "resize"], ["worker", "fetch"]];

test("jobs: one search finds kind, worker, payload and error", async () => {
	await withPage({}, async (page) => {
		for (const [words, kind] of FOUND) {
			await enter(page, `/jobs?watch=queue&database=main&any=${words}`);
			await settled(page);
			await until(page, (wanted) => [...document.querySelectorAll("main td.kind")].some((cell) => cell.innerText === wanted), kind, `${words} finds ${kind}`);
		}
		await enter(page, "/jobs?watch=queue&database=main&any=no-such-thing-anywhere");
		await sees(page, "No job matches.");
		await page.getByRole("link", { name: "Remove all filters" }).click();
		await sees(page, "queue/");
	});
});

test("jobs: a viewer finds by kind and not by what is masked", async () => {
	const by = (words) => api("GET", `/watches/queue/jobs?database=main&any=${words}`, undefined, "viewer");
	assert.ok((await by("resize")).json.jobs.length > 0);
	assert.equal((await by("encoder-3")).json.jobs.length, 0);
	assert.ok((await api("GET", "/watches/queue/jobs?database=main&any=encoder-3")).json.jobs.length > 0);
});

test("jobs: workers have names, held jobs a reason, and poison is named", async () => {
	await withPage({}, async (page) => {
		await page.goto("/jobs?watch=queue&database=main");
		await settled(page);
		await page.locator("td.owner").getByText("encoder-3").first().waitFor();
		const poison = page.locator("main tbody tr", { has: page.locator(".chip", { hasText: "poison" }) });
		await poison.waitFor();
		assert.match(await poison.innerText(), /stuck 3 times within/);
		await poison.locator("input").check();
		await page.locator(".bulk [data-act=retry]").click();
		await page.getByRole("dialog").getByText("It may kill its next worker.").waitFor();
		await page.keyboard.press("Escape");
	});
});

test("every act explains itself, and no two buttons are named Cancel", async () => {
	await withPage({ role: "operator" }, async (page) => {
		await page.goto("/jobs/queue/9?database=main");
		await settled(page);
		const acts = await page.locator("main [data-act]").evaluateAll((all) => all.map((one) => [one.dataset.act, one.title]));
		assert.ok(acts.length > 3);
		none(acts.filter(([, title]) => title.length < 20).map(([act]) => `${act} has no tooltip`));
		await page.locator("main [data-act=cancel]").click();
		await page.getByRole("dialog").getByText("1 applies").waitFor();
		assert.equal(await page.getByRole("dialog").getByRole("button", { name: /^Cancel$/ }).count(), 1);
		await page.getByRole("dialog").getByRole("button", { name: "Back" }).click();
	});
});

/* ---- all of them ---- */

const statusOf = async (watch, where) => (await api("GET", `/watches/${watch}/jobs?count=true&limit=1&${where}`)).json.count;

/* The act that the page orders for all queued imports: its line below the navigation. */
async function failAllQueued(page) {
	await page.goto("/jobs?watch=imports&state=queued&sort=key");
	await settled(page);
	await page.getByLabel("Select all rows shown").check();
	await page.getByRole("button", { name: "Select all that match" }).click();
	await page.locator(".bulk [data-all=fail]").click();
	const dialog = page.getByRole("dialog");
	await dialog.getByText("500 apply").waitFor();
	await dialog.getByText("--where state=queued --background").waitFor();
	await dialog.getByLabel("Reason").fill("wrong feed");
	await dialog.locator("button[type=submit]").click();
	await dialog.waitFor({ state: "detached" });
	return page.locator("#background .background-act").first();
}

test("all that match: an act that has not ended shows how far it is, and can be stopped", async () => {
	await withPage({ role: "operator" }, async (page) => {
		/* The act waits while its watch is paused, however slow the browser is. */
		assert.equal((await api("POST", "/watches/imports/pause", { for: "1h" })).status, 200);
		try {
			while (!(await api("GET", "/watches")).json.watches.find((one) => one.watch === "imports").paused);
			const line = await failAllQueued(page);
			await line.getByRole("progressbar").waitFor();
			await line.getByText(/: 0 of [\d,]+ failed/).waitFor();
			await line.getByRole("button", { name: "Stop it" }).click();
			await line.getByText("was stopped").waitFor();
		} finally {
			await api("POST", "/watches/imports/resume", {});
		}
		assert.equal(await statusOf("imports", "state=failed"), 0);
	});
});

test("all that match: the daemon does it in the background, and one click undoes it", async () => {
	const before = await statusOf("imports", "state=queued");
	assert.ok(before >= 1000); /* more than are counted */
	await withPage({ role: "operator" }, async (page) => {
		const line = await failAllQueued(page);
		await line.getByText(/is done: [1-9][\d,]* of [\d,]+ failed/).waitFor();
		assert.equal(await statusOf("imports", "state=queued"), 0);
		await page.keyboard.press("Escape");
		await line.getByRole("button", { name: /^Undo all/ }).click();
		await page.getByText(/\d+ jobs? reverted/).waitFor();
		assert.equal(await statusOf("imports", "state=failed"), 0);
	});
});

/* ---- the keyboard, addresses ---- */

test("by keyboard alone: from the overview to a stuck job, selected, held and released", async () => {
	await withPage({ role: "operator" }, async (page) => {
		const key = (...keys) => keys.reduce((before, one) => before.then(() => page.keyboard.press(one)), Promise.resolve());
		await page.goto("/");
		await settled(page);
		await pressG(page, "j");
		await page.waitForURL("**/jobs");
		await settled(page);
		await key("/");
		await page.keyboard.type("crawl/12");
		await key("Enter");
		await page.waitForURL("**/jobs/crawl/12");
		await page.goBack();
		await settled(page);
		await key("j", "j", "k");
		await until(page, () => document.activeElement === document.querySelector("main tbody tr"));
		await key("x");
		await page.locator(".bulk strong", { hasText: "1 job selected" }).waitFor();
		await key("x");
		await page.locator(".bulk strong").waitFor({ state: "hidden" });
		await key("?");
		const help = page.getByRole("dialog", { name: "Keyboard" });
		await help.waitFor();
		await key("Escape");
		await help.waitFor({ state: "detached" });
		await pressG(page, "s");
		await sees(page, "crawler-0");
		await settled(page);
		await key("j");
		const job = await page.evaluate(() => document.activeElement.querySelector("a").textContent);
		assert.match(job, /^crawl\//);
		await key("Enter");
		await page.waitForURL(`**/jobs/${job}`);
		const now = async () => {
			const { held, ledger } = (await api("GET", `/watches/${job.replace("/", "/jobs/")}`)).json;
			return [held !== null, ledger.at(-1).actor, ledger.at(-1).reason];
		};
		const press = async (act, reason) => {
			await page.locator(`main [data-act=${act}]`).waitFor();
			await tabTo(page, (name) => document.activeElement.dataset.act === name, act);
			await key("Enter");
			await page.getByRole("dialog").getByText("1 applies").waitFor();
			await page.keyboard.type(reason);
			await tabTo(page, () => document.activeElement.type === "submit" && document.activeElement.closest("dialog"), null, 10);
			await key("Enter");
			await page.getByRole("dialog").waitFor({ state: "detached" });
		};
		await press("hold", "held by keys");
		assert.deepEqual(await now(), [true, "web:operator", "held by keys"]);
		await press("release", "released by keys");
		assert.deepEqual(await now(), [false, "web:operator", "released by keys"]);
	});
});

test("an address without a page is 404, in words and with ways out", async () => {
	const answer = await fetch(`${process.env.DEFIB_URL}/no/such/page`, { headers: { Accept: "text/html" } });
	assert.equal(answer.status, 404);
	assert.match(answer.headers.get("content-type"), /text\/html/);
	const plain = await fetch(`${process.env.DEFIB_URL}/no/such/page`, { headers: { Authorization: `Bearer ${tokenOf("admin")}` } });
	assert.deepEqual([plain.status, plain.headers.get("content-type").split(";")[0]], [404, "application/problem+json"]);
	await withPage({}, async (page) => {
		await page.goto("/no/such/page");
		await sees(page, "Page not found", "/no/such/page");
		await page.getByRole("link", { name: "overview", exact: true }).click();
		await sees(page, "Stuck now");
	});
});
