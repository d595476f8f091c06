/** Models as text for people. */
import { countText } from '../../../errors.ts';
import { adapterText } from '../../../trainer/model/lora.ts';
import { bytesText } from '../bytes.ts';
import type { OutputOf, Printer } from '../operation.ts';
import type { exportModel } from './export.ts';
import type { info } from './info.ts';
import type { merge } from './merge.ts';
import type { newModel } from './new.ts';

/** Refused lines that a person is shown; --json has all of them. */
const MOST_LISTED = 20;

export function made(
  { checkpoint_id, directory, vocab_size, parameters, training_bytes, texts, errors = [] }: OutputOf<typeof newModel>,
  { say }: Printer,
): string {
  for (const { file, line, expected, got } of errors.slice(0, MOST_LISTED))
    say(`${file}:${line}: left out; expected ${expected}, got ${got}`);
  if (errors.length > MOST_LISTED) say(`… and ${errors.length - MOST_LISTED} more lines`);
  return [
    `Model ${checkpoint_id} with ${vocab_size} ${texts === undefined ? 'words' : 'tokens'} written to ${directory}`,
    `${parameters.toLocaleString('en')} parameters; training all of them takes about ${bytesText(training_bytes)} of memory`,
  ].join('\n');
}

export const merged = ({ checkpoint_id, base, adapter, directory }: OutputOf<typeof merge>): string =>
  `Model ${checkpoint_id}, ${base} with its adapter of rank ${adapter.r}, written to ${directory}`;

export const exported = ({ checkpoint_id, directory, files, bytes }: OutputOf<typeof exportModel>): string =>
  `Model ${checkpoint_id} written to ${directory}: ${countText(Object.keys(files).length, 'file')}, ${bytesText(bytes)}`;

type Info = OutputOf<typeof info>;

export function described(found: Info, { table }: Printer): string {
  const { parameters, bytes, tensor_list } = found;
  const [first, ...more] = rowsOf(found);
  const stored =
    found.kind === 'onnx'
      ? [['bytes', `${bytes} (${bytesText(bytes)})`]]
      : [
          ['stored as', found.dtypes.join(', ') || 'nothing'],
          ['tensors', found.tensors],
          ['bytes', `${bytes} (${bytesText(bytes)})`],
          ...(found.files > 1 ? [['files', found.files]] : []),
        ];
  const rows = [first!, ['parameters', parameters.toLocaleString('en')], ...stored, ...more];
  const tensors = tensor_list?.map(({ name, dtype, shape, bytes }) => [name, dtype, shape.join(' × '), bytes]);
  return [
    table(['what', 'value'], rows),
    ...(tensors === undefined ? [] : ['', table(['tensor', 'dtype', 'shape', 'bytes'], tensors)]),
  ].join('\n');
}

/** What is shown first, and what comes behind the counts. */
function rowsOf(found: Info): (readonly [what: string, value: unknown])[] {
  if (found.kind === 'safetensors')
    return [
      ['file', found.file],
      ...Object.entries(found.metadata).map(([name, value]) => [`metadata ${name}`, value] as const),
    ];
  if (found.kind === 'adapter') {
    const { r, alpha, useRslora, targets } = found.adapter;
    return [
      ['adapter of', found.base_model],
      ['rank', r],
      ['alpha', alpha],
      ['scaling', useRslora ? 'alpha / √rank' : 'alpha / rank'],
      ['maps', targets.join(' ')],
    ];
  }
  if (found.kind === 'onnx') {
    const line = (ports: typeof found.inputs): string =>
      ports
        .map(({ name, type, shape }) => `${name} ${type} [${(shape ?? ['any']).map((dim) => dim ?? '?').join(', ')}]`)
        .join('; ');
    const opsets = Object.entries(found.opsets).map(([domain, version]) => `${domain || 'onnx'} ${version}`);
    return [
      ['file', found.file],
      ['takes', line(found.inputs)],
      ['gives', line(found.outputs)],
      ['nodes', found.nodes],
      ['operators', found.operators.length],
      ['opsets', opsets.join(', ')],
    ];
  }
  const { config, meta } = found;
  return [
    ['checkpoint', found.checkpoint_id],
    ['family', config.model_type],
    ['layers × width', `${config.num_hidden_layers} × ${config.hidden_size}`],
    ['heads', `${config.num_attention_heads}, keys and values ${config.num_key_value_heads}`],
    ['context', config.max_position_embeddings],
    ['vocabulary', found.tokenizer.vocab_size],
    ['ends a reply', found.eos_tokens.join(' ')],
    ['chat template', found.chat_template ? 'yes' : 'none'],
    ['writes an answer as', found.answer_form ? JSON.stringify(found.answer_form) : null],
    ['adapter', meta.adapter ? `${adapterText(meta.adapter)}, folded in over ${meta.adapter.base}` : null],
    ['parent', meta.parent],
    ['step', meta.step],
    ['datasets', meta.datasets.length === 0 ? null : meta.datasets.join(' ')],
    ['seed', meta.seed],
  ];
}
