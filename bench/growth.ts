/**
 * `bench growth`: what a unit of work costs among many, against what it costs among few: events from the log to rows, steps judged,
 * exported and frozen. Each size has a database of its own. Ours is the rate at the size, other the rate at the smallest, so a ratio
 * above 0.67 is a growth below 1.5; `cost` says it the other way round.
 */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { TroupeError } from '../errors.ts';
import { postgresLog } from '../ingest/log/postgres.ts';
import { freeze } from '../store/datasets/freeze.ts';
import { judge } from '../store/evaluate/judging/judge.ts';
import { askIntoFile } from '../store/explore/sql/sql-file.ts';
import { projectAll } from '../store/projecting/projector.ts';
import type { Bench, Settings } from './bench.ts';
import { compared, interleave, type Result, type Side } from './harness.ts';
import { type BenchServer, startBenchServer } from './server.ts';
import { countsNamed } from './sizes.ts';
import { type Measured, summary } from './statistics.ts';
import { episodeId, fillSteps, STEPS_AN_EPISODE } from './stored-steps.ts';
import { emptyFacts, fillLog } from './tables.ts';

const SIZES = [10_000, 100_000, 1_000_000];

/** What a database is filled with: a log that nobody has read, or stored steps. Neither may find the rows of the other. */
const FILLED = {
  events: ({ db }: BenchServer, size: number) => fillLog(db, size),
  steps: ({ db }: BenchServer, size: number) => fillSteps(db, size),
};

/** One kind of work at one size: what is there before it, the work, and how many units it did. */
type Work = {
  readonly name: string;
  readonly unit: string;
  readonly on: keyof typeof FILLED;
  readonly before: (server: BenchServer, folder: string) => Promise<unknown>;
  readonly work: (server: BenchServer, size: number, folder: string) => Promise<number>;
};

const unjudged = (server: BenchServer) =>
  server.db.query('truncate facts.credits, troupe.judged_revisions; checkpoint');
const now = () => new Date(0);

const WORKS: readonly Work[] = [
  {
    name: 'ingest',
    unit: 'events/s',
    on: 'events',
    before: ({ db }) => emptyFacts(db),
    work: ({ db }) => projectAll(db),
  },
  {
    name: 'judge',
    unit: 'steps/s',
    on: 'steps',
    before: unjudged,
    work: async ({ db }, size) => {
      const episodes = Array.from({ length: size / STEPS_AN_EPISODE }, (_, e) => episodeId(e));
      await judge(db, postgresLog(db), { methods: [{ method: 'grpo_advantage' }], episodes, now });
      const { rows } = await db.query<{ n: number }>('select count(*)::integer as n from facts.credits');
      return rows[0]!.n;
    },
  },
  {
    name: 'export',
    unit: 'rows/s',
    on: 'steps',
    before: ({ db }) => db.query('checkpoint'),
    work: async ({ db }, _, folder) => {
      const query = 'select step_id, episode_id, agent, role, turn, text, input_tokens, completed_at from traj.steps';
      return (await askIntoFile(db, query, join(folder, 'growth.arrow'))).rows;
    },
  },
  {
    name: 'freeze',
    unit: 'rows/s',
    on: 'steps',
    before: (_, folder) => rm(join(folder, 'datasets'), { recursive: true, force: true }),
    work: async ({ db }, _, folder) => {
      const recipe = {
        name: 'growth',
        unit: 'step',
        columns: ['episode_id', 'call_id', 'agent', 'turn', 'text', 'reward'],
      };
      const frozen = await freeze(db, recipe, { directory: join(folder, 'datasets'), codeVersion: 'bench' });
      return Object.values(frozen.manifest.rows).reduce((sum, rows) => sum + rows, 0);
    },
  },
];

export const bench: Bench = {
  name: 'growth',
  about: 'ingest, judge, export and freeze: what a unit costs among a million, against among ten thousand',
  async run(settings) {
    const sizes = countsNamed(settings.sizes, SIZES);
    const works = namedIn(settings.only);
    const server = await startBenchServer(settings.scratch);
    try {
      const results: Result[] = [];
      for (const on of ['events', 'steps'] as const) {
        const those = works.filter((work) => work.on === on);
        if (those.length === 0) continue;
        const databases = new Map<number, BenchServer>();
        for (const size of sizes) {
          const database = await server.another(`${on}_${size}`);
          await FILLED[on](database, size);
          settings.say(`growth: ${size} ${on} are there`);
          databases.set(size, database);
        }
        for (const work of those) results.push(...(await growthOf(work, databases, settings)));
      }
      return results;
    } finally {
      await server.close();
    }
  },
};

function namedIn(only: string | null): readonly Work[] {
  if (only === null) return WORKS;
  return only.split(',').map((asked) => {
    const work = WORKS.find(({ name }) => name === asked);
    if (work) return work;
    const known = WORKS.map(({ name }) => name).join(', ');
    throw new TroupeError('usage', `--only names kinds of work (${known}), but ${JSON.stringify(asked)} is none.`);
  });
}

async function growthOf(
  { name, unit, before, work }: Work,
  databases: ReadonlyMap<number, BenchServer>,
  { rounds, scratch, say }: Settings,
): Promise<Result[]> {
  const sizes = [...databases.keys()];
  const least = Math.min(...sizes);
  const sides: Side[] = [];
  for (const [size, server] of databases) {
    // Small ones as often as it takes to do the work of the next larger size, so that a round of them is long enough to be measured.
    const times = Math.min(10, Math.max(1, Math.round(Math.max(...sizes) / size / 10)));
    sides.push({
      name: `${size}`,
      round: async () => {
        const parts: Measured[] = [];
        for (let again = 0; again < times; again++) {
          await before(server, scratch);
          parts.push(
            await server.measure(size, async () => {
              const done = await work(server, size, scratch);
              if (done !== size) throw new Error(`${name}: ${done} of ${size} ${unit} were done.`);
            }),
          );
        }
        const sum = (of: 'work' | 'seconds' | 'cpuSeconds') => parts.reduce((total, part) => total + part[of], 0);
        return { work: sum('work'), seconds: sum('seconds'), cpuSeconds: sum('cpuSeconds') };
      },
    });
  }
  for (const side of sides) await side.round(-1);
  const { measured, disturbed } = await interleave(sides, {
    rounds,
    onRound: (line) => say(`growth ${name}: ${line}`),
  });
  const smallest = measured[sizes.indexOf(least)]!;
  return sizes.flatMap((size, i) => {
    if (size === least) return [];
    const grown = (of: 'seconds' | 'cpuSeconds') =>
      summary(measured[i]!.map((one, round) => one[of] / one.work / (smallest[round]![of] / smallest[round]!.work)));
    return [
      compared(
        {
          case: `${name}, ${size.toLocaleString('en')} over ${least.toLocaleString('en')}`,
          unit,
          disturbed,
          more: { cost: grown('seconds'), cost_of_cpu: grown('cpuSeconds') },
        },
        measured[i]!,
        { what: `the same among ${least.toLocaleString('en')}`, measured: smallest },
        { equal: true, how: `every one of ${size.toLocaleString('en')} done, each round` },
      ),
    ];
  });
}
