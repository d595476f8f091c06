/**
 * What methods need, read in bulk for a set of episodes. The transaction's search_path names the schema. A missing input is null
 * here and a reason in the judgement, never a zero.
 */

import type { Matrix } from '../../ingest/events.ts';
import { unescapeText } from '../../ingest/text.ts';
import type { Session } from '../db/pool.ts';
import type { ExecutionReport } from '../methods/execution-report.ts';
import type { StepContent } from './assembled.ts';

export type EpisodeFacts = {
  readonly episode_id: string;
  readonly task_id: string | null;
  readonly group_id: string | null;
  readonly group_size: number | null;
  readonly team_id: string | null;
  readonly env_id: string | null;
  readonly parent_episode_id: string | null;
  readonly outcome: string | null;
  readonly answer: string | null;
  readonly reward: number | null;
  readonly tags: Readonly<Record<string, unknown>> | null;
  readonly budgets: Readonly<Record<string, unknown>> | null;
  readonly final: unknown;
  /** Of its task. */
  readonly query: string | null;
  readonly ground_truth: unknown;
  readonly reference: unknown;
  readonly domain: string | null;
  readonly task_tags: Readonly<Record<string, unknown>> | null;
  /** Grows whenever something about the episode changes. */
  readonly touched: number;
};

export type StepFacts = {
  readonly episode_id: string;
  readonly step_id: string;
  readonly call_id: string;
  readonly candidate: number;
  /** Null where its call does not say which candidate the conversation went on from. */
  readonly chosen: boolean | null;
  readonly parent_step_id: string | null;
  readonly agent: string | null;
  readonly role: string | null;
  readonly turn: number | null;
  /** The weights that spoke, or the version that the source names. */
  readonly policy_version: string | null;
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

export async function episodeFacts(tx: Session, episodes: readonly string[]): Promise<EpisodeFacts[]> {
  const { rows } = await tx.query<EpisodeFacts>(
    `select e.episode_id, e.task_id, e.group_id, e.group_size, e.team_id, e.env_id, e.parent_episode_id, e.outcome, e.answer, e.reward,
            e.tags, e.budgets, e.final, t.query, t.ground_truth, t.reference, t.domain, t.tags as task_tags, coalesce(e.touched_position, 0) as touched
     from episodes e left join tasks t using (task_id) where e.episode_id = any($1::text[]) order by e.episode_id`,
    [episodes],
    { name: 'judge_episodes' },
  );
  return rows;
}

/** What steps said, by `stepKey`. */
export async function stepContents(tx: Session, episodes: readonly string[]): Promise<Map<string, StepContent>> {
  const { rows } = await tx.query<StepContent & { readonly episode_id: string; readonly step_id: string }>(
    `select s.episode_id, s.call_id || '/' || s.candidate as step_id, s.text, cardinality(s.token_ids) as tokens,
            coalesce(s.token_ids::text, s.text, '') as tokens_key, s.finish_reason,
            coalesce(cardinality(s.token_ids), case when count(*) over (partition by s.episode_id, s.call_id) = 1 then c.output_tokens end)
              as length
     from steps s join calls c using (episode_id, call_id) where s.episode_id = any($1::text[])`,
    [episodes],
    { name: 'judge_contents' },
  );
  return new Map(rows.map(({ episode_id, step_id, ...content }) => [stepKey(episode_id, step_id), content]));
}

/** The execution report of each episode that has one: its last matrix by (time, id). */
export async function executionReports(
  tx: Session,
  episodes: readonly string[],
  contents: ReadonlyMap<string, StepContent>,
): Promise<Map<string, ExecutionReport>> {
  const { rows } = await tx.query<{ episode_id: string; matrix: Matrix }>(
    `select distinct on (f.key) f.episode_id, f.matrix from feedback f
     where f.key = any($1::text[]) and f.kind = 'execution' and f.matrix is not null
     order by f.key, f.version desc`,
    [episodes.map((id) => `e/${id}`)],
    { name: 'judge_reports' },
  );
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
