import { describe, expect, it } from 'vitest';
import { behaviour, isCorrect } from '../../../examples/coder-verifier/behaviour.ts';
import { run } from '../../../examples/coder-verifier/operations.ts';
import { HELD_OUT_MIX, POOLS, type Pool, sampleTask, TRAINING_MIX } from '../../../examples/coder-verifier/splits.ts';
import { publicExamples } from '../../../examples/coder-verifier/task.ts';
import { createRandom } from '../../../examples/lib/random.ts';

const all = (pool: Pool): string[] => [...pool[1], ...pool[2], ...pool[3]].map((program) => program.join(' '));
const pairs = (programs: readonly string[]): Set<string> =>
  new Set(
    programs.flatMap((program) => {
      const names = program.split(' ');
      return names.slice(1).map((name, i) => `${names[i]} ${name}`);
    }),
  );
const sizes = (pool: Pool): number[] => [pool[1].length, pool[2].length, pool[3].length];

describe('the recipes', () => {
  it('are split into 12 + 88 + 952 to train on, 36 + 330 new and 8 + 170 hard ones', () => {
    expect(sizes(POOLS.train)).toEqual([12, 88, 952]);
    expect(sizes(POOLS.new)).toEqual([0, 36, 330]);
    expect(sizes(POOLS.hard)).toEqual([0, 8, 170]);
  });

  it('stand in one pool only', () => {
    const programs = [...all(POOLS.train), ...all(POOLS.new), ...all(POOLS.hard)];
    expect(new Set(programs).size).toBe(programs.length);
    expect(programs).toHaveLength(1596);
  });

  it('that are hard have one of eight pairs that never stand side by side elsewhere', () => {
    const elsewhere = pairs([...all(POOLS.train), ...all(POOLS.new)]);
    const unseen = [...pairs(all(POOLS.hard))].filter((pair) => !elsewhere.has(pair));
    expect(unseen).toHaveLength(8);
    expect(all(POOLS.hard).every((program) => unseen.some((pair) => ` ${program} `.includes(` ${pair} `)))).toBe(true);
  });

  it('are 381 functions; 37 of the new recipes compute one that no training recipe does', () => {
    const functions = (pool: Pool) => [...pool[1], ...pool[2], ...pool[3]].map(behaviour);
    const trained = new Set(functions(POOLS.train));
    expect(new Set([...trained, ...functions(POOLS.new), ...functions(POOLS.hard)]).size).toBe(381);
    expect(functions(POOLS.new).filter((id) => !trained.has(id))).toHaveLength(37);
  });
});

describe('behaviour', () => {
  it('is equal for programs that do the same in other words, and differs else', () => {
    expect(isCorrect(['rev', 'rev', 'asc'], ['asc'])).toBe(true);
    expect(isCorrect(['rev', 'asc', 'rev'], ['desc'])).toBe(true);
    expect(isCorrect(['asc'], ['desc'])).toBe(false);
    expect(isCorrect(['tail'], ['init'])).toBe(false);
  });
});

describe('drawing a task', () => {
  it('gives the same tasks for the same seed, and the asked mix of lengths', () => {
    const draw = (seed: number) => {
      const random = createRandom(seed);
      return Array.from({ length: 2000 }, () => sampleTask('train', random, TRAINING_MIX));
    };
    expect(draw(3)).toEqual(draw(3));
    expect(draw(3)).not.toEqual(draw(4));
    const share = (length: number) => draw(3).filter(({ program }) => program.length === length).length / 2000;
    expect(share(1)).toBeCloseTo(0.1, 1);
    expect(share(2)).toBeCloseTo(0.4, 1);
    expect(share(3)).toBeCloseTo(0.5, 1);
  });

  it('names a task by its sentence, which belongs to one program', () => {
    const random = createRandom(9);
    const sentences = new Map<string, string>();
    for (let i = 0; i < 20_000; i++) {
      const { id, program } = sampleTask('train', random, TRAINING_MIX);
      expect(sentences.get(id) ?? program.join(' ')).toBe(program.join(' '));
      sentences.set(id, program.join(' '));
    }
  });

  it('gives two different public examples that are true and always the same', () => {
    const random = createRandom(5);
    for (let i = 0; i < 200; i++) {
      const task = sampleTask('hard', random, HELD_OUT_MIX);
      const examples = publicExamples(task);
      expect(examples).toEqual(publicExamples(task));
      expect(examples[0].input).not.toEqual(examples[1].input);
      for (const { input, output } of examples) expect(output).toEqual(run(task.program, input));
    }
  });
});
