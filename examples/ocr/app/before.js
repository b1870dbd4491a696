// SPDX-License-Identifier: Apache-2.0
// The OCR worker as it was: it marks a row, reads the document, and writes what it read. If it is
// killed in between, the row stays at 6 and no worker takes it again.
import pg from 'pg'
import { setTimeout as pause } from 'node:timers/promises'
import { readDocument } from './ocr.js'

const STATUS = { COMPLETE: 3, EXTRACTION_COMPLETE: 5, OCR_PROCESSING: 6 }
const client = new pg.Client({ connectionString: process.env.DATABASE_URL })
await client.connect()

async function claim() {
	const { rows } = await client.query(
		`UPDATE extraction_queue SET status_id = $1, ocr_worker_id = 'ocr-monitor-1',
		        ocr_started_at = now(), ocr_attempts = ocr_attempts + 1
		 WHERE id = (SELECT id FROM extraction_queue WHERE status_id = $2 AND file_content IS NULL
		             AND document_source = 'index' AND ocr_attempts < ocr_max_attempts
		             ORDER BY updated_at LIMIT 1 FOR UPDATE SKIP LOCKED)
		 RETURNING *`, [STATUS.OCR_PROCESSING, STATUS.COMPLETE])
	return rows[0]
}

for (;;) {
	const document = await claim()
	if (!document) {
		await pause(500)
		continue
	}
	console.log(`reading ${document.id}`)
	try {
		const { text, boosted } = await readDocument(document)
		await client.query(
			`UPDATE extraction_queue SET file_content = $2, boosted_file_content = $3, status_id = $4,
			        ocr_completed_at = now(), ocr_error = NULL, updated_at = now() WHERE id = $1`,
			[document.id, text, boosted, STATUS.EXTRACTION_COMPLETE])
	} catch (why) {
		await client.query(
			`UPDATE extraction_queue SET status_id = $2, ocr_worker_id = NULL, ocr_error = $3,
			        ocr_last_error_at = now(), updated_at = now() WHERE id = $1`,
			[document.id, STATUS.COMPLETE, why.message])
	}
}
