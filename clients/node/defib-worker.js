// A worker in Node over defib's SQL functions (docs/clients.md). Needs pg.
//
//	const { Worker, Retry, Permanent } = require('./defib-worker')
//	const worker = await Worker.start('postgres://…', 'mail')
//	await worker.run({ send: async (job) => {
//		await job.beat('connect', '1 of 2')
//		return { sent: job.payload.to }
//	} })
//
// Two sessions: one for jobs, one that renews the lease. What was taken from this worker
// throws LeaseLost, at the next beat or when the job is settled; its effects must then not
// be committed.
'use strict'

const { Client } = require('pg')
const { randomUUID } = require('crypto')
const os = require('os')

const DEAD = 'DFB01' // SQLSTATE: this worker was declared dead, or has left

class LeaseLost extends Error {}
class Cancelled extends Error {}
class Permanent extends Error {}
class Retry extends Error {
	constructor(why, delayMs = null) {
		super(why)
		this.delayMs = delayMs
	}
}

class Job {
	constructor(worker, row) {
		this.worker = worker
		// bigint arrives as a string, and goes back as one: no number is rounded.
		Object.assign(this, row)
	}

	// Record step and progress; throws LeaseLost or Cancelled when it is time to stop.
	async beat(step = null, progress = null) {
		const [row] = await this.worker.query(
			'SELECT accepted, cancelling FROM defib.beat($1, ARRAY[$2]::bigint[], ' +
			'ARRAY[$3]::bigint[], ARRAY[$4]::text[], ARRAY[$5]::text[])',
			[this.worker.id, this.id, this.epoch, step, progress])
		if (!row.accepted) throw new LeaseLost(`job ${this.id}`)
		if (row.cancelling) throw new Cancelled(`job ${this.id}`)
	}

	// Record how it ended; throws LeaseLost when that was refused.
	async settle(outcome, { result = null, error = null, delayMs = null } = {}) {
		const json = result === null || result === undefined ? null : JSON.stringify(result)
		const [row] = await this.worker.query(
			'SELECT accepted FROM defib.settle($1, ARRAY[$2]::bigint[], ARRAY[$3]::bigint[], ' +
			'ARRAY[$4]::text[], ARRAY[$5]::jsonb[], ARRAY[$6]::text[], ARRAY[$7]::bigint[])',
			[this.worker.id, this.id, this.epoch, outcome, json, error, delayMs])
		if (!row.accepted) throw new LeaseLost(`job ${this.id}`)
	}
}

class Worker {
	static async start(url, queue, { name, leaseMs = 15000, pollMs = 1000 } = {}) {
		const worker = new Worker()
		Object.assign(worker, { queue, leaseMs, pollMs, ended: false, lost: false, wake: null })
		worker.session = await worker.connect(url)
		worker.life = await worker.connect(url)
		// New at every start: a worker that was declared dead is never taken for this one.
		const incarnation = `node/${os.hostname()}/${process.pid}/${randomUUID()}`
		const [row] = await worker.query('SELECT defib.register($1, $2, $3) AS id',
			[name || `${os.hostname()}-${queue}`, incarnation, leaseMs])
		worker.id = row.id
		worker.session.on('notification', () => worker.wake && worker.wake())
		await worker.query('LISTEN defib')
		worker.timer = setInterval(() => worker.renew(), leaseMs / 3)
		return worker
	}

	async connect(url) {
		const client = new Client({ connectionString: url })
		// A lost session is seen by the next query; without this it would end the process.
		client.on('error', () => { this.lost = true })
		await client.connect()
		return client
	}

	async query(sql, params = [], client = this.session) {
		try {
			return (await client.query(sql, params)).rows
		} catch (error) {
			if (error.code !== DEAD) throw error
			this.lost = true
			throw new LeaseLost(error.message)
		}
	}

	async renew() {
		try {
			await this.query('SELECT defib.renew($1, 1)', [this.id], this.life)
		} catch {
			// Whatever is in hand is fenced by now, or soon; the next write will say so.
			this.lost = true
		}
	}

	async claim(n = 1) {
		await this.query('SELECT defib.promote(1000)')
		const rows = await this.query('SELECT * FROM defib.claim($1, $2, $3)',
			[this.id, this.queue, n])
		return rows.map((row) => new Job(this, row))
	}

	async runOne(job, handlers) {
		try {
			if (!handlers[job.kind]) throw new Permanent(`no handler for kind ${job.kind}`)
			await job.settle('done', { result: await handlers[job.kind](job) })
		} catch (why) {
			if (why instanceof LeaseLost) throw why
			if (why instanceof Cancelled) return job.settle('stopped')
			const outcome = why instanceof Retry ? 'retry'
				: why instanceof Permanent ? 'permanent' : 'failed'
			await job.settle(outcome, { error: String(why.message || why), delayMs: why.delayMs ?? null })
		}
	}

	// Until stop(), or until nothing is left when `drain`. Throws LeaseLost when fenced.
	async run(handlers, { drain = false } = {}) {
		while (!this.ended) {
			if (this.lost) throw new LeaseLost(`worker ${this.id}`)
			const jobs = await this.claim()
			for (const job of jobs) await this.runOne(job, handlers)
			if (jobs.length === 0 && drain) return
			if (jobs.length === 0) await this.wait()
		}
	}

	// A notification is a hint, the poll is the guarantee.
	wait() {
		return new Promise((resolve) => {
			const timer = setTimeout(resolve, this.pollMs)
			this.wake = () => { clearTimeout(timer); resolve() }
		})
	}

	// End after the job in hand.
	stop() {
		this.ended = true
		if (this.wake) this.wake()
	}

	// Leave: nobody needs to notice our death.
	async close() {
		this.stop()
		clearInterval(this.timer)
		if (!this.lost) await this.query('SELECT defib.leave($1)', [this.id])
		await this.session.end()
		await this.life.end()
	}
}

module.exports = { Worker, Job, LeaseLost, Cancelled, Retry, Permanent }
