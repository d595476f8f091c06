/** Half an answer is not taught as a whole one: which answers those are, who gets them nevertheless, and what a row says of them. */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readArrow } from '../../../store/datasets/arrow.ts';
import { exportDataset, layoutNamed } from '../../../store/datasets/export.ts';
import { freeze } from '../../../store/datasets/freeze.ts';
import { arrowIn } from '../../../store/datasets/parquet.ts';
import { openDataset } from '../../../store/datasets/read.ts';
import { parseRecipe } from '../../../store/datasets/recipe.ts';
import { CUT_REASONS } from '../../../store/filter/filter-fields.ts';
import { type JudgedDatabase, judgedDatabase } from '../judging/support/judged.ts';
import { at, event } from '../support/events.ts';

const WHOLE = ['stop', 'tool_calls', 'tool_call', 'end_turn', 'stop_sequence', 'STOP', 'completed', null];
/** As an API writes them that has capitals or hyphens. */
const SPELT = ['MAX_TOKENS', 'content-filter', 'SAFETY', 'Length'];
const FUNNEL = 'not cut off (length, content filter, error, incomplete)';

describe('an answer that was cut off', () => {
  let base: JudgedDatabase;
  let folder: string;
  const reasons = [...WHOLE, ...CUT_REASONS, ...SPELT];
  const call = (id: string, finish_reason: string | null, more: object = {}) => {
    const choice = { index: 0, content: `said ${id}`, finish_reason, token_ids: [7, 8], logprobs: [-1, -1] };
    return [
      event('generation.requested', {
        episode_id: 'e',
        call_id: id,
        agent_id: 'writer',
        input: [{ role: 'user', content: `ask ${id}` }],
      }),
      event('generation.completed', {
        episode_id: 'e',
        call_id: id,
        prompt_token_ids: [1],
        choices: [choice],
        ...more,
      }),
    ];
  };
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'cut-'));
    base = await judgedDatabase();
    await base.load([
      event('episode.started', { episode_id: 'e', group_id: 'g' }, { time: at(0) }),
      ...reasons.flatMap((reason, i) => call(`c${String(i).padStart(2, '0')}`, reason)),
      // A stream that ended early: nobody said why, and what recorded it flagged it.
      ...call('flagged', null, { flags: ['incomplete'] }),
      ...call('odd', null, { flags: ['agent_mismatch'] }),
      event('episode.finished', { episode_id: 'e', outcome: 'success' }, { time: at(20) }),
    ]);
  });
  afterAll(async () => {
    await base.close();
    await rm(folder, { recursive: true, force: true });
  });
  let homes = 0;
  const frozen = async (recipe: object) => {
    const options = { directory: join(folder, `home-${homes++}`), codeVersion: 'test' };
    return openDataset((await freeze(base.db, { name: 'cut', ...recipe }, options)).directory);
  };

  it('is no row, however its API names the reason, and the funnel counts it by itself', async () => {
    const dataset = await frozen({});
    const rows = [...dataset.rows()];
    expect(rows.map(({ call_id }) => call_id)).toEqual([...WHOLE.map((_, i) => `c0${i}`), 'odd']);
    expect(rows.every(({ cut }) => cut === false)).toBe(true);
    const stage = dataset.manifest.funnel.find(({ name }) => name === FUNNEL)!;
    expect([stage.before, stage.after]).toEqual([reasons.length + 2, WHOLE.length + 1]);
  });

  it('is a row that says so where the recipe asks for it', async () => {
    const dataset = await frozen({ cut_answers: true });
    const rows = [...dataset.rows()];
    expect(rows).toHaveLength(reasons.length + 2);
    const whole = rows.filter(({ cut }) => cut === false).map(({ call_id }) => call_id);
    expect(whole).toEqual([...WHOLE.map((_, i) => `c0${i}`), 'odd']);
    expect(dataset.manifest.funnel.some(({ name }) => name === FUNNEL)).toBe(false);
  });

  it('is a row of those who learn from advantages, and no half of a pair, unless the recipe says otherwise', () => {
    const asked = (recipe: object) => parseRecipe({ name: 'x', ...recipe }).cut_answers;
    expect(asked({ unit: 'group', credit: 'grpo_advantage' })).toBe(true);
    expect(asked({ unit: 'group', credit: 'grpo_advantage', cut_answers: false })).toBe(false);
    expect(asked({ unit: 'pair', credit: 'malt_values' })).toBe(false);
    expect(asked({ unit: 'pair', cut_answers: true })).toBe(true);
    expect(asked({ unit: 'episode' })).toBe(false);
  });

  it('is marked inside a whole episode and inside a branch, too', async () => {
    const where = 'call_id in (c00, flagged)';
    const [episode] = [...(await frozen({ unit: 'episode', where, cut_answers: true })).rows()];
    const cutOf = (steps: unknown) => (steps as { step_id: string; cut: boolean }[]).map((s) => [s.step_id, s.cut]);
    const expected = [
      ['c00/0', false],
      ['flagged/0', true],
    ];
    expect(cutOf(episode!.steps)).toEqual(expected);
    const branches = [...(await frozen({ unit: 'branch', where, cut_answers: true })).rows()];
    expect(branches.flatMap(({ answers }) => cutOf(answers))).toEqual(expected);
  });

  it('is found by a filter, of steps and of whole episodes', async () => {
    const rows = [...(await frozen({ where: 'cut', cut_answers: true })).rows()];
    expect(rows).toHaveLength(CUT_REASONS.length + SPELT.length + 1);
    const none = frozen({ where: 'count(steps where cut) = 0' });
    await expect(none).rejects.toThrow('cut would have no row');
  });

  it('is left out by a layout whose trainer would learn its end, and kept by those that say what was sampled', async () => {
    const dataset = await frozen({ where: 'call_id in (c00, flagged)', cut_answers: true });
    const exported = async (layout: string) => {
      const out = join(folder, `out-${homes++}`);
      const { manifest } = await exportDataset(dataset, layoutNamed(layout), out);
      return { rows: Object.values(manifest.rows)[0], left: manifest.left_out, out };
    };
    const left = [{ what: 'the answer was cut off, and its end would be learnt', count: 1 }];
    for (const layout of ['trl-sft', 'openai-sft', 'axolotl', 'verl-sft', 'prime-rl-sft', 'llama-factory-sft'])
      expect(await exported(layout)).toMatchObject({ rows: 1, left });
    expect(await exported('trl-tokens')).toMatchObject({ rows: 2, left: [] });
    const { out, ...all } = await exported('everything');
    expect(all).toEqual({ rows: 2, left: [] });
    expect(readArrow(arrowIn(await readFile(join(out, 'train.parquet')))).column('cut')).toEqual([false, true]);
  });
});
