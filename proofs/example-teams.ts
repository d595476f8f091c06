/**
 * Proof that the plans of the example teams run: each team is started as its page says, each plan runs one round of one iteration at a tiny
 * size, and what became of it is read from the views: whose weights changed, and which credit the training read.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { parseDocument, stringify } from 'yaml';
import { freePort } from '../store/db/free-port.ts';
import type { Outcome, Proof, Setting } from './proof.ts';
import { until } from './up.ts';

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, '..');

type Case = {
  readonly team: string;
  readonly plan: string;
  /** The model directory that the plan names. */
  readonly model: string;
  /** Policies that answer the team: those that learn, and those that stay. */
  readonly learns: string;
  readonly stays?: string;
  readonly options?: readonly string[];
  /** The method whose credit the training reads. */
  readonly credit: string;
  /** Roles of the trained rows. */
  readonly roles: readonly string[];
};

const CASES: readonly Case[] = [
  {
    ...{ team: 'two-players', plan: 'mars', model: 'players-model', learns: 'player' },
    ...{ credit: 'mars_turn_advantage', roles: ['first', 'second'] },
  },
  {
    ...{ team: 'planner-executor', plan: 'browsemaster', model: 'search-model', learns: 'executor', stays: 'planner' },
    ...{ credit: 'grpo_advantage', roles: ['executor'] },
  },
  {
    ...{ team: 'planner-executor', plan: 'matpo', model: 'search-model', learns: 'both' },
    ...{ options: ['--planner', 'policy:both', '--executor', 'policy:both'] },
    ...{ credit: 'matpo_advantage', roles: ['executor', 'planner'] },
  },
];
const RUNNERS = Object.fromEntries(
  ['players', 'search'].map((name) => [name, { workers: true, lease_s: 120, retries: 3 }]),
);

export const proof: Proof = {
  name: 'example-teams',
  needs: [],
  async run({ scratch, say, short }: Setting): Promise<Outcome> {
    const lines: string[] = [];
    const check = (what: string, fine: boolean, otherwise: unknown = ''): void => {
      lines.push(fine ? `ok  ${what}` : `NOT OK  ${what}: ${JSON.stringify(otherwise)}`);
      say(lines.at(-1)!);
    };
    const { DATABASE_URL: _, KAFKA_BROKERS: __, ...env } = process.env;
    const options = { cwd: scratch, env: { ...env, NO_COLOR: '1' }, maxBuffer: 2 ** 26 };
    const program = join(ROOT, 'bin/troupe.js');
    const troupe = async (...args: string[]) => {
      const ended = await run(process.execPath, [program, ...args, '--json'], options).catch(
        (error: { stdout: string; stderr: string }) => error,
      );
      if (ended.stdout === '') throw new Error(ended.stderr);
      return JSON.parse(ended.stdout);
    };
    const sql = async (query: string): Promise<readonly unknown[][]> => (await troupe('sql', query)).rows;
    const children = new Set<ChildProcess>();
    const start = (args: readonly string[], cwd = scratch) => {
      const child = spawn(process.execPath, args, { ...options, cwd, stdio: ['ignore', 'pipe', 'pipe'] });
      children.add(child);
      let said = '';
      for (const stream of [child.stdout, child.stderr])
        stream.setEncoding('utf8').on('data', (text: string) => {
          said = `${said}${text}`.slice(-4000);
        });
      const ready = () =>
        until(async () => {
          if (child.exitCode !== null) throw new Error(`${args.join(' ')} ended: ${said}`);
          return /"role"/.test(said);
        }, args.join(' '));
      const died = new Promise<never>((_, reject) => {
        child.once('exit', () => children.has(child) && reject(new Error(`${args.join(' ')} ended: ${said}`)));
      });
      died.catch(() => {});
      return { child, ready, died };
    };
    const stop = async (child: ChildProcess): Promise<void> => {
      children.delete(child);
      if (child.exitCode !== null || child.signalCode !== null) return;
      const gone = new Promise((resolve) => child.once('close', resolve));
      child.kill('SIGTERM');
      await gone;
    };

    cpSync(join(ROOT, 'examples'), join(scratch, 'examples'), { recursive: true });
    writeFileSync(join(scratch, 'troupe.yaml'), stringify({ runners: RUNNERS }));
    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    try {
      await start([program, 'run', 'serve', '--port', String(port), '--json']).ready();
      for (const one of CASES) await runs(one);
    } finally {
      await Promise.all([...children].map(stop));
    }
    return { ok: lines.every((line) => line.startsWith('ok')), lines };

    async function runs({ team, plan, model, learns, stays, options: more = [], credit, roles }: Case): Promise<void> {
      const folder = join(scratch, 'examples', team);
      const base = join(scratch, model);
      await troupe('model', 'new', '--dir', base, '--config', join(folder, 'model.json')).catch(() => null);
      const served = [learns, ...(stays === undefined ? [] : [stays])].map((policy) =>
        start([program, 'run', 'infer', '--policy', policy, '--model', base, '--json']),
      );
      await Promise.all(served.map(({ ready }) => ready()));
      const member = start(['--import', 'tsx', `examples/${team}/team.ts`, '--url', url, ...more], ROOT);
      const file = join(folder, 'plans', `${plan}.yaml`);
      if (short) writeFileSync(file, tiny(readFileSync(file, 'utf8')));
      const { run: id, rounds, error } = await Promise.race([troupe('plan', 'run', file), member.died]);
      await Promise.all([...served, member].map(({ child }) => stop(child)));
      const { candidates, reason } = rounds?.[0] ?? {};
      check(`${plan}: a round of the plan ran to its gate: ${reason}`, candidates?.[learns] !== undefined, error);
      if (candidates?.[learns] === undefined) return;
      const changed = await sql(
        `select distinct policy, checkpoint_id <> parent_id from traj.checkpoints where starts_with(job_id, '${id}/')`,
      );
      check(`${plan}: the weights of ${learns} changed, and no others`, same(changed, [[learns, true]]), changed);
      const read = await sql(
        `select distinct d.manifest -> 'recipe' -> 'credit' ->> 'method', v.method from traj.datasets d
         join traj.checkpoints c on c.dataset_ids ->> 0 = d.dataset_id join traj.lineage l on l.checkpoint_id = c.checkpoint_id
         join traj.credits v on v.episode_id = l.episode_id and v.step_id = l.step_id
         where starts_with(c.job_id, '${id}/') and l.relation = 'trained on'`,
      );
      check(`${plan}: what it trained on has the credit ${credit}`, same(read, [[credit, credit]]), read);
      const trained = await sql(
        `select distinct s.role from traj.checkpoints c join traj.lineage l using (checkpoint_id) join traj.steps s using (episode_id, step_id)
         where starts_with(c.job_id, '${id}/') and relation = 'trained on' order by 1`,
      );
      check(
        `${plan}: it trained on the answers of ${roles.join(' and ')}`,
        same(
          trained,
          roles.map((role) => [role]),
        ),
        trained,
      );
      if (stays === undefined) return;
      const stayed = await sql(
        `select count(distinct checkpoint_id)::int from traj.steps where policy = '${stays}' and starts_with(episode_id, '${id}/')`,
      );
      check(`${plan}: the same weights of ${stays} answered before and after`, same(stayed, [[1]]), stayed);
    }
  },
};

const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

/** One iteration of few samples and tasks, and a gate of two tasks. */
function tiny(yaml: string): string {
  const document = parseDocument(yaml);
  for (const [path, value] of [
    [['rollout', 'samples'], 8],
    [['rollout', 'iterations'], 1],
    [['gate', 'samples'], 1],
  ] as const)
    if (document.hasIn(path)) document.setIn(path, value);
  return document.toString();
}
