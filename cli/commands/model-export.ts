/** `troupe model export`: a model as other programs load it. */
import { basename, dirname, resolve } from 'node:path';
import { type Command, Option } from 'commander';
import { bytesText } from '../../api/operations/bytes.ts';
import { countText, TroupeError } from '../../errors.ts';
import type { Parts } from '../../trainer/model/files/disk.ts';
import type { OpenModel } from '../../trainer/model/model-directory.ts';
import { byteSize, type Flags, plainCommand } from '../command.ts';
import { print, printJson } from '../output.ts';

const DTYPES = { f32: 'F32', f16: 'F16', bf16: 'BF16' } as const;

export function modelExportCommand(model: Command): void {
  plainCommand(
    model
      .command('export')
      .description('write a model as safetensors in the Hugging Face layout, or as one ONNX file')
      .requiredOption('--model <dir>', 'a checkpoint, or any model in the Hugging Face layout')
      .requiredOption('--out <dir>', 'directory to write; must not exist or be empty')
      .addOption(new Option('--format <name>', 'hf, or onnx for ONNX Runtime').choices(['hf', 'onnx']).default('hf'))
      .addOption(
        new Option('--dtype <name>', 'how weights are stored; 16 bits round to nearest')
          .choices(Object.keys(DTYPES))
          .default('f32'),
      )
      .option(
        '--max-shard <size>',
        'bytes of one safetensors file at most, such as 500MB or 2GiB',
        byteSize('max-shard'),
      )
      .addHelpText(
        'after',
        `
hf writes config.json, model.safetensors (or shards and their index), tokenizer and chat template. onnx writes the same but
for the weights, which are in model.onnx: input_ids [batch, sequence] int64 in, logits [batch, sequence, vocabulary] out,
rows padded on the right. It is in 32-bit floats and holds less than 2 GiB.

Examples:
  troupe model export --model ./model --out ./for-others --dtype bf16 --max-shard 2GiB
  troupe model export --model ./model --out ./onnx --format onnx`,
      ),
    async (_, flags) => {
      const [{ openModel }, { publishDirectory }] = await Promise.all([
        import('../../trainer/model/model-directory.ts'),
        import('../../trainer/model/files/atomic.ts'),
      ]);
      if (flags.format === 'onnx' && (flags.dtype !== 'f32' || flags.maxShard !== undefined)) {
        throw new TroupeError('usage', 'An ONNX file is written whole and in f32; leave out --dtype and --max-shard.');
      }
      const out = resolve(String(flags.out));
      const model = await openModel(resolve(String(flags.model)));
      const files = flags.format === 'onnx' ? await onnxFiles(model) : await safetensorsFiles(model, flags);
      const sizes: Record<string, number> = {};
      await publishDirectory(dirname(out), files, (facts) => {
        for (const [name, { bytes }] of Object.entries(facts).sort(([a], [b]) => (a < b ? -1 : 1))) sizes[name] = bytes;
        return { name: basename(out), files: new Map() };
      });
      const bytes = Object.values(sizes).reduce((a, b) => a + b, 0);
      if (flags.json) {
        printJson({
          checkpoint_id: model.id,
          directory: out,
          format: flags.format,
          dtype: flags.dtype,
          bytes,
          files: sizes,
        });
      } else
        print(
          `Model ${model.id} written to ${out}: ${countText(Object.keys(sizes).length, 'file')}, ${bytesText(bytes)}`,
        );
    },
  );
}

async function safetensorsFiles(model: OpenModel, flags: Flags): Promise<ReadonlyMap<string, Parts>> {
  const { modelFiles } = await import('../../trainer/model/model-export.ts');
  return modelFiles(model, {
    dtype: DTYPES[flags.dtype as keyof typeof DTYPES],
    ...(flags.maxShard === undefined ? {} : { maxShard: Number(flags.maxShard) }),
  });
}

async function onnxFiles(model: OpenModel): Promise<ReadonlyMap<string, Parts>> {
  const [{ modelFiles }, { exportOnnx }] = await Promise.all([
    import('../../trainer/model/model-export.ts'),
    import('../../trainer/model/onnx-export.ts'),
  ]);
  const texts = [...modelFiles(model)].filter(([name]) => !name.includes('safetensors'));
  return new Map<string, Parts>([...texts, ['model.onnx', [exportOnnx(model.config, model.weights)]]]);
}
