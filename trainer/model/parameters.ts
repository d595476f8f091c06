/** Names, shapes and first values of a model's parameters, and what is added when it is to score instead of generate. */
import { TroupeError } from '../../errors.ts';
import { randomStream } from '../tensor/random.ts';
import { FAMILIES, headMap, headSize, type LinearMap, layerMaps } from './families.ts';
import type { ModelConfig, Tensor, Weights } from './weights.ts';

export type ParameterShape = readonly [name: string, shape: readonly number[]];

/** Names and shapes ([out, in] for matrices) of all parameters, in the order of the model's definition. */
export function parameterShapes(config: ModelConfig): ParameterShape[] {
  const { hidden_size: d, vocab_size: vocabulary } = config;
  const D = headSize(config);
  const { queryKeyNorm } = FAMILIES[config.model_type];
  const ofMap = ({ name, in: from, out, bias }: LinearMap): ParameterShape[] => [
    [`${name}.weight`, [out, from]],
    ...(bias ? [[`${name}.bias`, [out]] as const] : []),
  ];
  const shapes: ParameterShape[] = [['model.embed_tokens.weight', [vocabulary, d]]];
  for (let index = 0; index < config.num_hidden_layers; index++) {
    const at = `model.layers.${index}.`;
    shapes.push(...layerMaps(config, index).flatMap(ofMap));
    if (queryKeyNorm) shapes.push([`${at}self_attn.q_norm.weight`, [D]], [`${at}self_attn.k_norm.weight`, [D]]);
    shapes.push([`${at}input_layernorm.weight`, [d]], [`${at}post_attention_layernorm.weight`, [d]]);
  }
  const last = headMap(config);
  shapes.push(['model.norm.weight', [d]], ...(last === null ? [] : ofMap(last)));
  return shapes;
}

/** Each parameter the configuration names, in its shape. @throws TroupeError `model_unsupported`. */
export function checkWeights(config: ModelConfig, weights: Weights): void {
  for (const [name, shape] of parameterShapes(config)) {
    const found = weights.get(name);
    if (found === undefined || found.shape.join() !== shape.join()) {
      const what = found === undefined ? 'nothing' : `[${found.shape}]`;
      throw new TroupeError('model_unsupported', `the parameter ${name} must have the shape [${shape}], got ${what}`);
    }
  }
}

/**
 * First values for a model trained from nothing; the same seed gives the same weights. Norms are 1 and biases 0. Matrices are
 * normal with standard deviation 0.7/√in, those that write to the residual stream also divided by √(2·layers); embeddings 0.05.
 */
export function initialWeights(config: ModelConfig, seed: number): Weights {
  const { normal } = randomStream(seed);
  const weights = new Map<string, Tensor>();
  for (const [name, shape] of parameterShapes(config)) {
    const data = new Float32Array(shape.reduce((a, b) => a * b, 1));
    const deviation = firstDeviation(name, shape, config.num_hidden_layers);
    if (deviation !== null) for (let i = 0; i < data.length; i++) data[i] = normal() * deviation;
    else if (!name.endsWith('.bias')) data.fill(1);
    weights.set(name, { shape, data });
  }
  return weights;
}

function firstDeviation(name: string, shape: readonly number[], layers: number): number | null {
  if (shape.length === 1) return null;
  if (name.includes('embed_tokens')) return 0.05;
  const perInput = 0.7 / Math.sqrt(shape[1] as number);
  return /o_proj|down_proj/.test(name) ? perInput / Math.sqrt(2 * layers) : perInput;
}

/**
 * A model that gives one number per position from a language model: its layers are shared, not copied, `lm_head` is dropped
 * and `score` is new. With a seed its matrix is normal with standard deviation 1/√(d+1), as Stiennon et al. 2020
 * (arXiv:2009.01325, appendix B.1) begin reward models; without one it is zero, so that the first values are 0 everywhere.
 * A `value` model (`…ForTokenClassification`) also has a bias, which begins at 0; a `reward` model
 * (`…ForSequenceClassification`) has none.
 */
export function withScoreHead(
  config: ModelConfig,
  weights: Weights,
  kind: 'value' | 'reward',
  { seed }: { readonly seed?: number } = {},
): { readonly config: ModelConfig; readonly weights: Weights } {
  const { hidden_size: d } = config;
  const scoring: ModelConfig = { ...config, head: kind };
  const matrix = new Float32Array(d);
  if (seed !== undefined) {
    const { normal } = randomStream(seed);
    for (let i = 0; i < d; i++) matrix[i] = normal() / Math.sqrt(d + 1);
  }
  const made = new Map<string, Tensor>([
    ['score.weight', { shape: [1, d], data: matrix }],
    ['score.bias', { shape: [1], data: new Float32Array(1) }],
  ]);
  const all = parameterShapes(scoring).map(
    ([name]) => [name, made.get(name) ?? (weights.get(name) as Tensor)] as const,
  );
  const result = new Map(all);
  checkWeights(scoring, result);
  return { config: scoring, weights: result };
}
