import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeEnvelope } from '../../ingest/events/decode.ts';
import type { Event, EventData } from '../../ingest/events/events.ts';
import { amended, type LoggedEvent, mergePatch, setAt } from '../../store/projecting/amend.ts';
import { event } from './support/events.ts';

const stored = (one: Event): LoggedEvent => ({ ...one, data: JSON.parse(one.json) });
const finished = (data: Partial<EventData<'episode.finished'>> = {}): LoggedEvent =>
  stored(event('episode.finished', { episode_id: 'e', outcome: 'unknown', answer: '4', ...data }, { id: 'f' }));
const amend = (id: string, time: string | null, data: Partial<EventData<'record.amended'>>): LoggedEvent =>
  stored(
    event('record.amended', { key: 'e/e', target: { source: '/test', id: 'f' }, op: 'merge', ...data }, { id, time }),
  );
const dataOf = (one: LoggedEvent | null) => one?.data as Record<string, unknown> | undefined;

describe('an amended event', () => {
  it('says what the amendments make of it in the order of time, whatever the order of arrival', () => {
    const all = [
      amend('z', '2026-01-01T00:00:01Z', { patch: { outcome: 'failure', answer: '5' } }),
      amend('a', '2026-01-01T00:00:01.5Z', { patch: { answer: null } }),
      amend('b', null, { patch: { outcome: 'error', stop_reason: 'was first' } }),
    ];
    fc.assert(
      fc.property(fc.shuffledSubarray(all, { minLength: 3 }), (shuffled) => {
        expect(dataOf(amended(finished(), shuffled))).toEqual({
          episode_id: 'e',
          outcome: 'failure',
          stop_reason: 'was first',
        });
      }),
    );
  });

  it('is replaced, changed at a place, or gone', () => {
    expect(
      dataOf(
        amended(finished(), [amend('a', null, { op: 'supersede', patch: { episode_id: 'e', outcome: 'success' } })]),
      ),
    ).toEqual({ episode_id: 'e', outcome: 'success' });
    expect(
      dataOf(amended(finished(), [amend('a', null, { op: 'set', set: [{ path: '/answer', value: '6' }] })]))?.answer,
    ).toBe('6');
    expect(amended(finished(), [amend('a', null, { op: 'reject' })])).toBeNull();
  });

  it('stays as it was where an amendment would make it invalid, move it elsewhere, or is about another event', () => {
    for (const wrong of [
      amend('a', null, { patch: { outcome: 'won' } }),
      amend('a', null, { patch: { episode_id: 'other' } }),
      amend('a', null, { op: 'supersede', patch: 7 }),
      amend('a', null, { op: 'set' }),
      amend('a', null, { patch: { answer: '9' }, target: { source: '/other', id: 'f' } }),
      amend('a', null, { patch: { answer: '9' }, target: { source: '/test', id: 'g' } }),
    ])
      expect(amended(finished(), [wrong])?.data).toEqual(finished().data);
  });

  it('has no text of its old arguments where they became others, and keeps it where they did not', () => {
    const data = { episode_id: 'e', tool_call_id: 't', name: 'f' };
    const called = stored(
      event('tool.called', { ...data, arguments: { b: 1, a: 2 }, arguments_raw: '{"b":1.0,"a":2}' }, { id: 'f' }),
    );
    const changedBy = (change: Partial<EventData<'record.amended'>>) =>
      dataOf(amended(called, [amend('a', null, change)]));
    for (const change of [
      { patch: { arguments: { b: 3 } } },
      { op: 'set' as const, set: [{ path: '/arguments/b', value: 3 }] },
    ])
      expect(changedBy(change)).toMatchObject({ arguments: { b: 3, a: 2 }, arguments_raw: '{"a": 2, "b": 3}' });
    expect(changedBy({ patch: { name: 'g' } })).toMatchObject({ name: 'g', arguments_raw: '{"b":1.0,"a":2}' });
    expect(changedBy({ patch: { arguments: { b: 3 }, arguments_raw: '{"a":2,"b":3}' } })).toMatchObject({
      arguments_raw: '{"a":2,"b":3}',
    });
    expect(changedBy({ patch: { arguments: null } })).not.toHaveProperty('arguments_raw');
  });

  it('nor in an answer whose call was amended', () => {
    const call = { type: 'tool_call', id: 'c', name: 'f', arguments: { b: 1 }, arguments_raw: '{"b":1.0}' };
    const choice = (part: object) => [{ index: 0, content: [{ type: 'text', content: 'I look.' }, part] }];
    const answered = stored(
      event('generation.completed', { episode_id: 'e', call_id: 'c1', choices: choice(call) } as never, { id: 'f' }),
    );
    const set = [{ path: '/choices/0/content/1/arguments', value: { b: 2 } }];
    expect(dataOf(amended(answered, [amend('a', null, { op: 'set', set })]))?.choices).toEqual(
      choice({ ...call, arguments: { b: 2 }, arguments_raw: '{"b": 2}' }),
    );
  });

  it('P43: has its strange text escaped once, however often it is amended', () => {
    const first = finished({ answer: 'a\u0000' });
    const twice = amended(first, [
      amend('a', null, { patch: { stop_reason: '\uD83D' } }),
      amend('b', null, { patch: { exit_status: '\uFFFE' } }),
    ])!;
    expect(encodeEnvelope({ ...twice, data: twice.data as object })).toMatchObject({
      data: { episode_id: 'e', outcome: 'unknown', answer: 'a\u0000', stop_reason: '\uD83D', exit_status: '\uFFFE' },
    });
    expect((encodeEnvelope({ ...twice, data: twice.data as object }) as { data: object }).data).not.toHaveProperty(
      'flags',
    );
  });
});

describe('a merge patch', () => {
  it('does what RFC 7396 shows', () => {
    const cases: [unknown, unknown, unknown][] = [
      [{ a: 'b' }, { a: 'c' }, { a: 'c' }],
      [{ a: 'b', b: 'c' }, { a: null }, { b: 'c' }],
      [{ a: ['b'] }, { a: 'c' }, { a: 'c' }],
      [{ a: { b: 'c' } }, { a: { b: 'd', c: null } }, { a: { b: 'd' } }],
      [['a', 'b'], { a: 1 }, { a: 1 }],
      [{ a: 'foo' }, 'bar', 'bar'],
      [{ e: null }, { a: 1 }, { e: null, a: 1 }],
      [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
    ];
    for (const [target, patch, result] of cases) expect(mergePatch(target, patch)).toEqual(result);
  });

  it('takes __proto__ as a key', () => {
    const merged = mergePatch(
      {},
      JSON.parse('{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}'),
    );
    expect(Object.hasOwn(merged as object, '__proto__')).toBe(true);
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
    const set = setAt({}, '/__proto__', { polluted: 1 });
    expect(Object.hasOwn(set as object, '__proto__')).toBe(true);
    expect(setAt({}, '/constructor/name', 'x')).toEqual({});
  });

  it('sets only places that exist, or the last name of one', () => {
    const value = { a: [1, { 'x/y': 2, '~': 3 }] };
    expect(setAt(value, '/a/1/x~1y', 5)).toEqual({ a: [1, { 'x/y': 5, '~': 3 }] });
    expect(setAt(value, '/a/1/~0', 5)).toEqual({ a: [1, { 'x/y': 2, '~': 5 }] });
    expect(setAt(value, '/b', 5)).toEqual({ ...value, b: 5 });
    expect(setAt(value, '', 5)).toBe(5);
    for (const path of ['/b/c', '/a/2', '/a/-', '/a/', '/a/0/z', '/a/1e0'])
      expect(setAt(value, path, 5)).toEqual(value);
  });
});
