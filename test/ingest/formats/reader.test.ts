/** The kit that formats are made of: fields are taken once, what is left is kept, and a trace states a run. */
import { describe, expect, it } from 'vitest';
import { canonicalJson } from '../../../ingest/events/json.ts';
import type { NativeRecord } from '../../../ingest/formats/kit/format.ts';
import { emitterFor } from '../../../ingest/formats/kit/native.ts';
import { format, Reader, unreadable } from '../../../ingest/formats/kit/reader.ts';
import { utcOf } from '../../../ingest/formats/kit/run.ts';
import { Trace } from '../../../ingest/formats/kit/trace.ts';

const emit = emitterFor('sketch');
const record = (value: unknown) => ({ value, canonical: canonicalJson(value), ordinal: 0 });

describe('A reader', () => {
  it('keeps as its rest what nobody took, also within objects', () => {
    const row = new Reader({ query: 'q', seed: 3, info: { model: 'm', cost: 2 }, note: null });
    expect([row.text('query'), row.object('info')!.text('model'), row.text('note')]).toEqual(['q', 'm', undefined]);
    expect(row.rest()).toEqual({ seed: 3, info: { cost: 2 } });
  });

  it('leaves a field of another type in the rest, so that nothing is lost', () => {
    const row = new Reader({ reward: 'high', steps: 2.5, tags: 'x', done: 1, id: '' });
    const taken = [row.number('reward'), row.whole('steps'), row.list('tags'), row.boolean('done'), row.id('id')];
    expect(taken).toEqual([undefined, undefined, undefined, undefined, undefined]);
    expect(row.rest()).toEqual(row.native);
  });

  it('gives the rest without nulls and objects without members where these say nothing', () => {
    const row = new Reader({ id: 'a', note: null, metadata: {}, tags: [], info: { model: null } });
    row.text('id');
    expect(row.filledRest()).toEqual({ tags: [], info: { model: null } });
    expect(new Reader({ note: null }).filledRest()).toBeUndefined();
  });

  it('takes an identifier and a time that may be missing, and refuses anything else in their place', () => {
    const row = new Reader({ parent: null, id: 'a', start: '2026-01-02T03:04:05Z', end: 'soon', group: 7 }, 'spans[1]');
    expect([row.idIfAny('parent'), row.idIfAny('id')]).toEqual([undefined, 'a']);
    expect([row.timeIfAny('start', utcOf, 'a time'), row.timeIfAny('stop', utcOf, 'a time')]).toEqual([
      '2026-01-02T03:04:05.000000Z',
      null,
    ]);
    row.attempt(() => row.timeIfAny('end', utcOf, 'a time'));
    row.attempt(() => row.idIfAny('group'));
    expect(row.problems.map(({ code, field }) => [code, field])).toEqual([
      ['bad_time', 'spans[1].end'],
      ['bad_type', 'spans[1].group'],
    ]);
  });

  it('notes the items of a list that cannot be read, by their place, and reads the others', () => {
    const row = new Reader({ logs: [{ by: 'a' }, 7, { by: '' }, { by: 'b' }] });
    const read = row.each('logs', 'a list of entries', 'an entry', (entry) => entry.id('by', 'the name of an agent'));
    expect(read).toEqual(['a', 'b']);
    expect(row.problems.map(({ code, field }) => [code, field])).toEqual([
      ['bad_type', 'logs[1]'],
      ['bad_identifier', 'logs[2].by'],
    ]);
  });

  it('gives an object that nobody reads further as it is, and nothing of it is left', () => {
    const row = new Reader({ usage: { tokens: 3, cost: null }, params: 'none' });
    expect([row.record('usage'), row.record('params')]).toEqual([{ tokens: 3, cost: null }, undefined]);
    expect(row.rest()).toEqual({ params: 'none' });
  });

  it('refuses the record that lacks a field without which nothing can be read', () => {
    const sketch = format({
      name: 'sketch',
      summary: 'a sketch',
      called: 'a row',
      recognises: (row) => 'query' in row,
      convert(row, native) {
        row.object('info', 'an object').text('query', 'the text of the task');
        return new Trace(emit, 'sketch', native).finish({ task: null, finished: null });
      },
    });
    expect(sketch.convert(record([1])).refusals).toMatchObject([{ field: '', expected: 'a row' }]);
    expect(sketch.convert(record({ info: { query: 4 } })).refusals).toMatchObject([
      { code: 'bad_type', field: 'info.query', expected: 'the text of the task', got: '4' },
    ]);
  });
});

describe('A format that gathers', () => {
  it('reads the list of all records as one, and a record alone on its own', () => {
    const run = (query: unknown, native: NativeRecord) =>
      new Trace(emit, 'sketch', native).finish({ task: { task_id: `${query}` }, finished: null });
    const sketch = format({
      name: 'sketch',
      summary: 'a sketch',
      called: 'a row',
      recognises: (row) => 'query' in row,
      gathers: () => 'file',
      convert: (row, native) => run(row.text('query', 'a text'), native),
      convertAll: (rows, native) =>
        rows.length > 0 ? run(rows.length, native) : unreadable('bad_shape', '', 'a row', rows),
    });
    const first = (value: unknown) => sketch.convert(record(value)).drafts[0]?.data;
    expect(first({ query: 'q' })).toMatchObject({ task_id: 'q' });
    expect(first([{ query: 'q' }, { query: 'r' }])).toMatchObject({ task_id: '2' });
    expect(sketch.convert(record([])).refusals).toMatchObject([{ code: 'bad_shape', expected: 'a row' }]);
  });
});

describe('A trace', () => {
  const value = { n: 1 };
  const run = () => {
    const trace = new Trace(emit, 'sketch', record(value));
    trace.answer(0, 'planner', 'Ask the solver.');
    trace.handoff(1, 'planner', 'solver', 'delegate');
    trace.tool(2, 0, 'c', { agent_id: trace.member('solver'), name: 'add', arguments: { a: 1 }, type: 'function' });
    trace.tool(3, 0, 'c', { agent_id: 'solver', name: 'add', arguments: { a: 2 }, type: 'function' });
    trace.result(4, 'c', { status: 'ok', output: '2' });
    trace.result(5, 'c', { status: 'ok', output: '1' });
    return trace.finish({ task: null, agents: [{ agent_id: 'solver', role: 'solver' }], finished: null });
  };

  it('pairs a result with the latest open call of its id, which may repeat', () => {
    const ids = (name: string) =>
      run().drafts.flatMap((draft) =>
        draft.name === name ? [(draft.data as { tool_call_id?: string }).tool_call_id] : [],
      );
    expect(ids('tool.called')).toEqual(['c', 'c#2']);
    expect(ids('tool.returned')).toEqual(['c#2', 'c']);
  });

  it('defines the members that nothing else is known of', () => {
    const agents = run().drafts.flatMap(({ name, data }) => (name === 'agent.defined' ? [data] : []));
    expect(agents).toMatchObject([
      { agent_id: 'solver', role: 'solver' },
      { agent_id: 'planner', name: 'planner' },
    ]);
  });

  it('leaves out what is undefined, in choices too, and its ids do not depend on it', () => {
    const trace = new Trace(emit, 'sketch', record(value));
    trace.answer(0, 'planner', 'x', {
      unmapped: undefined,
      choices: [{ index: 0, content: 'x', finish_reason: undefined }],
    });
    trace.answer(0, 'planner', 'x');
    const [one, other] = trace.events;
    expect(one).toStrictEqual(other);
  });
});
