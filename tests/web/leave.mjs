// SPDX-License-Identifier: Apache-2.0
/*
 * leave.mjs: a view is left while it waits for answers: the first, one in the middle, the
 * last; by a key, a link or back. Whatever it waited for ends with it, and nothing is told
 * of that: withPage() fails on an error that nobody took.
 *
 * Answers are held back until the view was left, so no moment is a matter of luck.
 */
import assert from "node:assert/strict";
import { enter, HOME, LIMIT_MS, pressG, settled, test, until, within, withPage } from "./browser.mjs";

/* Where one comes from and goes to: it asks for nothing once it is shown. */
const LEDGER = { at: "/ledger", letter: "l", name: "Ledger" };
const REPORT = { at: "/report", letter: "r", name: "Report" };
const WAYS = {
	key: (page, rest) => pressG(page, rest.letter),
	link: (page, rest) => page.getByRole("navigation").getByRole("link", { name: rest.name }).click(),
	back: (page) => page.evaluate(() => history.back()),
};

/* What is asked of the API by a view, not by the frame: its path, behind POST if it is one; null for all else. */
function askedFor({ url, method }) {
	const path = /\/api\/v1(\/(?!status$|events$).*)/.exec(new URL(url).pathname)?.[1] ?? null;
	return path && method !== "GET" ? `${method} ${path}` : path;
}

const anything = () => true;
/* What a dialog asks; what is live in the view behind it goes on. */
const preview = (path) => path.startsWith("POST ");

/*
 * Answers of the API, which can be held back: hold(which) keeps those from the first on of
 * which which(path, number) is true; what it returns resolves when one is held. pass() lets
 * go of them.
 */
async function gate(page) {
	const own = { paths: [], open: new Map(), which: () => false, held: [] }; /* open: since when */
	const cdp = await page.context().newCDPSession(page);
	await cdp.send("Network.enable");
	cdp.on("Network.requestWillBeSent", ({ requestId, request, type }) => {
		if (type === "Document") own.open.clear(); /* nobody waits for what the document before asked */
		else if (askedFor(request)) own.open.set(requestId, { url: request.url, since: Date.now() });
	});
	for (const end of ["Finished", "Failed"]) cdp.on(`Network.loading${end}`, ({ requestId }) => { own.open.delete(requestId); });
	/* Not page.route(), which would hold every file of the page too, and keep none. */
	await cdp.send("Fetch.enable", { patterns: [{ urlPattern: `${HOME}/api/v1/*` }] });
	cdp.on("Fetch.requestPaused", async ({ requestId, request }) => {
		const path = askedFor(request);
		if (path) {
			own.paths.push(path);
			if (own.held.length || own.which(path, own.paths.length)) await new Promise((resolve) => { own.held.push(resolve); own.reached?.(); });
		}
		/* What was left is not there any more to be answered. */
		await cdp.send("Fetch.continueRequest", { requestId }).catch(() => {});
	});
	return {
		/* What was asked for since the last call. */
		paths: () => own.paths.splice(0),
		hold(which) {
			Object.assign(own, { paths: [], which });
			return within(new Promise((resolve) => { own.reached = resolve; }), `an answer is waited for: ${which}`);
		},
		/* The view was left: nobody waits for what it had asked. */
		pass() {
			own.open.clear();
			own.which = () => false;
			for (const go of own.held.splice(0)) go();
		},
		/*
		 * Nothing is waited for, and nothing more was asked for at that. The browser does not tell the
		 * end of every request that is cancelled: what is as old as this is one of them.
		 */
		async quiet() {
			const end = Date.now() + LIMIT_MS;
			const waits = () => [...own.open.values()].some(({ since }) => Date.now() - since < LIMIT_MS / 4);
			for (let before = -1; waits() || before !== own.paths.length;) {
				assert.ok(Date.now() < end, `still waiting for ${[...own.open.values()].map(({ url }) => url)}`);
				before = own.paths.length;
				await page.evaluate(() => new Promise((resolve) => { setTimeout(resolve, 20); }));
			}
		},
		end: () => cdp.detach(),
	};
}

async function shown(page, answers) {
	await settled(page);
	await answers.quiet();
}

/* Goes away while answers are held back, and comes to rest. */
async function leave(page, answers, way, rest) {
	await WAYS[way](page, rest);
	await page.waitForURL(`**${rest.at}`);
	answers.pass();
	await shown(page, answers);
}

const VIEWS = ["/", "/stuck", "/jobs", "/jobs/crawl/1", "/workers?worker=1", "/ledger", "/alerts", "/report", "/health"];

async function leaveEarlyAndLate(page, answers, at, rest) {
	const leaveAt = async (which, way) => {
		const held = answers.hold(which);
		await enter(page, at);
		await held;
		await leave(page, answers, way, rest);
	};
	answers.paths();
	await page.goto(at);
	await shown(page, answers);
	const all = answers.paths();
	await page.goto(rest.at); /* what it keeps of its first visit is forgotten */
	await shown(page, answers);
	await leaveAt((path) => path === all.at(-1), "key");
	await leaveAt(anything, "link");
	if (all.length > 2) await leaveAt((_, n) => n === 2, "back");
}

test("every view can be left while it waits for its first, its second or its last answer", async () => {
	await withPage({}, async (page) => {
		const answers = await gate(page);
		for (const at of VIEWS) await leaveEarlyAndLate(page, answers, at, at === LEDGER.at ? REPORT : LEDGER);
		await answers.end();
	});
});

/*
 * What a person begins in a view; what opens a dialog can only be left by going back. What
 * a watch can do is asked once in a document: the one that asks for it comes first.
 */
const BEGUN = [
	["/jobs?watch=crawl", "key", (page) => page.locator("tbody input[type=checkbox]").first().check()],
	["/", "back", (page) => page.getByRole("button", { name: "7 days" }).first().click()],
	["/stuck", "back", (page) => page.locator(".cause [data-act=requeue]").first().click(), preview],
	["/jobs?watch=imports", "link", (page) => page.getByRole("button", { name: "Load more" }).click()],
	["/jobs/crawl/1", "back", (page) => page.locator("main [data-act=fail]").click(), preview],
	["/ledger", "key", (page) => page.getByRole("button", { name: "Load more" }).click()],
	["/ledger", "link", (page) => page.getByLabel("Event").selectOption("REQUEUED")],
	["/report", "link", (page) => page.getByLabel("Period").selectOption({ index: 0 })],
	["/health", "key", (page) => page.getByRole("button", { name: "Check again" }).first().click()],
];

test("what was begun in a view ends with it, and a dialog that looks what would happen is closed", async () => {
	await withPage({}, async (page) => {
		const answers = await gate(page);
		for (const [at, way, begin, asks = anything] of BEGUN) {
			const rest = at === LEDGER.at ? REPORT : LEDGER;
			if (new URL(page.url()).pathname !== rest.at) await page.goto(rest.at);
			await enter(page, at);
			await shown(page, answers);
			const held = answers.hold(asks);
			await begin(page);
			await held;
			await leave(page, answers, way, rest);
			await until(page, () => document.querySelector("dialog") === null);
		}
		await answers.end();
	});
});
