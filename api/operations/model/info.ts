/** What a model's directory, an adapter's, or a single file of weights holds. */
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { TroupeError } from '../../../errors.ts';
import { openAdapter } from '../../../trainer/model/adapter-directory.ts';
import { checkOnnxFile } from '../../../trainer/model/files/onnx-file.ts';
import {
  listDirectoryTensors,
  listTensors,
  sniffPath,
  summed,
  type TensorList,
} from '../../../trainer/model/files/tensor-list.ts';
import { openModel } from '../../../trainer/model/model-directory.ts';

export async function info(
  _: unknown,
  { path, tensors: listed }: { readonly path: string; readonly tensors: boolean },
) {
  const { list, ...found } = await infoOf(resolve(path));
  const tensor_list = list.map(({ name, dtype, shape, bytes }) => ({ name, dtype, shape, bytes }));
  return { ...found, ...(listed ? { tensor_list } : {}) };
}

async function infoOf(path: string) {
  const facts = await stat(path).catch(() => null);
  if (facts === null) throw new TroupeError('not_found', `There is no model, adapter or file at ${path}.`);
  if (!facts.isDirectory()) return fileInfo(path);
  const has = async (name: string): Promise<boolean> => (await stat(resolve(path, name)).catch(() => null)) !== null;
  return !(await has('config.json')) && (await has('adapter_config.json')) ? adapterInfo(path) : modelInfo(path);
}

async function modelInfo(directory: string) {
  const { id, config, weights, tokenizer, template, eosIds, meta } = await openModel(directory);
  return {
    ...{ kind: 'model' as const, checkpoint_id: id, directory },
    ...counted([...(await listDirectoryTensors(directory))]),
    parameters: [...weights.values()].reduce((sum, { data }) => sum + data.length, 0),
    config,
    tokenizer: { vocab_size: tokenizer.vocabSize, bos: tokenizer.bos, eos: tokenizer.eos, pad: tokenizer.pad },
    eos_ids: eosIds,
    eos_tokens: eosIds.map((one) => tokenizer.token(one) ?? String(one)),
    chat_template: template !== null,
    answer_form: template?.answerForm ?? null,
    meta,
  };
}

async function adapterInfo(directory: string) {
  const { adapter, weights, baseModel } = await openAdapter(directory);
  return {
    ...{ kind: 'adapter' as const, directory },
    ...counted([...(await listDirectoryTensors(directory))]),
    parameters: [...weights.values()].reduce((sum, { data }) => sum + data.length, 0),
    ...{ adapter, base_model: baseModel },
  };
}

async function fileInfo(file: string) {
  if ((await sniffPath(file)) === 'onnx') return onnxInfo(file);
  const list = await listTensors(file);
  return { ...{ kind: 'safetensors' as const, file }, ...counted([['file', list]]), metadata: list.metadata };
}

/** TensorProto.DataType by number, as far as models use it. */
const ONNX_TYPES: Readonly<Record<number, string>> = {
  1: 'float32',
  6: 'int32',
  7: 'int64',
  9: 'bool',
  10: 'float16',
  11: 'float64',
  16: 'bfloat16',
};

async function onnxInfo(file: string) {
  const { inputs, outputs, ...facts } = checkOnnxFile(file);
  const { size: bytes } = await stat(file);
  const named = (ports: typeof inputs) => ports.map((port) => ({ ...port, type: ONNX_TYPES[port.type] ?? port.type }));
  return { kind: 'onnx' as const, file, bytes, ...facts, inputs: named(inputs), outputs: named(outputs), list: [] };
}

function counted(lists: readonly (readonly [string, TensorList])[]) {
  const list = lists.flatMap(([, { tensors }]) => tensors);
  const bytes = lists.reduce((sum, [, of]) => sum + of.bytes, 0);
  return { ...summed(list), tensors: list.length, bytes, files: lists.length, list };
}
