// SPDX-License-Identifier: Apache-2.0
/*
 * early.js: what must run before the modules, and so is not one: it sets the chosen colours before
 * anything is painted, and tries again if a module could not be fetched (a daemon that was just
 * restarted, a connection that was cut): without that, the page would stay empty.
 */
(() => {
	const kept = localStorage.getItem("defib.theme");
	if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;

	const TRIES = 5;
	const tries = Number(sessionStorage.getItem("defib.tries"));
	const again = (event) => {
		if (!(event.target instanceof HTMLScriptElement) || tries >= TRIES) return;
		sessionStorage.setItem("defib.tries", tries + 1);
		setTimeout(() => location.reload(), 500 * 2 ** tries);
	};
	addEventListener("error", again, true); /* errors of elements do not bubble */
	addEventListener("load", () => document.querySelector("#nav a") && sessionStorage.removeItem("defib.tries"));
})();
