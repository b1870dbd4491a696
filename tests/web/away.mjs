// SPDX-License-Identifier: Apache-2.0
/*
 * away.mjs: the database goes away under the page, which says so, keeps what it knew, and
 * heals by itself. It runs last: the server comes back as another.
 */
import assert from "node:assert/strict";
import { order, sees, settled, test, until, withPage } from "./browser.mjs";

test("a database that is away is told with the age of what is shown, and the page heals itself", async () => {
	await withPage({}, async (page) => {
		await page.goto("/jobs?watch=crawl");
		await settled(page);
		await order("stop-server");
		try {
			await page.locator("#banners").getByText("Database main is unreachable").waitFor({ timeout: 30000 });
			await until(page, () => /data is from \d{4}-/.test(document.getElementById("banners").innerText));
			assert.ok(await page.locator("main tbody tr").count() > 0, "what was known is gone");
			await page.goto("/stuck");
			await page.locator("#banners").getByText("Database main is unreachable").waitFor();
		} finally {
			await order("start-server");
		}
		await page.locator("#banners").getByText("Database main is unreachable").waitFor({ state: "detached", timeout: 30000 });
		await sees(page, "crawler-0");
	});
});
