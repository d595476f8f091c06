/** Lists that are longer than what fits on the stack of a call, some 120,000 items. */
import { expect, it } from 'vitest';
import { erasedItem, eventsOfTrace } from '../../../ingest/formats/traces/live-traces.ts';
import { read } from './support/convert.ts';

const MANY = 130_000;

it('a chat of Gemini CLI that changed its facts 130,000 times is read', () => {
  const time = '2026-01-01T00:00:00Z';
  const lines = [
    { sessionId: 's', projectHash: 'p', startTime: time },
    { id: 'u', timestamp: time, type: 'user', content: [{ text: 'go' }] },
    { id: 'm', timestamp: time, type: 'gemini', content: 'done', model: 'm' },
    ...Array.from({ length: MANY }, (_, i) => ({ $set: { summary: `${i}` } })),
  ];
  const { of, refused } = read('gemini-cli', lines);
  expect([of('generation.completed').length, refused]).toEqual([1, []]);
});

it('an erased trace of 130,000 events has all of them', () => {
  const [event] = read('gemini-cli', [{ sessionId: 's', projectHash: 'p', startTime: '2026-01-01T00:00:00Z' }]).drafts;
  const told = Array<NonNullable<typeof event>>(MANY).fill(event!);
  expect(eventsOfTrace([erasedItem(told)])).toHaveLength(MANY);
});

it('a file of 130,000 messages that AgentScope did not write is refused message by message', () => {
  const message = { name: 'user', role: 'user', content: 'go', timestamp: '2026-01-01 00:00:00.000' };
  const { refused } = read('agentscope', [message, ...Array<unknown>(MANY).fill({ ...message, role: 7 })]);
  expect(refused).toHaveLength(MANY);
});
