/**
 * Proof that a checkpoint of Troupe is a model of everybody's: transformers loads it without a word about missing weights,
 * reads text and chats as the same ids and masks, and gives the same log-probabilities, values and rewards; PEFT loads an adapter of
 * Troupe onto it, with the outputs of the two merged into one; and what transformers and PEFT then save, Troupe opens as the same again.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { adapterFiles, openAdapter } from '../trainer/model/adapter-directory.ts';
import { type Adapter, ALL_LINEAR, initialAdapter, mergeAdapter } from '../trainer/model/lora.ts';
import { newModelDirectory, type OpenModel, openModel } from '../trainer/model/model-directory.ts';
import { initialWeights, withScoreHead } from '../trainer/model/parameters.ts';
import type { ChatMessage } from '../trainer/model/tokens/template-messages.ts';
import { wordTokenizer } from '../trainer/model/tokens/tokenizer.ts';
import type { ModelConfig, RopeScaling, Weights } from '../trainer/model/weights.ts';
import { Policy, type ScoreRow } from '../trainer/sample/policy.ts';
import { type RandomStream, randomStream } from '../trainer/tensor/random.ts';
import { furthest, within } from './distance.ts';
import type { Outcome, Proof, Setting } from './proof.ts';
import { type PythonWorker, startPython } from './python-worker.ts';
import { type Scored, scored } from './scored.ts';

type Answers = {
  readonly missing: readonly string[];
  readonly class: string;
  readonly outputs: readonly (readonly number[])[];
  readonly encoded: readonly (readonly number[])[];
  readonly decoded: readonly string[];
  readonly chats: readonly { readonly prompt_ids: number[]; readonly ids: number[]; readonly mask: number[] }[];
  readonly special: readonly (number | null)[];
};
type Versions = { readonly torch: string; readonly transformers: string; readonly peft: string };
type Check = readonly [what: string, fine: boolean];

const TOLERANCE = 1e-4;

const words = 'zero one two three four five six seven eight nine plus minus is user assistant system'.split(' ');
const special = ['<pad>', '<bos>', '<start>', '<end>'];
// transformers finds a generation block by its first character, which must belong to a token: no space after the tag.
const template = `{{ bos_token }}{% for message in messages %} <start> {{ message.role }}{% if message.role == 'assistant' %} {% generation %}{{ message.content }} <end>{% endgeneration %}{% else %} {{ message.content }} <end>{% endif %}{% endfor %}{% if add_generation_prompt %} <start> assistant{% endif %}`;
const tokenizer = wordTokenizer(words, special, { bos: '<bos>', eos: '<end>', pad: '<pad>' });

const base: ModelConfig = {
  model_type: 'llama',
  hidden_size: 48,
  intermediate_size: 96,
  num_hidden_layers: 3,
  num_attention_heads: 4,
  num_key_value_heads: 4,
  vocab_size: words.length + special.length,
  max_position_embeddings: 96,
  rms_norm_eps: 1e-5,
  rope_theta: 10000,
  tie_word_embeddings: false,
  bos_token_id: 1,
  eos_token_id: 3,
  pad_token_id: 0,
};
const early = { original_max_position_embeddings: 24 };
const llama3: RopeScaling = { rope_type: 'llama3', factor: 8, low_freq_factor: 1, high_freq_factor: 4, ...early };
const yarn: RopeScaling = { rope_type: 'yarn', factor: 4, ...early };

/** Models that differ in what a loader can get wrong: tied output, grouped keys, rotary tables, biases, spare vocabulary. */
const models: Readonly<Record<string, ModelConfig>> = {
  plain: base,
  tied: { ...base, tie_word_embeddings: true, rms_norm_eps: 1e-6 },
  grouped: { ...base, num_key_value_heads: 2, rope_theta: 500000, vocab_size: 32 },
  biased: { ...base, attention_bias: true, mlp_bias: true, head_dim: 8, rope_scaling: llama3 },
  qwen2: { ...base, model_type: 'qwen2', num_key_value_heads: 1, rope_scaling: { rope_type: 'linear', factor: 2 } },
  qwen3: { ...base, model_type: 'qwen3', head_dim: 16, num_key_value_heads: 2, rope_scaling: yarn },
  'qwen3-tied': { ...base, model_type: 'qwen3', attention_bias: true, tie_word_embeddings: true },
};

const heads: Readonly<Record<string, { readonly model: string; readonly head: 'value' | 'reward' }>> = {
  'llama-value': { model: 'biased', head: 'value' },
  'qwen2-value': { model: 'qwen2', head: 'value' },
  'qwen3-value': { model: 'qwen3', head: 'value' },
  'llama-reward': { model: 'grouped', head: 'reward' },
  'qwen2-reward': { model: 'qwen2', head: 'reward' },
  'qwen3-reward': { model: 'qwen3-tied', head: 'reward' },
};

const ranked = { r: 4, alpha: 8, useRslora: true, rankPattern: { k_proj: 2 }, alphaPattern: { 'mlp.up_proj': 3 } };
const adapters: Readonly<Record<string, { readonly model: string; readonly adapter: Adapter }>> = {
  'llama-attention': { model: 'plain', adapter: { r: 4, alpha: 8, targets: ['q_proj', 'v_proj'] } },
  'llama-biased-all': { model: 'biased', adapter: { r: 3, alpha: 12, targets: ALL_LINEAR } },
  'qwen2-ranked': { model: 'qwen2', adapter: { ...ranked, targets: ['k_proj', 'o_proj', 'up_proj', 'lm_head'] } },
  'qwen3-all': { model: 'qwen3', adapter: { r: 2, alpha: 2, targets: ALL_LINEAR } },
};

export const proof: Proof = {
  name: 'checkpoint-loads',
  needs: ['python'],
  async run({ short, python, scratch, say }: Setting): Promise<Outcome> {
    const worker = startPython(python, 'checkpoint_loads_in_transformers.py');
    const lines: string[] = [];
    let ok = true;
    const tell = (name: string, checks: readonly Check[]): void => {
      for (const [what, fine] of checks) {
        const line = `${fine ? 'ok' : 'NOT OK'}  ${name}: ${what}`;
        say(line);
        lines.push(line);
        ok &&= fine;
      }
    };
    const at = (name: string): Place => ({ worker, dir: join(scratch, name), count: short ? 20 : 400 });
    try {
      const { torch, transformers, peft } = await worker.ask<Versions>({ do: 'versions' });
      for (const [name, config] of Object.entries(models)) tell(name, await checkModel(config, at(name)));
      for (const [name, { model, head }] of Object.entries(heads)) {
        tell(name, await checkHead(models[model]!, head, at(name)));
      }
      for (const [name, { model, adapter }] of Object.entries(adapters)) {
        tell(name, await checkAdapted(models[model]!, adapter, at(name)));
      }
      say(`loaded with transformers ${transformers}, peft ${peft}, torch ${torch}`);
    } finally {
      await worker.close();
    }
    return { ok, lines };
  },
};

/** Where a model is checked, and with how many rows. */
type Place = { readonly worker: PythonWorker; readonly dir: string; readonly count: number };

/** Loaded there, and what was saved there loaded here. */
function load(
  { worker, dir }: Pick<Place, 'worker' | 'dir'>,
  head: string,
  rows: readonly ScoreRow[],
  more: object = {},
): Promise<Answers> {
  const asked = rows.map((row) => ({ prompt_ids: row.promptIds, completion_ids: row.tokenIds }));
  return worker.ask<Answers>({ do: 'load', directory: dir, copy: `${dir}-by-others`, head, rows: asked, ...more });
}

async function checkModel(config: ModelConfig, place: Place): Promise<Check[]> {
  const { dir, count } = place;
  await newModel(dir, { config, weights: weightsOf(config) });
  const model = await openModel(dir);
  const random = randomStream(3);
  const rows = rowsFor(random, config, count);
  const { texts, conversations } = textsFrom(random, count);
  const theirs = await load(place, 'lm', rows, { texts, conversations });
  const far = furthest(await logprobsOf(model, rows), theirs.outputs);
  const farAgain = furthest(await logprobsOf(await openModel(`${dir}-by-others`), rows), theirs.outputs);

  const { tokenizer: reads, template: chat } = model;
  const chats = conversations.map((messages) => {
    const { ids, lossMask } = chat!.maskedIds(messages);
    return { prompt_ids: chat!.promptIds(messages.slice(0, -1)), ids, mask: [...lossMask] };
  });
  return [
    complete(theirs),
    [`${texts.length} texts, same ids`, same(texts.map(reads.encode), theirs.encoded)],
    [`${texts.length} lists of ids, same text`, same(theirs.encoded.map(reads.decode), theirs.decoded)],
    [`${chats.length} chats, same prompt, ids and mask`, same(chats, theirs.chats)],
    ['same special tokens', same([reads.bos, reads.eos, reads.pad], theirs.special)],
    [`log-probabilities of ${rows.length} rows within ${far.toExponential(1)}`, within(far, TOLERANCE)],
    [`those of what transformers saved within ${farAgain.toExponential(1)}`, within(farAgain, TOLERANCE)],
  ];
}

async function checkHead(config: ModelConfig, head: 'value' | 'reward', place: Place): Promise<Check[]> {
  const { dir, count } = place;
  const scoring = withScoreHead(config, weightsOf(config), head, { seed: 5 });
  await newModel(dir, { config: scoring.config, weights: moved(scoring.weights) });
  const rows = rowsFor(randomStream(4), config, count);
  const theirs = await load(place, head, rows);
  const outputsOf = async (model: Scored) => scored(model, rows, { last: head === 'reward' });
  const far = furthest(await outputsOf(await openModel(dir)), theirs.outputs);
  const farAgain = furthest(await outputsOf(await openModel(`${dir}-by-others`)), theirs.outputs);
  return [
    complete(theirs),
    [`${head}s of ${rows.length} rows within ${far.toExponential(1)}`, within(far, TOLERANCE)],
    [`those of what transformers saved within ${farAgain.toExponential(1)}`, within(farAgain, TOLERANCE)],
  ];
}

async function checkAdapted(config: ModelConfig, adapter: Adapter, place: Place): Promise<Check[]> {
  const { worker, dir, count } = place;
  const weights = weightsOf(config);
  await newModel(dir, { config, weights });
  const { normal } = randomStream(9);
  // B begins as zeros, which would hide everything.
  const matrices: Weights = new Map(
    [...initialAdapter(config, adapter, 8)].map(([name, { shape, data }]) => [
      name,
      { shape, data: name.endsWith('.lora_B.weight') ? data.map(() => 0.2 * normal()) : data },
    ]),
  );
  const beside = `${dir}-adapter`;
  mkdirSync(beside);
  for (const [file, bytes] of adapterFiles(adapter, matrices, { baseModel: dir }))
    writeFileSync(join(beside, file), bytes);
  const merged = `${dir}-merged`;
  await newModel(merged, { config, weights: mergeAdapter(config, weights, adapter, matrices) });

  const rows = rowsFor(randomStream(6), config, count);
  const theirs = await load(place, 'lm', rows, { adapter: beside });
  const theirsMerged = await load({ worker, dir: merged }, 'lm', rows);
  const far = furthest(await scored({ config, weights, adapter: await openAdapter(beside) }, rows), theirs.outputs);
  const farMerged = furthest(theirsMerged.outputs, theirs.outputs);
  const farAgain = furthest(
    await scored({ config, weights, adapter: await openAdapter(`${dir}-by-others`) }, rows),
    theirs.outputs,
  );
  const away = furthest(await scored({ config, weights }, rows), theirs.outputs);
  return [
    complete(theirs),
    [
      `log-probabilities of ${rows.length} rows with the adapter within ${far.toExponential(1)}; it moves them by ${away.toExponential(1)}`,
      within(far, TOLERANCE) && away > 100 * TOLERANCE,
    ],
    [`those of the two folded into one within ${farMerged.toExponential(1)}`, within(farMerged, TOLERANCE)],
    [`those of what PEFT saved within ${farAgain.toExponential(1)}`, within(farAgain, TOLERANCE)],
  ];
}

const complete = ({ missing, class: name }: Answers): Check => [
  `${name}: no weight missing or unexpected (${missing.join(', ') || 'none'})`,
  missing.length === 0,
];

const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

const newModel = (dir: string, { config, weights }: Scored) =>
  newModelDirectory(dir, { config, weights, tokenizer, chatTemplate: template, seed: 7 });

/** Norms of 1 and biases of 0 would hide a loader that leaves them at their default. */
const weightsOf = (config: ModelConfig): Weights => moved(initialWeights(config, 7));

function moved(weights: Weights): Weights {
  const { uniform } = randomStream(11);
  const one = (name: string, x: number): number => (name.endsWith('.bias') ? uniform() - 0.5 : x * (0.5 + uniform()));
  return new Map(
    [...weights].map(([name, { shape, data }]) => [
      name,
      { shape, data: shape.length === 1 ? data.map((x) => one(name, x)) : data },
    ]),
  );
}

const some = <T>(n: number, draw: () => T): T[] => Array.from({ length: n }, draw);

/** Rows of different lengths; none holds the padding token, after which a reward model would not look. */
function rowsFor({ uniform }: RandomStream, { vocab_size }: ModelConfig, count: number): ScoreRow[] {
  const below = (n: number): number => Math.floor(uniform() * n);
  const ids = (n: number): number[] => some(n, () => 1 + below(vocab_size - 1));
  return some(count, () => ({ promptIds: ids(1 + below(40)), tokenIds: ids(2 + below(50)) }));
}

function textsFrom({ uniform }: RandomStream, count: number): { texts: string[]; conversations: ChatMessage[][] } {
  const below = (n: number): number => Math.floor(uniform() * n);
  const phrase = (): string => some(1 + below(6), () => words[below(words.length)]).join(' ');
  return {
    texts: some(count, () => some(1 + below(8), () => [...special, ...words][below(base.vocab_size)]).join(' ')),
    conversations: some(count, () => [
      { role: 'system', content: phrase() },
      ...some(below(3), () => [
        { role: 'user', content: phrase() },
        { role: 'assistant', content: phrase() },
      ]).flat(),
      { role: 'user', content: phrase() },
      { role: 'assistant', content: phrase() },
    ]),
  };
}

async function logprobsOf({ config, weights }: OpenModel, rows: readonly ScoreRow[]): Promise<number[][]> {
  const policy = await Policy.load(config, weights, { threads: 1 });
  try {
    return await policy.logprobs(rows);
  } finally {
    await policy.close();
  }
}
