/** Datasets of pairs and of teams: which answers are paired, what a row holds, and what layouts make of it. */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { datasetDiff } from '../../../store/datasets/diff.ts';
import { exportDataset, layoutNamed } from '../../../store/datasets/export.ts';
import { freeze } from '../../../store/datasets/freeze.ts';
import { openDataset } from '../../../store/datasets/read.ts';
import { readyRecipe } from '../../../store/datasets/ready.ts';
import { readRecipe } from '../../../store/datasets/recipe.ts';
import type { Db } from '../../../store/db/pool.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { insert, rowsTold, seed } from './fixture.ts';

let folder: string;
let database: TestDatabase;
let places = 0;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'pairs-'));
  database = await freshDatabase();
  await seed(database.db);
});
afterAll(async () => {
  await database.close();
  await rm(folder, { recursive: true, force: true });
});

const freezeIn = (recipe: object, db: Db = database.db) =>
  freeze(
    db,
    { name: 'two', unit: 'pair', ...recipe },
    { directory: join(folder, `home-${places++}`), codeVersion: 'test' },
  );
const frozen = async (recipe: object, db?: Db) => openDataset((await freezeIn(recipe, db)).directory);
const idsOf = (rows: Iterable<Readonly<Record<string, unknown>>>) =>
  [...rows].map((row) => `${row.episode_id} ${row.step_id} > ${row.rejected_episode_id} ${row.rejected_step_id}`);

/** An episode of one task with the steps of a solver: `[call, candidate, text, parent, credit]`. */
async function tree(db: Db, steps: readonly (readonly [string, number, string, string | null, number | null])[]) {
  await insert(db, 'episodes', [{ episode_id: 'e', task_id: 't', started_version: '|s' }]);
  await insert(db, 'agents', [{ episode_id: 'e', agent_id: 'a', role: 'solver', version: '|a' }]);
  const calls = [...new Set(steps.map(([call]) => call))];
  await insert(
    db,
    'calls',
    calls.map((call_id, i) => ({
      episode_id: 'e',
      call_id,
      completed_agent_id: 'a',
      requested_seq: i,
      prompt_token_ids: [7],
    })),
  );
  await insert(
    db,
    'steps',
    steps.map(([call_id, candidate, text, parent_step_id]) => ({
      episode_id: 'e',
      call_id,
      candidate,
      text,
      parent_step_id,
      version: '|v',
    })),
  );
  await insert(db, 'judged_methods', [
    { method_key: 'm', method: 'malt_values', version: 1, kind: 'credit', params: {} },
  ]);
  await insert(
    db,
    'credits',
    steps.map(([call, candidate, , , value]) => ({
      episode_id: 'e',
      step_id: `${call}/${candidate}`,
      method_key: 'm',
      value,
      reason: null,
    })),
  );
}

describe('pairs of a group', () => {
  it('are the first best and the first worst answer of one role to the same messages', async () => {
    // Credits are the number of the task and a quarter for the second candidate; both episodes of a group ask the same.
    const dataset = await frozen({ credit: 'group_mean' });
    expect(idsOf(dataset.rows())).toEqual(
      [0, 1, 2].flatMap((t) => [`ep-${t}-0 call-0/1 > ep-${t}-0 call-0/0`, `ep-${t}-0 call-1/1 > ep-${t}-0 call-1/0`]),
    );
    const [row] = [...dataset.rows()];
    expect(row).toMatchObject({
      task_id: 'task-0',
      role: 'solver',
      chosen: [{ role: 'assistant', content: 'answer 0.0.0.1' }],
      rejected: [{ role: 'assistant', content: 'answer 0.0.0.0' }],
      chosen_value: 0.25,
      rejected_value: 0,
      margin: 0.25,
    });
    expect((row!.prompt as readonly { role: string }[]).map(({ role }) => role)).toEqual(['system', 'user']);
    expect(dataset.manifest.funnel.at(-1)).toMatchObject({ of: 'pairs', after: 6 });
  });

  it('take the reward of the episode where no credit is named, and make no pair where one is unknown', async () => {
    const fresh = await freshDatabase();
    await seed(fresh.db);
    await expect(freezeIn({}, fresh.db)).rejects.toMatchObject({ code: 'dataset_empty' });
    await fresh.db.query(`update facts.episodes set reward = 0.25 where episode_id like '%-1'`);
    const pairs = idsOf((await frozen({ roles: ['critic'] }, fresh.db)).rows());
    expect(pairs).toEqual([0, 1, 2].map((t) => `ep-${t}-0 call-1/0 > ep-${t}-1 call-1/0`));
    expect(idsOf((await frozen({ roles: ['critic'], pairs: { margin: 0.75 } }, fresh.db)).rows())).toEqual(pairs);
    await expect(freezeIn({ pairs: { margin: 0.76 } }, fresh.db)).rejects.toMatchObject({ code: 'dataset_empty' });
    await fresh.close();
  });

  it('say how many answers have no credit where none is made', async () => {
    const fresh = await freshDatabase();
    await seed(fresh.db);
    await fresh.db.query(`update facts.episodes set reward = null`);
    await fresh.db.query(
      `update facts.credits set value = null, reason = 'missing_reward' where episode_id <> 'ep-0-0'`,
    );
    const [known, pairs] = ['"an advantage or a reward is known"', '"the best and the worst answer'];
    await expect(freezeIn({ credit: 'group_mean', pairs: { margin: 9 } }, fresh.db)).rejects.toThrow(
      new RegExp(`${pairs}.+" leaves none of the pairs; before it ${known} took 30 of 36 steps`),
    );
    await fresh.db.query(`update facts.credits set value = null`);
    await expect(freezeIn({ credit: 'group_mean' }, fresh.db)).rejects.toThrow(`${known} leaves none of the 36 steps`);
    await fresh.close();
  });

  it('keep both answers in one part, and the parts together are all pairs', async () => {
    const whole = idsOf((await frozen({ credit: 'group_mean' })).rows());
    const parts = await frozen({ credit: 'group_mean', split: { held_out: 0.5, seed: 3 } });
    expect(parts.splits.flatMap((split) => idsOf(parts.rows(split))).sort()).toEqual([...whole].sort());
    expect(parts.frame('held_out').rows % 2).toBe(0);
    expect(parts.frame('held_out').rows).toBeGreaterThan(0);
  });

  it('are cut off by a limit over all parts, in the order of rows', async () => {
    const whole = idsOf((await frozen({ credit: 'group_mean' })).rows());
    expect(idsOf((await frozen({ credit: 'group_mean', limit: 3 })).rows())).toEqual(whole.slice(0, 3));
  });
});

describe('pairs of a tree', () => {
  it('stand under one parent, every answer above the threshold with every other; exactly the threshold is below it', async () => {
    const fresh = await freshDatabase();
    await tree(fresh.db, [
      ['g', 0, 'one', null, 0.9],
      ['g', 1, 'two', null, 0.5],
      ['v1', 0, 'yes', 'g/0', 1],
      ['v2', 0, 'no', 'g/0', 0.2],
      ['v3', 0, 'maybe', 'g/0', 0.6],
      ['v4', 0, 'never', 'g/1', 0],
      ['v5', 0, 'unknown', 'g/0', null],
    ]);
    const tree_ = { credit: 'malt_values', pairs: { from: 'tree', threshold: 0.5 } };
    const dataset = await frozen(tree_, fresh.db);
    expect(idsOf(dataset.rows())).toEqual(['e g/0 > e g/1', 'e v1/0 > e v2/0', 'e v3/0 > e v2/0']);
    await fresh.db.query(`update facts.agents set role = 'verifier'`);
    const { name, ...malt } = readRecipe(readyRecipe('malt').text);
    expect(name).toBe('malt');
    expect(idsOf((await frozen(malt, fresh.db)).rows())).toEqual(idsOf(dataset.rows()));
    const extremes = { credit: 'malt_values', pairs: { from: 'tree' } };
    expect(idsOf((await frozen(extremes, fresh.db)).rows())).toEqual(['e g/0 > e g/1', 'e v1/0 > e v2/0']);
    await fresh.close();
  });
});

describe('pairs from corrections', () => {
  it('prefer the right step to the wrong one that its agent gave before, and ask what the wrong one was asked', async () => {
    const fresh = await freshDatabase();
    await tree(fresh.db, [
      ['c1', 0, 'wrong', null, null],
      ['c2', 0, 'right', null, null],
      ['c3', 0, 'right again', null, null],
    ]);
    await fresh.db.query(`update facts.calls set prompt_token_ids = array[1, 2] where call_id = 'c1'`);
    await insert(
      fresh.db,
      'feedback',
      [0, 1, 1].map((value, i) => ({
        ...{ key: 'e/e', feedback_id: `f${i}`, episode_id: 'e', target_kind: 'step', target_id: `c${i + 1}/0` },
        ...{ kind: 'reward', name: 'correct', value, version: `|f${i}` },
      })),
    );
    const dataset = await frozen({ pairs: { from: 'corrections' } }, fresh.db);
    const rows = [...dataset.rows()];
    expect(idsOf(rows)).toEqual(['e c2/0 > e c1/0']);
    expect(Array.from(rows[0]!.prompt_token_ids as ArrayLike<number>)).toEqual([1, 2]);
    await fresh.close();
  });
});

describe('the trail of a pair', () => {
  it('names both steps in rows.jsonl.gz and in the event, the rejected one as a part of its own', async () => {
    const frozen = await freezeIn({ credit: 'group_mean', limit: 1 });
    const [line] = (await openDataset(frozen.directory)).lineage();
    expect(line).toMatchObject({ row: 0, episode_id: 'ep-0-0', step_id: 'call-0/1', with: [{ step_id: 'call-0/0' }] });
    expect(await rowsTold(frozen)).toEqual({
      train: [['ep-0-0', 'call-0', [1]]],
      'train.rejected': [['ep-0-0', 'call-0', [0]]],
    });
  });

  it('lets two datasets be compared by pair', async () => {
    const [all, three] = [await frozen({ credit: 'group_mean' }), await frozen({ credit: 'group_mean', limit: 3 })];
    expect(datasetDiff(all, three)).toMatchObject({ same: 3, added: [], changed: [] });
  });
});

describe('layouts of a dataset of pairs', () => {
  it('of preferences hold each pair as it was frozen, and of unpaired answers its two labels', async () => {
    const fresh = await freshDatabase();
    await tree(fresh.db, [
      ['g', 0, 'good', null, 1],
      ['g', 1, 'fair', null, 0.9],
      ['g', 2, 'bad', null, 0.1],
    ]);
    await fresh.db.query(`update facts.calls set context = (select '00000000-0000-0000-0000-000000000000'::uuid)`);
    const dataset = await frozen({ credit: 'malt_values', pairs: { from: 'tree', threshold: 0.5 } }, fresh.db);
    const out = join(folder, `out-${places++}`);
    await exportDataset(dataset, layoutNamed('openai-dpo'), out);
    const lines = (await readFile(join(out, 'train.jsonl'), 'utf8')).trim().split('\n');
    const contents = lines
      .map((line) => JSON.parse(line))
      .map(({ preferred_output, non_preferred_output }) => [
        preferred_output[0].content,
        non_preferred_output[0].content,
      ]);
    expect(contents).toEqual([
      ['good', 'bad'],
      ['fair', 'bad'],
    ]);
    const { manifest } = await exportDataset(dataset, layoutNamed('trl-unpaired'), join(folder, `out-${places++}`));
    expect(manifest.rows).toEqual({ 'train.parquet': 4 });
    await fresh.close();
  });

  it('that learn every answer refuse it by name, and say which do not', async () => {
    const dataset = await frozen({ credit: 'group_mean' });
    for (const name of [
      'trl-sft',
      'openai-sft',
      'llama-factory-sft',
      'axolotl',
      'verl-sft',
      'prime-rl-sft',
      'anthropic',
    ])
      await expect(exportDataset(dataset, layoutNamed(name), join(folder, 'never'))).rejects.toMatchObject({
        code: 'usage',
        message: expect.stringContaining('rejected answers'),
        detail: { expected: expect.stringContaining('trl-preference') },
      });
  });
});

describe('a dataset of teams', () => {
  it('has the query, the text in which a model wrote the team, and the definition of the team or its members', async () => {
    const fresh = await freshDatabase();
    await insert(fresh.db, 'tasks', [{ task_id: 't', query: '1+1?', version: '|t' }]);
    await insert(fresh.db, 'teams', [
      {
        team_id: 'known',
        name: 'Duo',
        agents: JSON.stringify([{ name: 'a' }]),
        edges: JSON.stringify([['a', 'b']]),
        version: '|d',
      },
    ]);
    const teams = { one: 'known', two: null, three: null };
    for (const [episode_id, team_id] of Object.entries(teams)) {
      await insert(fresh.db, 'episodes', [{ episode_id, task_id: 't', team_id, reward: 1, started_version: '|s' }]);
      await insert(fresh.db, 'calls', [{ episode_id, call_id: 'c' }]);
      await insert(fresh.db, 'steps', [{ episode_id, call_id: 'c', candidate: 0, text: 'a = Agent()', version: '|v' }]);
    }
    await insert(fresh.db, 'agents', [
      { episode_id: 'two', agent_id: 'solo', system_instructions: 'Add.', version: '|a' },
    ]);
    await insert(fresh.db, 'artifacts', [
      {
        key: 'e/three',
        artifact_id: 'x',
        episode_id: 'three',
        role: 'code',
        target: JSON.stringify({ kind: 'step', id: 'c/0' }),
        version: '|f',
      },
    ]);
    const dataset = await frozen({ unit: 'triplet' }, fresh.db);
    const rows = [...dataset.rows()];
    expect(
      rows.map(({ episode_id, query, written, team }) => [
        episode_id,
        query,
        written,
        team && JSON.parse(String(team)),
      ]),
    ).toEqual([
      ['one', '1+1?', null, { name: 'Duo', agents: [{ name: 'a' }], edges: [['a', 'b']] }],
      ['three', '1+1?', 'a = Agent()', null],
      ['two', '1+1?', null, { agents: [{ agent_id: 'solo', prompt: 'Add.' }] }],
    ]);
    const out = join(folder, `out-${places++}`);
    const { manifest } = await exportDataset(dataset, layoutNamed('openai-sft'), out);
    expect(manifest.left_out).toEqual([]);
    const lines = (await readFile(join(out, 'train.jsonl'), 'utf8'))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(lines[1]).toEqual({
      messages: [
        { role: 'user', content: '1+1?' },
        { role: 'assistant', content: 'a = Agent()' },
      ],
    });
    await fresh.close();
  });
});

it('a recipe names pairs for unit pair alone, and no margin between right and wrong', async () => {
  await expect(freezeIn({ unit: 'step', pairs: {} })).rejects.toMatchObject({
    code: 'recipe_invalid',
    detail: { field: 'pairs' },
  });
  await expect(freezeIn({ pairs: { from: 'corrections', margin: 1 } })).rejects.toMatchObject({
    code: 'recipe_invalid',
  });
});
