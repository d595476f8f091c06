/**
 * Runs a graph. The only file that knows ONNX Runtime; it is loaded when the first session opens, so a program that
 * neither trains nor samples works without it.
 */
import type * as Runtime from 'onnxruntime-node';
import { TroupeError } from '../../errors.ts';
import { lower } from './lower.ts';
import type { Value } from './node.ts';
import { writeOnnx } from './onnx.ts';
import { simplify } from './rewrite.ts';

export type Feed = { readonly shape: readonly number[]; readonly data: Float32Array | Int32Array };
export type Feeds = Readonly<Record<string, Feed>>;

export type Session = {
  /** Outputs by name. Equal feeds give equal bits when the session has one thread. */
  readonly run: (feeds: Feeds, fetches: Readonly<Record<string, Feed | null>>) => Promise<Record<string, Feed>>;
  /** Names of the outputs that can be fetched. */
  readonly outputs: readonly string[];
  readonly close: () => Promise<void>;
};

export type SessionOptions = {
  /** Threads inside one operation. With more than one, sums differ in their last digits from run to run. */
  readonly threads?: number;
  /** Writes ONNX Runtime's trace of every operation to a file whose name begins so; it is complete when the session is closed. */
  readonly profile?: string;
};

/**
 * Compiles the named outputs, and all they need, into a session.
 * @throws TroupeError `platform_unsupported` when ONNX Runtime cannot be loaded, `model_unsupported` when it refuses the graph.
 */
export async function openSession(
  outputs: Readonly<Record<string, Value>>,
  { threads = 1, profile }: SessionOptions = {},
): Promise<Session> {
  const ort = await runtime();
  const names = Object.keys(outputs);
  const simple = simplify(Object.values(outputs));
  const graph = lower(Object.fromEntries(names.map((name, i) => [name, simple[i] as Value])));
  const session = await ort.InferenceSession.create(writeOnnx(graph), {
    graphOptimizationLevel: 'all',
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    executionMode: 'sequential',
    // A plan for each set of shapes would be kept for ever, and measured no faster.
    enableMemPattern: false,
    enableCpuMemArena: true,
    ...(profile === undefined ? {} : { enableProfiling: true, profileFilePrefix: profile }),
    // Spinning threads would burn a core that others on the machine are using. A softmax under a mask makes numbers below 1e-38, with
    // which everything after it takes many times as long. Flushing them to zero holds for the thread that opens the session, so for
    // JavaScript's own arithmetic too: numbers below 2.2e-308 are 0 in a process that trains or samples.
    extra: { session: { intra_op: { allow_spinning: '0' }, set_denormal_as_zero: '1' } },
  }).catch((cause: unknown) => {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new TroupeError('model_unsupported', `ONNX Runtime refused the graph: ${why}`, { cause });
  });
  const tensor = ({ data, shape }: Feed): Runtime.Tensor =>
    data instanceof Float32Array ? new ort.Tensor('float32', data, shape) : new ort.Tensor('int32', data, shape);

  return {
    outputs: names,
    run: async (feeds, fetches) => {
      const given: Record<string, Runtime.Tensor> = {};
      // A rewrite can make an input unnecessary; feeding it anyway would be refused.
      for (const name of session.inputNames) {
        const feed = feeds[name];
        if (feed === undefined)
          throw new TroupeError('internal', `the graph needs the input ${name}, which was not fed`);
        given[name] = tensor(feed);
      }
      const wanted: Record<string, Runtime.Tensor | null> = {};
      for (const [name, into] of Object.entries(fetches)) wanted[name] = into === null ? null : tensor(into);
      const results = await session.run(given, wanted);
      const out: Record<string, Feed> = {};
      for (const [name, into] of Object.entries(fetches)) {
        const result = results[name] as Runtime.Tensor;
        out[name] = into ?? { shape: result.dims, data: result.data as Float32Array };
      }
      return out;
    },
    close: async () => {
      if (profile !== undefined) session.endProfiling();
      await session.release();
    },
  };
}

/**
 * Loads ONNX Runtime when it is first needed. Since 1.29 its builds send telemetry to Microsoft and keep an identifier of the machine below
 * the user's cache, unless this variable stands in the environment before it is loaded.
 * @throws TroupeError `platform_unsupported` with the way to get it.
 */
export async function runtime(): Promise<typeof Runtime> {
  process.env.ORT_DISABLE_TELEMETRY = '1';
  try {
    return await import('onnxruntime-node');
  } catch (cause) {
    // Its install script downloads CUDA libraries from nuget.org; where that fails, npm silently omits the optional package.
    const hint =
      'install it with `npm install --ignore-scripts onnxruntime-node`; it has binaries for Linux, macOS and Windows on x64 and arm64';
    throw new TroupeError(
      'platform_unsupported',
      `training and sampling need ONNX Runtime, which could not be loaded on ${process.platform}-${process.arch}: ${hint}`,
      { hint, cause },
    );
  }
}
