/**
 * The rule of training text over the recorded samples of every format: what a row of a frozen dataset teaches, and each layout of it, is what
 * the chat template writes for the conversation that the events of the format hold, and its prompt is what a policy is served.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { promptOf, readChatRequest } from '../../api/gateway/request.ts';
import { isRecord, type JsonObject } from '../../ingest/events/json.ts';
import { parseWritten, writtenArguments } from '../../ingest/events/spelling.ts';
import { importFiles } from '../../ingest/files/import.ts';
import { CHAT_ROLES } from '../../ingest/formats/kit/chat-message.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import type { ArrowRow } from '../../store/datasets/arrow.ts';
import { freeze } from '../../store/datasets/freeze.ts';
import { LAYOUTS } from '../../store/datasets/layouts/catalogue.ts';
import { counter } from '../../store/datasets/layouts/counter.ts';
import { turnsOf } from '../../store/datasets/layouts/turn.ts';
import { openDataset } from '../../store/datasets/read.ts';
import { shownTools } from '../../store/datasets/shown-tools.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { supervisedLine } from '../../trainer/learn/data/training-files.ts';
import { type StepRow, sentMessage, supervisedRow, type TokenRow } from '../../trainer/learn/data/training-rows.ts';
import type { OpenModel } from '../../trainer/model/model-directory.ts';
import type { ChatMessage } from '../../trainer/model/tokens/template-messages.ts';
import { sampleFolders } from '../golden/recorded.ts';
import { memoryLog } from '../ingest/support/memory-log.ts';
import { freshDatabase } from '../support/database.ts';
import { TEMPLATES } from './chat-templates.ts';
import { modelWith } from './training-text.ts';

const named = (name: string): OpenModel => modelWith(TEMPLATES.find((one) => one.name === name)!);
/** It writes thoughts apart from answers, and calls in the text that they have. */
const QWEN = named('Qwen3');
const MODELS = [QWEN, named('DeepSeek'), named('Llama 3')];

type Line = { readonly messages?: readonly JsonObject[] } & JsonObject;

/** Layouts whose rows `train sft --data` reads, each with how it says which answers are learnt and what it changes of messages. */
const READ: Readonly<
  Record<
    string,
    {
      readonly line?: (row: Line) => JsonObject;
      readonly values?: true;
      readonly objects?: true;
      readonly thoughtless?: true;
    }
  >
> = {
  'trl-sft': { values: true },
  'openai-sft': { thoughtless: true },
  // It ends at arguments that are no object.
  axolotl: { objects: true, line: marked((message) => message.train === true) },
  // Its class reads what differs from row to row.
  'verl-sft': {
    values: true,
    line: ({ tools_json: tools, ...row }) => LAST_LEARNT({ ...row, ...(tools === undefined ? {} : { tools }) }),
  },
  'prime-rl-sft': { line: (row) => LAST_LEARNT(row) },
};

function marked(learnt: (message: JsonObject, i: number, all: readonly JsonObject[]) => boolean) {
  return ({ messages = [], ...row }: Line): JsonObject => ({
    ...row,
    messages: messages.map((message, i) => ({ ...message, weight: learnt(message, i, messages) ? 1 : 0 })),
  });
}

/** The others are learnt too, as these layouts say. */
const LAST_LEARNT = marked((_, i, all) => i === all.length - 1);

/** Formats whose samples have no input of a call, so that nothing of them is learnt as text. */
const WITHOUT_INPUT = new Set([
  'agentboard',
  'agentscope',
  'agentverse',
  'aider',
  'autogen',
  'codex-exec',
  'mas-gpt',
  'mast',
  'multiagentbench',
  'who-when',
]);
/** Formats of benchmarks, whose samples have no calls. */
const WITHOUT_CALLS = new Set(['maslab', 'swe-bench', 'swe-dev']);

const rows = new Map<string, ArrowRow[]>();
/** What the events of a format say of a call: its input and tools by call, its answers by step. What is told twice is a list of two. */
const asked = new Map<string, JsonObject[]>();
const said = new Map<string, JsonObject[]>();
const into = <Value>(map: Map<string, Value[]>, key: string, value: Value) =>
  map.set(key, [...(map.get(key) ?? []), value]);

beforeAll(async () => {
  const fresh = await freshDatabase();
  const folder = await mkdtemp(join(tmpdir(), 'recorded-text-'));
  try {
    const formatOf = new Map<string, string>();
    for (const [format, sample] of sampleFolders()) {
      // Two samples are of one session: alone, neither is a copy of the other.
      const memory = memoryLog();
      await importFiles([sample], memory);
      for (const { name, data } of memory.events as unknown as { name: string; data: JsonObject }[]) {
        const call = `${data.episode_id} ${data.call_id}`;
        if (name === 'episode.started') formatOf.set(String(data.episode_id), format);
        if (name === 'generation.requested') into(asked, call, data);
        if (name === 'generation.completed')
          for (const choice of data.choices as JsonObject[]) into(said, `${call} ${choice.index ?? 0}`, choice);
      }
      await postgresLog(fresh.db).append(memory.events);
    }
    await projectAll(fresh.db);
    const recipe = { name: 'all', cut_answers: true };
    const frozen = await freeze(fresh.db, recipe, { directory: folder, codeVersion: 'test' });
    for (const row of (await openDataset(frozen.directory)).rows())
      into(rows, formatOf.get(String(row.episode_id)) ?? 'no format', row);
  } finally {
    await fresh.close();
    await rm(folder, { recursive: true });
  }
}, 60_000);

const attempt = <Value>(work: () => Value): Value | null => {
  try {
    return work();
  } catch {
    return null;
  }
};

/** The only event that tells of a call or step. Null where there is none; what is told twice in other words has no one expectation. */
const only = (told: readonly JsonObject[] | undefined, member: string): JsonObject | null => {
  const [first] = told ?? [];
  return first !== undefined && new Set(told!.map((one) => JSON.stringify(one[member]))).size === 1 ? first : null;
};

type Conversation = {
  readonly messages: readonly ChatMessage[];
  readonly answer: ChatMessage;
  readonly tools: JsonObject[];
};

/** The conversation of a step by its events; what the agent was given once and for all is that of the row. Null where it is not known. */
function conversationOf(row: ArrowRow): Conversation | null {
  const call = `${row.episode_id} ${row.call_id}`;
  const request = only(asked.get(call), 'input');
  const choice = only(said.get(`${call} ${row.candidate}`), 'content');
  if (!Array.isArray(request?.input) || choice?.content == null) return null;
  const sent = (request.input as JsonObject[]).map(sentMessage);
  const isLed = sent.some(({ role }) => role === 'system' || role === 'developer');
  const messages = isLed || !row.system ? sent : [sentMessage({ role: 'system', content: row.system }), ...sent];
  const tools = shownTools(((request.tools ?? row.tools) as unknown[] | null) ?? []);
  return { messages, answer: sentMessage({ role: 'assistant', content: choice.content }), tools };
}

type Call = { readonly function: { readonly arguments: string } };
const callsOf = ({ tool_calls: calls }: ChatMessage): readonly Call[] => (calls ?? []) as readonly Call[];
const valueIn = (text: string): unknown => {
  const read = parseWritten(text);
  return 'value' in read ? read.value : null;
};

/** The same with the arguments of calls as trainers write them that read values: in the order and numbers of their source. */
const withValues = (message: ChatMessage): ChatMessage => ({
  ...message,
  ...(message.tool_calls ? { tool_calls: callsOf(message).map(withValue) } : {}),
});
const withValue = (call: Call): Call => {
  const value = valueIn(call.function.arguments);
  return isRecord(value) ? { ...call, function: { ...call.function, arguments: writtenArguments(value) } } : call;
};

type Written = { readonly prompt: readonly number[]; readonly whole: string };

/** What the template writes; null where it refuses it, or writes the beginning otherwise once the answer follows. */
function writtenBy({ template, tokenizer }: OpenModel, { messages, answer, tools }: Conversation): Written | null {
  // No API takes it.
  if (messages.some(({ role }) => !CHAT_ROLES.has(role))) return null;
  return attempt(() => {
    const prompt = template!.render(messages, { tools, addGenerationPrompt: true });
    const whole = template!.render([...messages, answer], { tools });
    if (!whole.startsWith(prompt)) throw new Error('rewritten');
    return { prompt: tokenizer.encode(prompt), whole: tokenizer.decode(tokenizer.encode(whole)) };
  });
}

/** In what a row that was made differs from what the template writes. */
function differenceOf(
  way: string,
  made: TokenRow | null,
  written: Written | null,
  { tokenizer }: OpenModel,
  isCut = false,
) {
  if (made === null || written === null)
    return made === null && written === null ? [] : [`${way}: only one is refused`];
  const learnt = tokenizer.decode([...made.promptIds, ...made.tokenIds]);
  const fits = isCut ? written.whole.startsWith(learnt) && learnt !== written.whole : learnt === written.whole;
  const same = JSON.stringify(made.promptIds) === JSON.stringify(written.prompt);
  return [...(fits ? [] : [`${way}: ${learnt} ≠ ${written.whole}`]), ...(same ? [] : [`${way}: another prompt`])];
}

function differencesOf(row: ArrowRow, known: Conversation): string[] {
  const step = row as unknown as StepRow;
  const isCut = step.cut === true;
  const { messages, answer, tools } = known;
  const found: string[] = [];
  for (const model of MODELS) {
    const written = writtenBy(model, known);
    const made = attempt(() => supervisedRow(step, model));
    found.push(...differenceOf('step', made, written, model, isCut));
    if (written === null) continue;
    const body = { model: 'policy:p', messages, ...(tools.length > 0 ? { tools } : {}) };
    const ask = promptOf(readChatRequest(body).prompt);
    const offered = Array.isArray(ask.tools) ? { tools: ask.tools } : {};
    const served = model.template!.promptIds(ask.messages as ChatMessage[], { addGenerationPrompt: true, ...offered });
    if (JSON.stringify(served) !== JSON.stringify(written.prompt)) found.push('served: another prompt');
  }
  const hasCalls = [...messages, answer].some((one) => callsOf(one).length > 0);
  const written = writtenBy(QWEN, known);
  const asValues = hasCalls
    ? writtenBy(QWEN, { messages: messages.map(withValues), answer: withValues(answer), tools })
    : written;
  const hasThought = [...messages, answer].some((one) => one.reasoning_content != null);
  const isEmpty = !answer.content && answer.tool_calls == null;
  const hasOnlyValues = [...messages, answer].every((one) =>
    callsOf(one).every((call) => isRecord(valueIn(call.function.arguments))),
  );
  for (const [name, { line = (same: Line) => same, values, objects, thoughtless }] of Object.entries(READ)) {
    const [leftOut, notHeld] = [counter(), counter()];
    const turns = turnsOf([row], 'step', notHeld);
    const layout = LAYOUTS.find((one) => one.name === name)!;
    const [file] = layout.files([{ split: 'train', turns }], { name: 'all', leftOut, notHeld });
    const [held] = (file as unknown as { rows: Line[] }).rows;
    if (held === undefined) {
      const isHeld = objects ? hasOnlyValues : true;
      if (isHeld && !isCut && !isEmpty && written !== null) found.push(`${name}: left out`);
      continue;
    }
    if (thoughtless && hasThought) continue;
    const made = attempt(() => supervisedLine(line(held), QWEN));
    found.push(...differenceOf(name, made, values ? asValues : written, QWEN));
  }
  return found;
}

it.each(sampleFolders().map(([format]) => [format]))(
  'a dataset of %s, and each layout of it, teaches what the template writes and a policy is served',
  (format) => {
    const all = rows.get(format) ?? [];
    expect(all.length > 0).toBe(!WITHOUT_CALLS.has(format));
    let taught = 0;
    const seen = new Set<string>();
    for (const row of all) {
      const known = conversationOf(row);
      const step = row as unknown as StepRow;
      const isSampled = step.token_ids !== null && step.prompt_token_ids !== null;
      if (isSampled) {
        const { promptIds, tokenIds } = supervisedRow(step, QWEN);
        const told = said.get(`${row.episode_id} ${row.call_id} ${row.candidate}`)!;
        expect(told.map(({ token_ids: ids }) => ids)).toContainEqual(tokenIds);
        expect(promptIds).toEqual(Array.from(step.prompt_token_ids!));
        taught++;
      }
      const told = JSON.stringify(known);
      if (known === null || isSampled || seen.has(told)) continue;
      seen.add(told);
      expect.soft(differencesOf(row, known), String(row.step_id)).toEqual([]);
      taught++;
    }
    expect(taught > 0).toBe(!WITHOUT_CALLS.has(format) && !WITHOUT_INPUT.has(format));
  },
);

it('no row has no format', () => {
  expect(rows.get('no format')).toBeUndefined();
});
