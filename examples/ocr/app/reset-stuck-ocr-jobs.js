// SPDX-License-Identifier: Apache-2.0
// npm run reset-stuck-ocr-jobs [-- --job-id ID]: reset all stuck documents, or show one.
import { parseArgs } from 'node:util'
import { NotFound, Watches } from 'defib'

const config = process.env.DEFIB_CONFIG || new URL('../defib.yaml', import.meta.url).pathname
const watches = new Watches({ config })
const { values } = parseArgs({ options: { 'job-id': { type: 'string' } } })

async function show(id) {
	try {
		const job = await watches.status('ocr', id)
		console.log(job.sentence)
		console.log(`   Status: ${job.state_name} (${job.state})`)
		console.log(`   OCR Attempts: ${job.attempts} of ${job.max_attempts}`)
		console.log(`   OCR Error: ${job.row.ocr_error ?? 'none'}`)
	} catch (why) {
		if (!(why instanceof NotFound)) throw why
		console.log(`There is no job ${id}`)
		process.exitCode = 1
	}
}

async function reset() {
	const { watches: environments, recovered } = await watches.scan({ fix: true })
	for (const environment of environments) {
		console.log(`Checking ${environment.database} environment…`)
		if (environment.error) console.log(`   not available: ${environment.error}`)
		for (const job of environment.jobs) {
			console.log(`   - Job ID: ${job.key}`)
			console.log(`     OCR Worker: ${job.owner}`)
			console.log(`     OCR Started: ${job.evidence.started_at}`)
			console.log(`     OCR Attempts: ${job.attempt}`)
			console.log(`     Document: ${job.evidence.document_source} - ${job.evidence.document_number}`)
		}
		console.log(`Reset ${environment.recovered} stuck OCR job(s) in ${environment.database}, `
			+ `${environment.held} left for an operator`)
	}
	console.log(`Total stuck OCR jobs reset: ${recovered}`)
}

await (values['job-id'] === undefined ? reset() : show(values['job-id']))
