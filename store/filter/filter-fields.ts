/**
 * The fields that filters know: what each one means in SQL, and whether it decides over whole episodes or over single steps.
 *
 * Aliases of the outer query: `e` episodes, `t` tasks, `c` calls, `s` steps, `a` agents, `k` the credits that a recipe names. What a
 * subquery reads has other names, except where `count(steps …)` shadows `c`, `s` and `a`.
 */
import { shownText } from '../tables/long-texts.ts';

export type FieldKind = 'text' | 'integer' | 'number' | 'boolean' | 'time' | 'list' | 'json';
/** Where a field lives: its value decides over whole episodes (with their task) or over single steps. */
export type FieldScope = 'episode' | 'step';
export type FieldFacts = {
  readonly scope: FieldScope;
  readonly kind: FieldKind;
  readonly sql: string;
  /** Made by judging: nothing is found by it before the methods ran. */
  readonly judged?: boolean;
};

const fields = (scope: FieldScope, kind: FieldKind, columns: Readonly<Record<string, string>>) =>
  Object.entries(columns).map(([name, sql]) => [name, { scope, kind, sql }] as const);
const same = (alias: string, ...names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, `${alias}.${name}`]));

const AGENT = 'coalesce(c.completed_agent_id, c.requested_agent_id)';
/** The number that its source gives a call. */
const numberOf = (call: string): string => `coalesce(${call}.requested_seq, ${call}.completed_seq)`;
const STEP_ID = "(s.call_id || '/' || s.candidate)";
const turnOf = (call: string): string => `coalesce(${call}.completed_turn, ${call}.requested_turn)`;
const timeOf = (call: string): string => `coalesce(${call}.requested_at, ${call}.completed_at)`;
/** The place of a call in its episode, never null; the same as `traj.steps.seq`. */
const seqOf = (call: string): string => `troupe.seq_of(${numberOf(call)}, ${timeOf(call)}, ${turnOf(call)})`;

/** The last call with an answer, in the order of rows: of the episode, or of those that `more` leaves. */
const lastCall = (more: string): string =>
  `(c.call_id = (select z.call_id from facts.calls z where z.episode_id = c.episode_id and z.copied is not true${more} and exists (select 1 from facts.steps y where y.episode_id = z.episode_id and y.call_id = z.call_id) order by ${seqOf('z')} desc, ${turnOf('z')} desc nulls first, ${timeOf('z')} desc nulls first, z.call_id desc limit 1))`;

/** Greater numbers of calls are times in microseconds, which no entry is compared with. */
const MOST_ENTRIES = 2_147_483_647;

/**
 * Whether the call stands before everything that rows of `labels` (alias `l`) name by an entry or a step: as its source counts, and where
 * that counts neither, by turn and then by time. Unknown without a label, and where neither says it.
 */
const before = (labels: string, step: string, where: string): string =>
  `(select bool_and(case
       when ${numberOf('c')} <= ${MOST_ENTRIES} and coalesce(l.entry, ${numberOf('z')}) is not null then ${numberOf('c')} < coalesce(l.entry, ${numberOf('z')})
       when ${numberOf('c')} is not null and ${numberOf('z')} is not null then ${numberOf('c')} < ${numberOf('z')}
       when ${turnOf('c')} <> ${turnOf('z')} then ${turnOf('c')} < ${turnOf('z')}
       else ${timeOf('c')} < ${timeOf('z')} end)
     from ${labels} l left join facts.calls z on z.episode_id = c.episode_id and z.call_id = regexp_replace(${step}, '/[0-9]+$', '')
     where ${where})`;

/** People and models that label failures name the mistake; of several labels the earliest counts. */
const BEFORE_MISTAKE = before(
  'facts.feedback',
  "case when l.target_kind = 'step' then l.target_id end",
  "coalesce(l.episode_id, l.resolved_episode_id) = c.episode_id and l.kind = 'failure'",
);

/** What judging and `report.outcomes` take for the group of an episode: the announced one, else its task, else itself. */
const GROUP = 'coalesce(e.group_id, e.task_id, e.episode_id)';
/** Is the episode under this alias in the group of `e`? Three conditions, of which each has an index. */
const inGroup = (alias: string): string =>
  `(${alias}.group_id = ${GROUP} or (${alias}.group_id is null and ${alias}.task_id = ${GROUP}) or (${alias}.group_id is null and ${alias}.task_id is null and ${alias}.episode_id = ${GROUP}))`;

/** Do the episodes of the group have different rewards? Unknown where no reward is known. */
const SIGNAL = `(select min(g.reward) < max(g.reward) from facts.episodes g where ${inGroup('g')})`;

/** How many releases of the policy with other weights came after the last one with these; unknown where these never were released. */
const STALENESS =
  '(select case when l.at is not null then (select count(*) from facts.releases r where r.policies ->> c.policy <> c.checkpoint_id and r.released_at > l.at) end from (select max(q.released_at) as at from facts.releases q where q.policies ->> c.policy = c.checkpoint_id) l)';

/**
 * Finish reasons of an answer that ends before its model ended it, in small letters with `_`: at a limit of tokens, by a filter, by an error
 * or an end from outside, and what a status says of an answer that is not whole. APIs name them differently.
 */
export const CUT_REASONS = [
  ...(['length', 'max_tokens', 'max_output_tokens', 'model_length', 'model_context_window_exceeded'] as const),
  ...(['content_filter', 'content_filtered', 'guardrail_intervened', 'safety', 'recitation', 'blocklist'] as const),
  ...(['prohibited_content', 'spii', 'sensitive', 'refusal'] as const),
  ...(['error', 'failed', 'network_error', 'insufficient_system_resource', 'timeout'] as const),
  ...(['malformed_function_call', 'malformed_model_output', 'malformed_tool_use'] as const),
  ...(['abort', 'aborted', 'cancelled', 'canceled', 'interrupted'] as const),
  ...(['incomplete', 'in_progress', 'queued', 'pause_turn'] as const),
];
/** Is the answer of a step half an answer: by its finish reason, or by the flag `incomplete` of a stream that ended early? */
const CUT = `(coalesce(lower(replace(s.finish_reason, '-', '_')) = any ('{${CUT_REASONS.join(',')}}'::text[]), false) or coalesce(c.completed_flags::jsonb ? 'incomplete', false))`;

/** Why a step cannot be trained on as sampled, in the order that `troupe.untrainable` looks at. */
export const UNTRAINABLE = [
  ...(['copied', 'call_failed', 'incomplete', 'lost_token_ids', 'no_token_ids'] as const),
  ...(['no_tokens', 'no_prompt_token_ids', 'no_logprobs'] as const),
  ...(['unknown_weights', 'constrained', 'greedy', 'truncated'] as const),
];
const WHY_UNTRAINABLE =
  'troupe.untrainable(c.copied, c.error, c.completed_flags, s.token_ids, c.prompt_token_ids, s.logprobs, c.checkpoint_id, c.model_version, c.params)';

export const FIELDS: ReadonlyMap<string, FieldFacts> = new Map<string, FieldFacts>([
  ['episode_id', { scope: 'episode', kind: 'text', sql: 'e.episode_id' }],
  ...fields('episode', 'text', {
    ...same('e', 'task_id', 'group_id', 'team_id', 'session_id', 'env_id', 'parent_episode_id'),
    ...same('e', 'outcome', 'answer', 'stop_reason', 'exit_status'),
    'task.origin': 't.origin',
    'task.split': 't.split',
    'task.difficulty': 't.difficulty',
    'task.domain': 't.domain',
  }),
  ...fields(
    'episode',
    'integer',
    same('e', 'attempt', 'group_size', 'agents', 'calls', 'steps', 'tool_calls', 'messages', 'feedback'),
  ),
  ...fields('episode', 'number', same('e', 'reward')),
  ...fields('episode', 'boolean', { ...same('e', 'closed'), 'group.signal': SIGNAL }),
  ...fields('episode', 'time', same('e', 'started_at', 'finished_at', 'last_at')),
  ...fields('episode', 'json', { ...same('e', 'tags', 'flags', 'policies'), 'task.tags': 't.tags' }),
  ['call_id', { scope: 'step', kind: 'text', sql: 's.call_id' }],
  ['candidate', { scope: 'step', kind: 'integer', sql: 's.candidate' }],
  ['step_id', { scope: 'step', kind: 'text', sql: STEP_ID }],
  ...fields('step', 'text', {
    ...same('s', 'text', 'finish_reason', 'parent_step_id'),
    untrainable: WHY_UNTRAINABLE,
    // The end of a version is the source of its event.
    source: "nullif(split_part(s.version, E'\\x01', 2), '')",
    ...same('c', 'model', 'response_model', 'policy', 'checkpoint_id', 'model_version'),
    agent_id: AGENT,
    agent: 'coalesce(a.name, c.completed_agent_id, c.requested_agent_id)',
    role: 'coalesce(c.completed_role, c.requested_role, a.role, a.name, c.completed_agent_id, c.requested_agent_id)',
  }),
  ...fields('step', 'integer', {
    turn: 'coalesce(c.completed_turn, c.requested_turn)',
    seq: seqOf('c'),
    ...same('c', 'input_tokens', 'output_tokens'),
    staleness: STALENESS,
  }),
  ['advantage', { scope: 'step', kind: 'number', sql: 'k.value', judged: true }],
  ...fields('step', 'number', same('c', 'temperature', 'latency_ms')),
  ...fields('step', 'boolean', {
    ...same('s', 'chosen'),
    ...same('c', 'cached'),
    cut: CUT,
    last: lastCall(''),
    last_of_agent: lastCall(` and coalesce(z.completed_agent_id, z.requested_agent_id) is not distinct from ${AGENT}`),
    before_mistake: BEFORE_MISTAKE,
    trainable: `(${WHY_UNTRAINABLE} is null)`,
  }),
  ...fields('step', 'time', same('c', 'requested_at', 'completed_at')),
  ...fields('step', 'list', { ...same('s', 'token_ids', 'logprobs', 'loss_mask'), ...same('c', 'prompt_token_ids') }),
]);

/** The SQL of a plain field, for whoever selects or orders by it. */
export const fieldSql = (name: string): string => FIELDS.get(name)!.sql;

/** What a filter over stored tasks knows: the task itself, and its closed episodes outside of gates. */
const OF_TASK = "from facts.episodes e where e.task_id = t.task_id and e.closed and (e.tags ->> 'gate') is null";
export const TASK_FIELDS: ReadonlyMap<string, FieldFacts> = new Map<string, FieldFacts>([
  ...fields('episode', 'text', {
    task_id: 't.task_id',
    'task.query': 't.query',
    'task.origin': 't.origin',
    'task.split': 't.split',
    'task.difficulty': 't.difficulty',
    'task.domain': 't.domain',
  }),
  ...fields('episode', 'json', { 'task.tags': 't.tags' }),
  ...fields('episode', 'integer', { episodes: `(select count(*) ${OF_TASK})` }),
  ...fields('episode', 'number', { mean_reward: `(select avg(e.reward) ${OF_TASK})` }),
]);

/** What `count(NAME where …)` counts: rows of `from` that belong to the episode, or with `step.count` to the step's own call. */
export type Collection = {
  readonly from: string;
  readonly of: { readonly episode?: string; readonly step?: string };
  readonly fields: ReadonlyMap<string, FieldFacts>;
};

const inner = (...maps: readonly (readonly (readonly [string, FieldFacts])[])[]) => new Map(maps.flat());
const FOR_SUBQUERY: readonly string[] = ['last', 'last_of_agent', 'before_mistake', 'staleness', 'advantage'];

export const COLLECTIONS: Readonly<Record<string, Collection>> = {
  steps: {
    from: `facts.calls c join facts.steps s on s.episode_id = c.episode_id and s.call_id = c.call_id left join facts.agents a on a.episode_id = c.episode_id and a.agent_id = ${AGENT}`,
    of: { episode: 'c.episode_id = e.episode_id and c.copied is not true' },
    fields: new Map([...FIELDS].filter(([name, { scope }]) => scope === 'step' && !FOR_SUBQUERY.includes(name))),
  },
  tool_calls: {
    from: 'facts.tool_calls x',
    of: { episode: 'x.episode_id = e.episode_id', step: 'x.episode_id = c.episode_id and x.call_id = c.call_id' },
    fields: inner(
      fields('episode', 'text', same('x', 'name', 'type', 'status', 'agent_id')),
      fields('episode', 'integer', same('x', 'turn')),
      fields('episode', 'number', same('x', 'duration_ms')),
      fields('episode', 'boolean', {
        error: "(x.status <> 'ok' or x.error is not null or x.parse_error is not null)",
        ...same('x', 'truncated', 'from_cache'),
      }),
    ),
  },
  messages: {
    from: 'facts.messages x',
    of: { episode: 'x.episode_id = e.episode_id', step: 'x.episode_id = c.episode_id and x.call_id = c.call_id' },
    fields: inner(
      fields('episode', 'text', { ...same('x', 'sender', 'role', 'channel'), text: `(${shownText('x', 'text')})` }),
      fields('episode', 'integer', same('x', 'turn')),
    ),
  },
  candidates: {
    from: 'facts.steps x',
    of: { step: 'x.episode_id = c.episode_id and x.call_id = c.call_id' },
    fields: inner(
      fields('step', 'text', same('x', 'text', 'finish_reason', 'parent_step_id')),
      fields('step', 'integer', same('x', 'candidate')),
      fields('step', 'boolean', same('x', 'chosen')),
    ),
  },
  group: {
    from: 'facts.episodes x',
    of: { episode: inGroup('x') },
    fields: inner(
      fields('episode', 'text', same('x', 'episode_id', 'outcome', 'stop_reason', 'team_id')),
      fields('episode', 'integer', same('x', 'attempt', 'steps', 'tool_calls')),
      fields('episode', 'number', same('x', 'reward')),
      fields('episode', 'boolean', same('x', 'closed')),
    ),
  },
};

const EPISODES = 'facts.episodes e left join facts.tasks t on t.task_id = e.task_id';
/** Every row that a field of the scope is read from. */
export const ROWS: Readonly<Record<FieldScope, string>> = {
  episode: EPISODES,
  step: `(${EPISODES}) join (${COLLECTIONS.steps!.from}) on c.episode_id = e.episode_id`,
};

/**
 * What `NAME(METHOD)` reads of the judgements, given the SQL of the method's key. A judgement of the step takes precedence over one of its episode,
 * a score of the episode before one of its group.
 */
export const JUDGEMENTS: Readonly<Record<string, Omit<FieldFacts, 'sql'> & { readonly sql: (key: string) => string }>> =
  {
    verdict: { scope: 'step', kind: 'boolean', sql: (key) => stepOrEpisode('verdicts', 'keep', key) },
    reward: { scope: 'step', kind: 'number', sql: (key) => stepOrEpisode('rewards', 'value', key) },
    credit: {
      scope: 'step',
      kind: 'number',
      sql: (key) => judged('credits', 'value', key, STEP),
    },
    'episode.verdict': { scope: 'episode', kind: 'boolean', sql: (key) => judged('verdicts', 'keep', key, EPISODE) },
    'episode.reward': { scope: 'episode', kind: 'number', sql: (key) => judged('rewards', 'value', key, EPISODE) },
    score: {
      scope: 'episode',
      kind: 'number',
      sql: (key) => `coalesce(${scored(key, "'e/' || e.episode_id")}, ${scored(key, `'g/' || ${GROUP}`)})`,
    },
    'candidates.signal': {
      scope: 'step',
      kind: 'boolean',
      sql: (key) =>
        `(select min(j.value) < max(j.value) from facts.rewards j where j.method_key = ${key} and j.episode_id = s.episode_id and regexp_replace(j.step_id, '/[0-9]+$', '') = s.call_id)`,
    },
    before_blame: {
      scope: 'step',
      kind: 'boolean',
      sql: (key) => before('facts.blames', 'l.step_id', `l.episode_id = c.episode_id and l.method_key = ${key}`),
    },
  };

const scored = (key: string, of: string): string =>
  `(select j.value from facts.scores j where j.method_key = ${key} and j.key = ${of})`;
const EPISODE = ['e.episode_id', "''"] as const;
const STEP = ['s.episode_id', STEP_ID] as const;
/** By the expression of the constraints `verdicts_once`, `rewards_once` and `credits_once`: their index finds one row among all of an episode. */
const judged = (table: string, value: string, key: string, [episode, step]: readonly [string, string]): string =>
  `(select j.${value} from facts.${table} j
     where j.episode_id || E'\\uFFFE|' || j.step_id || E'\\uFFFE|' || j.method_key = ${episode} || E'\\uFFFE|' || ${step} || E'\\uFFFE|' || ${key})`;
const stepOrEpisode = (table: string, value: string, key: string): string =>
  `coalesce(${judged(table, value, key, STEP)}, ${judged(table, value, key, ['s.episode_id', "''"])})`;

/** What feedback (alias `f`) of this name, an SQL text, says as a number: the last by time counts, and a text or a list is none. */
const feedbackOn = (name: string, episode: string, kind: string, id: string | null): string =>
  `(select f.value from facts.feedback f where coalesce(f.episode_id, f.resolved_episode_id) = ${episode} and f.name = ${name} and f.value is not null
     and ${kind}${id === null ? '' : ` and f.target_id = ${id}`} order by f.version desc, f.feedback_id desc limit 1)`;

/**
 * What `NAME(FEEDBACK)` reads, given the name of the feedback as SQL. Each is of its own kind of target alone: what a step earned by itself is
 * another thing than what its team did.
 */
export const FEEDBACK: Readonly<Record<string, Omit<FieldFacts, 'sql'> & { readonly sql: (name: string) => string }>> =
  {
    feedback: {
      scope: 'step',
      kind: 'number',
      sql: (name) => feedbackOn(name, 's.episode_id', "f.target_kind = 'step'", STEP_ID),
    },
    'agent.feedback': {
      scope: 'step',
      kind: 'number',
      sql: (name) => feedbackOn(name, 's.episode_id', "f.target_kind = 'agent'", AGENT),
    },
    'episode.feedback': {
      scope: 'episode',
      kind: 'number',
      sql: (name) => feedbackOn(name, 'e.episode_id', "f.target_kind = 'episode'", null),
    },
  };
