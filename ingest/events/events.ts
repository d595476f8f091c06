/**
 * The vocabulary: every event of Troupe on one page. Types, validation and `docs/events.md` all come from these schemas.
 *
 * An event is a CloudEvents 1.0 envelope (`id`, `source`, `type`, `time`) around one of the data shapes below; its full type is
 * `troupe.<name>.v<version>`. New fields are additive; another name or meaning is another version, and `upcast/` reads the old ones for
 * ever. Fields that are not named here are kept with the event.
 * Unknown is null or absent, never a made-up value: an unknown time is null, a null reward is not 0.
 */
import { type Static, type TObject, type TProperties, type TSchema, Type } from 'typebox';

/** Ids, names and keys: 1 to 512 bytes of text without U+0000 or lone surrogates (checked in `decode`). */
export const Id = (description: string) => Type.String({ minLength: 1, maxLength: 512, description });
/** An id in a list of ids. */
const Ref = Type.String({ maxLength: 512 });
export const Text = (description: string) => Type.String({ description });
/** Whole numbers that a JSON number holds exactly. */
export const Integer = (description: string) =>
  Type.Integer({ minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER, description });
/** Counts, places and token ids: 32 bits. */
const INT32 = 2_147_483_647;
const Count = (description: string) => Type.Integer({ minimum: -INT32, maximum: INT32, description });
const Token = Type.Integer({ minimum: 0, maximum: INT32 });
const Real = (description: string) => Type.Number({ description });
const Flag = (description: string) => Type.Boolean({ description });
const Plain = (description: string) => Type.Record(Type.String(), Type.Unknown(), { description });
const Any = (description: string) => Type.Unknown({ description });
export const maybe = <T extends TSchema>(schema: T) => Type.Optional(Type.Union([schema, Type.Null()]));
const list = <T extends TSchema>(schema: T, description: string) => Type.Array(schema, { description });

/** One piece of a message: text{content}, reasoning{content}, tool_call{id,name,arguments}, tool_call_response{id,response}, uri, blob, … Open: any other type is kept. */
export const Part = Type.Object(
  { type: Type.String({ minLength: 1 }), content: Type.Optional(Type.Unknown()) },
  { additionalProperties: true },
);
export type Part = Static<typeof Part>;

/** The content of a message: plain text, or a list of parts. */
export const Content = Type.Union([Type.String(), Type.Array(Part)]);
export type Content = Static<typeof Content>;

export const Message = Type.Object(
  {
    role: Type.String({ minLength: 1, maxLength: 64 }),
    content: maybe(Content),
    name: maybe(Id('author, where the role alone does not identify it')),
  },
  { additionalProperties: true },
);
export type Message = Static<typeof Message>;

/** One candidate output of a model call: it becomes one step. */
export const Choice = Type.Object(
  {
    index: Type.Integer({ minimum: 0, maximum: INT32, description: 'candidate number in its call' }),
    content: maybe(Content),
    finish_reason: maybe(
      Text('stop, length, tool_call, content_filter, error, incomplete (a stream ended before its last event) …'),
    ),
    token_ids: maybe(list(Token, 'the tokens as sampled')),
    logprobs: maybe(
      list(
        Type.Number({ minimum: -3.4e38, maximum: 3.4e38 }),
        'log-probability of each of token_ids, under the distribution sampled from',
      ),
    ),
    raw_logprobs: maybe(list(Type.Number(), 'the same at temperature 1 with nothing cut')),
    top_logprobs: maybe(
      list(
        list(
          Type.Record(Type.String(), Type.Unknown()),
          'token_id, logprob and where it is known token (the text), best first',
        ),
        'the most probable tokens at each place of token_ids',
      ),
    ),
    tokens: maybe(list(Type.String(), 'the text of each of token_ids; `bytes:\\x…` for part of a character')),
    loss_mask: maybe(list(Type.Integer({ minimum: 0, maximum: 1 }), '1 = sampled by the model, 0 = forced or foreign')),
    chosen: maybe(Flag('true for the candidate that went on; at most one in a call')),
    parent_step_id: maybe(Id('the step this one was expanded from, in a tree')),
  },
  { additionalProperties: true },
);

/** Where feedback points. By our ids it travels under the target's key; a `foreign` target (trace or response id of another system) waits until it is known. */
export const Target = Type.Object(
  {
    kind: Type.Enum([
      'episode',
      'agent',
      'call',
      'step',
      'message',
      'tool_call',
      'task',
      'group',
      'pair',
      'checkpoint',
      'foreign',
    ]),
    id: maybe(Id('id of the target inside its episode, or of the task, group, checkpoint, trace or response')),
    episode_id: maybe(Id('the episode the target is in')),
    other_id: maybe(Id('second member of a pair')),
    entry: maybe(Count('0-based entry of the recorded conversation, where the source counts so')),
  },
  { additionalProperties: true },
);

/** A row (program) or column (test) of an execution matrix. */
const MatrixMember = {
  step_id: maybe(Id('the candidate that wrote it')),
  name: maybe(Id('a name, for members that no candidate wrote')),
  valid: maybe(Flag('false: malformed, it could not be run')),
  behaviour: maybe(Id('equal for members that behave alike')),
};
export const Matrix = Type.Object(
  {
    programs: Type.Array(
      Type.Object({ ...MatrixMember, reference: maybe(Flag('the true program; never shown to a learner')) }),
    ),
    tests: Type.Array(
      Type.Object({
        ...MatrixMember,
        holds: maybe(Flag('its own written working re-executes')),
        ground_truth: maybe(Flag('this column is the truth, not a candidate')),
        public: maybe(Flag('an example everybody may see')),
        plan_passes_public: maybe(Flag('the plan it follows passes the public examples')),
      }),
    ),
    pass: Type.Array(Type.Array(Type.Union([Type.Literal(0), Type.Literal(1), Type.Null()])), {
      description: 'a vector for each program: 1 passed, 0 failed, null not run',
    }),
  },
  { additionalProperties: true },
);
export type Matrix = Static<typeof Matrix>;

/** Fields every event about an episode may carry. */
const Context = {
  seq: maybe(Integer('native order inside the episode')),
  parent_id: maybe(Id('parent in the native span tree')),
  native: maybe(Plain('format, version and ids of the source')),
  flags: maybe(list(Type.String(), 'what was irregular: agent_mismatch, escaped_text, no_token_ids …')),
  unmapped: maybe(Plain('every native field without a place of its own')),
  raw: maybe(Plain('artifact_id of the original record')),
  subject: maybe(Id('the person whose data this is: what troupe erase --subject erases')),
  redactions: maybe(Plain('rule to number of secrets that were replaced before the log')),
};

export const about = <P extends TProperties>(description: string, fields: P) =>
  Type.Object({ ...fields, ...Context }, { additionalProperties: true, description });
const inEpisode = <P extends TProperties>(description: string, fields: P) =>
  about(description, { episode_id: Id('the episode'), ...fields });

export const VOCABULARY = {
  'task.defined': about('A problem was stated.', {
    task_id: Id('the problem'),
    query: maybe(Content),
    ground_truth: maybe(Any('the right answer, any JSON')),
    reference: maybe(Any('reference actions or solution')),
    tests: maybe(Any('public tests')),
    constraints: maybe(Any('limits of the task')),
    source: maybe(Text('where the task comes from')),
    split: maybe(Text('train, held-out …, as in the source')),
    difficulty: maybe(Text('as in the source')),
    domain: maybe(Text('field of the problem')),
    tags: maybe(Plain('free labels')),
  }),
  'team.defined': about('A team (a multi-agent system: agents, prompts and wiring) was described.', {
    team_id: Id('versioned id of the team'),
    name: maybe(Text('name for people')),
    team_version: maybe(Text('version for people')),
    agents: maybe(list(Type.Record(Type.String(), Type.Unknown()), 'members: name, role, policy or model, prompt')),
    edges: maybe(list(Type.Array(Type.String()), 'who sends messages to whom: [from, to]')),
    content_hash: maybe(Text('hash of agents, prompts and wiring')),
    tags: maybe(Plain('free labels')),
  }),
  'episode.started': inEpisode('One attempt by a team at a task began.', {
    task_id: maybe(Id('the problem')),
    attempt: maybe(Count('which attempt, from 0')),
    group_id: maybe(Id('what it is compared with')),
    group_size: maybe(Count('announced number of episodes in the group')),
    session_id: maybe(Id('session of the source')),
    team_id: maybe(Id('the team')),
    env_id: maybe(Id('environment instance')),
    parent_episode_id: maybe(Id('the episode that launched this one')),
    policies: maybe(Plain('agent or role to policy and version')),
    budgets: maybe(Plain('limits of the attempt')),
    tags: maybe(Plain('free labels')),
  }),
  'agent.defined': inEpisode('A member of the team was described.', {
    agent_id: Id('the member, in this episode'),
    name: maybe(Id('display name')),
    role: maybe(Id('what it plays')),
    parent_agent_id: maybe(Id('who created it')),
    depth: maybe(Count('depth in the tree of agents')),
    model: maybe(Text('model that it uses')),
    policy: maybe(Text('policy that it uses')),
    system_instructions: maybe(Content),
    tools: maybe(Any('tools it may call')),
    params: maybe(Plain('sampling parameters')),
  }),
  'agent.changed': inEpisode('A member changed its state.', {
    agent_id: Id('the member'),
    state: Type.Enum(['started', 'running', 'waiting', 'stopped', 'errored']),
    reason: maybe(Text('why')),
  }),
  'generation.requested': inEpisode('A model was called.', {
    call_id: Id('the call'),
    agent_id: maybe(Id('who called')),
    role: maybe(Id('the role it played')),
    turn: maybe(Count('round of the environment, from 0')),
    task_id: maybe(Id('the task of the episode, where its episode.started names none')),
    group_id: maybe(Id('the group of the episode, where its episode.started names none')),
    model: maybe(Text('model or policy asked for')),
    params: maybe(Plain('sampling parameters')),
    input: maybe(list(Message, 'the messages as sent')),
    tools: maybe(Any('tool definitions as sent')),
    parent_call_id: maybe(Id('the call whose code made this one')),
    copied: maybe(Flag('context copied from elsewhere, never to be trained on twice')),
  }),
  'generation.completed': inEpisode('A model answered: all candidates of one call.', {
    call_id: Id('the call'),
    agent_id: maybe(Id('who called')),
    role: maybe(Id('the role it played')),
    turn: maybe(Count('round of the environment, from 0')),
    choices: list(Choice, 'one for each candidate'),
    prompt_token_ids: maybe(list(Token, 'the prompt as the model saw it')),
    response_id: maybe(Id('id the model server gave')),
    response_model: maybe(Text('model that answered')),
    policy: maybe(Text('policy that answered')),
    checkpoint_id: maybe(Id('weights that answered')),
    model_version: maybe(Text('version the source names')),
    seed: maybe(Integer('seed of the sampling')),
    temperature: maybe(Real('temperature of the sampling')),
    usage: maybe(Plain('input_tokens, output_tokens …')),
    latency_ms: maybe(Real('milliseconds')),
    cached: maybe(Flag('answered from a cache')),
    error: maybe(Any('what went wrong')),
  }),
  'message.sent': inEpisode('One member sent a message to others.', {
    message_id: Id('the message, in this episode'),
    from: maybe(Id('agent, user or environment')),
    to: maybe(list(Ref, 'receivers, or ["all"]')),
    role: maybe(Text('role in the conversation')),
    content: maybe(Content),
    channel: maybe(Text('channel of the message')),
    in_reply_to: maybe(Id('message it answers')),
    call_id: maybe(Id('the call that produced it')),
    turn: maybe(Count('round, from 0')),
  }),
  'tool.called': inEpisode('A model asked for a tool.', {
    tool_call_id: Id('the tool call; a repeated native id is made distinct by the converter'),
    call_id: maybe(Id('the model call that asked')),
    parent_tool_call_id: maybe(Id('the tool call whose code made this one')),
    index: maybe(Count('number of the tool call in its step')),
    agent_id: maybe(Id('who asked')),
    name: Id('the tool'),
    type: maybe(Text('function, server, mcp, code')),
    arguments: maybe(Any('arguments, parsed; the log sorts the members of objects')),
    arguments_raw: maybe(
      Text(
        'the text of the arguments, which a model learns: as the model wrote it, else the object in the order and with the numbers of its source',
      ),
    ),
    parse_error: maybe(Text('why they could not be parsed')),
    turn: maybe(Count('round, from 0')),
  }),
  'tool.returned': inEpisode('A tool answered.', {
    tool_call_id: Id('the tool call'),
    call_id: maybe(Id('the model call that asked')),
    status: Type.Enum(['ok', 'error', 'timeout', 'denied', 'cancelled']),
    output: maybe(Any('output: text, parts or JSON')),
    error: maybe(Any('what went wrong')),
    duration_ms: maybe(Real('milliseconds')),
    from_cache: maybe(Flag('answered from a cache')),
    truncated: maybe(Flag('cut by the source')),
  }),
  'control.transferred': inEpisode('One agent handed over to another.', {
    from_agent: maybe(Id('who handed over')),
    to_agent: Id('who goes on'),
    kind: Type.Enum(['handoff', 'delegate', 'return', 'select']),
    tool_call_id: maybe(Id('the tool call that did it')),
    child_episode_id: maybe(Id('the episode it started')),
    reason: maybe(Text('why')),
    turn: maybe(Count('round, from 0')),
  }),
  'decision.made': inEpisode('Somebody decided: a plan, a recruitment, a vote, an acceptance …', {
    by: maybe(Id('who decided')),
    kind: Id('plan, recruit, assign, budget, continue, stop, vote, accept, reject …'),
    decision: Any('the decision itself'),
    turn: maybe(Count('round, from 0')),
  }),
  'environment.observed': inEpisode('The environment showed something.', {
    kind: Id('state, output, error, milestone, progress …'),
    content: maybe(Any('what was seen')),
    state: maybe(Plain('state by name')),
    call_id: maybe(Id('the call it followed')),
    turn: maybe(Count('round, from 0')),
  }),
  'feedback.recorded': about('Feedback on a target, given after the fact.', {
    feedback_id: Id('the feedback'),
    target: Target,
    kind: Type.Enum(['reward', 'score', 'label', 'preference', 'failure', 'execution']),
    name: Id('what is judged: reward, helpfulness, FM-1.3 …'),
    value: maybe(Type.Union([Type.Number(), Type.Boolean(), Type.String(), Type.Array(Type.Unknown())])),
    label: maybe(Text('a name instead of a number')),
    matrix: maybe(Matrix),
    taxonomy: maybe(Plain('name and version of the label set')),
    by: maybe(Text('human, code, model, env')),
    annotator: maybe(Id('who')),
    explanation: maybe(Text('why')),
    confidence: maybe(Real('0 to 1')),
  }),
  'artifact.attached': about('A file, image, patch, raw record or dataset belongs to something.', {
    artifact_id: Id('the artifact'),
    role: Type.Enum(['patch', 'code', 'file', 'image', 'log', 'raw-record', 'checkpoint', 'dataset']),
    episode_id: maybe(Id('the episode it belongs to')),
    media_type: maybe(Text('such as application/json')),
    sha256: maybe(Type.String({ pattern: '^[0-9a-f]{64}$', description: 'hash of the body' })),
    size: maybe(Integer('bytes')),
    uri: maybe(Text('where the body is')),
    name: maybe(Text('name for people')),
    target: maybe(Target),
    manifest: maybe(Any('of a dataset: recipe, positions, hashes, counts')),
    rows: maybe(Any('of a dataset: for each split the steps of its rows, in order')),
  }),
  'episode.finished': inEpisode('An attempt ended, as reported by its producer.', {
    outcome: Type.Enum(['success', 'failure', 'error', 'timeout', 'aborted', 'unknown']),
    answer: maybe(Text('the final answer')),
    final: maybe(Content),
    stop_reason: maybe(Text('why it ended')),
    exit_status: maybe(Text('as in the source')),
    totals: maybe(Plain('cost, tokens, calls as the source counts them')),
  }),
  'span.recorded': inEpisode(
    'One item of a trace as a tracing client sent it: a span, a log record, a run or an update of one. The tables show the events derived from all items of a trace together.',
    {
      format: Id('otlp, openai-agents, langsmith or langfuse'),
      item: Any('the item as a request of its own would hold it'),
      order: maybe(Text('what the log loses of the item: the order of its members and the spelling of its numbers')),
    },
  ),
  'record.amended': about('An earlier event is corrected. Both stay in the log; the tables show the corrected one.', {
    key: Id('key of the event that is corrected'),
    target: Type.Object({ source: Id('its source'), id: Id('its id') }),
    op: Type.Enum(['merge', 'set', 'supersede', 'reject', 'erase']),
    patch: maybe(Any('merge: a JSON merge patch of its data · supersede: its new data')),
    set: maybe(list(Type.Object({ path: Text('JSON pointer into data'), value: Any('new value') }), 'op set')),
    reason: maybe(Text('why')),
  }),
  'job.requested': about('A training run or another piece of work was asked for.', {
    job_id: Id('the job'),
    kind: Id('sft, rl, judge, freeze, play …'),
    spec: maybe(Plain('everything it needs')),
    plan: maybe(Text('plan it belongs to')),
    parent_job_id: maybe(Id('the job it is part of')),
    schedule: maybe(Text('schedule that requested it')),
    due_at: maybe(Text('tick of the schedule, in UTC')),
    again: maybe(Flag('true: it had ended and goes on')),
  }),
  'job.started': about('A worker took a job.', {
    job_id: Id('the job'),
    worker: maybe(Text('who')),
    token: maybe(Integer('fencing token of its lease')),
  }),
  'job.progressed': about('A job reports numbers.', {
    job_id: Id('the job'),
    step: Integer('step of the job'),
    metrics: Plain('name to number'),
  }),
  'job.finished': about('A job ended.', {
    job_id: Id('the job'),
    outcome: Type.Enum(['done', 'failed', 'cancelled']),
    result: maybe(Any('what it produced')),
    error: maybe(Any('what went wrong')),
  }),
  'schedule.changed': about('A schedule was added, paused, resumed, backfilled or removed.', {
    schedule: Id('its name'),
    change: Type.Enum(['added', 'paused', 'resumed', 'backfilled', 'backfill_ended', 'removed']),
    by: maybe(Text('who')),
    reason: maybe(Text('why')),
    definition: maybe(Plain('added: when it is due, and the job it requests')),
  }),
  'schedule.skipped': about('Ticks of a schedule that requested no job.', {
    schedule: Id('its name'),
    first_due_at: Text('the tick, in UTC; the first of several'),
    last_due_at: Text('the last of several'),
    count: maybe(Integer('how many; null where they are more than were counted')),
    reason: Type.Enum(['missed', 'overlap', 'outside_hours', 'paused', 'condition', 'budget']),
    detail: maybe(Text('reason in a sentence')),
  }),
  'judge.completed': about('Methods were run over episodes; their rows can be recomputed from this.', {
    judge_id: Id('the judging'),
    methods: list(
      Type.Object({ name: Id('method'), version: Integer('its version'), params: Plain('parameters') }),
      'in the order they ran',
    ),
    episodes: list(Ref, 'the episodes judged'),
    positions: maybe(Plain('how far the projection had read')),
  }),
  'checkpoint.saved': about('Weights were saved.', {
    checkpoint_id: Id('the weights, by content'),
    parent_id: maybe(Id('the weights it was trained from')),
    policy: maybe(Text('policy it belongs to')),
    uri: maybe(Text('where it is')),
    sha256: maybe(Text('hash of its files')),
    step: maybe(Integer('optimizer steps so far')),
    dataset_ids: maybe(list(Ref, 'what it was trained on, since its parent')),
    job_id: maybe(Id('the job that trained it')),
    kept: maybe(Flag('false: live weights between two checkpoints, not kept on disk')),
    config: maybe(Plain('how it was trained: adapter, its r, alpha, targets and the base that it lies over')),
    metrics: maybe(Plain('name to number')),
    code_version: maybe(Text('version of Troupe')),
  }),
  'policy.released': about('Which checkpoint serves each policy from now on: one atomic map.', {
    release_id: Id('the release'),
    policies: Type.Record(Type.String(), Ref, {
      description: 'policy to checkpoint_id, or to upstream:MODEL where a route falls back to it',
    }),
    teams: maybe(Type.Record(Type.String(), Ref, { description: 'team to the team_id of its version' })),
    reason: maybe(Text('why')),
    by: maybe(Text('who')),
    metrics: maybe(Plain('name to number')),
  }),
} as const satisfies Record<string, TObject>;

export type EventName = keyof typeof VOCABULARY;
export type EventData<N extends EventName> = Static<(typeof VOCABULARY)[N]>;

/** The full type, as it stands in the envelope. */
export const typeOf = (name: EventName, version: number): string => `troupe.${name}.v${version}`;

/** A validated event. `time` is UTC with microseconds, or null where the source gives none. */
export type Event<N extends EventName = EventName> = {
  readonly name: N;
  /** The version of its type in which it was sent. `data` is of that version; `upcast` makes it the newest. */
  readonly type_version: number;
  readonly source: string;
  readonly id: string;
  readonly time: string | null;
  readonly key: string;
  readonly data: EventData<N>;
  /** `data` as canonical JSON. Of a long context it is put together each time it is asked for; `writtenAs` has its parts. */
  readonly json: string;
  /** SHA-256 (hex) over name, version, time and canonical data: distinguishes a repeated event from a conflicting one. */
  readonly digest: string;
};

/** Under this a draft carries the canonical JSON of its data, where it was written for the id; `of` is that data. */
export const CANONICAL: unique symbol = Symbol('canonical data');

/** An event before validation: without key and digest. */
export type Draft<N extends EventName = EventName> = {
  readonly [K in N]: {
    readonly [CANONICAL]?: { readonly of: unknown; readonly json: string };
    readonly name: K;
    /** The version of `data`; the newest if absent. */
    readonly type_version?: number;
    readonly source: string;
    readonly id: string;
    readonly time: string | null;
    readonly data: EventData<K>;
  };
}[N];

/** The key of all releases. */
export const RELEASES = 'x/releases';

/**
 * What the event is about: the unit of order, uniqueness and partitioning.
 * `e/` episode, `t/` task, `g/` group, `j/` job, `c/` checkpoint, `x/` anything else.
 */
export function keyOf(name: EventName, data: Record<string, unknown>): string {
  switch (name) {
    case 'task.defined':
      return `t/${text(data.task_id)}`;
    case 'team.defined':
      return `x/${text(data.team_id)}`;
    case 'record.amended':
      return `${text(data.key)}`;
    case 'job.requested':
    case 'job.started':
    case 'job.progressed':
    case 'job.finished':
      return `j/${text(data.job_id)}`;
    case 'checkpoint.saved':
      return `c/${text(data.checkpoint_id)}`;
    case 'schedule.changed':
    case 'schedule.skipped':
      return `x/schedule/${text(data.schedule)}`;
    case 'policy.released':
      return RELEASES;
    case 'judge.completed':
      return 'x/judge';
    case 'feedback.recorded':
      return keyOfTarget(data.target as Static<typeof Target>);
    case 'artifact.attached':
      return text(data.episode_id) === null ? `x/${text(data.artifact_id)}` : `e/${text(data.episode_id)}`;
    default:
      return `e/${text(data.episode_id)}`;
  }
}

const text = (value: unknown): string | null => (typeof value === 'string' ? value : null);

function keyOfTarget(target: Static<typeof Target>): string {
  if (target.kind === 'foreign') return `x/${target.id}`;
  if (target.episode_id) return `e/${target.episode_id}`;
  const prefix = { episode: 'e', task: 't', group: 'g', checkpoint: 'c' }[target.kind as string] ?? 'x';
  return `${prefix}/${target.id}`;
}
