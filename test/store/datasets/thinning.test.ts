/** What a recipe takes away from the rows that meet its conditions: which rows are left, whatever the order of storage, and what the funnel says. */
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sha256 } from '../../../ingest/events/json.ts';
import { keepBodies } from '../../../ingest/log/postgres.ts';
import { contextOf } from '../../../ingest/log/split.ts';
import { farthestFirst } from '../../../store/datasets/farthest-first.ts';
import { freeze } from '../../../store/datasets/freeze.ts';
import { openDataset } from '../../../store/datasets/read.ts';
import { parseRecipe } from '../../../store/datasets/recipe.ts';
import type { Db } from '../../../store/db/pool.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { insert, seed } from './fixture.ts';

let folder: string;
let database: TestDatabase;
let places = 0;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'thinning-'));
  database = await freshDatabase();
  await seed(database.db);
});
afterAll(async () => {
  await database.close();
  await rm(folder, { recursive: true, force: true });
});

const freezeIn = (db: Db, recipe: object) =>
  freeze(
    db,
    { name: 'few', ...recipe },
    { directory: join(folder, `${places++}`), benchmarks: join(folder, 'benchmarks'), codeVersion: 'test' },
  );
const frozenIn = async (db: Db, recipe: object) => openDataset((await freezeIn(db, recipe)).directory);
const frozen = (recipe: object) => frozenIn(database.db, recipe);
const idsOf = (rows: Iterable<Readonly<Record<string, unknown>>>) =>
  [...rows].map(({ episode_id, step_id }) => (step_id === undefined ? episode_id : `${episode_id} ${step_id}`));
const counts = (rows: Iterable<Readonly<Record<string, unknown>>>, by: string): Record<string, number> => {
  const found: Record<string, number> = {};
  for (const row of rows) found[String(row[by])] = (found[String(row[by])] ?? 0) + 1;
  return found;
};

describe('a cap', () => {
  it('leaves at most so many rows of a task, and the funnel says how many went and names three', async () => {
    const { rows, manifest } = await frozen({ caps: [{ of: 'task', rows: 5 }] });
    expect(counts(rows(), 'task_id')).toEqual({ 'task-0': 5, 'task-1': 5, 'task-2': 5 });
    const stage = manifest.funnel.at(-1)!;
    expect(stage).toMatchObject({ name: 'at most 5 of a task, by chance', of: 'steps', before: 36, after: 15 });
    const kept = idsOf(rows());
    expect(stage.dropped).toHaveLength(3);
    expect(stage.dropped.filter((id) => kept.includes(id))).toEqual([]);
    expect(
      await readFile(join((await frozen({ caps: [{ of: 'task', rows: 5 }] })).directory, 'README.md'), 'utf8'),
    ).toContain('15 of 36 steps pass `at most 5 of a task, by chance`; dropped, for example: `');
  });

  it('chooses the same rows in whatever order they were stored, and others with another seed', async () => {
    const other = await freshDatabase();
    await seed(other.db, {}, (rows) => rows.reverse());
    const recipe = { caps: [{ of: 'task', rows: 4, seed: 7 }] };
    const odd = await frozen({ caps: [{ of: 'task', rows: 4, seed: '\u0000\ud800' }] });
    expect([...odd.rows()].length).toBe(odd.manifest.rows.train);
    const one = await frozen(recipe);
    expect((await frozenIn(other.db, recipe)).manifest.content_sha256).toBe(one.manifest.content_sha256);
    expect(idsOf((await frozen({ caps: [{ of: 'task', rows: 4, seed: 8 }] })).rows())).not.toEqual(idsOf(one.rows()));
    await other.close();
  });

  it('takes the rows that are worth most, by advantage, and keeps the order of rows', async () => {
    // The second candidate of each call is worth a quarter more: six of each task.
    const { rows } = await frozen({ credit: 'group_mean', caps: [{ of: 'task', rows: 6, take: 'best' }] });
    const kept = idsOf(rows());
    expect(kept).toEqual(idsOf((await frozen({ where: 'candidate = 1' })).rows()));
    expect(kept).toHaveLength(18);
  });

  it('takes the best by a score that a method gave, and by a number of the step', async () => {
    const scored = await freshDatabase();
    await seed(scored.db);
    await insert(scored.db, 'judged_methods', [
      { method_key: 'q#1', method: 'quality', version: 1, kind: 'score', params: {} },
    ]);
    const scores = [3, 1, 2, 9, 5, 4].map((value, i) => ({
      key: `e/ep-${Math.floor(i / 2)}-${i % 2}`,
      method_key: 'q#1',
      value,
    }));
    await insert(scored.db, 'scores', scores);
    const best = { of: 'task', rows: 1, take: 'best', by: 'score(quality)' };
    const { rows, manifest } = await frozenIn(scored.db, { unit: 'episode', caps: [best] });
    expect(idsOf(rows())).toEqual(['ep-0-0', 'ep-1-1', 'ep-2-0']);
    expect(manifest.funnel.at(-1)!.name).toBe('at most 1 of a task, the best by score(q#1)');
    expect(manifest.recipe.caps).toEqual([{ ...best, seed: '0' }]);
    const { rows: late } = await frozen({ caps: [{ of: 'all', rows: 6, take: 'best', by: 'seq' }] });
    // Two candidates of the last call, which has seq 20, of each of six episodes are twelve; six by chance.
    expect(idsOf(late()).every((id) => /call-2/.test(String(id)))).toBe(true);
    await scored.close();
  });

  it('refuses to go by what is no number, or by a field where nothing is taken by it', () => {
    const refused = (cap: object, why: RegExp) =>
      expect(() => parseRecipe({ name: 'x', caps: [{ of: 'task', rows: 1, ...cap }] })).toThrow(why);
    refused({ take: 'best', by: 'role' }, /caps\[0\]\.by: role is no number/);
    refused({ by: 'reward' }, /take: random goes by no field/);
    refused({ take: 'best', by: 'rewrd' }, /Did you mean reward/);
  });

  it('is applied after the conditions and before the next cap and the limit', async () => {
    const recipe = {
      where: 'role = critic',
      caps: [
        { of: 'task', rows: 3 },
        { of: 'role', rows: 7 },
      ],
      limit: 5,
    };
    const { rows, manifest } = await frozen(recipe);
    expect([...rows()].every(({ role }) => role === 'critic')).toBe(true);
    expect(manifest.funnel.slice(-4).map(({ name, before, after }) => [name, before, after])).toEqual([
      ["where role = 'critic'", 36, 12],
      ['at most 3 of a task, by chance', 12, 9],
      ['at most 7 of a role, by chance', 9, 7],
      ['limit 5', 7, 5],
    ]);
  });

  it('counts whole episodes where those are the rows, and leaves all their steps', async () => {
    const { rows, manifest } = await frozen({ unit: 'episode', caps: [{ of: 'task', rows: 1, take: 'best' }] });
    // Only the first episode of each task has a reward.
    expect(idsOf(rows())).toEqual(['ep-0-0', 'ep-1-0', 'ep-2-0']);
    expect([...rows()].map(({ steps }) => (steps as readonly unknown[]).length)).toEqual([6, 6, 6]);
    expect(manifest.funnel.at(-1)).toMatchObject({
      of: 'episodes',
      before: 6,
      after: 3,
      dropped: ['ep-0-1', 'ep-1-1', 'ep-2-1'],
    });
  });

  it('keeps groups together, numbered without gaps', async () => {
    const { rows } = await frozen({ unit: 'group', caps: [{ of: 'group', rows: 2 }] });
    expect([...rows()].map(({ group_index }) => group_index)).toEqual([0, 0, 1, 1, 2, 2]);
  });

  it('counts pairs where those are the rows', async () => {
    const recipe = { unit: 'pair', credit: 'group_mean' };
    expect(counts((await frozen(recipe)).rows(), 'task_id')).toEqual({ 'task-0': 2, 'task-1': 2, 'task-2': 2 });
    const { rows, manifest } = await frozen({ ...recipe, caps: [{ of: 'task', rows: 1 }] });
    expect(counts(rows(), 'task_id')).toEqual({ 'task-0': 1, 'task-1': 1, 'task-2': 1 });
    expect(manifest.funnel.at(-1)).toMatchObject({ of: 'pairs', before: 6, after: 3 });
    const parts = await frozen({ ...recipe, caps: [{ of: 'task', rows: 1 }], split: { held_out: 0.5, seed: 3 } });
    expect(parts.splits.flatMap((split) => idsOf(parts.rows(split))).sort()).toEqual(idsOf(rows()).sort());
  });

  it('gives the same rows where episodes are too many to be listed', async () => {
    const many = await freshDatabase();
    await many.db.query(`
      insert into facts.episodes (episode_id, task_id) select 'e' || n, 't' || n % 3 from generate_series(1, 21000) n;
      insert into facts.calls (episode_id, call_id) select 'e' || n, 'c' from generate_series(1, 21000) n;
      insert into facts.steps (episode_id, call_id, candidate, version) select 'e' || n, 'c', 0, '|v' from generate_series(1, 21000) n;`);
    const { rows } = await frozenIn(many.db, { caps: [{ of: 'task', rows: 6900 }], columns: ['task_id'] });
    expect(counts(rows(), 'task_id')).toEqual({ t0: 6900, t1: 6900, t2: 6900 });
    await many.close();
  });

  it('of a role is refused for whole episodes, and a recipe without caps stays what it was', () => {
    expect(() => parseRecipe({ name: 'x', unit: 'episode', caps: [{ of: 'role', rows: 1 }] })).toThrow(
      /caps\[0\] is of a role, but a row of unit episode has several/,
    );
    expect(() => parseRecipe({ name: 'x', caps: [{ of: 'tasks', rows: 1 }] })).toThrow(/caps/);
    expect(parseRecipe({ name: 'x', caps: [] })).not.toHaveProperty('caps');
    const written = { name: 'x', caps: [{ of: 'task', rows: 2 }] };
    expect(parseRecipe(parseRecipe(written))).toEqual(parseRecipe(written));
  });
});

/** Episodes of one agent without a task; each is a list of calls: what was asked last, and the answers. */
async function talks(
  db: Db,
  episodes: Readonly<Record<string, readonly (readonly [asked: string, ...answers: string[]])[]>>,
) {
  for (const [episode_id, calls] of Object.entries(episodes)) {
    await insert(db, 'episodes', [{ episode_id, started_version: '|s' }]);
    await insert(db, 'agents', [
      { episode_id, agent_id: 'a', role: 'solver', system_instructions: `You are agent ${episode_id}.`, version: '|a' },
    ]);
    const messages: object[] = [];
    for (const [i, [asked, ...answers]] of calls.entries()) {
      messages.push({ role: 'user', content: asked });
      const context = contextOf(`e/${episode_id}`, messages);
      await keepBodies(db, context.bodies);
      await insert(db, 'calls', [
        { episode_id, call_id: `c${i}`, completed_agent_id: 'a', requested_seq: i, context: context.hash },
      ]);
      await insert(
        db,
        'steps',
        answers.map((text, candidate) => ({ episode_id, call_id: `c${i}`, candidate, text, version: '|v' })),
      );
      messages.push({ role: 'assistant', content: answers[0] });
    }
  }
}

const FOX = 'The quick brown fox jumps over the lazy dog while the farmer sleeps in his chair by the fire.';
const SHIP = 'A ship left the harbour at dawn, and nobody on the shore could say where it was bound that day.';

describe('a cap that takes the least alike', () => {
  let alike: TestDatabase;
  beforeAll(async () => {
    alike = await freshDatabase();
    await talks(alike.db, {
      e1: [['Go on.', FOX]],
      e2: [['Go on.', `${FOX} Yes.`]],
      e3: [['Go on.', SHIP]],
      e4: [['Go on.', `${SHIP} No.`]],
      e5: [['Go on.', `${FOX} ${SHIP}`]],
      e6: [['', '']],
    });
  });
  afterAll(() => alike.close());
  const diverse = (rows: number) => ({ caps: [{ of: 'all', rows, take: 'diverse' }] });

  it('begins with the first row and takes what is farthest from all that were taken', async () => {
    const { rows, manifest } = await frozenIn(alike.db, diverse(3));
    // e3 shares least with e1; e5 shares half with each, where e2 and e4 repeat one of them.
    expect(idsOf(rows())).toEqual(['e1 c0/0', 'e3 c0/0', 'e5 c0/0']);
    const stage = manifest.funnel.at(-1)!;
    expect(stage).toMatchObject({ name: 'at most 3 in all, the least alike', of: 'steps', before: 6, after: 3 });
    expect(stage.dropped).toEqual(['e2 c0/0', 'e4 c0/0', 'e6 c0/0']);
  });

  it('takes rows without a text last, and says how many there are', async () => {
    const { manifest, warnings } = await freezeIn(alike.db, diverse(5));
    expect(manifest.funnel.at(-1)!.dropped).toEqual(['e6 c0/0']);
    expect(warnings).toEqual(['1 rows have no text, so at most 5 in all, the least alike takes them last.']);
    expect(idsOf((await frozenIn(alike.db, diverse(6))).rows())).toHaveLength(6);
  });

  it('counts by task, and whole episodes where those are the rows', async () => {
    const { rows } = await frozenIn(alike.db, { unit: 'episode', caps: [{ of: 'task', rows: 1, take: 'diverse' }] });
    // An episode without a task stands for itself.
    expect(idsOf(rows())).toHaveLength(6);
    expect(idsOf((await frozenIn(alike.db, { unit: 'episode', ...diverse(2) })).rows())).toEqual(['e1', 'e3']);
  });

  it('is refused where it would compare too much, and for pairs', async () => {
    const many = await freshDatabase();
    await many.db.query(`
      insert into facts.episodes (episode_id) select 'e' || n from generate_series(1, 40000) n;
      insert into facts.calls (episode_id, call_id) select 'e' || n, 'c' from generate_series(1, 40000) n;
      insert into facts.steps (episode_id, call_id, candidate, version) select 'e' || n, 'c', 0, '|v' from generate_series(1, 40000) n;`);
    await expect(freezeIn(many.db, diverse(30_000))).rejects.toMatchObject({
      code: 'recipe_invalid',
      message: expect.stringContaining('caps[0] would compare 1200000000 pairs'),
    });
    await many.close();
    expect(() => parseRecipe({ name: 'x', unit: 'pair', ...diverse(1) })).toThrow(/caps\[0\] counts pairs/);
  });
});

it('farthest first is what distances by hand say, also among equals', () => {
  // Signatures whose first n words differ from those of the first one: 0, 10, 40, 40 with the same words, and 64.
  const differing = [0, 10, 40, 40, 64];
  const words = new Int32Array(differing.length * 64);
  for (const [row, n] of differing.entries()) words.fill(row === 3 ? 2 : row, row * 64, row * 64 + n);
  const members = Int32Array.from(differing.keys());
  expect(farthestFirst(words, members, 2)).toEqual([0, 4]);
  expect(farthestFirst(words, members, 3)).toEqual([0, 4, 2]);
  expect(farthestFirst(words, members, 4)).toEqual([0, 4, 2, 1]);
  expect(farthestFirst(words, members, 9)).toEqual([0, 1, 2, 3, 4]);
});

describe('near-duplicates', () => {
  let few: TestDatabase;
  beforeAll(async () => {
    few = await freshDatabase();
    await talks(few.db, {
      e1: [['Tell me a story.', FOX]],
      e2: [['Tell me a story.', `${FOX}!`, SHIP]],
      e3: [
        ['Tell  me a STORY.', SHIP.replace('that day', 'that night')],
        ['And what do people in your village tell each other about it on long evenings in winter?', FOX],
      ],
      e4: [['Which number is the largest prime below one hundred, and why is that so?', FOX]],
    });
  });
  afterAll(() => few.close());

  it('go, and the first of them by the order of rows stays; the funnel says what each is like', async () => {
    const { rows, manifest } = await frozenIn(few.db, { near_duplicates: { threshold: 0.7 } });
    // The same answer to another question is no duplicate.
    expect(idsOf(rows())).toEqual(['e1 c0/0', 'e2 c0/1', 'e3 c1/0', 'e4 c0/0']);
    expect(manifest.funnel.at(-1)).toEqual({
      name: 'no text near an earlier one (0.7 of 5 characters in a row)',
      of: 'steps',
      before: 6,
      after: 4,
      dropped: ['e2 c0/0 (like e1 c0/0)', 'e3 c0/0 (like e2 c0/1)'],
    });
  });

  it('stay where they are less alike than the threshold', async () => {
    const { rows } = await frozenIn(few.db, { near_duplicates: { threshold: 0.95, characters: 100 } });
    expect(idsOf(rows())).toHaveLength(6);
  });

  it('are whole episodes where those are the rows', async () => {
    const { rows } = await frozenIn(few.db, { unit: 'episode', near_duplicates: { threshold: 0.9 } });
    expect(idsOf(rows())).toEqual(['e1', 'e2', 'e3', 'e4']);
  });

  it('go before answers are paired and before a cap counts', async () => {
    const { manifest } = await frozenIn(few.db, {
      near_duplicates: { threshold: 0.7 },
      caps: [{ of: 'task', rows: 1 }],
    });
    expect(manifest.funnel.slice(-2).map(({ after }) => after)).toEqual([4, 4]);
  });

  it('without a text are kept, and a warning says how many there are', async () => {
    const fresh = await freshDatabase();
    await talks(fresh.db, { e1: [['', '', '']] });
    const { manifest, warnings } = await freezeIn(fresh.db, { near_duplicates: { threshold: 0.7 } });
    expect(manifest.rows).toEqual({ train: 2 });
    expect(warnings).toEqual(['2 rows have no text, so they were not compared with others.']);
    await fresh.close();
  });
});

describe('decontamination', () => {
  const question = 'A train leaves the station at noon and travels forty miles in each hour until it stops at night.';
  const file = `${JSON.stringify({ id: 1, question, answer: '320' })}\nnot json at all but a line\n`;
  let talked: TestDatabase;
  beforeAll(async () => {
    await mkdir(join(folder, 'benchmarks'));
    await writeFile(join(folder, 'benchmarks/trains.jsonl'), file);
    talked = await freshDatabase();
    await talks(talked.db, {
      // Read in the first call, so also in the second; answered; in the agent's instructions; asked by the task; unlike.
      read: [
        [`Hello! ${question.toUpperCase()} Go on.`, 'Well.'],
        ['Now what?', 'This.'],
      ],
      wrote: [
        ['Give me an exercise.', `Here: ${question}`],
        ['Another?', 'No.'],
      ],
      to_agent: [['Go.', 'Gone.']],
      task: [['Go on.', 'Going.']],
      clean: [['A train leaves the station at noon and travels forty miles to the north.', 'Fine.']],
    });
    const { db } = talked;
    await db.query(`update facts.agents set system_instructions = $1 where episode_id = 'to_agent'`, [question]);
    await insert(db, 'tasks', [{ task_id: 't', query: question, version: '|t' }]);
    await db.query(`update facts.episodes set task_id = 't' where episode_id = 'task'`);
  });
  afterAll(() => talked.close());
  const decontaminate = { files: ['trains.jsonl'] };

  it('drops every row that has read or written thirteen words in a row of a file, and says which words', async () => {
    const { manifest, directory } = await freezeIn(talked.db, { decontaminate });
    expect(idsOf((await openDataset(directory)).rows())).toEqual(['clean c0/0']);
    const first = 'a train leaves the station at noon and travels forty miles in each';
    expect(manifest.funnel.at(-1)).toEqual({
      name: 'no 13 words in a row of trains.jsonl',
      of: 'steps',
      before: 7,
      after: 1,
      dropped: ['read c0/0', 'read c1/0', 'task c0/0'].map((id) => `${id} ("${first}" stands in trains.jsonl)`),
    });
  });

  it('says what in a file could not be compared or read', async () => {
    expect((await freezeIn(talked.db, { decontaminate })).warnings).toEqual([
      '2 texts of trains.jsonl have fewer than 8 words and are not compared.',
      '1 lines of trains.jsonl are not JSON and are compared as text.',
    ]);
  });

  it('pins the file in the manifest, so that another file makes another dataset', async () => {
    const { manifest } = await freezeIn(talked.db, { decontaminate });
    const files = [{ name: 'trains.jsonl', sha256: sha256(file) }];
    expect(manifest.recipe.decontaminate).toEqual({ files, words: 13 });
    const again = await freezeIn(talked.db, manifest.recipe);
    expect(again.manifest.dataset_id).toBe(manifest.dataset_id);
    await writeFile(join(folder, 'benchmarks/trains.jsonl'), `${file}"one two three four five six seven eight nine"\n`);
    expect((await freezeIn(talked.db, { decontaminate })).manifest.dataset_id).not.toBe(manifest.dataset_id);
    await expect(freezeIn(talked.db, manifest.recipe)).rejects.toMatchObject({
      code: 'recipe_invalid',
      message: expect.stringContaining('another file than the recipe pins'),
    });
    await writeFile(join(folder, 'benchmarks/trains.jsonl'), file);
  });

  it('compares the paragraphs of a text file, and signs of scripts without spaces one by one', async () => {
    const chinese = '一列火车中午离开车站每小时行驶四十英里';
    await writeFile(
      join(folder, 'benchmarks/page.txt'),
      `A train leaves the station\nat noon and travels forty miles\n\n${chinese}\n`,
    );
    const fresh = await freshDatabase();
    await talks(fresh.db, {
      one: [['a train leaves the station at noon and travels forty miles, then', 'x']],
      two: [[`题目：${chinese}。`, 'x']],
      three: [['at noon and travels forty miles', 'x']],
    });
    const { directory } = await freezeIn(fresh.db, { decontaminate: { files: ['page.txt'] } });
    expect(idsOf((await openDataset(directory)).rows())).toEqual(['three c0/0']);
    await fresh.close();
  });

  it('refuses a file that is not there, says where it looks, and takes no path', async () => {
    await expect(freezeIn(talked.db, { decontaminate: { files: ['none.jsonl'] } })).rejects.toMatchObject({
      code: 'recipe_invalid',
      message: expect.stringContaining(`Put it at ${join(folder, 'benchmarks', 'none.jsonl')}`),
    });
    for (const name of ['../secret', '/etc/passwd', '..'])
      expect(() => parseRecipe({ name: 'x', decontaminate: { files: [name] } })).toThrow(/decontaminate/);
    await writeFile(join(folder, 'benchmarks/short.txt'), 'Too short.');
    await expect(freezeIn(talked.db, { decontaminate: { files: ['short.txt'] } })).rejects.toThrow(
      /no text of 8 words/,
    );
  });
});
