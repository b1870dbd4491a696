// SPDX-License-Identifier: Apache-2.0
// npm run stats: how many documents are processing, completed and failed, and how long they take.
import { Watches } from 'defib'

const config = process.env.DEFIB_CONFIG || new URL('../defib.yaml', import.meta.url).pathname
const stats = await new Watches({ config }).stats('ocr')
console.log(`processing ${stats.running}, completed ${stats.completed}, failed ${stats.failed}, `
	+ `average ${stats.average_s ?? 0} s, recovered today ${stats.recovered.day}`)
