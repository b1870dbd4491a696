// SPDX-License-Identifier: Apache-2.0
import { EventEmitter } from 'node:events'

/** An entry of defib's log. */
export interface LogEntry { level: string; msg: string; [name: string]: unknown }

/** How the program `defib` is found and called. */
export interface ProgramOptions {
	/** The program; default: $DEFIB_BIN, then `defib` in the PATH. */
	bin?: string
	/** The configuration; default: $DEFIB_CONFIG, then ./defib.yaml. */
	config?: string
	/** The database, if the configuration does not name it. Passed in the environment. */
	url?: string
	/** Variables besides those of this process. */
	env?: Record<string, string>
	cwd?: string
}

export interface BesideOptions extends ProgramOptions {
	/** Receives each entry of its log; default: the log goes to standard error. */
	log?: (entry: LogEntry) => void
	/** Only errors in the log. */
	quiet?: boolean
}

export class DefibError extends Error {
	/** The class of the error ("LEASE_LOST"), or ''. */
	code: string
	/** What to do, or ''. */
	next: string
	exitCode: number | null
}
export class UsageError extends DefibError {}
export class ConfigError extends DefibError {}
export class ConnectionLost extends DefibError {}
export class Refused extends DefibError {}
export class NotFound extends DefibError {}
/** The job no longer belongs to this worker: nothing that its handler returns will be accepted. */
export class LostLease extends DefibError {}
/** The job was asked to stop. */
export class Cancelled extends Error {
	because: 'cancelled' | 'timeout' | 'shutdown'
}
/** Thrown by a handler: run the job again later. Attempts limit rows of a watch, not the queue. */
export class Retry extends Error {
	constructor(message: string, options?: { afterMs?: number | null })
	afterMs: number | null
}
/** Thrown by a handler: a retry cannot fix it. */
export class Permanent extends Error {}

export class Job<Payload = any> {
	private constructor()
	/** The queue, or the watch. */
	readonly queue: string
	/** Of a composite key: a JSON array of its parts. */
	readonly key: string
	readonly kind: string | null
	/** The payload of a job; of a row, its columns. */
	readonly payload: Payload
	/** Rises with every claim of the job. */
	readonly epoch: number
	/** Unique to this claim, for effects that must not happen twice. */
	readonly token: string
	readonly attempt: number
	readonly maxAttempts: number
	/** 0: none. */
	readonly timeoutMs: number
	/** The last step that an earlier attempt reported. */
	readonly step: string | null
	/** Aborted when the job must stop; its reason is a LostLease or Cancelled. */
	readonly signal: AbortSignal
	readonly shouldStop: boolean
	readonly lost: boolean
	/** Throws LostLease or Cancelled if the handler should stop. */
	check(): void
	/** Reports progress; never waits. Throws as check() does. */
	progress(step?: string | null, text?: string | null): void
	/** Asks for more time: the time limit is then so long from now. */
	extend(ms: number): void
}

/** What it returns is the job's result. */
export type Handler<Payload = any> = (job: Job<Payload>) => unknown

export interface Counts { settled: number; refused: number; spooled: number; abandoned: number }

export interface WorkerOptions extends BesideOptions {
	/** A queue of defib; default: 'default'. */
	queue?: string
	/** Instead of a queue: rows of a table of your own, as `work` of this watch says. */
	watch?: string
	/** Only jobs of this kind. */
	kind?: string
	/** How many jobs run at the same time; default 1, or as the watch says. */
	concurrency?: number
	/** Runs every job; or … */
	handler?: Handler
	/** … one handler per kind. */
	handlers?: Record<string, Handler>
	/** The worker's stable name; default: host and queue. */
	name?: string
	/** Directory for results while the database is unavailable; false: none. */
	spool?: string | false
	/** End when there is nothing left to claim. */
	drain?: boolean
	/** false: no cleanup after dead instances. */
	startup?: boolean
	leaseMs?: number
	/** How long handlers may take to stop. */
	graceMs?: number
	pollMs?: number
	/** Time limit of jobs that have none of their own. */
	timeoutMs?: number
	/** How long this process may be blocked with jobs in hand; default one minute, 0: any time. */
	clientTimeoutMs?: number
	/** End this process with code 70 if a handler does not stop when it is asked to. */
	exitWhenStuck?: boolean
	/** start() waits until the database can be reached and has its tables, instead of failing. */
	waitForDatabase?: boolean
	/** Also run the daemon, from start() to the end of the worker. */
	monitor?: boolean | MonitorOptions
}

declare abstract class Beside<Options> extends EventEmitter {
	constructor(options: Options)
	/** Resolves when it runs. */
	start(): Promise<this>
	/** Resolves when it has ended. */
	stop(): Promise<number | null>
	/** Resolves when it has ended. */
	readonly ended: Promise<number | null>
}

/**
 * Events: 'ready'; 'lost' (job) when a job is another worker's; 'refused' ({queue, key, epoch}) when
 * a result came too late; 'stuck' (job) when a handler does not stop; 'restart' ({why, afterMs});
 * 'warning' (error).
 */
export class Worker extends Beside<WorkerOptions> {
	readonly name?: string
	readonly counts: Counts
	/** Jobs that handlers run now. */
	readonly holding: number
	readonly monitor?: Monitor
	/** Works until stop(), SIGTERM or SIGINT; a second signal releases jobs at once. */
	run(): Promise<Counts>
}

export interface MonitorOptions extends BesideOptions {
	/** Only these watches; default: all. */
	watches?: string[]
	/** Also the built-in queue. */
	queue?: boolean
	/** Also run the workers of the watches, each as a process. */
	work?: boolean
	/** Serve HTTP at this address. */
	listen?: string
}
/** The daemon beside this process. Events: 'restart' ({why, afterMs}). */
export class Monitor extends Beside<MonitorOptions> {}
export function startMonitor(options?: MonitorOptions): Promise<Monitor>

export interface HeartbeatOptions extends BesideOptions {
	watch: string
	key: unknown
	step?: string | null
	metadata?: Record<string, unknown> | null
	/** A name; default: host and process. */
	worker?: string
	/** Default: the watch's `beat`, else 30 s. */
	everyMs?: number
	/** Attempts per heartbeat; 4, `retryMs` (5000) apart. */
	tries?: number
	retryMs?: number
}
/** Signs of life of a row that your own code works on. Events: 'lost', 'failed' (error). */
export class Heartbeat extends EventEmitter {
	constructor(options: HeartbeatOptions)
	/** Writes the first heartbeat, which may fail, and begins. */
	start(): Promise<this>
	/** Another step, and other metadata; written at once. */
	step(step: string | null, metadata?: Record<string, unknown> | null): void
	/** Aborted when the row is another worker's. */
	readonly signal: AbortSignal
	readonly lost: boolean
	check(): void
	stop(): Promise<void>
	/** Runs a function between start() and stop(). */
	static during<T>(options: HeartbeatOptions, work: (beat: Heartbeat) => Promise<T> | T): Promise<T>
}

export interface ScanOptions {
	watch?: string | string[]
	/** Recover what is found. */
	fix?: boolean
	limit?: number
	remedy?: string
	reason?: string
	thresholdMs?: number
}
export interface Scanned {
	watches: Array<{
		watch: string; database: string; found: number; recovered: number; held: number
		error: string | null; jobs: Array<Record<string, any>>; [name: string]: any
	}>
	found: number
	recovered: number
	held: number
	[name: string]: any
}
export interface ActOptions {
	reason?: string
	step?: string
	dryRun?: boolean
	overrideGuard?: boolean
	/** Leave out jobs that wait or have ended, for a result that may come late. */
	runningOnly?: boolean
}

export class Watches {
	constructor(options?: ProgramOptions)
	scan(options?: ScanOptions): Promise<Scanned>
	act(watch: string, act: string, keys: unknown, options?: ActOptions): Promise<Record<string, any>>
	/** Makes all jobs that are stuck available again: a scan with `fix`, and its options. */
	reset(watch: string, key?: undefined, options?: Omit<ScanOptions, 'watch' | 'fix'>): Promise<Scanned>
	/** Makes one job available again. */
	reset(watch: string, key: unknown, options?: ActOptions): Promise<Record<string, any>>
	/** Why a job is, or is not, stuck, and what a scan would do; NotFound. */
	explain(watch: string, key: unknown): Promise<Record<string, any>>
	/** One job: its state, whether it is stuck and why, its row and its history; NotFound. */
	status(watch: string, key: unknown): Promise<Record<string, any>>
	/** By state, completed, failed, average duration, recovered. */
	stats(watch?: string): Promise<any>
	undo(batch: string): Promise<Record<string, any>>
}

export interface EnqueueOptions extends ProgramOptions {
	/** A client of pg, or anything alike: the job is enqueued in its open transaction. */
	client?: { query(text: string, values: unknown[]): Promise<{ rows: any[] }> }
	delayMs?: number
	priority?: number
	uniqueKey?: string
	maxAttempts?: number
	timeoutMs?: number
	tags?: string[]
	/** Directory that keeps jobs while the database is unavailable. */
	spool?: string
}
/** Resolves to the job's id. */
export function enqueue(queue: string, kind: string, payload?: unknown, options?: EnqueueOptions): Promise<string>
