/**
 * A decoder over prompts that several completions share. Each prompt is computed once; its keys and values are read by all
 * its completions, and their gradients flow back into it. Dimensions: Q prompts of P slots padded on the left, n completions
 * each, S tokens a completion, H key-value heads, G query heads for each of them, D the width of a head.
 */

import { type Dim, plus, times, type Value } from '../tensor/node.ts';
import {
  add,
  concat,
  expand,
  gatherRows,
  input,
  matmul,
  reshape,
  softmax,
  split,
  transpose,
} from '../tensor/operations.ts';
import { attentionWidth, headSize } from './families.ts';
import { layer, type Parameters, type Rotation } from './layer.ts';
import type { ModelConfig } from './weights.ts';

/** Keys and values of one layer, [Q, H, P, D]. */
type PromptCache = { readonly k: Value; readonly v: Value };

export type Prompt = {
  readonly caches: readonly PromptCache[];
  /** The residual stream at each prompt's last token, [Q, d]: what the first completion token is predicted from. */
  readonly last: Value;
};

type Sizes = {
  readonly H: number;
  readonly G: number;
  readonly D: number;
  /** Width of the residual stream. */
  readonly d: number;
  /** Width of attention's result, H·G·D. */
  readonly width: number;
  readonly scale: number;
};

function sizes(config: ModelConfig): Sizes {
  const D = headSize(config);
  const H = config.num_key_value_heads;
  const width = attentionWidth(config);
  return { H, G: config.num_attention_heads / H, D, d: config.hidden_size, width, scale: 1 / Math.sqrt(D) };
}

function rotationInputs(name: string, length: Dim, config: ModelConfig): Rotation {
  const half = headSize(config) / 2;
  return { cos: input(`${name}.cos`, [length, half]), sin: input(`${name}.sin`, [length, half]) };
}

const keyMask = (): Value => reshape(input('prompt.mask', ['Q', 'P']), ['Q', 1, 1, 'P']);

/**
 * Inputs: prompt.ids [Q, P] int32, prompt.mask [Q, P] (0, or MASKED at padding), prompt.causal [P, P], prompt.last [Q] int32
 * (row of each prompt's last token among Q·P), prompt.cos/.sin [P, D/2] and last.cos/.sin [1, D/2] for the last slot.
 * The last layer is computed for the last token only: of the others nothing but keys and values is read.
 */
export function promptTower(config: ModelConfig, parameters: Parameters): Prompt {
  const { H, G, D, width, scale } = sizes(config);
  const N = times('Q', 'P');
  const ids = reshape(input('prompt.ids', ['Q', 'P'], 'int32'), [N]);
  const lastRow = input('prompt.last', ['Q'], 'int32');
  const rotation = rotationInputs('prompt', 'P', config);
  const mask = keyMask();
  const causal = reshape(input('prompt.causal', ['P', 'P']), [1, 1, 'P', 'P']);
  // [Q, 1, P, 1, P]: one for all heads.
  const bias = reshape(add(mask, causal), ['Q', 1, 'P', 1, 'P']);
  const perHead = (x: Value) => transpose(reshape(x, ['Q', 'P', H, D]), [0, 2, 1, 3]);

  let stream = gatherRows(parameters.get('model.embed_tokens.weight'), ids);
  const caches: PromptCache[] = [];
  for (let index = 0; index < config.num_hidden_layers; index++) {
    const at = layer(config, parameters, index);
    const x = at.beforeAttention(stream);
    const k = perHead(at.keys(x, 'Q', 'P', rotation));
    const v = perHead(at.values(x));
    caches.push({ k, v });
    if (index < config.num_hidden_layers - 1) {
      const q = transpose(reshape(at.queries(x, 'Q', 'P', rotation), ['Q', 'P', H, G, D]), [0, 2, 1, 3, 4]);
      const PG = times('P', G);
      const scores = matmul(reshape(q, ['Q', H, PG, D]), k, { transB: true, alpha: scale });
      const p = softmax(add(reshape(scores, ['Q', H, 'P', G, 'P']), bias));
      const mixed = reshape(matmul(reshape(p, ['Q', H, PG, 'P']), v), ['Q', H, 'P', G, D]);
      stream = at.after(stream, reshape(transpose(mixed, [0, 2, 1, 3, 4]), [N, width]));
    } else {
      const q = at.queries(gatherRows(x, lastRow), 'Q', 1, rotationInputs('last', 1, config));
      const scores = add(matmul(reshape(q, ['Q', H, G, D]), k, { transB: true, alpha: scale }), mask);
      stream = at.after(gatherRows(stream, lastRow), reshape(matmul(softmax(scores), v), ['Q', width]));
    }
  }
  return { caches, last: stream };
}

/**
 * The residual stream that predicts each completion token, [Q·n·(1+S), d]: first the prompt's last token, then the
 * completion's tokens but its last. Inputs: completion.ids [Q, n, S] int32, completion.causal [S, S],
 * completion.cos/.sin [S, D/2] for the slots after the prompt's. Padding stands on the right, where no token sees it.
 */
export function completionTower(config: ModelConfig, parameters: Parameters, prompt: Prompt): Value {
  const { H, G, D, d, width, scale } = sizes(config);
  const N = times('Q', 'n', 'S');
  const ids = reshape(input('completion.ids', ['Q', 'n', 'S'], 'int32'), [N]);
  const rotation = rotationInputs('completion', 'S', config);
  const causal = reshape(input('completion.causal', ['S', 'S']), ['S', 1, 'S']);
  const mask = keyMask();
  const perHead = (x: Value) => transpose(reshape(x, ['Q', 'n', 'S', H, D]), [0, 3, 1, 2, 4]);
  const SG = times('S', G);
  const nSG = times('n', SG);

  let stream = gatherRows(parameters.get('model.embed_tokens.weight'), ids);
  for (const [index, cache] of prompt.caches.entries()) {
    const at = layer(config, parameters, index);
    const x = at.beforeAttention(stream);
    const batch = times('Q', 'n');
    const rows = reshape(at.queries(x, batch, 'S', rotation), ['Q', 'n', 'S', H, G, D]);
    const q = transpose(rows, [0, 3, 1, 2, 4, 5]);
    const k = perHead(at.keys(x, batch, 'S', rotation));
    const v = perHead(at.values(x));
    const toPrompt = add(matmul(reshape(q, ['Q', H, nSG, D]), cache.k, { transB: true, alpha: scale }), mask);
    const own = matmul(reshape(q, ['Q', H, 'n', SG, D]), k, { transB: true, alpha: scale });
    const toOwn = reshape(add(reshape(own, ['Q', H, 'n', 'S', G, 'S']), causal), ['Q', H, nSG, 'S']);
    const [p, pOwn] = split(softmax(concat([toPrompt, toOwn], 3)), ['P', 'S'], 3) as [Value, Value];
    const fromPrompt = reshape(matmul(p, cache.v), ['Q', H, 'n', SG, D]);
    const mixed = add(fromPrompt, matmul(reshape(pOwn, ['Q', H, 'n', SG, 'S']), v));
    const back = transpose(reshape(mixed, ['Q', H, 'n', 'S', G, D]), [0, 2, 3, 1, 4, 5]);
    stream = at.after(stream, reshape(back, [N, width]));
  }
  const first = expand(reshape(prompt.last, ['Q', 1, 1, d]), ['Q', 'n', 1, d]);
  const T = plus(1, 'S');
  return reshape(concat([first, reshape(stream, ['Q', 'n', 'S', d])], 2), [times('Q', 'n', T), d]);
}
