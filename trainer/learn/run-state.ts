/**
 * Where a run is, as the plain JSON that lies in its checkpoints. Batches are a function of seed and step, the schedule of the step, and
 * the optimizer lies beside the weights: so the number of the step, what was best and how long ago is all a run needs to go on exactly.
 * Times are left out, so that equal runs give equal checkpoints.
 */
import { canonicalJson, isRecord } from '../../ingest/events/json.ts';
import type { Weights } from '../model/weights.ts';

/** What a run looked like, a number for each step. */
export type Curves = {
  readonly loss: number[];
  readonly gradientNorm: number[];
  readonly learningRate: number[];
  /** By name; null for a step that did not give it. */
  readonly metrics: Record<string, (number | null)[]>;
  readonly heldOut: {
    readonly step: number;
    readonly loss: number;
    readonly metrics: Readonly<Record<string, number>>;
  }[];
};

/** Steps done, and what is known after them. */
export type Progress = {
  readonly step: number;
  readonly best: { readonly step: number; readonly loss: number } | null;
  /** Evaluations since the best one. */
  readonly stale: number;
  /** True where the run ended before its last step because nothing got better. */
  readonly stopped: boolean;
  readonly curves: Curves;
};

export const beginning = (): Progress => ({
  step: 0,
  best: null,
  stale: 0,
  stopped: false,
  curves: { loss: [], gradientNorm: [], learningRate: [], metrics: {}, heldOut: [] },
});

/** What decides a run, by name: starting weights, data, seed and numbers. Two runs of equal settings are the same run. */
export type Settings = Readonly<Record<string, string | number | boolean | null | readonly string[]>>;

const FORMAT = 'troupe-run/1';

export type RunState = {
  readonly format: typeof FORMAT;
  readonly settings: Settings;
  readonly steps: number;
  readonly progress: Progress;
  /** Id of the checkpoint it began with. */
  readonly start: string;
  /** The matrices that are trained beside weights which are held: little-endian floats in base64, by name; null where weights are trained. */
  readonly adapter: Readonly<Record<string, { readonly shape: readonly number[]; readonly data: string }>> | null;
  /** Log-probabilities of the answers under the reference, where the loss asks for them: a list for each row. */
  readonly reference: readonly (readonly number[])[] | null;
};

export const runState = (state: Omit<RunState, 'format'>): RunState => ({ format: FORMAT, ...state });

/** The run of a checkpoint's state; null where it is none, or the state of something else. */
export function readRunState(state: unknown): RunState | null {
  return isRecord(state) && state.format === FORMAT ? (state as unknown as RunState) : null;
}

/** The state of a checkpoint that an adapter was trained for and no run: its matrices alone. */
export const adapterState = (matrices: Weights) => ({ format: 'troupe-adapter/1', adapter: encodeMatrices(matrices) });

/** The matrices of an adapter in the state of a checkpoint, that of a run or `adapterState`; null where it holds none. */
export const matricesIn = (state: unknown): Weights | null =>
  isRecord(state) && isRecord(state.adapter) ? decodeMatrices(state.adapter as NonNullable<RunState['adapter']>) : null;

export const isFinished = ({ progress, steps }: RunState): boolean => progress.stopped || progress.step >= steps;

/** Matrices as a state holds them, and back. */
export const encodeMatrices = (weights: Weights): NonNullable<RunState['adapter']> =>
  Object.fromEntries(
    [...weights].map(([name, { shape, data }]) => {
      const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
      return [name, { shape, data: bytes.toString('base64') }];
    }),
  );

export const decodeMatrices = (matrices: NonNullable<RunState['adapter']>): Weights =>
  new Map(
    Object.entries(matrices).map(([name, { shape, data }]) => {
      const bytes = new Uint8Array(Buffer.from(data, 'base64'));
      return [name, { shape, data: new Float32Array(bytes.buffer) }];
    }),
  );

/** The settings in which two runs differ, as text for people: `lr is 0.1, it was 0.2`. */
export function differences(now: Settings, before: Settings): string[] {
  const names = [...new Set([...Object.keys(now), ...Object.keys(before)])];
  const text = (value: Settings[string] | undefined) => (value === undefined ? 'not given' : canonicalJson(value));
  return names
    .filter((name) => text(now[name]) !== text(before[name]))
    .map((name) => `${name} is ${text(now[name])}, it was ${text(before[name])}`);
}
