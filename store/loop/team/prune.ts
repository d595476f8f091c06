/**
 * A version of a team without the members that contributed least to what it did on a set of tasks, as DyLAN optimises a team: the members are
 * ranked by their importance, summed over rounds and averaged over episodes, and the first ones stay.
 *
 * Source: SALT-NLP/DyLAN, as `dylan_importance` names it.
 */
import { Type } from 'typebox';
import { TroupeError } from '../../../errors.ts';
import { isRecord } from '../../../ingest/events/json.ts';
import type { Session } from '../../db/pool.ts';
import { query, rowsOf, type SqlBool, sql } from '../../db/query.ts';
import { countsText } from '../play/written-tasks.ts';
import { type TeamVersion, TeamVersionSpec, teamVersion } from './version.ts';

/** Kind of the job that prunes. */
export const PRUNE = 'prune';

export const PruneSpec = Type.Object({
  /** The episodes that the version played. */
  rollout_id: Type.String(),
  /** Of the method whose score of an episode has the importance of each member beside it. */
  method_key: Type.String(),
  /** Members that stay. */
  keep: Type.Integer({ minimum: 1 }),
  team: TeamVersionSpec,
});

export type PruneResult = {
  readonly team: TeamVersion;
  readonly removed: readonly string[];
  /** Mean over the episodes that have one, by member. */
  readonly importance: Readonly<Record<string, number>>;
  readonly episodes: number;
  /** Episodes without it, by the reason. */
  readonly left_out: Readonly<Record<string, number>>;
};

/** @throws TroupeError `training_failed` where a member has no importance, or no more members are there than are to stay */
export async function prunedTeam(
  db: Pick<Session, 'query'>,
  { rollout_id, method_key, keep, team }: { rollout_id: string; method_key: string; keep: number; team: TeamVersion },
): Promise<PruneResult> {
  const rows = await rowsOf(
    db,
    query
      .selectFrom('facts.episodes as e')
      .leftJoin('facts.scores as s', (on) =>
        on.on('s.key', '=', sql<string>`'e/' || e.episode_id`).on('s.method_key', '=', method_key),
      )
      .select([
        sql<unknown>`s.detail -> 'by_agent'`.as('by_agent'),
        // An episode without a score has its reason on its steps.
        sql<
          string | null
        >`coalesce(s.reason, (select min(c.reason) from facts.credits c where c.episode_id = e.episode_id and c.method_key = ${method_key}))`.as(
          'reason',
        ),
      ])
      .where(sql<SqlBool>`e.tags ->> 'rollout' = ${rollout_id}`)
      .where('e.group_id', 'is not', null)
      .orderBy(sql`e.episode_id collate "C"`),
  );
  const sums = new Map<string, number>();
  const left_out: Record<string, number> = {};
  let episodes = 0;
  for (const { by_agent, reason } of rows) {
    if (!isRecord(by_agent)) {
      const why = reason ?? 'not judged';
      left_out[why] = (left_out[why] ?? 0) + 1;
      continue;
    }
    episodes += 1;
    for (const [agent, value] of Object.entries(by_agent)) sums.set(agent, (sums.get(agent) ?? 0) + Number(value));
  }
  const names = membersOf(team);
  const unknown = names.filter((name) => !sums.has(name));
  if (unknown.length > 0)
    throw new TroupeError(
      'training_failed',
      `The members ${unknown.join(', ')} of ${team.team_id} have no importance in the ${rows.length} episodes of ${rollout_id}${episodes === 0 ? `, of which none has any (${countsText(left_out)})` : ''}. Agents of the episodes should have the names of the version's agents.`,
    );
  if (names.length <= keep)
    throw new TroupeError(
      'training_failed',
      `${team.team_id} has ${names.length} members, and ${keep} are to stay: nothing is left to prune.`,
    );
  const importance = Object.fromEntries(names.map((name) => [name, sums.get(name)! / episodes]));
  // Of equals the one that stands first in the version stays.
  const removed = names
    .map((name, i) => ({ name, i }))
    .sort((a, b) => importance[b.name]! - importance[a.name]! || a.i - b.i)
    .slice(keep)
    .map(({ name }) => name);
  return { team: withoutMembers(team, removed), removed, importance, episodes, left_out };
}

type Agent = { readonly name?: unknown };
const agentsOf = ({ definition }: TeamVersion): readonly Agent[] => (definition.agents ?? []) as readonly Agent[];
const membersOf = (team: TeamVersion): string[] => agentsOf(team).map(({ name }) => String(name));

function withoutMembers(team: TeamVersion, removed: readonly string[]): TeamVersion {
  const { edges } = team.definition as { readonly edges?: readonly (readonly string[])[] };
  return teamVersion(team.name, {
    ...team.definition,
    agents: agentsOf(team).filter(({ name }) => !removed.includes(String(name))),
    ...(edges === undefined ? {} : { edges: edges.filter((ends) => !ends.some((end) => removed.includes(end))) }),
  });
}
