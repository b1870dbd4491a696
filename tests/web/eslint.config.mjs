// SPDX-License-Identifier: Apache-2.0
// Rules that find mistakes, for the page's scripts, its tests, the benchmarks and the client.
// scripts/npm-install copies it beside the modules that it imports; scripts/lint runs it.
import js from "@eslint/js";
import globals from "globals";

const rules = {
	...js.configs.recommended.rules,
	eqeqeq: ["error", "always", { null: "ignore" }],
	"no-var": "error",
	"prefer-const": "error",
	"no-control-regex": "off", // texts of others are searched for them
	"no-unused-vars": ["error", { argsIgnorePattern: "^_", ignoreRestSiblings: true }],
};

function scripts(files, sourceType, ...environments) {
	const known = Object.assign({}, globals.es2021, ...environments);
	return { files, languageOptions: { sourceType, globals: known }, rules };
}

export default [
	scripts(["web/**/*.js"], "module", globals.browser),
	scripts(["tests/web/*.mjs", "bench/**/*.mjs"], "module", globals.browser, globals.node),
	scripts(["tests/node/*.js", "clients/node/lib/*.js"], "commonjs", globals.node),
	scripts(["clients/node/lib/*.mjs", "examples/**/*.js"], "module", globals.node),
];
