/** Episodes as an analyst meets them: a task, a team, who answered and how it ended; and the rows of a view over them. */
import type { Event, EventData } from '../../../ingest/events/events.ts';
import { given } from '../../../ingest/events/json.ts';
import { postgresLog } from '../../../ingest/log/postgres.ts';
import type { Db } from '../../../store/db/pool.ts';
import { projectAll } from '../../../store/projecting/projector.ts';
import { at, event } from '../support/events.ts';

type Finished = EventData<'episode.finished'>;
type Call = {
  /** The agent, or nobody. */
  readonly by?: string;
  readonly role?: string;
  readonly output_tokens?: number;
  readonly cost_usd?: number;
  readonly model?: string;
  readonly policy?: string;
  readonly checkpoint?: string;
  /** How many candidates; the first is chosen where there are several. */
  readonly candidates?: number;
  readonly revises?: string;
  /** Number in order; its place among the calls where left out. */
  readonly seq?: number;
};

export type Attempt = {
  readonly task?: string | null;
  readonly team?: string;
  readonly group?: string;
  readonly reward?: number | null;
  readonly outcome?: Finished['outcome'] | null;
  readonly answer?: string;
  readonly tags?: Readonly<Record<string, string>>;
  readonly budgets?: Readonly<Record<string, number>>;
  /** Members who are defined, with role and depth; an agent with a call is a member by that alone. */
  readonly members?: Readonly<Record<string, { readonly role?: string; readonly depth?: number }>>;
  /** Calls in order: `c0`, `c1` … with the steps `c0/0` … */
  readonly says?: readonly Call[];
};

/** One attempt; what is left out of it was not recorded. `outcome` null leaves it open. */
export function attempt(id: string, parts: Attempt = {}): Event[] {
  const {
    task = 'task-1',
    team,
    group,
    reward = null,
    outcome = 'unknown',
    answer,
    tags,
    budgets,
    members = {},
    says = [],
  } = parts;
  let n = 0;
  const next = () => ({ id: `${id}-${n}`, time: at(n++) });
  const e = { episode_id: id };
  return [
    event(
      'episode.started',
      {
        ...e,
        task_id: task,
        team_id: team ?? null,
        group_id: group ?? null,
        budgets: budgets ?? null,
        ...given('tags', tags),
      },
      next(),
    ),
    ...Object.entries(members).map(([agent_id, { role, depth }]) =>
      event('agent.defined', { ...e, agent_id, name: agent_id, role: role ?? null, depth: depth ?? null }, next()),
    ),
    ...says.map(({ by, role, output_tokens, cost_usd, model, policy, checkpoint, candidates = 1, revises, seq }, i) =>
      event(
        'generation.completed',
        {
          ...e,
          call_id: `c${i}`,
          agent_id: by ?? null,
          role: role ?? null,
          seq: seq ?? i,
          response_model: model ?? null,
          policy: policy ?? null,
          checkpoint_id: checkpoint ?? null,
          choices: Array.from({ length: candidates }, (_, index) => ({
            index,
            content: `said ${i}`,
            ...(candidates > 1 && index === 0 ? { chosen: true } : {}),
            ...(revises ? { parent_step_id: revises } : {}),
          })),
          ...(output_tokens === undefined
            ? {}
            : { usage: { input_tokens: 10, output_tokens, ...given('cost_usd', cost_usd) } }),
        },
        next(),
      ),
    ),
    ...(reward === null ? [] : [feedback(id, { kind: 'episode' }, { kind: 'reward', name: 'reward', value: reward })]),
    ...(outcome === null ? [] : [event('episode.finished', { ...e, outcome, answer: answer ?? null }, next())]),
  ];
}

let feedbacks = 0;

/** Feedback on an episode, or on a target in it. */
export function feedback(
  episode: string,
  target: Omit<EventData<'feedback.recorded'>['target'], 'episode_id'>,
  words: Omit<EventData<'feedback.recorded'>, 'feedback_id' | 'target'>,
): Event {
  const id = `feedback-${feedbacks++}`;
  return event(
    'feedback.recorded',
    { feedback_id: id, target: { ...target, episode_id: episode }, ...words },
    { id, time: at(1000 + feedbacks) },
  );
}

/** A step labelled right or wrong. */
export const marked = (episode: string, step: string, value: boolean): Event =>
  feedback(episode, { kind: 'step', id: step }, { kind: 'label', name: 'correct', value });

export async function record(db: Db, ...events: readonly (readonly Event[])[]): Promise<void> {
  await postgresLog(db).append(events.flat());
  await projectAll(db);
}

/** What a query over the views answers. */
export async function rowsOf(db: Db, query: string): Promise<Record<string, unknown>[]> {
  return (await db.query<Record<string, unknown>>(query)).rows;
}

/** The views of schema report. */
export const VIEWS = [
  'outcomes',
  'pass_at_k',
  'agreement',
  'role_performance',
  'pair_performance',
  'local_rewards',
  'reward_alignment',
  'corrections',
  'credit_spread',
  'credit_ranks',
  'credit_pairs',
  'reward_by_length',
  'cost_per_solved',
  'reward_by_budget',
  'reward_by_depth',
  'group_signals',
  'agent_shares',
  'execution_authors',
  'failures',
  'failure_modes',
  'team_vs_single',
  'blame_check',
] as const;
