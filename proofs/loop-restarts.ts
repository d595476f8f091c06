/**
 * Proof that the loop lives in the log and the tables alone: after every third stage of its plans (every fourth in the short form) every process is ended, by turns
 * with SIGTERM and kill -9, and `troupe up` starts it again; and yet the loop comes to its end, nothing that was played is missing, the counts of endpoints
 * and tables agree, the tables can be made again from the log, and each checkpoint names the episodes that trained it.
 */
import { join } from 'node:path';
import { type Context, withContext } from '../cli/context.ts';
import { runDemo } from '../cli/demo/demo-loop.ts';
import type { DemoResult } from '../cli/demo/demo-scores.ts';
import { roleSettings } from '../cli/processes/children.ts';
import { openDataset } from '../store/datasets/read.ts';
import { judgeAgain } from '../store/evaluate/judging/judge.ts';
import { reconcile } from '../store/log/reconcile.ts';
import { projectAll } from '../store/projecting/projector.ts';
import { checksum } from '../store/projecting/rebuilding/checksum.ts';
import { rebuild } from '../store/projecting/rebuilding/rebuild.ts';
import type { Outcome, Proof, Setting } from './proof.ts';

type Check = readonly [what: string, fine: boolean];

const SHORT = { scale: 0.25, own: 1, rounds: 1, iterations: 2 };
const FULL = { scale: 0.5, own: 2, rounds: 2, iterations: 4 };
/** Every so many stages all processes are killed. */
const EVERY = { short: 4, full: 3 };

export const proof: Proof = {
  name: 'loop-restarts',
  needs: [],
  async run(setting: Setting): Promise<Outcome> {
    // The embedded server of the scratch home, whatever the caller works with.
    const { DATABASE_URL: before } = process.env;
    delete process.env.DATABASE_URL;
    try {
      return await withContext({ home: join(setting.scratch, 'home') }, (context) => prove(context, setting));
    } finally {
      if (before !== undefined) process.env.DATABASE_URL = before;
    }
  },
};

async function prove(context: Context, { short, say }: Setting): Promise<Outcome> {
  const restarts: Record<string, number> = {};
  let stages = 0;
  let count = 0;
  const result = await runDemo(context, {
    seed: 0,
    ...(short ? SHORT : FULL),
    settings: roleSettings(context.config),
    bar: {
      update: (done, total, note) => say(`   ${Math.floor((100 * done) / total)} % ${note ?? ''}`),
      stop: () => {},
    },
    onStage: async (stage) => {
      if (++stages % (short ? EVERY.short : EVERY.full) !== 0) return;
      const how = count++ % 2 === 0 ? 'SIGTERM' : 'SIGKILL';
      const after = `${stage.split('/').at(-1)} ${how}`;
      restarts[after] = (restarts[after] ?? 0) + 1;
      await endAll(context, how);
    },
  });
  await projectAll(context.db);
  const played = await playedOf(context);
  const checks = [
    ended(result, count, restarts),
    await allThere(context, played),
    await spokenByKnown(context, played),
    await conserved(context),
    ...(await lineageAgrees(context)),
    await madeAgain(context),
  ];
  const lines = checks.map(([what, fine]) => `${fine ? 'ok' : 'NOT OK'}  ${what}`);
  for (const line of lines) say(line);
  return { ok: checks.every(([, fine]) => fine), lines };
}

/** Ends every process of a role; `troupe up` starts it again. */
async function endAll({ db }: Context, how: NodeJS.Signals): Promise<void> {
  const { rows } = await db.query<{ pid: number }>(
    `select pid from troupe.processes where heartbeat_at > clock_timestamp() - interval '10 seconds' and pid is not null and role <> 'up'`,
  );
  for (const { pid } of rows)
    try {
      process.kill(pid, how);
    } catch {
      // It has ended already.
    }
}

/** The episodes of attempts that were accepted as done. */
async function playedOf({ db }: Context): Promise<ReadonlySet<string>> {
  const { rows } = await db.query<{ job_id: string }>(
    `select job_id from troupe.job_queue where kind like 'attempt/%' and outcome = 'done'`,
  );
  return new Set(rows.map(({ job_id }) => job_id));
}

function ended(result: DemoResult, count: number, restarts: Readonly<Record<string, number>>): Check {
  const kinds = Object.entries(restarts).map(([kind, times]) => `${times} after ${kind}`);
  const shares = result.rounds.map(({ name, pass_at_1 }) => `${name} ${pass_at_1?.toFixed(3) ?? '–'}`);
  return [
    `the loop ended after ${count} restarts of all processes (${kinds.join(', ')}); pass@1 ${shares.join(', ')}`,
    count > 5 && result.rounds.length >= 3 && result.rounds.every(({ pass_at_1 }) => pass_at_1 !== null),
  ];
}

async function allThere({ db }: Context, played: ReadonlySet<string>): Promise<Check> {
  const { rows } = await db.query<{ episode_id: string }>(
    'select e.episode_id from traj.episodes e where e.closed and e.steps > 0 and e.episode_id = any($1::text[])',
    [[...played]],
  );
  return [
    `${rows.length} of ${played.size} episodes played are in the tables, closed`,
    rows.length === played.size && played.size > 0,
  ];
}

async function spokenByKnown({ db }: Context, played: ReadonlySet<string>): Promise<Check> {
  const { rows } = await db.query<{ steps: number; known: number }>(
    `select count(*)::float8 as steps, count(c.checkpoint_id)::float8 as known
     from traj.steps s left join traj.checkpoints c using (checkpoint_id) where s.episode_id = any($1::text[])`,
    [[...played]],
  );
  const { steps, known } = rows[0]!;
  return [`${known} of ${steps} steps played name a checkpoint that was saved`, known === steps];
}

async function conserved({ db }: Context): Promise<Check> {
  const found = await reconcile(db);
  const { events } = found.log;
  const endpoints = found.endpoints.map(({ endpoint, received }) => `${received} through ${endpoint}`).join(', ');
  const wrong = found.ok ? '' : ` ${JSON.stringify(found)}`;
  return [
    `conservation holds: ${events} events in the log, ${endpoints}, ${found.tables.lag} behind${wrong}`,
    found.ok,
  ];
}

/** What the tables say about each checkpoint, against what stands in the folder of its frozen dataset. */
async function lineageAgrees({ db, home }: Context): Promise<readonly Check[]> {
  const { rows: trained } = await db.query<{ checkpoint_id: string; dataset_ids: readonly string[] }>(
    'select checkpoint_id, dataset_ids from traj.checkpoints where parent_id is not null',
  );
  let agree = 0;
  let episodes = 0;
  for (const { checkpoint_id, dataset_ids } of trained) {
    const frozen = new Set<string>();
    for (const id of dataset_ids) {
      const { lineage } = await openDataset(join(home.datasets, id));
      for (const { episode_id } of lineage()) frozen.add(episode_id);
    }
    const { rows } = await db.query<{ episode_id: string }>(
      `select distinct episode_id from traj.lineage where checkpoint_id = $1 and relation = 'trained on'`,
      [checkpoint_id],
    );
    if (frozen.size > 0 && rows.length === frozen.size && rows.every((row) => frozen.has(row.episode_id))) agree++;
    episodes += rows.length;
  }
  const { rows } = await db.query(
    `select 1 from traj.lineage l left join traj.episodes e using (episode_id) where l.relation = 'trained on' and e.episode_id is null limit 1`,
  );
  return [
    [
      `lineage of ${agree} of ${trained.length} trained checkpoints lists the episodes of its dataset`,
      agree === trained.length && agree > 0,
    ],
    [`${episodes} episodes named by lineage are all in the tables`, rows.length === 0],
  ];
}

async function madeAgain({ db }: Context): Promise<Check> {
  const before = await checksum(db);
  const { events } = await rebuild(db, { judge: judgeAgain });
  const after = await checksum(db);
  const differing = Object.keys(before.tables).filter(
    (name) => JSON.stringify(before.tables[name]) !== JSON.stringify(after.tables[name]),
  );
  return [
    `${Object.keys(before.tables).length} tables made again from ${events} events have the same checksums${differing.length > 0 ? `, but not ${differing.join(', ')}` : ''}`,
    differing.length === 0,
  ];
}
