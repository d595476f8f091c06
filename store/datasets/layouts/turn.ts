/** A turn: one answer of a dataset with everything before it, read from the row of any unit. */
import { isRecord, type JsonObject } from '../../../ingest/events/json.ts';
import { mapStrings, unescapeText } from '../../../ingest/events/text.ts';
import type { ArrowRow } from '../arrow.ts';
import type { Unit } from '../columns.ts';
import { shownTools } from '../shown-tools.ts';
import type { Counter } from './counter.ts';
import { type Message, readMessage } from './message.ts';

export type Tokens = {
  readonly prompt: readonly number[];
  readonly answer: readonly number[];
  readonly logprobs: readonly number[] | null;
  /** 1 where the model chose the token; null where all are the model's. */
  readonly mask: readonly number[] | null;
};

export type LayoutTurn = {
  readonly episode_id: string;
  /** Null where the answer is a team and no step. */
  readonly step_id: string | null;
  readonly call_id: string | null;
  readonly task_id: string | null;
  readonly group_id: string | null;
  readonly agent: string | null;
  readonly role: string | null;
  /** Null where the call's input is not known. */
  readonly prompt: readonly Message[] | null;
  /** Null where only tokens were recorded. */
  readonly answer: Message | null;
  /** Tool definitions in the form of the chat API. */
  readonly tools: readonly Readonly<Record<string, unknown>>[] | null;
  readonly ground_truth: unknown;
  readonly reward: number | null;
  readonly advantage: number | null;
  /** What the loss of the row is multiplied by; null where the recipe names no weights. */
  readonly weight: number | null;
  readonly tokens: Tokens | null;
  /** True for half an answer: behind it nothing is to be learnt, not even that it ends. */
  readonly cut: boolean;
  /** Of a dataset of pairs: which pair, and whether this is its preferred answer. */
  readonly pair: { readonly id: string; readonly preferred: boolean } | null;
  /** The branch that it is learnt of, in a dataset of branches. */
  readonly branch: string | null;
};

/** A turn of which messages are known. */
export type Chat = LayoutTurn & { readonly prompt: readonly Message[]; readonly answer: Message };

/** What a turn may hold beside roles and text, in the words of a manifest. */
export type HeldTurn =
  | 'names of speakers'
  | 'reasoning'
  | 'tool calls'
  | 'ids of tool calls'
  | 'tool definitions'
  | 'token ids'
  | 'log-probabilities'
  | 'reward'
  | 'advantage'
  | 'weight'
  | 'ground truth'
  | 'step ids';

/** What is good or bad about a turn: its advantage, else its reward, else unknown. */
export const worth = ({ advantage, reward }: Pick<LayoutTurn, 'advantage' | 'reward'>): number | null =>
  advantage ?? reward ?? null;

/** The columns that messages are made from, by unit. */
export const NEEDED: Readonly<Record<Unit, readonly string[]>> = {
  step: ['prompt', 'text', 'content'],
  group: ['prompt', 'text', 'content'],
  episode: ['messages', 'steps'],
  pair: ['prompt', 'chosen', 'rejected', 'chosen_value', 'rejected_value'],
  triplet: ['query', 'written', 'team'],
  branch: ['messages', 'answers'],
};

/** The turns of a dataset's rows in order: of an episode one for each of its steps, of a branch one for each answer that is learnt, of a pair two. `lost` counts what cannot be read. */
export function turnsOf(rows: Iterable<ArrowRow>, unit: Unit, lost: Counter): LayoutTurn[] {
  const turns: LayoutTurn[] = [];
  for (const row of rows) for (const step of STEPS[unit](row)) turns.push(turnOf(step, lost));
  return turns;
}

/** What the rows of a unit are as rows of a step. */
const STEPS: Readonly<Record<Unit, (row: ArrowRow) => readonly JsonObject[]>> = {
  step: (row) => [row],
  group: (row) => [row],
  episode: stepsOf,
  pair: answersOf,
  triplet: (row) => [teamOf(row)],
  branch: learntOf,
};

function answersOf(row: ArrowRow): readonly JsonObject[] {
  const one = (name: 'chosen' | 'rejected', of: JsonObject): JsonObject => ({
    ...row,
    ...of,
    message: (parsed(row[name]) as readonly unknown[] | null)?.[0] ?? null,
    reward: row[`${name}_value`],
    token_ids: row[`${name}_token_ids`],
    loss_mask: row[`${name}_loss_mask`],
    cut: row[`${name}_cut`],
    pair: {
      id: JSON.stringify([row.episode_id, row.step_id, row.rejected_episode_id, row.rejected_step_id]),
      preferred: name === 'chosen',
    },
  });
  const { rejected_episode_id: episode_id, rejected_step_id: step_id } = row;
  return [one('chosen', {}), one('rejected', { episode_id, step_id, call_id: String(step_id).replace(/\/\d+$/u, '') })];
}

/** The query, and as its answer the text in which the team was written, else the team's definition. */
const teamOf = (row: ArrowRow): JsonObject => ({
  ...row,
  prompt: row.query === null ? null : [{ role: 'user', content: row.query }],
  text: row.written ?? row.team,
  call_id: null,
  step_id: null,
});

/** The steps of an episode with the columns of a step; their input names messages of the episode by hash. */
function stepsOf(row: ArrowRow): readonly JsonObject[] {
  const messages = parsed(row.messages) as JsonObject | null;
  const steps = parsed(row.steps) as readonly JsonObject[] | null;
  return (steps ?? []).map((step) => {
    const input = Array.isArray(step.input) && messages !== null ? step.input.map((hash) => messages[hash]) : null;
    const { task_id, episode_id, group_id, ground_truth, weight } = row;
    const prompt = input?.every((message) => message !== undefined) ? input : null;
    return { ...step, task_id, episode_id, group_id, ground_truth, weight, prompt };
  });
}

/** The answers of a branch with the columns of a step; what stands before each is the beginning of the branch. */
function learntOf(row: ArrowRow): readonly JsonObject[] {
  const messages = row.messages as readonly JsonObject[] | null;
  const tokens = numbers(row.token_ids);
  const within = (column: 'loss_mask' | 'logprobs', from: number, to: number) =>
    numbers(row[column])?.slice(from, to) ?? null;
  return (row.answers as readonly JsonObject[]).map((answer) => {
    const [place, from] = [answer.messages as number | null, answer.from as number];
    const to = from + (answer.tokens as number);
    const known = messages !== null && place !== null;
    return {
      ...row,
      ...answer,
      call_id: String(answer.step_id).replace(/\/\d+$/u, ''),
      prompt: known ? messages.slice(0, place) : null,
      message: known ? messages[place] : null,
      prompt_token_ids: tokens?.slice(0, from) ?? null,
      token_ids: tokens?.slice(from, to) ?? null,
      loss_mask: within('loss_mask', from, to),
      logprobs: within('logprobs', from, to),
      branch: JSON.stringify([row.episode_id, row.step_id]),
    };
  });
}

const parsed = (value: unknown): unknown => (typeof value === 'string' ? JSON.parse(value) : (value ?? null));
const text = (value: unknown): string | null => (typeof value === 'string' ? unescapeText(value) : null);
const number = (value: unknown): number | null => (typeof value === 'number' ? value : null);
const numbers = (value: unknown): readonly number[] | null =>
  value === null || value === undefined ? null : Array.from(value as ArrayLike<number>);

function turnOf(row: JsonObject, lost: Counter): LayoutTurn {
  // No tokenizer takes half a character.
  const restored = (value: unknown): unknown =>
    mapStrings(value, (stored) => {
      const sent = unescapeText(stored);
      if (sent.isWellFormed()) return sent;
      lost.add('texts with half a character (a lone surrogate), written as U+FFFD');
      return sent.toWellFormed();
    });
  const answer = answerOf(row);
  const [prompt, answered] = [numbers(row.prompt_token_ids), numbers(row.token_ids)];
  const tools = restored(parsed(row.tools));
  const shown = Array.isArray(tools) ? shownTools(tools) : [];
  return {
    episode_id: String(row.episode_id),
    call_id: text(row.call_id),
    step_id: text(row.step_id) ?? (row.call_id === null ? null : `${row.call_id}/${row.candidate}`),
    task_id: text(row.task_id),
    group_id: text(row.group_id),
    agent: text(row.agent),
    role: text(row.role),
    prompt: promptOf(restored(parsed(row.prompt)), text(row.system), lost),
    answer: answer === null ? null : readMessage(restored(answer) as JsonObject),
    tools: shown.length > 0 ? shown : null,
    ground_truth: restored(parsed(row.ground_truth)),
    reward: number(row.reward),
    advantage: number(row.advantage),
    weight: number(row.weight),
    tokens:
      prompt === null || answered === null
        ? null
        : { prompt, answer: answered, logprobs: numbers(row.logprobs), mask: numbers(row.loss_mask) },
    cut: row.cut === true,
    pair: (row.pair as LayoutTurn['pair'] | undefined) ?? null,
    branch: text(row.branch),
  };
}

/** The message of an answer: of a pair as it stands, of a step its parts, or its text where it has no parts. */
function answerOf(row: JsonObject): JsonObject | null {
  if (row.message !== undefined) return row.message as JsonObject | null;
  const parts = parsed(row.content);
  const content = Array.isArray(parts) ? parts : row.text;
  return content === null || content === undefined ? null : { role: 'assistant', content };
}

/** The messages of a prompt; the agent's instructions go first where the call's input has none. Null where one cannot be read. */
function promptOf(stored: unknown, instructions: string | null, lost: Counter): readonly Message[] | null {
  if (!Array.isArray(stored)) return null;
  const read = stored.map((message) => (isRecord(message) ? readMessage(message) : null));
  if (read.some((message) => message === null)) {
    lost.add('prompts with a message of an unknown role');
    return null;
  }
  const messages = read as Message[];
  if (instructions === null || messages.some(({ role }) => role === 'system')) return messages;
  return [readMessage({ role: 'system', content: instructions })!, ...messages];
}

/** Without them it would be learnt behind another prompt; `train` refuses such a row too. */
export const MEDIA = 'a message has parts that are no text, such as images';

export const hasMedia = (messages: readonly Message[]): boolean => messages.some(({ media }) => media.length > 0);

/**
 * Turns with known messages that are not empty and are text throughout; the others are counted as omitted.
 * @param cut whether the layout can say of an answer that it was cut off; where it cannot, its trainer would learn that the answer ends there
 */
export function chatsOf(
  turns: readonly LayoutTurn[],
  leftOut: Counter,
  cut: 'marked' | 'left out' = 'left out',
): Chat[] {
  return turns.filter((turn): turn is Chat => {
    if (turn.prompt === null) leftOut.add('no prompt was recorded');
    else if (turn.answer === null) leftOut.add('no text of the answer was recorded');
    else if (turn.answer.text === null && turn.answer.calls.length === 0) leftOut.add('the answer is empty');
    else if (hasMedia([...turn.prompt, turn.answer])) leftOut.add(MEDIA);
    else if (turn.cut && cut === 'left out') leftOut.add('the answer was cut off, and its end would be learnt');
    else return true;
    return false;
  });
}
