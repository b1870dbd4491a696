// SPDX-License-Identifier: Apache-2.0
// The OCR worker and its monitor, for both environments of ../defib.yaml. They start and stop
// together; an environment that is down is waited for and does not disturb the other.
import { startMonitor, Worker } from 'defib'
import { readDocument } from './ocr.js'

const config = process.env.DEFIB_CONFIG || new URL('../defib.yaml', import.meta.url).pathname
const handler = (job) => {
	console.log(`reading ${job.key} of ${job.queue}`)
	return readDocument(job.payload, job.signal)
}

const monitor = await startMonitor({ config })
const workers = ['ocr', 'ocr-staging'].map((watch) =>
	new Worker({ watch, config, handler, waitForDatabase: true }))
await Promise.all(workers.map((worker) => worker.run()))
await monitor.stop()
