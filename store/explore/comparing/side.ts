/** What can be compared: a checkpoint, a team or a model, and the episodes that it played. */
import { TroupeError } from '../../../errors.ts';
import { nearest } from '../../../nearest.ts';
import type { Session } from '../../db/pool.ts';
import { firstOf, query, rowsOf, sql } from '../../db/query.ts';

export type ComparedSide = {
  readonly kind: 'checkpoint' | 'team' | 'model';
  readonly id: string;
  readonly name: string | null;
};

/**
 * The side that this text names: a checkpoint or team by its id, a team by its name, a model as calls name it, in this order.
 * @throws TroupeError `not_found` where nothing recorded has that name
 */
export async function findSide(tx: Session, text: string): Promise<ComparedSide> {
  const checkpoint = await firstOf(
    tx,
    query.selectFrom('facts.checkpoints').select('policy').where('checkpoint_id', '=', text),
  );
  if (checkpoint !== undefined) return { kind: 'checkpoint', id: text, name: checkpoint.policy };
  const teams = await rowsOf(
    tx,
    query
      .selectFrom('facts.teams')
      .select(['team_id', 'name'])
      .where((is) => is.or([is('team_id', '=', text), is('name', '=', text)]))
      .orderBy('team_id'),
  );
  const team = teams.find(({ team_id }) => team_id === text) ?? teams[0];
  if (team !== undefined && (teams.length === 1 || team.team_id === text))
    return { kind: 'team', id: team.team_id, name: team.name };
  if (teams.length > 1)
    throw new TroupeError('usage', `${text} names ${teams.length} teams.`, {
      hint: `Name one by its id: ${teams.map(({ team_id }) => team_id).join(', ')}.`,
    });
  const known = await named(tx);
  const found = known.find(({ id }) => id === text);
  if (found !== undefined) return { kind: found.kind, id: text, name: null };
  const meant = nearest(text, [
    ...known.map(({ id }) => id),
    ...(await rowsOf(tx, query.selectFrom('facts.teams').select(['team_id', 'name']))).flatMap(({ team_id, name }) =>
      name === null ? [team_id] : [team_id, name],
    ),
  ]);
  throw new TroupeError('not_found', `Nothing recorded is called ${text}; expected a checkpoint, a team or a model.`, {
    hint:
      meant === null
        ? 'troupe checkpoints lists checkpoints; traj.teams and traj.steps hold teams and models.'
        : `Did you mean ${meant}?`,
  });
}

/** Checkpoints and models that calls name, also those of which nothing else was recorded. */
async function named(tx: Session): Promise<{ readonly kind: 'checkpoint' | 'model'; readonly id: string }[]> {
  const rows = await rowsOf(
    tx,
    query
      .selectFrom('facts.calls')
      .select(['checkpoint_id', sql<string | null>`coalesce(response_model, model)`.as('model')])
      .distinct(),
  );
  return rows.flatMap(({ checkpoint_id, model }) => [
    ...(checkpoint_id === null ? [] : [{ kind: 'checkpoint' as const, id: checkpoint_id }]),
    ...(model === null ? [] : [{ kind: 'model' as const, id: model }]),
  ]);
}

/** The episodes of a side, with the roles that it played in each. */
export async function generatedBy(tx: Session, { kind, id }: ComparedSide): Promise<Map<string, Set<string>>> {
  const rows = await rowsOf(
    tx,
    query
      .selectFrom('facts.calls as c')
      .innerJoin('facts.episodes as e', 'e.episode_id', 'c.episode_id')
      .leftJoin('facts.agents as a', (join) =>
        join
          .onRef('a.episode_id', '=', 'c.episode_id')
          .on(sql<boolean>`a.agent_id = coalesce(c.completed_agent_id, c.requested_agent_id)`),
      )
      .select([
        'c.episode_id',
        sql<
          string | null
        >`coalesce(c.completed_role, c.requested_role, a.role, a.name, c.completed_agent_id, c.requested_agent_id)`.as(
          'role',
        ),
      ])
      .distinct()
      .where((is) => {
        if (kind === 'checkpoint') return is('c.checkpoint_id', '=', id);
        return kind === 'team' ? is('e.team_id', '=', id) : is(sql`coalesce(c.response_model, c.model)`, '=', id);
      })
      .orderBy('c.episode_id'),
  );
  const episodes = new Map<string, Set<string>>();
  for (const { episode_id, role } of rows) {
    const roles = episodes.get(episode_id) ?? new Set();
    if (role !== null) roles.add(role);
    episodes.set(episode_id, roles);
  }
  return episodes;
}
