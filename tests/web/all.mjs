// SPDX-License-Identifier: Apache-2.0
/*
 * all.mjs: the browser tests, in one process, so that they share a browser. They run in
 * this order: the tour sees the wreckage before anybody mends it, and the last stops the
 * server.
 */
import { after, before } from "node:test";
import { closeBrowser, launch } from "./browser.mjs";

before(launch);
after(closeBrowser);

for (const name of ["tour", "night", "frame", "leave", "rooms", "acts", "tabs", "hostile", "charts", "away"]) await import(`./${name}.mjs`);
