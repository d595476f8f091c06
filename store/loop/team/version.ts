/**
 * A version of a team: its agents, prompts and wiring as data, named by their hash. It is recorded as `team.defined`, played by a runner
 * that hands it to the team's program, and released beside the policies.
 */
import { type Static, Type } from 'typebox';
import { got, TroupeError } from '../../../errors.ts';
import type { Draft } from '../../../ingest/events/events.ts';
import { canonicalJson, sha256 } from '../../../ingest/events/json.ts';
import type { Session } from '../../db/pool.ts';
import { firstOf, query } from '../../db/query.ts';
import { releasesOf } from '../release/releases.ts';

export const TeamVersionSpec = Type.Object({
  team_id: Type.String({ minLength: 1 }),
  name: Type.String({ minLength: 1 }),
  definition: Type.Record(Type.String(), Type.Unknown()),
});
export type TeamVersion = Static<typeof TeamVersionSpec>;
type Definition = TeamVersion['definition'];

/** Fields of `team.defined` that are not the version's to set. */
const RESERVED = ['team_id', 'name', 'team_version', 'content_hash', 'tags', 'unmapped'];

const hashOf = (definition: Definition): string => sha256(canonicalJson(definition));

/** @throws TroupeError `usage` where the definition cannot be recorded as it is */
export function teamVersion(name: string, definition: Definition): TeamVersion {
  const reserved = RESERVED.find((field) => Object.hasOwn(definition, field));
  if (reserved !== undefined)
    throw new TroupeError('usage', `A version of a team should have no field ${reserved}: Troupe names it itself.`);
  const { agents, edges } = definition;
  if (agents !== undefined && !(Array.isArray(agents) && agents.every(isObject)))
    throw new TroupeError('usage', `agents of a team should be a list of objects, but it is ${got(agents)}.`);
  if (edges !== undefined && !(Array.isArray(edges) && edges.every(isEdge)))
    throw new TroupeError('usage', `edges of a team should be a list of [from, to], but it is ${got(edges)}.`);
  if (Object.keys(definition).length === 0)
    throw new TroupeError('usage', 'A version of a team should have agents, edges or other settings, but it is empty.');
  return { team_id: `${name}@${hashOf(definition).slice(0, 16)}`, name, definition };
}

const isObject = (value: unknown): boolean => typeof value === 'object' && value !== null && !Array.isArray(value);
const isEdge = (value: unknown): boolean => Array.isArray(value) && value.every((end) => typeof end === 'string');

/** The event that records a version; the same version is the same event. `at`: when it was first asked for. */
export const teamDraft = ({ team_id, name, definition }: TeamVersion, at: string): Draft => {
  const { agents, edges, ...rest } = definition;
  return {
    name: 'team.defined',
    source: '/teams',
    id: team_id,
    time: at,
    data: {
      team_id,
      name,
      content_hash: hashOf(definition),
      ...(agents === undefined ? {} : { agents }),
      ...(edges === undefined ? {} : { edges }),
      ...(Object.keys(rest).length === 0 ? {} : { unmapped: rest }),
    },
  } as Draft;
};

/** The id of the released version of each team. */
const releasedTeams = async (db: Session): Promise<Readonly<Record<string, string>>> =>
  (await releasesOf(db)).at(-1)?.teams ?? {};

/** The released version of a team. @throws TroupeError `not_found` where none is; `conflict` as `releasedTeam` */
export async function requireReleasedTeam(db: Session, name: string): Promise<TeamVersion> {
  const released = await releasedTeam(db, name);
  if (released !== null) return released;
  throw new TroupeError('not_found', `No version of a team ${name} is released; traj.releases lists those that are.`);
}

/**
 * The version of a team that is released; null where none is.
 * @throws TroupeError `conflict` where what is recorded of it is not what was released, as after a redaction
 */
export async function releasedTeam(db: Session, name: string): Promise<TeamVersion | null> {
  const released = await releasedTeams(db);
  if (!Object.hasOwn(released, name)) return null;
  const team_id = released[name]!;
  const row = await firstOf(
    db,
    query
      .selectFrom('facts.teams')
      .select(['agents', 'edges', 'unmapped', 'content_hash'])
      .where('team_id', '=', team_id),
  );
  const definition = Object.fromEntries(
    Object.entries({ ...(row?.unmapped as Definition | null), agents: row?.agents, edges: row?.edges }).filter(
      ([, value]) => value !== null && value !== undefined,
    ),
  );
  if (hashOf(definition) === row?.content_hash) return { team_id, name, definition };
  throw new TroupeError(
    'conflict',
    `What is recorded of the team version ${team_id} is not what was released: it was erased, or a secret in it was redacted.`,
    { hint: 'troupe rollback goes back to the release before; keep secrets out of a version.' },
  );
}
