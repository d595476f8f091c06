/**
 * `bench scale`: what a size needs, computed from assumptions that are inputs, and how well the computation knows this machine: one, two and
 * four projectors (eight on 16 processors) bring in the same full topic, and beside each stands what the simulation says. One round.
 */
import { readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { parse } from 'yaml';
import { TroupeError } from '../errors.ts';
import { isRecord } from '../ingest/events/json.ts';
import { findKafkaJars, startKafka } from '../proofs/kafka.ts';
import { bringIn, fill } from '../proofs/kafka-projectors.ts';
import type { Bench, Settings } from './bench.ts';
import { type Result, shortNumber, unmeasured } from './harness.ts';
import { type Assumptions, DEFAULTS, deploy, simulate } from './scale-model.ts';
import { summary } from './statistics.ts';

const SIZES = [1, 10, 1000, 1_000_000];
/** Eight only where each of them, and what it talks to, finds a processor. */
const PROJECTORS = [1, 2, 4, 8].filter((n) => n <= Math.max(4, cpus().length / 2));
const EPISODES = 16_000;
/** Processors that others kept busy, above which a run counts as disturbed. */
const QUIET = 0.2;

export const bench: Bench = {
  name: 'scale',
  about: 'what a size needs, from assumptions that are inputs; 1, 2 and 4 projectors against the simulation',
  async run(settings) {
    const given = assumptionsIn(settings.assumptions);
    const wants = (part: string) => settings.only === null || settings.only.split(',').includes(part);
    for (const [name, value] of Object.entries(given)) settings.say(`${name}: ${value}`);
    return [
      ...(wants('sizes') ? SIZES.map((times) => sized(given, times)) : []),
      ...(wants('projectors') ? await measured(given, settings) : []),
    ];
  },
};

/** Shares of a whole; what is divided by must not be 0. */
const SHARES = new Set(['overlap', 'use']);
const POSITIVE = new Set([
  ...['use', 'events_an_episode', 'batch_events', 'partitions', 'project_us'],
  ...['cores_a_node', 'disk_gb_a_node', 'kafka_mb_a_second_a_broker'],
]);

/** @throws TroupeError `usage` for a file that does not map these names to numbers in their ranges */
export function assumptionsIn(file: string | null): Assumptions {
  if (file === null) return DEFAULTS;
  const names = Object.keys(DEFAULTS);
  const read = mappingIn(file);
  for (const [name, value] of Object.entries(read)) {
    const least = POSITIVE.has(name) ? 'above 0' : 'from 0';
    const expected = SHARES.has(name) ? `a number ${least} to 1` : `a number ${least}`;
    if (!names.includes(name))
      throw new TroupeError('usage', `${file}: there is no assumption ${name}; they are ${names.join(', ')}.`);
    const fits = Number.isFinite(value) && (POSITIVE.has(name) ? Number(value) > 0 : Number(value) >= 0);
    if (!fits || (SHARES.has(name) && Number(value) > 1))
      throw new TroupeError('usage', `${file}: ${name} should be ${expected}, not ${JSON.stringify(value)}.`);
  }
  return { ...DEFAULTS, ...read };
}

function mappingIn(file: string): Readonly<Record<string, number>> {
  const wrong = (why: string): TroupeError =>
    new TroupeError('usage', `${file} should be YAML that maps names of assumptions to numbers, but ${why}.`);
  let read: unknown;
  try {
    read = parse(readFileSync(file, 'utf8'));
  } catch (error) {
    throw wrong((error as Error).message.split('\n', 1)[0]!.replace(/[.:]$/, ''));
  }
  if (isRecord(read)) return read as Record<string, number>;
  throw wrong('it is no mapping');
}

/** Not measured: sums of the assumptions. */
function sized(given: Assumptions, times: number): Result {
  const { times: _, ...needs } = deploy(given, times);
  return {
    ...unmeasured(`the demo × ${shortNumber(times)}`, { skipped: 'computed' }),
    ours: { ...summary([needs.events_a_second_at_peak]), unit: 'events/s' },
    more: needs,
  };
}

/** What an event costs is taken from the run with one projector, since the machine's speed is no matter of the simulation. */
async function measured(given: Assumptions, { scratch, say }: Settings): Promise<Result[]> {
  const found = findKafkaJars(process.env);
  if ('missing' in found) return [unmeasured('projectors', { skipped: found.missing })];
  const broker = await startKafka(found, join(scratch, 'broker'));
  try {
    const events = await fill(broker.address, EPISODES);
    const results: Result[] = [];
    let costs = given;
    let sums = '';
    for (const projectors of PROJECTORS) {
      const folder = join(scratch, String(projectors));
      const one = await bringIn(broker.address, { scratch: folder, projectors, events, kill: false });
      const micros = (seconds: number): number => seconds * 1e6;
      if (projectors === 1) costs = { ...given, project_us: micros(one.own), postgres_us: micros(one.server) };
      sums ||= one.sums;
      const left = Math.max(0.1, cpus().length - one.others);
      const predicted = simulate(costs, { projectors, cores: left, events });
      say(`scale: ${projectors} projectors, ${shortNumber(one.rate)} events/s`);
      results.push({
        case: `${projectors} projectors, ${events} events waiting`,
        ours: { ...summary([one.rate]), unit: 'events/s' },
        other: {
          ...summary([predicted]),
          what: `the simulation, with the ${shortNumber(left)} processors that others left`,
        },
        ratio: summary([one.rate / predicted]),
        cpu_seconds: { ours: (one.own + one.server) * events, other: null },
        seconds: { ours: one.seconds, other: null },
        rounds: 1,
        disturbed: one.others > QUIET ? 1 : 0,
        outputs: 'the same tables',
        ...(one.sound && one.sums === sums ? {} : { failed: 'the tables are not those of one projector' }),
        more: { project_us: micros(one.own), postgres_us: micros(one.server) },
      });
    }
    return results;
  } finally {
    await broker.stop();
  }
}
