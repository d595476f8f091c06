/** Rows put straight into the tables, for tests that are about what is read from them. */

import { keepBodies } from '../../../ingest/log/postgres.ts';
import { type Body, contextOf } from '../../../ingest/log/split.ts';
import { announcements } from '../../../store/datasets/announced.ts';
import type { FreezeResult } from '../../../store/datasets/freeze.ts';
import type { CompactRow, CompactRows } from '../../../store/datasets/manifest.ts';
import type { Db } from '../../../store/db/pool.ts';

export type Cell = string | number | boolean | null | readonly unknown[] | Readonly<Record<string, unknown>>;
export type TableRow = Readonly<Record<string, unknown>>;

const JSON_COLUMNS = new Set(['tags', 'flags', 'policies', 'content', 'params', 'detail', 'task_tags']);

/** Inserts rows that all have the same columns. */
export async function insert(db: Db, table: string, rows: readonly TableRow[]): Promise<void> {
  for (const row of rows) {
    const names = Object.keys(row);
    const places = names.map((name, i) => `$${i + 1}${JSON_COLUMNS.has(name) ? '::json' : ''}`);
    const values = names.map((name) =>
      JSON_COLUMNS.has(name) && row[name] !== null && row[name] !== undefined
        ? JSON.stringify(row[name])
        : (row[name] ?? null),
    );
    await db.query(
      `insert into facts.${table} (${names.map((n) => `"${n}"`).join(', ')}) values (${places.join(', ')})`,
      values,
    );
  }
}

export const CREDIT = 'credit-1';
export const VERDICT = 'verdict-1';
export const REWARD = 'reward-1';

export type Team = {
  readonly tasks?: number;
  readonly episodesOfTask?: number;
  readonly callsOfEpisode?: number;
  readonly candidates?: number;
};

/**
 * A small project: `tasks` problems, each played by some episodes of one group, each with calls of two roles in turn and several
 * candidates. Every value is a function of its place. Rows are inserted in an order that `shuffle` decides.
 */
export async function seed(db: Db, team: Team = {}, shuffle: <T>(rows: T[]) => T[] = (rows) => rows): Promise<void> {
  const { tasks = 3, episodesOfTask = 2, callsOfEpisode = 3, candidates = 2 } = team;
  const out: Record<string, TableRow[]> = {
    tasks: [],
    episodes: [],
    agents: [],
    calls: [],
    steps: [],
    verdicts: [],
    credits: [],
    rewards: [],
  };
  const bodies: Body[] = [];
  for (let t = 0; t < tasks; t++) {
    out.tasks!.push({ task_id: `task-${t}`, difficulty: t % 2 === 0 ? 'easy' : 'hard', version: '|t' });
    for (let k = 0; k < episodesOfTask; k++) {
      const episode_id = `ep-${t}-${k}`;
      out.episodes!.push({
        episode_id,
        task_id: `task-${t}`,
        group_id: `group-${t}`,
        attempt: k,
        outcome: (t + k) % 2 === 0 ? 'success' : 'failure',
        reward: k === 0 ? 1 : null,
        tags: { iteration: t, arm: k === 0 ? 'a' : 'b' },
        started_at: `2026-03-01T00:${String(t).padStart(2, '0')}:${String(k).padStart(2, '0')}Z`,
        started_version: `2026-03-01T00:00:00Z|start-${episode_id}`,
        finished_version: `2026-03-01T00:00:09Z|finish-${episode_id}`,
      });
      for (const role of ['solver', 'critic'])
        out.agents!.push({ episode_id, agent_id: role, name: role.toUpperCase(), role, version: '|a' });
      const context = contextOf(`e/${episode_id}`, [
        { role: 'system', content: `You "solve"\nwell` },
        { role: 'user', name: 'asker', content: [{ type: 'text', content: `Q${t}` }] },
      ]);
      bodies.push(...context.bodies);
      out.verdicts!.push({
        episode_id,
        step_id: '',
        method_key: VERDICT,
        keep: !(t === 0 && k === 1),
        reason: 'seeded',
        detail: null,
      });
      for (let c = 0; c < callsOfEpisode; c++) {
        const call_id = `call-${c}`;
        out.calls!.push({
          episode_id,
          call_id,
          completed_agent_id: c % 2 === 0 ? 'solver' : 'critic',
          completed_turn: c,
          requested_seq: c * 10,
          context: context.hash,
          checkpoint_id: `ck-${t % 2}`,
          prompt_token_ids: [1, 2, 3 + t],
          requested_version: `2026-03-01T00:00:01Z|asked-${episode_id}-${c}`,
          completed_version: `2026-03-01T00:00:02Z|told-${episode_id}-${c}`,
        });
        for (let candidate = 0; candidate < candidates; candidate++) {
          const step_id = `${call_id}/${candidate}`;
          out.steps!.push({
            episode_id,
            call_id,
            candidate,
            text: `answer ${t}.${k}.${c}.${candidate}`,
            token_ids: [t, k, c, candidate],
            logprobs: [-0.5, -0.25 * (candidate + 1), -1.5, 0],
            loss_mask: c === 0 ? null : [1, 1, 0, 1],
            chosen: candidate === 0,
            version: `2026-03-01T00:00:02Z|told-${episode_id}-${c}`,
          });
          out.credits!.push({
            episode_id,
            step_id,
            method_key: CREDIT,
            value: t + candidate / 4,
            reason: candidate === 0 ? null : 'zero_variance',
          });
          out.rewards!.push({
            episode_id,
            step_id,
            method_key: REWARD,
            value: c === 0 ? null : candidate,
            reason: null,
          });
        }
      }
    }
  }
  await insert(db, 'judged_methods', [
    { method_key: CREDIT, method: 'group_mean', version: 1, kind: 'credit', params: {} },
    { method_key: VERDICT, method: 'is_solved', version: 1, kind: 'filter', params: { at_least: 1 } },
    { method_key: REWARD, method: 'cure', version: 1, kind: 'reward', params: {} },
  ]);
  await keepBodies(db, bodies);
  for (const [table, rows] of Object.entries(out)) await insert(db, table, shuffle(rows));
  await db.query(`update troupe.positions set position = partition * 10 where projection = 'facts'`);
}

/** The rows that the events about a dataset name, all parts together as the tables have them. */
export async function rowsTold({
  directory,
  manifest,
}: Pick<FreezeResult, 'directory' | 'manifest'>): Promise<CompactRows> {
  const rowsOfSplits: Record<string, CompactRow[]> = {};
  for await (const { data } of announcements(directory, manifest, { at: null })) {
    for (const [split, rows] of Object.entries(data.rows as CompactRows))
      rowsOfSplits[split] = [...(rowsOfSplits[split] ?? []), ...rows];
  }
  return rowsOfSplits;
}
