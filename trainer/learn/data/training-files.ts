/**
 * Training data in JSON lines, as people have it: ids with a mask, a prompt with its completion, a chat whose assistant turns are
 * learnt, or a recorded call. A line that does not fit is refused with its number and reason, and the others are kept.
 */
import { got, type Refusal, TroupeError } from '../../../errors.ts';
import { isRecord } from '../../../ingest/events/json.ts';
import { keepSpelling, parseWritten } from '../../../ingest/events/spelling.ts';
import { CUT_REASONS } from '../../../store/filter/filter-fields.ts';
import type { OpenModel } from '../../model/model-directory.ts';
import { ANSWERS, type Learning, type ToolOptions } from '../../model/tokens/template.ts';
import type { ChatMessage } from '../../model/tokens/template-messages.ts';
import { type AnswerOptions, answerRow, chatRow, maskedRow, type TokenRow, weighed } from './training-rows.ts';

/** What a row's text is turned into ids with. */
export type RowModel = Pick<OpenModel, 'tokenizer' | 'template' | 'eosIds'> & {
  readonly config: { readonly vocab_size: number };
};

/** Why a line was not taken. */
export type LineRefusal = Omit<Refusal, 'code'> & { readonly line: number };

/** The rows that were read; null is no row. Of what was not taken its number, from 1, and why. */
export function readRows<S, R>(all: Iterable<S>, row: (value: S) => R | null): ReadLines<R> {
  const rows: R[] = [];
  const refused: LineRefusal[] = [];
  let number = 0;
  for (const value of all) {
    number++;
    try {
      const read = row(value);
      if (read !== null) rows.push(read);
    } catch (error) {
      refused.push({ line: number, ...refusalOf(error) });
    }
  }
  return { rows, refused };
}

export type ReadLines<R> = { readonly rows: readonly R[]; readonly refused: readonly LineRefusal[] };

/** One JSON value a line; empty lines are no rows. */
export const readLines = <R>(text: string, row: (value: unknown) => R): ReadLines<R> =>
  readRows(text.split('\n'), (line) => (line.trim() === '' ? null : row(parsed(line))));

/**
 * One row for supervised learning: `{"input_ids":[…],"loss_mask":[…]}` (1: to be learnt; no mask: all but the first),
 * `{"messages":[…],"tools"?}` (messages of the assistant are learnt, with tool calls; `weight` 0 skips a turn), `{"prompt","completion",
 * "tools"?}` as text or messages, or a recorded call `{"request":{"messages","tools"?},"response":{"choices"}}`, whose first choice is learnt if
 * it was not cut off.
 * `weight` beside them multiplies the loss of the row.
 * @throws TroupeError `input_refused` naming the field.
 */
export function supervisedLine(value: unknown, model: RowModel): TokenRow {
  const line = record(value);
  const row =
    line.input_ids !== undefined
      ? ofIds(line, model)
      : line.messages !== undefined
        ? ofChat(line, model)
        : line.prompt !== undefined
          ? replyRow(line.prompt, line.completion, 'completion', model, toolsOf(line))
          : line.request !== undefined
            ? ofRecordedCall(line, model)
            : refuse('', 'input_ids, messages, prompt with completion, or request with response', Object.keys(line));
  return { ...(row ?? nothingLearnt()), ...weightIn(line) };
}

export const nothingLearnt = (): never => refuse('', 'at least one token to learn after the first', 'none');

/** The weight of a row, as datasets write it: its loss is multiplied by it. */
export function weightIn({ weight }: Readonly<Record<string, unknown>>): Pick<TokenRow, 'weight'> {
  if (weight === undefined || weight === null) return {};
  const fits = typeof weight === 'number' && Number.isFinite(weight) && weight > 0;
  return fits ? weighed(weight) : refuse('weight', 'a number above 0', weight);
}

/** A prompt and one answer to it, all of which is learnt; a text ends with the token that ends a turn. */
export function replyRow(
  prompt: unknown,
  reply: unknown,
  field: string,
  model: RowModel,
  options: AnswerOptions = {},
): TokenRow {
  if (typeof prompt === 'string') {
    if (typeof reply !== 'string') return refuse(field, 'text, as the prompt is', reply);
    const end = options.cut ? undefined : model.eosIds[0];
    const promptIds = model.tokenizer.encodePrompt(prompt);
    const tokenIds = [...model.tokenizer.encode(reply), ...(end === undefined ? [] : [end])];
    return answered(promptIds, tokenIds, field);
  }
  const [answer, ...more] =
    typeof reply === 'string' ? [{ role: 'assistant', content: reply }] : messages(reply, field);
  if (answer === undefined || more.length > 0) return refuse(field, 'one message', reply);
  return answerRow([...messages(prompt, 'prompt'), answer], templateOf(model), options);
}

function ofIds(line: Readonly<Record<string, unknown>>, { config }: RowModel): TokenRow | null {
  const ids = numbers(line.input_ids, 'input_ids', (id) => id >= 0 && id < config.vocab_size, {
    expected: `a list of token ids below ${config.vocab_size}`,
  });
  if (ids.length < 2) refuse('input_ids', 'at least two token ids', ids);
  if (line.loss_mask === undefined || line.loss_mask === null) return maskedRow(ids, null);
  const mask = numbers(line.loss_mask, 'loss_mask', (on) => on === 0 || on === 1, { expected: 'a list of 0 and 1' });
  if (mask.length !== ids.length) {
    refuse('loss_mask', `${ids.length} numbers, one for each token`, `${mask.length} numbers`);
  }
  return maskedRow(ids, mask);
}

function ofChat(line: Readonly<Record<string, unknown>>, model: RowModel): TokenRow | null {
  const chat = messages(line.messages, 'messages');
  if (!chat.some(({ role }) => role === 'assistant'))
    refuse('messages', 'messages with at least one of the assistant', chat);
  return chatRow(chat, templateOf(model), { ...toolsOf(line), learning });
}

/** Turns with `weight` 0 are not learnt, as in fine-tuning files of OpenAI. */
const learning = (message: ChatMessage): Learning => (message.weight === 0 ? 'not' : ANSWERS(message));

const FINISH = 'response.choices[0].finish_reason';
/** Half an answer is no row, as when a dataset is frozen. */
const isCut = (reason: unknown): boolean =>
  typeof reason === 'string' && (CUT_REASONS as readonly string[]).includes(reason.toLowerCase().replaceAll('-', '_'));

/** A call as `export --format openai-chat` writes it. */
function ofRecordedCall({ request, response }: Readonly<Record<string, unknown>>, model: RowModel): TokenRow {
  if (!isRecord(request)) return refuse('request', 'an object with messages', request);
  const [choice] = isRecord(response) && Array.isArray(response.choices) ? response.choices : [];
  const field = 'response.choices[0].message';
  if (!isRecord(choice) || !isRecord(choice.message)) return refuse(field, 'a response with a message', response);
  const { finish_reason: reason } = choice;
  if (isCut(reason)) refuse(FINISH, 'that of a whole answer', reason);
  const asked = messages(request.messages, 'request.messages');
  return replyRow(asked, [{ role: 'assistant', ...choice.message }], field, model, toolsOf(request));
}

/** The tools that were offered in a row: function schemas, as a list or as the JSON text of one, or nothing. */
export function toolsOf({ tools: given }: Readonly<Record<string, unknown>>): ToolOptions {
  const tools = typeof given === 'string' ? toolsIn(given) : given;
  if (tools === undefined || tools === null) return {};
  if (Array.isArray(tools) && tools.every(isRecord)) return { tools };
  return refuse('tools', 'a list of objects, each a tool', tools);
}

/** Layouts of several trainers, and columns of tables, hold the list as JSON in a text; an empty one says that there are none. */
function toolsIn(text: string): unknown {
  if (text === '') return null;
  const read = parseWritten(text);
  return 'value' in read ? read.value : text;
}

function answered(promptIds: readonly number[], tokenIds: readonly number[], field: string): TokenRow {
  if (promptIds.length === 0) return refuse('prompt', 'a prompt of at least one token', 'an empty one');
  if (tokenIds.length === 0) return refuse(field, 'at least one token', 'none');
  return { promptIds, tokenIds, trained: tokenIds.map(() => true) };
}

export function templateOf({ template }: RowModel): NonNullable<RowModel['template']> {
  if (template) return template;
  throw new TroupeError('model_unsupported', 'The rows are chats and this model has no chat template.', {
    hint: 'Give text rows {"prompt","completion"}, or a model with chat_template in its tokenizer_config.json.',
  });
}

function messages(value: unknown, field: string): ChatMessage[] {
  const fits = (each: unknown) => isRecord(each) && typeof each.role === 'string';
  if (!Array.isArray(value) || value.length === 0) return refuse(field, 'a list of messages with a role each', value);
  const invalid = value.findIndex((each) => !fits(each));
  if (invalid >= 0) refuse(`${field}[${invalid}]`, 'a message with a role', value[invalid]);
  return value as ChatMessage[];
}

function numbers(value: unknown, field: string, fits: (each: number) => boolean, { expected }: { expected: string }) {
  if (!Array.isArray(value)) return refuse(field, expected, value);
  const wrong = value.findIndex((each) => !Number.isSafeInteger(each) || !fits(each));
  if (wrong >= 0) refuse(`${field}[${wrong}]`, expected, value[wrong]);
  return value as number[];
}

export function record(value: unknown): Readonly<Record<string, unknown>> {
  return isRecord(value) ? value : refuse('', 'a JSON object', value);
}

function parsed(line: string): unknown {
  try {
    const value: unknown = JSON.parse(line);
    keepSpelling(value, line);
    return value;
  } catch {
    return refuse('', 'one JSON object', line);
  }
}

/** @throws TroupeError `input_refused` with what was expected of the field and what came. */
export function refuse(field: string, expected: string, value: unknown): never {
  const what = field === '' ? 'the row' : field;
  const detail = { field, expected, got: got(value) };
  throw new TroupeError('input_refused', `${what} should be ${expected}, it is ${detail.got}`, detail);
}

/** What the tokenizer or the template refuses is a fault of the row; a model without a template is not. */
function refusalOf(error: unknown): Omit<LineRefusal, 'line'> {
  if (!(error instanceof TroupeError) || error.code !== 'input_refused') throw error;
  const { field = '', expected = 'text this model can read', got: came } = error.detail;
  return { field, expected, got: came ?? error.message };
}
