/*
 * tour.mjs: every view is opened once; light and dark, wide and narrow it is looked at by
 * axe-core and kept as a picture. The tests ask what was seen.
 */
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { before, test } from "node:test";
import { AXE, DESK, none, overflow, PHONE, sees, settled, withPage } from "./browser.mjs";

/* Where a view is, and what of the wreckage it must show. */
export const VIEWS = {
	overview: { at: "/", shows: ["crawl", "render", "imports", "tickets", "mails", "queue"] },
	stuck: { at: "/stuck", shows: ["jobs of crawl", "crawler-0"] },
	jobs: { at: "/jobs?watch=crawl&sort=key", shows: ["crawler-0", "running"] },
	job: { at: "/jobs/crawl/1", shows: ["crawler-", "silent", "defib requeue crawl/1"] },
	"job-held": { at: "/jobs/queue/57", shows: ["bomb.png", "put on hold"] },
	"job-order": { at: "/jobs/queue/3", shows: ["reserve", "charge", "ship", "lamp"] },
	workers: { at: "/workers", shows: ["encoder-1", "mailer-1", "resizer-1"] },
	ledger: { at: "/ledger", shows: ["imports", "crawl"] },
	alerts: { at: "/alerts", shows: ["brake_held", "render"] },
	report: { at: "/report", shows: ["imports"] },
	health: { at: "/health", shows: ["main", "archive"] },
};

const LOOKS = [["light", DESK, "1440"], ["dark", DESK, "1440"], ["dark", PHONE, "390"], ["light", PHONE, "390"]];
const seen = {};

async function look(page, name, scheme, viewport, width) {
	await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
	await page.setViewportSize(viewport);
	await page.screenshot({ path: `${process.env.DEFIB_SCREENSHOTS}/${name}-${width}-${scheme}.png` });
	/* Rows of a table are alike: the first of them speak for all; and colours know no width. */
	if (scheme === "dark" && viewport === PHONE) return { look: `${name} at ${width}, ${scheme}`, scheme, sideways: await overflow(page), violations: [] };
	const found = await page.evaluate(() => window.axe.run({ exclude: [["tbody tr:nth-child(n+4)"]] }, { resultTypes: ["violations"] }));
	return {
		look: `${name} at ${width}, ${scheme}`, scheme,
		sideways: await overflow(page),
		violations: found.violations.map((v) => `${v.id} (${v.impact}): ${v.help}: ${v.nodes.slice(0, 4).map((n) => `${n.target.join(" ")} ${n.any[0]?.message ?? ""}`).join(" | ")}`),
	};
}

async function visit(name, { at, shows }) {
	const told = { problems: null, looks: [] };
	await withPage({}, async (page) => {
		await page.goto(at);
		await sees(page, ...shows);
		await settled(page);
		await page.reload();
		await sees(page, ...shows);
		await settled(page);
		await page.evaluate(AXE); /* not as a script element: the page's policy forbids it */
		for (const [scheme, viewport, width] of LOOKS) told.looks.push(await look(page, name, scheme, viewport, width));
	});
	return told;
}

before(async () => {
	mkdirSync(process.env.DEFIB_SCREENSHOTS, { recursive: true });
	for (const [name, view] of Object.entries(VIEWS))
		seen[name] = await visit(name, view).catch((error) => ({ problems: error.message, looks: [] }));
});

function looks(scheme) {
	return Object.values(seen).flatMap((view) => view.looks).filter((one) => one.scheme === scheme);
}

test("every view shows what was lost, again after a reload, and logs no error", () => {
	none(Object.entries(seen).filter(([, view]) => view.problems).map(([name, view]) => `${name}: ${view.problems}`));
});

test("axe-core finds nothing in any view, light", () => {
	none(looks("light").flatMap((one) => one.violations.map((v) => `${one.look}: ${v}`)));
	assert.equal(looks("light").length, 2 * Object.keys(VIEWS).length);
});

test("axe-core finds nothing in any view, dark", () => {
	none(looks("dark").flatMap((one) => one.violations.map((v) => `${one.look}: ${v}`)));
	assert.equal(looks("dark").length, 2 * Object.keys(VIEWS).length);
});

test("no view scrolls sideways, on a desk or on a phone", () => {
	const all = Object.values(seen).flatMap((view) => view.looks);
	none(all.filter((one) => one.sideways > 0).map((one) => `${one.look}: ${one.sideways} px`));
});
