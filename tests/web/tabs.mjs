// SPDX-License-Identifier: Apache-2.0
/*
 * tabs.mjs: many tabs of one browser, which has six connections to a host: one tab reads
 * the stream and tells the others, and when it is gone another goes on behind what it was
 * told. The ledger is looked at: it asks for nothing once it is shown, so what appears
 * there came by the stream.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { api, LIMIT_MS, live, sees, settled, test, tokenOf, withTabs } from "./browser.mjs";

const PLACE = readFileSync(new URL("../../web/lib/place.js", import.meta.url));
/* Few entries: no more is drawn than what the test makes happen. */
const LEDGER = "/ledger?actor=web:admin";
const all = (pages, what) => Promise.all(pages.map(what));
const isStream = (request) => request.url().endsWith("/api/v1/events");

/* The pages that opened a stream, in this order. */
function readers(pages) {
	const asked = [];
	for (const page of pages) page.on("request", (request) => isStream(request) && asked.push(page));
	return asked;
}

/* Waits in node for what pages do. */
async function eventually(what, told) {
	const end = Date.now() + LIMIT_MS;
	while (!what()) {
		assert.ok(Date.now() < end, `not within ${LIMIT_MS} ms: ${told}`);
		await new Promise((resolve) => { setTimeout(resolve, 50); });
	}
}

/* Something happens to a job, for a reason that is found in its entry. */
async function happens(reason, act = "hold", job = 31) {
	assert.equal((await api("POST", `/watches/crawl/jobs/${job}/${act}`, { reason })).status, 200);
}

test("a place passes over what was seen, notices what never came, and follows a ledger that begins anew", async () => {
	const { Place } = await import(`data:text/javascript,${encodeURIComponent(PLACE)}`);
	const place = new Place();
	assert.deepEqual([place.id, place.isBehind("main=7")], [null, false]); /* who has just come misses nothing */
	place.move("main=7,odd%20one=3");
	assert.equal(place.id, "main=7,odd%20one=3");
	assert.deepEqual([7, 8].map((id) => place.has({ database: "main", id })), [true, false]);
	assert.deepEqual([3, 4].map((id) => place.has({ database: "odd one", id })), [true, false]);
	assert.equal(place.has({ database: "new", id: 1 }), false);
	assert.deepEqual(["main=7", "main=6,odd%20one=3", "main=8", "main=7,odd%20one=4", "main=7,new=1"].map((id) => place.isBehind(id)),
		[false, false, true, true, true]);
	place.move("main=6,odd%20one=5"); /* said by one who is behind in one of them */
	assert.equal(place.id, "main=7,odd%20one=5");
	place.jump("main=1,odd%20one=5");
	assert.equal(place.id, "main=1,odd%20one=5");
	place.move("main=9@0123abcd"); /* now it says which ledger it is */
	assert.deepEqual(["main=9", "main=3@0123abcd", "main=3@fedc9876"].map((id) => place.isBehind(id)), [false, false, true]);
	assert.equal(place.has({ database: "main", id: 9 }), true);
	place.move("main=3@fedc9876"); /* made again: its numbers, too */
	assert.equal(place.id, "main=3@fedc9876,odd%20one=5");
});

test("eight tabs load, are told what happens by one stream, and the eighth can act", async () => {
	await withTabs(8, {}, async (pages) => {
		const asked = readers(pages);
		for (const page of pages) {
			await page.goto(LEDGER);
			await settled(page);
		}
		await live(...pages);
		await happens("recovered for eight", "requeue", 30);
		await happens("held for eight", "hold", 32);
		await all(pages, (page) => sees(page, "recovered for eight", "held for eight"));
		assert.equal(new Set(asked).size, 1, "more than one tab opened a stream");
		const eighth = pages.at(-1);
		await eighth.goto("/jobs/crawl/32");
		await eighth.locator("main [data-act=release]").first().click();
		const dialog = eighth.getByRole("dialog");
		await dialog.getByText("1 applies").waitFor();
		await dialog.getByLabel("Reason").fill("released by the eighth");
		await dialog.locator("button[type=submit]").click();
		await all(pages.slice(0, -1), (page) => sees(page, "released by the eighth"));
	});
});

/* How a tab goes. */
const ENDS = {
	closed: (page) => page.close(),
	crashed: async (page) => {
		const crash = page.waitForEvent("crash");
		page.goto("chrome://crash").catch(() => {});
		await crash;
	},
	/* A browser without a window freezes nothing: the page is told that it is. */
	frozen: (page) => page.evaluate(() => document.dispatchEvent(new Event("freeze"))),
};

test("when the tab that reads is closed, crashes or is frozen others go on, and nothing is missed", async () => {
	await withTabs(4, {}, async (pages) => {
		const asked = readers(pages);
		const said = [];
		let left = pages,
			reader = null;
		const happensNow = async (reason) => {
			said.push(reason);
			await happens(reason, said.length % 2 ? "hold" : "release");
		};
		await all(pages, (page) => page.goto(LEDGER));
		await all(pages, settled);
		await live(...pages);
		for (const [how, end] of Object.entries(ENDS)) {
			reader = asked.at(-1);
			await happensNow(`before one is ${how}`);
			await end(reader);
			await happensNow(`after one is ${how}`);
			left = left.filter((page) => page !== reader);
			await all(left, (page) => sees(page, ...said));
			assert.ok(left.includes(asked.at(-1)), `${how}: nobody else reads`);
		}
		await reader.evaluate(() => document.dispatchEvent(new Event("resume")));
		await sees(reader, ...said); /* what it slept through */
	});
});

test("a tab that reads and says nothing has the stream taken away, and is told by who took it", async () => {
	await withTabs(2, {}, async ([stuck, other]) => {
		const asked = readers([stuck, other]);
		await other.clock.install();
		await stuck.goto(LEDGER);
		await live(stuck);
		await other.goto(LEDGER);
		await settled(other);
		await live(other);
		await stuck.evaluate(() => { BroadcastChannel.prototype.postMessage = () => {}; });
		await happens("never passed on");
		await sees(stuck, "never passed on");
		for (let s = 0; s < 180; s += 10) await other.clock.fastForward("00:10"); /* each timer once in a step */
		await eventually(() => asked.at(-1) === other, "the other tab reads");
		await sees(other, "never passed on");
		await happens("passed on again", "release");
		await all([stuck, other], (page) => sees(page, "passed on again"));
	});
});

async function signIn(page, role) {
	await page.goto(LEDGER);
	await page.getByRole("textbox", { name: "Token" }).fill(tokenOf(role));
	await page.keyboard.press("Enter");
	await settled(page);
	await live(page);
}

test("tabs with different tokens share nothing, and tabs with the same one do", async () => {
	await withTabs(3, { role: null }, async ([admin, viewer, second]) => {
		const shown = new Set();
		for (const page of [admin, viewer, second])
			page.on("response", async (response) => {
				if (isStream(response.request()) && response.ok()) shown.add([page, (await response.request().allHeaders()).authorization]);
			});
		await signIn(admin, "admin");
		await signIn(viewer, "viewer");
		await signIn(second, "viewer");
		assert.deepEqual(new Map([...shown]), new Map([[admin, `Bearer ${tokenOf("admin")}`], [viewer, `Bearer ${tokenOf("viewer")}`]]));
		const names = await admin.evaluate(async () => (await navigator.locks.query()).held.map((lock) => lock.name));
		assert.equal(new Set(names).size, 2);
		assert.ok(!names.some((name) => /admin|viewer/.test(name)), "a token stands in a name");
	});
});

test("where tabs cannot find each other a hidden one lets go of its stream, and comes back to all that happened", async () => {
	await withTabs(1, {}, async ([page]) => {
		const asked = readers([page]);
		const letGo = page.waitForEvent("requestfailed", isStream);
		const hide = (hidden) => page.evaluate((now) => {
			Object.defineProperty(document, "hidden", { configurable: true, value: now });
			document.dispatchEvent(new Event("visibilitychange"));
		}, hidden);
		await page.addInitScript(() => Object.defineProperty(Navigator.prototype, "locks", { value: undefined }));
		await page.goto(LEDGER);
		await settled(page);
		await live(page);
		await hide(true);
		await letGo;
		await happens("while it was hidden");
		assert.equal(asked.length, 1);
		await hide(false);
		await sees(page, "while it was hidden");
		await happens("while it was seen", "release");
		await sees(page, "while it was seen");
	});
});
