/** What happened in an episode as it is read: a call is one entry, with what is new in its prompt and its candidates. Pure. */
import { isRecord } from '../../../ingest/events/json.ts';
import type { Database, Selectable } from '../../db/query.ts';
import { textOf } from '../../tables/projection.ts';
import type { OutlineItem } from './outline.ts';

export type RecordRow = Readonly<Record<string, unknown>>;

/** A message of a prompt. */
export type PromptMessage = {
  readonly role: string | null;
  readonly sender: string | null;
  readonly text: string | null;
  /** Parts, and what else the message has, where the text is not all. */
  readonly content: unknown;
};

type Columns<View extends keyof Database, Names extends keyof Selectable<Database[View]>> = Readonly<
  Pick<Selectable<Database[View]>, Names>
>;

type JudgedReward = Columns<'traj.rewards', 'value' | 'reason'> & { readonly method: string };

export type Candidate = Columns<'traj.steps', 'text' | 'content' | 'chosen' | 'finish_reason'> & {
  readonly step_id: string;
  readonly candidate: number;
  /** Tokens of this candidate, where their ids are known. */
  readonly tokens: number | null;
  /** Why it cannot be trained on as sampled; null where it can. */
  readonly untrainable: string | null;
  readonly rewards: readonly JudgedReward[];
  readonly credits: readonly JudgedReward[];
  readonly verdicts: readonly (Columns<'traj.verdicts', 'keep' | 'reason'> & { readonly method: string })[];
};

type Common = {
  readonly id: string;
  readonly at: string | null;
  readonly turn: number | null;
  /** Agent, sender or role. */
  readonly who: string | null;
  readonly role: string | null;
};

export type CallEntry = Common &
  Columns<
    'traj.steps',
    'model' | 'policy' | 'checkpoint_id' | 'temperature' | 'input_tokens' | 'output_tokens' | 'latency_ms' | 'error'
  > & {
    readonly kind: 'call';
    /** What its context has and nothing before it showed. */
    readonly prompt: readonly PromptMessage[];
    /** Messages of the whole context. */
    readonly prompt_messages: number;
    /** Empty where no answer was recorded. */
    readonly candidates: readonly Candidate[];
  };

export type MessageEntry = Common &
  Columns<'traj.messages', 'channel' | 'text' | 'content'> & { readonly kind: 'message' };

export type ToolEntry = Common &
  Columns<'traj.tool_calls', 'call_id' | 'name' | 'type' | 'arguments' | 'output' | 'error' | 'duration_ms'> & {
    readonly kind: 'tool_call';
    /** As the model wrote them, where they could not be read. */
    readonly arguments_raw: string | null;
    readonly parse_error: string | null;
    /** Null where no result was recorded. */
    readonly status: string | null;
    /** Irregularities of the result, such as apparent_error. */
    readonly flags: readonly string[];
  };

export type DecisionEntry = Common & {
  readonly kind: 'decision';
  readonly decision_kind: string;
  readonly decision: unknown;
};

export type EpisodeEntry = CallEntry | MessageEntry | ToolEntry | DecisionEntry;

/** What was judged of the steps, by step id. */
export type Judgements = {
  readonly rewards: readonly RecordRow[];
  readonly credits: readonly RecordRow[];
  readonly verdicts: readonly RecordRow[];
};

const text = (value: unknown): string | null => (typeof value === 'string' ? value : null);
const number = (value: unknown): number | null => (typeof value === 'number' ? value : null);

/** A message of a context as `traj.messages` shows it. */
export function promptMessage(message: unknown): PromptMessage {
  const { role, name, content, ...others } = isRecord(message) ? message : {};
  const parts = Array.isArray(content) ? content : null;
  return {
    role: text(role),
    sender: text(name),
    text: textOf(content),
    content: Object.keys(others).length > 0 ? { parts, ...others } : parts,
  };
}

/** `call` is its row of facts.calls with the agent's name and role, `steps` are its rows of traj.steps. */
export function callEntry(
  { id, at, promptMessages }: OutlineItem,
  call: RecordRow,
  {
    steps,
    prompt,
    judgements,
  }: { steps: readonly RecordRow[]; prompt: readonly PromptMessage[]; judgements: Judgements },
): CallEntry {
  return {
    kind: 'call',
    id,
    at,
    turn: number(call.turn),
    who: text(call.agent) ?? text(call.role),
    role: text(call.role),
    model: text(call.response_model) ?? text(call.model),
    policy: text(call.policy),
    checkpoint_id: text(call.checkpoint_id),
    temperature: number(call.temperature),
    input_tokens: number(call.input_tokens),
    output_tokens: number(call.output_tokens),
    latency_ms: number(call.latency_ms),
    error: call.error ?? null,
    prompt,
    prompt_messages: promptMessages,
    candidates: steps.map((step) => candidate(step, judgements)),
  };
}

function candidate(step: RecordRow, { rewards, credits, verdicts }: Judgements): Candidate {
  const mine = (rows: readonly RecordRow[]) => rows.filter((row) => row.step_id === step.step_id);
  const judged = (row: RecordRow): JudgedReward => ({
    method: String(row.method),
    value: number(row.value),
    reason: text(row.reason),
  });
  return {
    step_id: String(step.step_id),
    candidate: Number(step.candidate),
    text: text(step.text),
    content: step.content ?? null,
    chosen: (step.chosen as boolean | null) ?? null,
    finish_reason: text(step.finish_reason),
    tokens: number(step.tokens),
    untrainable: text(step.untrainable),
    rewards: mine(rewards).map(judged),
    credits: mine(credits).map(judged),
    verdicts: mine(verdicts).map((row) => ({
      method: String(row.method),
      keep: (row.keep as boolean | null) ?? null,
      reason: text(row.reason),
    })),
  };
}

/** A row of traj.messages. */
export const messageEntry = ({ id, at }: OutlineItem, row: RecordRow): MessageEntry => ({
  kind: 'message',
  id,
  at,
  turn: number(row.turn),
  who: text(row.sender) ?? text(row.role),
  role: text(row.role),
  channel: text(row.channel),
  text: text(row.text),
  content: row.content ?? null,
});

/** A row of traj.tool_calls; `agent` is the name of the agent that called it. */
export const toolEntry = ({ id, at }: OutlineItem, row: RecordRow, agent: string | null): ToolEntry => ({
  kind: 'tool_call',
  id,
  at,
  turn: number(row.turn),
  who: agent,
  role: null,
  call_id: text(row.call_id),
  name: text(row.name),
  type: text(row.type),
  arguments: row.arguments ?? null,
  arguments_raw: text(row.arguments_raw),
  parse_error: text(row.parse_error),
  status: text(row.status),
  output: row.output ?? null,
  error: row.error ?? null,
  duration_ms: number(row.duration_ms),
  flags: Array.isArray(row.flags) ? row.flags.map(String) : [],
});

/** A row of traj.decisions. */
export const decisionEntry = ({ id, at }: OutlineItem, row: RecordRow): DecisionEntry => ({
  kind: 'decision',
  id,
  at,
  turn: number(row.turn),
  who: text(row.by),
  role: null,
  decision_kind: String(row.kind),
  decision: row.decision ?? null,
});
