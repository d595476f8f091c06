/** `troupe model info`: what a model's directory, an adapter's, or a single file of weights holds. */
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { bytesText } from '../../api/operations/bytes.ts';
import { TroupeError } from '../../errors.ts';
import type { ListedTensor, TensorList } from '../../trainer/model/files/tensor-list.ts';
import { plainCommand } from '../command.ts';
import { print, printJson, table } from '../output.ts';

/** The report on one path: a document for programs, and rows of a table for people. */
type Info = {
  readonly document: Readonly<Record<string, unknown>>;
  readonly rows: readonly (readonly [what: string, value: unknown])[];
  readonly tensors: readonly ListedTensor[];
};

export function modelInfoCommand(model: Command): void {
  plainCommand(
    model
      .command('info')
      .description('show what a model directory, an adapter or a weights file holds, and verify hashes')
      .argument(
        '<path>',
        'directory of a checkpoint, a model in the Hugging Face layout or an adapter; or a .safetensors or .onnx file',
      )
      .option('--tensors', 'list every tensor')
      .addHelpText(
        'after',
        '\nNothing in a file is ever run. A file is known by its contents, not by its name.\n\nExamples:\n  troupe model info ./model --json\n  troupe model info ./adapter\n  troupe model info ./model/model.safetensors --tensors\n  troupe model info ./onnx/model.onnx',
      ),
    async ([path], flags) => {
      const { document, rows, tensors } = await infoOf(resolve(path!));
      const listed = tensors.map(({ name, dtype, shape, bytes }) => ({ name, dtype, shape, bytes }));
      if (flags.json) printJson({ ...document, ...(flags.tensors ? { tensor_list: listed } : {}) });
      else {
        print(table(['what', 'value'], rows));
        if (flags.tensors) {
          const cells = listed.map(({ name, dtype, shape, bytes }) => [name, dtype, shape.join(' × '), bytes]);
          print(`\n${table(['tensor', 'dtype', 'shape', 'bytes'], cells)}`);
        }
      }
    },
  );
}

async function infoOf(path: string): Promise<Info> {
  const facts = await stat(path).catch(() => null);
  if (facts === null) throw new TroupeError('not_found', `There is no model, adapter or file at ${path}.`);
  if (!facts.isDirectory()) return fileInfo(path);
  const has = async (name: string): Promise<boolean> => (await stat(resolve(path, name)).catch(() => null)) !== null;
  return !(await has('config.json')) && (await has('adapter_config.json')) ? adapterInfo(path) : modelInfo(path);
}

async function modelInfo(dir: string): Promise<Info> {
  const [{ openModel }, { listDirectoryTensors }, { adapterText }] = await Promise.all([
    import('../../trainer/model/model-directory.ts'),
    import('../../trainer/model/files/tensor-list.ts'),
    import('../../trainer/model/lora.ts'),
  ]);
  const { id, config, weights, tokenizer, template, eosIds, meta } = await openModel(dir);
  const parameters = [...weights.values()].reduce((sum, { data }) => sum + data.length, 0);
  const { counts, rows, tensors } = await counted([...(await listDirectoryTensors(dir))]);
  return {
    document: {
      kind: 'model',
      checkpoint_id: id,
      directory: dir,
      ...counts,
      parameters,
      config,
      tokenizer: { vocab_size: tokenizer.vocabSize, bos: tokenizer.bos, eos: tokenizer.eos, pad: tokenizer.pad },
      eos_ids: eosIds,
      chat_template: template !== null,
      answer_form: template?.answerForm ?? null,
      meta,
    },
    rows: [
      ['checkpoint', id],
      ['parameters', parameters.toLocaleString('en')],
      ...rows,
      ['family', config.model_type],
      ['layers × width', `${config.num_hidden_layers} × ${config.hidden_size}`],
      ['heads', `${config.num_attention_heads}, keys and values ${config.num_key_value_heads}`],
      ['context', config.max_position_embeddings],
      ['vocabulary', tokenizer.vocabSize],
      ['ends a reply', eosIds.map((one) => tokenizer.token(one) ?? one).join(' ')],
      ['chat template', template === null ? 'none' : 'yes'],
      ['writes an answer as', template?.answerForm ? JSON.stringify(template.answerForm) : null],
      ['adapter', meta.adapter ? `${adapterText(meta.adapter)}, folded in over ${meta.adapter.base}` : null],
      ['parent', meta.parent],
      ['step', meta.step],
      ['datasets', meta.datasets.length === 0 ? null : meta.datasets.join(' ')],
      ['seed', meta.seed],
    ],
    tensors,
  };
}

async function adapterInfo(dir: string): Promise<Info> {
  const [{ openAdapter }, { listDirectoryTensors }] = await Promise.all([
    import('../../trainer/model/adapter-directory.ts'),
    import('../../trainer/model/files/tensor-list.ts'),
  ]);
  const { adapter, weights, baseModel } = await openAdapter(dir);
  const parameters = [...weights.values()].reduce((sum, { data }) => sum + data.length, 0);
  const { counts, rows, tensors } = await counted([...(await listDirectoryTensors(dir))]);
  return {
    document: { kind: 'adapter', directory: dir, ...counts, parameters, adapter, base_model: baseModel },
    rows: [
      ['adapter of', baseModel],
      ['parameters', parameters.toLocaleString('en')],
      ...rows,
      ['rank', adapter.r],
      ['alpha', adapter.alpha],
      ['scaling', adapter.useRslora ? 'alpha / √rank' : 'alpha / rank'],
      ['maps', adapter.targets.join(' ')],
    ],
    tensors,
  };
}

async function fileInfo(path: string): Promise<Info> {
  const { sniffPath, listTensors } = await import('../../trainer/model/files/tensor-list.ts');
  if ((await sniffPath(path)) === 'onnx') return onnxInfo(path);
  const list = await listTensors(path);
  const { counts, rows, tensors } = await counted([['file', list]]);
  return {
    document: { kind: 'safetensors', file: path, ...counts, metadata: list.metadata },
    rows: [
      ['file', path],
      ['parameters', counts.parameters.toLocaleString('en')],
      ...rows,
      ...Object.entries(list.metadata).map(([name, value]): [string, unknown] => [`metadata ${name}`, value]),
    ],
    tensors,
  };
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

async function onnxInfo(path: string): Promise<Info> {
  const { checkOnnxFile } = await import('../../trainer/model/files/onnx-file.ts');
  const { inputs, outputs, ...facts } = checkOnnxFile(path);
  const { size: bytes } = await stat(path);
  const named = (ports: typeof inputs) => ports.map((port) => ({ ...port, type: ONNX_TYPES[port.type] ?? port.type }));
  const line = (ports: typeof inputs): string =>
    named(ports)
      .map(({ name, type, shape }) => `${name} ${type} [${(shape ?? ['any']).map((dim) => dim ?? '?').join(', ')}]`)
      .join('; ');
  return {
    document: { kind: 'onnx', file: path, bytes, ...facts, inputs: named(inputs), outputs: named(outputs) },
    rows: [
      ['file', path],
      ['parameters', facts.parameters.toLocaleString('en')],
      ['bytes', `${bytes} (${bytesText(bytes)})`],
      ['takes', line(inputs)],
      ['gives', line(outputs)],
      ['nodes', facts.nodes],
      ['operators', facts.operators.length],
      [
        'opsets',
        Object.entries(facts.opsets)
          .map(([domain, version]) => `${domain || 'onnx'} ${version}`)
          .join(', '),
      ],
    ],
    tensors: [],
  };
}

async function counted(lists: readonly (readonly [string, TensorList])[]) {
  const { summed } = await import('../../trainer/model/files/tensor-list.ts');
  const tensors = lists.flatMap(([, list]) => list.tensors);
  const { parameters, dtypes } = summed(tensors);
  const bytes = lists.reduce((sum, [, list]) => sum + list.bytes, 0);
  const rows: [string, unknown][] = [
    ['stored as', dtypes.join(', ') || 'nothing'],
    ['tensors', tensors.length],
    ['bytes', `${bytes} (${bytesText(bytes)})`],
    ...(lists.length > 1 ? [['files', lists.length] as [string, unknown]] : []),
  ];
  return { counts: { parameters, dtypes, tensors: tensors.length, bytes }, rows, tensors };
}
