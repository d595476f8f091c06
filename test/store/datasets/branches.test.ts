/** Branches of message graphs: which answers continue which, and what a row of a dataset of branches holds. */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Event } from '../../../ingest/events/events.ts';
import { postgresLog } from '../../../ingest/log/postgres.ts';
import { readArrow } from '../../../store/datasets/arrow.ts';
import { type BranchPlace, branchesOf, type GraphAnswer, type GraphMessage } from '../../../store/datasets/branches.ts';
import { exportDataset, layoutNamed } from '../../../store/datasets/export.ts';
import { freeze } from '../../../store/datasets/freeze.ts';
import { arrowIn } from '../../../store/datasets/parquet.ts';
import { openDataset } from '../../../store/datasets/read.ts';
import { projectAll } from '../../../store/projecting/projector.ts';
import { type BranchRow, branchRow } from '../../../trainer/learn/data/branch-rows.ts';
import type { RowModel } from '../../../trainer/learn/data/training-files.ts';
import { chatTemplate } from '../../../trainer/model/tokens/template.ts';
import { openTokenizer, wordTokenizer } from '../../../trainer/model/tokens/tokenizer.ts';
import { type JudgedDatabase, judgedDatabase } from '../judging/support/judged.ts';
import { at, event } from '../support/events.ts';

/** Messages of a conversation, each named by all up to it. */
const talk = (...keys: readonly string[]): GraphMessage[] =>
  keys.map((key, i) => ({
    hash: keys.slice(0, i + 1).join('/'),
    previous: i === 0 ? null : keys.slice(0, i).join('/'),
    key,
  }));
const answer = (context: string | null, key: string | null, more: Partial<GraphAnswer> = {}): GraphAnswer => ({
  author: 'solver',
  context,
  key,
  tokens: null,
  ...more,
});
const shown = (places: readonly BranchPlace[]) =>
  places.map(({ branch, last, messages }) => `${branch}${last ? ' last' : ''} after ${messages}`);

describe('branches of an episode', () => {
  it('a conversation that only grows is one branch', () => {
    const messages = talk('system', 'ask', 'one', 'more', 'two', 'again');
    const answers = [
      answer('system/ask', 'one'),
      answer('system/ask/one/more', 'two'),
      answer('system/ask/one/more/two/again', 'three'),
    ];
    expect(shown(branchesOf(messages, answers))).toEqual(['0 after 2', '0 after 4', '0 last after 6']);
  });

  it('a context that was compacted begins a branch of its own, and so does another agent that read the same', () => {
    const messages = [...talk('ask', 'one', 'more'), ...talk('summary', 'go on')];
    const answers = [
      answer('ask', 'one'),
      answer('ask/one/more', 'two'),
      answer('summary/go on', 'three'),
      answer('ask/one/more', 'checked', { author: 'critic' }),
    ];
    expect(shown(branchesOf(messages, answers))).toEqual([
      '0 after 1',
      '0 last after 3',
      '1 last after 2',
      '2 last after 3',
    ]);
  });

  it('an answer that two samples continue is learnt in the first branch alone', () => {
    const messages = [...talk('ask', 'one', 'left'), ...talk('ask', 'one', 'right')];
    const answers = [answer('ask', 'one'), answer('ask/one/left', 'two'), answer('ask/one/right', 'three')];
    expect(shown(branchesOf(messages, answers))).toEqual(['0 after 1', '0 last after 3', '1 last after 3']);
    const candidates = [answer('ask', 'one'), answer('ask', 'other'), answer('ask/one/left', 'two')];
    expect(shown(branchesOf(messages, candidates))).toEqual(['1 after 1', '0 last after 1', '1 last after 3']);
  });

  it('a history that was tokenised anew is another branch, and so is one whose tokens are known on one side alone', () => {
    const messages = talk('ask', 'one', 'more');
    const first = answer('ask', 'one', { tokens: { prompt: [1, 2], answer: [3] } });
    const again = (prompt: readonly number[]) => answer('ask/one/more', 'two', { tokens: { prompt, answer: [9] } });
    const joined = (second: GraphAnswer) => shown(branchesOf(messages, [first, second]))[0];
    expect(joined(again([1, 2, 3, 4]))).toBe('0 after 1');
    expect(joined(again([1, 2, 5, 4]))).toBe('0 last after 1');
    expect(joined(again([1, 2]))).toBe('0 last after 1');
    expect(joined(answer('ask/one/more', 'two'))).toBe('0 last after 1');
  });

  it('where messages are not known, tokens alone decide', () => {
    const tokens = (prompt: readonly number[], own: readonly number[]) =>
      answer(null, null, { tokens: { prompt, answer: own } });
    const answers = [tokens([1], [2]), tokens([1, 2, 3], [4]), tokens([1, 2, 3, 4, 5], [6]), tokens([1, 9], [2])];
    expect(shown(branchesOf([], answers))).toEqual([
      '0 after null',
      '0 after null',
      '0 last after null',
      '1 last after null',
    ]);
  });
});

const user = (content: string) => ({ role: 'user', content });
const assistant = (content: string) => ({ role: 'assistant', content });

/** A call of an agent: what it read, with its tokens, and what it answered. */
const call = (
  id: string,
  turn: number,
  input: readonly { readonly role: string; readonly content: string }[],
  prompt: readonly number[],
  content: string,
  own: readonly number[],
  agent = 'solver',
): Event[] => [
  event(
    'generation.requested',
    { episode_id: 'e', call_id: id, agent_id: agent, role: agent, turn, input: [...input] },
    { time: at(2 * turn) },
  ),
  event(
    'generation.completed',
    {
      episode_id: 'e',
      call_id: id,
      prompt_token_ids: [...prompt],
      choices: [{ index: 0, content, token_ids: [...own], logprobs: own.map((token) => -token / 4) }],
    },
    { time: at(2 * turn + 1) },
  ),
];

describe('a dataset of branches', () => {
  let base: JudgedDatabase;
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'branches-'));
    base = await judgedDatabase();
    // The solver answers twice, its context is compacted, it answers again; a critic reads the first answer.
    await base.load([
      event('task.defined', { task_id: 't', query: 'Add.' }),
      event('episode.started', { episode_id: 'e', task_id: 't' }, { time: at(0) }),
      ...call('c1', 1, [user('1 + 1')], [1, 2], '2', [3]),
      ...call('c2', 2, [user('1 + 1'), assistant('2'), user('and 1')], [1, 2, 3, 4], '3', [5, 6]),
      ...call('c3', 3, [user('So far 3. And 1?')], [7], '4', [8]),
      ...call('c4', 4, [user('1 + 1'), assistant('2'), user('is it right?')], [1, 2, 3, 9], 'yes', [10], 'critic'),
      event('episode.finished', { episode_id: 'e', outcome: 'success' }, { time: at(20) }),
    ]);
  });
  afterAll(async () => {
    await base.close();
    await rm(folder, { recursive: true, force: true });
  });
  let homes = 0;
  const frozen = async (recipe: object) =>
    openDataset(
      (
        await freeze(
          base.db,
          { name: 'b', unit: 'branch', ...recipe },
          { directory: join(folder, `home-${homes++}`), codeVersion: 'test' },
        )
      ).directory,
    );

  it('has a row for each branch, with all its messages and tokens, and a mask over what its author answered', async () => {
    const dataset = await frozen({});
    const rows = [...dataset.rows()];
    expect(rows.map(({ agent, step_id }) => `${agent} ${step_id}`)).toEqual([
      'solver c2/0',
      'solver c3/0',
      'critic c4/0',
    ]);
    const [first, , critic] = rows;
    expect(first!.messages).toEqual([user('1 + 1'), assistant('2'), user('and 1'), assistant('3')]);
    expect(Array.from(first!.token_ids as number[])).toEqual([1, 2, 3, 4, 5, 6]);
    expect(Array.from(first!.loss_mask as number[])).toEqual([0, 0, 1, 0, 1, 1]);
    expect(Array.from(first!.logprobs as number[])).toEqual([null, null, -0.75, null, -1.25, -1.5]);
    expect(first!.answers).toMatchObject([
      { step_id: 'c1/0', messages: 1, from: 2, tokens: 1, advantage: null },
      { step_id: 'c2/0', messages: 3, from: 4, tokens: 2, advantage: null },
    ]);
    // What the solver answered is context of the critic.
    expect(Array.from(critic!.loss_mask as number[])).toEqual([0, 0, 0, 0, 1]);
    expect(dataset.manifest.funnel.at(-1)).toMatchObject({ of: 'branches', after: 3 });
    expect(
      dataset.lineage().map(({ step_id, with: earlier = [] }) => [step_id, ...earlier.map((one) => one.step_id)]),
    ).toEqual([['c2/0', 'c1/0'], ['c3/0'], ['c4/0']]);
  });

  it('learns only the answers that meet the filter; the others are context', async () => {
    const [row] = [...(await frozen({ where: 'step_id = c2/0' })).rows()];
    expect(Array.from(row!.loss_mask as number[])).toEqual([0, 0, 0, 0, 1, 1]);
    expect(row!.answers).toMatchObject([{ step_id: 'c2/0' }]);
  });

  it('has messages alone where tokens were not recorded', async () => {
    const other = await judgedDatabase();
    await other.load([
      event('episode.started', { episode_id: 'e', task_id: 't' }, { time: at(0) }),
      ...[
        { id: 'c1', input: [user('1 + 1')], content: '2' },
        { id: 'c2', input: [user('1 + 1'), assistant('2'), user('and 1')], content: '3' },
      ].flatMap(({ id, input, content }, turn) => [
        event('generation.requested', { episode_id: 'e', call_id: id, turn, input }, { time: at(2 * turn + 1) }),
        event(
          'generation.completed',
          { episode_id: 'e', call_id: id, choices: [{ index: 0, content }] },
          { time: at(2 * turn + 2) },
        ),
      ]),
    ]);
    const options = { directory: join(folder, 'texts'), codeVersion: 'test' };
    const { directory } = await freeze(other.db, { name: 'b', unit: 'branch' }, options);
    const [row, ...more] = [...(await openDataset(directory)).rows()];
    expect(more).toEqual([]);
    expect(row).toMatchObject({ step_id: 'c2/0', token_ids: null, loss_mask: null, logprobs: null });
    expect(row!.messages).toEqual([user('1 + 1'), assistant('2'), user('and 1'), assistant('3')]);
    expect(row!.answers).toMatchObject([
      { step_id: 'c1/0', messages: 1, from: null, tokens: null },
      { step_id: 'c2/0', messages: 3, from: null, tokens: null },
    ]);
    await other.close();
  });

  it('is limited and capped by branches', async () => {
    const ids = async (recipe: object) => [...(await frozen(recipe)).rows()].map(({ step_id }) => step_id);
    expect(await ids({ limit: 2 })).toEqual(['c2/0', 'c3/0']);
    expect((await ids({ caps: [{ of: 'role', rows: 1 }] })).length).toBe(2);
  });

  it('says in the log which steps stand in which row', async () => {
    const { manifest } = await freeze(
      base.db,
      { name: 'b', unit: 'branch' },
      { directory: join(folder, 'announced'), codeVersion: 'test', log: postgresLog(base.db) },
    );
    await projectAll(base.db);
    const { rows } = await base.db.query(
      `select split, "row", call_id from facts.dataset_rows where dataset_id = $1 order by 1, 2`,
      [manifest.dataset_id],
    );
    expect(rows).toEqual([
      { split: 'train', row: 0, call_id: 'c2' },
      { split: 'train', row: 1, call_id: 'c3' },
      { split: 'train', row: 2, call_id: 'c4' },
      { split: 'train.earlier-1', row: 0, call_id: 'c1' },
    ]);
  });

  it('is learnt with its tokens as they were sampled, and without them in the words of a template', async () => {
    const [row] = [...(await frozen({})).rows()] as unknown as BranchRow[];
    const { promptIds, tokenIds, trained, problem } = branchRow(row!, { config: { vocab_size: 11 } } as RowModel);
    expect([promptIds, tokenIds, trained]).toEqual([
      [1, 2],
      [3, 4, 5, 6],
      [true, false, true, true],
    ]);
    expect(problem).toBe('t');
    const tokenizer = openTokenizer(
      wordTokenizer(['system', 'user', 'assistant', 'tool'], ['<pad>'], { pad: '<pad>' }),
    );
    const template = chatTemplate('{% for m in messages %}{{ m.role }} {% endfor %}', tokenizer);
    const text = { ...row!, token_ids: null, loss_mask: null, answers: row!.answers.slice(1) };
    const model = { config: { vocab_size: 11 }, template } as unknown as RowModel;
    expect(branchRow(text, model)).toMatchObject({
      promptIds: tokenizer.encode('user assistant user'),
      tokenIds: tokenizer.encode('assistant'),
      trained: [true],
    });
  });

  it('is a conversation for each branch in layouts of messages, and one row of tokens in trl-tokens', async () => {
    const dataset = await frozen({});
    const out = join(folder, 'openai');
    await exportDataset(dataset, layoutNamed('openai-sft'), out);
    const lines = (await readFile(join(out, 'train.jsonl'), 'utf8')).trimEnd().split('\n');
    const talks = lines.map((line) => JSON.parse(line) as { messages: { weight?: number }[] });
    expect(talks.map(({ messages }) => messages.map(({ weight }) => weight ?? 1))).toEqual([
      [1, 1, 1, 1],
      [1, 1],
      [1, 0, 1, 1],
    ]);
    const tokens = join(folder, 'tokens');
    const { manifest } = await exportDataset(dataset, layoutNamed('trl-tokens'), tokens);
    expect(manifest.rows).toEqual({ 'train.parquet': 3 });
    const frame = readArrow(arrowIn(await readFile(join(tokens, 'train.parquet'))));
    const [ids, labels] = ['input_ids', 'labels'].map((name) => frame.column(name)![0] as ArrayLike<number>);
    expect(Array.from(ids!)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(Array.from(labels!)).toEqual([-100, -100, 3, -100, 5, 6]);
  });
});
