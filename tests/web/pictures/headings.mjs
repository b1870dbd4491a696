// SPDX-License-Identifier: Apache-2.0
/* headings.mjs: the words of a page that do not depend on its data: navigation and headings. */
export async function headings(page) {
	return page.evaluate(() => ({
		navigation: [...document.querySelectorAll("nav a")].map((a) => {
			const plain = a.cloneNode(true);
			plain.querySelector(".badge")?.remove();
			return plain.textContent.trim();
		}),
		/* Up to the first number. */
		headings: [...document.querySelectorAll("main h2")].map((h) => h.innerText.trim().replace(/\s*\d.*$/s, "")),
	}));
}
