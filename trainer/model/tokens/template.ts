/**
 * Chat messages to token ids, through the model's own chat template, and which of the ids a model shall learn.
 */
import { got, TroupeError } from '../../../errors.ts';
import { given } from '../../../ingest/events/json.ts';
import { shownTools } from '../../../store/datasets/shown-tools.ts';
import { rendered, Template } from './jinja.ts';
import { type ChatMessage, messageReader } from './template-messages.ts';
import type { Tokenizer } from './tokenizer.ts';
import { type CallFrame, callEnd, callFrame, callReader, type ReadCalls } from './tool-calls.ts';

type MaskedIds = {
  readonly ids: readonly number[];
  /** 1 where the model wrote the token and is to learn it, 0 elsewhere; as long as `ids`. */
  readonly lossMask: Uint8Array;
};

/** How much of a message is learnt: all that the template writes for it, the text of an answer that was cut off without an end, or nothing. */
export type Learning = 'whole' | 'cut' | 'not';

export type ChatTemplate = {
  /** Reads the tool calls of an answer; null where the template shows tools to nobody, or a form of calls that is not known. */
  readonly readCalls: ReadCalls | null;
  /** How one call is written, where `readCalls` can read it. */
  readonly callFrame: CallFrame | null;
  /** What ends a call, where `readCalls` can read several in one response. */
  readonly callEnd: string | null;
  /** The token that ends a turn of the assistant; null where the template writes none. */
  readonly turnEnd: number | null;
  /** The one form of an answer that is a text, which is `…`: what the template writes for it after the prompt. Null where it writes none alone. */
  readonly answerForm: string | null;
  /** The text the model would read. Throws `input_refused` with the template's own words where it raises. */
  render(messages: readonly ChatMessage[], options?: RenderOptions): string;
  /** Ids of the text the model would read. */
  promptIds(messages: readonly ChatMessage[], options?: RenderOptions): number[];
  /**
   * Ids of a conversation and which of them are learnt: of each message as `learning` says, which is a whole assistant message and nothing of
   * others by default. What is learnt of a message is what the template's `{% generation %}` blocks enclose, or without such blocks what the
   * message adds after the prompt that asked for it (its end of turn included).
   * Throws `model_unsupported` where the template rewrites earlier turns, so that no such part exists, and `input_refused` where it does not
   * write the calls of an answer, or where an answer that was cut off cannot be found in what it writes.
   */
  maskedIds(messages: readonly ChatMessage[], options?: MaskOptions): MaskedIds;
};

/** `tools` are the function schemas offered. */
export type ToolOptions = { readonly tools?: readonly unknown[] };

export type MaskOptions = ToolOptions & {
  readonly learning?: (message: ChatMessage, index: number) => Learning;
};

/** The generation prompt is what comes before the assistant's first word. */
type RenderOptions = ToolOptions & { readonly addGenerationPrompt?: boolean };

/** A part of a text, learnt or not. */
type TextPart = { readonly text: string; readonly learnt: boolean };

/** Where an answer stands in a text; one that was cut off without what the template writes behind it. */
type AnswerSpan = { readonly from: number; readonly to: number; readonly isWhole: boolean };

const GENERATION_TAG = /\{%(-?)\s*(end)?generation\s*(-?)%\}/g;

/** Learns all that the assistant wrote. */
export const ANSWERS = ({ role }: ChatMessage): Learning => (role === 'assistant' ? 'whole' : 'not');

/** A chat template (Jinja source) with the tokenizer of the same model. Throws `model_unsupported` if it does not parse. */
export function chatTemplate(source: string, tokenizer: Tokenizer): ChatTemplate {
  const plain = parse(source);
  const showsTools = /\btools\b/.test(source);
  const hasGeneration = source.search(GENERATION_TAG) >= 0;
  const reader = messageReader(source, (messages) => attempt(() => written(plain, tokenizer, messages)) ?? '');

  const run = (template: Template, messages: readonly ChatMessage[], options?: RenderOptions): string => {
    try {
      return written(template, tokenizer, messages.map(reader.read), options);
    } catch (cause) {
      throw new TroupeError('input_refused', `The chat template refuses these messages: ${(cause as Error).message}`, {
        field: 'messages',
        cause,
      });
    }
  };
  const render: ChatTemplate['render'] = (messages, options) => run(plain, messages, options);

  /** Where each message that is learnt begins and ends in the text of all, by what it adds to those before it. */
  const spans = (whole: string, messages: readonly ChatMessage[], { tools, learning = ANSWERS }: MaskOptions) =>
    messages.flatMap((message, i): readonly AnswerSpan[] => {
      const how = learning(message, i);
      if (how === 'not') return [];
      const before = render(messages.slice(0, i), { ...given('tools', tools), addGenerationPrompt: true });
      const after = i === messages.length - 1 ? whole : render(messages.slice(0, i + 1), given('tools', tools));
      if (!after.startsWith(before) || !whole.startsWith(after)) throw rewritten(i);
      const from = before.length;
      if (how === 'whole') return [{ from, to: after.length, isWhole: true }];
      return [{ from, to: from + cutEnd(reader.said(message), after.slice(from), i), isWhole: false }];
    });

  const partsByDifference = (messages: readonly ChatMessage[], options: MaskOptions): TextPart[] => {
    const whole = render(messages, given('tools', options.tools));
    const parts: TextPart[] = [];
    let at = 0;
    const all = spans(whole, messages, options);
    for (const { from, to } of all) {
      if (from < at) throw rewritten(messages.length - 1);
      parts.push({ text: whole.slice(at, from), learnt: false }, { text: whole.slice(from, to), learnt: true });
      at = to;
    }
    // An answer that was cut off has nothing behind it.
    return all.at(-1)?.isWhole === false ? parts : [...parts, { text: whole.slice(at), learnt: false }];
  };

  const partsByGeneration = (messages: readonly ChatMessage[], options: MaskOptions): TextPart[] => {
    const { tools, learning = ANSWERS } = options;
    const [begin, end] = unusedCharacters(source + JSON.stringify([messages, tools]));
    // A block that is always taken keeps the tag's own control of the white space around it.
    const marked = source.replace(
      GENERATION_TAG,
      (_, left, isEnd, right) => `{%${left} if true %}{{ '${isEnd ? end : begin}' }}{% endif ${right}%}`,
    );
    const texts = run(parse(marked), messages, given('tools', tools)).split(new RegExp(`[${begin}${end}]`, 'u'));
    const parts = texts.map((text, i): TextPart => ({ text, learnt: i % 2 === 1 }));
    const isAll = messages.every((message, i) => learning(message, i) === ANSWERS(message));
    if (isAll) return parts;
    const learnt = spans(texts.join(''), messages, options);
    let at = 0;
    return parts.map(({ text, learnt: inside }) => {
      const from = at;
      at += text.length;
      return { text, learnt: inside && learnt.some((span) => from >= span.from && at <= span.to) };
    });
  };

  const partsOf = (messages: readonly ChatMessage[], options: MaskOptions): TextPart[] => {
    const { learning = ANSWERS } = options;
    const hows = messages.map(learning);
    const calls = messages.findIndex((message, i) => hows[i] !== 'not' && hasCalls(message));
    if (calls >= 0 && !reader.writesCalls()) throw unwritten(calls);
    return hasGeneration && !hows.includes('cut')
      ? partsByGeneration(messages, options)
      : partsByDifference(messages, options);
  };

  const form = answerForm((messages, options) => attempt(() => render(messages, options)));
  return {
    readCalls: showsTools ? callReader(source) : null,
    callFrame: showsTools ? callFrame(source) : null,
    callEnd: showsTools ? callEnd(source) : null,
    turnEnd: form === null ? null : endIn(form.after, tokenizer),
    answerForm: form === null ? null : `${form.before}…${form.after}`,
    render,
    promptIds: (messages, options = { addGenerationPrompt: true }) => tokenizer.encode(render(messages, options)),
    maskedIds(messages, options = {}) {
      const parts = partsOf(messages, options);
      const ids = encodeParts(
        parts.map(({ text }) => text),
        tokenizer,
      );
      const lossMask = Uint8Array.from(parts.flatMap(({ learnt }, i) => ids[i]!.map(() => (learnt ? 1 : 0))));
      return { ids: ids.flat(), lossMask };
    },
  };
}

function written(
  template: Template,
  tokenizer: Tokenizer,
  messages: readonly ChatMessage[],
  { addGenerationPrompt = false, tools = [] }: RenderOptions = {},
): string {
  const shown = shownTools(tools);
  const extra = shown.length > 0 ? { tools: shown } : {};
  return rendered(template, { ...tokenizer.named, messages, add_generation_prompt: addGenerationPrompt, ...extra });
}

const attempt = <Value>(work: () => Value): Value | null => {
  try {
    return work();
  } catch {
    return null;
  }
};

/** Stands for an answer: no template writes it by itself. */
const PROBE = 'zqx';

/** What a template writes before and after the text of an answer; null where it writes neither alone. */
function answerForm(
  render: (messages: readonly ChatMessage[], options: RenderOptions) => string | null,
): { readonly before: string; readonly after: string } | null {
  const asked: ChatMessage[] = [{ role: 'user', content: 'a' }];
  const whole = render([...asked, { role: 'assistant', content: PROBE }], {});
  const prompt = render(asked, { addGenerationPrompt: true });
  const at = whole?.lastIndexOf(PROBE) ?? -1;
  if (whole === null || at < 0) return null;
  const before = prompt !== null && whole.startsWith(prompt) ? whole.slice(prompt.length, at) : '';
  return { before, after: whole.slice(at + PROBE.length) };
}

/** The first special token behind an answer, or a token that is all that stands there. */
function endIn(after: string, tokenizer: Tokenizer): number | null {
  const ids = attempt(() => tokenizer.encode(after)) ?? [];
  return ids.find((id) => tokenizer.special.has(id)) ?? tokenizer.id(after.trim());
}

const hasCalls = ({ tool_calls: calls }: ChatMessage): boolean => Array.isArray(calls) && calls.length > 0;

/** Where the text of an answer that was cut off ends in what a template writes for it. */
function cutEnd(said: string | null, written: string, index: number): number {
  const texts = said === null ? [] : [said, said.trim(), (said.split('</think>').at(-1) as string).trim()];
  for (const text of texts) {
    const at = text === '' ? -1 : written.lastIndexOf(text);
    if (at >= 0) return at + text.length;
  }
  throw new TroupeError(
    'input_refused',
    `Message ${index} was cut off, and where it ends cannot be found in what the chat template writes.`,
    {
      field: `messages[${index}]`,
      expected: 'an answer in text, or a whole one',
      got: said === null ? 'calls' : got(said),
    },
  );
}

const unwritten = (index: number): TroupeError =>
  new TroupeError(
    'input_refused',
    `Message ${index} calls tools, which the chat template does not write, so it would be learnt as an empty answer.`,
    { field: `messages[${index}].tool_calls`, expected: 'a chat template that writes calls of tools', got: 'calls' },
  );

/**
 * Ids of each part of a text. Where the ids of the whole text break at the parts' borders they are taken, as that is what
 * the model reads; else each part is encoded alone, which is what happens when a model continues a prompt.
 * Throws `model_unsupported` where neither gives the text back.
 */
function encodeParts(texts: readonly string[], tokenizer: Tokenizer): number[][] {
  const whole = tokenizer.encode(texts.join(''));
  const alone = texts.map((part) => tokenizer.encode(part));
  // Almost always so, and it reads a conversation of n turns twice and not n times.
  if (equal(alone.flat(), whole)) return alone;
  const ends: number[] = [];
  let text = '';
  for (const part of texts) {
    text += part;
    const ids = ends.length === texts.length - 1 ? whole : tokenizer.encode(text);
    if (!ids.every((id, i) => id === whole[i])) break;
    ends.push(ids.length);
  }
  if (ends.length === texts.length) return ends.map((end, i) => whole.slice(ends[i - 1] ?? 0, end));
  if (tokenizer.decode(alone.flat()) === tokenizer.decode(whole)) return alone;
  throw new TroupeError(
    'model_unsupported',
    'This tokenizer joins the prompt with the reply, so the reply cannot be cut out.',
    {
      hint: 'Train on recorded token ids instead of text.',
    },
  );
}

const equal = (a: readonly number[], b: readonly number[]): boolean =>
  a.length === b.length && a.every((id, i) => id === b[i]);

function parse(source: string): Template {
  try {
    return new Template(source);
  } catch (cause) {
    throw new TroupeError(
      'model_unsupported',
      `The model's chat template does not parse: ${(cause as Error).message}`,
      {
        cause,
      },
    );
  }
}

/** Two characters of the private use area that occur nowhere in a text. */
function unusedCharacters(text: string): [string, string] {
  const free: string[] = [];
  for (let code = 0xe000; code < 0xf900 && free.length < 2; code++) {
    const character = String.fromCharCode(code);
    if (!text.includes(character)) free.push(character);
  }
  const [begin, end] = free;
  if (begin === undefined || end === undefined) {
    throw new TroupeError(
      'input_refused',
      'These messages use every private-use character; none is left to mark with.',
    );
  }
  return [begin, end];
}

const rewritten = (index: number): TroupeError =>
  new TroupeError(
    'input_refused',
    `The chat template writes message ${index} differently once others follow, so the model's output cannot be cut out.`,
    {
      field: `messages[${index}]`,
      expected: 'a template that only appends, or one with {% generation %} blocks',
      hint: 'Train on one row for each reply, or mark the reply in the template with {% generation %} … {% endgeneration %}.',
    },
  );

/**
 * The Jinja source a model directory gives: chat_template.jinja, else the one (or the one named `default`) in
 * tokenizer_config.json, else null.
 */
export function templateSource(
  jinjaFile: string | null,
  tokenizerConfig: Readonly<Record<string, unknown>>,
): string | null {
  if (jinjaFile !== null) return jinjaFile;
  const source = tokenizerConfig.chat_template;
  if (source === undefined || source === null) return null;
  if (typeof source === 'string') return source;
  if (Array.isArray(source)) {
    const named = source.find((each) => each?.name === 'default') ?? source[0];
    if (typeof named?.template === 'string') return named.template;
  }
  throw new TroupeError('model_unsupported', `chat_template is ${got(source)} and not a Jinja text.`);
}
