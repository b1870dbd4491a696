// SPDX-License-Identifier: Apache-2.0
/*
 * browser.mjs: one Chromium for all tests, and pages of it that are watched: what a page
 * logs as an error, every dialog it opens and every request it sends elsewhere is kept,
 * and fails the test that opened it (`open()`), whatever else that test looks at.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { test as nodeTest } from "node:test";

const require = createRequire(`${process.env.DEFIB_NODE_MODULES}/`);
const { chromium } = require("playwright-core");
export const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

export const HOME = process.env.DEFIB_URL;
export const DESK = { width: 1440, height: 900 };
export const PHONE = { width: 390, height: 844 };
export const LIMIT_MS = 300000; /* it only ends what hangs */
const POLL_MS = 50; /* not at each frame: that would draw frames that nobody looks at */

const wanted = process.env.DEFIB_TESTS ? new Set(JSON.parse(process.env.DEFIB_TESTS)) : null;

/* A test of node's runner; skipped where $DEFIB_TESTS names others (a list in JSON). */
export function test(name, body) {
	return nodeTest(name, { skip: wanted && !wanted.has(name) ? "not asked for" : false }, body);
}

let browser = null;

/*
 * Chromium's build without windows: two thirds of the computing that the whole browser needs for these
 * tests, and it fetches no icons for tabs (which the whole browser does at some later moment, on
 * behalf of whatever the tab shows by then).
 */
export async function launch() {
	browser ??= await chromium.launch({
		executablePath: process.env.DEFIB_CHROMIUM ?? "/usr/bin/chromium-headless-shell",
		args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
	});
	return browser;
}

export async function closeBrowser() {
	await browser?.close();
	browser = null;
}

/* A list of what is wrong is to be empty. */
export function none(wrong) {
	assert.ok(wrong.length === 0, wrong.join("\n"));
}

export function tokenOf(role) {
	return process.env[`TOKEN_${role.toUpperCase()}`];
}

/* What the browser itself notes of an answer that is a problem, or of none: the page tells it. */
const REFUSED = /^Failed to load resource: (the server responded with a status of (400|401|403|404|409|422|429|503)|net::ERR_)/;

/* What a page did that it should not (bad), the requests that failed (cut), whether it is gone. */
function watched(page) {
	const seen = { page, bad: [], cut: [], gone: false };
	page.on("console", (message) => {
		if (message.type() === "error" && !REFUSED.test(message.text())) seen.bad.push(`console: ${message.text()}`);
	});
	page.on("pageerror", (error) => seen.bad.push(`error at ${page.url()}: ${error.message}`));
	page.on("dialog", (dialog) => {
		seen.bad.push(`dialog: ${dialog.message()}`);
		dialog.dismiss();
	});
	page.on("request", (request) => {
		if (!request.url().startsWith(`${HOME}/`)) seen.bad.push(`request: ${request.url()}`);
	});
	page.on("requestfailed", (request) => seen.cut.push(`${request.url()}: ${request.failure()?.errorText}`));
	for (const end of ["crash", "close"]) page.on(end, () => { seen.gone = true; });
	return seen;
}

async function contextOf(scheme) {
	const made = await (await launch()).newContext({ viewport: DESK, colorScheme: scheme, reducedMotion: "reduce", baseURL: HOME });
	made.setDefaultTimeout(LIMIT_MS);
	return made;
}

function signIn(token) {
	sessionStorage.setItem("defib.token", token);
}

/* body(pages) on tabs that are watched; each is to behave. */
async function behaving(seen, body) {
	try {
		await body(seen.map((one) => one.page));
		none(seen.flatMap((one) => one.bad));
		for (const { page } of seen.filter((one) => !one.gone))
			assert.equal(await page.evaluate(() => window.hacked ?? null), null, "a payload was run");
	} catch (error) {
		error.message += ["", ...seen.flatMap((one) => [...one.bad, ...one.cut.slice(-10)])].join("\n--- ");
		throw error;
	}
}

/*
 * Runs body(pages) on so many tabs of one browser, signed in as a role (null: nobody), and asserts
 * that each behaved. They share a context that no other test has: nothing is left behind for the
 * next (storage, routes, scripts, listeners, what was still being fetched).
 */
export async function withTabs(n, { role = "admin", scheme = "light" }, body) {
	const context = await contextOf(scheme);
	const seen = [];
	try {
		if (role) await context.addInitScript(signIn, tokenOf(role));
		for (let i = 0; i < n; i++) seen.push(watched(await context.newPage()));
		await behaving(seen, body);
	} finally {
		await context.close();
	}
}

/* Tabs that tests have one after the other, each in a context of its own. */
const spare = [];

async function spareTab() {
	const context = await contextOf("light");
	const page = await context.newPage();
	const cdp = await context.newCDPSession(page);
	await cdp.send("Page.enable");
	return { context, page, cdp, seen: watched(page) };
}

/* No page, of the same site: its storage can be had there. */
const REST = `${HOME}/healthz`;

/* As a new one: nothing of the page runs, is fetched, kept, routed or emulated any more. */
async function cleaned({ page, cdp }, script) {
	if (script) await cdp.send("Page.removeScriptToEvaluateOnNewDocument", { identifier: script });
	await page.unrouteAll({ behavior: "ignoreErrors" });
	await page.goto(REST);
	await page.evaluate(() => {
		localStorage.clear();
		sessionStorage.clear();
	});
	await page.mouse.move(-1, -1);
	await page.setViewportSize(DESK);
}

/*
 * Runs body(page) on one tab, signed in as a role (null: nobody), and asserts that it behaved. It
 * is one that earlier tests had, cleaned: a new one would compute longer than most tests, and fetch
 * every module anew. A test that adds listeners, scripts or a clock to its tab takes withTabs(1).
 */
export async function withPage({ role = "admin", scheme = "light" }, body) {
	const tab = spare.pop() ?? await spareTab();
	Object.assign(tab.seen, { bad: [], cut: [] });
	let ok = false;
	try {
		await tab.page.emulateMedia({ colorScheme: scheme });
		const script = role && (await tab.cdp.send("Page.addScriptToEvaluateOnNewDocument", { source: `(${signIn})(${JSON.stringify(tokenOf(role))})` })).identifier;
		await behaving([tab.seen], ([page]) => body(page));
		await cleaned(tab, script);
		ok = true;
	} finally {
		if (ok) spare.push(tab);
		else await tab.context.close();
	}
}

/* What a promise gives, which is to come in time. */
export async function within(promise, told) {
	let timer = null;
	const late = new Promise((_, reject) => {
		timer = setTimeout(() => reject(new assert.AssertionError({ message: `not within ${LIMIT_MS} ms: ${told}` })), LIMIT_MS);
	});
	return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/* Until what(…) holds in the page; the failure has what is shown instead. */
export async function until(page, what, given = null, told = String(what)) {
	try {
		await page.waitForFunction(what, given, { timeout: LIMIT_MS, polling: POLL_MS });
	} catch {
		const shown = await page.evaluate(() => document.body.innerText.slice(0, 3000));
		assert.fail(`${page.url()}: not within ${LIMIT_MS} ms: ${told}\n--- shown:\n${shown}`);
	}
}

/*
 * As a link of this page goes there: without loading it anew. tour.mjs opens every view by
 * its address.
 */
export async function enter(page, at) {
	if (!page.url().startsWith(HOME) || page.url() === REST) return page.goto(at);
	return page.evaluate((href) => {
		const link = document.createElement("a");
		link.href = href;
		document.body.append(link);
		link.click();
		link.remove();
	}, at);
}

/* Until the content has every one of these texts: as it is, or as it is shown, which needs a layout. */
export async function sees(page, ...texts) {
	await until(page, (wanted) => {
		const main = document.querySelector("main");
		const missing = wanted.filter((text) => !main.textContent.includes(text));
		return missing.length === 0 || missing.every((text) => main.innerText.includes(text));
	}, texts, `it shows ${JSON.stringify(texts)}`);
}

/* Nothing is being loaded any more. */
export async function settled(page) {
	await until(page, () => document.querySelector("main h1") && !document.querySelector("main .loading, main [aria-busy=true]"));
}

/* g and a letter, one right after the other: a busy page would answer to the first too late. */
export function pressG(page, letter) {
	return Promise.all(["g", letter].map((key) => page.keyboard.press(key)));
}

/* Tab is pressed until what(given) holds in the page: what has the focus. */
export async function tabTo(page, what, given, most = 60) {
	for (let i = 0; i < most; i++) {
		if (await page.evaluate(what, given)) return;
		await page.keyboard.press("Tab");
	}
	assert.fail(`not within ${most} tabs: ${what} ${given}`);
}

/* The page never scrolls sideways. */
export async function overflow(page) {
	return page.evaluate(() => document.scrollingElement.scrollWidth - innerWidth);
}

/* The API beside the page, for what a test wants to know or to have happened. */
export async function api(method, path, body = undefined, role = "admin") {
	const answer = await fetch(`${HOME}/api/v1${path}`, {
		method,
		headers: { Authorization: `Bearer ${tokenOf(role)}`, "Content-Type": "application/json" },
		body: body === undefined ? undefined : JSON.stringify(body),
	});
	const text = await answer.text();
	return { status: answer.status, json: text.startsWith("{") || text.startsWith("[") ? JSON.parse(text) : null };
}

/*
 * Until every page among these is live and its stream has begun: one that is opened after
 * theirs has. What is committed from now on comes to them.
 */
export async function live(...pages) {
	for (const page of pages) await until(page, () => document.getElementById("live").textContent.includes("Live"));
	const cut = new AbortController();
	const answer = await fetch(`${HOME}/api/v1/events`, { headers: { Authorization: `Bearer ${tokenOf("admin")}` }, signal: cut.signal });
	let text = "";
	await within((async () => {
		for await (const chunk of answer.body.pipeThrough(new TextDecoderStream())) {
			text += chunk;
			if (/^event: database\ndata: {"database":"main"/m.test(text)) return;
		}
	})(), "the stream begins");
	cut.abort();
}

/* Something is to happen outside: stop-server, start-server, another-dies, work-off. */
export async function order(what) {
	const answer = await fetch(`${process.env.DEFIB_ORDERS}/${what}`, { method: "POST" });
	assert.equal(answer.status, 204);
}
