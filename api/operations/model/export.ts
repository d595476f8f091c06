/** A model as other programs load it. */
import { basename, dirname, resolve } from 'node:path';
import { TroupeError } from '../../../errors.ts';
import { publishDirectory } from '../../../trainer/model/files/atomic.ts';
import type { FileParts } from '../../../trainer/model/files/disk.ts';
import { type OpenModel, openModel } from '../../../trainer/model/model-directory.ts';
import { modelFiles } from '../../../trainer/model/model-export.ts';

const DTYPES = { f32: 'F32', f16: 'F16', bf16: 'BF16' } as const;

export async function exportModel(
  _: unknown,
  {
    model: from,
    out,
    format,
    dtype,
    max_shard: maxShard,
  }: {
    readonly [K in 'model' | 'out' | 'format']: string;
  } & { readonly dtype: keyof typeof DTYPES; readonly max_shard?: number },
) {
  if (format === 'onnx' && (dtype !== 'f32' || maxShard !== undefined))
    throw new TroupeError('usage', 'An ONNX file is written whole and in f32; leave out --dtype and --max-shard.');
  const directory = resolve(out);
  const model = await openModel(resolve(from));
  const shards = { dtype: DTYPES[dtype], ...(maxShard === undefined ? {} : { maxShard }) };
  const written = format === 'onnx' ? await onnxFiles(model) : modelFiles(model, shards);
  const files: Record<string, number> = {};
  await publishDirectory(dirname(directory), written, (facts) => {
    for (const [name, { bytes }] of Object.entries(facts).sort(([a], [b]) => (a < b ? -1 : 1))) files[name] = bytes;
    return { name: basename(directory), files: new Map() };
  });
  const bytes = Object.values(files).reduce((a, b) => a + b, 0);
  return { checkpoint_id: model.id, directory, format, dtype, bytes, files };
}

async function onnxFiles(model: OpenModel): Promise<ReadonlyMap<string, FileParts>> {
  const { exportOnnx } = await import('../../../trainer/model/onnx-export.ts');
  const texts = [...modelFiles(model)].filter(([name]) => !name.includes('safetensors'));
  return new Map<string, FileParts>([...texts, ['model.onnx', [exportOnnx(model.config, model.weights)]]]);
}
