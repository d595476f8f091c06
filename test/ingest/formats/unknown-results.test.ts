/** A tool may return what no format foresees: its session is read, the result is there as it was written, and is flagged. */
import { expect, it } from 'vitest';
import { read } from './support/convert.ts';

const ODD = [{ rows: 1, result: '1 | x' }];
const time = '2026-09-10T10:00:00.000Z';
const claude = (n: number, type: string, content: unknown) => ({
  ...{ type, uuid: `u${n}`, parentUuid: n === 0 ? null : `u${n - 1}`, sessionId: 's', timestamp: time },
  message: { role: type, id: `a${n}`, model: 'm', content },
});
const use = { type: 'tool_use', id: 'c', name: 'read', input: {} };
const result = (content: unknown) => ({ type: 'tool_result', tool_use_id: 'c', content });
const codex = (type: string, payload: object) => ({ timestamp: time, type, payload });
const pi = (id: string, parentId: string | null, message: object) => ({
  ...{ type: 'message', id, parentId, timestamp: time, message },
});

const early = (observed: object) => [
  { id: 0, source: 'user', action: 'message', args: { content: 'q' } },
  { id: 1, source: 'agent', action: 'run', args: { command: 'ls' } },
  { id: 2, source: 'agent', observation: 'run', cause: 1, extras: {}, ...observed },
];
const sdk = (observation: unknown) => [
  { kind: 'SystemPromptEvent', id: 's', timestamp: time, source: 'agent', system_prompt: { text: 'You look.' } },
  {
    ...{ kind: 'ActionEvent', id: 'a', timestamp: time, source: 'agent', thought: [], llm_response_id: 'r' },
    tool_call: { id: 'c', name: 'read', arguments: '{}' },
  },
  { kind: 'ObservationEvent', id: 'o', timestamp: time, source: 'environment', tool_call_id: 'c', observation },
];

const SESSIONS: Readonly<Record<string, (content: unknown) => unknown>> = {
  'claude-code': (content) => [
    claude(0, 'user', 'q'),
    claude(1, 'assistant', [use]),
    claude(2, 'user', [result(content)]),
  ],
  cline: (content) => [
    { role: 'user', content: 'q', ts: 1 },
    { role: 'assistant', content: [use], ts: 2 },
    { role: 'user', content: [result(content)], ts: 3 },
  ],
  codex: (content) => [
    codex('session_meta', { id: 's', timestamp: time, cwd: '/' }),
    codex('response_item', { type: 'function_call', call_id: 'c', name: 'read', arguments: '{}' }),
    codex('response_item', { type: 'function_call_output', call_id: 'c', output: content }),
  ],
  openhands: (content) => early({ content }),
  pi: (content) => [
    { type: 'session', id: 's', cwd: '/', version: 3, timestamp: time },
    pi('1', null, { role: 'assistant', content: [{ type: 'toolCall', id: 'c', name: 'read', arguments: {} }] }),
    pi('2', '1', { role: 'toolResult', toolCallId: 'c', content }),
  ],
};

it.each(Object.keys(SESSIONS))('%s keeps a result of an unknown shape, flagged', (format) => {
  for (const odd of [ODD, { rows: ODD }, 7]) {
    const { of, refused } = read(format, SESSIONS[format]!(odd));
    expect(refused).toEqual([]);
    expect(of('tool.returned')).toMatchObject([{ flags: ['unknown_result'] }]);
    expect(JSON.stringify(of('tool.returned')[0]!.output)).toContain(odd === 7 ? '7' : '1 | x');
  }
  const { of } = read(format, SESSIONS[format]!([{ type: 'text', text: 'x' }]));
  expect(of('tool.returned')[0]!.flags).toBeUndefined();
});

it('openhands keeps results of its SDK that are no objects, or have no list of blocks', () => {
  const kept = (observation: unknown) => {
    const { of, refused } = read('openhands', sdk(observation));
    expect(refused).toEqual([]);
    expect(of('tool.returned')).toHaveLength(1);
    const [{ output, flags }] = of('tool.returned') as [Record<string, unknown>];
    return [output, flags];
  };
  const flagged = ['unknown_result'];
  expect(kept('12 km')).toEqual(['12 km', flagged]);
  expect(kept(ODD)).toEqual([[{ type: 'json', content: ODD[0] }], flagged]);
  expect(kept(7)).toEqual([[{ type: 'json', content: 7 }], flagged]);
  expect(kept(null)).toEqual(['', flagged]);
  expect(kept({ kind: 'X', content: { rows: 2 } })).toEqual([[{ type: 'json', rows: 2 }], flagged]);
  expect(kept({ kind: 'X', content: [7] })).toEqual([[{ type: 'json', content: 7 }], flagged]);
  expect(kept({ kind: 'X', content: '12 km' })).toEqual(['12 km', undefined]);
  expect(kept({ kind: 'X', content: [{ type: 'text', text: '12 km' }] })).toEqual(['12 km', undefined]);
});
