import { describe, expect, it } from 'vitest';
import { behaviour } from '../../../examples/coder-verifier/behaviour.ts';
import { type Episode, settle } from '../../../examples/coder-verifier/episode.ts';
import { parseProgram } from '../../../examples/coder-verifier/program.ts';
import { parseTrace } from '../../../examples/coder-verifier/trace.ts';

const TRUTH = ['asc', 'neg', 'odd'] as const;
const INPUT = [3, 4, 0];

/** Programs and tests as text; steps are named p0, p1 … and t0, t1 … */
const episode = (programs: readonly string[], tests: readonly string[]): Episode =>
  settle(
    TRUTH,
    programs.map((text, i) => ({ stepId: `p${i}`, meaning: parseProgram(text) })),
    tests.map((text, i) => ({ stepId: `t${i}`, meaning: parseTrace(INPUT, text) })),
  );

const RIGHT = '#asc 0 3 4 #neg 5 2 1 #odd 5 1 _';
const WRONG_PLAN = '#asc 0 3 4 #neg 5 2 1 #even 2 _ _';
const SLIP = '#asc 0 3 4 #neg 5 2 1 #odd 5 2 _';

describe('an execution matrix', () => {
  it('says which program passes which test, with the truth beside it and nothing where nothing could be run', () => {
    const { matrix, chosen, solved } = episode(
      ['#asc #neg', '#asc #neg #even', '#nonsense', '#desc #neg #odd', '#asc #neg #odd'],
      [RIGHT, WRONG_PLAN, SLIP, '#asc 0 3'],
    );
    expect(matrix.pass).toEqual([
      [0, 0, 0, null, 0],
      [0, 1, 0, null, 0],
      [null, null, null, null, null],
      [0, 0, 0, null, 0],
      [1, 0, 0, null, 1],
      [1, 0, 0, null, 1],
    ]);
    expect(matrix.programs).toEqual([
      { step_id: 'p0', valid: true, behaviour: behaviour(['asc', 'neg']) },
      { step_id: 'p1', valid: true, behaviour: behaviour(['asc', 'neg', 'even']) },
      { step_id: 'p2', valid: false },
      { step_id: 'p3', valid: true, behaviour: behaviour(['desc', 'neg', 'odd']) },
      { step_id: 'p4', valid: true, behaviour: behaviour(TRUTH) },
      { name: 'reference', valid: true, behaviour: behaviour(TRUTH), reference: true },
    ]);
    expect(matrix.tests).toEqual([
      { step_id: 't0', valid: true, behaviour: behaviour(TRUTH), holds: true },
      { step_id: 't1', valid: true, behaviour: behaviour(['asc', 'neg', 'even']), holds: true },
      { step_id: 't2', valid: true, behaviour: behaviour(TRUTH), holds: false },
      { step_id: 't3', valid: false },
      { name: 'ground truth', valid: true, ground_truth: true },
    ]);
    // One test passed each by p1 and p4: the first of them is handed in, and it is wrong.
    expect({ chosen, solved }).toEqual({ chosen: 1, solved: false });
  });
});

describe('the program handed in', () => {
  it('is the one that passes most tests', () => {
    expect(episode(['#asc #neg', '#asc #neg #odd'], [RIGHT, WRONG_PLAN])).toMatchObject({ chosen: 1, solved: true });
  });

  it('is the first that can be run where there are no tests, and none where none can be run', () => {
    expect(episode(['#', '#asc #neg #odd', '#asc'], [])).toMatchObject({ chosen: 1, solved: true });
    expect(episode(['#', ''], [RIGHT])).toMatchObject({ chosen: null, solved: false });
  });
});
