/**
 * What methods need, read in bulk for a set of episodes. The transaction's search_path names the schema. A missing input is null
 * here and a reason in the judgement, never a zero.
 */

import type { Matrix } from '../../../ingest/events/events.ts';
import { unescapeText } from '../../../ingest/events/text.ts';
import type { Session } from '../../db/pool.ts';
import { anyOf, facts, type NotNull, prepare, type RowOf, rowsOfPrepared, sql } from '../../db/query.ts';
import type { ExecutionReport } from '../methods/execution-report.ts';

export type StepFacts = {
  readonly episode_id: string;
  readonly step_id: string;
  readonly call_id: string;
  readonly candidate: number;
  /** Null where its call does not record from which candidate the conversation continued. */
  readonly chosen: boolean | null;
  readonly parent_step_id: string | null;
  readonly agent: string | null;
  readonly role: string | null;
  readonly turn: number | null;
  /** The weights that generated it, or the version that the source names; null for a copy, which they did not generate for this episode. */
  readonly policy_version: string | null;
  /** Its call repeats one of another episode. */
  readonly copied: boolean;
};

export type StepContent = {
  readonly text: string | null;
  /** Tokens it was sampled as; null where it has no token ids. */
  readonly tokens: number | null;
  /** Equal for equal tokens, and for equal text where there are none. */
  readonly tokens_key: string;
  /** Its tokens, or those recorded for its call where it has no other candidate. */
  readonly length: number | null;
  readonly finish_reason: string | null;
};

/** A step of an episode as the key of a map; U+0000 occurs in no id. */
export const stepKey = (episodeId: string, stepId: string): string => `${episodeId}\u0000${stepId}`;

/** What is compared with each other: the announced group, else the episodes of one task, else the episode alone. */
export const groupOf = (episode: EpisodeFacts): string => episode.group_id ?? episode.task_id ?? episode.episode_id;

/** A reference as an answer would be written; null where there is none. */
export function textOfTruth(value: unknown): string | null {
  if (value === null || value === undefined) return null;
  return typeof value === 'string' ? value : JSON.stringify(value);
}

const EPISODES = prepare<{ episodes: readonly string[] }>('judge_episodes')((value) =>
  facts
    .selectFrom('episodes as e')
    .leftJoin('tasks as t', 't.task_id', 'e.task_id')
    .select(['e.episode_id', 'e.task_id', 'e.group_id', 'e.group_size', 'e.team_id', 'e.env_id', 'e.parent_episode_id'])
    .select('e.closed')
    .select(['e.outcome', 'e.answer', 'e.reward', 'e.tags', 'e.budgets', 'e.final', 't.query', 't.ground_truth'])
    .select(['t.reference', 't.domain', 't.tags as task_tags'])
    .select(sql<number>`coalesce(e.revision, 0)`.as('revision'))
    .where('e.episode_id', '=', anyOf(value('episodes')))
    .orderBy('e.episode_id'),
);

/** An episode with its task; its revision grows whenever something about it changes. */
export type EpisodeFacts = RowOf<typeof EPISODES>;

export const episodeFacts = (tx: Session, episodes: readonly string[]): Promise<EpisodeFacts[]> =>
  rowsOfPrepared(tx, EPISODES, { episodes });

const MATRICES = prepare<{ keys: readonly string[] }>('judge_reports')((value) =>
  facts
    .selectFrom('feedback as f')
    .distinctOn('f.key')
    .select(['f.episode_id', 'f.matrix'])
    .where('f.key', '=', anyOf(value('keys')))
    .where('f.kind', '=', 'execution')
    .where('f.matrix', 'is not', null)
    .where('f.episode_id', 'is not', null)
    .orderBy('f.key')
    .orderBy('f.version', 'desc')
    .$narrowType<{ episode_id: NotNull; matrix: NotNull }>(),
);

/** The execution report of each episode that has one: its last matrix by (time, id). */
export async function executionReports(
  tx: Session,
  episodes: readonly string[],
  contents: ReadonlyMap<string, StepContent>,
): Promise<Map<string, ExecutionReport>> {
  const rows = await rowsOfPrepared(tx, MATRICES, { keys: episodes.map((id) => `e/${id}`) });
  return new Map(
    rows.map((row) => [row.episode_id, reportOf(row.matrix, (id) => contents.get(stepKey(row.episode_id, id)))]),
  );
}

function reportOf(matrix: Matrix, step: (id: string) => StepContent | undefined): ExecutionReport {
  type Member = Matrix['programs'][number] | Matrix['tests'][number];
  const taken = new Set<string>();
  /** Every member has an id of its own, also where two have one name or none. */
  const idOf = (member: Member, place: string): string => {
    const own = member.step_id ?? member.name ?? place;
    const id = taken.has(own) ? `${own} ${place}` : own;
    taken.add(id);
    return id;
  };
  const tokensOf = (member: Member): number | null => (member.step_id ? (step(member.step_id)?.tokens ?? null) : 0);
  const lengths = { programs: matrix.programs.map(tokensOf), tests: matrix.tests.map(tokensOf) };
  const complete = [...lengths.programs, ...lengths.tests].every((n) => n !== null);
  return {
    programs: matrix.programs.map((program, i) => ({
      id: idOf(program, `program#${i}`),
      valid: program.valid ?? true,
      behaviour: program.behaviour ?? null,
      ...(program.reference ? { reference: true } : {}),
      ...(program.step_id ? { tokens_key: unescapeText(step(program.step_id)?.tokens_key ?? program.step_id) } : {}),
    })),
    tests: matrix.tests.map((test, i) => ({
      id: idOf(test, `test#${i}`),
      valid: test.valid ?? true,
      behaviour: test.behaviour ?? null,
      holds: test.holds ?? null,
      plan_passes_public: test.plan_passes_public ?? null,
      ...(test.ground_truth ? { ground_truth: true } : {}),
      ...(test.public ? { public: true } : {}),
    })),
    pass: matrix.pass.map((row) => [...row]),
    ...(complete ? { tokens: lengths as { programs: number[]; tests: number[] } } : {}),
  };
}
