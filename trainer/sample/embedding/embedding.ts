/**
 * Texts as vectors, by an embedding model that the user names: a directory with model.onnx and tokenizer.json, as sentence-transformers
 * exports them. Where the model gives a vector for each token, the mean over the tokens of the text is taken (Reimers, Gurevych,
 * Sentence-BERT, arXiv 1908.10084); all vectors are of length 1.
 */
import { basename, join } from 'node:path';
import { got, TroupeError } from '../../../errors.ts';
import { hashId } from '../../../ingest/events/json.ts';
import { listFiles } from '../../model/checkpoints/checkpoint.ts';
import { checkOnnxFile, type OnnxFileFacts } from '../../model/files/onnx-file.ts';
import { hashFile, readSmallFile } from '../../model/files/read-file.ts';
import { openTokenizer, type Tokenizer } from '../../model/tokens/tokenizer.ts';
import { runtime } from '../../tensor/session.ts';

export type Embedder = {
  /** Made of the hashes of its files: the same files are the same model, wherever they are. */
  readonly id: string;
  /** Tokens of a text at most; what is longer is cut. */
  readonly maxTokens: number;
  /** One for each text, in order. `onProgress` is called with the number done. */
  readonly embed: (texts: readonly string[], onProgress?: (done: number) => void) => Promise<EmbeddingResult[]>;
  readonly close: () => Promise<void>;
};

type EmbeddingResult = {
  /** Of length 1; null with the reason: `no_tokens`, `not_finite`, `zero_vector`. */
  readonly vector: Float32Array | null;
  readonly reason: string | null;
  /** The text was longer than the model reads. */
  readonly cut: boolean;
};

/** Padded tokens, and texts, of one run of the model. */
const TOKENS_AT_ONCE = 8192;
const TEXTS_AT_ONCE = 32;
/** Default where no file of the model gives its context length. */
const USUAL_LENGTH = 512;

const MODEL = 'model.onnx';
/** Files beside model.onnx and tokenizer.json whose content determines the output. */
const SETTINGS = ['tokenizer_config.json', 'config.json', 'sentence_bert_config.json'] as const;
const POOLING = join('1_Pooling', 'config.json');
const INPUTS = ['input_ids', 'attention_mask', 'token_type_ids'];
const OUTPUTS = ['sentence_embedding', 'last_hidden_state', 'token_embeddings'] as const;
/** TensorProto.DataType. */
const [FLOAT32, INT32, INT64] = [1, 6, 7];

/**
 * Opens an embedding model.
 * @throws TroupeError `not_found` where there is no directory or a file is missing, `checkpoint_damaged` for a file that is not sound,
 * `model_unsupported` for another kind of model.
 */
export async function openEmbedder(
  dir: string,
  { threads = 1 }: { readonly threads?: number } = {},
): Promise<Embedder> {
  const { texts, path, id } = await readFiles(dir);
  const facts = checkOnnxFile(path);
  const output = outputOf(facts, texts);
  const tokenizer = openTokenizer({
    tokenizer: texts['tokenizer.json']!,
    config: texts['tokenizer_config.json'] ?? {},
  });
  const maxTokens = longest(texts);
  const ort = await runtime();
  const session = await ort.InferenceSession.create(path, {
    graphOptimizationLevel: 'all',
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    executionMode: 'sequential',
    enableMemPattern: false,
    // Spinning threads would burn a core that others on the machine are using.
    extra: { session: { intra_op: { allow_spinning: '0' } } },
  }).catch((cause: unknown) => {
    throw unsupported(`ONNX Runtime refused ${basename(path)}: ${(cause as Error).message}`, cause);
  });

  /** Vectors of texts of similar lengths, padded to the longest. */
  const run = async (rows: readonly (readonly number[])[]): Promise<Float32Array[]> => {
    const length = Math.max(...rows.map((row) => row.length));
    const shape = [rows.length, length];
    const values = (of: (row: readonly number[], at: number) => number) =>
      rows.flatMap((row) => Array.from({ length }, (_, at) => of(row, at)));
    const mask = values((row, at) => (at < row.length ? 1 : 0));
    const columns = [values((row, at) => row[at] ?? tokenizer.pad ?? 0), mask, values(() => 0)];
    const feeds = Object.fromEntries(
      facts.inputs.map(({ name, type }) => {
        const column = columns[INPUTS.indexOf(name)]!;
        return type === INT64
          ? [name, new ort.Tensor('int64', BigInt64Array.from(column, BigInt), shape)]
          : [name, new ort.Tensor('int32', Int32Array.from(column), shape)];
      }),
    );
    const results = await session.run(feeds, [output]).catch((cause: unknown) => {
      throw unsupported(`The model cannot read what its tokenizer writes: ${(cause as Error).message}`, cause);
    });
    const { data, dims } = results[output]!;
    const expected = output === 'sentence_embedding' ? [rows.length] : shape;
    if (dims.length !== expected.length + 1 || expected.some((size, i) => dims[i] !== size)) {
      throw unsupported(`${output} should be [${expected}, size], it is [${dims}].`);
    }
    const size = dims.at(-1)!;
    return output === 'sentence_embedding'
      ? rows.map((_, i) => (data as Float32Array).slice(i * size, (i + 1) * size))
      : meanOfTokens(data as Float32Array, mask, rows.length, size);
  };

  return {
    id,
    maxTokens,
    embed: async (given, onProgress = () => {}) => {
      const tokens = given.map((text) => fitted(tokenizer, text, maxTokens));
      const embedded: EmbeddingResult[] = tokens.map(({ cut }) => ({ vector: null, reason: 'no_tokens', cut }));
      let done = tokens.filter(({ ids }) => ids.length === 0).length;
      for (const batch of batchesOf(tokens.map(({ ids }) => ids.length))) {
        const vectors = await run(batch.map((i) => tokens[i]!.ids));
        for (const [at, i] of batch.entries()) embedded[i] = { ...unit(vectors[at]!), cut: tokens[i]!.cut };
        done += batch.length;
        onProgress(done);
      }
      return embedded;
    },
    close: () => session.release(),
  };
}

/** For each of `count` texts the mean of its tokens' vectors where the mask is 1; states are [count, length, size]. */
export function meanOfTokens(
  states: Float32Array,
  mask: readonly number[],
  count: number,
  size: number,
): Float32Array[] {
  const length = mask.length / count;
  return Array.from({ length: count }, (_, text) => {
    const sums = new Float64Array(size);
    let tokens = 0;
    for (let at = text * length; at < (text + 1) * length; at++) {
      if (mask[at] === 0) continue;
      tokens++;
      for (let i = 0; i < size; i++) sums[i]! += states[at * size + i]!;
    }
    return Float32Array.from(sums, (sum) => sum / tokens);
  });
}

function unit(vector: Float32Array): Pick<EmbeddingResult, 'vector' | 'reason'> {
  const norm = Math.sqrt(vector.reduce((sum, x) => sum + x * x, 0));
  if (!Number.isFinite(norm)) return { vector: null, reason: 'not_finite' };
  return norm === 0 ? { vector: null, reason: 'zero_vector' } : { vector: vector.map((x) => x / norm), reason: null };
}

/** The tokens of a text with those the model wants around it; of a text that is too long its end is left out, never those. */
function fitted(tokenizer: Tokenizer, text: string, most: number): { readonly ids: number[]; readonly cut: boolean } {
  const ids = tokenizer.encodePrompt(text);
  if (ids.length <= most) return { ids, cut: false };
  const body = tokenizer.encode(text);
  const around = ids.length - body.length;
  let before = 0;
  while (before < around && body.some((id, i) => ids[before + i] !== id)) before++;
  const after = around - before;
  return { ids: [...ids.slice(0, most - after), ...ids.slice(ids.length - after)], cut: true };
}

/** Places of texts, those of similar lengths together; texts without tokens are in none. */
function* batchesOf(lengths: readonly number[]): Generator<number[]> {
  const order = [...lengths.keys()].filter((i) => lengths[i]! > 0).sort((a, b) => lengths[a]! - lengths[b]! || a - b);
  let batch: number[] = [];
  for (const i of order) {
    if (batch.length === TEXTS_AT_ONCE || (batch.length > 0 && (batch.length + 1) * lengths[i]! > TOKENS_AT_ONCE)) {
      yield batch;
      batch = [];
    }
    batch.push(i);
  }
  if (batch.length > 0) yield batch;
}

type Texts = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

async function readFiles(dir: string) {
  const names = await listFiles(dir);
  const inside = names.includes(MODEL) ? [] : names.includes('onnx') ? await listFiles(join(dir, 'onnx')) : [];
  if (!(names.includes(MODEL) || inside.includes(MODEL)) || !names.includes('tokenizer.json')) {
    throw new TroupeError('not_found', `${dir} is not an embedding model: it needs ${MODEL} and tokenizer.json.`, {
      hint: 'Export one: optimum-cli export onnx --task feature-extraction --model NAME DIR.',
    });
  }
  const path = names.includes(MODEL) ? join(dir, MODEL) : join(dir, 'onnx', MODEL);
  const pooling = names.includes('1_Pooling') && (await listFiles(join(dir, '1_Pooling'))).includes('config.json');
  const wanted = ['tokenizer.json', ...SETTINGS.filter((name) => names.includes(name)), ...(pooling ? [POOLING] : [])];
  const texts: Record<string, Readonly<Record<string, unknown>>> = {};
  const hashes = [[MODEL, (await hashFile(path)).sha256]];
  for (const name of wanted) {
    const { content, facts } = await readSmallFile(join(dir, name));
    texts[name] = parsed(name, content);
    hashes.push([name, facts.sha256]);
  }
  return { texts: texts as Texts, path, id: `embedding-${hashId(hashes)}` };
}

function parsed(name: string, content: Uint8Array): Readonly<Record<string, unknown>> {
  try {
    return JSON.parse(new TextDecoder().decode(content));
  } catch (cause) {
    throw unsupported(`${name} is not JSON: ${(cause as Error).message}`, cause);
  }
}

/** The output to take. A model that pools otherwise than by the mean must have an output with the vector. */
function outputOf({ inputs, outputs }: OnnxFileFacts, texts: Texts): string {
  const names = inputs.map(({ name }) => name);
  const foreign = inputs.find(({ name, type }) => !INPUTS.includes(name) || (type !== INT64 && type !== INT32));
  if (foreign || !names.includes('input_ids') || !names.includes('attention_mask')) {
    throw unsupported(
      `An embedding model takes input_ids, attention_mask and perhaps token_type_ids, not ${got(names)}.`,
    );
  }
  const output = OUTPUTS.find((name) => outputs.some((one) => one.name === name && one.type === FLOAT32));
  if (output === undefined) {
    const found = got(outputs.map(({ name }) => name));
    throw unsupported(`An embedding model gives one of ${OUTPUTS.join(', ')} as 32-bit floats, not ${found}.`);
  }
  const pooling = texts[POOLING];
  if (output !== 'sentence_embedding' && pooling && pooling.pooling_mode_mean_tokens !== true) {
    throw unsupported('This model pools its tokens otherwise than by their mean, which is not read.');
  }
  return output;
}

/** The smallest context length in any file of the model. */
function longest(texts: Texts): number {
  const lengths = [
    texts['sentence_bert_config.json']?.max_seq_length,
    texts['config.json']?.max_position_embeddings,
    texts['tokenizer_config.json']?.model_max_length,
  ].filter((one): one is number => typeof one === 'number' && one > 0 && one <= 1 << 20);
  return lengths.length === 0 ? USUAL_LENGTH : Math.max(8, Math.floor(Math.min(...lengths)));
}

const unsupported = (message: string, cause?: unknown): TroupeError =>
  new TroupeError('model_unsupported', message, {
    hint: 'Export it with mean pooling as sentence-transformers does, in one ONNX file.',
    ...(cause === undefined ? {} : { cause }),
  });
