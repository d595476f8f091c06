/**
 * Chat messages to token ids, through the model's own chat template, and which of the ids a model shall learn.
 */
import { got, TroupeError } from '../../errors.ts';
import { toolsInOrder } from '../../store/datasets/tool-order.ts';
import { rendered, Template } from './jinja.ts';
import type { Tokenizer } from './tokenizer.ts';
import { type CallFrame, callEnd, callFrame, callReader, type ReadCalls } from './tool-calls.ts';

/** A message as chat templates read it; fields beyond these (`tool_calls`, `name`, …) reach the template as they are. */
export type ChatMessage = { readonly role: string; readonly content?: unknown; readonly [field: string]: unknown };

type MaskedIds = {
  readonly ids: readonly number[];
  /** 1 where the model wrote the token and is to learn it, 0 elsewhere; as long as `ids`. */
  readonly lossMask: Uint8Array;
};

export type ChatTemplate = {
  /** Reads the tool calls of an answer; null where the template shows tools to nobody, or a form of calls that is not known. */
  readonly readCalls: ReadCalls | null;
  /** How one call is written, where `readCalls` can read it. */
  readonly callFrame: CallFrame | null;
  /** What ends a call, where `readCalls` can read several in one response. */
  readonly callEnd: string | null;
  /** The text the model would read. Throws `input_refused` with the template's own words where it raises. */
  render(messages: readonly ChatMessage[], options?: RenderOptions): string;
  /** Ids of the text the model would read. */
  promptIds(messages: readonly ChatMessage[], options?: RenderOptions): number[];
  /**
   * Ids of a whole conversation; learnt is what the template's `{% generation %}` blocks enclose, or without such blocks
   * what each assistant message adds after the prompt that asked for it (its end-of-turn token included).
   * Throws `model_unsupported` where the template rewrites earlier turns, so that no such part exists.
   */
  maskedIds(messages: readonly ChatMessage[], options?: ToolOptions): MaskedIds;
  /** Ids of a prompt and of one reply to it, split where the reply begins. */
  replyIds(
    prompt: readonly ChatMessage[],
    reply: ChatMessage,
    options?: ToolOptions,
  ): { promptIds: number[]; replyIds: number[] };
};

/** `tools` are the function schemas offered. */
export type ToolOptions = { readonly tools?: readonly unknown[] };

/** The generation prompt is what comes before the assistant's first word. */
type RenderOptions = ToolOptions & { readonly addGenerationPrompt?: boolean };

const GENERATION_TAG = /\{%(-?)\s*(end)?generation\s*(-?)%\}/g;

/** A chat template (Jinja source) with the tokenizer of the same model. Throws `model_unsupported` if it does not parse. */
export function chatTemplate(source: string, tokenizer: Tokenizer): ChatTemplate {
  const plain = parse(source);
  const showsTools = /\btools\b/.test(source);
  const hasGeneration = source.search(GENERATION_TAG) >= 0;
  const asTaken = takenBy(plain, tokenizer);

  const run = (template: Template, messages: readonly ChatMessage[], options: RenderOptions = {}): string => {
    const { addGenerationPrompt = false, tools } = options;
    const extra = tools && tools.length > 0 ? { tools: toolsInOrder(tools) } : {};
    try {
      return rendered(template, {
        ...tokenizer.named,
        messages: messages.map(asTaken),
        add_generation_prompt: addGenerationPrompt,
        ...extra,
      });
    } catch (cause) {
      throw new TroupeError('input_refused', `The chat template refuses these messages: ${(cause as Error).message}`, {
        field: 'messages',
        cause,
      });
    }
  };
  const render: ChatTemplate['render'] = (messages, options) => run(plain, messages, options);

  /** The text as parts by turns not learnt and learnt, cut at marks put where the generation blocks begin and end. */
  const partsByGeneration = (messages: readonly ChatMessage[], options?: ToolOptions): string[] => {
    const [begin, end] = unusedCharacters(source + JSON.stringify([messages, options?.tools]));
    // A block that is always taken keeps the tag's own control of the white space around it.
    const marked = source.replace(
      GENERATION_TAG,
      (_, left, isEnd, right) => `{%${left} if true %}{{ '${isEnd ? end : begin}' }}{% endif ${right}%}`,
    );
    return run(parse(marked), messages, options).split(new RegExp(`[${begin}${end}]`, 'u'));
  };

  const partsByDifference = (messages: readonly ChatMessage[], options?: ToolOptions): string[] => {
    const whole = render(messages, options);
    const parts: string[] = [];
    let at = 0;
    for (const [i, message] of messages.entries()) {
      if (message.role !== 'assistant') continue;
      const before = render(messages.slice(0, i), { ...options, addGenerationPrompt: true });
      const after = i === messages.length - 1 ? whole : render(messages.slice(0, i + 1), options);
      if (before.length < at || !after.startsWith(before) || !whole.startsWith(after)) throw rewritten(i);
      parts.push(whole.slice(at, before.length), whole.slice(before.length, after.length));
      at = after.length;
    }
    return [...parts, whole.slice(at)];
  };

  return {
    readCalls: showsTools ? callReader(source) : null,
    callFrame: showsTools ? callFrame(source) : null,
    callEnd: showsTools ? callEnd(source) : null,
    render,
    promptIds: (messages, options = { addGenerationPrompt: true }) => tokenizer.encode(render(messages, options)),
    maskedIds(messages, options) {
      const texts = hasGeneration ? partsByGeneration(messages, options) : partsByDifference(messages, options);
      const parts = encodeParts(texts, tokenizer);
      const lossMask = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
      let at = 0;
      for (const [i, part] of parts.entries()) {
        lossMask.fill(i % 2, at, at + part.length);
        at += part.length;
      }
      return { ids: parts.flat(), lossMask };
    },
    replyIds(prompt, reply, options) {
      const before = render(prompt, { ...options, addGenerationPrompt: true });
      const whole = render([...prompt, reply], options);
      if (!whole.startsWith(before)) throw rewritten(prompt.length);
      const [promptIds = [], replyIds = []] = encodeParts([before, whole.slice(before.length)], tokenizer);
      return { promptIds, replyIds };
    },
  };
}

/**
 * What clients write in two ways, as this template takes it: contents as a list of texts become one text, and arguments of tool calls
 * that are JSON text become their value, where the template would write the list or the text itself otherwise than as it stands.
 */
function takenBy(template: Template, { named }: Tokenizer): (message: ChatMessage) => ChatMessage {
  const shows = (text: string, messages: readonly ChatMessage[]): boolean => {
    try {
      return rendered(template, { ...named, messages, add_generation_prompt: false }).includes(text);
    } catch {
      return false;
    }
  };
  const asked: ChatMessage = { role: 'user', content: 'a' };
  let lists: boolean | undefined;
  let texts: boolean | undefined;
  const takesLists = () => {
    const listed = [{ role: 'user', content: [{ type: 'text', text: 'zqx' }] }];
    // A template that writes the list as it is has the text in quotes.
    lists ??= shows('zqx', listed) && !shows('"zqx"', listed) && !shows("'zqx'", listed);
    return lists;
  };
  const takesTexts = () => {
    const call = { id: 'call_1', type: 'function', function: { name: 'f', arguments: '{"x": 1}' } };
    texts ??= shows(': {"x": 1}', [asked, { role: 'assistant', content: '', tool_calls: [call] }]);
    return texts;
  };
  return (message) => {
    const { content, tool_calls: calls } = message;
    const list = isTexts(content) && !takesLists();
    const written = Array.isArray(calls) && calls.some(isWritten) && !takesTexts();
    if (!list && !written) return message;
    return {
      ...message,
      ...(list ? { content: content.map(({ text }) => text).join('\n') } : {}),
      ...(written ? { tool_calls: calls.map((call) => (isWritten(call) ? read(call) : call)) } : {}),
    };
  };
}

const isTexts = (content: unknown): content is readonly { readonly text: string }[] =>
  Array.isArray(content) && content.length > 0 && content.every((part) => typeof part?.text === 'string');

type Written = { readonly function: { readonly arguments: string } };
const isWritten = (call: unknown): call is Written => typeof (call as Written | null)?.function?.arguments === 'string';

/** Arguments that are no JSON stay as they were written. */
function read(call: Written): unknown {
  try {
    return { ...call, function: { ...call.function, arguments: JSON.parse(call.function.arguments) } };
  } catch {
    return call;
  }
}

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
    'model_unsupported',
    `The chat template writes message ${index} differently once others follow, so the model's output cannot be cut out.`,
    {
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
