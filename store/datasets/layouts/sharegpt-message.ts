/** Conversations as LLaMA-Factory reads the ShareGPT format: inputs and outputs alternate, beginning with an input. */
import { writtenJson } from '../../../ingest/events/spelling.ts';
import type { Counter } from './counter.ts';
import { argumentsOf, type Message } from './message.ts';

export type ShareGptTurn = { readonly from: 'human' | 'gpt' | 'observation' | 'function_call'; readonly value: string };

/** What LLaMA-Factory looks for around calls that stand behind text. */
const [OPENS, CLOSES] = ['<tool_call>', '</tool_call>'];

/** What stands around thoughts in the texts that LLaMA-Factory learns, unless a template of its has other words for it. */
const [THINKS, SAYS] = ['<think>\n', '\n</think>\n\n'];

/**
 * One message; a call is JSON text, several calls a list. Thoughts and text beside a call go before it, which LLaMA-Factory 0.9.5 reads.
 * `notHeld` counts text that it would take for a call.
 */
export function sharegptMessage({ role, text: said, reasoning, calls }: Message, notHeld: Counter): ShareGptTurn {
  if (role === 'user') return { from: 'human', value: said ?? '' };
  if (role === 'tool') return { from: 'observation', value: said ?? '' };
  const text = `${reasoning === null ? '' : `${THINKS}${reasoning}${SAYS}`}${said ?? ''}`;
  if (calls.length === 0) return { from: 'gpt', value: text };
  const asked = calls.map((call) => ({ name: call.name, arguments: argumentsOf(call) ?? call.written }));
  // It looks for marks such as <think> in the JSON, too.
  const json = writtenJson(asked.length === 1 ? asked[0] : asked).replaceAll('<', '\\u003c');
  if (!text) return { from: 'function_call', value: json };
  const before = said ? `${text}\n` : text;
  if (!text.includes(OPENS)) return { from: 'function_call', value: `${before}${OPENS}${json}${CLOSES}` };
  notHeld.add(`text beside a call of a tool with ${OPENS} in it`);
  return { from: 'function_call', value: json };
}

export type Sharegpt = { readonly system: string; readonly conversations: readonly ShareGptTurn[] };

/** How LLaMA-Factory joins the results of several calls where it reads the format of OpenAI: one message of each side follows the other. */
const BETWEEN_RESULTS = '\n</tool_response>\n<tool_response>\n';

/** Null where two messages of one side follow each other, which LLaMA-Factory skips; results of tools are joined. */
export function sharegptOf(messages: readonly Message[], notHeld: Counter): Sharegpt | null {
  const [first] = messages;
  const system = first?.role === 'system' ? (first.text ?? '') : '';
  const rest = first?.role === 'system' ? messages.slice(1) : messages;
  const joined: Message[] = [];
  for (const message of rest) {
    const last = joined.at(-1);
    if (last?.role !== 'tool' || message.role !== 'tool') joined.push(message);
    else joined[joined.length - 1] = { ...last, text: `${last.text ?? ''}${BETWEEN_RESULTS}${message.text ?? ''}` };
  }
  const isInput = ({ role }: Message) => role === 'user' || role === 'tool';
  const inTurns = joined.every((message, i) => message.role !== 'system' && isInput(message) === (i % 2 === 0));
  return inTurns ? { system, conversations: joined.map((message) => sharegptMessage(message, notHeld)) } : null;
}

export const NOT_IN_TURNS = 'messages of one side follow each other, or a system message is not the first';

/** The entry of `dataset_info.json` for each file. */
export function datasetInfo(
  name: string,
  files: readonly { readonly name: string; readonly split: string; readonly rows: readonly unknown[] }[],
  more: { readonly ranking?: boolean; readonly columns?: Readonly<Record<string, string>> } = {},
): string {
  const { columns, ...rest } = more;
  const entries = files
    .filter(({ rows }) => rows.length > 0)
    .map((file) => [
      `${name}_${file.split}`,
      {
        file_name: file.name,
        formatting: 'sharegpt',
        ...rest,
        columns: { messages: 'conversations', system: 'system', tools: 'tools', ...columns },
      },
    ]);
  return `${JSON.stringify(Object.fromEntries(entries), null, 2)}\n`;
}
