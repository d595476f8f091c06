/**
 * Proof that a model has the same outputs here as in transformers: random Llama, Qwen2 and Qwen3 checkpoints, written by transformers in
 * every shape, scaling and number type that is read, give the same log-probabilities, values and rewards of rows of different lengths
 * and the same greedy samples; and so do adapters that PEFT wrote, beside the weights and folded into them.
 */

import { join } from 'node:path';
import type { JsonObject } from '../ingest/events/json.ts';
import { openAdapter } from '../trainer/model/adapter-directory.ts';
import { mergeAdapter } from '../trainer/model/lora.ts';
import { openModel } from '../trainer/model/model-directory.ts';
import { Policy } from '../trainer/sample/policy.ts';
import { furthest, within } from './distance.ts';
import type { Outcome, Proof, Setting } from './proof.ts';
import { startPython } from './python-worker.ts';
import { scored } from './scored.ts';

type Family = 'llama' | 'qwen2' | 'qwen3';
type Case = {
  readonly family: Family;
  readonly head?: 'value' | 'reward';
  readonly config?: JsonObject;
  readonly dtype?: 'bfloat16' | 'float16';
  readonly shard?: string;
  readonly adapter?: JsonObject;
  readonly threads?: number;
};

type Answer = {
  readonly rows: readonly { readonly prompt_ids: readonly number[]; readonly completion_ids: readonly number[] }[];
  readonly outputs: readonly (readonly number[])[];
  readonly prompts: readonly (readonly number[])[];
  readonly samples: readonly { readonly token_ids: readonly number[]; readonly logprobs: readonly number[] }[];
};
type Versions = { readonly torch: string; readonly transformers: string; readonly peft: string };

const TOLERANCE = 1e-4;
const NEW_TOKENS = 24;
/** The id of `random_models.py` that ends a sample. */
const END = 2;

const rope = (fields: JsonObject): JsonObject => ({ rope_parameters: { rope_theta: 10000, ...fields } });
const early = { original_max_position_embeddings: 16 };
const ROPES: Readonly<Record<string, JsonObject>> = {
  base: rope({ rope_type: 'default', rope_theta: 500 }),
  linear: rope({ rope_type: 'linear', factor: 3 }),
  dynamic: rope({ rope_type: 'dynamic', factor: 2 }),
  llama3: rope({
    ...{ rope_type: 'llama3', rope_theta: 1000, factor: 8, low_freq_factor: 1, high_freq_factor: 4 },
    ...early,
  }),
  yarn: rope({ rope_type: 'yarn', factor: 4, ...early }),
  yarnBounds: rope({
    ...{ rope_type: 'yarn', rope_theta: 100, factor: 4, beta_fast: 8, beta_slow: 0.5, truncate: false },
    ...{ attention_factor: 1.3, ...early },
  }),
  yarnScales: rope({ rope_type: 'yarn', rope_theta: 100, factor: 4, mscale: 1.5, mscale_all_dim: 0.7, ...early }),
};
const HEADS_OF_SIX = { hidden_size: 36, num_attention_heads: 6, num_key_value_heads: 2 };
const MODULES = { attention: ['q_proj', 'v_proj'], some: ['q_proj', 'k_proj', 'o_proj', 'gate_proj'] };

const SHORT: readonly Case[] = [
  { family: 'llama', config: { tie_word_embeddings: true }, threads: 2 },
  { family: 'llama', config: { attention_bias: true, mlp_bias: true, head_dim: 6, ...ROPES.llama3 } },
  { family: 'llama', config: { num_key_value_heads: 4, ...ROPES.linear }, dtype: 'bfloat16' },
  { family: 'llama', config: ROPES.yarnBounds!, adapter: { r: 3, lora_alpha: 6, target_modules: 'all-linear' } },
  { family: 'llama', head: 'reward', config: ROPES.dynamic! },
  { family: 'qwen2', config: { num_key_value_heads: 1, ...ROPES.yarn } },
  { family: 'qwen2', config: HEADS_OF_SIX, dtype: 'float16', shard: '40KB' },
  {
    family: 'qwen2',
    config: { tie_word_embeddings: true, ...ROPES.base },
    adapter: { r: 4, lora_alpha: 16, target_modules: '.*layers\\.[01]\\.(self_attn\\.(q|k)_proj|mlp\\.down_proj)' },
  },
  { family: 'qwen2', head: 'value' },
  { family: 'qwen3', config: { hidden_size: 46, head_dim: 8, ...ROPES.yarnScales } },
  { family: 'qwen3', config: { head_dim: 16, attention_bias: true, tie_word_embeddings: true } },
  {
    family: 'qwen3',
    config: { head_dim: 10 },
    adapter: { r: 4, lora_alpha: 8, use_rslora: true, target_modules: MODULES.some },
  },
  { family: 'qwen3', head: 'value', config: { head_dim: 12 } },
];

/** What each family is run with in the full form. */
const SHAPES: readonly Omit<Case, 'family'>[] = [
  ...Object.values(ROPES).map((config) => ({ config })),
  { config: { tie_word_embeddings: true } },
  { config: { num_key_value_heads: 4 } },
  { config: { num_key_value_heads: 1, num_hidden_layers: 5 } },
  { config: HEADS_OF_SIX },
  { config: { rms_norm_eps: 1e-3, vocab_size: 300, intermediate_size: 33 } },
  { head: 'value' },
  { head: 'reward' },
  { dtype: 'bfloat16', shard: '20KB' },
  { dtype: 'float16' },
  { adapter: { r: 4, lora_alpha: 8, target_modules: MODULES.attention } },
  { adapter: { r: 4, lora_alpha: 8, target_modules: MODULES.attention, layers_to_transform: [1] } },
  { adapter: { r: 2, lora_alpha: 8, target_modules: ['down_proj', 'lm_head'], lora_dropout: 0.1 } },
  {
    adapter: {
      ...{ r: 4, lora_alpha: 8, target_modules: ['q_proj', 'v_proj', 'up_proj'] },
      ...{ rank_pattern: { q_proj: 2, 'layers.1.mlp.up_proj': 6 }, alpha_pattern: { v_proj: 3 } },
    },
  },
];
const FULL: readonly Case[] = [
  ...SHORT,
  ...(['llama', 'qwen2', 'qwen3'] as const).flatMap((family) =>
    SHAPES.map((shape) => ({
      family,
      ...shape,
      // Its own default of 128 would be all that is computed.
      ...(family === 'qwen3' ? { config: { head_dim: 12, ...shape.config } } : {}),
    })),
  ),
];

export const proof: Proof = {
  name: 'models-match-transformers',
  needs: ['python'],
  async run({ short, python, scratch, say }: Setting): Promise<Outcome> {
    const worker = startPython(python, 'models_in_transformers.py');
    const lines: string[] = [];
    let ok = true;
    try {
      const versions = worker.ask<Versions>({ do: 'versions' });
      const asked = (short ? SHORT : FULL).map((one, i) => {
        const { adapter, threads, ...model } = one;
        const directory = join(scratch, String(i));
        const theirs = worker.ask<Answer>({
          do: 'answer',
          ...{ directory, model: { ...model, seed: i }, tokens: NEW_TOKENS, seed: i },
          ...(short ? { rows: 9, prompts: 4 } : { rows: 30, prompts: 12 }),
          ...(adapter ? { adapter } : {}),
        });
        theirs.catch(() => {});
        return { one, directory, theirs };
      });
      for (const { one, directory, theirs } of asked) {
        const gaps = await theirs
          .then((answer) => compare(one, directory, answer))
          .catch((error: Error): Gap[] => [[`${error.message}:`, Infinity]]);
        const fine = gaps.every(([, gap]) => within(gap, TOLERANCE));
        const line = `${fine ? 'ok' : 'NOT OK'}  ${nameOf(one)}: ${gaps.map(([what, gap]) => `${what} within ${gap.toExponential(1)}`).join(', ')}`;
        say(line);
        lines.push(line);
        ok &&= fine;
      }
      const { torch, transformers, peft } = await versions;
      say(`compared with transformers ${transformers}, peft ${peft}, torch ${torch}`);
    } finally {
      await worker.close();
    }
    return { ok, lines };
  },
};

const nameOf = ({ family, head, config = {}, dtype, shard, adapter, threads }: Case): string =>
  [
    `${family}${head ? ` with a ${head} head` : ''}`,
    ...Object.entries(config).map(([name, value]) =>
      name === 'rope_parameters' ? `rope ${(value as JsonObject).rope_type}` : `${name} ${value}`,
    ),
    ...(dtype ? [dtype] : []),
    ...(shard ? [`files of ${shard}`] : []),
    ...(adapter ? [`adapter of ${adapter.target_modules}`] : []),
    ...(threads ? [`${threads} threads`] : []),
  ].join(', ');

type Gap = readonly [what: string, gap: number];

async function compare(one: Case, directory: string, theirs: Answer): Promise<Gap[]> {
  const { config, weights } = await openModel(directory);
  const { threads = 1 } = one;
  const rows = theirs.rows.map((row) => ({ promptIds: row.prompt_ids, tokenIds: row.completion_ids }));
  if (one.head === 'reward') {
    const outputs = await scored({ config, weights }, rows, { last: true });
    return [['rewards', furthest(outputs, theirs.outputs)]];
  }
  if (one.head === 'value') {
    const policy = await Policy.load(config, weights, { threads });
    try {
      return [['values', furthest(await policy.values(rows), theirs.outputs)]];
    } finally {
      await policy.close();
    }
  }
  const held = one.adapter ? await openAdapter(join(directory, 'adapter')) : null;
  const whole = held ? mergeAdapter(config, weights, held.adapter, held.weights) : weights;
  const beside = held ? await scored({ config, weights, adapter: held }, rows) : null;
  const policy = await Policy.load(config, whole, { threads });
  try {
    // Together, where some share a prompt, and each alone, which are two ways to compute them.
    const together = await policy.logprobs(rows);
    const alone: number[][] = [];
    for (const row of rows) alone.push(...(await policy.logprobs([row])));
    const samples = await policy.sample(
      theirs.prompts.map((promptIds) => ({
        promptIds,
        n: 1,
        maxTokens: NEW_TOKENS,
        temperature: 0,
        seed: 0,
        stopIds: [END],
      })),
    );
    const ours = samples.map(([sample]) => sample!);
    const same = ours.every(({ tokenIds }, i) => tokenIds.join() === theirs.samples[i]!.token_ids.join());
    const count = ours.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0);
    return [
      [`${together.flat().length} log-probabilities`, furthest(together, theirs.outputs)],
      ['row by row', furthest(alone, theirs.outputs)],
      ...(beside ? [['beside the weights', furthest(beside, theirs.outputs)] as const] : []),
      ...(beside ? [['merged from unmerged', furthest(together, beside)] as const] : []),
      [
        same ? `${ours.length} samples of the same ${count} tokens` : 'samples of OTHER tokens',
        same
          ? furthest(
              ours.map(({ logprobs }) => logprobs),
              theirs.samples.map(({ logprobs }) => logprobs),
            )
          : Infinity,
      ],
    ];
  } finally {
    await policy.close();
  }
}
