// SPDX-License-Identifier: Apache-2.0
/*
 * errand.js: work that is started and not waited for: by a button, an event, a timer. It ends
 * with the view that started it: an answer that is cut off because the view was left is a normal
 * end and is not reported. A Problem is reported; any other error is a bug of this page and is
 * thrown.
 *
 *   onclick: () => errand(() => view.more(), signal)
 *   errand(() => view.refresh(), signal, QUIETLY)        the frame shows what is unavailable
 */
import { Problem } from "./api.js";
import { user } from "./dom.js";
import { toast } from "./toast.js";

/* Whether an error is only the end of the view whose signal this is. */
export function isEnd(error, signal) {
	return Boolean(signal?.aborted) && (error instanceof Problem || error.name === "AbortError");
}

export function atTheFoot(problem) {
	toast([user(problem.detail), problem.next ? [". ", user(problem.next)] : null], {
		shade: "bad",
	});
}

export const QUIETLY = () => {};

/* Does async work() until the signal ends; tell(problem) if it failed. */
export async function errand(work, signal = null, tell = atTheFoot) {
	try {
		await work();
	} catch (error) {
		if (isEnd(error, signal)) return;
		if (!(error instanceof Problem)) throw error;
		tell(error);
	}
}

/* Data that a view can do without: null if the daemon has a problem with it. */
export async function orNothing(promise) {
	try {
		return await promise;
	} catch (error) {
		if (!(error instanceof Problem)) throw error;
		return null;
	}
}
