/** A long conversation fits into the memory because its calls are shown the same message objects. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { type Data, read } from './support/convert.ts';

const time = (second: number) => `2026-01-01T00:00:0${second}Z`;
const action = (text: string) => ({ class_: 'message_action', content: text });
const shown = (text: string) => ({ class_: 'text_observation', source: 'environment', content: text });

const CONVERSATIONS: Readonly<Record<string, unknown>> = {
  adp: { id: 'a', content: [shown('go'), action('one'), shown('on'), action('two'), shown('on'), action('three')] },
  'gemini-cli': [
    { sessionId: 's', projectHash: 'p', startTime: time(0) },
    ...[1, 3, 5].flatMap((at) => [
      { id: `u${at}`, timestamp: time(at), type: 'user', content: [{ text: 'go' }] },
      { id: `m${at}`, timestamp: time(at + 1), type: 'gemini', content: 'done', model: 'm' },
    ]),
  ],
  inspect: JSON.parse(readFileSync(join(import.meta.dirname, 'recorded/inspect/log.jsonl'), 'utf8')),
};

it.each(Object.entries(CONVERSATIONS))('calls of %s are shown the same message objects', (format, native) => {
  const { of } = read(format, native);
  const inputs = of('generation.requested').map(({ input }) => input as Data[]);
  const pairs = inputs.flatMap((input, i) => {
    const later = inputs[i + 1] ?? [];
    return input.flatMap((message, at) => (at < later.length ? [[message, later[at]] as const] : []));
  });
  const same = pairs.filter(([one, other]) => JSON.stringify(one) === JSON.stringify(other));
  expect(same.length).toBeGreaterThan(2);
  for (const [one, other] of same) expect(one).toBe(other);
});
