// SPDX-License-Identifier: Apache-2.0
// A worker: `defib work --lines` claims, renews leases, recovers and settles; handlers run here.
'use strict'

const { Beside } = require('./beside.js')
const { Monitor } = require('./monitor.js')
const { Cancelled, LostLease, Permanent, Retry, UsageError } = require('./errors.js')
const { checkOptions, milliseconds, optionsOf } = require('./program.js')

const RESULT_MAX = 1024 * 1024

// A job, for its handler.
class Job {
	#worker
	#controller = new AbortController()

	constructor(worker, line) {
		this.#worker = worker
		this.run = line.run
		this.queue = line.queue // or the watch
		this.key = line.key // of a composite key, a JSON array of its parts
		this.kind = line.kind
		this.payload = line.payload // of a row: its columns
		this.epoch = line.epoch // rises with every claim of the job
		this.token = line.token // unique to this claim, for effects that must not happen twice
		this.attempt = line.attempt
		this.maxAttempts = line.max_attempts
		this.timeoutMs = line.timeout_ms
		this.step = line.step // the last one that an earlier attempt reported
	}

	// Aborted when the job must stop; its reason is a LostLease or Cancelled.
	get signal() { return this.#controller.signal }
	get shouldStop() { return this.signal.aborted }
	// The job no longer belongs to this worker.
	get lost() { return this.signal.reason instanceof LostLease }

	// Throw LostLease or Cancelled if the handler should stop.
	check() { this.signal.throwIfAborted() }

	// Report progress; never waits. Throws as check() does.
	progress(step = null, text = null) {
		this.check()
		this.#worker.say({ do: 'progress', run: this.run, step, text })
	}

	// Ask for more time: the time limit is then so long from now.
	extend(ms) {
		this.check()
		this.#worker.say({ do: 'extend', run: this.run, ms })
	}

	// For the worker.
	abort(reason) { this.#controller.abort(reason) }
}

function lostOf(job) {
	return new LostLease(`job ${job.key} no longer belongs to this worker`)
}

function text(value) {
	// A text column holds no NUL.
	return String(value).replaceAll('\0', '')
}

// What a handler's return value says to the worker.
function done(job, value) {
	if (value === undefined || value === null) return `{"do":"done","run":${job.run}}`
	const json = JSON.stringify(value) ?? 'null'
	if (Buffer.byteLength(json) > RESULT_MAX) {
		throw new Error(`result of more than ${RESULT_MAX} bytes`)
	}
	return `{"do":"done","run":${job.run},"result":${json}}`
}

// What an exception of a handler says to the worker.
function failed(job, why) {
	if (why instanceof Retry) {
		return { do: 'retry', run: job.run, error: text(why.message), delay_ms: why.afterMs }
	}
	if (why instanceof Permanent) return { do: 'permanent', run: job.run, error: text(why.message) }
	const asked = job.shouldStop && (why === job.signal.reason || why?.name === 'AbortError')
	if (asked || why instanceof Cancelled || why instanceof LostLease) {
		return { do: 'stopped', run: job.run }
	}
	const said = why instanceof Error ? `${why.name}: ${why.message}` : why
	return { do: 'failed', run: job.run, error: text(said) }
}

class Worker extends Beside {
	#runs = new Map()
	#out = []
	#scheduled = false

	constructor(options) {
		checkOptions('Worker', options)
		super(options)
		if (options.monitor && options.monitor !== true) checkOptions('Monitor', options.monitor)
		const { queue, watch, handler, handlers } = options
		if (!!handler === !!handlers) throw new UsageError('give a handler, or handlers by kind')
		if (queue !== undefined && watch !== undefined) {
			throw new UsageError('give a queue or a watch; a worker works on one of them')
		}
		this.name = options.name
		this.counts = { settled: 0, refused: 0, spooled: 0, abandoned: 0 }
	}

	args() {
		const o = this.options
		return ['work', ...(o.watch === undefined ? [] : [o.watch]), '--lines', ...optionsOf({
			queue: o.watch === undefined ? o.queue ?? 'default' : undefined,
			kind: o.kind,
			concurrency: o.concurrency,
			name: o.name,
			spool: o.spool === false ? 'off' : o.spool,
			drain: o.drain,
			'no-startup': o.startup === false,
			poll: milliseconds('pollMs', o.pollMs),
			timeout: milliseconds('timeoutMs', o.timeoutMs),
			grace: milliseconds('graceMs', o.graceMs),
			lease: milliseconds('leaseMs', o.leaseMs),
			'client-timeout': o.clientTimeoutMs === 0 ? 'off'
				: milliseconds('clientTimeoutMs', o.clientTimeoutMs),
		})]
	}

	// Jobs that handlers run now.
	get holding() { return this.#runs.size }

	// ---- lines

	// Everything that is said in one turn of the event loop is one write.
	say(line) {
		this.#out.push(typeof line === 'string' ? line : JSON.stringify(line))
		if (this.#scheduled) return
		this.#scheduled = true
		setImmediate(() => {
			this.#scheduled = false
			const lines = this.#out.join('\n')
			this.#out = []
			if (this.child && lines !== '') this.child.stdin.write(`${lines}\n`)
		})
	}

	heard(text) {
		const line = JSON.parse(text)
		switch (line.is) {
		case 'job':
			this.#begin(new Job(this, line))
			break
		case 'ping':
			this.say({ do: 'pong' })
			break
		case 'stop':
			this.#stopJob(this.#runs.get(line.run)?.job, line.because)
			break
		case 'stuck':
			this.#stuck(this.#runs.get(line.run)?.job)
			break
		case 'refused':
			this.emit('refused', { queue: line.queue, key: line.key, epoch: line.epoch })
			break
		case 'ready':
			this.name = line.worker
			this.version = line.version
			this.ready()
			this.emit('ready')
			break
		case 'end':
			for (const name of Object.keys(this.counts)) this.counts[name] += line[name]
			this.finished = true
			break
		case 'error':
			this.emit('warning', new UsageError(`defib did not accept a line: ${line.message}`))
			break
		default: // "stopping", and what later versions add
		}
	}

	// ---- jobs

	#handlerOf(job) {
		const { handler, handlers } = this.options
		const found = handler || (Object.hasOwn(handlers, job.kind) ? handlers[job.kind] : null)
		if (!found) throw new Permanent(`no handler for kind ${job.kind}`)
		return found
	}

	#begin(job) {
		const child = this.child
		const over = this.#outcome(job).then((line) => {
			this.#runs.delete(job.run)
			// What a process that has ended gave us is not for the next one.
			if (this.child === child) this.say(line)
		})
		this.#runs.set(job.run, { job, over })
	}

	async #outcome(job) {
		try {
			return done(job, await this.#handlerOf(job)(job))
		} catch (why) {
			return failed(job, why)
		}
	}

	#stopJob(job, because) {
		if (!job) return
		if (because === 'lost') {
			job.abort(lostOf(job))
			this.emit('lost', job)
			return
		}
		job.abort(new Cancelled(`job ${job.key} was asked to stop: ${because}`, because))
	}

	// Its handler was asked to stop and did not within the grace. It keeps the job until this
	// process ends, because it cannot be killed alone.
	#stuck(job) {
		if (!job) return
		if (this.options.exitWhenStuck) process.exit(70)
		this.emit('stuck', job)
	}

	// ---- the end

	// The jobs are lost with the process that had claimed them. The next one is started when their
	// handlers have ended, or after the grace.
	async left(_why) {
		const runs = [...this.#runs.values()]
		this.#runs.clear()
		for (const { job } of runs) {
			if (!job.lost) {
				job.abort(lostOf(job))
				this.emit('lost', job)
			}
		}
		let timer
		const grace = new Promise((resolve) => {
			timer = setTimeout(resolve, this.options.graceMs ?? 30000)
		})
		await Promise.race([Promise.all(runs.map((run) => run.over)), grace])
		clearTimeout(timer)
	}

	mayEnd() { return this.finished === true }

	// With its monitor, if it has one: both start and stop together.
	async start() {
		const { monitor, bin, config, url, env, cwd, log, quiet } = this.options
		const starts = [super.start()]
		if (monitor) {
			this.monitor = new Monitor({ bin, config, url, env, cwd, log, quiet,
				...(monitor === true ? {} : monitor) })
			starts.push(this.monitor.start())
			this.ended.then(() => this.monitor.stop())
		}
		try {
			await Promise.all(starts)
		} catch (why) {
			this.stop()
			throw why
		}
		return this
	}

	// The process ends when its jobs are settled; then there is nothing more to say to it.
	ask() {
		this.say({ do: 'stop' })
	}

	// Start, and work until stop(), SIGTERM or SIGINT; a second signal releases jobs at once.
	async run() {
		const stop = () => { this.stop() }
		process.on('SIGTERM', stop)
		process.on('SIGINT', stop)
		try {
			await this.start()
			await this.ended
		} finally {
			process.off('SIGTERM', stop)
			process.off('SIGINT', stop)
		}
		return this.counts
	}
}

module.exports = { Worker, Job }
