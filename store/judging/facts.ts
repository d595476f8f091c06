/**
 * What methods need, read in bulk for a set of episodes. The transaction's search_path names the schema. A missing input is null
 * here and a reason in the judgement, never a zero.
 */

import type { Matrix } from '../../ingest/events.ts';
import { unescapeText } from '../../ingest/text.ts';
import type { Session } from '../db/pool.ts';
import type { ExecutionReport } from '../methods/execution-report.ts';

export type EpisodeFacts = {
  readonly episode_id: string;
  readonly task_id: string | null;
  readonly group_id: string | null;
  readonly env_id: string | null;
  readonly answer: string | null;
  readonly reward: number | null;
  readonly ground_truth: unknown;
  /** Grows whenever something about the episode changes. */
  readonly touched: number;
};

export type StepFacts = {
  readonly episode_id: string;
  readonly step_id: string;
  readonly agent: string | null;
  readonly role: string | null;
  readonly turn: number | null;
  readonly tokens: number | null;
  readonly tokens_key: string;
  readonly text: string | null;
};

/** A step of an episode as the key of a map; U+0000 occurs in no id. */
export const stepKey = (episodeId: string, stepId: string): string => `${episodeId}\u0000${stepId}`;

/** What is compared with each other: the announced group, else the episodes of one task, else the episode alone. */
export const groupOf = (episode: EpisodeFacts): string => episode.group_id ?? episode.task_id ?? episode.episode_id;

/** Episodes and all others of their groups, in the order of their ids. */
export async function wholeGroups(tx: Session, episodes: readonly string[]): Promise<string[]> {
  const { rows } = await tx.query<{ episode_id: string }>(
    `select e.episode_id from episodes e where e.episode_id = any($1::text[])
     union
     select o.episode_id from episodes e join episodes o on o.group_id = e.group_id where e.episode_id = any($1::text[])
     union
     select o.episode_id from episodes e join episodes o on o.task_id = e.task_id and o.group_id is null
     where e.episode_id = any($1::text[]) and e.group_id is null
     order by 1`,
    [episodes],
    { name: 'judge_groups' },
  );
  return rows.map((row) => row.episode_id);
}

export async function episodeFacts(tx: Session, episodes: readonly string[]): Promise<EpisodeFacts[]> {
  const { rows } = await tx.query<EpisodeFacts>(
    `select e.episode_id, e.task_id, e.group_id, e.env_id, e.answer, e.reward, t.ground_truth, coalesce(e.touched_position, 0) as touched
     from episodes e left join tasks t using (task_id) where e.episode_id = any($1::text[]) order by e.episode_id`,
    [episodes],
    { name: 'judge_episodes' },
  );
  return rows;
}

export async function stepFacts(tx: Session, episodes: readonly string[]): Promise<StepFacts[]> {
  const { rows } = await tx.query<StepFacts>(
    `select s.episode_id, s.call_id || '/' || s.candidate as step_id, coalesce(c.completed_agent_id, c.requested_agent_id) as agent,
            coalesce(c.completed_role, c.requested_role, a.role) as role, coalesce(c.completed_turn, c.requested_turn) as turn,
            cardinality(s.token_ids) as tokens, coalesce(s.token_ids::text, s.text, '') as tokens_key, s.text
     from steps s
     join calls c using (episode_id, call_id)
     left join agents a on a.episode_id = s.episode_id and a.agent_id = coalesce(c.completed_agent_id, c.requested_agent_id)
     where s.episode_id = any($1::text[])
     order by s.episode_id, coalesce(c.requested_seq, c.completed_seq), coalesce(c.requested_at, c.completed_at), s.call_id, s.candidate`,
    [episodes],
    { name: 'judge_steps' },
  );
  return rows;
}

/** The execution report of each episode that has one: its last matrix by (time, id). */
export async function executionReports(
  tx: Session,
  episodes: readonly string[],
  steps: readonly StepFacts[],
): Promise<Map<string, ExecutionReport>> {
  const { rows } = await tx.query<{ episode_id: string; matrix: Matrix }>(
    `select distinct on (f.key) f.episode_id, f.matrix from feedback f
     where f.key = any($1::text[]) and f.kind = 'execution' and f.matrix is not null
     order by f.key, f.version desc`,
    [episodes.map((id) => `e/${id}`)],
    { name: 'judge_reports' },
  );
  const known = new Map(steps.map((step) => [stepKey(step.episode_id, step.step_id), step]));
  return new Map(
    rows.map((row) => [row.episode_id, reportOf(row.matrix, (id) => known.get(stepKey(row.episode_id, id)))]),
  );
}

function reportOf(matrix: Matrix, step: (id: string) => StepFacts | undefined): ExecutionReport {
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

/** Rewards of steps by a reward method's key: step to value. */
export async function computedRewards(
  tx: Session,
  episodes: readonly string[],
  methodKey: string,
): Promise<Map<string, number | null>> {
  const { rows } = await tx.query<{ episode_id: string; step_id: string; value: number | null }>(
    'select episode_id, step_id, value from rewards where episode_id = any($1::text[]) and method_key = $2',
    [episodes, methodKey],
    { name: 'judge_rewards' },
  );
  return new Map(rows.map((row) => [stepKey(row.episode_id, row.step_id), row.value]));
}
