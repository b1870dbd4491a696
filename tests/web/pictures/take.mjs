// SPDX-License-Identifier: Apache-2.0
/*
 * take.mjs FOLDER JOB: the screenshots of README.md, of the page at $DEFIB_URL; JOB is one of
 * the queue. Prints the headings of each as JSON (scripts/pictures).
 */
import { closeBrowser, settled, withPage } from "../browser.mjs";
import { headings } from "./headings.mjs";

const [folder, job] = process.argv.slice(2);
const VIEWS = [
	{ name: "overview.png", at: "/", scheme: "light" },
	{ name: "job.png", at: `/jobs/queue/${job.replace(/^queue\//, "")}`, scheme: "dark" },
];

const shown = {};
for (const { name, at, scheme } of VIEWS) {
	await withPage({ role: null, scheme }, async (page) => {
		await page.setViewportSize({ width: 1200, height: 760 });
		await page.goto(at);
		await settled(page);
		await page.waitForTimeout(1500); /* live figures arrive */
		shown[name] = await headings(page);
		await page.screenshot({ path: `${folder}/${name}` });
	});
}
await closeBrowser();
console.log(JSON.stringify(shown, null, 1));
