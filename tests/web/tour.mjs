// SPDX-License-Identifier: Apache-2.0
/*
 * tour.mjs: every view is opened once, at its own address, before anybody mends anything;
 * light and dark, wide and narrow it is looked at by axe-core and kept as a picture. The
 * tests ask what was seen.
 */
import { mkdirSync } from "node:fs";
import { before, test } from "node:test";
import { AXE, DESK, launch, none, overflow, PHONE, sees, settled, withPage } from "./browser.mjs";

async function press(page, name) {
	await page.getByRole("button", { name }).first().click();
	return page.getByRole("dialog");
}

/*
 * Where a view is, and what of the wreckage it must show. `part` is what stands over a view
 * when open(page) was called: it alone is looked at.
 */
const VIEWS = {
	overview: { at: "/", shows: ["crawl", "render", "imports", "tickets", "mails", "queue"] },
	"overview-charts": {
		at: "/", shows: ["All watches over time"],
		open: async (page) => {
			await page.locator(".plot-area").first().waitFor();
			await page.locator(".charts").evaluate((charts) => charts.scrollIntoView());
		},
	},
	watch: { at: "/watches/queue?database=main", shows: ["How it is watched", "claimed by workers", "Time to detection"] },
	"watch-week": {
		at: "/watches/imports", shows: ["How it is watched", "Time to detection"],
		open: async (page) => {
			await page.getByRole("button", { name: "7 days" }).click();
			await page.locator(".plot .bar").nth(5).waitFor();
		},
	},
	"watch-table": {
		at: "/watches/imports", shows: ["Time to detection"], part: ".charts",
		open: async (page) => {
			await page.getByRole("button", { name: "Table", exact: true }).click();
			await page.locator(".plot-table tbody tr").nth(50).waitFor();
		},
	},
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
	"an-act": { at: "/jobs/crawl/1", shows: ["silent"], part: "dialog", open: async (page) => (await press(page, "Requeue")).getByText("1 applies").waitFor() },
	"a-selection": {
		at: "/jobs?watch=crawl&sort=key", shows: ["crawler-0"], part: ".bulk",
		open: async (page) => {
			for (const row of [1, 2]) await page.locator("tbody input").nth(row).check();
			await page.locator(".bulk [data-act=fail]").waitFor();
		},
	},
	"a-word": { at: "/health", shows: ["archive"], part: "dialog", open: async (page) => (await press(page, "Pause")).getByLabel("For").waitFor() },
	"a-toast": {
		at: "/health", shows: ["archive"], part: ".toasts",
		open: async (page) => {
			await (await press(page, "Scan now")).getByRole("button", { name: "Scan" }).click();
			await page.locator(".toast").waitFor();
		},
	},
	"the-keys": {
		at: "/alerts", shows: ["brake_held"], part: "dialog",
		open: async (page) => {
			await page.keyboard.press("?");
			await page.getByRole("dialog", { name: "Keyboard" }).waitFor();
		},
	},
};

const LOOKS = [["light", DESK, "1440"], ["dark", DESK, "1440"], ["dark", PHONE, "390"], ["light", PHONE, "390"]];
const AT_ONCE = 2;
const seen = {};

/* Rows of a table, and lines of a list, are alike: the first speak for all. */
const ALIKE = [["tbody tr:nth-child(n+4)"], [".finding:nth-child(n+4)"], [".timeline li:nth-child(n+4)"]];

/* Colours are all that the dark differs in. */
async function violations(page, scheme, part) {
	const options = { resultTypes: ["violations"], ...(scheme === "dark" ? { runOnly: ["color-contrast"] } : {}) };
	const where = part ?? { exclude: ALIKE };
	const found = await page.evaluate((given) => window.axe.run(...given), [where, options]);
	return found.violations.map((v) => `${v.id} (${v.impact}): ${v.help}: ${v.nodes.slice(0, 4).map((n) => `${n.target.join(" ")} ${n.any[0]?.message ?? ""}`).join(" | ")}`);
}

async function look(page, name, part, [scheme, viewport, width]) {
	await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
	await page.setViewportSize(viewport);
	await page.screenshot({ path: `${process.env.DEFIB_SCREENSHOTS}/${name}-${width}-${scheme}.png` });
	return { look: `${name} at ${width}, ${scheme}`, scheme, sideways: await overflow(page), violations: await violations(page, scheme, part) };
}

async function visit(name, { at, shows, part, open }) {
	const told = { problems: null, looks: [] };
	await withPage({}, async (page) => {
		await page.goto(at);
		await sees(page, ...shows);
		await settled(page);
		await open?.(page);
		await page.evaluate(AXE); /* not as a script element: the page's policy forbids it */
		for (const one of part ? [LOOKS[0], LOOKS[2]] : LOOKS) told.looks.push(await look(page, name, part, one));
	});
	return told;
}

before(async () => {
	mkdirSync(process.env.DEFIB_SCREENSHOTS, { recursive: true });
	await launch();
	const rest = Object.entries(VIEWS);
	await Promise.all(Array.from({ length: AT_ONCE }, async () => {
		for (let next = rest.shift(); next; next = rest.shift())
			seen[next[0]] = await visit(...next).catch((error) => ({ problems: error.message, looks: [] }));
	}));
});

/* Each view twice, what stands over one once; a part is as dark as the view below it. */
function looks(scheme) {
	return Object.values(seen).flatMap((view) => view.looks).filter((one) => one.scheme === scheme);
}

test("every view shows what was lost at its own address, and logs no error", () => {
	none(Object.entries(seen).filter(([, view]) => view.problems).map(([name, view]) => `${name}: ${view.problems}`));
});

test("axe-core finds nothing in any view, light", () => {
	none(looks("light").flatMap((one) => one.violations.map((v) => `${one.look}: ${v}`)));
});

test("axe-core finds nothing in any view, dark", () => {
	none(looks("dark").flatMap((one) => one.violations.map((v) => `${one.look}: ${v}`)));
});

test("no view scrolls sideways, on a desk or on a phone", () => {
	const all = Object.values(seen).flatMap((view) => view.looks);
	none(all.filter((one) => one.sideways > 0).map((one) => `${one.look}: ${one.sideways} px`));
});
