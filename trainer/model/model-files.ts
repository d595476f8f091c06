/**
 * The files of a model's directory in the Hugging Face layout that vouches for nothing: text files and weights, in one
 * safetensors file or in the shards an index names, read once and hashed on the way. Nothing but safetensors is opened.
 */
import { join } from 'node:path';
import { got, TroupeError } from '../../errors.ts';
import { listFiles } from './checkpoints/checkpoint.ts';
import { checkpointDamaged, SIDE_FILES, WEIGHTS } from './checkpoints/checkpoint-format.ts';
import { type FileFacts, type Files, type FilesFacts, together } from './files/atomic.ts';
import { fill, hashFile, readSmallFile, withFile } from './files/read-file.ts';
import { readSafetensorsFile } from './files/safetensors-file.ts';
import { type FileGuess, SNIFFED_BYTES, sniffFile } from './files/sniff.ts';
import type { Tensor, Weights } from './weights.ts';

export const INDEX = 'model.safetensors.index.json';

/** Whether a file of a directory belongs to the model: a clone may hold anything else beside it. */
const isModelFile = (name: string): boolean =>
  name === 'config.json' || name.includes('.safetensors') || (SIDE_FILES as readonly string[]).includes(name);

/**
 * Reads a model's directory. Throws `not_found` where it or its config.json is not there, `model_unsupported` for weights
 * of another kind, which are named by their contents, `checkpoint_damaged` for a file that is not sound and for shards
 * that do not match their index.
 */
export async function readModelFiles(dir: string): Promise<{
  /** config.json and the side files that are there, by name. */
  readonly texts: Files;
  readonly weights: Weights;
  /** Of every file that belongs to the model, those above and all safetensors files of the directory. */
  readonly facts: FilesFacts;
}> {
  const names = await listFiles(dir);
  if (!names.includes('config.json')) {
    throw new TroupeError('not_found', `${dir} is not a model directory: it has no config.json.`);
  }
  const facts: Record<string, FileFacts> = {};
  const texts = new Map<string, Uint8Array>();
  for (const name of names.filter((one) => isModelFile(one) && (one === INDEX || !one.includes('.safetensors')))) {
    const read = await readSmallFile(join(dir, name));
    facts[name] = read.facts;
    texts.set(name, read.content);
  }
  const read = async (name: string): Promise<Weights> => {
    const { tensors, facts: found } = await readSafetensorsFile(join(dir, name));
    facts[name] = found;
    return tensors;
  };
  const index = texts.get(INDEX);
  const weights = names.includes(WEIGHTS)
    ? await read(WEIGHTS)
    : index
      ? await readShards(dir, index, names, read)
      : await refuseOthers(dir, names);
  await together(
    names.map(async (name) => {
      if (isModelFile(name) && !(name in facts)) facts[name] = await hashFile(join(dir, name));
    }),
  );
  texts.delete(INDEX);
  return { texts, weights, facts };
}

/** Every tensor from the shard its index names, and none from another: two readers must not see two models. */
async function readShards(
  dir: string,
  index: Uint8Array,
  names: readonly string[],
  read: (name: string) => Promise<Weights>,
): Promise<Weights> {
  const map = weightMap(index);
  const tensors = new Map<string, Tensor>();
  for (const shard of new Set(map.values())) {
    if (!names.includes(shard) || !shard.endsWith('.safetensors')) {
      throw checkpointDamaged(`the index of ${dir} names ${got(shard)}, which is not there`);
    }
    for (const [name, tensor] of await read(shard)) {
      if (map.get(name) !== shard) throw checkpointDamaged(`${shard} holds ${got(name)}, which is not in its index`);
      tensors.set(name, tensor);
    }
  }
  const missing = [...map.keys()].find((name) => !tensors.has(name));
  if (missing !== undefined) throw checkpointDamaged(`the shards of ${dir} do not hold ${got(missing)}`);
  return tensors;
}

function weightMap(index: Uint8Array): ReadonlyMap<string, string> {
  let map: unknown;
  try {
    map = (JSON.parse(new TextDecoder().decode(index)) as { weight_map?: unknown } | null)?.weight_map;
  } catch (cause) {
    throw checkpointDamaged(`${INDEX} is not JSON`, cause);
  }
  const entries = typeof map === 'object' && map !== null ? Object.entries(map) : [];
  const wrong = entries.find(([, shard]) => typeof shard !== 'string');
  if (entries.length === 0 || wrong) throw checkpointDamaged(`${INDEX} maps ${got(wrong ?? map)}`);
  return new Map(entries as [string, string][]);
}

async function refuseOthers(dir: string, names: readonly string[]): Promise<never> {
  const other = names.find((name) =>
    /\.(bin|pt|pth|pkl|ckpt|h5|keras|gguf|ggml|npz|msgpack|onnx|zip|7z|tar|gz)$/i.test(name),
  );
  const found = other === undefined ? null : await sniffed(join(dir, other)).catch(() => null);
  const what = found ? `; ${other} is ${found.says}, and is not read` : '';
  throw new TroupeError('model_unsupported', `${dir} has no ${WEIGHTS}${what}.`, {
    expected: `${WEIGHTS}, or shards with ${INDEX}`,
    got: found ? `${other}: ${found.kind}` : 'no weights',
    hint:
      found?.hint ?? 'Save it again with a current transformers, which writes safetensors: model.save_pretrained(DIR).',
  });
}

/** What a file is by its first bytes. Throws as `withFile` does. */
const sniffed = (path: string): Promise<FileGuess> =>
  withFile(path, async ({ file, bytes }) => {
    const first = new Uint8Array(Math.min(SNIFFED_BYTES, bytes));
    await fill(file, 0, [{ into: first }], () => {});
    return sniffFile(first);
  });
