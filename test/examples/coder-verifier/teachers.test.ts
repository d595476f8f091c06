import { describe, expect, it } from 'vitest';
import { demonstrations, LESSONS } from '../../../examples/coder-verifier/demonstrations.ts';
import { instruct, isTwisted } from '../../../examples/coder-verifier/language.ts';
import type { Matrix } from '../../../examples/coder-verifier/matrix.ts';
import { parseProgram } from '../../../examples/coder-verifier/program.ts';
import { teachProgram, teachTrace } from '../../../examples/coder-verifier/teachers.ts';
import { parseTrace } from '../../../examples/coder-verifier/trace.ts';
import { createRandom } from '../../../examples/lib/random.ts';
import { decodeEnvelope } from '../../../ingest/events/decode.ts';
import type { Event } from '../../../ingest/events/events.ts';

/** All demonstrations of one seed, decoded. */
function lessons(seed: number) {
  const decoded = [...demonstrations({ ...LESSONS, seed })].map(decodeEnvelope);
  const refusals = decoded.flatMap(({ refusal }) => (refusal ? [refusal] : []));
  const events = decoded.flatMap(({ event }) => (event ? [event] : []));
  const matrices = events.flatMap(({ data }) => ('matrix' in data ? [data.matrix as Matrix] : []));
  return {
    events,
    refusals,
    coder: matrices.filter(({ programs }) => programs.every(({ step_id }) => step_id)),
    verifier: matrices.filter(({ tests }) => tests.some(({ step_id }) => step_id)),
  };
}

const column = ({ tests }: Matrix, name: string): number => tests.findIndex((test) => test.name === name);
const PUBLIC = ['public 1', 'public 2'];

/** Programs of one task left after each filter, computed from the matrix alone. */
function coderFunnel(matrix: Matrix) {
  const rows = matrix.programs.map((program, i) => ({ program, pass: matrix.pass[i]! }));
  const format = rows.filter(({ program }) => program.valid);
  const open = format.filter(({ pass }) => PUBLIC.every((name) => pass[column(matrix, name)] === 1));
  const alike = (id: string | undefined) => open.filter(({ program }) => program.behaviour === id);
  const agreed = open.filter(({ program }) => alike(program.behaviour).length * 2 > open.length);
  const right = (some: typeof rows) => some.filter(({ pass }) => pass[column(matrix, 'ground truth')] === 1).length;
  return [rows.length, format.length, open.length, agreed.length, right(rows), right(agreed)];
}

function verifierFunnel(matrix: Matrix) {
  const [test] = matrix.tests;
  const format = test?.valid === true;
  const open = format && test.holds === true && test.plan_passes_public === true;
  return [1, format ? 1 : 0, open ? 1 : 0, open && matrix.pass[1]![0] === 1 ? 1 : 0];
}

const total = (rows: readonly number[][]): number[] =>
  rows.reduce((sum, row) => row.map((value, i) => value + (sum[i] ?? 0)), []);

describe("the teachers' lessons", () => {
  const first = lessons(1);

  it('are valid events, each once', () => {
    expect(first.refusals).toEqual([]);
    expect(new Set(first.events.map(({ key, id }) => `${key} ${id}`)).size).toBe(first.events.length);
    const named = (name: Event['name']) => first.events.filter((event) => event.name === name).length;
    expect(named('episode.started')).toBe(3500);
    expect(named('generation.completed')).toBe(4500);
    expect(named('episode.finished')).toBe(3500);
    expect(first.coder).toHaveLength(500);
    expect(first.verifier).toHaveLength(3000);
  });

  it.each([1, 2])('of seed %i are right about half the time, and mostly right after the filters', (seed) => {
    const { coder, verifier } = seed === 1 ? first : lessons(seed);
    const [raw, format, open, agreed, right, rightAgreed] = total(coder.map(coderFunnel)) as [
      number,
      number,
      number,
      number,
      number,
      number,
    ];
    expect(raw).toBe(1500);
    expect(right / raw).toBeGreaterThan(0.5);
    expect(right / raw).toBeLessThan(0.6);
    expect(Math.abs(format - 1350)).toBeLessThan(45);
    expect(Math.abs(open - 920)).toBeLessThan(80);
    expect(Math.abs(agreed - 880)).toBeLessThan(80);
    expect(rightAgreed / agreed).toBeGreaterThan(0.94);

    const [traces, sound, held, truly] = total(verifier.map(verifierFunnel)) as [number, number, number, number];
    expect(traces).toBe(3000);
    expect(Math.abs(sound - 2700)).toBeLessThan(70);
    expect(Math.abs(held - 1620)).toBeLessThan(110);
    expect(truly / held).toBeGreaterThan(0.96);
  });

  it('are equal for equal seeds and differ else', () => {
    const small = (seed: number) => [...demonstrations({ seed, coderTasks: 20, teachers: 3, verifierTasks: 20 })];
    expect(small(7)).toEqual(small(7));
    expect(small(7)).not.toEqual(small(8));
  });

  it('have the declared faults, as often', () => {
    const random = createRandom(11);
    const draws = 30_000;
    const count = {
      right: 0,
      swapped: 0,
      sibling: 0,
      single: 0,
      skipped: 0,
      whole: 0,
      malformed: 0,
      slipped: 0,
      sound: 0,
    };
    for (let i = 0; i < draws; i++) {
      const pair = instruct(['even', 'rev'], random);
      const answer = parseProgram(teachProgram(pair, random))?.join(' ');
      if (answer === undefined) count.malformed++;
      else if (answer.includes(' ')) count.whole++;
      else count.skipped++;
      if (isTwisted(pair) && answer === 'even rev') count.right++;
      if (isTwisted(pair) && answer === 'rev even') count.swapped++;
      const one = parseProgram(teachProgram(instruct(['asc'], random), random));
      if (one) count.single++;
      if (one?.[0] === 'desc') count.sibling++;
      const trace = parseTrace([3, 4, 0], teachTrace(instruct(['inc'], random), [3, 4, 0], random));
      if (trace) count.sound++;
      if (trace && !trace.holds) count.slipped++;
    }
    expect(Math.abs(count.swapped / (count.swapped + count.right) - 0.6)).toBeLessThan(0.02);
    expect(Math.abs(count.sibling / count.single - 0.08)).toBeLessThan(0.01);
    expect(Math.abs(count.skipped / (count.skipped + count.whole) - 0.08)).toBeLessThan(0.01);
    expect(Math.abs(count.malformed / draws - 0.1)).toBeLessThan(0.01);
    expect(Math.abs(1 - count.sound / draws - 0.1)).toBeLessThan(0.01);
    // One slip in six writes the digit that was right anyway.
    expect(Math.abs(count.slipped / count.sound - 0.06 * (5 / 6))).toBeLessThan(0.008);
  });

  it('know a task stated for both members as one', () => {
    const stated = first.events.filter(({ name }) => name === 'task.defined');
    expect(new Set(stated.map(({ key }) => key)).size).toBe(stated.length);
    const started = first.events.filter(({ name }) => name === 'episode.started');
    const known = new Set(stated.map(({ data }) => (data as { task_id: string }).task_id));
    expect(started.every(({ data }) => known.has((data as { task_id: string }).task_id))).toBe(true);
  });
});
