/**
 * Low-rank adapters (Hu et al. 2021, arXiv:2106.09685, section 4.1): beside a frozen W [out, in] two narrow matrices,
 * y = x·Wᵀ + scaling·(x·Aᵀ)·Bᵀ, with A [r, in] and B [out, r]. Numbers and names are those of PEFT; the files are
 * adapter-directory.ts.
 */
import { got, TroupeError } from '../../errors.ts';
import { canonicalJson } from '../../ingest/events/json.ts';
import { randomStream } from '../tensor/random.ts';
import { type LinearMap, linearMaps } from './families.ts';
import type { ParameterShape } from './parameters.ts';
import type { ModelConfig, Tensor, Weights } from './weights.ts';

export type Adapter = {
  readonly r: number;
  readonly alpha: number;
  /** Which linear maps are adapted: names, or the ends of names after a dot (`q_proj` is that of every layer). */
  readonly targets: readonly string[];
  /** Scaling alpha/√r (Kalajdzievski 2023, arXiv:2312.03732) in place of alpha/r. */
  readonly useRslora?: boolean;
  /** Another r or alpha for maps whose name ends so; the first that fits counts. */
  readonly rankPattern?: Readonly<Record<string, number>>;
  readonly alphaPattern?: Readonly<Record<string, number>>;
};

/** The maps of a layer, which is what PEFT means by `all-linear`. */
export const ALL_LINEAR = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'] as const;

/** As the flag --lora takes it. */
export const adapterText = ({ r, alpha, targets }: Adapter): string =>
  `r=${r},alpha=${alpha},targets=${targets.join(',')}`;

/** Whether two adapters have the same matrices and scale them alike, so that one can go on as the other. */
export const sameAdapter = (a: Adapter | null, b: Adapter | null): boolean => numbersOf(a) === numbersOf(b);

const numbersOf = (adapter: Adapter | null): string =>
  adapter === null
    ? ''
    : canonicalJson({
        r: adapter.r,
        alpha: adapter.alpha,
        targets: [...new Set(adapter.targets)].sort(),
        useRslora: adapter.useRslora ?? false,
        rankPattern: adapter.rankPattern ?? {},
        alphaPattern: adapter.alphaPattern ?? {},
      });

/** Whether a name is `end`, or ends with it after a dot. */
export const named = (name: string, end: string): boolean => name === end || name.endsWith(`.${end}`);

export type AdaptedMap = LinearMap & { readonly r: number; readonly scaling: number };

/**
 * The linear maps that an adapter adapts, in the model's order, each with its rank and scaling.
 * @throws TroupeError `model_unsupported` naming a target that no map of the model has, or a rank that is none.
 */
export function adaptedMaps(config: ModelConfig, adapter: Adapter): readonly AdaptedMap[] {
  const { targets, useRslora = false, rankPattern = {}, alphaPattern = {} } = adapter;
  const maps = linearMaps(config);
  const lost = targets.find((target) => !maps.some(({ name }) => named(name, target)));
  if (lost !== undefined || targets.length === 0) {
    const what = lost === undefined ? 'no target' : `the target ${got(lost)}`;
    const ends = [...new Set(maps.map(({ name }) => name.split('.').at(-1)))].join(', ');
    throw new TroupeError(
      'model_unsupported',
      `An adapter needs targets among the model's linear maps; got ${what}. They end in ${ends}.`,
      { field: 'target_modules', expected: ends, got: what },
    );
  }
  const of = (pattern: Readonly<Record<string, number>>, name: string, otherwise: number): number =>
    Object.entries(pattern).find(([end]) => named(name, end))?.[1] ?? otherwise;
  return maps
    .filter(({ name }) => targets.some((target) => named(name, target)))
    .map((map): AdaptedMap => {
      const r = of(rankPattern, map.name, adapter.r);
      const alpha = of(alphaPattern, map.name, adapter.alpha);
      if (!Number.isSafeInteger(r) || r < 1 || !Number.isFinite(alpha)) {
        const what = `r ${r} and alpha ${alpha} for ${map.name}`;
        throw new TroupeError(
          'model_unsupported',
          `An adapter needs a whole r above 0 and a finite alpha; got ${what}.`,
          { field: 'r', got: what },
        );
      }
      return { ...map, r, scaling: alpha / (useRslora ? Math.sqrt(r) : r) };
    });
}

/** Names and shapes of an adapter's matrices: `<map>.lora_A.weight` [r, in] and `<map>.lora_B.weight` [out, r]. */
export function adapterShapes(config: ModelConfig, adapter: Adapter): ParameterShape[] {
  return adaptedMaps(config, adapter).flatMap(({ name, r, in: from, out }): ParameterShape[] => [
    [`${name}.lora_A.weight`, [r, from]],
    [`${name}.lora_B.weight`, [out, r]],
  ]);
}

/**
 * First values: A uniform in ±1/√in, which is PEFT's `kaiming_uniform_(a=√5)`, and B zero, so that the model begins as its
 * base. The same seed gives the same matrices.
 */
export function initialAdapter(config: ModelConfig, adapter: Adapter, seed: number): Weights {
  const { uniform } = randomStream(seed);
  const weights = new Map<string, Tensor>();
  for (const [name, shape] of adapterShapes(config, adapter)) {
    const [rows, columns] = shape as readonly [number, number];
    const data = new Float32Array(rows * columns);
    const bound = 1 / Math.sqrt(columns);
    if (name.endsWith('.lora_A.weight')) for (let i = 0; i < data.length; i++) data[i] = (2 * uniform() - 1) * bound;
    weights.set(name, { shape, data });
  }
  return weights;
}

/** Each matrix the adapter has for this model, in its shape, and no other. @throws TroupeError `model_unsupported`. */
export function checkAdapter(config: ModelConfig, adapter: Adapter, weights: Weights): void {
  const shapes = new Map(adapterShapes(config, adapter));
  for (const [name, shape] of shapes) {
    const found = weights.get(name);
    if (found?.shape.join() !== shape.join())
      misfit(`${name} must be [${shape}], it is ${found ? `[${found.shape}]` : 'missing'}`);
  }
  for (const name of weights.keys()) if (!shapes.has(name)) misfit(`${got(name)} has no place in it`);
}

function misfit(what: string): never {
  throw new TroupeError('model_unsupported', `The adapter does not fit the model: ${what}.`, {
    hint: 'Use the model it was trained on; adapter_config.json names it in base_model_name_or_path.',
  });
}

/**
 * The weights with the adapter merged in, W + scaling·B·A. Weights that are not adapted are
 * shared with the model's, the others are new. Throws `model_unsupported` when model and adapter do not fit.
 */
export function mergeAdapter(
  config: ModelConfig,
  weights: Weights,
  adapter: Adapter,
  adapterWeights: Weights,
): Weights {
  checkAdapter(config, adapter, adapterWeights);
  const merged = new Map(weights);
  for (const { name, r, in: from, out, scaling } of adaptedMaps(config, adapter)) {
    const a = (adapterWeights.get(`${name}.lora_A.weight`) as Tensor).data;
    const b = (adapterWeights.get(`${name}.lora_B.weight`) as Tensor).data;
    const { shape, data: base } = weights.get(`${name}.weight`) as Tensor;
    const data = new Float32Array(base.length);
    const row = new Float64Array(from);
    for (let o = 0; o < out; o++) {
      row.fill(0);
      for (let k = 0; k < r; k++) {
        const weight = (b[o * r + k] as number) * scaling;
        if (weight !== 0)
          for (let i = 0; i < from; i++) row[i] = (row[i] as number) + weight * (a[k * from + i] as number);
      }
      for (let i = 0; i < from; i++) data[o * from + i] = (base[o * from + i] as number) + (row[i] as number);
    }
    merged.set(`${name}.weight`, { shape, data });
  }
  return merged;
}
