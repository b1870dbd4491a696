// SPDX-License-Identifier: Apache-2.0
/* headings.mjs: the words of a page that do not depend on its data: navigation and headings. */
export async function headings(page) {
	return page.evaluate(() => ({
		navigation: [...document.querySelectorAll("nav a")].map((a) => (a.querySelector("span")?.innerText ?? a.innerText).trim()),
		headings: [...document.querySelectorAll("main h2")].map((h) => h.innerText.trim().replace(/[\d,]+/g, "N")),
	}));
}
