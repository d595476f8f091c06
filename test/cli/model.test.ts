import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Command } from 'commander';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Sizes, sizesOf } from '../../api/operations/model/sizes.ts';
import { addOperations } from '../../cli/derive.ts';
import { adapterFiles } from '../../trainer/model/adapter-directory.ts';
import { initialAdapter, mergeAdapter } from '../../trainer/model/lora.ts';
import { openModel } from '../../trainer/model/model-directory.ts';
import { randomStream } from '../../trainer/tensor/random.ts';
import { runtime } from '../../trainer/tensor/session.ts';
import { document, type Shell, warmShell } from './support/troupe.ts';

const CHATS = [
  {
    messages: [
      { role: 'user', content: 'add two and two' },
      { role: 'assistant', content: 'two and two is four' },
    ],
  },
  {
    messages: [
      { role: 'user', content: 'add one and two' },
      { role: 'assistant', content: null, tool_calls: [{ function: { name: 'add', arguments: '{"a": 1, "b": 2}' } }] },
      { role: 'tool', content: '3' },
      { role: 'assistant', content: 'one and two is three' },
    ],
  },
];

describe('models by commands alone', () => {
  let at: Shell;
  const path = (name: string) => join(at.folder, name);
  const done = async (...args: string[]) => {
    const ended = await at.run(['model', ...args, '--json']);
    expect([args[0], ended.code, ended.err]).toEqual([args[0], 0, '']);
    return document(ended);
  };
  const refused = async (...args: string[]) => {
    const ended = await at.run(['model', ...args, '--json']);
    const { code, message } = document(ended).error;
    return [ended.code, code, message];
  };
  beforeAll(() => {
    at = warmShell();
    writeFileSync(path('chats.jsonl'), `${CHATS.map((chat) => JSON.stringify(chat)).join('\n')}\n`);
  });
  afterAll(() => at.remove());

  let trained: { readonly directory: string; readonly checkpoint_id: string; readonly parameters: number };

  it('model new trains a tokenizer on chats, and the model can read and write any chat', async () => {
    const sizes = [
      '--hidden',
      '32',
      '--layers',
      '2',
      '--heads',
      '4',
      '--kv-heads',
      '2',
      '--head-dim',
      '12',
      '--ff',
      '48',
    ];
    const text = ['--text', path('chats.jsonl'), '--vocab', '280'];
    const made = await done('new', '--dir', path('model'), ...text, ...sizes, '--family', 'qwen3', '--context', '64');
    expect(made).toEqual({
      checkpoint_id: expect.any(String),
      directory: path('model'),
      vocab_size: 280,
      parameters: expect.any(Number),
      training_bytes: expect.any(Number),
      texts: [{ file: path('chats.jsonl'), format: 'chat', bytes: expect.any(Number) }],
      errors: [],
    });
    trained = made;
    const { config, tokenizer, template, eosIds } = await openModel(path('model'));
    expect(config).toMatchObject({ model_type: 'qwen3', hidden_size: 32, head_dim: 12, num_key_value_heads: 2 });
    expect(config).toMatchObject({ intermediate_size: 48, max_position_embeddings: 64, tie_word_embeddings: true });
    const ids = template!.promptIds([...CHATS[1]!.messages, { role: 'user', content: 'и ещё 👍🏽' }]);
    expect(tokenizer.decode(ids)).toContain('{"name": "add", "arguments": {"a": 1, "b": 2}}');
    expect(tokenizer.decode(ids)).toContain('и ещё 👍🏽<|im_end|>');
    expect(eosIds).toEqual([tokenizer.id('<|im_end|>')]);
    // Learnt from the conversations as the model reads them: what every turn begins with costs few tokens.
    expect(tokenizer.encode('<|im_start|>assistant\n').length).toBeLessThan(5);
  });

  it('a training of it says in the checkpoint in which form the answers were learnt', async () => {
    writeFileSync(
      path('short.jsonl'),
      `${JSON.stringify({
        messages: [
          { role: 'user', content: 'a' },
          { role: 'assistant', content: 'b' },
        ],
      })}\n`,
    );
    const train = ['train', 'sft', '--model', path('model'), '--data', path('short.jsonl'), '--out', path('learnt')];
    const ended = await at.run([...train, '--steps', '1', '--json']);
    expect(ended.code, ended.err).toBe(0);
    const { checkpoint_id: id, directory, answer_form: form } = document(ended);
    expect(form).toBe('…<|im_end|>\n');
    const manifest = JSON.parse(readFileSync(join(directory, 'troupe.json'), 'utf8'));
    expect(manifest).toMatchObject({ id, answer_form: form });
  });

  it('the same text and seed make the same model, another seed another', async () => {
    const flags = ['--text', path('chats.jsonl'), '--vocab', '270', '--hidden', '16', '--heads', '2', '--layers', '1'];
    const [one, same, other] = await Promise.all([
      done('new', '--dir', path('one'), ...flags),
      done('new', '--dir', path('same'), ...flags),
      done('new', '--dir', path('other'), ...flags, '--seed', '1', '--untied'),
    ]);
    expect(same.checkpoint_id).toBe(one.checkpoint_id);
    expect(other.checkpoint_id).not.toBe(one.checkpoint_id);
    expect(other.parameters).toBe(one.parameters + one.vocab_size * 16);
  });

  it('lines of a chat file that cannot be read are listed, the rest is learnt, and the command ends with 3', async () => {
    writeFileSync(path('odd.jsonl'), `${JSON.stringify(CHATS[0])}\n{"messages": 7}\n`);
    const ended = await at.run([
      'model',
      'new',
      '--dir',
      path('odd'),
      '--text',
      path('odd.jsonl'),
      '--vocab',
      '264',
      '--json',
    ]);
    expect(ended.code).toBe(3);
    expect(document(ended).errors).toEqual([
      { file: path('odd.jsonl'), line: 2, expected: expect.stringContaining('messages'), got: '7' },
    ]);
    const words = ['model', 'new', '--dir', path('odder'), '--text', path('odd.jsonl'), '--vocab', '264'];
    expect((await at.run(words)).err).toContain('odd.jsonl:2: left out');
    expect((await openModel(path('odd'))).config.vocab_size).toBe(264);
  });

  it('what cannot be made is refused with 2, and nothing is left behind', async () => {
    const text = ['new', '--dir', path('none'), '--text', path('chats.jsonl')];
    writeFileSync(path('empty.txt'), '');
    writeFileSync(path('words.txt'), 'a b');
    writeFileSync(path('unread.jsonl'), '{"messages": [{"role": 7}]}\n');
    const configured = (name: string, config: object): string[] => {
      writeFileSync(path(name), JSON.stringify({ words: ['a'], ...config }));
      return ['new', '--dir', path('none'), '--config', path(name)];
    };
    const cases: [string[], RegExp][] = [
      [configured('layers.json', { layers: 3 }), /has no "layers"/],
      [configured('width.json', { hidden_size: 1.5 }), /hidden_size should be a whole number/],
      [configured('family.json', { model_type: 'bert' }), /model_type should be one of llama, qwen2, qwen3/],
      [configured('tied.json', { tie_word_embeddings: 1 }), /tie_word_embeddings should be true or false/],
      [['new', '--dir', path('none'), '--words', path('words.txt'), '--family', 'gpt2'], /llama, qwen2, qwen3/],
      [['new', '--dir', path('none')], /Missing --text FILE .* --words FILE or --config FILE/],
      [[...text, '--words', path('words.txt')], /either trained .* or a list of words/],
      [[...text, '--vocab', '200'], /needs 259 tokens at least/],
      [['new', '--dir', path('none'), '--text', path('empty.txt')], /no text in the files of --text\.$/],
      [
        ['new', '--dir', path('none'), '--text', path('unread.jsonl')],
        /no text .* that can be read: line 1 .*unread.jsonl is \[/,
      ],
    ];
    const ended = await Promise.all(cases.map(([args]) => refused(...args)));
    expect(ended).toEqual(cases.map(([, why]) => [2, 'usage', expect.stringMatching(why)]));
    expect(existsSync(path('none'))).toBe(false);
  });

  it('model info reads a directory and a file by their contents, and names every tensor where asked', async () => {
    const info = await done('info', trained.directory);
    expect(info).toMatchObject({
      kind: 'model',
      checkpoint_id: trained.checkpoint_id,
      parameters: trained.parameters,
      dtypes: ['F32'],
      chat_template: true,
      meta: { parent: null, step: 0, seed: 0 },
    });
    const weights = join(trained.directory, 'model.safetensors');
    const file = await done('info', weights, '--tensors');
    expect(file).toMatchObject({
      kind: 'safetensors',
      parameters: trained.parameters,
      bytes: readFileSync(weights).length,
    });
    expect(file.tensor_list).toHaveLength(info.tensors);
    expect(file.tensor_list[0]).toEqual({
      name: 'model.embed_tokens.weight',
      dtype: 'F32',
      shape: [280, 32],
      bytes: 280 * 32 * 4,
    });
    writeFileSync(path('weights.safetensors'), Buffer.from('\x80\x04\x95 whatever its name says', 'latin1'));
    expect(await refused('info', path('weights.safetensors'))).toEqual([
      1,
      'model_unsupported',
      expect.stringContaining('pickle'),
    ]);
    expect(await refused('info', path('nowhere'))).toEqual([1, 'not_found', expect.stringContaining('nowhere')]);
  });

  it('model merge folds an adapter into its model; model info describes the adapter', async () => {
    const base = await openModel(trained.directory);
    const adapter = { r: 2, alpha: 8, targets: ['q_proj', 'down_proj'] };
    const { normal } = randomStream(3);
    const weights = new Map(
      [...initialAdapter(base.config, adapter, 1)].map(([name, { shape, data }]) => [
        name,
        { shape, data: data.map((x) => x + normal() / 4) },
      ]),
    );
    mkdirSync(path('adapter'));
    for (const [name, bytes] of adapterFiles(adapter, weights, { baseModel: 'the-base' })) {
      writeFileSync(join(path('adapter'), name), bytes);
    }
    expect(await done('info', path('adapter'))).toMatchObject({
      kind: 'adapter',
      base_model: 'the-base',
      adapter,
      parameters: [...weights.values()].reduce((sum, { data }) => sum + data.length, 0),
    });
    const merged = await done(
      'merge',
      '--model',
      trained.directory,
      '--adapter',
      path('adapter'),
      '--out',
      path('merged'),
    );
    expect(merged).toMatchObject({ base: base.id, adapter: { r: 2 }, directory: path('merged') });
    const opened = await openModel(path('merged'));
    expect(opened.meta).toMatchObject({ parent: base.id });
    expect(opened.weights).toEqual(mergeAdapter(base.config, base.weights, adapter, weights));
    expect(opened.sideFiles).toEqual(base.sideFiles);
    expect(opened.weights.get('model.layers.0.self_attn.q_proj.weight')).not.toEqual(
      base.weights.get('model.layers.0.self_attn.q_proj.weight'),
    );
  });

  it('model export writes shards in 16 bits that open as the same model', async () => {
    const out = path('exported');
    const flags = ['--dtype', 'bf16', '--max-shard', '20KB'];
    const made = await done('export', '--model', trained.directory, '--out', out, ...flags);
    expect(Object.keys(made.files)).toEqual(readdirSync(out).sort());
    expect(Object.keys(made.files).filter((name) => name.endsWith('.safetensors')).length).toBeGreaterThan(1);
    const [before, after] = [await openModel(trained.directory), await openModel(out)];
    expect([after.config, after.sideFiles]).toEqual([before.config, before.sideFiles]);
    for (const [name, { data }] of after.weights) {
      const original = before.weights.get(name)!.data;
      expect(
        Math.max(...data.map((x, i) => Math.abs(x - original[i]!) / (Math.abs(original[i]!) + 1e-9))),
      ).toBeLessThan(2 ** -8);
    }
    expect(await done('info', out)).toMatchObject({ dtypes: ['BF16'], parameters: trained.parameters });
    expect((await refused('export', '--model', trained.directory, '--out', out))[1]).toBe('conflict');
  });

  it('model export writes one ONNX file beside tokenizer and template', async () => {
    const out = path('onnx');
    await done('export', '--model', trained.directory, '--out', out, '--format', 'onnx');
    expect(readdirSync(out)).toEqual(expect.arrayContaining(['model.onnx', 'tokenizer.json', 'config.json']));
    expect(readdirSync(out).filter((name) => name.includes('safetensors'))).toEqual([]);
    const ort = await runtime();
    const session = await ort.InferenceSession.create(join(out, 'model.onnx'));
    const { logits } = await session.run({ input_ids: new ort.Tensor('int64', BigInt64Array.of(1n, 2n, 3n), [1, 3]) });
    expect(logits!.dims).toEqual([1, 3, 280]);
    await session.release();
    expect(await done('info', join(out, 'model.onnx'))).toMatchObject({
      kind: 'onnx',
      inputs: [{ name: 'input_ids', type: 'int64', shape: ['batch', 'sequence'] }],
      outputs: [{ name: 'logits', type: 'float32', shape: ['batch', 'sequence', 280] }],
    });
    const [code, kind] = await refused(
      'export',
      '--model',
      trained.directory,
      '--out',
      path('x'),
      '--format',
      'onnx',
      '--dtype',
      'f16',
    );
    expect([code, kind]).toEqual([2, 'usage']);
  });

  it('every command has examples in its help', async () => {
    const program = new Command();
    let help = '';
    await addOperations(program, 'model');
    for (const command of program.commands[0]!.commands) {
      help = '';
      command.configureOutput({ writeOut: (text) => (help += text) }).outputHelp();
      expect([command.name(), help]).toEqual([command.name(), expect.stringMatching(/Examples?:\n {2}troupe model/)]);
    }
    expect(program.commands[0]!.commands.map((one) => one.name())).toEqual(['export', 'info', 'merge', 'new']);
  });
});

describe('the size of a new model', () => {
  const sizes = (asked: Parameters<typeof sizesOf>[1], given: Sizes = {}) => sizesOf(given, asked, { context: 256 });

  it('follows from its width by default', () => {
    expect(sizes({})).toEqual({
      model_type: 'llama',
      hidden_size: 128,
      intermediate_size: 344,
      num_hidden_layers: 2,
      num_attention_heads: 4,
      num_key_value_heads: 4,
      max_position_embeddings: 256,
      rms_norm_eps: 1e-6,
      rope_theta: 10_000,
      tie_word_embeddings: true,
    });
    expect(sizes({ hidden: 1024 })).toMatchObject({ num_attention_heads: 16, intermediate_size: 2736 });
  });

  it('is what a flag says, else what the file says', () => {
    const given: Sizes = {
      ...{ hidden_size: 64, num_attention_heads: 2, model_type: 'qwen2', tie_word_embeddings: false },
    };
    expect(sizes({ heads: 4, head_dim: 16 }, given)).toMatchObject({
      hidden_size: 64,
      num_attention_heads: 4,
      num_key_value_heads: 4,
      model_type: 'qwen2',
      tie_word_embeddings: false,
    });
    expect(sizes({ head_dim: 16 }, given)).toMatchObject({ head_dim: 16, num_attention_heads: 2 });
    expect(sizes({ head_dim: 32 }, given)).not.toHaveProperty('head_dim');
    expect(sizes({ family: 'qwen3', untied: true })).toMatchObject({ model_type: 'qwen3', tie_word_embeddings: false });
  });

  it.each([
    [{ hidden: 100, heads: 3 }, /width of 100 cannot be split into 3 heads/],
    [{ hidden: 12, heads: 4 }, /cannot be split into 4 heads of an even width/],
    [{ heads: 4, kv_heads: 3 }, /3 heads of keys and values cannot serve 4/],
    [{ head_dim: 7 }, /even width, not 7/],
    [{ hidden: 100, heads: 3, head_dim: 32 }, /llama of width 100 cannot have 3 heads/],
  ])('is refused: %j', (asked, why) => {
    expect(() => sizes(asked)).toThrow(expect.objectContaining({ code: 'usage', message: expect.stringMatching(why) }));
  });
});
