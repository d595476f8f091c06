import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { bandsFor, meeting } from '../../../store/evaluate/consistency/banding.ts';
import { disjointSets } from '../../../store/evaluate/consistency/clusters.ts';
import { minHasher } from '../../../store/evaluate/consistency/minhash.ts';
import { jaccard, normaliseText, shingles } from '../../../store/evaluate/consistency/shingles.ts';
import { SIMILAR_TASKS, similarTasks } from '../../../store/evaluate/consistency/similar-tasks.ts';
import { wordAt } from '../../../store/evaluate/consistency/words.ts';
import { anyCharacter } from '../../support/character.ts';
import { aText, variant } from './texts.ts';

const near = (a: string, b: string, length = 5) =>
  jaccard(shingles(normaliseText(a), length), shingles(normaliseText(b), length));
const clusters = (texts: Readonly<Record<string, string | null>>) =>
  Object.fromEntries(
    [...similarTasks(Object.entries(texts).map(([id, text]) => ({ id, text })))].map(([id, at]) => [id, at.cluster]),
  );

describe('A text as a set of n-grams', () => {
  it('is the same for another case, other white space and another way to write the same characters', () => {
    expect(normaliseText('  Wie\u00a0gro\u00df \n IST  ﬁve? ')).toBe('wie groß ist five?');
    expect(normaliseText('e\u0301')).toBe(normaliseText('\u00c9'));
  });

  it('has one n-gram for each place, equal ones counted once', () => {
    expect(shingles('abcdef', 5)).toHaveLength(2);
    expect(shingles('aaaaaaaa', 5)).toHaveLength(1);
    expect(near('abcdef', 'bcdefg')).toBeCloseTo(1 / 3);
  });

  it('is one n-gram where it is shorter than one, near to itself alone', () => {
    expect(near('2+2', '2+2')).toBe(1);
    expect(near('2+2', '2+3')).toBe(0);
    expect(near('abc', 'abcd')).toBe(0);
  });

  it('cuts no character in half: a text of emoji has as many as it has characters', () => {
    expect(shingles('😀😁😂🤣😃😄', 5)).toHaveLength(2);
    expect(near('求方程的解是多少呢', '求方程的解是多少吗')).toBeCloseTo(4 / 6);
    expect(near('ما هو حاصل الجمع', 'ما هو حاصل الطرح')).toBeGreaterThan(0.4);
  });
});

describe('A MinHash signature', () => {
  it('is the same on any machine: what exact integers modulo 2^32 give', () => {
    const word = (x: bigint) => BigInt.asUintN(32, x);
    const mixed = (x: bigint) => {
      let h = word(x);
      h = word((h ^ (h >> 16n)) * 0x85ebca6bn);
      h = word((h ^ (h >> 13n)) * 0xc2b2ae35n);
      return h ^ (h >> 16n);
    };
    const drawn = (seed: bigint, i: bigint) => mixed(mixed(word(seed) ^ word((i + 1n) * 0x9e3779b9n)) ^ word(seed));
    const text = 'the sum of 😀';
    const codes = [...text].map((character) => BigInt(character.codePointAt(0)!));
    const grams = codes.slice(4).map((_, start) => {
      const hash = codes.slice(start, start + 5).reduce((h, code) => word((h ^ code) * 0x01000193n) ^ (h >> 15n), 5n);
      return BigInt.asIntN(32, mixed(hash));
    });
    const set = shingles(text, 5);
    expect([...set].map(BigInt)).toEqual([...new Set(grams)].sort((a, b) => (a < b ? -1 : 1)));
    const into = new Int32Array(6);
    minHasher(6, -7)(set, into);
    const expected = into.map((_, i) => {
      const [factor, offset] = [drawn(-7n, 2n * BigInt(i)) | 1n, drawn(-7n, 2n * BigInt(i) + 1n)];
      return Math.min(...grams.map((gram) => Number(BigInt.asIntN(32, factor * gram + offset))));
    });
    expect([...into]).toEqual([...expected]);
  });

  it('estimates the Jaccard similarity with the deviation of independent draws', () => {
    const hashes = 128;
    const write = minHasher(hashes, 3);
    for (const share of [0.2, 0.5, 0.8]) {
      // Sets of 200 words with 200·2s/(1+s) in common have the similarity s.
      const common = Math.round((200 * 2 * share) / (1 + share));
      const errors = Array.from({ length: 300 }, (_, trial) => {
        const words = Array.from({ length: 400 }, (_, i) => wordAt(trial, i));
        const [a, b] = [new Int32Array(hashes), new Int32Array(hashes)];
        write(Int32Array.from(words.slice(0, 200)), a);
        write(Int32Array.from([...words.slice(0, common), ...words.slice(200, 400 - common)]), b);
        return a.filter((word, i) => word === b[i]).length / hashes - common / (400 - common);
      });
      const mean = errors.reduce((sum, x) => sum + x, 0) / errors.length;
      const deviation = Math.sqrt(errors.reduce((sum, x) => sum + x * x, 0) / errors.length);
      const expected = Math.sqrt((share * (1 - share)) / hashes);
      expect(Math.abs(mean)).toBeLessThan((4 * expected) / Math.sqrt(errors.length));
      expect(deviation / expected).toBeGreaterThan(0.8);
      expect(deviation / expected).toBeLessThan(1.25);
    }
  });
});

describe('Bands', () => {
  it('are the most selective in which a pair at the threshold still meets', () => {
    expect(bandsFor(0.7, 128, 0.95)).toEqual({ bands: 25, rows: 5 });
    expect(meeting(0.7, { bands: 25, rows: 5 })).toBeCloseTo(0.99, 3);
    expect(meeting(0.3, { bands: 25, rows: 5 })).toBeCloseTo(0.059, 3);
    fc.assert(
      fc.property(
        fc.double({ min: 0.2, max: 0.99, noNaN: true }),
        fc.integer({ min: 16, max: 256 }),
        (threshold, hashes) => {
          const bands = bandsFor(threshold, hashes, 0.95);
          const longer = { bands: Math.floor(hashes / (bands.rows + 1)), rows: bands.rows + 1 };
          return (bands.rows === 1 || meeting(threshold, bands) >= 0.95) && meeting(threshold, longer) < 0.95;
        },
      ),
    );
  });
});

describe('Similar tasks', () => {
  it('share a cluster, named after the smallest id in it', () => {
    const [a, b] = [aText(1), aText(2)];
    expect(
      clusters({
        z: a.join(' '),
        m: variant(a, 1, 5).join(' ').toUpperCase(),
        k: b.join(' '),
        d: variant(b, 1, 6).join('\n'),
        c: aText(3).join(' '),
      }),
    ).toEqual({ z: 'm', m: 'm', k: 'd', d: 'd', c: 'c' });
  });

  it('are alone, with a reason, where there is nothing to compare', () => {
    const placed = similarTasks([
      { id: 'a', text: null },
      { id: 'b', text: ' \n\t' },
      { id: 'c', text: '' },
      { id: 'd', text: null },
      { id: 'e', text: '?' },
      { id: 'f', text: '？' },
    ]);
    expect(Object.fromEntries(placed)).toEqual({
      a: { cluster: 'a', reason: 'no_text' },
      b: { cluster: 'b', reason: 'empty_text' },
      c: { cluster: 'c', reason: 'empty_text' },
      d: { cluster: 'd', reason: 'no_text' },
      e: { cluster: 'e', reason: null },
      f: { cluster: 'e', reason: null },
    });
    expect(similarTasks([])).toEqual(new Map());
  });

  it('are never joined unless a chain of pairs at or above the threshold connects them, and seldom left apart where one does', () => {
    const tasks = Array.from({ length: 180 }, (_, i) => {
      const base = aText(Math.floor(i / 6));
      return { id: `t${i}`, text: variant(base, i % 6, i).join(' ') };
    });
    const threshold = 0.7;
    const { root, join } = disjointSets(tasks.length);
    let pairs = 0;
    for (let b = 1; b < tasks.length; b++)
      for (let a = 0; a < b; a++)
        if (near(tasks[a]!.text, tasks[b]!.text) >= threshold) {
          pairs++;
          join(a, b);
        }
    expect(pairs).toBeGreaterThan(50);
    const found = similarTasks(tasks, { threshold });
    let lost = 0;
    for (let b = 1; b < tasks.length; b++)
      for (let a = 0; a < b; a++) {
        const together = found.get(tasks[a]!.id)!.cluster === found.get(tasks[b]!.id)!.cluster;
        if (together && root(a) !== root(b)) expect([tasks[a], tasks[b]]).toBe('near');
        else if (!together && root(a) === root(b)) lost++;
      }
    expect(lost / pairs).toBeLessThan(0.05);
  });

  it('meet as often as the bands say: pairs a little above the threshold', () => {
    const pairs = Array.from({ length: 1500 }, (_, i) => {
      const base = aText(10_000 + i, 60);
      return [base.join(' '), variant(base, 6 + (i % 3), i).join(' ')] as const;
    }).filter(([a, b]) => near(a, b) >= 0.7 && near(a, b) < 0.75);
    expect(pairs.length).toBeGreaterThan(200);
    const tasks = pairs.flatMap(([a, b], i) => [
      { id: `a${i}`, text: a },
      { id: `b${i}`, text: b },
    ]);
    const found = similarTasks(tasks);
    const met = pairs.filter((_, i) => found.get(`a${i}`)!.cluster === found.get(`b${i}`)!.cluster).length;
    expect(met / pairs.length).toBeGreaterThan(meeting(0.7, bandsFor(0.7, SIMILAR_TASKS.hashes, 0.95)) - 0.03);
  });

  it('are the same clusters in any order of rows', () => {
    const pool = Array.from({ length: 40 }, (_, i) => ({
      id: `t${i}`,
      text: i % 9 === 0 ? null : variant(aText(Math.floor(i / 4), 15), i % 4, i).join(' '),
    }));
    const expected = similarTasks(pool);
    fc.assert(
      fc.property(fc.shuffledSubarray(pool, { minLength: pool.length }), (shuffled) => {
        expect(similarTasks(shuffled)).toEqual(expected);
      }),
      { numRuns: 20 },
    );
  });

  it('of any texts: each task has a cluster that is the smallest id of those in it, and equal texts share one', () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(
          fc.record({
            id: fc.string({ minLength: 1 }),
            text: fc.option(fc.string({ unit: anyCharacter, maxLength: 30 })),
          }),
          { selector: ({ id }) => id, maxLength: 12 },
        ),
        (tasks) => {
          const placed = similarTasks(tasks);
          expect(placed.size).toBe(tasks.length);
          for (const { id, text } of tasks) {
            const { cluster, reason } = placed.get(id)!;
            const members = tasks.filter((other) => placed.get(other.id)!.cluster === cluster).map((one) => one.id);
            expect(cluster).toBe(members.sort((a, b) => (a < b ? -1 : 1))[0]);
            if (reason !== null) expect(members).toEqual([id]);
            else for (const other of tasks) if (other.text === text) expect(members).toContain(other.id);
          }
        },
      ),
    );
  });

  it('refuse an id that is there twice, and parameters that mean nothing', () => {
    const twice = [
      { id: 'a', text: 'x' },
      { id: 'a', text: 'y' },
    ];
    expect(() => similarTasks(twice)).toThrow(/different ids, but it is "a"/);
    for (const wrong of [{ threshold: 0 }, { threshold: 1.1 }, { hashes: 0 }, { length: 1.5 }, { recall: 1 }]) {
      expect(() => similarTasks([], wrong)).toThrow(expect.objectContaining({ code: 'method_input' }));
    }
  });
});
