import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { lines } from './support/chats.ts';
import { plays, WORDS } from './support/plays.ts';
import { document, type Shell, warmShell } from './support/troupe.ts';

describe('from recorded plays to a checkpoint, by commands alone', () => {
  let database: TestDatabase;
  let at: Shell;
  const path = (name: string) => join(at.folder, name);
  /** A command that must succeed, and its document. */
  const done = async (...args: string[]) => {
    const ended = await at.run([...args, '--json']);
    expect([args[0], ended.code, ended.err]).toEqual([args[0], 0, '']);
    return document(ended);
  };
  beforeAll(async () => {
    database = await freshDatabase();
    at = warmShell({ DATABASE_URL: database.url });
    writeFileSync(path('plays.jsonl'), lines(plays(8)));
    expect(await done('import', path('plays.jsonl'))).toMatchObject({
      format: 'troupe-events',
      episodes: 32,
      feedback: 32,
    });
    writeFileSync(path('words.txt'), WORDS.join('\n'));
    writeFileSync(
      path('model.json'),
      JSON.stringify({
        words: WORDS,
        hidden_size: 16,
        intermediate_size: 32,
        num_hidden_layers: 1,
        num_attention_heads: 2,
        num_key_value_heads: 2,
        max_position_embeddings: 32,
      }),
    );
  });
  afterAll(async () => {
    await at.remove();
    await database.close();
  });
  let base: string;
  let learned: string;

  it('model new writes a model of these words, and model info reads it', async () => {
    const made = await done('model', 'new', '--dir', path('model'), '--config', path('model.json'), '--seed', '3');
    expect(made).toMatchObject({ directory: path('model'), vocab_size: WORDS.length + 2 });
    base = made.directory;
    const info = await done('model', 'info', base);
    expect(info).toMatchObject({
      checkpoint_id: made.checkpoint_id,
      chat_template: true,
      tokenizer: { vocab_size: WORDS.length + 2 },
      config: { hidden_size: 16, num_hidden_layers: 1 },
    });
    // Tied embeddings, one layer of 16 with its four projections, three feed-forward matrices and norms.
    expect(info.parameters).toBe(10 * 16 + 4 * 16 * 16 + 3 * 16 * 32 + 3 * 16);
    const again = await at.run(['model', 'new', '--dir', base, '--words', path('words.txt'), '--json']);
    expect([again.code, document(again).error.code]).toEqual([1, 'conflict']);
  });

  it('a model without words, or with a setting nobody knows, is refused with 2', async () => {
    const nothing = await at.run(['model', 'new', '--dir', path('none')]);
    expect([nothing.code, nothing.err]).toEqual([2, expect.stringContaining('--words FILE')]);
    writeFileSync(path('odd.json'), JSON.stringify({ words: ['a'], layers: 3 }));
    const odd = await at.run(['model', 'new', '--dir', path('none'), '--config', path('odd.json')]);
    expect([odd.code, odd.err]).toEqual([2, expect.stringContaining('num_hidden_layers')]);
  });

  it('dataset freeze prints the manifest; list, show and diff agree with it, and show says it in words too', async () => {
    await done('judge', '--methods', 'grpo_advantage');
    const recipe = { where: { field: 'reward', op: '>=', value: 1 }, unit: 'step', roles: ['solver'] };
    writeFileSync(path('good.json'), JSON.stringify({ name: 'good', ...recipe }));
    writeFileSync(path('all.yaml'), 'name: all\nunit: step\nroles: [solver]\ncredit: grpo_advantage\n');
    const { warnings, fresh, ...good } = await done('dataset', 'freeze', path('good.json'));
    expect([warnings, fresh]).toEqual([[], true]);
    expect(good).toMatchObject({ format: 'troupe-dataset/2', name: 'good', rows: { train: 16 } });
    expect(good.content_sha256).toMatch(/^[0-9a-f]{64}$/);
    const { card: written, ...found } = await done('dataset', 'show', 'good');
    expect(found).toEqual(good);
    expect(written).toContain('# good');
    const card = (await at.run(['dataset', 'show', 'good'])).out;
    expect(card).toMatch(/^# good\n/);
    expect(card).toContain('## How rows were chosen');
    const frozen = await at.run(['dataset', 'freeze', path('all.yaml'), '--json']);
    expect([frozen.code, frozen.err]).toEqual([0, '']);
    expect(document(frozen)).toMatchObject({
      rows: { train: 32 },
      warnings: ['16 of 32 answers are from episodes that failed.'],
    });

    const { items, others } = await done('dataset', 'list');
    expect([items.map(({ name }: { name: string }) => name), others]).toEqual([['all', 'good'], []]);
    const table = await at.run(['dataset', 'list']);
    expect(table.out.split('\n')[0]).toMatch(/^dataset +name +rows +folder +problem$/);
    expect(table.out).toMatch(new RegExp(`${good.dataset_id} +good +16 +home/datasets/`));
    const diff = await done('dataset', 'diff', 'good', 'all');
    expect(diff).toMatchObject({ removed: [], same: 0 });
    expect([diff.added, diff.changed].map((rows) => rows.length)).toEqual([16, 16]);
    const shown = await at.run(['dataset', 'diff', 'good', 'all']);
    expect(shown.out).toMatch(/^rows +count +for example\nsame +0\b.*\nadded +16 +\S/);
    expect(shown.out).toContain(`Their recipes differ in ${diff.recipe.join(', ')}.`);
    expect(await done('dataset', 'outdated', 'good')).toMatchObject({ outdated: false, rows: { same: 16 } });

    const out = ['--layout', 'trl-prompts', '--out', path('prompts')];
    expect((await at.run(['dataset', 'export', 'good', ...out])).out).toMatch(
      /^trl-prompts: ([1-9]|1[0-5]) in train\.parquet, made of 16 rows of the dataset\n$/,
    );

    const wrong = await at.run(['dataset', 'freeze', '-', '--json'], 'name: x\nunti: step\n');
    expect([wrong.code, document(wrong).error.code]).toEqual([2, 'recipe_invalid']);
    // As the first Troupes wrote them.
    cpSync(path(`home/datasets/${good.dataset_id}`), path('cardless'), { recursive: true });
    rmSync(path('cardless/README.md'));
    const { directory: _, ...manifest } = good;
    const files = good.files.filter((one: { name: string }) => one.name !== 'README.md');
    writeFileSync(path('cardless/manifest.json'), JSON.stringify({ ...manifest, files }));
    const cardless = await at.run(['dataset', 'show', path('cardless')]);
    expect([cardless.code, cardless.err]).toEqual([
      1,
      expect.stringMatching(/^troupe: .*cardless has no README\.md: .*dataset show .*cardless --json\n$/),
    ]);
    const absent = await at.run(['dataset', 'show', 'nothing', '--json']);
    expect([absent.code, document(absent).error.code]).toEqual([1, 'not_found']);
  }, 300_000);

  it('dataset mask shows what a model learns of each row: what it sampled, between marks where there is no colour', async () => {
    const { rows } = await done('dataset', 'mask', 'good', '--model', base, '--rows', '2');
    expect(rows).toHaveLength(2);
    const [asked, answered] = rows[0].parts.answer;
    expect([asked.learnt, answered.learnt, rows[0].parts.answer.length]).toEqual([false, true, 2]);
    const shown = await at.run(['dataset', 'mask', 'good', '--model', base, '--rows', '1']);
    expect(shown.out).toContain(`${asked.text}⟦${answered.text}⟧`);
    expect(shown.out).toContain(`answer: ${answered.tokens} of ${asked.tokens + answered.tokens} tokens are learnt`);
  });

  it('train sft lowers the loss and saves a checkpoint that info can open', async () => {
    const trained = await done(
      ...['train', 'sft', '--model', base, '--data', 'good', '--out', path('checkpoints')],
      ...['--steps', '40', '--batch', '8', '--lr', '0.02', '--warmup', '2', '--seed', '1'],
    );
    expect(trained).toMatchObject({ checkpoint_id: expect.any(String), rows: { used: 16, refused: 0 } });
    expect(trained.grad_norms).toHaveLength(40);
    expect(trained.losses).toHaveLength(40);
    expect(trained.losses.at(-1)).toBeLessThan(trained.losses[0] / 2);
    learned = trained.directory;
    const { content_sha256 } = await done('dataset', 'show', 'good');
    expect(JSON.parse(readFileSync(join(learned, 'troupe.json'), 'utf8')).datasets).toEqual([content_sha256]);
    expect((await done('model', 'info', learned)).checkpoint_id).toBe(trained.checkpoint_id);
    const again = await done(
      ...['train', 'sft', '--model', base, '--data', 'good', '--out', path('again')],
      ...['--steps', '40', '--batch', '8', '--lr', '0.02', '--warmup', '2', '--seed', '1'],
    );
    expect(again.losses).toEqual(trained.losses);
  });

  it('train rl learns from the advantages of a dataset', async () => {
    const trained = await done(
      ...['train', 'rl', '--model', learned, '--data', 'all', '--out', path('checkpoints')],
      ...['--groups', '4', '--lr', '0.001', '--warmup', '0', '--seed', '2'],
    );
    expect(trained.losses.length).toBeGreaterThan(0);
    expect(JSON.stringify(trained.roles)).toContain('solver');
    const missing = await at.run([
      'train',
      'rl',
      '--model',
      learned,
      '--data',
      'all',
      '--out',
      path('c'),
      '--lr',
      'fast',
    ]);
    expect([missing.code, missing.err]).toEqual([2, expect.stringContaining('--lr')]);
  });

  it('sample prints token ids with their log-probabilities, and logprobs agrees with them', async () => {
    const prompt = [2, 3, 5, 4, 5];
    const asked = [
      'sample',
      '--model',
      learned,
      '--prompt-ids',
      prompt.join(','),
      '--max-tokens',
      '6',
      '--temperature',
      '0',
    ];
    const {
      samples: [sample],
    } = await done(...asked);
    expect(Object.keys(sample)).toEqual(['token_ids', 'logprobs', 'text']);
    expect(sample.token_ids.length).toBe(sample.logprobs.length);
    expect(await done(...asked, '--seed', '9')).toEqual({ samples: [sample] });
    const several = await done(...asked.slice(0, -1), '1', '--n', '3');
    expect(several.samples).toHaveLength(3);

    writeFileSync(path('rows.jsonl'), lines([{ input_ids: [...prompt, ...sample.token_ids] }, { input_ids: [2, 3] }]));
    const { logprobs, ...rest } = await done('logprobs', '--model', learned, '--data', path('rows.jsonl'));
    expect(rest).toEqual({});
    expect(logprobs.map((row: number[]) => row.length)).toEqual([prompt.length + sample.token_ids.length - 1, 1]);
    // Greedy log-probabilities are those of temperature 1 as well.
    for (const [i, value] of sample.logprobs.entries()) {
      const plain = logprobs[0][prompt.length - 1 + i];
      expect(plain).toBeLessThanOrEqual(0);
      if (value !== 0) expect(value).toBeCloseTo(plain, 4);
    }
    writeFileSync(path('bad.jsonl'), '{"input_ids":[1]}\n');
    const bad = await at.run(['logprobs', '--model', learned, '--data', path('bad.jsonl'), '--json']);
    expect([bad.code, document(bad).error.code]).toEqual([3, 'input_refused']);
    for (const without of [[], ['--prompt', '']])
      expect((await at.run(['sample', '--model', learned, ...without])).err).toContain('Missing --prompt TEXT');
  });

  it('what was trained by hand can be looked for, and only what is known can be released', async () => {
    const unknown = await at.run(['release', 'solver=0123456789abcdef', '--json']);
    expect([unknown.code, document(unknown).error.code]).toEqual([1, 'not_found']);
    expect(await done('checkpoints')).toEqual({ items: [], total: 0, next: null });
  });
});
