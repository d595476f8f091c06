/** The checker of the kill proof itself: it must see what it is there to see. */
import { describe, expect, it } from 'vitest';
import { check, type Found, type Seen } from '../../proofs/history.ts';

const seen = (ids: string[], outcome: Seen['outcome'], sent: number): Seen => ({
  ids,
  key: 'e/a',
  sent,
  ended: sent + 2,
  outcome,
});
const found = (...ids: string[]): Found[] => ids.map((id, position) => ({ id, key: 'e/a', partition: 1, position }));
const requests = [
  seen(['a', 'b'], 'ok', 0),
  seen(['u'], 'unknown', 2),
  seen(['c'], 'unknown', 4),
  seen(['c'], 'ok', 6),
];
const kills = [
  { victim: 'api', at: 1 },
  { victim: 'api', at: 9 },
];

describe('The history of a run', () => {
  it('finds nothing wrong where all that was acknowledged is there once, in order, and counts what is unknown', () => {
    expect(check({ requests, kills }, found('a', 'b', 'c'))).toEqual({
      acknowledged: 3,
      unknown: 1,
      present: 0,
      lost: [],
      doubled: [],
      invented: [],
      disordered: [],
      inFlight: 0.5,
    });
    expect(check({ requests, kills }, found('a', 'u', 'b', 'c')).present).toBe(1);
  });

  it.each([
    ['lost', found('a', 'c'), ['b']],
    ['doubled', found('a', 'b', 'b', 'c'), ['b']],
    ['invented', found('a', 'b', 'c', 'x'), ['x']],
    ['disordered', found('b', 'a', 'c'), ['b']],
  ] as const)('names what is %s', (kind, there, ids) => {
    expect(check({ requests, kills }, there)[kind]).toEqual(ids);
  });
});
