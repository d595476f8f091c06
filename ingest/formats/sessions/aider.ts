/**
 * Chat histories of Aider (aider/io.py), `.aider.chat.history.md`: Markdown in which `####` begins a line of the user, `>` one of the program,
 * and all else is the model's. A record is the text of one chat. The files and the map that the model was shown beside it are nowhere.
 */

import { hashId } from '../../events/json.ts';
import type { Format } from '../kit/format.ts';
import { refusal, refused, revisedEmitter } from '../kit/native.ts';
import { taskOf } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';

const NAME = 'aider';
export const AIDER_HEADING = '# aider chat started at ';

/** Commands whose words go to the model. */
const ASKS = /^\/(?:ask|code|architect|context)\s+(?=\S)/;

export const aider: Format = {
  name: NAME,
  summary: 'Chat histories of Aider, .aider.chat.history.md',
  recognises: ({ records }) => records.some(isChat),
  restates: ['task.defined'],
  convert(record) {
    if (!isChat(record.value))
      return refused(refusal('bad_type', '', `a text that begins with ${AIDER_HEADING}`, record.value));
    const [heading = '', ...lines] = record.value.split('\n');
    const said = blocksOf(lines);
    const questions = said.flatMap(({ by, text }) => (by === 'user' && !text.startsWith('/') ? [text] : []));
    const trace = new Trace(revisedEmitter(NAME), NAME, record, hashId(NAME, heading, questions[0] ?? null));
    let model: string | undefined;
    for (const [seq, { by, text }] of said.entries()) {
      if (by === 'model') {
        const usage = said[seq + 1]?.by === 'program' ? usageIn(said[seq + 1]!.text) : undefined;
        trace.answer(seq, NAME, text, { response_model: model, usage });
      } else if (by === 'user' && !text.startsWith('/')) trace.message(seq, 'user', text, { role: 'user' });
      else {
        model = /^(?:Main m|M)odel: (\S+) with /m.exec(text)?.[1] ?? model;
        trace.observed(seq, by === 'user' ? 'command' : 'program', { content: text });
      }
    }
    return trace.finish({
      task: taskOf(NAME, questions[0]),
      started: { native: { format: NAME, ids: { started: heading.slice(AIDER_HEADING.length) } } },
      finished: { outcome: 'unknown' },
    });
  },
};

const isChat = (value: unknown): value is string => typeof value === 'string' && value.startsWith(AIDER_HEADING);

/** What was said, by whom. Code of an answer may have lines that begin like those of the program, which counts the tokens behind it. */
function blocksOf(lines: readonly string[]): { readonly by: 'user' | 'program' | 'model'; readonly text: string }[] {
  const blocks: { by: 'user' | 'program' | 'model'; text: string }[] = [];
  let fence: string | null = null;
  for (const line of lines) {
    const isUser = line.startsWith('#### ');
    const isProgram = line.startsWith('> ') && (fence === null || line.startsWith('> Tokens: '));
    const by = isUser ? 'user' : isProgram ? 'program' : 'model';
    const text = isUser ? line.slice(5).trimEnd() : isProgram ? line.slice(2).trimEnd() : line;
    const last = blocks.at(-1);
    if (by !== 'model') fence = null;
    else if (fence === null) fence = /^(`{3,}|~{3,})/.exec(line)?.[1] ?? null;
    else if (line.trimEnd() === fence) fence = null;
    if (last?.by === by) last.text += `\n${text}`;
    else blocks.push({ by, text });
  }
  return blocks
    .map(({ by, text }) => ({ by, text: (by === 'user' ? text.replace(ASKS, '') : text).trim() }))
    .filter(({ text }) => text !== '');
}

/** The program rounds from 1,000 tokens on: what it rounded is unknown. */
function usageIn(text: string): Record<string, number> | undefined {
  const [, read, written] = /^Tokens: ([\d.]+k?) sent, (?:.*?, )?([\d.]+k?) received\./m.exec(text) ?? [];
  const cost = /Cost: \$([\d.]+) message/.exec(text)?.[1];
  const counts = Object.entries({ input_tokens: read, output_tokens: written, cost_usd: cost }).flatMap(
    ([name, count]) => (count === undefined || count.endsWith('k') ? [] : [[name, Number(count)] as const]),
  );
  return counts.length === 0 ? undefined : Object.fromEntries(counts);
}
