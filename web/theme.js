/*
 * theme.js: the colours that were chosen, set before anything is painted. It is no module,
 * because modules run late.
 */
(() => {
	const kept = localStorage.getItem("defib.theme");
	if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
})();
