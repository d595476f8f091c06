/** A call of a long session is written as if it were alone, whatever calls were written before it. */
import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { decodeDraft } from '../../ingest/events/decode.ts';
import type { Draft } from '../../ingest/events/events.ts';
import { fullLength, ownLength, writtenAs, writtenOf } from '../../ingest/events/long-context.ts';
import { createRedactor } from '../../ingest/events/redact.ts';
import { revisedEmitter } from '../../ingest/formats/kit/native.ts';

type Message = { role: string; content: string };
const messageAt = (n: number, text = `words ${n} é 🙂 "quoted"`): Message => ({
  content: text,
  role: n % 2 ? 'assistant' : 'user',
});
const emit = revisedEmitter('test');
const asked = (input: readonly Message[], call: string): Draft =>
  emit.event('generation.requested', ['e', call], { episode_id: 'e', call_id: call, input: [...input], turn: 3 }, null);
const sha = (text: string): string => createHash('sha256').update(text).digest('hex');
/** Made-up data whose keys are in order already, so that JSON.stringify writes the canonical form. */
const jsonOf = (input: readonly Message[], call: string): string =>
  JSON.stringify({ call_id: call, episode_id: 'e', input, turn: 3 });

function eventOf(draft: Draft) {
  const { event, refusal } = decodeDraft(draft);
  if (refusal) throw new Error(refusal.expected);
  return event;
}

describe('a call with a long context', () => {
  const messages = Array.from({ length: 60 }, (_, n) => messageAt(n));
  const calls = [10, 30, 60, 20, 60].map((length, n) => ({ input: messages.slice(0, length), call: `c${n}` }));
  // The person went back, and wrote something else after the 25th message; then the first conversation went on.
  const branch = [...messages.slice(0, 25), ...Array.from({ length: 15 }, (_, n) => messageAt(100 + n))];
  calls.push({ input: branch, call: 'c5' }, { input: messages, call: 'c6' });

  test.each(calls)('$call has the id, the digest and the JSON of its whole data', ({ input, call }) => {
    const draft = asked(input, call);
    const json = jsonOf(input, call);
    const event = eventOf(draft);
    expect(event.json).toBe(json);
    expect(event.digest).toBe(sha(`generation.requested\n\n${json}`));
    expect(draft.id).toBe(sha(`["test","generation.requested","e","${call}",${json},null]`).slice(0, 32));
  });

  test('that was written keeps its JSON when others of the conversation are written after it', () => {
    const events = calls.map(({ input, call }) => eventOf(asked(input, call)));
    expect(events.map((event) => event.json)).toEqual(calls.map(({ input, call }) => jsonOf(input, call)));
  });

  test('holds only what it does not share', () => {
    const written = writtenAs(eventOf(asked(messages, 'own')));
    expect(ownLength(written)).toBeLessThan(100);
    expect(fullLength(written)).toBe(Buffer.byteLength(jsonOf(messages, 'own')));
  });

  test('of messages that may change is one text', () => {
    const input = messages.map((message) => ({ ...message }));
    expect(typeof writtenOf({ input })).toBe('string');
  });

  test('counts the marks of what was redacted, and loses a secret', () => {
    const secret = `ghp_${'a1B2c3D4e5F6g7H8i9J0'.repeat(2).slice(0, 36)}`;
    const input = [...messages, messageAt(60, `token ${secret} and [redacted:private_key]`)];
    const event = createRedactor().event(eventOf(asked(input, 'secret')));
    const alone = createRedactor().event(
      eventOf({ ...asked(input, 'secret'), data: JSON.parse(jsonOf(input, 'secret')) } as Draft),
    );
    expect(event.json).not.toContain(secret);
    expect([event.json, event.digest]).toEqual([alone.json, alone.digest]);
    expect(event.data).toMatchObject({ redactions: { private_key: 1 } });
    expect(sha(`generation.requested\n\n${event.json}`)).toBe(event.digest);
  });
});
