/**
 * A decoder over B whole sequences of different lengths whose N tokens lie one behind the other: projections, norms and
 * feed-forward layers compute no padding. Only attention sees sequences padded to L on the right, one head a row: its rows are
 * taken from the tokens' rows by index, which costs what transposing them to heads would. H key-value heads, G query heads for each, D wide.
 */
import { times, type Value } from '../tensor/node.ts';
import { attention, distinctRows, gatherRows, input, reshape, takeRows } from '../tensor/operations.ts';
import { attentionWidth, headSize } from './families.ts';
import { layer, type Parameters } from './layer.ts';
import type { ModelConfig } from './weights.ts';

export type Tower = {
  /** The residual stream of each token, [N, d]. */
  readonly stream: Value;
  /** The residual stream before each layer and after the last: where a gradient may begin to compute a layer again. */
  readonly checkpoints: readonly Value[];
};

/**
 * Inputs: tokens.ids [N] int32; tokens.cos/.sin [N, D/2], of each token's position in its
 * sequence; sequence.causal [G·L, L]; and as int32 row numbers attend.queries [B, H, G, L] and attend.keys [B, H, L] (which row of
 * [N·H·G, D] and [N·H, D] stands at each place, anything at padding), attend.query_rows [N, H·G] and attend.key_rows [N, H] (their
 * inverses).
 */
export function sequenceTower(config: ModelConfig, parameters: Parameters): Tower {
  const D = headSize(config);
  const H = config.num_key_value_heads;
  const G = config.num_attention_heads / H;
  const rows = (name: string, shape: readonly (number | string)[]) =>
    reshape(input(`attend.${name}`, shape, 'int32'), [times(...shape)]);
  const queries = rows('queries', ['B', H, G, 'L']);
  const keys = rows('keys', ['B', H, 'L']);
  const queryRows = rows('query_rows', ['N', H * G]);
  const keyRows = rows('key_rows', ['N', H]);
  const causal = input('sequence.causal', [times(G, 'L'), 'L']);
  const rotation = { cos: input('tokens.cos', ['N', D / 2]), sin: input('tokens.sin', ['N', D / 2]) };
  const queryHeads = (x: Value) =>
    reshape(takeRows(reshape(x, [times('N', H * G), D]), queries, queryRows), ['B', H, times(G, 'L'), D]);
  const keyHeads = (x: Value) => reshape(takeRows(reshape(x, [times('N', H), D]), keys, keyRows), ['B', H, 'L', D]);

  let stream = gatherRows(parameters.get('model.embed_tokens.weight'), input('tokens.ids', ['N'], 'int32'));
  const checkpoints = [stream];
  for (let index = 0; index < config.num_hidden_layers; index++) {
    const at = layer(config, parameters, index);
    const x = at.beforeAttention(stream);
    const mixed = attention(
      queryHeads(at.queries(x, 1, 'N', rotation)),
      keyHeads(at.keys(x, 1, 'N', rotation)),
      keyHeads(at.values(x)),
      causal,
      1 / Math.sqrt(D),
    );
    const heads = distinctRows(reshape(mixed, [times('B', H * G, 'L'), D]), queryRows);
    stream = at.after(stream, reshape(heads, ['N', attentionWidth(config)]));
    checkpoints.push(stream);
  }
  return { stream, checkpoints };
}
