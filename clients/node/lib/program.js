// SPDX-License-Identifier: Apache-2.0
// The program `defib`: where it is, how it is called, and its lines.
'use strict'

const { spawn } = require('node:child_process')
const { StringDecoder } = require('node:string_decoder')
const { UsageError, errorOf } = require('./errors.js')

const OUTPUT_MAX = 64 * 1024 * 1024

// The option, $DEFIB_BIN, then the PATH.
function programOf({ bin } = {}) {
	return bin || process.env.DEFIB_BIN || 'defib'
}

// A URL may hold a password: it is passed in the environment, which other users cannot read.
function environmentOf({ url, env } = {}) {
	return { ...process.env, ...env, ...(url === undefined ? {} : { DEFIB_DB: url }) }
}

function configOf({ config } = {}) {
	return config === undefined ? [] : ['-c', String(config)]
}

// The options that a call of this package takes; index.d.ts describes them.
const PROGRAM = ['bin', 'config', 'url', 'env', 'cwd']
const BESIDE = [...PROGRAM, 'log', 'quiet']
const MONITOR = [...BESIDE, 'watches', 'queue', 'work', 'listen']
const KNOWN = {
	Worker: [...BESIDE, 'queue', 'watch', 'kind', 'concurrency', 'handler', 'handlers', 'name', 'spool',
		'drain', 'startup', 'leaseMs', 'graceMs', 'pollMs', 'timeoutMs', 'clientTimeoutMs', 'exitWhenStuck',
		'waitForDatabase', 'monitor'],
	Monitor: MONITOR,
	Heartbeat: [...BESIDE, 'watch', 'key', 'step', 'metadata', 'worker', 'everyMs', 'tries', 'retryMs'],
	Watches: PROGRAM,
	scan: ['watch', 'fix', 'limit', 'remedy', 'reason', 'thresholdMs'],
	act: ['reason', 'step', 'dryRun', 'overrideGuard', 'runningOnly'],
	enqueue: [...PROGRAM, 'client', 'delayMs', 'priority', 'uniqueKey', 'maxAttempts', 'timeoutMs', 'tags',
		'spool'],
	Retry: ['afterMs'],
}

function distance(a, b) {
	let row = Array.from({ length: b.length + 1 }, (_, i) => i)
	for (let i = 1; i <= a.length; i++) {
		const next = [i]
		for (let k = 1; k <= b.length; k++) {
			const differs = a[i - 1].toLowerCase() === b[k - 1].toLowerCase() ? 0 : 1
			next.push(Math.min(row[k] + 1, next[k - 1] + 1, row[k - 1] + differs))
		}
		row = next
	}
	return row[b.length]
}

// A misspelt option would be ignored: the program would run with another setting than was written.
function checkOptions(what, options) {
	if (options === null || typeof options !== 'object') {
		throw new UsageError(`${what}: the options must be an object, not ${options}`)
	}
	for (const name of Object.keys(options)) {
		if (KNOWN[what].includes(name)) continue
		const near = KNOWN[what].map((one) => [distance(name, one), one]).sort((a, b) => a[0] - b[0])[0]
		const hint = near[0] <= Math.max(2, name.length / 3) ? `did you mean "${near[1]}"?`
			: `known are ${KNOWN[what].join(', ')}`
		throw new UsageError(`${what} has no option "${name}"; ${hint}`, { code: 'USAGE', next: hint })
	}
}

// Options of the program from an object: { lease: '15s' } becomes ['--lease', '15s'].
function optionsOf(given) {
	return Object.entries(given).flatMap(([name, value]) => {
		if (value === undefined || value === null || value === false) return []
		if (Array.isArray(value)) return value.flatMap((one) => [`--${name}`, String(one)])
		return value === true ? [`--${name}`] : [`--${name}`, String(value)]
	})
}

function milliseconds(name, value) {
	if (value === undefined || value === null) return undefined
	if (typeof value !== 'number' || !(value >= 0)) {
		throw new UsageError(`${name} must be a number of milliseconds, not ${value}`)
	}
	return `${Math.ceil(value)}ms`
}

function notStarted(program, why) {
	const hint = why.code === 'ENOENT' ? '; install defib, or set DEFIB_BIN' : ''
	return new UsageError(`cannot start ${program}: ${why.message}${hint}`)
}

// Run a command to its end. `accept`: exit codes that are answers.
function run(args, options = {}, { accept = [0], input } = {}) {
	const program = programOf(options)
	return new Promise((resolve, reject) => {
		const child = spawn(program, [...args, ...configOf(options)], {
			cwd: options.cwd, env: environmentOf(options), stdio: ['pipe', 'pipe', 'pipe'],
		})
		const texts = ['', '']
		const add = (i) => (text) => {
			texts[i] += text
			if (texts[i].length > OUTPUT_MAX) child.kill('SIGKILL')
		}
		child.stdout.setEncoding('utf8').on('data', add(0))
		child.stderr.setEncoding('utf8').on('data', add(1))
		child.stdin.on('error', () => {}) // it may end without reading
		child.stdin.end(input)
		child.on('error', (why) => reject(notStarted(program, why)))
		child.on('close', (code) => {
			const [out, err] = texts
			if (accept.includes(code)) resolve({ code, out, err })
			else reject(errorOf(code, err, `defib ${args[0]}`))
		})
	})
}

// Run a command with --json and return what it wrote, an array if there are several documents.
async function runJson(args, options, more) {
	const { code, out } = await run([...args, '--json'], options, more)
	const text = out.trim()
	if (text === '') return { code, value: null }
	try {
		return { code, value: JSON.parse(text) }
	} catch {
		return { code, value: text.split('\n').map((line) => JSON.parse(line)) }
	}
}

// Call `take` with each line of a stream.
function eachLine(stream, take) {
	const decoder = new StringDecoder('utf8')
	let rest = ''
	stream.on('data', (bytes) => {
		const lines = (rest + decoder.write(bytes)).split('\n')
		rest = lines.pop()
		for (const line of lines) if (line !== '') take(line)
	})
}

// A line of the log as an object; a line that is not JSON is a message.
function entryOf(line) {
	try {
		return JSON.parse(line)
	} catch {
		return { level: 'error', msg: line }
	}
}

module.exports = {
	KNOWN, checkOptions, programOf, environmentOf, configOf, optionsOf, milliseconds, notStarted, run,
	runJson, eachLine, entryOf,
}
