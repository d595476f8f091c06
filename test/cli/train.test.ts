import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openAdapter } from '../../trainer/model/adapter-directory.ts';
import { loadCheckpoint } from '../../trainer/model/checkpoints/checkpoint.ts';
import { mergeAdapter } from '../../trainer/model/lora.ts';
import { openModelForIds } from '../../trainer/model/model-directory.ts';
import { exportOnnx } from '../../trainer/model/onnx-export.ts';
import { lines } from './support/chats.ts';
import { document, type Shell, warmShell } from './support/troupe.ts';

const WORDS = 'a b c d e f g h one two three four user assistant'.split(' ');

describe('training from files, by commands alone', () => {
  let at: Shell;
  const path = (name: string) => join(at.folder, name);
  beforeAll(async () => {
    at = warmShell();
    writeFileSync(path('words.txt'), WORDS.join('\n'));
    const size = ['--hidden', '16', '--layers', '1', '--heads', '2', '--context', '32'];
    const made = await at.run([
      'model',
      'new',
      '--dir',
      path('model'),
      '--words',
      path('words.txt'),
      ...size,
      '--json',
    ]);
    expect([made.code, made.err]).toEqual([0, '']);
    const rows = Array.from({ length: 7 }, (_, i) => ({
      input_ids: [2 + i, 3 + i, 4 + i, 5 + i].slice(0, 3 + (i % 2)),
    }));
    writeFileSync(path('rows.jsonl'), lines(rows));
  });
  afterAll(() => at.remove());

  const sft = (out: string, ...more: string[]) => [
    ...['train', 'sft', '--model', path('model'), '--data', path('rows.jsonl'), '--out', path(out)],
    ...['--no-shuffle', '--batch', '3', '--steps', '6', '--lr', '2e-2', '--schedule', 'constant', '--warmup', '0'],
    ...['--weight-decay', '0.01', '--clip', '0', '--loss', 'token-mean', '--seed', '1', '--json', ...more],
  ];

  it.each([
    ['lr', '-1', '--lr should be > 0'],
    ['lr', '0', '--lr should be > 0'],
    ['weight-decay', '-0.1', '--weight-decay should be'],
    ['warmup', '-3', '--warmup should be'],
    ['clip', '-1', '--clip should be'],
    ['beta2', '1.5', '--beta2 should be'],
  ])('trains nothing with --%s %s', async (option, value, reason) => {
    const { code, err } = await at.run(sft('refused', `--${option}`, value));
    expect([code, err]).toEqual([2, expect.stringContaining(reason)]);
    expect(existsSync(path('refused'))).toBe(false);
  });

  it('says that a file is empty', async () => {
    writeFileSync(path('empty.jsonl'), '');
    const { code, err } = await at.run(sft('refused', '--data', path('empty.jsonl')));
    expect([code, err]).toEqual([3, expect.stringContaining('empty.jsonl has no row to learn from. It is empty.')]);
  });

  it('train sft prints losses, gradient norms and speed as one document, and the same again for the same command', async () => {
    const first = await at.run(sft('a'));
    expect([first.code, first.err]).toEqual([0, '']);
    const summary = document(first);
    expect(summary.losses).toHaveLength(6);
    expect(summary.grad_norms).toHaveLength(6);
    expect(summary.tokens_per_second).toBeGreaterThan(0);
    expect(summary.losses[5]).toBeLessThan(summary.losses[0]);
    expect(readFileSync(join(path('a'), 'latest'), 'utf8').trim()).toBe(summary.checkpoint_id);
    expect(readFileSync(summary.report, 'utf8')).toContain('</svg>');
    const again = document(await at.run(sft('b', '--no-curves')));
    expect([again.losses, again.grad_norms, again.checkpoint_id]).toEqual([
      summary.losses,
      summary.grad_norms,
      summary.checkpoint_id,
    ]);
    expect(again.report).toBeNull();
    expect(existsSync(join(path('b'), 'report.svg'))).toBe(false);
  });

  it('bad lines are named and left out, and a file without a good one fails', async () => {
    writeFileSync(
      path('mixed.jsonl'),
      '{"input_ids":[2,3,4]}\n{"input_ids":[2,999]}\n{"prompt":"a","completion":"b"}\n',
    );
    const base = ['train', 'sft', '--model', path('model'), '--out', path('mixed'), '--json', '--data'];
    const mixed = await at.run([...base, path('mixed.jsonl')]);
    expect([mixed.code, mixed.err]).toEqual([3, '']);
    expect(document(mixed).rows).toMatchObject({ used: 2, refused: 1, errors: [{ line: 2, field: 'input_ids[1]' }] });
    writeFileSync(path('bad.jsonl'), '{"input_ids":[2,999]}\n');
    const bad = await at.run([...base, path('bad.jsonl')]);
    expect([bad.code, document(bad).error.code]).toEqual([3, 'input_refused']);
    expect(document(bad).error.message).toContain('bad.jsonl:1');
    const none = await at.run([...base, path('nothing.jsonl')]);
    expect([none.code, document(none).error.code]).toEqual([1, 'not_found']);
  });

  it('P28: a first Ctrl-C saves and ends with 130, and the same command goes on to the same losses', async () => {
    const long = (out: string) => sft(out, '--steps', '600', '--eval', '0.3', '--eval-every', '1');
    const running = at.start(long('stopped').filter((flag) => flag !== '--json'));
    await running.waitForOutput(/Training: \d+ %/);
    running.child.kill('SIGINT');
    const stopped = await running.ended;
    expect([stopped.code, stopped.err]).toEqual([130, expect.stringContaining('Rerun the command')]);
    const other = await at.run(sft('stopped'));
    expect([other.code, document(other).error.code]).toEqual([1, 'conflict']);
    const whole = document(await at.run(long('whole')));
    const resumed = document(await at.run(long('stopped')));
    expect(resumed.resumed_after_step).toBeGreaterThan(0);
    expect(resumed.losses).toEqual(whole.losses);
    expect(resumed.checkpoint_id).toBe(whole.checkpoint_id);
    expect(whole.held_out).toHaveLength(600);
  });

  it('train dpo learns from pairs of a file', async () => {
    writeFileSync(
      path('pairs.jsonl'),
      lines([
        { prompt: 'a b', chosen: 'one two', rejected: 'three' },
        { prompt: 'c', chosen: 'four', rejected: 'e f' },
      ]),
    );
    const summary = document(
      await at.run([
        ...['train', 'dpo', '--model', path('model'), '--data', path('pairs.jsonl'), '--out', path('dpo')],
        ...['--steps', '12', '--batch', '2', '--lr', '0.005', '--beta', '0.2', '--json'],
      ]),
    );
    expect(summary.losses[0]).toBeCloseTo(Math.LN2, 5);
    expect(summary.losses.at(-1)).toBeLessThan(summary.losses[0]);
    expect(summary.metrics.accuracy.at(-1)).toBe(1);
  });

  it('train value learns rewards of a file, train reward pairs; both give checkpoints with that head, which go on', async () => {
    const reward = (completion: string, reward: unknown) => ({ prompt: 'a', completion, reward });
    writeFileSync(path('earned.jsonl'), lines([reward('one', 1), reward('two', 0), reward('three', 'much')]));
    writeFileSync(path('ranked.jsonl'), lines([{ prompt: 'a b', chosen: 'one', rejected: 'two' }]));
    const run = (method: string, model: string, data: string, out: string, ...more: string[]) =>
      at.run([
        ...['train', method, '--model', path(model), '--data', path(data), '--out', path(out)],
        ...['--steps', '30', '--lr', '0.02', '--json', ...more],
      ]);
    const head = (folder: string) => JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8')).architectures;

    const value = await run('value', 'model', 'earned.jsonl', 'critic');
    expect([value.code, value.err]).toEqual([3, '']);
    const critic = document(value);
    expect(critic.rows.errors).toMatchObject([{ line: 3, field: 'reward', expected: 'a number' }]);
    expect(critic.losses[0]).toBeCloseTo(0.5, 5);
    expect(critic.losses.at(-1)).toBeLessThan(0.2);
    expect(head(critic.directory)).toEqual(['LlamaForTokenClassification']);
    const onward = document(await run('value', 'critic', 'earned.jsonl', 'onward', '--loss', 'cross-entropy'));
    expect(onward.losses[0]).not.toBeCloseTo(Math.LN2, 2);

    const ranked = document(await run('reward', 'model', 'ranked.jsonl', 'rewards'));
    expect(ranked.losses.at(-1)).toBeLessThan(ranked.losses[0]);
    expect(ranked.metrics.accuracy.at(-1)).toBe(1);
    expect(head(ranked.directory)).toEqual(['LlamaForSequenceClassification']);

    writeFileSync(path('beyond.jsonl'), lines([reward('one', 2)]));
    const beyond = await run('value', 'model', 'beyond.jsonl', 'beyond', '--loss', 'cross-entropy');
    expect(document(beyond).error.message).toContain('a number from 0 to 1');
    for (const [method, data] of [
      ['reward', 'ranked.jsonl'],
      ['sft', 'rows.jsonl'],
    ] as const) {
      const other = document(await run(method, 'critic', data, 'other'));
      expect(other.error).toMatchObject({ code: 'model_unsupported', message: expect.stringContaining('value head') });
    }
  });

  it('--lora trains an adapter, which is saved as PEFT reads it beside the whole model', async () => {
    const summary = document(await at.run(sft('lora', '--lora', 'r=2,alpha=4,targets=q_proj,v_proj')));
    const config = JSON.parse(readFileSync(join(summary.adapter, 'adapter_config.json'), 'utf8'));
    expect(config).toMatchObject({ peft_type: 'LORA', r: 2, lora_alpha: 4, target_modules: ['q_proj', 'v_proj'] });
    expect(config.base_model_name_or_path).toBe(path('model'));
    expect(existsSync(join(summary.directory, 'model.safetensors'))).toBe(true);
  });

  it('--lora goes on with the adapter of a checkpoint over the same base, whose every file stays as it is', async () => {
    const lora = ['--lora', 'r=2,alpha=4,targets=q_proj,v_proj'];
    const first = document(await at.run(sft('line', ...lora)));
    const from = (model: string, out: string, ...more: string[]) => at.run([...sft(out, ...more), '--model', model]);
    const ended = await from(first.directory, 'onward', ...lora);
    const base = await openModelForIds(path('model'));
    const said = await at.run([...sft('said', ...lora), '--model', first.directory].filter((one) => one !== '--json'));
    expect(said.err).toContain(`Going on with the adapter of ${first.checkpoint_id}, which lies over ${base.id}.`);
    const second = document(ended);
    const [one, two] = await Promise.all([first.adapter, second.adapter].map(openAdapter));
    expect([one!.baseModel, two!.baseModel]).toEqual([path('model'), path('model')]);
    expect(two!.weights).not.toEqual(one!.weights);
    const { config, weights, meta } = await openModelForIds(second.directory);
    expect(weights).toEqual(mergeAdapter(config, base.weights, two!.adapter, two!.weights));
    expect(meta).toMatchObject({ parent: first.checkpoint_id, adapter: { base: base.id, r: 2 } });
    // Six steps at once and three and three differ in their moments alone: the losses go on where they were.
    expect(second.losses[0]).toBeLessThan(first.losses[0]);
    const other = await from(first.directory, 'other', '--lora', 'r=4,alpha=4');
    expect(document(other).error).toMatchObject({
      code: 'model_unsupported',
      message: expect.stringContaining('r=2,alpha=4,targets=q_proj,v_proj'),
    });
    const shown = document(await at.run(['checkpoints', 'show', second.directory, '--json']));
    expect(shown.adapter).toMatchObject({ base: base.id, alpha: 4 });
    const info = await at.run(['model', 'info', second.directory]);
    expect(info.out).toMatch(new RegExp(`adapter +r=2,alpha=4,targets=q_proj,v_proj, folded in over ${base.id}`));
  });

  it('--recompute gives the numbers and the checkpoint of a run without it, and --onnx the model beside its weights', async () => {
    const [plain, again, onnx] = await Promise.all(
      [['plain'], ['again', '--recompute'], ['onnx', '--onnx']].map(async ([out, ...flags]) =>
        document(await at.run(sft(out!, ...flags))),
      ),
    );
    expect([again.losses, again.checkpoint_id]).toEqual([plain.losses, plain.checkpoint_id]);
    const { onnx: held, config, weights } = await loadCheckpoint(onnx.directory);
    expect([onnx.losses, held]).toEqual([plain.losses, true]);
    const file = readFileSync(join(onnx.directory, 'model.onnx'));
    expect(file.equals(exportOnnx(config, weights))).toBe(true);
  });

  it('a run that memory is too small for is refused before its first step, with numbers and what helps', async () => {
    const limit = (size: string, ...flags: string[]) => sft('small', '--memory-limit', size, ...flags);
    const refused = await at.run(limit('45MB'));
    const { code, message } = document(refused).error;
    expect([refused.code, code]).toEqual([1, 'training_failed']);
    expect(message).toMatch(/needs about \d+ MB of memory \(runtime \d+ MB, weights .*\); 45 MB are there/);
    expect(existsSync(path('small'))).toBe(false);
    const rows = Array.from({ length: 256 }, () => ({ input_ids: Array.from({ length: 32 }, (_, i) => 2 + (i % 14)) }));
    writeFileSync(path('long.jsonl'), lines(rows));
    const long = ['train', 'sft', '--model', path('model'), '--data', path('long.jsonl'), '--out', path('small')];
    const far = await at.run([...long, '--batch', '256', '--memory-limit', '50MB']);
    expect([far.code, far.err]).toEqual([
      1,
      expect.stringMatching(/with --batch \d+ it needs \d+ MB, which is there/i),
    ]);
    const fits = await at.run([
      ...long,
      '--batch',
      /--batch (\d+)/.exec(far.err)![1]!,
      '--memory-limit',
      '50MB',
      '--steps',
      '1',
    ]);
    expect(fits.code).toBe(0);
    expect((await at.run(limit('45MB', '--no-memory-check'))).code).toBe(0);
    expect((await at.run(limit('many'))).code).toBe(2);
  });

  it('what does not make sense is refused with 2 and names the flag', async () => {
    for (const [flags, expected] of [
      [['--epochs', '2'], '--steps and --epochs'],
      [['--lora', 'rank=3'], '--lora should have r, alpha and targets, not "rank"'],
      [['--lora', 'r=0'], '--lora'],
      [['--lora', 'r=1.5'], '--lora'],
      [['--lora', 'alpha=-1'], '--lora'],
      [['--steps', '0'], '--steps'],
    ] as const) {
      const ended = await at.run(sft('wrong', ...flags).filter((flag) => flag !== '--json'));
      expect([ended.code, ended.err]).toEqual([2, expect.stringContaining(expected)]);
    }
    const policy = await at.run(['train', 'rl', '--model', path('model'), '--data', path('rows.jsonl'), '--out', 'x']);
    expect([policy.code, policy.err]).toEqual([2, expect.stringContaining('frozen dataset')]);
  });
});
