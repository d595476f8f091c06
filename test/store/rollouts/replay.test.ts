/** Which call of a source a call of its replay is: the same agent, the same request, the same order. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FAULT_NAMES, faultOf } from '../../../store/loop/play/faults.ts';
import { interventionOf, type SourceCall, walkAlong } from '../../../store/loop/play/replay.ts';

const call = (
  call_id: string,
  agent: string,
  request: string,
  requested: number,
  completed = requested + 1,
): SourceCall => ({
  call_id,
  origin: 'source',
  agent,
  request,
  requested,
  completed,
  step_id: `${call_id}/0`,
});
const ask = (agent: string, request: string) => ({ agent, requests: [request] });
const CHAIN = [
  call('c1', 'ann', 'a', 0),
  call('c2', 'bob', 'b', 1),
  call('c3', 'ann', 'c', 2),
  call('c4', 'bob', 'd', 3),
];

describe('a walk along the calls of a source', () => {
  it('answers those before the place from the record, and nothing from the place on', () => {
    const walk = walkAlong(CHAIN, 'c3');
    expect(walk.next(ask('ann', 'a'))).toMatchObject({ is: 'recorded', call: { call_id: 'c1' } });
    expect(walk.next(ask('bob', 'b'))).toMatchObject({ is: 'recorded', call: { call_id: 'c2' } });
    expect(walk.next(ask('ann', 'c'))).toMatchObject({ is: 'place', call: { call_id: 'c3' }, parent: 'c2/0' });
    expect(walk.next(ask('bob', 'd'))).toEqual({ is: 'after' });
    expect(walk.next(ask('eve', 'whatever'))).toEqual({ is: 'after' });
  });

  it('distinguishes another request, another agent, another order and a call too many', () => {
    const why = (asked: readonly (readonly [string, string])[], place: string | null = 'c4') => {
      const walk = walkAlong(CHAIN, place);
      return asked.map(([agent, request]) => walk.next(ask(agent, request))).at(-1);
    };
    expect(why([['ann', 'x']])).toMatchObject({
      is: 'other',
      why: 'A call of ann has another request than call c1.',
      call: { call_id: 'c1' },
    });
    expect(why([['bob', 'a']])).toMatchObject({
      is: 'other',
      why: 'A call of bob has the request of call c1, which is one of ann.',
    });
    expect(why([['bob', 'b']])).toMatchObject({
      is: 'other',
      why: 'A call of bob came before call c1, after which it was recorded.',
    });
    expect(why([['eve', 'x']])).toMatchObject({
      is: 'other',
      why: 'A call of eve came, and no call of that agent was recorded; call c1 is next.',
    });
    const whole = CHAIN.map(({ agent, request }) => [agent!, request] as const);
    expect(why([...whole, ['ann', 'a']], null)).toMatchObject({
      is: 'other',
      why: 'A call of ann came after the last call that was recorded.',
      call: null,
    });
  });

  it('takes equal requests of one agent one after another', () => {
    const walk = walkAlong([call('c1', 'ann', 'a', 0), call('c2', 'ann', 'a', 1), call('c3', 'ann', 'a', 2)], 'c3');
    const ids = [1, 2, 3].map(() => walk.next(ask('ann', 'a')));
    expect(ids.map((turn) => [turn.is, 'call' in turn && turn.call?.call_id])).toEqual([
      ['recorded', 'c1'],
      ['recorded', 'c2'],
      ['place', 'c3'],
    ]);
  });

  it('goes on after a restart with what is known to be answered', () => {
    const walk = walkAlong(CHAIN, 'c3');
    for (const id of ['c1', 'c2']) walk.answered(id);
    expect(walk.next(ask('ann', 'c')).is).toBe('place');
  });

  it('lets calls that ran beside each other come in any order, and a call beside the place go to a model', () => {
    const beside = [call('c1', 'ann', 'a', 0, 5), call('c2', 'bob', 'b', 1, 4), call('c3', 'eve', 'c', 6)];
    for (const order of [
      ['a', 'b'],
      ['b', 'a'],
    ]) {
      const walk = walkAlong(beside, 'c3');
      for (const request of order)
        expect(walk.next(ask(request === 'a' ? 'ann' : 'bob', request!)).is).toBe('recorded');
      expect(walk.next(ask('eve', 'c')).is).toBe('place');
    }
    const first = walkAlong(beside, 'c1');
    expect(first.next(ask('bob', 'b'))).toEqual({ is: 'after' });
    expect(first.next(ask('ann', 'a')).is).toBe('place');
  });

  it('answers a whole source, in any order that its times allow', () => {
    const source = fc
      .array(
        fc.record({
          agent: fc.constantFrom('ann', 'bob', 'eve'),
          request: fc.constantFrom('a', 'b', 'c'),
          gap: fc.integer({ min: 0, max: 3 }),
          lasts: fc.integer({ min: 1, max: 5 }),
        }),
        { minLength: 1, maxLength: 8 },
      )
      .map((drawn) => {
        let at = 0;
        return drawn.map(({ agent, request, gap, lasts }, i) => {
          at += gap;
          return call(`c${i}`, agent, request, at, at + lasts);
        });
      });
    fc.assert(
      fc.property(source, fc.infiniteStream(fc.nat()), (calls, draws) => {
        const walk = walkAlong(calls, null);
        const left = [...calls];
        const answered: string[] = [];
        while (left.length > 0) {
          // Whatever did not wait for another one in the source may come now.
          const free = left.filter((one) =>
            calls.slice(0, calls.indexOf(one)).every((p) => !left.includes(p) || p.completed > one.requested),
          );
          const next = free[draws.next().value % free.length]!;
          // Of equal calls nobody can tell which one came: the earliest that may is taken.
          left.splice(left.indexOf(next), 1);
          const turn = walk.next(ask(next.agent!, next.request));
          if (turn.is === 'recorded') answered.push(turn.call.call_id);
        }
        const equal = new Set(calls.map(({ agent, request }) => `${agent} ${request}`)).size < calls.length;
        if (!equal) expect(answered.toSorted()).toEqual(calls.map(({ call_id }) => call_id).toSorted());
        expect(new Set(answered).size).toBe(answered.length);
      }),
    );
  });
});

describe('a fault', () => {
  it('is one of the fourteen failure modes of MAST, each once', () => {
    const modes = FAULT_NAMES.map((name) => faultOf(name).mode);
    expect(modes.toSorted()).toEqual([
      ...['FM-1.1', 'FM-1.2', 'FM-1.3', 'FM-1.4', 'FM-1.5'],
      ...['FM-2.1', 'FM-2.2', 'FM-2.3', 'FM-2.4', 'FM-2.5', 'FM-2.6'],
      ...['FM-3.1', 'FM-3.2', 'FM-3.3'],
    ]);
  });

  it('changes the answer of its step, or says that it cannot', () => {
    const changed = (
      name: (typeof FAULT_NAMES)[number],
      text: string,
      before: { agent: string; text: string }[] = [],
    ) => {
      const fault = faultOf(name);
      return 'answer' in fault ? fault.answer({ text, before, agent: 'ann' }) : undefined;
    };
    const before = [
      { agent: 'ann', text: 'mine' },
      { agent: 'bob', text: 'his' },
    ];
    expect(changed('wrong-number', '6 times 7 is 42.')).toBe('6 times 7 is 43.');
    expect(changed('wrong-number', 'no digits')).toBe(null);
    expect(changed('cut-answer', 'one two three four')).toBe('one two');
    expect(changed('cut-answer', 'one')).toBe(null);
    expect(changed('withheld-answer', 'something')).toBe('');
    expect(changed('other-role', 'x', before)).toBe('his');
    expect(changed('repeated-step', 'x', before)).toBe('mine');
    expect(changed('repeated-step', 'x')).toBe(null);
  });
});

it('an intervention is tagged as the methods of blame read it', () => {
  const at = { step_id: 'c1/0', agent: 'ann' };
  expect(interventionOf({}, at)).toBe(null);
  expect(interventionOf({ fault: 'wrong-number' }, at)).toEqual({ kind: 'perturb', fault: 'wrong-number', ...at });
  expect(interventionOf({ skip: true }, at)).toEqual({ kind: 'skip', ...at });
  expect(interventionOf({ kind: 'edit', hypothesis: 'h' }, { ...at, answers: { ann: 'x' } })).toEqual({
    kind: 'edit',
    hypothesis: 'h',
    fulfilled: true,
    ...at,
  });
  expect(interventionOf({ kind: 'repair' }, { ...at, answers: { bob: 'y', ann: 'x' } })).toEqual({
    kind: 'repair',
    fulfilled: true,
    repaired: ['ann', 'bob'],
    ...at,
  });
});
