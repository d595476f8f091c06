/**
 * One sampling request between the wire and the policy: what a client asked, checked and made into token ids, and what
 * the policy drew, made into text. Pure, so that a bad request is refused before it shares a batch with good ones.
 */
import { got, TroupeError } from '../../errors.ts';
import type { OpenModel } from '../model/model-directory.ts';
import type { ChatMessage } from '../model/tokens/template-messages.ts';
import { tokenTexts } from '../model/tokens/token-text.ts';
import type { Tokenizer } from '../model/tokens/tokenizer.ts';
import type { CallFrame, ReadCalls } from '../model/tokens/tool-calls.ts';
import type { Sample, SampleRequest } from '../model/weights.ts';
import { type Constraint, constraintOf } from './constraint.ts';
import type { Choice, LogprobsAsk, PromptAsk, SampleAsk } from './infer-wire.ts';
import { type Grammar, grammarOf } from './json-schema.ts';

/** What of a model a request needs. */
export type SamplingModel = Pick<OpenModel, 'config' | 'tokenizer' | 'template' | 'eosIds'>;

/** As many as the OpenAI interface allows. */
const MAX_TOP_LOGPROBS = 20;

/** A request ready for a batch, and the texts its samples are cut at. */
export type PreparedSample = {
  readonly request: SampleRequest;
  readonly stops: readonly string[];
  /** The one of `stops` that ends a call and is part of its text; null where calls do not end the sample, or the client named it. */
  readonly callEnd: string | null;
  /** Whether the text of each token is asked for. */
  readonly tokenTexts: boolean;
  /** Reads tool calls; null where no tools were offered. */
  readonly readCalls: ReadCalls | null;
};

/** A prompt and the tokens after it whose probabilities are asked for. */
export type ScoreRow = { readonly promptIds: readonly number[]; readonly tokenIds: readonly number[] };

const refuse = (field: string, expected: string, value: unknown): TroupeError =>
  new TroupeError('input_refused', `${field} must be ${expected}, it is ${got(value)}.`, {
    field,
    expected,
    got: got(value),
  });

/**
 * By the code and by either sentence programs know that they have to shorten the conversation: LangChain by the code and status 400,
 * LiteLLM and DSPy by "maximum context length is", Claude Code by "prompt is too long: N tokens > M".
 */
const tooLong = (tokens: number, most: number): TroupeError =>
  new TroupeError(
    'context_length_exceeded',
    `The prompt is too long: ${tokens} tokens > ${most - 1} maximum. This model's maximum context length is ${most} tokens, the response among them.`,
    { field: 'prompt', expected: `at most ${most - 1} tokens`, got: String(tokens) },
  );

const whole = (field: string, value: unknown, least: number, most: number): number => {
  if (Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most) return value as number;
  throw refuse(field, `a whole number from ${least} to ${most}`, value);
};

function tokenIds(field: string, value: unknown, vocabSize: number): readonly number[] {
  if (!Array.isArray(value)) throw refuse(field, 'a list of token ids', value);
  const wrong = value.findIndex((id) => !(Number.isSafeInteger(id) && id >= 0 && id < vocabSize));
  if (wrong >= 0) throw refuse(`${field}[${wrong}]`, `a token id from 0 to ${vocabSize - 1}`, value[wrong]);
  return value;
}

/** Makes a request of what a client asked. Throws `context_length_exceeded`, or `input_refused` naming the field; `maxRows` bounds `n`. */
export function prepareSample(
  ask: SampleAsk,
  model: SamplingModel,
  { maxRows }: { readonly maxRows: number },
): PreparedSample {
  const { config, tokenizer, eosIds } = model;
  const promptIds = promptOf(ask, model);
  if (promptIds.length === 0) throw refuse('prompt', 'at least one token', 'nothing');
  const room = config.max_position_embeddings - promptIds.length;
  if (room < 1) throw tooLong(promptIds.length, config.max_position_embeddings);
  const temperature = ask.temperature ?? 1;
  if (typeof temperature !== 'number' || !(temperature >= 0 && temperature < Infinity)) {
    throw refuse('temperature', 'a number of at least 0', temperature);
  }
  const { top_p: topP, min_p: minP } = ask;
  if (topP !== undefined && !(typeof topP === 'number' && topP > 0 && topP <= 1)) {
    throw refuse('top_p', 'a number above 0 and at most 1', topP);
  }
  if (minP !== undefined && !(typeof minP === 'number' && minP >= 0 && minP <= 1)) {
    throw refuse('min_p', 'a number from 0 to 1', minP);
  }
  if (ask.raw_logprobs !== undefined && typeof ask.raw_logprobs !== 'boolean') {
    throw refuse('raw_logprobs', 'true or false', ask.raw_logprobs);
  }
  if (ask.token_texts !== undefined && typeof ask.token_texts !== 'boolean') {
    throw refuse('token_texts', 'true or false', ask.token_texts);
  }
  const named = ask.stop ?? [];
  if (!Array.isArray(named) || !named.every((stop) => typeof stop === 'string' && stop !== '')) {
    throw refuse('stop', 'a list of texts that are not empty', named);
  }
  if (ask.one_call !== undefined && typeof ask.one_call !== 'boolean') {
    throw refuse('one_call', 'true or false', ask.one_call);
  }
  const callEnd = ask.one_call && ask.tools?.length ? (model.template?.callEnd ?? null) : null;
  const isOwnEnd = callEnd !== null && !named.includes(callEnd);
  const stops: readonly string[] = isOwnEnd ? [...named, callEnd] : named;
  const find = stopFinder({ callEnd: isOwnEnd ? callEnd : null, readCalls: model.template?.readCalls ?? null });
  const constraint = constraintFor(ask, model);
  const ends = ask.stop_ids === undefined ? eosIds : tokenIds('stop_ids', ask.stop_ids, config.vocab_size);
  return {
    request: {
      promptIds,
      n: whole('n', ask.n ?? 1, 1, maxRows),
      maxTokens: Math.min(whole('max_tokens', ask.max_tokens ?? room, 1, Number.MAX_SAFE_INTEGER), room),
      temperature,
      seed: whole('seed', ask.seed ?? 0, 0, Number.MAX_SAFE_INTEGER),
      // A string of a call may hold the text that ends calls, so that is no stop token.
      stopIds: [...new Set([...ends, ...named.flatMap((stop) => singleToken(stop, tokenizer))])],
      topK: whole('top_k', ask.top_k ?? 0, 0, Number.MAX_SAFE_INTEGER),
      ...(topP === undefined ? {} : { topP }),
      ...(minP === undefined ? {} : { minP }),
      ...(ask.raw_logprobs ? { rawLogprobs: true } : {}),
      topLogprobs: whole('top_logprobs', ask.top_logprobs ?? 0, 0, MAX_TOP_LOGPROBS),
      ...(stops.length === 0 ? {} : { ended: endsWithin(stops, tokenizer, find) }),
      ...(constraint === null ? {} : { constraint }),
    },
    stops,
    callEnd: isOwnEnd ? callEnd : null,
    tokenTexts: ask.token_texts ?? false,
    readCalls: ask.tools?.length ? (model.template?.readCalls ?? null) : null,
  };
}

/** What the samples of a request have to be; null where nothing is asked. */
function constraintFor(ask: SampleAsk, model: SamplingModel): Constraint | null {
  const { json_schema: schema, tool_choice: choice } = ask;
  if (schema !== undefined)
    return constraintOf(model, `json ${JSON.stringify(schema)}`, () => grammarOf('json_schema', schema));
  if (choice === undefined) return null;
  const tools = forcedTools(ask.tools ?? [], choice);
  const frame = model.template?.callFrame ?? null;
  if (tools.length === 0 || frame === null) throw refuse('tool_choice', 'a tool that is offered', choice);
  return constraintOf(model, `call ${JSON.stringify(tools)}`, () => callGrammar(tools, frame));
}

/** A call of one of these tools, as the template of the model writes it. */
const callGrammar = (tools: readonly ForcedTool[], [before, between, after]: CallFrame): Grammar => ({
  kind: 'any of',
  options: tools.map(({ name, parameters, field }) => ({
    kind: 'sequence',
    parts: [before + JSON.stringify(name) + between, grammarOf(field, parameters), after],
  })),
});

type ForcedTool = { readonly name: string; readonly parameters: unknown; readonly field: string };

/** The tools that a forced call may be of, with the schema of their arguments, which are an object. */
export function forcedTools(
  tools: readonly unknown[],
  choice: NonNullable<SampleAsk['tool_choice']>,
): readonly ForcedTool[] {
  return tools.flatMap((tool, i) => {
    const { name, parameters } = (tool as { function?: { name?: unknown; parameters?: unknown } }).function ?? {};
    if (typeof name !== 'string' || (choice !== 'required' && choice.name !== name)) return [];
    return [{ name, parameters: parameters ?? { type: 'object' }, field: `tools[${i}].function.parameters` }];
  });
}

/** How many tokens a sample may go on after a stop text: to look for it after every token would cost more than they do. */
const LOOK_EVERY = 4;

/**
 * Whether a sample holds a stop text by now, looked for in the text of its last tokens. `toChoice` cuts it where it begins.
 * A character has at most four tokens; eight more give a decoder that looks at neighbours what it needs.
 */
function endsWithin(
  stops: readonly string[],
  tokenizer: Tokenizer,
  find: FindStop,
): (tokenIds: readonly number[]) => boolean {
  const window = 4 * Math.max(...stops.map((stop) => stop.length)) + LOOK_EVERY + 8;
  return (tokenIds) => {
    if (tokenIds.length % LOOK_EVERY !== 0) return false;
    const mayHold = stops.some((stop) => textOf(tokenIds.slice(-window), tokenizer).includes(stop));
    const whole = mayHold ? textOf(tokenIds, tokenizer) : '';
    return stops.some((stop) => find(whole, stop) >= 0);
  };
}

/** Where a text holds a stop text; negative where it does not. */
type FindStop = (text: string, stop: string) => number;

/** The end of a call counts once the text up to it holds a whole call: strings of the call, and thoughts, may hold it too. */
function stopFinder({ callEnd, readCalls }: Pick<PreparedSample, 'callEnd' | 'readCalls'>): FindStop {
  return (text, stop) => {
    let at = text.indexOf(stop);
    if (stop !== callEnd || readCalls === null) return at;
    while (at >= 0 && readCalls(text.slice(0, at + stop.length)) === null) at = text.indexOf(stop, at + 1);
    return at;
  };
}

/** A model may have more ids than its tokenizer has tokens; such an id has no text. */
const textOf = (tokenIds: readonly number[], tokenizer: Tokenizer): string =>
  tokenizer.decode(tokenIds.filter((id) => tokenizer.token(id) !== null));

/** A stop text that is one whole token ends the sample at once; any other is found afterwards in the text. */
function singleToken(stop: string, tokenizer: Tokenizer): number[] {
  const id = tokenizer.id(stop);
  return id === null || tokenizer.decode([id]) !== stop ? [] : [id];
}

/** Token ids of a prompt. Throws `input_refused` naming the field, `model_unsupported` where the chat template cannot show it. */
export function promptOf(ask: PromptAsk, { config, tokenizer, template }: SamplingModel): readonly number[] {
  const given = (['messages', 'prompt_ids', 'prompt'] as const).filter((field) => ask[field] !== undefined);
  if (given.length !== 1)
    throw refuse('prompt', 'one of messages, prompt_ids and prompt', given.join(' and ') || undefined);
  if (ask.prompt_ids !== undefined) return tokenIds('prompt_ids', ask.prompt_ids, config.vocab_size);
  if (ask.prompt !== undefined) {
    if (typeof ask.prompt !== 'string') throw refuse('prompt', 'a text', ask.prompt);
    return tokenizer.encodePrompt(ask.prompt);
  }
  const { messages, tools } = ask;
  const isMessage = (each: unknown): each is ChatMessage => typeof (each as ChatMessage | null)?.role === 'string';
  if (!Array.isArray(messages) || messages.length === 0 || !messages.every(isMessage)) {
    throw refuse('messages', 'a list of messages, each with a role', messages);
  }
  if (tools !== undefined && !Array.isArray(tools)) throw refuse('tools', 'a list of function schemas', tools);
  if (template === null) {
    throw new TroupeError('model_unsupported', 'This model has no chat template; ask with prompt or prompt_ids.', {
      field: 'messages',
    });
  }
  if (tools?.length && template.readCalls === null) {
    throw new TroupeError(
      'model_unsupported',
      'The chat template of this model shows no tools, or calls of tools in a form that is not known; ask without tools.',
      { field: 'tools', expected: 'a template with tools that writes calls between <tool_call> and </tool_call>' },
    );
  }
  return template.promptIds(messages, { addGenerationPrompt: true, ...(tools ? { tools } : {}) });
}

/** Rows of a log-probability request, checked. Throws `input_refused` naming the field. */
export function prepareLogprobs(ask: LogprobsAsk, { config }: SamplingModel): ScoreRow[] {
  if (!Array.isArray(ask.rows)) throw refuse('rows', 'a list of rows', ask.rows);
  return ask.rows.map((row, i) => {
    const promptIds = tokenIds(`rows[${i}].prompt_ids`, row?.prompt_ids, config.vocab_size);
    const completion = tokenIds(`rows[${i}].completion_ids`, row?.completion_ids, config.vocab_size);
    if (promptIds.length === 0) throw refuse(`rows[${i}].prompt_ids`, 'at least one token', 'nothing');
    const length = promptIds.length + completion.length;
    const most = config.max_position_embeddings;
    if (length > most) throw refuse(`rows[${i}]`, `at most the model's ${most} tokens`, length);
    return { promptIds, tokenIds: completion };
  });
}

/** A sample as a client reads it: cut at the first stop text, and with its text, which a stop token is no part of. */
export function toChoice(sample: Sample, prepared: PreparedSample, tokenizer: Tokenizer): Choice {
  const cut = withCallEnd(cutChoice(sample, prepared, tokenizer), prepared);
  const called = prepared.readCalls?.(cut.text) ?? null;
  const choice = called === null ? cut : { ...cut, called };
  return prepared.tokenTexts ? withTexts(choice, tokenizer) : choice;
}

/** A sample that ended with its call was not stopped by a text of the client, and its text is whole. */
function withCallEnd(choice: Choice, { callEnd }: PreparedSample): Choice {
  const { stop_text: stop, ...ended } = choice;
  return callEnd === null || stop !== callEnd ? choice : { ...ended, text: ended.text + callEnd };
}

function withTexts(choice: Choice, tokenizer: Tokenizer): Choice {
  const text = tokenTexts(tokenizer);
  const { token_ids, top_logprobs } = choice;
  return {
    ...choice,
    tokens: token_ids.map((id, i) => text(id, i === 0)),
    ...(top_logprobs === undefined
      ? {}
      : {
          top_logprobs: top_logprobs.map((best, i) =>
            best.map(({ token_id, logprob }) => ({ token_id, token: text(token_id, i === 0), logprob })),
          ),
        }),
  };
}

function cutChoice(sample: Sample, prepared: PreparedSample, tokenizer: Tokenizer): Choice {
  const { request, stops } = prepared;
  const { tokenIds, finish } = sample;
  const find = stopFinder(prepared);
  const before = (end: number): string => textOf(tokenIds.slice(0, end), tokenizer);
  const holds = (text: string): boolean => stops.some((stop) => find(text, stop) >= 0);
  const byToken = finish === 'stop' && request.stopIds.includes(tokenIds.at(-1) as number);
  const textEnd = byToken ? tokenIds.length - 1 : tokenIds.length;
  const whole = before(textEnd);
  if (!holds(whole)) {
    const last = tokenIds.at(-1) as number;
    const stop = byToken ? stops.find((text) => singleToken(text, tokenizer).includes(last)) : undefined;
    const ended = stop === undefined ? {} : { stop_text: stop };
    return { ...upTo(sample, tokenIds.length), text: whole, finish_reason: finish, ...ended };
  }
  // The shortest run of tokens whose text holds a stop text; holding one is monotone in the length.
  let [least, most] = [1, textEnd];
  while (least < most) {
    const middle = (least + most) >> 1;
    if (holds(before(middle))) most = middle;
    else least = middle + 1;
  }
  const cut = Math.min(...stops.map((stop) => find(whole, stop)).filter((at) => at >= 0));
  const stop = stops.find((text) => find(whole, text) === cut) as string;
  return { ...upTo(sample, least), text: whole.slice(0, cut), finish_reason: 'stop', stop_text: stop };
}

/** The first tokens of a sample and what belongs to them. */
function upTo(sample: Sample, end: number): Omit<Choice, 'text' | 'called' | 'finish_reason' | 'stop_text'> {
  const { tokenIds, logprobs, rawLogprobs, topLogprobs } = sample;
  return {
    token_ids: tokenIds.slice(0, end),
    logprobs: logprobs.slice(0, end),
    ...(rawLogprobs === undefined ? {} : { raw_logprobs: rawLogprobs.slice(0, end) }),
    ...(topLogprobs === undefined
      ? {}
      : {
          top_logprobs: topLogprobs
            .slice(0, end)
            .map((best) => best.map(({ token, logprob }) => ({ token_id: token, logprob }))),
        }),
  };
}
