/** What else is known about episodes: feedback, tool calls, decisions, observations, teams. Read in bulk, each by episode in order. */

import { groupBy } from '../../../ingest/events/group-by.ts';
import type { Session } from '../../db/pool.ts';
import { anyOf, facts, type InferResult, prepare, type RowOf, rowsOf, rowsOfPrepared, sql } from '../../db/query.ts';
import { shownJson } from '../../tables/long-texts.ts';

type ByEpisode<Fact> = ReadonlyMap<string, readonly Fact[]>;
const byEpisode = <Fact extends { readonly episode_id: string }>(rows: readonly Fact[]): ByEpisode<Fact> =>
  groupBy(rows, (row) => row.episode_id);

const FEEDBACK = prepare<{ keys: readonly string[]; episodes: readonly string[] }>('judge_feedback')((value) =>
  facts
    .selectFrom('feedback as f')
    .select([
      sql<string>`coalesce(f.episode_id, f.resolved_episode_id)`.as('episode_id'),
      'f.feedback_id',
      sql<string>`case when f.target_kind = 'foreign' then 'call' else f.target_kind end`.as('target_kind'),
      sql<string | null>`coalesce(f.resolved_call_id, f.target_id)`.as('target_id'),
    ])
    // `value` is null where it was no number; a truth value, a text or a list stands in `value_json`.
    .select(['f.entry', 'f.kind', 'f.name', 'f.value', 'f.value_json', 'f.label', 'f.taxonomy'])
    .select(['f.author as by', 'f.annotator', 'f.unmapped'])
    .where((row) =>
      row.or([row('f.key', '=', anyOf(value('keys'))), row('f.resolved_episode_id', '=', anyOf(value('episodes')))]),
    )
    .orderBy(sql`1`)
    .orderBy('f.version')
    .orderBy('f.feedback_id'),
);

/** Its target is `episode`, `step`, `agent`, `tool_call`, `message` … */
export type FeedbackFact = RowOf<typeof FEEDBACK>;

/** All feedback that travels with these episodes, the oldest first, and that which was resolved to them. */
export const feedbackFacts = async (tx: Session, episodes: readonly string[]): Promise<ByEpisode<FeedbackFact>> =>
  byEpisode(await rowsOfPrepared(tx, FEEDBACK, { keys: episodes.map((id) => `e/${id}`), episodes }));

const TOOLS = prepare<{ episodes: readonly string[] }>('judge_tools')((value) =>
  facts
    .selectFrom('tool_calls as t')
    .select(['episode_id', 'tool_call_id', 'call_id', 'agent_id as agent', 'name', 'arguments', 'status'])
    .select(['error', 'turn', sql<unknown>`${sql.raw(shownJson('t', 'output'))}`.as('output')])
    .where('episode_id', '=', anyOf(value('episodes')))
    .orderBy('episode_id')
    .orderBy(sql`coalesce(seq, returned_seq)`)
    .orderBy(sql`coalesce(called_at, returned_at)`)
    .orderBy('tool_call_id'),
);

export type ToolFact = RowOf<typeof TOOLS>;

export const toolFacts = async (tx: Session, episodes: readonly string[]): Promise<ByEpisode<ToolFact>> =>
  byEpisode(await rowsOfPrepared(tx, TOOLS, { episodes }));

const DECISIONS = prepare<{ episodes: readonly string[] }>('judge_decisions')((value) =>
  facts
    .selectFrom('decisions')
    .select(['episode_id', 'author as by', 'kind', 'decision', 'turn'])
    .where('episode_id', '=', anyOf(value('episodes')))
    .orderBy('episode_id')
    .orderBy('seq')
    .orderBy('occurred_at')
    .orderBy('event_source')
    .orderBy('event_id'),
);

export type DecisionFact = RowOf<typeof DECISIONS>;

export const decisionFacts = async (tx: Session, episodes: readonly string[]): Promise<ByEpisode<DecisionFact>> =>
  byEpisode(await rowsOfPrepared(tx, DECISIONS, { episodes }));

const OBSERVATIONS = prepare<{ episodes: readonly string[] }>('judge_observations')((value) =>
  facts
    .selectFrom('observations as o')
    .select(['episode_id', 'kind', 'turn'])
    .select([
      sql<unknown>`${sql.raw(shownJson('o', 'content'))}`.as('content'),
      sql<unknown>`${sql.raw(shownJson('o', 'state'))}`.as('state'),
    ])
    .where('episode_id', '=', anyOf(value('episodes')))
    .orderBy('episode_id')
    .orderBy('seq')
    .orderBy('occurred_at')
    .orderBy('event_source')
    .orderBy('event_id'),
);

export type ObservationFact = RowOf<typeof OBSERVATIONS>;

export const observationFacts = async (tx: Session, episodes: readonly string[]): Promise<ByEpisode<ObservationFact>> =>
  byEpisode(await rowsOfPrepared(tx, OBSERVATIONS, { episodes }));

const teamRows = facts
  .selectFrom('teams')
  .select(['team_id', 'name', 'team_version', 'agents', 'edges', 'tags', 'unmapped']);

export type TeamFact = Readonly<InferResult<typeof teamRows>[number]>;

export async function teamFacts(tx: Session, teams: readonly string[]): Promise<ReadonlyMap<string, TeamFact>> {
  const rows = await rowsOf(tx, teamRows.where('team_id', '=', anyOf(teams)).orderBy('team_id'));
  return new Map(rows.map((row) => [row.team_id, row]));
}
