import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freeze } from '../../../store/datasets/freeze.ts';
import { UNTRAINABLE } from '../../../store/filter/filter-fields.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { insert } from '../datasets/fixture.ts';

const TOKENS = { token_ids: '{1,2}', logprobs: '{-0.5,-1}' };
const PROMPT = { prompt_token_ids: '{7}' };
const WEIGHTS = { checkpoint_id: 'c-1' };

/** What is recorded of a call and of its candidate, and the reason. */
const CASES: readonly [call: object, step: object, reason: string | null][] = [
  [{ ...PROMPT, ...WEIGHTS }, TOKENS, null],
  [{ ...PROMPT, model_version: 'v7', params: { temperature: 1, tool_choice: 'auto' } }, TOKENS, null],
  [{ ...PROMPT, ...WEIGHTS, params: { response_format: { type: 'text' } } }, TOKENS, null],
  [{ ...PROMPT, ...WEIGHTS, copied: true }, TOKENS, 'copied'],
  [{ ...PROMPT, ...WEIGHTS, error: '{"code":"interrupted"}' }, TOKENS, 'call_failed'],
  [{ ...PROMPT, ...WEIGHTS }, {}, 'no_token_ids'],
  [{ ...PROMPT, ...WEIGHTS }, { token_ids: '{}', logprobs: '{}' }, 'no_tokens'],
  [WEIGHTS, TOKENS, 'no_prompt_token_ids'],
  [{ ...PROMPT, ...WEIGHTS }, { token_ids: '{1,2}' }, 'no_logprobs'],
  [{ ...PROMPT, ...WEIGHTS }, { token_ids: '{1,2}', logprobs: '{-0.5}' }, 'no_logprobs'],
  [PROMPT, TOKENS, 'unknown_weights'],
  [{ ...PROMPT, ...WEIGHTS, params: { response_format: { type: 'json_schema' } } }, TOKENS, 'constrained'],
  [{ ...PROMPT, ...WEIGHTS, params: { text: { format: { type: 'json_schema' } } } }, TOKENS, 'constrained'],
  [{ ...PROMPT, ...WEIGHTS, params: { tool_choice: 'required' } }, TOKENS, 'constrained'],
  [{ ...PROMPT, ...WEIGHTS, params: { tool_choice: { type: 'tool', name: 'x' } } }, TOKENS, 'constrained'],
  [{ ...PROMPT, ...WEIGHTS, params: { tool_choice: { type: 'auto' } } }, TOKENS, null],
  [{ ...PROMPT, ...WEIGHTS, params: { guided_json: {} } }, TOKENS, 'constrained'],
  [{ ...PROMPT, ...WEIGHTS, params: { temperature: 0 } }, TOKENS, 'greedy'],
  [{ ...PROMPT, ...WEIGHTS, params: { temperature: 1, top_p: 0.95 } }, TOKENS, 'truncated'],
  [{ ...PROMPT, ...WEIGHTS, params: { top_k: 20 } }, TOKENS, 'truncated'],
  [{ ...PROMPT, ...WEIGHTS, params: { min_p: 0.05 } }, TOKENS, 'truncated'],
  [{ ...PROMPT, ...WEIGHTS, params: { temperature: 0.7, top_p: 1, top_k: -1, min_p: 0 } }, TOKENS, null],
  [{ ...PROMPT, ...WEIGHTS, params: { temperature: '0', top_p: null, top_k: {} } }, TOKENS, null],
  [{ ...PROMPT, ...WEIGHTS, completed_flags: '["incomplete"]' }, TOKENS, 'incomplete'],
  [{ ...PROMPT, ...WEIGHTS, completed_flags: '["lost_token_ids"]' }, {}, 'lost_token_ids'],
];

let database: TestDatabase;
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainable-'));
  database = await freshDatabase();
  await insert(database.db, 'episodes', [{ episode_id: 'e', closed: true }]);
  for (const [i, [call, step]] of CASES.entries()) {
    const key = { episode_id: 'e', call_id: `c-${String(i).padStart(2, '0')}` };
    await insert(database.db, 'calls', [{ ...key, ...call }]);
    await insert(database.db, 'steps', [{ ...key, candidate: 0, text: 'x', version: '|v', ...step }]);
  }
});
afterAll(async () => {
  await database.close();
  await rm(folder, { recursive: true, force: true });
});

describe('whether a step can be trained on as it was sampled', () => {
  it('Complaint 7: is a column, with the reason beside it: nothing is tokenised again to make it so', async () => {
    const { rows } = await database.db.query('select trainable, untrainable from traj.steps order by call_id');
    expect(rows).toEqual(CASES.map(([, , reason]) => ({ trainable: reason === null, untrainable: reason })));
    expect(new Set(CASES.map(([, , reason]) => reason))).toEqual(new Set([null, ...UNTRAINABLE]));
  });

  it('is a condition of recipes, whose funnel counts each reason', async () => {
    const recipe = { name: 'rl', where: 'trainable = true' };
    const { manifest } = await freeze(database.db, recipe, { directory: join(folder, 'a'), codeVersion: 'test' });
    const counted = manifest.funnel.flatMap(({ name, before, after, dropped }) =>
      name.startsWith('where trainable') ? [[name.split('not ')[1], before! - after, dropped[0] ?? null]] : [],
    );
    // Copied steps, those of calls that failed, and half answers are in no dataset that does not ask: the stages before count them.
    expect(counted).toEqual([
      ['copied', 0, null],
      ['call_failed', 0, null],
      ['incomplete', 0, null],
      ['lost_token_ids', 1, 'e c-24/0'],
      ['no_token_ids', 1, 'e c-05/0'],
      ['no_tokens', 1, 'e c-06/0'],
      ['no_prompt_token_ids', 1, 'e c-07/0'],
      ['no_logprobs', 2, 'e c-08/0'],
      ['unknown_weights', 1, 'e c-10/0'],
      ['constrained', 5, 'e c-11/0'],
      ['greedy', 1, 'e c-17/0'],
      ['truncated', 3, 'e c-18/0'],
    ]);
    expect(manifest.funnel.at(-1)!.after).toBe(6);
  });

  it('leaves steps of calls that failed out of any dataset: what came before a stream broke off is no answer to learn', async () => {
    const recipe = { name: 'all' };
    const { manifest } = await freeze(database.db, recipe, { directory: join(folder, 'c'), codeVersion: 'test' });
    expect(manifest.funnel.find(({ name }) => name === 'not of a call that failed')!.dropped).toEqual(['e c-04/0']);
  });

  it('can be asked for by its reason, and counted over an episode', async () => {
    const recipe = { name: 'no', where: 'untrainable = no_logprobs and count(steps where trainable = true) = 6' };
    const { manifest } = await freeze(database.db, recipe, { directory: join(folder, 'b'), codeVersion: 'test' });
    expect(manifest.funnel.at(-1)!.after).toBe(2);
  });
});
