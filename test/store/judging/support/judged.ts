/** A database with episodes in it that a test judges, and what an analyst reads of it. */
import { expect } from 'vitest';
import type { Event } from '../../../../ingest/events.ts';
import { postgresLog } from '../../../../ingest/log/postgres.ts';
import { judge, judgeAgain, type MethodAsked } from '../../../../store/judging/judge.ts';
import { findMethod } from '../../../../store/methods/find.ts';
import { runMethod } from '../../../../store/methods/run.ts';
import { projectAll } from '../../../../store/projecting/projector.ts';
import { checksum } from '../../../../store/rebuilding/checksum.ts';
import { rebuild } from '../../../../store/rebuilding/rebuild.ts';
import { freshDatabase } from '../../../support/database.ts';

export type SeenStep = {
  readonly episode_id: string;
  readonly step_id: string;
  readonly call_id: string;
  readonly agent: string | null;
  readonly role: string | null;
  readonly turn: number | null;
  readonly parent: string | null;
  readonly text: string | null;
  readonly finish: string | null;
  readonly length: number | null;
  readonly version: string | null;
  readonly onward: boolean;
  readonly says: Readonly<Record<string, unknown>>;
};
export type SeenEpisode = {
  readonly episode_id: string;
  readonly group: string;
  readonly env: string | null;
  readonly parent: string | null;
  readonly reward: number | null;
  readonly outcome: string | null;
  readonly tags: Readonly<Record<string, unknown>> | null;
  readonly says: Readonly<Record<string, unknown>>;
  readonly agents: Readonly<Record<string, number>>;
  readonly steps: readonly SeenStep[];
};
/** Value and reason by `episode step`. */
export type Expected = Record<string, readonly [number | null, string | null]>;

const SAID = (target: string) => `coalesce((
  select json_object_agg(name, said) from (
    select distinct on (name) name, coalesce(to_json(value), value_json) as said from traj.feedback
    where ${target} and (value is not null or value_json is not null) order by name, at desc) last), '{}')`;

export async function judgedDatabase() {
  const fresh = await freshDatabase();
  const log = postgresLog(fresh.db);
  let clock = 0;
  const now = () => new Date(Date.UTC(2026, 9, 1) + clock++);
  const rows = async <T>(sql: string): Promise<T[]> => (await fresh.db.query<T & object>(sql)).rows;
  const load = async (...events: readonly (readonly Event[])[]) => {
    await log.append(events.flat());
    await projectAll(fresh.db);
  };
  const run = async (methods: readonly (string | MethodAsked)[], episodes?: readonly string[]) => {
    const ids =
      episodes ?? (await rows<{ episode_id: string }>('select episode_id from traj.episodes')).map((r) => r.episode_id);
    const asked = methods.map((method) => (typeof method === 'string' ? { method } : method));
    await judge(fresh.db, log, { methods: asked, episodes: ids, now });
    await projectAll(fresh.db);
  };

  /** Everything a method may read, by SQL over the views alone. */
  const seen = async (): Promise<SeenEpisode[]> => {
    const steps = await rows<SeenStep>(
      `select s.episode_id, s.step_id, s.call_id, s.agent_id as agent, s.role, s.turn, s.parent_step_id as parent, s.text,
              s.finish_reason as finish, coalesce(s.checkpoint_id, s.model_version) as version,
              coalesce(cardinality(s.token_ids), case when count(*) over same = 1 then s.output_tokens end) as length,
              coalesce(s.chosen, count(*) over same = 1) as onward,
              ${SAID(`episode_id = s.episode_id and target_kind = 'step' and target_id = s.step_id`)} as says
       from traj.steps s window same as (partition by s.episode_id, s.call_id)
       order by s.episode_id, s.seq, s.call_id, s.candidate`,
    );
    const episodes = await rows<Omit<SeenEpisode, 'steps'>>(
      `select e.episode_id, coalesce(e.group_id, e.task_id, e.episode_id) as "group", e.env_id as env, e.parent_episode_id as parent,
              e.reward, e.outcome, e.tags, ${SAID(`episode_id = e.episode_id and target_kind = 'episode'`)} as says,
              coalesce((select json_object_agg(target_id, value) from traj.feedback f
                        where f.episode_id = e.episode_id and f.target_kind = 'agent' and f.name = 'reward'), '{}') as agents
       from traj.episodes e order by 1`,
    );
    return episodes.map((one) => ({ ...one, steps: steps.filter((step) => step.episode_id === one.episode_id) }));
  };

  /** Rows that the method wrote about steps are these and no others; numbers agree to 1e-12. */
  const expectRows = async (table: 'rewards' | 'credits', method: string, expected: Expected) => {
    const found = await rows<{ place: string; value: number | null; reason: string | null }>(
      `select episode_id || ' ' || step_id as place, value, reason from traj.${table} where method = '${method}'`,
    );
    expect(found.map((row) => row.place).sort(), method).toEqual(Object.keys(expected).sort());
    for (const { place, value, reason } of found) {
      const [wanted, why] = expected[place]!;
      expect(reason, `${method} of ${place}`).toBe(why);
      expectNumber(value, wanted, `${method} of ${place}`);
    }
  };

  return {
    ...fresh,
    load,
    run,
    rows,
    seen,
    expectRows,
    checksum: () => checksum(fresh.db),
    rebuild: () => rebuild(fresh.db, { judge: judgeAgain }),
  };
}

export type JudgedDatabase = Awaited<ReturnType<typeof judgedDatabase>>;

export function expectNumber(found: number | null, wanted: number | null, about: string): void {
  if (found === null || wanted === null) expect(found, about).toBe(wanted);
  else
    expect(Math.abs(found - wanted), `${about}: ${found} and ${wanted}`).toBeLessThanOrEqual(
      1e-12 * Math.max(1, Math.abs(wanted)),
    );
}

/** What `troupe method run` answers. */
export const answer = <T>(method: string, input: object): T => runMethod(findMethod(method), input) as T;

export const place = (step: SeenStep): string => `${step.episode_id} ${step.step_id}`;

export function grouped<T, K>(rows: readonly T[], key: (row: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const row of rows) groups.set(key(row), [...(groups.get(key(row)) ?? []), row]);
  return groups;
}
