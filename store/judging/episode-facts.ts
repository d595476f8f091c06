/** What else is known about episodes: feedback, tool calls, decisions, observations, teams. Read in bulk, each by episode in order. */
import type { Session } from '../db/pool.ts';
import { groupBy } from '../methods/statistics.ts';

export type FeedbackFact = {
  readonly episode_id: string;
  readonly feedback_id: string;
  /** `episode`, `step`, `agent`, `tool_call`, `message` … */
  readonly target_kind: string;
  readonly target_id: string | null;
  readonly entry: number | null;
  readonly kind: string;
  readonly name: string;
  /** Null where it was not a number. */
  readonly value: number | null;
  /** A truth value, a text or a list, where it was that. */
  readonly value_json: unknown;
  readonly label: string | null;
  readonly taxonomy: unknown;
  readonly by: string | null;
  readonly annotator: string | null;
  readonly unmapped: Readonly<Record<string, unknown>> | null;
};

export type ToolFact = {
  readonly episode_id: string;
  readonly tool_call_id: string;
  readonly call_id: string | null;
  readonly agent: string | null;
  readonly name: string | null;
  readonly arguments: unknown;
  readonly status: string | null;
  readonly output: unknown;
  readonly error: unknown;
  readonly turn: number | null;
};

export type DecisionFact = {
  readonly episode_id: string;
  readonly by: string | null;
  readonly kind: string;
  readonly decision: unknown;
  readonly turn: number | null;
};

export type ObservationFact = {
  readonly episode_id: string;
  readonly kind: string;
  readonly content: unknown;
  readonly state: unknown;
  readonly turn: number | null;
};

export type TeamFact = {
  readonly team_id: string;
  readonly name: string | null;
  readonly team_version: string | null;
  readonly agents: readonly Readonly<Record<string, unknown>>[] | null;
  readonly edges: readonly (readonly string[])[] | null;
  readonly tags: Readonly<Record<string, unknown>> | null;
  readonly unmapped: Readonly<Record<string, unknown>> | null;
};

type ByEpisode<Fact> = ReadonlyMap<string, readonly Fact[]>;
const byEpisode = <Fact extends { readonly episode_id: string }>(rows: readonly Fact[]): ByEpisode<Fact> =>
  groupBy(rows, (row) => row.episode_id);

/** All feedback that travels with these episodes, the oldest first, and that which was resolved to them. */
export async function feedbackFacts(tx: Session, episodes: readonly string[]): Promise<ByEpisode<FeedbackFact>> {
  const { rows } = await tx.query<FeedbackFact>(
    `select coalesce(f.episode_id, f.resolved_episode_id) as episode_id, f.feedback_id,
            case when f.target_kind = 'foreign' then 'call' else f.target_kind end as target_kind,
            coalesce(f.resolved_call_id, f.target_id) as target_id, f.entry, f.kind, f.name, f.value, f.value_json, f.label, f.taxonomy,
            f."by", f.annotator, f.unmapped
     from feedback f where f.key = any($1::text[]) or f.resolved_episode_id = any($2::text[])
     order by 1, f.version, f.feedback_id`,
    [episodes.map((id) => `e/${id}`), episodes],
    { name: 'judge_feedback' },
  );
  return byEpisode(rows);
}

export async function toolFacts(tx: Session, episodes: readonly string[]): Promise<ByEpisode<ToolFact>> {
  const { rows } = await tx.query<ToolFact>(
    `select episode_id, tool_call_id, call_id, agent_id as agent, name, arguments, status, output, error, turn
     from tool_calls where episode_id = any($1::text[])
     order by episode_id, coalesce(seq, returned_seq), coalesce(called_at, returned_at), tool_call_id`,
    [episodes],
    { name: 'judge_tools' },
  );
  return byEpisode(rows);
}

export async function decisionFacts(tx: Session, episodes: readonly string[]): Promise<ByEpisode<DecisionFact>> {
  const { rows } = await tx.query<DecisionFact>(
    `select episode_id, "by", kind, decision, turn from decisions where episode_id = any($1::text[])
     order by episode_id, seq, at, event_source, event_id`,
    [episodes],
    { name: 'judge_decisions' },
  );
  return byEpisode(rows);
}

export async function observationFacts(tx: Session, episodes: readonly string[]): Promise<ByEpisode<ObservationFact>> {
  const { rows } = await tx.query<ObservationFact>(
    `select episode_id, kind, content, state, turn from observations where episode_id = any($1::text[])
     order by episode_id, seq, at, event_source, event_id`,
    [episodes],
    { name: 'judge_observations' },
  );
  return byEpisode(rows);
}

export async function teamFacts(tx: Session, teams: readonly string[]): Promise<ReadonlyMap<string, TeamFact>> {
  const { rows } = await tx.query<TeamFact>(
    'select team_id, name, team_version, agents, edges, tags, unmapped from teams where team_id = any($1::text[]) order by team_id',
    [teams],
    { name: 'judge_teams' },
  );
  return new Map(rows.map((row) => [row.team_id, row]));
}
