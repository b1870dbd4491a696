// SPDX-License-Identifier: Apache-2.0
// Reads one document. It stands for the download of the PDF and the model that reads it, which take
// OCR_MS milliseconds; `signal` ends them.
import { setTimeout as pause } from 'node:timers/promises'

export async function readDocument({ id, document_number: number }, signal) {
	await pause(Number(process.env.OCR_MS || 1000), null, { signal })
	if (number === 'unreadable') throw new Error('the model found no text')
	return { text: `text of ${id}`, boosted: `better text of ${id}` }
}
