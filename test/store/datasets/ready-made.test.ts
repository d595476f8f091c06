/** The recipes that come with Troupe for which no published log has rows: episodes are recorded and judged, and the rows counted by hand. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseMethods } from '../../../api/operations/judge/methods.ts';
import { freeze } from '../../../store/datasets/freeze.ts';
import { openDataset } from '../../../store/datasets/read.ts';
import { readyRecipe } from '../../../store/datasets/ready.ts';
import { readRecipe } from '../../../store/datasets/recipe.ts';
import { type JudgedDatabase, judgedDatabase } from '../judging/support/judged.ts';
import { MADE_TEAMS } from './made-teams.ts';

describe('a recipe without rows in published logs', () => {
  let folder: string;
  let base: JudgedDatabase;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'ready-made-'));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  /** Records the episodes, judges them as the recipe says, freezes it in two homes, and gives its rows in order. */
  async function rowsOf(name: string) {
    base = await judgedDatabase();
    try {
      await base.load(...MADE_TEAMS[name]!());
      const { text, judge } = readyRecipe(name);
      if (judge !== null) await base.run(parseMethods(judge));
      const frozenIn = (home: string) =>
        freeze(base.db, readRecipe(text), { directory: join(folder, name, home), codeVersion: 'test' });
      const [one, two] = [await frozenIn('one'), await frozenIn('two')];
      expect(two.manifest).toEqual(one.manifest);
      // So few tasks leave a part without any.
      expect(one.warnings.filter((warning) => !/ has no row: /.test(warning))).toEqual(
        name === 'before-mistake' ? ['2 of 2 answers are from episodes that failed.'] : [],
      );
      const opened = await openDataset(one.directory);
      return opened.splits.flatMap((split) => [...opened.rows(split)]);
    } finally {
      await base.close();
    }
  }
  const idsOf = (rows: readonly Readonly<Record<string, unknown>>[]) =>
    rows.map(({ episode_id, step_id }) => `${episode_id} ${step_id}`).sort();
  it('m500 takes whole traces that pass all four filters', async () => {
    const rows = await rowsOf('m500');
    expect(rows.map(({ episode_id }) => episode_id).sort()).toEqual(['again', 'kept']);
  });

  it('m1-32b takes the steps of those traces, all of a problem together', async () => {
    const rows = await rowsOf('m1-32b');
    expect(rows.map(({ episode_id, role }) => `${episode_id} ${role}`)).toEqual([
      'again critic',
      'again solver',
      'kept critic',
      'kept solver',
    ]);
  });

  it('browsemaster takes the programs of the executor that call tools without an error, of solved episodes', async () => {
    const rows = await rowsOf('browsemaster');
    expect(idsOf(rows)).toEqual(['solved c1/0']);
  });

  it('cure-coder takes programs with their reward, and leaves out those that all score the same', async () => {
    const rows = await rowsOf('cure-coder');
    // One of two programs passes the true test: 1 and 0 have the mean ½ and the deviation ½.
    expect(rows.map(({ step_id, reward }) => [step_id, reward])).toEqual([
      ['x-coder/0', 1],
      ['x-coder/1', -1],
    ]);
  });

  it('cure-tester takes tests with their reward', async () => {
    const rows = await rowsOf('cure-tester');
    // The right program passes the first test alone, the wrong one the second alone: signs + and −, both in full, as z-scores.
    expect(rows.map(({ step_id, reward }) => [step_id, reward])).toEqual([
      ['x-verifier/0', 1],
      ['x-verifier/1', -1],
    ]);
  });

  it('masprm takes the nodes of undecided trees with their targets', async () => {
    const rows = await rowsOf('masprm');
    // Three leaves under the root, right, wrong and right: q is ⅓ at the root; atanh q = ½ ln((1 + q) / (1 − q)), q held to ±0.95.
    const most = Math.log(39) / 2;
    const targets = Object.fromEntries(rows.map(({ step_id, advantage }) => [step_id, Number(advantage).toFixed(12)]));
    const wanted = { 'c0/0': Math.LN2 / 2, 'c1/0': most, 'c2/0': -most, 'c3/0': most };
    expect(targets).toEqual(Object.fromEntries(Object.entries(wanted).map(([id, value]) => [id, value.toFixed(12)])));
  });

  it('malt pairs each good verification and refinement with each bad one under the same answer', async () => {
    const rows = await rowsOf('malt');
    // Two of three refinements after the first verification are right, so it is worth 2/3; none after the second: 0.
    expect(rows.map(({ step_id, rejected_step_id }) => [step_id, rejected_step_id])).toEqual([
      ['c1/0', 'c2/0'],
      ['c3/0', 'c5/0'],
      ['c4/0', 'c5/0'],
    ]);
  });

  it('before-mistake takes the answers of a failed attempt before the one that is labelled', async () => {
    const rows = await rowsOf('before-mistake');
    expect(idsOf(rows)).toEqual(['mistaken c0/0', 'mistaken c1/0']);
  });

  it('star-agents takes the sample of the widest gap, where the referee prefers it', async () => {
    const rows = await rowsOf('star-agents');
    expect(idsOf(rows)).toEqual(['wide c0/0']);
  });

  it('apigen-mt takes the answers of runs that reach the true state and say what was asked', async () => {
    const rows = await rowsOf('apigen-mt');
    expect(idsOf(rows)).toEqual(['right c0/0', 'right c1/0']);
  });
});
