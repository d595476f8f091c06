/**
 * Credit for a million stored steps, tables to stored credits, against a ceiling that does only what cannot be left out: reading the
 * same rows and writing one column back. Both sides find the table of credits empty and the write-ahead log flushed.
 */
import { Readable } from 'node:stream';
import { postgresLog } from '../ingest/log/postgres.ts';
import type { Db } from '../store/db/pool.ts';
import { judge, type MethodRequest, resolveMethods } from '../store/evaluate/judging/judge.ts';
import type { Settings } from './bench.ts';
import { compared, interleave, type Result, type Side } from './harness.ts';
import { type BenchServer, startBenchServer } from './server.ts';
import { episodeId, fillEpisodes, STEPS_AN_EPISODE } from './stored-steps.ts';

const EPISODES = 50_000;

const ESTIMATORS: readonly (MethodRequest & { readonly as: string })[] = [
  { as: 'grpo_advantage', method: 'grpo_advantage' },
  { as: 'dr. grpo', method: 'grpo_advantage', params: { scale_std: false } },
  { as: 'rloo_advantage', method: 'rloo_advantage' },
  { as: 'drmas_advantage', method: 'drmas_advantage' },
  { as: 'multiagent_grpo_advantage', method: 'multiagent_grpo_advantage' },
  { as: 'at_grpo_advantage', method: 'at_grpo_advantage' },
  { as: 'magrpo_returns', method: 'magrpo_returns' },
];

/** `--sizes` names how many episodes, 50,000 by default. */
export async function tableCases({ rounds, scratch, sizes, say }: Settings): Promise<Result[]> {
  const episodes = sizes === null ? EPISODES : Number(sizes);
  const steps = episodes * STEPS_AN_EPISODE;
  const server = await startBenchServer(scratch);
  try {
    await fillEpisodes(server.db, episodes);
    const ids = Array.from({ length: episodes }, (_, e) => episodeId(e));
    const verdicts = new Map<string, Verdict>();
    const side = (name: string, task: () => Promise<void>, check?: () => Promise<Verdict>): Side => ({
      name,
      round: async (round) => {
        await server.db.query('truncate facts.credits, troupe.judged_revisions');
        await server.db.query('checkpoint');
        const measured = await server.measure(steps, task);
        // The last round's rows are compared; those of the others were written by the same code from the same tables.
        if (check && round === rounds - 1) verdicts.set(name, await check());
        return measured;
      },
    });
    const ceiling = side('ceiling', () => copyThrough(server.db));
    const sides = ESTIMATORS.map((asked) =>
      side(
        asked.as,
        () => judgeAll(server.db, asked, ids),
        () => verify(server, asked, steps),
      ),
    );
    for (const one of [ceiling, ...sides]) await one.round(-1);
    const { measured, disturbed } = await interleave([ceiling, ...sides], {
      rounds,
      onRound: (line) => say(`judge ${line}`),
    });
    const memory = `${Math.round(process.resourceUsage().maxRSS / 1024)} MiB at most, the pool and all methods in one process`;
    return ESTIMATORS.map(({ as }, i) =>
      compared(
        { case: `${as}, ${steps.toLocaleString('en')} steps`, unit: 'steps/s', disturbed, more: { memory } },
        measured[i + 1]!,
        { what: 'reading the rows and writing one column back', measured: measured[0]! },
        verdicts.get(as)!,
      ),
    );
  } finally {
    await server.close();
  }
}

/** What no judge can leave out: each step with its agent and turn, the reward of its episode, and a number for it in the table of credits. */
async function copyThrough(db: Db): Promise<void> {
  await db.transaction(async (tx) => {
    await tx.query(`set local jit = off; set local work_mem = '128MB'`);
    const { rows } = await tx.query<[string, number]>('select episode_id, reward from facts.episodes', [], {
      array: true,
    });
    const rewards = new Map(rows);
    const lines: Buffer[] = [];
    const read = `select s.episode_id, s.call_id, s.candidate, coalesce(c.completed_agent_id, c.requested_agent_id), coalesce(c.completed_turn, c.requested_turn)
      from facts.steps s join facts.calls c on c.episode_id = s.episode_id and c.call_id = s.call_id`;
    for await (const batch of tx.stream<[string, string, number]>(read, [], { array: true, batch: 5000 })) {
      let text = '';
      for (const [episode, call, candidate] of batch)
        text += `${episode}\t${call}/${candidate}\tceiling\t${rewards.get(episode)}\n`;
      lines.push(Buffer.from(text));
    }
    await tx.copyIn(
      'copy facts.credits (episode_id, step_id, method_key, value) from stdin',
      Readable.from(lines, { objectMode: false }),
    );
  });
}

async function judgeAll(db: Db, { method, params }: MethodRequest, episodes: readonly string[]): Promise<void> {
  const now = () => new Date();
  await judge(db, postgresLog(db), { methods: [{ method, ...(params ? { params } : {}) }], episodes, now });
}

type Verdict = { readonly equal: boolean; readonly how: string };

/** In SQL, over the episode e and its group g. */
const FORMULAS: Readonly<Record<string, string>> = {
  grpo_advantage: '(e.reward - g.mean) / (g.deviation + 1e-6)',
  'dr. grpo': 'e.reward - g.mean',
  rloo_advantage: 'e.reward - (g.total - e.reward) / (g.n - 1)',
  multiagent_grpo_advantage: '(e.reward - g.mean) / (g.deviation + 1e-6)',
  magrpo_returns: 'e.reward - g.mean',
};

/** The stored credits against the formula in SQL, for the estimators whose formula is one line; for the others that every step has one. */
async function verify(
  { db }: BenchServer,
  { as, method, params }: (typeof ESTIMATORS)[number],
  steps: number,
): Promise<Verdict> {
  const key = (await resolveMethods([{ method, ...(params ? { params } : {}) }]))[0]!.key;
  const { rows } = await db.query<{ n: number; far: number }>(
    `select count(*)::integer as n, coalesce(max(abs(c.value - (${FORMULAS[as] ?? 'c.value'}))), 1) as far
     from facts.credits c join facts.episodes e using (episode_id)
     join (select group_id, avg(reward) as mean, stddev_samp(reward) as deviation, sum(reward) as total, count(*) as n
           from facts.episodes group by 1) g using (group_id)
     where c.method_key = $1`,
    [key],
  );
  const { n, far } = rows[0]!;
  const how = FORMULAS[as] ? `within ${far.toExponential(0)} of the formula in SQL` : 'every step has its credit';
  return { equal: n === steps && far < 1e-9, how: `${n.toLocaleString('en')} credits, ${how}` };
}
