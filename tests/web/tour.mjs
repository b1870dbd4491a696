// SPDX-License-Identifier: Apache-2.0
/*
 * tour.mjs: every view is opened once, at its own address, before anybody mends anything, and
 * looked at by axe-core: wide and light, narrow and dark. With $DEFIB_SCREENSHOTS it is looked at in
 * all four ways, and each is kept as a picture there. The tests ask what was seen.
 */
import { mkdirSync } from "node:fs";
import { AXE, DESK, none, overflow, PHONE, sees, settled, test, withPage } from "./browser.mjs";

const PICTURES = process.env.DEFIB_SCREENSHOTS;

async function press(page, name) {
	await page.getByRole("button", { name }).first().click();
	return page.getByRole("dialog");
}

/*
 * Where a view is, and what of the wreckage it must show; open(page) is done before it is looked
 * at. `over` is what is opened over it then, one after the other: a part that alone is looked at.
 */
const VIEWS = {
	overview: {
		at: "/", shows: ["crawl", "render", "imports", "tickets", "mails", "queue", "All watches over time"],
		open: (page) => page.locator(".plot-area").first().waitFor(),
	},
	watch: { at: "/watches/queue?database=main", shows: ["How it is watched", "claimed by workers", "Time to detection"] },
	"watch-week": {
		at: "/watches/imports", shows: ["How it is watched", "Time to detection"],
		open: async (page) => {
			await page.getByRole("button", { name: "7 days" }).click();
			await page.locator(".plot .bar").nth(5).waitFor();
		},
		over: {
			"watch-table": {
				part: ".charts",
				open: async (page) => {
					await page.getByRole("button", { name: "Table", exact: true }).click();
					await page.locator(".plot-table tbody tr").nth(50).waitFor();
				},
			},
		},
	},
	stuck: { at: "/stuck", shows: ["jobs of crawl", "crawler-0"] },
	jobs: {
		at: "/jobs?watch=crawl&sort=key", shows: ["crawler-0", "running"],
		over: {
			"a-selection": {
				part: ".bulk",
				open: async (page) => {
					for (const row of [1, 2]) await page.locator("tbody input").nth(row).check();
					await page.locator(".bulk [data-act=fail]").waitFor();
				},
			},
		},
	},
	job: {
		at: "/jobs/crawl/1", shows: ["crawler-", "silent", "defib requeue crawl/1"],
		over: { "an-act": { part: "dialog", open: async (page) => (await press(page, "Requeue")).getByText("1 applies").waitFor() } },
	},
	"job-held": { at: "/jobs/queue/57", shows: ["bomb.png", "put on hold"] },
	"job-order": { at: "/jobs/queue/3", shows: ["reserve", "charge", "ship", "lamp"] },
	workers: { at: "/workers", shows: ["encoder-1", "mailer-1", "resizer-1"] },
	ledger: { at: "/ledger", shows: ["imports", "crawl"] },
	alerts: {
		at: "/alerts", shows: ["brake_held", "render"],
		over: {
			"the-keys": {
				part: "dialog",
				open: async (page) => {
					await page.keyboard.press("?");
					await page.getByRole("dialog", { name: "Keyboard" }).waitFor();
				},
			},
		},
	},
	report: { at: "/report", shows: ["imports"] },
	health: {
		at: "/health", shows: ["main", "archive"],
		over: {
			"a-word": { part: "dialog", open: async (page) => (await press(page, "Pause")).getByLabel("For").waitFor() },
			"a-toast": {
				part: ".toasts",
				open: async (page) => {
					await page.keyboard.press("Escape");
					await (await press(page, "Scan now")).getByRole("button", { name: "Scan" }).click();
					await page.locator(".toast").waitFor();
				},
			},
		},
	},
};

const WIDE = { viewport: DESK, width: "1440" },
	NARROW = { viewport: PHONE, width: "390" };
const LOOKS = [{ scheme: "light", ...WIDE }, { scheme: "dark", ...NARROW }];
const ALL_LOOKS = [{ scheme: "light", ...WIDE }, { scheme: "dark", ...WIDE }, { scheme: "light", ...NARROW }, { scheme: "dark", ...NARROW }];

/* Rows of a table, and lines of a list, are alike: the first speak for all. */
const ALIKE = "tbody tr:nth-child(n+4), .finding:nth-child(n+4), .timeline li:nth-child(n+4)";

/* Colours, and what must scroll, are all that the dark and narrow differs in. */
const DIFFERS = ["color-contrast", "scrollable-region-focusable"];

async function violations(page, { scheme }, part) {
	const options = { resultTypes: ["violations"], ...(scheme === "dark" ? { runOnly: DIFFERS } : {}) };
	const found = await page.evaluate(([where, given]) => window.axe.run(where ?? document, given), [part, options]);
	return found.violations.map((v) => `${v.id} (${v.impact}): ${v.help}: ${v.nodes.slice(0, 4).map((n) => `${n.target.join(" ")} ${n.any[0]?.message ?? ""}`).join(" | ")}`);
}

async function turn(page, { scheme, viewport }) {
	await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
	await page.setViewportSize(viewport);
}

/* As all of it is first, for its width and its picture; then axe-core has what is not alike. */
async function look(page, name, part) {
	const looks = (PICTURES ? ALL_LOOKS : LOOKS).map((way) => ({ ...way, name: `${name} at ${way.width}, ${way.scheme}` }));
	for (const way of looks) {
		await turn(page, way);
		if (PICTURES) await page.screenshot({ path: `${PICTURES}/${name}-${way.width}-${way.scheme}.png`, fullPage: !part });
		way.sideways = await overflow(page);
	}
	await page.evaluate((alike) => { for (const one of document.querySelectorAll(alike)) one.remove(); }, ALIKE);
	for (const way of looks.toReversed()) {
		await turn(page, way);
		way.violations = await violations(page, way, part);
	}
	return looks;
}

async function visit(name, { at, shows, open, over = {} }) {
	const told = { problems: null, looks: [] };
	await withPage({}, async (page) => {
		await page.goto(at);
		await sees(page, ...shows);
		await settled(page);
		await open?.(page);
		await page.evaluate(AXE); /* not as a script element: the page's policy forbids it */
		told.looks.push(...await look(page, name, null));
		for (const [above, { part, open: raise }] of Object.entries(over)) {
			await raise(page);
			told.looks.push(...await look(page, above, part));
		}
	});
	return told;
}

async function tour() {
	const seen = {};
	if (PICTURES) mkdirSync(PICTURES, { recursive: true });
	for (const [name, view] of Object.entries(VIEWS)) seen[name] = await visit(name, view).catch((error) => ({ problems: error.message, looks: [] }));
	return seen;
}

let toured = null;

/* What was seen; the first test that asks waits for it. */
function seen() {
	toured ??= tour();
	return toured;
}

async function looks(scheme = null) {
	return Object.values(await seen()).flatMap((view) => view.looks).filter((one) => !scheme || one.scheme === scheme);
}

test("every view shows what was lost at its own address, and logs no error", async () => {
	none(Object.entries(await seen()).filter(([, view]) => view.problems).map(([name, view]) => `${name}: ${view.problems}`));
});

test("axe-core finds nothing in any view, light", async () => {
	none((await looks("light")).flatMap((one) => one.violations.map((v) => `${one.name}: ${v}`)));
});

test("axe-core finds nothing in any view, dark", async () => {
	none((await looks("dark")).flatMap((one) => one.violations.map((v) => `${one.name}: ${v}`)));
});

test("no view scrolls sideways, on a desk or on a phone", async () => {
	none((await looks()).filter((one) => one.sideways > 0).map((one) => `${one.name}: ${one.sideways} px`));
});
