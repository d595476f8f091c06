import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { initialWeights, withScoreHead } from '../../trainer/model/parameters.ts';
import {
  alonePass,
  ifdPass,
  maskedPass,
  type PassRow,
  passDraft,
  passId,
  readable,
  recordPass,
  referencePass,
  runPass,
  type TokenStep,
  unrecorded,
  valuePass,
  valuesPass,
} from '../../trainer/sample/passes.ts';
import { Policy } from '../../trainer/sample/policy.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { tinyConfig } from './tiny-checkpoint.ts';

const END = 1;
const step = (id: string, more: Partial<TokenStep> = {}): TokenStep => ({
  episode_id: 'e',
  step_id: `${id}/0`,
  call_id: id,
  prompt_token_ids: [2, 3, 4],
  token_ids: [5, 6, END],
  onward: true,
  ...more,
});
const row = (more: Partial<PassRow> = {}): PassRow => ({
  episodeId: 'e',
  stepId: 'a/0',
  without: null,
  promptIds: [2, 3, 4],
  tokenIds: [5, 6, END],
  ...more,
});

describe('The sequences of a pass', () => {
  it('are the sampled tokens after their own prompt, or after its first token alone', () => {
    expect(referencePass.rows([step('a')])).toEqual({ rows: [row()], refused: [] });
    expect(valuesPass.rows([step('a')])).toEqual({ rows: [row()], refused: [] });
    expect(alonePass.rows([step('a')])).toEqual({ rows: [row({ promptIds: [2] })], refused: [] });
  });

  it('of a whole step end with its prompt, as a critic reads it, or with its answer, as a process reward model does', () => {
    // The one token after it is never read: a value is that of what comes before a token.
    expect(valuePass('state').rows([step('a')]).rows).toEqual([row({ promptIds: [2, 3, 4], tokenIds: [2] })]);
    expect(valuePass('answer').rows([step('a')]).rows).toEqual([
      row({ promptIds: [2, 3, 4, 5, 6, END], tokenIds: [2] }),
    ]);
  });

  it.each([
    [{ token_ids: null }, 'no_token_ids'],
    [{ token_ids: [] }, 'no_tokens'],
    [{ prompt_token_ids: null }, 'no_prompt_token_ids'],
    [{ prompt_token_ids: [] }, 'no_prompt_token_ids'],
  ])('are not made of a step with %j: it is refused with a reason, and the others are kept', (more, reason) => {
    for (const pass of [referencePass, alonePass, valuesPass]) {
      const { rows, refused } = pass.rows([step('a', more), step('b')]);
      expect(rows.map(({ stepId }) => stepId)).toEqual(['b/0']);
      expect(refused).toEqual([{ episode_id: 'e', step_id: 'a/0', reason }]);
    }
  });

  it('of a masked pass are those of the next step whose prompt has the step, without the step in its prompt', () => {
    const next = step('b', { prompt_token_ids: [2, 3, 4, 5, 6, END, 7, 3], token_ids: [8] });
    const { rows, refused } = maskedPass.rows([step('a'), next]);
    expect(rows).toEqual([row({ stepId: 'b/0', without: 'a/0', promptIds: [2, 3, 4, 7, 3], tokenIds: [8] })]);
    // Nothing follows the last step, so there is nothing to ask about it.
    expect(refused).toEqual([]);
  });

  it('find a step whose end the template wrote anew, at its last place, and in the prompt of a later step', () => {
    const other = step('b', { prompt_token_ids: [2, 9], token_ids: [10] });
    const unchosen = step('c', { step_id: 'c/1', onward: false, prompt_token_ids: [2, 5, 6], token_ids: [9] });
    const next = step('d', { prompt_token_ids: [5, 6, 2, 5, 6, 0, 10, 3], token_ids: [8] });
    const { rows, refused } = maskedPass.rows([step('a'), other, unchosen, next]);
    expect(rows.map(({ stepId, without, promptIds }) => [stepId, without, promptIds])).toEqual([
      ['d/0', 'a/0', [5, 6, 2, 0, 10, 3]],
      ['d/0', 'b/0', [5, 6, 2, 5, 6, 0, 3]],
    ]);
    expect(refused).toEqual([{ episode_id: 'e', step_id: 'c/1', reason: 'not_in_a_later_prompt' }]);
  });

  it('of a difficulty are the last answer that the episode went on from', () => {
    const unchosen = step('c', { onward: false });
    expect(ifdPass('small').rows([step('a'), step('b'), unchosen]).rows).toEqual([row({ stepId: 'b/0' })]);
    expect(ifdPass('small').rows([])).toEqual({ rows: [], refused: [] });
  });

  it('are refused where the model cannot read them', () => {
    const long = row({ stepId: 'long/0', promptIds: Array.from({ length: 32 }, () => 3) });
    const foreign = row({ stepId: 'foreign/0', tokenIds: [13] });
    const { rows, refused } = readable([row(), long, foreign], tinyConfig);
    expect(rows).toEqual([row()]);
    expect(refused.map(({ step_id, reason }) => [step_id, reason])).toEqual([
      ['long/0', 'too_long'],
      ['foreign/0', 'other_vocabulary'],
    ]);
  });
});

describe('What a model says in a pass', () => {
  const weights = initialWeights(tinyConfig, 7);
  const valued = withScoreHead(tinyConfig, weights, 'value', { seed: 3 });
  let speaks: Policy;
  let judges: Policy;
  beforeAll(async () => {
    speaks = await Policy.load(tinyConfig, weights);
    judges = await Policy.load(valued.config, valued.weights);
  });
  afterAll(async () => {
    await speaks.close();
    await judges.close();
  });

  it('is one number for each token, those of a prompt that differs only where the pass says so', async () => {
    const next = step('b', { prompt_token_ids: [2, 3, 5, 6, END, 7], token_ids: [8, 9] });
    const [plain] = await runPass(referencePass, referencePass.rows([next]).rows, speaks);
    const [masked] = await runPass(maskedPass, maskedPass.rows([step('a'), next]).rows, speaks);
    const expected = await speaks.logprobs([
      { promptIds: [2, 3, 5, 6, END, 7], tokenIds: [8, 9] },
      { promptIds: [2, 3, 7], tokenIds: [8, 9] },
    ]);
    for (const [i, perToken] of [plain!, masked!].entries())
      for (const [t, number] of perToken.entries()) expect(number).toBeCloseTo(expected[i]![t]!, 5);
    expect(plain).not.toEqual(masked);
    const [values] = await runPass(valuesPass, [row()], judges);
    expect(values).toHaveLength(3);
    expect(new Set(values).size).toBe(3);
  });

  it('of a difficulty is the perplexity of the answer given its prompt over that of the answer alone', async () => {
    const [[number]] = (await runPass(ifdPass('large'), [row()], speaks)) as [[number]];
    const perplexity = async (promptIds: number[]) => {
      const [logprobs] = await speaks.logprobs([{ promptIds, tokenIds: [5, 6, END] }]);
      return Math.exp(-logprobs!.reduce((sum, one) => sum + one, 0) / 3);
    };
    expect(number).toBeCloseTo((await perplexity([2, 3, 4])) / (await perplexity([2])), 4);
  });

  it('runs only on a model with that output', async () => {
    await expect(runPass(valuesPass, [row()], speaks)).rejects.toMatchObject({ code: 'model_unsupported' });
    await expect(runPass(referencePass, [row()], judges)).rejects.toMatchObject({ code: 'model_unsupported' });
  });
});

describe('A recorded pass', () => {
  const origin = { checkpoint: 'c-1', time: '2026-10-01T00:00:00.000Z' };
  let database: TestDatabase;
  beforeAll(async () => {
    database = await freshDatabase();
  });
  afterAll(() => database.close());

  it('has one id for one model over the same tokens, and another for anything else', () => {
    const ids = [
      passId(referencePass, row(), 'c-1'),
      passId(valuesPass, row(), 'c-1'),
      passId(referencePass, row(), 'c-2'),
      passId(referencePass, row({ tokenIds: [5, 6] }), 'c-1'),
      passId(referencePass, row({ promptIds: [2, 3] }), 'c-1'),
      passId(referencePass, row({ without: 'b/0' }), 'c-1'),
      passId(referencePass, row({ episodeId: 'f' }), 'c-1'),
    ];
    expect(new Set(ids).size).toBe(ids.length);
    expect(passId(referencePass, row(), 'c-1')).toBe(ids[0]);
  });

  it('says a 32-bit float so that it is read back exactly', () => {
    const numbers = [-1e-8, -0.1, -123.456, -1 / 3, 0].map(Math.fround);
    const { value } = passDraft(referencePass, row({ tokenIds: numbers.map(() => 3) }), numbers, origin).data;
    expect((value as number[]).map(Math.fround)).toEqual(numbers);
  });

  it('of a whole step is one number, under the name that methods read', () => {
    expect(passDraft(valuePass('state'), row(), [0.25], origin).data).toMatchObject({ name: 'value', value: 0.25 });
    expect(passDraft(valuesPass, row(), [0.25, 1, 2], origin).data).toMatchObject({
      name: 'token_values',
      value: [0.25, 1, 2],
    });
  });

  it('of a difficulty is about the episode, under the name of the model that it is by', () => {
    expect(passDraft(ifdPass('large'), row(), [0.5], origin).data).toMatchObject({
      target: { kind: 'episode', id: 'e' },
      name: 'ifd_large',
      value: 0.5,
    });
    // One model may stand for both.
    expect(passId(ifdPass('large'), row(), 'c-1')).not.toBe(passId(ifdPass('small'), row(), 'c-1'));
  });

  it('is not recorded twice, whatever the time, and not even by two at once', async () => {
    const log = postgresLog(database.db);
    const rows = [row(), row({ stepId: 'b/0' })];
    const numbers = [
      [-1, -2, -3],
      [-4, -5, -6],
    ];
    expect(await recordPass(log, referencePass, rows.slice(0, 1), numbers, origin)).toBe(1);
    expect(await unrecorded(database.db, referencePass, rows, 'c-1')).toEqual(rows.slice(1));
    expect(await unrecorded(database.db, referencePass, rows, 'c-2')).toEqual(rows);
    // As one who looked before the other had written: the first stays, the rest is kept.
    const later = { ...origin, time: '2026-10-02T00:00:00.000Z' };
    expect(await recordPass(log, referencePass, rows, numbers, later)).toBe(1);
    expect(await unrecorded(database.db, referencePass, rows, 'c-1')).toEqual([]);
    const { rows: events } = await database.db.query<{ time: Date }>(
      'select time from troupe.events where key = $1 order by position',
      ['e/e'],
    );
    expect(events).toHaveLength(2);
  });
});
