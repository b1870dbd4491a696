// SPDX-License-Identifier: Apache-2.0
// Reads one document. It stands for the download of the PDF and the model that reads it, which take
// OCR_MS milliseconds; `signal` ends them. With OCR_EAT they take all memory.
import { setTimeout as pause } from 'node:timers/promises'

export async function readDocument({ id, document_number: number }, signal) {
	await pause(Number(process.env.OCR_MS || 1000), null, { signal })
	const pages = []
	while (process.env.OCR_EAT && pages.length < 512) pages.push(Buffer.alloc(1 << 20, 1))
	if (number === 'unreadable') throw new Error('the model found no text')
	return { text: `text of ${id}`, boosted: `better text of ${id}` }
}
