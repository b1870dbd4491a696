// SPDX-License-Identifier: Apache-2.0
/*
 * errand.js: what is begun and not waited for: by a button, an event, a timer. It ends with
 * the view that began it: an answer that is cut off because the view was left is the normal
 * end, and nobody is told. A Problem is told; anything else is a fault of this page and
 * stays one.
 *
 *   onclick: () => errand(() => view.more(), signal)
 *   errand(() => view.refresh(), signal, QUIETLY)        the frame says what is away
 */
import { Problem } from "./api.js";
import { user } from "./dom.js";
import { toast } from "./toast.js";

/* Whether an error is no more than the end of the view whose signal this is. */
export function isEnd(error, signal) {
	return Boolean(signal?.aborted) && (error instanceof Problem || error.name === "AbortError");
}

export function atTheFoot(problem) {
	toast([user(problem.detail), problem.next ? [". ", user(problem.next)] : null], {
		shade: "bad",
	});
}

export const QUIETLY = () => {};

/* Does async work() until the signal ends; tell(problem) where it could not. */
export async function errand(work, signal = null, tell = atTheFoot) {
	try {
		await work();
	} catch (error) {
		if (isEnd(error, signal)) return;
		if (!(error instanceof Problem)) throw error;
		tell(error);
	}
}

/* What a view can do without: null where the daemon has a problem with it. */
export async function orNothing(promise) {
	try {
		return await promise;
	} catch (error) {
		if (!(error instanceof Problem)) throw error;
		return null;
	}
}
