// SPDX-License-Identifier: Apache-2.0
/*
 * frame.mjs: what stands around every view: the token, the header, search, keys, colours,
 * and that the page stays honest when it is paused.
 */
import assert from "node:assert/strict";
import { api, live, pressG, sees, settled, test, tokenOf, until, withPage } from "./browser.mjs";

const theme = (page) => page.evaluate(() => document.documentElement.dataset.theme ?? "system");
const background = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);

test("a token is asked for, a wrong one again, and a right one opens the page for this tab only", async () => {
	await withPage({ role: null }, async (page) => {
		await page.goto("/stuck");
		await page.getByRole("textbox", { name: "Token" }).fill("wrong-0123456789abcdef");
		await page.keyboard.press("Enter");
		await page.getByRole("alert").waitFor();
		await page.getByRole("textbox", { name: "Token" }).fill(tokenOf("viewer"));
		await page.keyboard.press("Enter");
		await sees(page, "jobs of crawl");
		assert.equal(new URL(page.url()).pathname, "/stuck");
		assert.equal(await page.evaluate(() => JSON.stringify(localStorage).includes("viewer-")), false);
		await page.getByRole("button", { name: "Sign out" }).click();
		await page.getByRole("textbox", { name: "Token" }).waitFor();
	});
});

test("a page that could not be fetched whole tries again by itself", async () => {
	await withPage({}, async (page) => {
		let cut = 0;
		await page.route("**/assets/*/lib/keys.js", (route) => (cut++ < 2 ? route.abort() : route.continue()));
		await page.goto("/report");
		await settled(page);
		assert.equal(cut, 3);
	});
});

test("what a daemon that hangs has not told is not known, and never a zero or all clear", async () => {
	await withPage({}, async (page) => {
		let answer;
		const held = new Promise((resolve) => { answer = resolve; });
		await page.route("**/api/v1/watches/*/stats*", async (route) => { await held; await route.continue().catch(() => {}); });
		await page.goto("/");
		const tile = (name) => page.locator("main a.tile", { has: page.getByText(name, { exact: true }) });
		for (const name of ["Stuck now", "Recovered in 24 h", "Needs you"]) {
			await tile(name).getByText("unknown yet").waitFor();
			assert.match(await tile(name).innerText(), /–/);
			assert.doesNotMatch(await tile(name).innerText(), /\b0\b/);
		}
		assert.equal(await page.getByText("All clear", { exact: false }).count(), 0);
		answer();
		await until(page, () => !document.querySelector("main").innerText.includes("unknown yet"));
	});
});

test("the header says which installation it is, which databases are up, and that the page is live", async () => {
	await withPage({}, async (page) => {
		await page.goto("/");
		const header = page.getByRole("banner");
		for (const text of ["staging", "main up", "archive up", "last contact", "Live"]) await header.getByText(text).first().waitFor();
		assert.equal(await page.evaluate(() => document.documentElement.style.getPropertyValue("--environment")), "#b35900");
	});
});

test("colours go from the system's to light and dark, and stay after a reload", async () => {
	await withPage({ scheme: "dark" }, async (page) => {
		await page.goto("/workers");
		await settled(page);
		const dark = await background(page);
		await page.keyboard.press("t");
		assert.equal(await theme(page), "light");
		const light = await background(page);
		assert.notEqual(light, dark);
		await page.reload();
		await settled(page);
		assert.deepEqual([await theme(page), await background(page)], ["light", light]);
		await page.locator("#theme").click();
		assert.deepEqual([await theme(page), await background(page)], ["dark", dark]);
		await page.locator("#theme").click();
		assert.equal(await theme(page), "system");
	});
});

test("a slash goes to the search, WATCH/KEY and a key that is known once to the job, text to a list", async () => {
	await withPage({}, async (page) => {
		const find = async (text) => {
			await page.keyboard.press("/");
			await page.keyboard.type(text);
			await page.keyboard.press("Enter");
		};
		await page.goto("/workers");
		await settled(page);
		await find("crawl/7");
		await page.waitForURL("**/jobs/crawl/7");
		await find("plain/with?odd#signs&more");
		await page.waitForURL((url) => url.pathname.startsWith("/jobs/tickets/plain%2Fwith"));
		await sees(page, "plain/with?odd#signs&more");
		await find("bomb.png");
		await page.waitForURL("**/jobs?any=bomb.png*");
		await sees(page, "resize");
	});
});

test("keys go to every view, and a list of them is shown and left by the keyboard", async () => {
	await withPage({}, async (page) => {
		await page.goto("/");
		await settled(page);
		for (const [letter, path] of [["s", "/stuck"], ["j", "/jobs"], ["w", "/workers"], ["l", "/ledger"], ["a", "/alerts"], ["r", "/report"], ["h", "/health"], ["o", "/"]]) {
			await pressG(page, letter);
			await page.waitForURL((url) => url.pathname === path);
		}
		await page.keyboard.press("?");
		const list = page.getByRole("dialog", { name: "Keyboard" });
		await list.waitFor();
		await page.keyboard.press("Escape");
		await list.waitFor({ state: "detached" });
	});
});

test("back and forward go through the views, and the title names each", async () => {
	await withPage({}, async (page) => {
		await page.goto("/workers");
		await settled(page);
		await page.getByRole("navigation").getByRole("link", { name: "Ledger" }).click();
		await until(page, () => document.title.startsWith("Ledger"));
		await page.goBack();
		await until(page, () => document.title.startsWith("Workers") && location.pathname === "/workers");
		await page.goForward();
		await until(page, () => document.title.startsWith("Ledger"));
		assert.equal(await page.getByRole("navigation").locator("[aria-current=page]").innerText(), "Ledger");
	});
});

test("the first Tab leads past the header into the content", async () => {
	await withPage({}, async (page) => {
		await page.goto("/workers");
		await settled(page);
		await page.keyboard.press("Tab");
		await page.keyboard.press("Enter");
		await until(page, () => document.activeElement?.id === "main");
	});
});

test("a paused page counts what happens and shows it when it goes on", async () => {
	await withPage({}, async (page) => {
		await page.goto("/ledger");
		await settled(page);
		await live(page);
		await page.keyboard.press("p");
		assert.equal((await api("POST", "/watches/crawl/jobs/40/hold", { reason: "while paused" })).status, 200);
		await until(page, () => /event/.test(document.getElementById("live").textContent));
		assert.equal(await page.getByText("while paused").count(), 0);
		await page.keyboard.press("p");
		await sees(page, "while paused");
		assert.equal((await api("POST", "/watches/crawl/jobs/40/release", {})).status, 200);
	});
});
